"""Jobs in spawned processes of this machine; one that is killed is replaced.

Spawned, because a forked JAX hangs. A worker gives each library one thread: one agent's products
are too small to share. Where one worker is asked for, jobs run in this process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from parity311.errors import InputError
from parity311.jobs.attempt import attempt
from parity311.jobs.drive import Answer
from parity311.jobs.job import Job, Stamp
from parity311.limits import THREADS_VARIABLE
from parity311.storage.aside import host_name

ONE_THREAD = {"NPROC": "1", "OMP_NUM_THREADS": "1", THREADS_VARIABLE: "1"}
"""Environment of a worker; JAX listens to the first alone."""
END_S = 3.0
"""How long a worker may take to end before it is killed."""
MEMORY_SHARE = 0.8
"""Of the free memory, how much workers may take together."""
CACHE_VARIABLES = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
}


def free_memory_mb() -> float:
    """Memory that is free on this machine."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6


def count_workers(asked: int, jobs: Sequence[Job], free_mb: float, n_cores: int) -> int:
    """Workers to start: as asked, or one a core as far as memory goes; never more than jobs."""
    each = max(job.memory_mb for job in jobs)
    most = int(MEMORY_SHARE * free_mb / each)
    if asked > max(most, 1):
        raise InputError(
            f"{asked} workers of {each:,} MB need {asked * each / 1000:.1f} GB, and "
            f"{free_mb / 1000:.1f} GB are free; ask for at most {max(most, 1)} (--workers)."
        )
    return max(min(asked or n_cores, max(most, 1), len(jobs)), 1)


class LocalEngine:
    """A pool of spawned processes."""

    words = "this machine"

    def __init__(
        self, n_workers: int = 0, *, cache: Path | None = None, spawns: bool = False
    ) -> None:
        """Ask for so many workers (0: one a core); `cache` keeps compiled programs, by machine.

        One worker is this process, unless `spawns` asks for a process of its own.
        """
        self._asked = n_workers
        self._spawns = spawns
        self._cache = cache
        self._workers: dict[str, _Worker] = {}
        self._inline: list[Answer] | None = None
        self._n_started = 0
        self._n_workers = 0
        self._is_on_gpu = False

    def open(self, jobs: Sequence[Job], stamp: Stamp) -> None:
        """Start workers; more than memory holds are refused."""
        del stamp
        n_cores = len(os.sched_getaffinity(0))
        self._n_workers = count_workers(self._asked, jobs, free_memory_mb(), n_cores)
        self._is_on_gpu = any(job.gpus for job in jobs)
        is_here = self._n_workers == 1 and self._asked < 2 and not self._spawns
        self._inline = [] if is_here else None

    def idle(self) -> list[str]:
        """Workers without a job; the dead are replaced."""
        if self._inline is not None:
            return [] if self._inline else ["here"]
        # One that died at its job stays until `hear` has told of that job.
        self._workers = {
            name: one for name, one in self._workers.items() if one.is_busy or one.is_alive()
        }
        while len(self._workers) < self._n_workers:
            self._n_started += 1
            devices = {one.device for one in self._workers.values()}
            free = next(n for n in range(self._n_workers) if n not in devices)
            own = {"CUDA_VISIBLE_DEVICES": str(free)} if self._is_on_gpu else {}
            self._workers[f"worker-{self._n_started}"] = _Worker(self._cache, free, own)
        return [name for name, one in self._workers.items() if not one.is_busy]

    def give(self, worker: str, order: dict[str, Any]) -> None:
        """Let a worker begin; one that died while it was idle is told as lost when asked next."""
        if self._inline is not None:
            with one_thread():
                self._inline.append((worker, attempt(order)))
            return
        self._workers[worker].give(order)

    def hear(self, seconds: float) -> list[Answer]:
        """Who has ended or died."""
        if self._inline is not None:
            said, self._inline = self._inline, []
            return said
        busy = {one.pipe: name for name, one in self._workers.items() if one.is_busy}
        ready = wait(list(busy), timeout=seconds)
        return [self._hear_one(busy[pipe]) for pipe in ready]  # type: ignore[index]

    def _hear_one(self, name: str) -> Answer:
        said = self._workers[name].hear()
        if said is None:
            # Lost once: the end of its pipe would be heard again until somebody takes its place.
            self._workers.pop(name).end()
        return name, said

    def close(self) -> None:
        """End all workers, and kill who does not."""
        for one in self._workers.values():
            one.ask_to_end()
        for one in self._workers.values():
            one.end()
        self._workers = {}


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, cache: Path | None, device: int, own: dict[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.is_busy = False
        self.device = device
        environment = {**cache_variables(cache), **own}
        self._process = context.Process(target=work, args=(theirs, environment))
        with one_thread():
            self._process.start()
        theirs.close()

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def give(self, order: dict[str, Any]) -> None:
        self.is_busy = True
        with suppress(OSError):  # it died: its pipe is at its end, which `hear` tells
            self.pipe.send(order)

    def hear(self) -> dict[str, Any] | None:
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(END_S)
            self._process.kill()
            self._process.join(END_S)
            return None
        self.is_busy = False
        return said

    def ask_to_end(self) -> None:
        with suppress(OSError):
            if self.is_busy:
                self._process.terminate()
            else:
                self.pipe.send(None)

    def end(self) -> None:
        self._process.join(END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(END_S)
        self.pipe.close()


def cache_variables(cache: Path | None) -> dict[str, str]:
    """Let JAX keep compiled programs in the part of a folder that is this machine's own."""
    if cache is None:
        return {}
    return {"JAX_COMPILATION_CACHE_DIR": str(cache / host_name()), **CACHE_VARIABLES}


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for what starts inside: libraries look when they are first used."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update({name: one for name, one in ONE_THREAD.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def work(pipe: Connection, environment: dict[str, str]) -> None:
    """What a worker does until it is told to end, or nobody is there to tell it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends its workers itself
    os.environ.update({**ONE_THREAD, **environment})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            order = pipe.recv()
        except (EOFError, OSError):
            return
        if order is None:
            return
        said = attempt(order)
        try:
            pipe.send(said)
        except OSError:
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
