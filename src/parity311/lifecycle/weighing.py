"""Alternatives as outcomes, what groups chose and why, and the weights that follow from it.

Nobody can say what a weight of 0.3 on equity is worth to them. What can be said is which of a few
policies one would rather live with: who waits, how many are found, at what price. Alternatives are
unbeaten points of a frontier; each group chooses one and says why; the weights are the mean of what
was chosen, every group alike or by how many people it speaks for.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.lifecycle.gates import LONGEST_WORDS, NOBODY
from parity311.lifecycle.weights_file import write_weights
from parity311.mdp.contract import REWARD_NAMES
from parity311.report.folder import open_run
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors

LETTERS = "ABCDEFGH"
N_ALTERNATIVES = 5
COLUMNS = ("group", "alternative", "reason", "people")
OUTCOMES = ("gap", "recall", "visits", "price")
FRONTIER_FILE = "frontier.json"


@dataclass(frozen=True)
class Alternative:
    """One policy to choose, by what it leads to."""

    letter: str
    place: int
    """of the point in its frontier"""
    weights: tuple[float, ...]
    """(4,) speed, cost, equity, retention"""
    gap: float
    """points by which the worst served quintile is behind the best, as a share"""
    recall: float
    """share of reported actionable incidents that are found in time"""
    visits: float
    """visits per complaint"""
    price: float | None
    """share of what could be found that is given up for equity; None where it is not defined"""

    @property
    def words(self) -> str:
        """What one would live with, in a sentence."""
        given_up = "" if self.price is None else f"; equity costs {self.price:.0%} of all finds"
        return (
            f"the worst served fifth of the areas is {100 * self.gap:.1f} points behind the best; "
            f"{self.recall:.0%} of what is reported and real is found in time, with "
            f"{self.visits:.2f} visits per complaint{given_up}"
        )


@dataclass(frozen=True)
class GroupChoice:
    """What one group chose."""

    group: str
    alternative: str
    reason: str
    people: float
    """whom it speaks for; 1 where nobody says"""


def read_frontier(name: str, runs: Path) -> tuple[str, list[dict[str, Any]], str]:
    """Domain, points and origin of a frontier: a run by name, its folder, or its frontier.json."""
    path = Path(name)
    if path.is_dir():
        path = path / FRONTIER_FILE
    elif not path.is_file():
        path = open_run(name, runs).path / FRONTIER_FILE
    try:
        plain = json.loads(path.read_bytes())
        domain, points = str(plain["domain"]), list(plain["points"])
        for point in points:
            _ = [float(point["preference"][part]) for part in REWARD_NAMES]
            _ = [float(point[figure]["value"]) for figure in ("gap", "recall", "visits")]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} holds no frontier ({type(error).__name__}: {error}); give a run of `parity311 "
            "frontier`, or its frontier.json."
        ) from error
    return domain, points, str(path)


def list_alternatives(
    points: Sequence[Mapping[str, Any]], n: int = N_ALTERNATIVES
) -> list[Alternative]:
    """Unbeaten points, evenly spread over the gap they lead to, the widest gap first."""
    best = [point for point in points if point.get("is_best", True)]
    if len(best) < 2:
        raise InputError(
            f"The frontier has {len(best)} points that nothing beats; a choice needs two. Make it "
            "with more preferences."
        )
    ordered = sorted(best, key=lambda point: -float(point["gap"]["value"]))
    spread = np.linspace(0, len(ordered) - 1, min(n, len(ordered), len(LETTERS)))
    found = []
    for letter, at in zip(LETTERS, np.unique(np.rint(spread).astype(int)), strict=False):
        point = ordered[int(at)]
        price = (point.get("price") or {}).get("value")
        found.append(
            Alternative(
                letter,
                int(point["place"]),
                tuple(float(point["preference"][name]) for name in REWARD_NAMES),
                gap=float(point["gap"]["value"]),
                recall=float(point["recall"]["value"]),
                visits=float(point["visits"]["value"]),
                price=None if price is None else float(price),
            )
        )
    return found


def write_ballot(path: Path, alternatives: Sequence[Alternative]) -> Path:
    """A CSV for groups to fill in, with the alternatives in words above."""
    text = io.StringIO()
    for one in alternatives:
        text.write(f"# {one.letter}: {one.words}\n")
    csv.writer(text, lineterminator="\n").writerow(COLUMNS)
    with telling_disk_errors(path):
        return write_text_aside(path, text.getvalue())


def read_choices(path: Path, alternatives: Sequence[Alternative]) -> list[GroupChoice]:
    """What groups chose: group, alternative, reason, and where known people."""
    letters = [one.letter for one in alternatives]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(line for line in file if not line.startswith("#"))
            missing = [name for name in COLUMNS[:3] if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(
                    f"{path} lacks the column {', '.join(missing)}; choices have "
                    f"{', '.join(COLUMNS)}."
                )
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"Cannot read {path} ({error}); name a CSV file in UTF-8.") from error
    if not rows:
        raise InputError(f"{path} holds no choice; every group gives one row.")
    found = [_choice(row, letters, path) for row in rows]
    twice = {one.group for one in found if sum(two.group == one.group for two in found) > 1}
    if twice:
        raise InputError(
            f"{path} has two choices of {', '.join(sorted(twice))}; a group has one. Keep the last."
        )
    return found


def _choice(row: dict[str, Any], letters: Sequence[str], path: Path) -> GroupChoice:
    group, letter, reason = ((row.get(name) or "").strip() for name in COLUMNS[:3])
    if group.lower() in NOBODY or reason.lower() in NOBODY or len(reason) > LONGEST_WORDS:
        raise InputError(
            f"{path} has a choice of {group!r} for the reason {reason[:40]!r}; a choice needs a "
            f"named group and a reason of at most {LONGEST_WORDS:,} characters."
        )
    if letter not in letters:
        raise InputError(
            f"{group} chose {letter!r} in {path}; allowed: {', '.join(letters)}. Ask again."
        )
    try:
        people = float(row.get("people") or 1.0)
    except ValueError:
        people = float("nan")
    if not 0.0 < people < 1e9:
        raise InputError(
            f"{group} speaks for {row.get('people')!r} people in {path}; give a number above 0."
        )
    return GroupChoice(group, letter, reason, people)


def weigh(
    alternatives: Sequence[Alternative],
    choices: Sequence[GroupChoice],
    points: Sequence[Mapping[str, Any]],
    *,
    by_people: bool = False,
) -> dict[str, Any]:
    """The weights that follow, what they lead to, and what each group's own choice would change."""
    by_letter = {one.letter: one for one in alternatives}
    counts = np.array([one.people if by_people else 1.0 for one in choices])
    chosen = np.array([by_letter[one.alternative].weights for one in choices])
    weights = (counts[:, None] * chosen).sum(axis=0) / counts.sum()
    result = nearest(points, weights)
    groups = []
    for place, one in enumerate(choices):
        own = by_letter[one.alternative]
        others = np.delete(np.arange(len(choices)), place)
        without = (
            (counts[others, None] * chosen[others]).sum(axis=0) / counts[others].sum()
            if len(others)
            else weights
        )
        groups.append(
            {
                **asdict(one),
                "weights": list(own.weights),
                "share": float(counts[place] / counts.sum()),
                "alone": _difference(_outcomes(own), result),
                "without_it": _difference(nearest(points, without), result),
            }
        )
    return {"weights": weights.tolist(), "leads_to": result, "groups": groups}


def nearest(points: Sequence[Mapping[str, Any]], weights: np.ndarray) -> dict[str, Any]:
    """Outcomes of the point of the frontier whose weights are nearest: what was played."""

    def distance(point: Mapping[str, Any]) -> float:
        own = [float(point["preference"][name]) for name in REWARD_NAMES]
        return float(np.abs(np.asarray(own) - weights).sum())

    point = min(points, key=distance)
    price = (point.get("price") or {}).get("value")
    return {
        "place": int(point["place"]),
        "distance": distance(point),
        **{name: float(point[name]["value"]) for name in ("gap", "recall", "visits")},
        "price": None if price is None else float(price),
    }


def _outcomes(one: Alternative) -> dict[str, Any]:
    return {name: getattr(one, name) for name in OUTCOMES}


def _difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, float | None]:
    return {
        name: None if first[name] is None or second[name] is None else first[name] - second[name]
        for name in OUTCOMES
    }


def write_weighed(
    path: Path,
    domain: str,
    origin: str,
    alternatives: Sequence[Alternative],
    found: Mapping[str, Any],
) -> Path:
    """The weights file that `cycle --weights` reads, with what it rests on."""
    with telling_disk_errors(path):
        return write_weights(
            path, domain, tuple(found["weights"]),
            frontier=origin,
            alternatives=[{**asdict(one), "words": one.words} for one in alternatives],
            leads_to=found["leads_to"],
            groups=found["groups"],
        )  # fmt: skip
