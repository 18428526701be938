"""The study of estimates in cities that are not as they assume: what it keeps, sums up and asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parity311.errors import InputError, RunError
from parity311.jobs.choose import Workplace
from parity311.jobs.job import Task
from parity311.studies import worlds
from parity311.studies.worlds import check_bars, summarise, try_worlds

IN_LINE = Workplace(n_workers=1)
"""In this process, where the functions that a test puts in their place are."""


def silent(*_: object) -> None:
    """Tell nobody."""


def row(world: str, bias: float, *, holds: bool = True, inspections: float = 0.05) -> dict:
    return {
        "world": world,
        "seed": 1,
        "inspections": inspections,
        "bias": [bias] * 5,
        "ratio": bias / 2,
        "ends": [[0.9, 1.1]] * 5,
        "holds": [holds] * 5,
        "area_coverage": 0.9,
    }


def test_errors_are_averaged_over_cities() -> None:
    """By hand: .2 and -.1 have the mean .05; of ten intervals five hold."""
    found = summarise([row("gamma", 0.2, holds=False), row("gamma", -0.1), row("fading", 0.0)])
    first = found[0]
    assert (first["world"], first["n_cities"]) == ("gamma", 2)
    assert first["bias"] == pytest.approx([0.05] * 5)
    assert first["ratio"] == pytest.approx(0.025)
    assert first["held"] == pytest.approx(0.5)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("rows", "missed"),
    [
        ([row("gamma", 0.05)], 0),
        ([row("gamma", 0.15)], 1),
        ([row("gamma", 0.25)], 2),
        ([row("gamma", 0.05, holds=False)], 1),
        ([{"world": "gamma", "seed": 1, "inspections": 0.05, "refused": "no reports"}], 3),
        # Reports alone are shown, and nothing is asked of them.
        ([row("gamma", 0.9, inspections=0.0)], 0),
    ],
)
def test_the_bars_notice_what_does_not_hold(rows: list[dict], missed: int) -> None:
    bars = check_bars(summarise(rows))
    assert sum(not bar["holds"] for bar in bars) == missed


def test_what_is_kept_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []

    def score(task: Task) -> list[dict]:
        world, seed = task.spec["world"], task.spec["seed"]
        done.append((world, seed))
        if len(done) == 3:
            raise KeyboardInterrupt
        return [row(world, 0.01 * seed)]

    monkeypatch.setattr(worlds, "score_city", score)
    asked: dict[str, Any] = {"worlds": ["default", "gamma"], "progress": silent, "where": IN_LINE}
    with pytest.raises(KeyboardInterrupt):
        try_worlds("crane", [1, 2], tmp_path / "worlds", **asked)
    found = try_worlds("crane", [1, 2], tmp_path / "worlds", **asked)
    assert done == [("default", 1), ("gamma", 1), ("default", 2), ("default", 2), ("gamma", 2)]
    assert found["rows"][1]["bias"] == pytest.approx([0.015] * 5)
    assert found["worlds"]["gamma"] == "few incidents end soon"


def test_the_reserved_world_is_tried_only_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "score_city", lambda task: [row(task.spec["world"], 0.0)])
    names = try_worlds("crane", [1], tmp_path / "all", where=IN_LINE, progress=silent)["worlds"]
    assert worlds.RESERVED not in names
    assert len(names) == 11
    named = try_worlds("crane", [1], tmp_path / "one", worlds=["unseen"], progress=silent)
    assert list(named["worlds"]) == ["unseen"]


def test_what_cannot_be_tried_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="are filings, which nobody reports"):
        try_worlds("boiler", [1], tmp_path / "worlds", progress=silent)
    with pytest.raises(InputError, match="Unknown world 'nowhere'"):
        try_worlds("crane", [1], tmp_path / "worlds", worlds=["nowhere"], progress=silent)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letters.txt").write_text("dear")
    with pytest.raises(RunError, match="mine"):
        try_worlds("crane", [1], mine, progress=silent)
    assert [path.name for path in mine.iterdir()] == ["letters.txt"]


@pytest.mark.slow
def test_a_city_of_a_world_is_scored_and_not_kept(tmp_path: Path) -> None:
    found = try_worlds("crane", [5], tmp_path, worlds=["strict"], progress=silent)
    (part,) = tmp_path.iterdir()
    assert part.name == "crane-strict-5.json"
    told = json.loads(part.read_text())
    assert [one["inspections"] for one in told] == [0.0, 0.05]
    for one in told:
        assert "refused" in one or (len(one["bias"]) == 5 and all(b > -1 for b in one["bias"]))
    assert found["rows"][0]["n_cities"] == 1
