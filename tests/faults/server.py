"""A portal on 127.0.0.1 in a process of its own that fails in every way portals do, at random."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.feeds.soda_server import Fault, serving
from tests.unit.feeds.test_fetch import nyc

STALL_SECONDS = 1.0
FAULTS = ("429", "503", "cut", "truncated", "hang_up")
EVERY = 6
"""Calls between two answers that fail, on average."""
CHANGES_EVERY, STALLS_EVERY = 60, 80


@contextmanager
def bad_portal(address: Path, seed: int = 0) -> Iterator[None]:
    """Serve until the block ends; the portal's address is written to a file."""
    pid = os.fork()
    if pid == 0:
        try:
            _serve(address, random.Random(seed))
        finally:
            os._exit(1)
    while not address.is_file():
        time.sleep(0.02)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _serve(address: Path, rng: random.Random) -> None:
    portal = nyc()

    def misbehave(number: int) -> None:
        if rng.random() < 1 / STALLS_EVERY:
            time.sleep(STALL_SECONDS)
        if rng.random() < 1 / CHANGES_EVERY:
            portal.last_modified = f"change {number}"
        if rng.random() < 1 / EVERY:
            portal.faults.append(Fault(rng.choice(FAULTS), on="/"))

    portal.on_call = misbehave
    with serving(portal):
        aside = address.with_suffix(".part")
        aside.write_text(portal.address)
        aside.rename(address)
        while True:
            time.sleep(1.0)
