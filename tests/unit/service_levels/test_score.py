"""Days between reviews are found again where the waits on record hang on them."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.service_levels.designs import numbers_of
from parity311.service_levels.losses import Need, visited_shares
from parity311.service_levels.score import (
    COMPARED_DAYS,
    ScoredYear,
    fit_reviews,
    score_designs,
    scored_year,
    waits_apart,
)
from parity311.service_levels.years import YEAR_DAYS, RecordedDays

NEED = Need(np.ones((2, 2)), ("all",), np.ones((2, 2, 1)))
KEPT = {2: 0.7, 28: 0.2}
"""Retention under which about as many are visited, by days between reviews."""


def scarce_year(seed: int = 4) -> RecordedDays:
    """Twelve requests a day in two districts and categories, eight visits."""
    rng = np.random.default_rng(seed)
    arrivals = rng.poisson(3.0, (YEAR_DAYS, 2, 2))
    visits = rng.multinomial(8, [0.25] * 4, YEAR_DAYS).reshape(YEAR_DAYS, 2, 2)
    return RecordedDays(("N", "S"), ("hazard", "prune"), arrivals, visits, np.array([10.0, 4.0]))


def waits_of(at_least: list[float]) -> np.ndarray:
    """(1, 1, A, 1) visits after at least so many days."""
    return np.array(at_least)[None, None, :, None]


@pytest.mark.parametrize("true_days", [2, 28])
def test_days_between_reviews_are_found_again(true_days: int) -> None:
    """Reviews every other day leave short waits, monthly ones long waits, of as many visited."""
    recorded = scarce_year()
    years: dict[int, list[ScoredYear]] = {
        days: [scored_year(recorded.setting(review_every=days), 0)] for days in (2, 28)
    }
    (year,) = years[true_days]
    shares = recorded.visits.sum(axis=0).astype(float)
    truth = numbers_of(year.setting, shares.sum(axis=1), shares, np.full((2, 2), KEPT[true_days]))
    played = score_designs([year], truth[None], NEED)
    waits = played.at_least[0], played.received[0]
    visited = visited_shares(*waits)[..., 0]
    assert fit_reviews(recorded, years, visited, waits, NEED) == true_days


def test_waits_apart_by_hand() -> None:
    """One of two was visited at once here, after two days there: half apart on days 0 and 1."""
    here, n = waits_of([1, 0, 0, 0]), np.array([[2]])
    assert waits_apart(here, n, here, n) == 0.0
    later = waits_of([1, 1, 1, 0])
    assert waits_apart(here, n, later, n) == pytest.approx(2 * 0.5 / len(COMPARED_DAYS))


def test_a_year_as_it_was_counts_the_requests_that_are_on_record() -> None:
    """Those of its first 237 days: a visit within 127 days of them lies in the year itself."""
    before, year = scarce_year(1), scarce_year(2)
    setting = year.setting_as_it_was(before)
    assert setting.judged == (YEAR_DAYS, 2 * YEAR_DAYS - 127)
    np.testing.assert_array_equal(setting.n_received, year.arrivals[:237].sum(axis=0))
    np.testing.assert_array_equal(setting.capacity[:YEAR_DAYS], before.visits.sum(axis=(1, 2)))
    # A year that is replayed counts all of its requests.
    np.testing.assert_array_equal(year.setting().n_received, year.arrivals.sum(axis=0))


def test_a_cell_nobody_asked_for_is_not_compared() -> None:
    at_least = np.concatenate([waits_of([1, 0]), waits_of([0, 0])])
    n = np.array([[2], [0]])
    assert waits_apart(at_least, n, at_least, n) == 0.0
