"""Jobs on a Ray cluster: one long-lived actor a slot, fed by the driver, which owns every retry.

Ray places workers and notices what dies; nothing else of it is used. Only specifications and small
results pass through it: inputs and results lie on a disk that all machines share. It is told not
to send usage statistics, and a cluster that is started here asks for a token.
"""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parity311.errors import InputError
from parity311.jobs.attempt import attempt, describe_difference
from parity311.jobs.drive import Answer
from parity311.jobs.job import Job, Stamp, this_machine
from parity311.jobs.local import ONE_THREAD, cache_variables, count_workers, free_memory_mb
from parity311.storage.folders import scratch_folder

ANSWER_S = 5.0
"""How long an address may take to answer."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a client of Ray begins: HTTP/2, with settings, to which settings are the answer."""
START_S = 120.0
"""How long the first worker may take to say what it is."""
STARTS = 3
"""Tries at starting a cluster here: Ray gives its own processes 30 seconds, and a machine that is
busy may take longer, once."""
STORE_BYTES = 100 * 1024 * 1024
"""Ray's object store: only specifications and small results pass."""
AUTO = "auto"


class RayWorker:
    """What runs in a slot: it says what it is, then does one job after the other."""

    def __init__(self, cache: Path | None = None) -> None:
        """Share compiled programs with the other workers of its machine: JAX is not there yet."""
        os.environ.update(cache_variables(cache))

    def hello(self) -> dict[str, str]:
        """The stamp of its process."""
        return asdict(this_machine())

    def attempt(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do a job."""
        return attempt(order)


class RayEngine:
    """Slots of a Ray cluster, or of one started on this machine where no address is given."""

    words = "the Ray cluster"

    def __init__(self, address: str = "", n_workers: int = 0, *, cache: Path | None = None) -> None:
        """Refuse an engine that is not installed and an address where nobody answers."""
        if find_spec("ray") is None:
            raise InputError(
                "The engine ray is not installed; install it with `pip install 'parity311[ray]'`, "
                "or use --engine local."
            )
        if address not in ("", AUTO):
            check_answers(address)
        self._address, self._asked, self._cache = address, n_workers, cache
        self._idle: dict[str, Any] = {}
        self._busy: dict[Any, tuple[str, Any]] = {}
        self._pending: dict[Any, tuple[str, Any]] = {}
        self._n_started = 0
        self._needs: dict[str, float] = {}
        self._stamp = this_machine()

    def open(self, jobs: Sequence[Job], stamp: Stamp) -> None:
        """Join or start the cluster, and wait until a first worker has said what it is."""
        self._stamp = stamp
        gpus = max(job.gpus for job in jobs)
        self._needs = {"num_cpus": 1.0, "num_gpus": float(gpus)}
        self._join(jobs)
        self._check_resources(jobs, gpus)
        self._fill(len(jobs))
        deadline = time.monotonic() + START_S
        while not self._idle:
            self._greet(1.0, refuses=True)
            if time.monotonic() > deadline:
                raise InputError(
                    f"No worker of {self._address or 'Ray'} began within {START_S:.0f} seconds; "
                    "see `ray status` for what it waits for."
                )

    def idle(self) -> list[str]:
        """Workers without a job; the lost are replaced where the machines that live have room.

        Where all were lost at once, nobody is there until a replacement has started.
        """
        self._fill(self._n_wanted)
        self._greet(0.0, refuses=False)
        deadline = time.monotonic() + START_S
        while not (self._idle or self._busy) and self._pending and time.monotonic() < deadline:
            self._greet(1.0, refuses=False)
            self._fill(self._n_wanted)
        return list(self._idle)

    def give(self, worker: str, order: dict[str, Any]) -> None:
        """Let a worker begin."""
        actor = self._idle.pop(worker)
        self._busy[actor.attempt.remote(order)] = (worker, actor)

    def hear(self, seconds: float) -> list[Answer]:
        """Who has ended, or was lost with its process or its machine."""
        import ray
        from ray.exceptions import RayError

        ready, _ = ray.wait(list(self._busy), timeout=seconds)
        found: list[Answer] = []
        for told in ready:
            name, actor = self._busy.pop(told)
            try:
                found.append((name, ray.get(told)))
                self._idle[name] = actor
            except RayError:
                self._drop(actor)
                found.append((name, None))
        return found

    def close(self) -> None:
        """End all workers and leave the cluster."""
        if find_spec("ray") is None:
            return
        import ray

        actors = [*self._idle.values()]
        actors += [actor for _, actor in (*self._busy.values(), *self._pending.values())]
        for actor in actors:
            self._drop(actor)
        self._idle, self._busy, self._pending = {}, {}, {}
        ray.shutdown()

    def _join(self, jobs: Sequence[Job]) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        own: dict[str, Any] = {}
        if not self._address:
            n_cores = len(os.sched_getaffinity(0))
            n = count_workers(self._asked, jobs, free_memory_mb(), n_cores)
            own = {"num_cpus": n, "object_store_memory": STORE_BYTES, "include_dashboard": False}
            make_token()
        import ray

        _keep_from_printing()
        for tries_left in reversed(range(1 if self._address else STARTS)):
            try:
                with _silence():
                    ray.init(
                        address=self._address or "local",
                        log_to_driver=False,
                        logging_level=logging.ERROR,
                        runtime_env={"env_vars": dict(ONE_THREAD)},
                        **own,
                    )
                return
            except Exception as error:
                if not tries_left:
                    raise self._describe_refusal(error, ray.__version__) from error

    def _describe_refusal(self, error: Exception, version: str) -> InputError:
        first = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        if not self._address:
            return InputError(
                f"Ray did not start on this machine in {STARTS} tries ({first}); try again when it "
                "is less busy, or use --engine local."
            )
        return InputError(
            f"Cannot join Ray at {self._address} ({first}); its machines must run Ray {version} "
            "with the same token, and this command must run on one of them."
        )

    def _check_resources(self, jobs: Sequence[Job], gpus: int) -> None:
        """Refuse what the cluster could never place: Ray would wait for it without a word."""
        nodes = _living_nodes()
        n_slots = sum(int(node.get("CPU", 0)) for node in nodes)
        each = max(job.memory_mb for job in jobs)
        room = sum(int(node.get("memory", 0) / 2**20 // each) for node in nodes)
        if gpus and not any(node.get("GPU", 0) >= gpus for node in nodes):
            raise InputError(
                f"A job needs {gpus} GPU and no machine of the cluster has it; start Ray there "
                "with --num-gpus, or train on the processor."
            )
        if min(self._asked, len(jobs)) > min(n_slots, max(room, 1)):
            raise InputError(
                f"{self._asked} workers of {each:,} MB were asked for, and the cluster has "
                f"{n_slots} cores and memory for {room}; ask for at most "
                f"{min(n_slots, max(room, 1))} (--workers)."
            )
        self._n_wanted = max(min(self._asked or n_slots, max(room, 1), len(jobs)), 1)

    def _fill(self, n_wanted: int) -> None:
        """Ask for as many workers as are wanted and the living machines have cores for."""
        import ray

        n_cores = sum(int(node.get("CPU", 0)) for node in _living_nodes())
        n_there = len(self._idle) + len(self._busy) + len(self._pending)
        made: Any = ray.remote(RayWorker)
        for _ in range(min(n_wanted, self._n_wanted, n_cores) - n_there):
            self._n_started += 1
            options = {"max_restarts": 0, "max_task_retries": 0, **self._needs}
            actor: Any = made.options(**options).remote(self._cache)
            self._pending[actor.hello.remote()] = (f"actor-{self._n_started}", actor)

    def _greet(self, seconds: float, *, refuses: bool) -> None:
        """Take in the workers that have said what they are; those of another kind are refused."""
        if not self._pending:
            return
        import ray
        from ray.exceptions import RayError

        ready, _ = ray.wait(list(self._pending), num_returns=1, timeout=seconds)
        for told in ready:
            name, actor = self._pending.pop(told)
            try:
                found = Stamp(**ray.get(told))
            except RayError:
                self._drop(actor)
                continue
            if found == self._stamp:
                self._idle[name] = actor
                continue
            self._drop(actor)
            if refuses:
                raise InputError(describe_difference(self._stamp, found))

    @staticmethod
    def _drop(actor: Any) -> None:
        import ray

        with suppress(Exception):  # it may be gone, with its machine
            ray.kill(actor)


def _keep_from_printing() -> None:
    """Keep what Ray says of lost workers off standard output: it would land amid the JSON.

    No option of Ray does. Nothing is lost: the driver tells of every job that was not done.
    """
    listener: Any = importlib.import_module("ray._private.worker")
    if hasattr(listener, "print_to_stdstream"):
        listener.print_to_stdstream = lambda *_, **__: None


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Ray's own log from the terminal while it joins: what went wrong is told in one line."""
    sys.stderr.flush()
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def check_answers(address: str) -> None:
    """Refuse an address where no Ray listens, at once: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), ANSWER_S) as opened:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                opened.sendall(GREETING)
                said = opened.recv(9, socket.MSG_WAITALL)
                if said[3:4] != GREETING[-6:-5]:
                    raise OSError("what listens there is not Ray")
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"Nobody answers at {address} ({error}); give HOST:PORT of `ray start --head`, or auto "
            "on one of its machines."
        ) from error


def make_token() -> None:
    """Make a token of one's own for a cluster that is started here, unless there is one.

    Ray reads these variables when it is first imported.
    """
    has_one = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    if has_one or "ray" in sys.modules:
        return
    path = scratch_folder() / "ray-token"
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)


def _living_nodes() -> list[dict[str, float]]:
    """Resources of the machines that live; Ray's own total still counts the dead."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
