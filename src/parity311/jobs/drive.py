"""Hand jobs out to an engine: what is finished is kept, what was lost is tried again.

The driver owns every retry. A worker or a machine that is lost costs its job one try of
`MOST_TRIES`; a user's error fails the job at once; either way the others go on and the failed are
told with their specification. A full disk stops everything. One driver at a time works on a folder
(or on a shard of it), and Ctrl-C leaves no worker and nothing half-written behind.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from parity311.errors import RunError
from parity311.jobs.attempt import DONE, FAILED, FULL, order_of, read_result
from parity311.jobs.job import Job, Stamp, this_machine
from parity311.storage.disk import telling_disk_errors
from parity311.storage.folders import remove_dead_asides
from parity311.storage.locks import one_writer
from parity311.storage.strict_json import write_json

MOST_TRIES = 3
KEPT_BEFORE = "kept"
"""State of a job that was finished before."""
FAILURES = "failed"
"""Folder of what failed, with its specification."""
HEAR_S = 0.5
Answer = tuple[str, dict[str, Any] | None]
"""A worker by name and what it said; None where it was lost."""


class Engine(Protocol):
    """Where jobs run: workers that each do one job at a time."""

    words: str
    """what it is, for people"""

    def open(self, jobs: Sequence[Job], stamp: Stamp) -> None:
        """Start workers, or refuse in one line: too little memory, no answer, other versions."""
        ...

    def idle(self) -> list[str]:
        """Workers that wait for a job; one that was lost is replaced here where it can be."""
        ...

    def give(self, worker: str, order: dict[str, Any]) -> None:
        """Let a worker begin."""
        ...

    def hear(self, seconds: float) -> list[Answer]:
        """Who has ended or was lost, waiting for so long at most."""
        ...

    def close(self) -> None:
        """End every worker, whatever it does."""
        ...


@dataclass(frozen=True)
class Shard:
    """Jobs of one of several drivers: those whose key leaves `place` when divided by `n`."""

    place: int
    n: int

    def holds(self, key: str) -> bool:
        """Whether a job is of this shard."""
        return int(key, 16) % self.n == self.place


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    job: Job
    state: str
    """done, kept (was done before) or failed"""
    folder: Path | None
    result: Any = None
    reason: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_mb: float = 0.0
    host: str = ""
    tries: int = 1

    @property
    def is_there(self) -> bool:
        """Whether there is a result."""
        return self.state in (DONE, KEPT_BEFORE)


Tell = Callable[[int, int, Outcome], None]
"""(ended so far, total, the last): what is called when a job ends."""


def run_jobs(
    jobs: Sequence[Job],
    engine: Engine,
    *,
    folder: Path | None = None,
    shard: Shard | None = None,
    tell: Tell | None = None,
    stop_after_s: float = float("inf"),
) -> list[Outcome]:
    """Do jobs; how each ended, in the order of the jobs.

    Parameters
    ----------
    folder
        Where results are kept and found again; without it nothing is kept.
    shard
        Which part of the jobs is done here; of the others only what is finished is returned.
    stop_after_s
        No job begins after so many seconds; those not begun are left out.
    """
    stamp = this_machine()
    found: dict[str, Outcome] = {}
    with ExitStack() as held:
        if folder is not None:
            held.enter_context(_one_driver(folder, shard))
            remove_dead_asides(folder)
        keys = {id(job): job.key(stamp) for job in jobs}
        left = []
        for job in jobs:
            kept = _find_kept(job, stamp, folder)
            if kept is not None:
                found[keys[id(job)]] = kept
            elif shard is None or shard.holds(keys[id(job)]):
                left.append(job)
        total = len(found) + len(left)
        if left:
            for outcome in _drive(left, engine, stamp, folder, stop_after_s):
                found[keys[id(outcome.job)]] = outcome
                if tell is not None:
                    tell(len(found), total, outcome)
        elif tell is not None and found:
            tell(total, total, next(iter(found.values())))
    return [found[keys[id(job)]] for job in jobs if keys[id(job)] in found]


def _one_driver(folder: Path, shard: Shard | None) -> Any:
    """Be the only driver of a folder, or of a shard of it; a second one is told so."""
    name = folder / ("driver" if shard is None else f"driver-{shard.place}-of-{shard.n}")
    return one_writer(name)


def _find_kept(job: Job, stamp: Stamp, folder: Path | None) -> Outcome | None:
    """The result of an earlier run; what was damaged since is removed, to be made again."""
    if folder is None:
        return None
    place = folder / job.folder_name(stamp)
    if not place.is_dir():
        return None
    is_whole, result = read_result(place, job.key(stamp))
    if not is_whole:
        shutil.rmtree(place, ignore_errors=True)
        return None
    return Outcome(job, KEPT_BEFORE, place, result)


def _drive(
    jobs: Sequence[Job], engine: Engine, stamp: Stamp, folder: Path | None, stop_after_s: float
) -> Iterator[Outcome]:
    waiting = [(job, 1) for job in jobs]
    running: dict[str, tuple[Job, int]] = {}
    programs: dict[str, str] = {}
    began = time.monotonic()
    try:
        engine.open(jobs, stamp)
        while waiting or running:
            if time.monotonic() - began > stop_after_s:
                waiting.clear()
            for worker in engine.idle() if waiting else ():
                if not waiting:
                    break
                place = _pick(waiting, programs.get(worker))
                running[worker] = waiting.pop(place)
                programs[worker] = running[worker][0].program
                engine.give(worker, order_of(running[worker][0], stamp, folder))
            if not running:
                if waiting:
                    raise RunError(
                        f"No worker of {engine.words} is left and {len(waiting)} jobs are not "
                        "done; what is finished is kept, run the same command again."
                    )
                break
            for worker, said in engine.hear(HEAR_S):
                job, tries = running.pop(worker)
                outcome = _judge(job, tries, said, stamp, folder)
                if outcome is None:
                    waiting.insert(0, (job, tries + 1))
                else:
                    yield outcome
    finally:
        engine.close()
        if folder is not None:
            remove_dead_asides(folder)


def _pick(waiting: Sequence[tuple[Job, int]], program: str | None) -> int:
    """The first job of the program that a worker has compiled, else the first of all."""
    if program:
        for place, (job, _) in enumerate(waiting):
            if job.program == program:
                return place
    return 0


def _judge(
    job: Job, tries: int, said: dict[str, Any] | None, stamp: Stamp, folder: Path | None
) -> Outcome | None:
    """How a job ended; None where it is tried again."""
    said = said or {"state": "lost", "reason": "its worker was lost"}
    if said["state"] == DONE:
        place = folder / job.folder_name(stamp) if folder is not None else None
        measured = {n: said[n] for n in ("seconds", "cpu_seconds", "memory_mb", "host")}
        return Outcome(job, DONE, place, said["result"], tries=tries, **measured)
    if said["state"] == FULL:
        raise RunError(f"{said['reason']} Finished jobs are kept: run the same command again.")
    if said["state"] != FAILED and tries < MOST_TRIES:
        return None
    if folder is not None:
        _keep_failure(job, said, stamp, folder)
    return Outcome(job, FAILED, None, reason=said["reason"], tries=tries)


def _keep_failure(job: Job, said: dict[str, Any], stamp: Stamp, folder: Path) -> None:
    place = folder / FAILURES / f"{job.folder_name(stamp)}.json"
    with telling_disk_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        about = {"function": job.function, "spec": job.spec, "reason": said["reason"]}
        write_json(place, about | {"log": said.get("log", [])})


def check_done(outcomes: Sequence[Outcome], n_jobs: int, folder: Path | None = None) -> None:
    """Refuse to go on where a job failed or is of another shard, with what to do next."""
    failed = [one for one in outcomes if not one.is_there]
    if failed:
        first = failed[0]
        where = f"; specifications are in {folder / FAILURES}" if folder is not None else ""
        raise RunError(
            f"{len(failed)} of {n_jobs} jobs failed, the first is {first.job.name} after "
            f"{first.tries} tries ({first.reason}){where}. What is finished is kept."
        )
    if len(outcomes) < n_jobs:
        raise RunError(
            f"{len(outcomes)} of {n_jobs} jobs are done here; run the other shards, then the same "
            "command without --shard."
        )
