"""The page on the price of parity: what was chosen, and what meets the bar."""

from __future__ import annotations

from typing import Any

import pytest
from docs.parity_figures import is_met, name_choice

ROW: dict[str, Any] = {
    "gap": {"upper": 0.05},
    "above_floor": {"value": 0.015},
    "against_dual": {"upper": 0.005},
}


def test_a_row_just_within_the_bar_meets_it_and_one_just_beyond_does_not() -> None:
    assert all(is_met(ROW).values())
    for part, name, figure in (
        ("gap", "gap", {"upper": 0.0501}),
        ("floor", "above_floor", {"value": 0.0151}),
        ("dual", "against_dual", {"upper": 0.0051}),
    ):
        met = is_met({**ROW, name: figure})
        assert [key for key, holds in met.items() if not holds] == [part]


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
