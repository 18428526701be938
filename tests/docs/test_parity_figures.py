"""The page on the price of parity: what was chosen, and what meets the bar."""

from __future__ import annotations

from typing import Any

import pytest
from docs.parity_figures import FRONTIER, LEAST_LEVEL, judge, name_choice, turns_back


def study(gap: float, used: float, more: float, plain_gap: float = 0.08) -> dict[str, Any]:
    """A made-up city with the learned policy, with and without prices."""
    row = {"gap": {"value": gap}, "limit_used": used, "against_chosen": {"value": more}}
    plain = {**row, "policy": "learned", "gap": {"value": plain_gap}}
    return {"policies": [{**row, "policy": "learned_chosen"}, plain]}


def test_bars_just_within_are_met_and_each_just_beyond_is_not() -> None:
    level, beyond = study(0.02, 1.0, 0.0), study(0.02, 1.01, 0.0)
    parts = ("is_level", "is_productive", "is_never_wider")
    met = judge([level] * LEAST_LEVEL + [beyond] * 2)
    assert [met[part] for part in parts] == [True, True, True]
    assert not judge([level] * (LEAST_LEVEL - 1) + [beyond] * 3)["is_level"]
    wider = study(0.0801, 1.0, 0.0)
    assert not judge([level] * 19 + [wider])["is_never_wider"]


def test_the_lower_bound_over_cities_is_judged_not_the_mean() -> None:
    spread = [study(0.02, 0.5, 0.01 * (-1) ** n) for n in range(20)]
    assert judge(spread)["more"][0] == pytest.approx(0.0)
    assert judge(spread)["is_productive"]
    wide = [study(0.02, 0.5, 0.02 * (-1) ** n) for n in range(20)]
    assert judge(wide)["more"][0] == pytest.approx(0.0)
    assert not judge(wide)["is_productive"]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"is_online": False, "target_gap": 0.02}, "fixed prices at a target gap of 0.02"),
        ({"is_online": True}, "dual thresholds"),
        (
            {"is_online": True, "follows": True, "pace": [1.0, 42.0]},
            "prices that follow complaints, posted every 42 days",
        ),
        (
            {"is_online": True, "follows": True, "pace": [4.0, 0.0]},
            "prices that follow complaints, at 4 × the usual step",
        ),
    ],
)
def test_what_was_chosen_is_named(row: dict[str, Any], named: str) -> None:
    assert name_choice(row) == named


def frontier(gaps: list[float], prices: list[float], noise: float = 0.0) -> list[dict[str, Any]]:
    """Cities with a gap and a price at weights 0.1, 0.2 …, after a gap of .08 without weight."""
    cities = []
    for sign in (-1.0, 0.0, 1.0):
        rows = [{"policy": "learned", "weight": 0.0, "gap": {"value": 0.08}}]
        for n, (gap, price) in enumerate(zip(gaps, prices, strict=True), start=1):
            own = {"gap": {"value": gap + noise * sign * n}, "price": {"value": price}}
            rows.append({"policy": FRONTIER, "weight": n / 10, **own})
        cities.append({"policies": rows})
    return cities


def test_a_frontier_that_turns_back_is_found_and_noise_is_none() -> None:
    assert turns_back(frontier([0.06, 0.04], [0.01, 0.02])) == []
    assert turns_back(frontier([0.04, 0.06], [0.01, 0.02])) == ["2.00 points wider from 0.1 to 0.2"]
    assert turns_back(frontier([0.06, 0.04], [0.02, 0.01])) == ["1.00 % cheaper from 0.1 to 0.2"]
    # Wider in the mean, by less than cities differ.
    assert turns_back(frontier([0.04, 0.042], [0.01, 0.02], noise=0.02)) == []
