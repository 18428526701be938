"""The first sentence of an estimate: a number where there is one, else a range."""

from __future__ import annotations

import numpy as np

from parity311.report.reporting_page import say_total
from parity311.reporting.strata import Strata, StrataTotals


def totals_with(spread: float) -> StrataTotals:
    """One window of 28 days, two strata, draws that spread by this factor either way."""
    draws = 50.0 * np.geomspace(1.0 / spread, spread, 201)[:, None, None] * np.ones((1, 1, 2))
    estimate = np.full((1, 2), 50.0)
    strata = Strata("income2", ("Q1", "Q2"), np.zeros(1, int))
    return StrataTotals(strata, estimate, estimate, estimate, draws, 1.0)


def test_what_is_known_within_a_factor_of_three_is_a_range() -> None:
    said = say_total(totals_with(6.0), 20.0)
    assert said.startswith("Anything from 20 to 502 incidents per 28 days")
    assert "About" not in said


def test_what_is_known_stands_with_its_interval() -> None:
    assert say_total(totals_with(1.2), 20.0).startswith("About 100 (85 to 118) incidents")
    assert say_total(totals_with(1.0), 20.0).startswith("About 100 incidents")
