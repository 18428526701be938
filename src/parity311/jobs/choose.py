"""The engine that was asked for, with where its results are kept and which part is done here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parity311.errors import InputError, unknown_name
from parity311.jobs.drive import Engine, Outcome, Shard, Tell, run_jobs
from parity311.jobs.job import Job
from parity311.jobs.local import LocalEngine
from parity311.jobs.on_ray import AUTO, RayEngine

ENGINES = ("local", "ray")
COMPILED = ".compiled"
"""Folder of compiled programs beside the results, by machine."""
_ADDRESS = re.compile(r"[A-Za-z0-9.\-\[\]:]+:[0-9]{1,5}")
_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True)
class Workplace:
    """Where the jobs of a study are done."""

    engine: str = "local"
    address: str = ""
    """of a Ray cluster: HOST:PORT, auto, or empty to start one here"""
    n_workers: int = 0
    """0: one a core"""
    shard: Shard | None = None

    def run(
        self,
        jobs: Sequence[Job],
        *,
        folder: Path | None = None,
        tell: Tell | None = None,
        stop_after_s: float = float("inf"),
    ) -> list[Outcome]:
        """Do jobs there, as `run_jobs` says."""
        cache = None if folder is None else folder.resolve() / COMPILED
        return run_jobs(
            jobs, self.open(cache), folder=folder, shard=self.shard, tell=tell,
            stop_after_s=stop_after_s,
        )  # fmt: skip

    def open(self, cache: Path | None = None) -> Engine:
        """The engine, not started yet."""
        if self.engine == "ray":
            return RayEngine(self.address, self.n_workers, cache=cache)
        return LocalEngine(self.n_workers, cache=cache)


HERE = Workplace()
"""One process a core of this machine."""


def choose_engine(engine: str, address: str, n_workers: int, shard: str) -> Workplace:
    """Where to work, from what a command was given."""
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if address and engine != "ray":
        raise InputError(
            f"Address {address!r} was given and the engine is {engine}; give --engine ray too."
        )
    if address and address != AUTO and not _ADDRESS.fullmatch(address):
        raise InputError(f"Address {address!r} was given; write HOST:PORT, or auto.")
    found = Workplace(engine, address, n_workers, parse_shard(shard))
    found.open()  # one that is not installed, or does not answer, is told before any work
    return found


def parse_shard(text: str) -> Shard | None:
    """A shard from 'i/n', counted from 0; None where the text is empty."""
    if not text:
        return None
    found = _SHARD.fullmatch(text)
    if found is None or not int(found[1]) < int(found[2]):
        raise InputError(
            f"Shard {text!r} was given; write PLACE/NUMBER, counted from 0, as in 0/4 to 3/4."
        )
    return Shard(int(found[1]), int(found[2]))
