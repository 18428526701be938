"""Alternatives as outcomes, what groups choose, and the weights that follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.lifecycle.cycle_config import CycleConfig
from parity311.lifecycle.weighing import (
    list_alternatives,
    nearest,
    read_choices,
    read_frontier,
    weigh,
    write_ballot,
    write_weighed,
)
from parity311.lifecycle.weights_file import read_weights


def point(place: int, equity: float, gap: float, *, is_best: bool = True) -> dict[str, Any]:
    """A point of a frontier as `parity311 frontier` writes it."""
    rest = 1.0 - equity
    return {
        "place": place,
        "preference": {"speed": 0.8 * rest, "cost": 0.2 * rest, "equity": equity, "retention": 0.0},
        "gap": {"value": gap},
        "recall": {"value": 0.5 - equity / 10},
        "visits": {"value": 0.3},
        "price": {"value": equity / 10},
        "is_best": is_best,
    }


POINTS = [
    point(0, 0.0, 0.2),
    point(1, 0.5, 0.1),
    point(2, 1.0, 0.02),
    point(3, 0.7, 0.3, is_best=False),
]


@pytest.fixture
def frontier(tmp_path: Path) -> Path:
    path = tmp_path / "frontier.json"
    path.write_text(json.dumps({"domain": "heat", "points": POINTS}))
    return path


def choices(path: Path, *rows: str) -> Path:
    """A file of choices."""
    path.write_text("\n".join(["# A: …", "group,alternative,reason,people", *rows]) + "\n")
    return path


def test_alternatives_are_unbeaten_and_in_words(frontier: Path, tmp_path: Path) -> None:
    domain, points, _ = read_frontier(str(frontier), tmp_path)
    found = list_alternatives(points)
    assert domain == "heat"
    assert [one.place for one in found] == [0, 1, 2]
    assert "20.0 points behind" in found[0].words
    ballot = write_ballot(tmp_path / "ballot.csv", found).read_text()
    assert ballot.count("\n# ") == 2
    assert ballot.endswith("group,alternative,reason,people\n")


def test_weights_are_the_mean_of_what_was_chosen(frontier: Path, tmp_path: Path) -> None:
    found = list_alternatives(POINTS)
    given = read_choices(
        choices(tmp_path / "c.csv", "Tenants,C,we wait longest,300", "Owners,A,fewer visits,100"),
        found,
    )
    alike = weigh(found, given, POINTS)
    assert alike["weights"] == pytest.approx([0.4, 0.1, 0.5, 0.0])
    assert alike["leads_to"]["place"] == 1
    tenants = alike["groups"][0]
    assert tenants["alone"]["gap"] == pytest.approx(0.02 - 0.1)
    assert tenants["without_it"]["gap"] == pytest.approx(0.2 - 0.1)
    by_people = weigh(found, given, POINTS, by_people=True)
    assert by_people["weights"][2] == pytest.approx(0.75)
    path = write_weighed(tmp_path / "weights.json", "heat", str(frontier), found, alike)
    weights = read_weights(path, "heat")
    assert CycleConfig("heat", weights=weights).preference == weights
    assert json.loads(path.read_text())["groups"][0]["reason"] == "we wait longest"


def test_the_nearest_point_was_played() -> None:
    assert nearest(POINTS, np.array([0.0, 0.0, 0.9, 0.1]))["place"] == 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (("Tenants,Z,because,1",), "allowed: A, B, C"),
        (("-,A,because,1",), "named group"),
        (("Tenants,A,,1",), "a reason"),
        (("Tenants,A,because,-3",), "a number above 0"),
        (("Tenants,A,because,1", "Tenants,B,because,1"), "two choices of Tenants"),
        ((), "holds no choice"),
    ],
)
def test_a_choice_that_is_none_is_refused(
    rows: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    path = choices(tmp_path / "c.csv", *rows)
    with pytest.raises(InputError, match=words):
        read_choices(path, list_alternatives(POINTS))


def test_what_is_no_frontier_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="holds no frontier"):
        read_frontier(str(path), tmp_path)
    with pytest.raises(InputError, match="a choice needs two"):
        list_alternatives(POINTS[3:])
