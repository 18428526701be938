"""A policy that learns from its own decisions: what it learns, and what is done about it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.jobs.choose import Workplace
from parity311.lifecycle.feedback import (
    ARMS,
    NONE,
    TODAY,
    FeedbackConfig,
    by_round,
    check_feedback,
    drift_of,
    run_feedback,
    say_why,
)
from parity311.lifecycle.feedback_page import write_feedback
from parity311.lifecycle.loop_rules import BonusRule, PlaceRule, move_prices

SMALL = FeedbackConfig(rounds=2, n_cities=2, seed=21, round_days=60, n_tracts=40)


def waiting(tract: list[int], severity: list[int]) -> Any:
    """Waiting cases as a rule sees them."""
    return SimpleNamespace(n=len(tract), tract=np.array(tract), severity=np.array(severity))


class TestRules:
    chance = np.array([[0.5, 0.4], [0.1, 0.1]])

    def test_visits_go_where_most_was_found(self) -> None:
        rule = PlaceRule(self.chance, np.array([0, 4]), np.zeros(6))
        assert np.argmax(rule(waiting([1, 0], [0, 0]))) == 1

    def test_a_price_lifts_the_stratum_that_is_behind(self) -> None:
        prices = np.array([0, 0, 0, 0, 9.0, 0])
        rule = PlaceRule(self.chance, np.array([0, 4]), prices)
        assert np.argmax(rule(waiting([1, 0], [0, 0]))) == 0

    def test_a_bonus_moves_tracts_ahead_that_nobody_saw(self) -> None:
        plain = PlaceRule(self.chance, np.array([0, 4]), np.zeros(6))
        cases = waiting([0, 0, 0, 1], [0, 0, 0, 0])
        assert np.argmax(BonusRule(plain, np.array([0.0, 1.0]), 1.0)(cases)) == 3
        assert np.argmin(BonusRule(plain, np.array([0.0, 1.0]), 0.0)(cases)) == 3

    def test_who_is_not_wanted_stays_so(self) -> None:
        never = lambda cases: np.full(cases.n, -np.inf)  # noqa: E731
        assert np.isneginf(BonusRule(never, np.ones(2), 0.3)(waiting([0, 1], [0, 0]))).all()

    def test_prices_rise_where_coverage_is_behind(self) -> None:
        moved = move_prices(np.zeros(6), np.array([0.1, 0.2, 0.3, 0.2, np.nan]))
        assert moved[0] > 0 > moved[2]
        assert moved[5] == 0.0


def row(city: int, arm: str, number: int, coverage: float) -> dict[str, Any]:
    """A round with this coverage of the lowest quintile."""
    figures = ("coverage", "gap", "reported_lowest", "reported")
    counts = ("visits", "visits_lowest", "discovered", "discovered_lowest")
    return {
        "city": city,
        "arm": arm,
        "round": number,
        "coverage_lowest": coverage,
        **dict.fromkeys(figures, 0.2),
        **dict.fromkeys(counts, 100),
    }


def test_drift_is_the_end_less_the_beginning() -> None:
    rows = [row(c, NONE, n, 0.3 - 0.01 * n + 0.001 * c) for c in (1, 2, 3) for n in range(1, 7)]
    rows += [row(c, "bonus", n, 0.3 + 0.001 * c) for c in (1, 2, 3) for n in range(1, 7)]
    none, bonus = drift_of(rows, NONE), drift_of(rows, "bonus")
    assert none["coverage_lowest_drift"]["value"] == pytest.approx(-0.03)
    assert bonus["coverage_lowest_drift_over_none"]["value"] == pytest.approx(0.03)
    assert bonus["visits_over_none"]["value"] == 0.0
    said = " ".join(say_why(rows, [NONE, "bonus"], SMALL))
    assert "drifts by -3.0 points" in said
    rounds = by_round(rows, [NONE], 6)
    assert rounds[0]["coverage_lowest_lower"] < rounds[0]["coverage_lowest"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"domain": "boiler"}, "mandatory filings"),
        ({"learner": "plaices"}, "Unknown learner"),
        ({"arms": ("prayer",)}, "Unknown mitigation"),
        ({"world": "flat"}, "Unknown world"),
        ({"capacity": "ample"}, "Unknown capacity"),
    ],
)
def test_what_cannot_be_played_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_feedback(FeedbackConfig(**changed))


@pytest.mark.slow
def test_rounds_are_played_and_written(tmp_path: Path) -> None:
    alone = Workplace(n_workers=1)
    found = run_feedback(SMALL, lambda *_: None, where=alone, kept=tmp_path / "jobs")
    again = run_feedback(SMALL, lambda *_: None, where=alone, kept=tmp_path / "jobs")
    assert again["by_round"] == found["by_round"]
    assert list(found["arms"]) == list(ARMS)
    assert len(found["rows"]) == 2 * 2 * len(ARMS)
    first = [one for one in found["rows"] if one["round"] == 1 and one["city"] == 21]
    # The same incidents for all; the first round is before anything was learned from itself.
    assert len({one["visits"] > 0 for one in first}) == 1
    today = next(one for one in first if one["arm"] == TODAY)
    assert today["discovered"] > 0
    written = write_feedback(found, tmp_path / "runs")
    page = Path(written["page"])
    assert "learns from its own decisions" in page.read_text()
    kept = json.loads((page.parent / "feedback.json").read_text())
    assert len(kept["by_round"]) == 2 * len(ARMS)
