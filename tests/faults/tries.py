"""Kills, disks that give out, and two processes at once: what must hold after each."""

from __future__ import annotations

import errno
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from parity311.errors import Parity311Error
from tests.faults.children import Fault, finish_child, run_child, start_child
from tests.faults.works import OUT, Work

MOST_AGAIN = 6
"""Times a work may have to be done again: a portal may change during each of three fetches."""
REFUSED = "already holds", "Another process is writing"


@dataclass
class Found:
    """What came of the tries of one kind on one work."""

    work: str
    kind: str
    n_tries: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    """what should not have happened, with its point"""

    def to_plain(self) -> dict[str, object]:
        """For printing as JSON."""
        return {**vars(self), "outcomes": dict(self.outcomes)}


class Bench:
    """One work, its sound result, and a fresh folder for every try."""

    def __init__(self, work: Work, base: Path, folder: Path, rng: random.Random) -> None:
        self.work, self.base, self.folder, self.rng = work, base, folder, rng
        self.n_folders = 0
        place = self.fresh()
        ended = run_child(self.do(place), place)
        assert ended.code == 0, ended.words
        self.n_operations = ended.n_operations
        self.sound = self.look(place)
        self.most_bytes = max(path.stat().st_size for path in place.rglob("*") if path.is_file())
        assert len(self.sound) == 16, self.sound
        place = self.fresh()
        self.before = self.look(place) if any(place.iterdir()) else ""
        # The first time compiles and fills caches: how long it takes is the second time's.
        self.seconds = run_child(self.do(place), place).seconds

    def fresh(self) -> Path:
        """A folder with what lies there before the work starts; the last one is removed."""
        shutil.rmtree(self.folder / str(self.n_folders), ignore_errors=True)
        self.n_folders += 1
        place = self.folder / str(self.n_folders)
        place.mkdir(parents=True)
        ended = run_child(lambda: self.work.before(self.base, place), place)
        assert ended.code == 0, ended.words
        return place

    def do(self, place: Path) -> Callable[[], object]:
        """The work on a folder."""
        return lambda: self.work.do(self.base, place)

    def look(self, place: Path) -> str:
        """Digest of what is whole, `absent`, or what a reader stumbled over."""

        def read() -> None:
            try:
                print(self.work.digest(place), flush=True)
            except Parity311Error as error:
                is_one_line = "\n" not in str(error)
                print("absent" if is_one_line else f"several lines: {error}", flush=True)

        ended = run_child(read, place)
        return ended.words.split()[-1] if ended.code == 0 else ended.words

    def left_beside(self, place: Path) -> list[str]:
        """Partial files and folders, and locks, that nobody holds any more."""
        hidden = [path for path in place.rglob(".*") if not path.name.startswith(".gitignore")]
        return sorted(str(path.relative_to(place)) for path in hidden)

    def may_hold(self) -> tuple[str, ...]:
        """What a reader may find after a work that did not end well."""
        return (self.sound, self.before or "absent")


def kill(bench: Bench, points: int) -> Found:
    """Kill at every operation in turn and at random moments; then do the work again."""
    found = Found(bench.work.name, "kill -9")
    at = list(range(1, bench.n_operations + 1))
    chosen = bench.rng.sample(at, min(points // 2, len(at)))
    moments = [bench.rng.uniform(0.0, bench.seconds) for _ in range(points - len(chosen))]
    faults = [Fault(kill_at=k) for k in sorted(chosen)] + [Fault(kill_after_s=s) for s in moments]
    for fault in faults:
        place, point = bench.fresh(), f"{fault.kill_at or f'{fault.kill_after_s:.2f} s'}"
        ended = run_child(bench.do(place), place, fault)
        found.n_tries += 1
        found.outcomes["killed" if ended.code == -9 else f"ended first ({ended.code})"] += 1
        _check_and_do_again(bench, place, found, point)
    return found


def _check_and_do_again(bench: Bench, place: Path, found: Found, point: str) -> None:
    seen = bench.look(place)
    if seen not in bench.may_hold():
        found.faults.append(f"{point}: a reader finds {seen}")
    found.outcomes[{bench.sound: "whole", bench.before: "old"}.get(seen, "absent")] += 1
    for _ in range(MOST_AGAIN):
        ended = run_child(bench.do(place), place)
        if ended.code == 0 or not ended.is_told:
            break
        if bench.work.is_once and REFUSED[0] in ended.words:
            break
    else:
        found.faults.append(f"{point}: again: {ended.words}")
    if ended.code not in (0, 2):
        found.faults.append(f"{point}: again: {ended.words}")
    if bench.look(place) != bench.sound:
        found.faults.append(f"{point}: after doing it again a reader finds {bench.look(place)}")
    if ended.code == 0 and bench.left_beside(place):
        found.faults.append(f"{point}: left {bench.left_beside(place)}")


def give_out(bench: Bench, points: int) -> Found:
    """A full disk and a read-only one from some operation on, and files that may not grow."""
    found = Found(bench.work.name, "disk gives out")
    at = [1, *bench.rng.sample(range(1, bench.n_operations + 1), min(points, bench.n_operations))]
    faults = [
        Fault(refuse_from=k, refusal=bench.rng.choice((errno.ENOSPC, errno.EROFS)))
        for k in at[:points]
    ]
    faults += [
        Fault(most_bytes=max(bench.rng.randrange(bench.most_bytes), 1)) for _ in range(points // 2)
    ]
    for fault in faults:
        place = bench.fresh()
        ended = run_child(bench.do(place), place, fault)
        found.n_tries += 1
        point = str(fault)
        found.outcomes["told" if ended.is_told else f"code {ended.code}"] += 1
        if ended.code != 0 and not ended.is_told:
            found.faults.append(f"{point}: {ended.words}")
        seen = bench.look(place)
        if seen not in bench.may_hold():
            found.faults.append(f"{point}: a reader finds {seen}")
        _check_and_do_again(bench, place, found, point)
    return found


def collide(bench: Bench, points: int) -> Found:
    """Two processes on one output with a random delay: one wins, the other says so."""
    found = Found(bench.work.name, "two processes")
    for _ in range(points):
        place = bench.fresh()
        delay = bench.rng.choice((0.0, bench.rng.uniform(0.0, bench.seconds)))
        children = [start_child(bench.do(place), place, delay_s=s) for s in (0.0, delay)]
        ended = [finish_child(child) for child in children]
        found.n_tries += 1
        found.outcomes[" and ".join(sorted(str(one.code) for one in ended))] += 1
        point = f"delay {delay:.2f} s"
        for one in ended:
            if one.code == 2 and not (one.is_told and any(word in one.words for word in REFUSED)):
                found.faults.append(f"{point}: {one.words}")
            if one.code not in (0, 2):
                found.faults.append(f"{point}: {one.words}")
        if 0 not in [one.code for one in ended]:
            found.faults.append(f"{point}: nobody finished: {[one.words for one in ended]}")
        if bench.look(place) != bench.sound:
            found.faults.append(f"{point}: a reader finds {bench.look(place)}")
        if bench.left_beside(place):
            found.faults.append(f"{point}: left {bench.left_beside(place)}")
    return found


KINDS = {"kill": kill, "disk": give_out, "pair": collide}
"""Kinds of tries by name; each takes a bench and a number of points."""

__all__ = ["KINDS", "OUT", "Bench", "Found"]
