"""How long incidents last, from what visits find and from further reports."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.estimation.visit_sequences import (
    FOUND,
    GRID_DAYS,
    NOTHING,
    SHUT,
    SHUT_THEN_FOUND,
    Sequences,
    _indicators,
    _penalised,
    believe_lifetime,
    profile_likelihood,
)

pytestmark = pytest.mark.slow

UNKNOWN = 50.0
"""Sd of a prior that says nothing."""


def play(n: int, lifetime_days: float, seed: int = 0, opens_when_over: float = 0.4) -> Sequences:
    """Visits to made-up cases: graver codes are seen sooner and written up more often.

    A door opens with 0.8 while the incident is there; who did not open is seen again, mostly.
    """
    rng = np.random.default_rng(seed)
    code, category = rng.integers(0, 4, n), rng.integers(0, 2, n)
    ends = rng.exponential(lifetime_days, n)
    first = rng.exponential(4.0 + 4.0 * code)
    second = first + rng.exponential(15.0, n)
    share = np.array([0.7, 0.55, 0.4, 0.25])[code]
    is_actionable = rng.random(n) < share

    def visit(days: np.ndarray) -> np.ndarray:
        is_there = days < ends
        gets_in = rng.random(n) < np.where(is_there, 0.8, opens_when_over)
        return np.where(gets_in, np.where(is_there & is_actionable, FOUND, NOTHING), 2)

    result, again = visit(first), visit(second)
    is_seen_again = (result == 2) & (rng.random(n) < 0.9)
    result = np.where(result == 2, np.where(is_seen_again, SHUT_THEN_FOUND + again, SHUT), result)
    return Sequences(code, category, first, np.where(is_seen_again, second, first), result)


def take(seen: Sequences, rows: np.ndarray) -> Sequences:
    return Sequences(*(part[rows] for part in seen))


@pytest.mark.parametrize("lifetime_days", [15.0, 60.0, 150.0])
def test_visits_give_the_lifetime(lifetime_days: float) -> None:
    found = believe_lifetime(play(4_000, lifetime_days), lifetime_days, UNKNOWN)
    assert abs(np.log(found.mean_days / lifetime_days)) < 2.5 * found.log_sd
    assert found.log_sd < 0.3


def test_the_spread_is_that_of_other_samples() -> None:
    """Over samples, errors are as large as they say: about one in twenty lies beyond two."""
    found = [believe_lifetime(play(1_000, 60.0, seed), 60.0, UNKNOWN) for seed in range(8)]
    errors = np.array([np.log(one.likeliest_days / 60.0) / one.log_sd for one in found])
    assert 0.4 < np.sqrt(np.mean(errors**2)) < 1.6


def test_dropping_doors_that_stayed_shut_would_lengthen_it() -> None:
    """The broken twin: where nobody is left to open once it is over, those looked into last."""
    seen = play(4_000, 30.0, opens_when_over=0.2)
    whole = believe_lifetime(seen, 30.0, UNKNOWN)
    looked = believe_lifetime(take(seen, seen.result <= NOTHING), 30.0, UNKNOWN)
    assert abs(np.log(whole.mean_days / 30.0)) < 3.0 * whole.log_sd
    assert np.log(looked.mean_days / 30.0) > 3.0 * whole.log_sd


def test_waits_that_are_not_those_of_the_visits_tell_nothing() -> None:
    """The broken twin: shuffled, the same waits show no decay, and it seems to last for ever."""
    seen = play(4_000, 15.0)
    order = np.random.default_rng(1).permutation(len(seen.code))
    mixed = seen._replace(first_days=seen.first_days[order], second_days=seen.second_days[order])
    assert believe_lifetime(mixed, 15.0, UNKNOWN).mean_days > 10.0 * 15.0


def test_codes_that_wait_longer_and_matter_less_do_not_mislead() -> None:
    seen = play(4_000, 60.0)
    blind = seen._replace(code=seen.code * 0)
    errors = [
        abs(np.log(believe_lifetime(one, 60.0, UNKNOWN).mean_days / 60.0)) for one in (seen, blind)
    ]
    assert errors[0] < 0.3 < errors[1]


def test_few_visits_leave_it_to_the_calibration() -> None:
    pulls = []
    for n in (50, 4_000):
        found = believe_lifetime(play(n, 40.0), 400.0)
        pulls.append(abs(np.log(found.mean_days / 400.0)))
    assert pulls[0] < 0.5 * pulls[1]
    assert believe_lifetime(play(4_000, 40.0), 4.0).mean_days == pytest.approx(40.0, rel=0.25)


def test_a_belief_that_is_wide_reckons_with_long_lives() -> None:
    """With next to no visits the mean of the days lies above the calibrated middle."""
    found = believe_lifetime(play(5, 40.0), 40.0)
    assert found.mean_days > 40.0
    assert found.log_sd == pytest.approx(0.7, abs=0.2)


def test_slopes_are_those_of_the_likelihood() -> None:
    seen, rng = play(200, 30.0), np.random.default_rng(2)
    doors = _indicators(seen.category)
    design = np.column_stack([np.ones(200), _indicators(seen.code), doors])
    lasting = (np.exp(-seen.first_days / 30.0), np.exp(-seen.second_days / 30.0))
    given = (seen.result, lasting, design, doors)
    beta = 0.3 * rng.standard_normal(design.shape[1] + 3 + doors.shape[1])
    slope = _penalised(beta, *given)[1]
    for place, step in enumerate(1e-5 * np.eye(len(beta))):
        ends = [_penalised(beta + sign * step, *given)[0] for sign in (1.0, -1.0)]
        assert slope[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-4)


def test_the_likelihood_peaks_between_the_ends_of_the_grid() -> None:
    found = profile_likelihood(play(4_000, 60.0), GRID_DAYS)
    assert 0 < int(np.argmax(found)) < len(GRID_DAYS) - 1
