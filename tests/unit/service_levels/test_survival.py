"""Survival curves against a hand's computation, and against dropping that looks like speed."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.service_levels.survival import fit_curve

NEVER = np.inf


def curve_of(waits: list[float], followed: list[int], tracts: list[int] | None = None, **options):
    """A curve of requests given one by one."""
    where = tracts if tracts is not None else list(range(len(waits)))
    return fit_curve(np.array(waits, np.float64), np.array(followed), np.array(where), **options)


def test_nobody_open_is_counting() -> None:
    curve = curve_of([0, 1, 1, 3], [9, 9, 9, 9])
    np.testing.assert_allclose(curve.share[:5], [0.25, 0.75, 0.75, 1.0, 1.0])
    assert curve.quantile(0.5).days == 1
    assert curve.quantile(0.9).days == 3


def test_an_open_request_counts_while_it_was_followed() -> None:
    """Five requests; one open after 1 day. Day 0: 1 of 5. Day 2: 2 of the 3 left at risk.

    1 − 4/5 · 1/3 = 11/15.
    """
    curve = curve_of([0, NEVER, 2, 2, NEVER], [9, 1, 9, 9, 9])
    np.testing.assert_allclose(curve.share[:3], [0.2, 0.2, 11 / 15])
    assert (curve.n_visited, curve.n_open) == (3, 2)


def test_never_visited_is_infinite() -> None:
    """Two of five were visited: the median of all is infinite, that of the visited 1 day."""
    curve = curve_of([1, 1, NEVER, NEVER, NEVER], [99] * 5)
    assert curve.quantile(0.5).days == np.inf
    assert curve.quantile(0.4).days == 1
    assert curve.quantile(0.5).upper == np.inf


def test_a_visit_after_the_end_of_the_records_is_not_seen() -> None:
    curve = curve_of([5, 1], [3, 3])
    assert curve.n_visited == 1
    np.testing.assert_allclose(curve.share[3], 0.5)


def test_leaving_out_the_open_would_shorten_the_wait() -> None:
    """The broken twin: the same requests, with the open ones thrown away, look twice as quick."""
    waits, followed = [2, 4, NEVER, NEVER], [30, 30, 30, 30]
    whole = curve_of(waits, followed)
    served = curve_of([2, 4], [30, 30])
    assert whole.quantile(0.5).days == 4
    assert served.quantile(0.5).days == 2


def test_requests_of_one_tract_make_the_interval_wide() -> None:
    rng = np.random.default_rng(0)
    slow = np.repeat(np.arange(8) % 2, 50)
    waits = (np.where(slow, 20.0, 1.0) + rng.integers(0, 3, 400)).astype(np.float64)
    alone = fit_curve(waits, np.full(400, 90), np.arange(400), seed=1)
    together = fit_curve(waits, np.full(400, 90), np.repeat(np.arange(8), 50), seed=1)
    width = [one.within(10)[2] - one.within(10)[1] for one in (alone, together)]
    assert width[1] > 3 * width[0]


@pytest.mark.parametrize("censored", [0.0, 0.3, 0.6])
def test_intervals_cover(censored: float) -> None:
    """Exponential waits, thirty tracts: the interval of the share within 10 days covers 95 %."""
    rng = np.random.default_rng(3)
    truth, hits = 1 - 0.9**11, 0
    for trial in range(120):
        waits = (rng.geometric(0.1, 300) - 1).astype(np.float64)
        followed = np.where(rng.random(300) < censored, rng.integers(0, 30, 300), 90)
        curve = fit_curve(waits, followed, np.arange(300) // 10, n_draws=200, seed=trial)
        _, lower, upper = curve.within(10)
        hits += lower <= truth <= upper
    assert 0.88 <= hits / 120 <= 0.99
