"""Kill a retraining cycle at random points, many times, and look at what is left.

    python -m tests.faults.cycle_kills --points 50                    SQLite
    python -m tests.faults.cycle_kills --points 50 --postgresql       a server of its own
    python -m tests.faults.cycle_kills --points 6 --twin              must find a second proposal

A sound cycle is run once. Then, at every point, some of its steps are laid into a fresh folder with
an empty registry, a child goes on from there and is killed (kill -9) before some operation on
files, at a statement to the database or its commit, or at a random moment; another does it again,
and releases what was proposed, killed likewise on the way. A point at which the cycle had ended is
drawn again, so that as many cycles are killed as were asked for. Afterwards there is what the sound
cycle decided: one version or none, never two in office, no step half done, and the chain verifies.
Prints one JSON object; the exit code is 1 where something was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from parity311.domains import get_domain
from parity311.lifecycle.registry import Registry
from tests.faults.children import Fault, run_child
from tests.faults.registry_kills import EVENTS, kill_at
from tests.faults.works import OUT, cycle_base, run_small_cycle
from tests.postgres import running_server, what_is_lacking

ORDER = ("propensity", "incidents", "strata", "denominators", "train", "audit")
"""Steps that a killed cycle may find done; the decision names its registry."""
MOST_STATEMENTS = 40
"""Statements of a proposal, or of a release, with the making of the tables."""
MOST_OPERATIONS = 12
"""Operations on files of a step or two."""

MOST_SECONDS = 6.0
"""A cycle that finds its programs compiled takes about so long, on a quiet core."""
MOST_TRIES = 4
"""Tries for a point that hits."""

PATIENT = Fault(kill_after_s=3000.0)
"""For what must end by itself, on a busy machine too."""


def main() -> int:
    """Kill as often as was asked for; 1 where a fault was found."""
    parser = argparse.ArgumentParser(description="Kill a retraining cycle.")
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--twin", action="store_true", help="Forget what was proposed before.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path, help="Folder of the sound cycle, of an earlier call.")
    given = parser.parse_args()
    get_domain("snad")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = None
        if given.postgresql:
            if what_is_lacking():
                print(what_is_lacking(), file=sys.stderr)
                return 3
            server = stack.enter_context(running_server())

        def name_database(place: Path) -> str:
            if server is None:
                return str(place / "policies.db")
            server.do(f"CREATE DATABASE {place.name}")
            return server.address(place.name)

        kept = given.kept or folder
        found = try_kills(folder, name_database, given.points, given.seed, given.twin, kept)
    print(json.dumps(found))
    return 1 if found["faults"] else 0


def try_kills(
    folder: Path,
    name_database: Callable[[Path], str],
    points: int,
    seed: int,
    is_twin: bool,
    kept: Path,
) -> dict[str, Any]:
    """Kill at so many points, looking after each."""
    rng = random.Random(seed)
    base, sound = kept / "base", kept / "sound"
    if not (kept / "whole").exists():
        for place in (base, sound):
            place.mkdir()
        database = name_database(sound)
        for work in (lambda: cycle_base(base), lambda: run_small_cycle(base, sound, database)):
            ended = run_child(work, sound, PATIENT)
            assert ended.code == 0, ended.words
        (kept / "whole").touch()
    wanted = _decided(sound)
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    for point in range(MOST_TRIES * points):
        n_killed = sum(n for name, n in outcomes.items() if _is_hit(name))
        if (point if is_twin else n_killed) >= points:
            break
        place = folder / f"p{point}"
        faults += [
            f"point {point}: {one}"
            for one in _try_one(base, sound, place, name_database, rng, outcomes, wanted, is_twin)
        ]
        shutil.rmtree(place)
        print(f"{point + 1} tries, {len(faults)} faults", file=sys.stderr, flush=True)
    n_killed = sum(n for name, n in outcomes.items() if _is_hit(name))
    return {"points": n_killed, "outcomes": dict(outcomes), "faults": faults}


def _is_hit(outcome: str) -> bool:
    """Whether a cycle was killed on the way, not a release."""
    return outcome.startswith("cycle") and outcome.endswith(": killed")


def _try_one(
    base: Path,
    sound: Path,
    place: Path,
    name_database: Callable[[Path], str],
    rng: random.Random,
    outcomes: Counter[str],
    wanted: dict[str, Any],
    is_twin: bool,
) -> list[str]:
    """One point: some steps done, killed on the way, done again, released, killed, released."""
    place.mkdir()
    # Most of the ways to fail lie at the end: half of the tries begin there.
    n_done = rng.choice((*range(len(ORDER)), *[len(ORDER)] * len(ORDER)))
    for name in ORDER[:n_done]:
        for step in (sound / OUT / "cycles" / "snad").glob(f"{name}-*"):
            shutil.copytree(step, place / OUT / "cycles" / "snad" / step.name)
    database = name_database(place)
    work = lambda: run_small_cycle(base, place, database)  # noqa: E731
    how = "after" if is_twin else rng.choice(("file", "statement", "moment"))
    ended = _killed(work, place, how, rng)
    outcomes[f"cycle, {how}: {'killed' if ended == -signal.SIGKILL else f'ended ({ended})'}"] += 1
    outcomes[f"from step {n_done + 1}"] += 1
    if is_twin:
        _forget(place)
    again = run_child(_twin(work) if is_twin else work, place, PATIENT)
    if again.code != 0:
        return [f"again: {again.words}"]
    found = problems_of(place, database, wanted)
    if not found and wanted["version"]:
        release = lambda: _release(database)  # noqa: E731
        ended = _killed(release, place, "statement", rng)
        outcomes[f"release: {'killed' if ended == -signal.SIGKILL else 'done first'}"] += 1
        last = run_child(release, place, PATIENT)
        found += [] if last.code == 0 else [f"release again: {last.words}"]
        found += problems_of(place, database, wanted, is_released=True)
    return found


def _killed(work: Callable[[], Any], place: Path, how: str, rng: random.Random) -> int:
    """Run a work that is killed at a point of this kind; its code."""
    at = rng.randrange(1, MOST_STATEMENTS)
    if how == "statement":
        return run_child(lambda: (kill_at(at, EVENTS), work()), place, PATIENT).code
    if how == "file":
        return run_child(work, place, Fault(kill_at=rng.randrange(1, MOST_OPERATIONS))).code
    if how == "after":
        return run_child(work, place, PATIENT).code
    return run_child(work, place, Fault(kill_after_s=rng.uniform(0.1, MOST_SECONDS))).code


def _decided(place: Path) -> dict[str, Any]:
    steps = sorted((place / OUT / "cycles" / "snad").glob("decision-*/step.json"))
    assert len(steps) == 1, steps
    result = json.loads(steps[0].read_text())["result"]
    return {name: result[name] for name in ("outcome", "verdict", "reasons", "version")}


def problems_of(
    place: Path, database: str, wanted: dict[str, Any], *, is_released: bool = False
) -> list[str]:
    """What must not be after a cycle that was killed and done again."""
    registry = Registry(database)
    found = list(registry.verify().problems)
    decided = _decided(place)
    if decided != wanted:
        found.append(f"decided {decided}, and the sound one {wanted}")
    versions = [one.version for one in registry.policies()]
    if versions != ([wanted["version"]] if wanted["version"] else []):
        found.append(f"the registry has {versions}")
    states = [one.state.value for one in registry.policies()]
    if is_released and states.count("LIVE") != 1:
        found.append(f"released, and the states are {states}")
    acts = [one.action for one in registry.log()]
    for act in ("propose", "release"):
        if acts.count(act) > 1:
            found.append(f"the log has {act} {acts.count(act)} times")
    return found


def _release(database: str) -> None:
    """Release what was proposed, where that was not done."""
    registry = Registry(database)
    waiting = [one.version for one in registry.policies() if one.state.value == "PROPOSED"]
    for version in waiting:
        registry.act(
            "release", version, by="A. Okafor", reason="cycle", insufficient_because="a test"
        )


def _forget(place: Path) -> None:
    """Take the decision away, as a kill between the proposal and its record would."""
    for one in (place / OUT / "cycles" / "snad").glob("decision-*"):
        shutil.rmtree(one)


def _twin(work: Callable[[], Any]) -> Callable[[], Any]:
    """The broken twin: a cycle that does not look whether it proposed before."""

    def run() -> None:
        from parity311.lifecycle import cycle

        cycle.find_same = lambda *_: None
        Registry._refuse_same = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]
        work()

    return run


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
