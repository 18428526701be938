"""Kill whoever acts on a registry of policies, many times, and look at what is left.

    python -m tests.faults.registry_kills --points 50                     SQLite
    python -m tests.faults.registry_kills --points 50 --postgresql        a server of its own
    python -m tests.faults.registry_kills --points 50 --twin              must find lost approvals

A child proposes, releases, suspends, resumes and rolls back in a loop, and writes down every act it
was told of. It is killed (kill -9) at a statement that it sends to the database, before or after,
at a commit, or at a random moment. The next child goes on with what is left. Afterwards no act that
was told is missing, no domain has two policies in office, and the registry verifies.
Prints one JSON object; the exit code is 1 where something was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event, text

from parity311.domains import get_domain
from parity311.errors import RegistryError
from parity311.lifecycle.evidence import copy_package, read_audit
from parity311.lifecycle.registry import Registry
from tests.faults.children import Fault, run_child
from tests.postgres import running_server, what_is_lacking
from tests.unit.lifecycle.offices import WHO, Office

N_PACKAGES = 3
EVENTS = ("before_cursor_execute", "after_cursor_execute", "commit")
MOST_EVENTS = 400
"""Statements and commits of about ten acts."""
MOST_COMMITS = 6
"""The twin is killed at a commit, where what it told is not kept yet; no chance is in that."""
MOST_SECONDS = 1.0
TOLD = "told"


def main() -> int:
    """Kill as often as was asked for; 1 where a fault was found."""
    parser = argparse.ArgumentParser(description="Kill whoever acts on a registry.")
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--twin", action="store_true", help="Tell of acts before they are kept.")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    get_domain("heat")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = str(folder / "registry" / "policies.db")
        if given.postgresql:
            if what_is_lacking():
                print(what_is_lacking(), file=sys.stderr)
                return 3
            address = stack.enter_context(running_server()).address()
        found = try_kills(folder, address, given.points, given.seed, is_twin=given.twin)
    print(json.dumps(found))
    return 1 if found["faults"] else 0


def try_kills(
    folder: Path, address: str, points: int, seed: int, *, is_twin: bool
) -> dict[str, Any]:
    """Kill at so many points, looking after each."""
    rng = random.Random(seed)
    ended = run_child(lambda: _prepare(folder, address), folder)
    assert ended.code == 0, ended.words
    # What a child would import is there before it is forked.
    read_audit(folder / "policy1.json", copy_package(folder / "policy1").manifest)
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    for point in range(points):
        at = rng.randrange(1, MOST_EVENTS) if point % 2 else 0
        at = rng.randrange(1, MOST_COMMITS) if is_twin else at
        fault = Fault(kill_after_s=30.0 if at else rng.uniform(0.0, MOST_SECONDS))
        turn = rng.randrange(1_000_000)
        ended = run_child(
            lambda at=at, t=turn: _act(folder, address, at, t, is_twin), folder, fault
        )
        outcomes["killed" if ended.code == -signal.SIGKILL else f"ended ({ended.code})"] += 1
        if ended.code != -signal.SIGKILL:
            faults.append(f"point {point}: {ended.words}")
        faults += [f"point {point}: {one}" for one in problems_of(folder, address)]
    registry = Registry(address)
    n_told = len((folder / TOLD).read_text().split())
    outcomes |= {"acts told": n_told, "entries": len(registry.log())}
    return {"points": points, "outcomes": dict(outcomes), "faults": faults}


def problems_of(folder: Path, address: str) -> list[str]:
    """What must not be after a kill."""
    registry = Registry(address)
    found = list(registry.verify().problems)
    kept = {entry.hash for entry in registry.log()}
    # Half a line was not told.
    told = [line for line in (folder / TOLD).read_text().split("\n")[:-1] if line]
    found += [f"an act that was told is lost: {one[:12]}" for one in told if one not in kept]
    with registry.database.reading() as session:
        office = session.execute(
            text("SELECT domain, count(*) FROM states WHERE state IN ('LIVE', 'WATCH') GROUP BY 1")
        )
        found += [f"{domain} has {n} live policies" for domain, n in office if n > 1]
    return found


def _prepare(folder: Path, address: str) -> None:
    office = Office(folder, address)
    for _ in range(N_PACKAGES):
        package = office.package()
        office.audit().rename(package.with_suffix(".json"))
    (folder / TOLD).touch()


def _act(folder: Path, address: str, point: int, seed: int, is_twin: bool) -> None:
    """Act until killed."""
    rng = random.Random(seed)
    told = os.open(folder / TOLD, os.O_WRONLY | os.O_APPEND)
    if is_twin:
        _tell_too_early(told)
    if point:
        kill_at(point, ("commit",) if is_twin else EVENTS)
    registry = Registry(address, makes=True)
    for _ in range(10_000):
        try:
            _one_act(registry, folder, rng)
        except RegistryError:
            continue  # the state does not allow it
        if not is_twin:
            os.write(told, f"{registry.log()[-1].hash}\n".encode())


def _one_act(registry: Registry, folder: Path, rng: random.Random) -> None:
    waiting = [one.version for one in registry.policies() if one.state == "PROPOSED"]
    action = rng.choice(("propose", "release", "release", "suspend", "resume", "rollback"))
    if action == "propose" or not waiting:
        package = folder / f"policy{rng.randint(1, N_PACKAGES)}"
        registry.propose(package, package.with_suffix(".json"), **WHO)
    else:
        registry.act(action, waiting[0] if action == "release" else "heat", **WHO)


def kill_at(point: int, events: tuple[str, ...]) -> None:
    """Kill this process at the n-th of these events."""
    n_seen = 0

    def count(*_: Any) -> None:
        nonlocal n_seen
        n_seen += 1
        if n_seen == point:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in events:
        event.listen(Engine, name, count)


def _tell_too_early(told: int) -> None:
    """The broken twin: an act is told when it is decided, before the database has it."""
    write = Registry._write

    def tell(self: Registry, session: Any, entry: Any, *rest: Any) -> None:
        os.write(told, f"{entry.hash}\n".encode())
        write(self, session, entry, *rest)

    setattr(Registry, "_write", tell)  # noqa: B010


if __name__ == "__main__":
    sys.exit(main())
