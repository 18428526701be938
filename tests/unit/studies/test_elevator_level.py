"""Why the elevator table's level is not ours: what its rows imply, by hand and played."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.unit.studies.made_up import MadeUpEvidence

from parity311.domains.elevator import example
from parity311.studies.reproduction.claims.elevator import (
    CLAIMS,
    LEVEL_TOLERANCE,
    decide_in_both,
    decide_row,
    implied_stock,
    implied_visits,
    level_words,
    measure_offices,
    why_level,
    with_enforced,
    with_stock,
)
from parity311.studies.reproduction.scoring import Scored, play_rules
from parity311.studies.reproduction.verdicts import FAILS, FOLLOWS, HOLDS, UNTESTED, Decision


def test_what_the_table_implies_by_hand() -> None:
    """103,598 complaints in six years are 47.27 a day; half of four weeks are 14 days."""
    least, most = implied_stock()
    assert most == 2371.8
    assert least == pytest.approx(2371.8 - 47.2726 * 14, abs=0.01)
    assert implied_visits() == pytest.approx((2371.8 - 1403.5) / 14)
    assert "69 a day where 47 come" in why_level()


def test_only_the_last_age_is_scaled() -> None:
    before = example()
    after = with_stock(before, 3.0)
    old, new = (
        np.asarray(one.backlog.start_waiting).reshape(-1, 59, 4, 16) for one in (before, after)
    )
    assert np.allclose(new[..., :-1], old[..., :-1])
    assert np.allclose(new[..., -1], 3.0 * old[..., -1])


def test_a_fifth_of_the_cases_is_enforced() -> None:
    backlog = with_enforced(example(), 0.2).backlog
    share = (backlog.cases_per_day * backlog.chance).sum() / backlog.cases_per_day.sum()
    assert float(share) == pytest.approx(0.2, rel=1e-5)


def test_with_what_its_rows_imply_the_published_level_comes_back() -> None:
    """An office with a fifth of the stock and thrice the chances: each cause moves its column."""
    city = with_enforced(with_stock(example(), 0.2), 0.6)
    evidence = SimpleNamespace(
        true=lambda *_: city,
        play_rules=lambda slug, params, rules: play_rules(
            slug, params, rules, n_episodes=2, seed=5
        ),
    )
    found = measure_offices(cast(Any, evidence))
    here, stock, share, visits = found.values()
    assert here.late < 0.5 * 1423.2 < stock.late
    assert here.severe < stock.severe
    assert stock.acted == pytest.approx(here.acted, abs=0.1)
    assert share.acted == pytest.approx(0.15, abs=0.06)
    assert here.acted > 0.4
    assert visits.visits_per_day == pytest.approx(implied_visits(), rel=0.1)
    assert visits.late == pytest.approx(1423.2, rel=LEVEL_TOLERANCE)
    assert visits.severe == pytest.approx(532.7, rel=2 * LEVEL_TOLERANCE)
    assert "this city: A30" in level_words(found)


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        (HOLDS, HOLDS, HOLDS),
        (FAILS, FAILS, FAILS),
        (HOLDS, UNTESTED, HOLDS),
        (FAILS, UNTESTED, UNTESTED),
        (HOLDS, FAILS, UNTESTED),
        (FAILS, HOLDS, UNTESTED),
        (UNTESTED, HOLDS, UNTESTED),
        (UNTESTED, FAILS, UNTESTED),
    ],
)
def test_an_order_that_the_stock_can_turn_round_is_not_judged(
    here: str, there: str, verdict: str
) -> None:
    found = decide_in_both(Decision(here, "so here"), Decision(there, "so there"))
    assert found.verdict == verdict
    assert "so here" in found.reason
    assert ("so there" in found.reason) == (found.verdict == UNTESTED != here)


class _TwoOffices(MadeUpEvidence):
    """TAIL is well ahead of EMERG in the second office, and where asked behind it in the first."""

    def __init__(self, here: float, there: float) -> None:
        super().__init__()
        self.ahead = {"": here, "as-table": there}

    def scored_elsewhere(self, scenario: str, part: str, place: str, change: Any) -> Scored:
        found = super().scored(scenario, part)
        speed = np.full_like(found.arrays["speed"], -100.0)
        speed[found.rows("tail")] += self.ahead[place]
        speed[found.rows("balanced")] += 30.0
        return replace(found, arrays={**found.arrays, "speed": speed})

    def scored(self, scenario: str, part: str) -> Scored:
        return self.scored_elsewhere(scenario, part, "", None)


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [(20.0, 20.0, HOLDS), (-20.0, -20.0, FAILS), (-20.0, 20.0, UNTESTED), (20.0, -20.0, UNTESTED)],
)
def test_a_row_is_judged_in_both_offices(here: float, there: float, verdict: str) -> None:
    claim = next(one for one in CLAIMS if one.key == "elevator_tail")
    assert claim.test(cast(Any, _TwoOffices(here, there))).decision.verdict == verdict


def test_one_policy_out_of_its_place_is_counted_once() -> None:
    pairs = {"TD": Decision(FAILS, "reversed"), "RANDOM": Decision(HOLDS, "ahead")}
    assert decide_row(pairs).verdict == FAILS
    assert decide_row(pairs, {"TD"}).verdict == FOLLOWS
    both = {**pairs, "RANDOM": Decision(FAILS, "reversed")}
    assert decide_row(both, {"TD", "RANDOM"}).verdict == FAILS
    assert decide_row({"TD": Decision(HOLDS, "ahead")}, {"TD"}).verdict == HOLDS
