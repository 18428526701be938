"""The page on the price of parity: what was chosen, and what meets the bar."""

from __future__ import annotations

from typing import Any

import pytest
from docs.parity_figures import LEAST_LEVEL, judge, name_choice


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
