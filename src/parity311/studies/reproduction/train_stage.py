"""The training stage, for a machine on which nothing can be installed.

    python -m parity311.studies.reproduction.train_stage FOLDER --slice-s 400

FOLDER is the folder `learn` that `parity311 reproduce --stage prepare` wrote: a plan and estimated
params, no records and no truth. Needs jax, numpy and safetensors only. Every finished job is a file
below FOLDER/trained; a job that the slice cuts off leaves a checkpoint and goes on next time. The
exit code is 0 when everything is trained, 3 when there is more to do.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity311.jobs.choose import Workplace
from parity311.storage.locks import one_writer
from parity311.studies.reproduction.side_by_side import Call, run_calls

if TYPE_CHECKING:
    from parity311.studies.reproduction.jobs import TrainingJob

MORE_TO_DO = 3
ALONE = Workplace(n_workers=1)
PARAMS, TRAINED, CHECKPOINTS = "params", "trained", "checkpoints"
LEAST_SLICE_S = 20.0
"""A job is not started with less: compiling it would take longer."""
LATER = ("term", "pays_all")
"""Asked since there are two programmes; where empty, what was trained before stays trained."""

Tell = Callable[[dict[str, Any]], None]


def run_stage(
    folder: Path,
    *,
    slice_s: float = float("inf"),
    out: Path | None = None,
    checkpoints: Path | None = None,
    only: str = "*",
    skip: str = "",
    where: Workplace = ALONE,
    tell: Tell | None = None,
) -> dict[str, Any]:
    """Train what is not trained yet, for so many seconds; how far it is then."""
    from parity311.studies.reproduction.jobs import read_plan

    _, jobs = read_plan(folder)
    target = out or folder / TRAINED
    kept = checkpoints or folder / CHECKPOINTS
    # By the clock on the wall: another machine's own clocks begin elsewhere.
    deadline = time.time() + slice_s if slice_s < float("inf") else None
    chosen = [job for job in jobs if _is_named(job, only) and not _is_named(job, skip)]
    left = [job for job in chosen if not is_trained(job, folder, target)]
    # One program serves the same agent in both scenarios: they follow each other in one process.
    groups = groupby(left, key=lambda job: (job.domain, job.agent, job.label))
    calls: list[Call] = [
        (train_apart, ([job.name for job in jobs], folder, target, kept, deadline))
        for _, jobs in groups
    ]

    def report(found: list[dict[str, Any]]) -> None:
        for told in found:
            if tell is not None and told["seconds"] > 0:
                tell(told)

    # Finished jobs and checkpoints may lie in folders of their own; each has one writer.
    with ExitStack() as held:
        for place in (target, kept) if where.shard is None else ():
            held.enter_context(one_writer(place))
        run_calls(calls, where, report)
    missing = [job.name for job in chosen if not is_trained(job, folder, target)]
    return {"jobs": len(chosen), "trained": len(chosen) - len(missing), "missing": missing}


def _is_named(job: TrainingJob, patterns: str) -> bool:
    """Whether a job's name is as one of these patterns, which commas separate."""
    return any(fnmatch(job.name, pattern) for pattern in patterns.split(","))


def is_trained(job: TrainingJob, folder: Path, target: Path) -> bool:
    """Whether a job's agents are there, made from these params, now or in an earlier slice."""
    from parity311.studies.reproduction.trained_files import read_about

    kept = [read_about(place / job.file) for place in dict.fromkeys((target, folder / TRAINED))]
    own = _digest(folder, job)
    return any(about is not None and about.get("identity") == own for about in kept)


def _digest(folder: Path, job: TrainingJob) -> str:
    """What makes a job this one: its params and everything it was asked to do."""
    import hashlib
    from dataclasses import asdict

    digest = hashlib.sha256((folder / PARAMS / job.params_file).read_bytes())
    asked = {name: value for name, value in asdict(job).items() if name not in LATER or value}
    digest.update(json.dumps(asked, sort_keys=True).encode())
    return digest.hexdigest()[:16]


def train_job(
    job: TrainingJob, folder: Path, target: Path, checkpoints: Path, seconds: float
) -> dict[str, Any]:
    """Train one job for at most so many seconds, from its checkpoint where there is one."""
    from parity311.estimation.params_file import read_params
    from parity311.mdp.equity import EquityTerm
    from parity311.studies.reproduction.trained_files import domain_of, settings_of, write_trained
    from parity311.training import train
    from parity311.training.checkpoint import Checkpoints

    if seconds < LEAST_SLICE_S:
        return {"job": job.name, "is_whole": False, "seconds": 0.0}
    domain = domain_of(job)
    params = read_params(folder / PARAMS / job.params_file, domain.play.example())
    began, cpu_began = time.monotonic(), time.process_time()
    own = checkpoints / job.file.removesuffix(".safetensors")
    trained = train(
        domain, params, job.agent, job.preferences, job.seeds, job.steps,
        observation_set=job.observation_set, term=EquityTerm(**job.term),
        n_environments=job.n_environments, settings=settings_of(job),
        checkpoints=Checkpoints(own, every_s=120.0, resume=True), stop_after_s=seconds,
    )  # fmt: skip
    taken = time.monotonic() - began
    if trained.is_whole:
        about = {"seconds": taken, "identity": _digest(folder, job)}
        write_trained(target / job.file, trained, job, **about)
        shutil.rmtree(own, ignore_errors=True)
    return {
        "job": job.name,
        "is_whole": trained.is_whole,
        "agents": trained.n_agents,
        "steps": trained.curve[-1]["steps"] if trained.curve else 0,
        "seconds": round(taken, 1),
        "cpu_seconds": round(time.process_time() - cpu_began, 1),
    }


def train_apart(
    names: list[str], folder: str, target: str, checkpoints: str, deadline: float | None
) -> list[dict[str, Any]]:
    """Train jobs of a plan one after the other until the deadline, in whatever process."""
    from parity311.studies.reproduction.jobs import read_plan

    _, jobs = read_plan(Path(folder))
    found = []
    for job in (one for one in jobs if one.name in set(names)):
        left = float("inf") if deadline is None else deadline - time.time()
        found.append(train_job(job, Path(folder), Path(target), Path(checkpoints), left))
    return found


def main() -> int:
    """Read the arguments, train a slice, print how far it is as one line of JSON."""
    parser = argparse.ArgumentParser(description="Train a slice of a prepared reproduction.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slice-s", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, help="folder for finished jobs (FOLDER/trained)")
    parser.add_argument("--checkpoints", type=Path, help="folder for checkpoints, which are large")
    parser.add_argument("--only", default="*", help="jobs with such names: measured/heat/*,*/grid")
    parser.add_argument("--skip", default="", help="jobs to leave out, as in */boiler*/*")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    from parity311.errors import Parity311Error

    try:
        state = run_stage(
            given.folder, slice_s=given.slice_s, out=given.out, checkpoints=given.checkpoints,
            only=given.only, skip=given.skip, where=Workplace(n_workers=given.workers),
            tell=lambda told: print(json.dumps(told), file=sys.stderr, flush=True),
        )  # fmt: skip
    except Parity311Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(state), flush=True)
    return MORE_TO_DO if state["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
