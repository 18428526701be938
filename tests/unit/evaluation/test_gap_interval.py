"""Intervals of gaps and prices: within their range, around their point, honest at parity."""

from __future__ import annotations

import numpy as np
import pytest

from parity311 import resampling
from parity311.evaluation import metrics
from parity311.evaluation.comparison_statistics import make_resamples

N_EPISODES = 64
N_CASES = 6
"""Actionable incidents of a stratum in an episode."""


def play(rng: np.random.Generator, coverage: np.ndarray) -> metrics.Scores:
    """Scores of a policy that serves each case of a stratum with this chance."""
    resampled = metrics.Resampled(N_EPISODES, seed=int(rng.integers(1 << 30)))
    correct = rng.binomial(N_CASES, coverage, (N_EPISODES, 6)).astype(float)
    need = resampled.total(np.full((N_EPISODES, 6), float(N_CASES)))
    totals = resampled.total(correct)
    n = len(totals)
    return metrics.Scores(
        np.zeros(n), np.zeros((n, 4)), totals, need, need, totals, need, np.zeros(n)
    )


def fixed_pair(coverage: np.ndarray) -> tuple[float, float]:
    """The broken twin: percentiles of the one pair that the data made the largest."""
    lower, upper = np.quantile(metrics.gap_samples(coverage)[1:], [0.025, 0.975])
    return float(lower), float(upper)


def test_a_gap_is_never_negative_nor_outside_its_interval() -> None:
    rng = np.random.default_rng(0)
    n_below = 0
    for level in (0.02, 0.3, 0.5, 0.98):
        for _ in range(25):
            coverage = play(rng, np.full(6, level)).coverage
            figure = metrics.gap_figure(coverage, widening=1.5)
            assert 0.0 <= figure.lower <= figure.value <= figure.upper <= 1.0
            n_below += fixed_pair(coverage)[0] < 0.0
    assert n_below > 10, "the twin never went below zero, so this test shows nothing"


@pytest.mark.parametrize("gap", [0.0, 0.05, 0.3])
def test_the_interval_holds_the_true_gap(gap: float) -> None:
    """At parity the largest of many differences is never zero; its interval must say it may be."""
    rng = np.random.default_rng(1)
    true = np.array([0.5 - gap / 2, 0.5, 0.5, 0.5, 0.5 + gap / 2, 0.9])
    n_held = n_held_by_pair = 0
    for _ in range(150):
        coverage = play(rng, true).coverage
        figure = metrics.gap_figure(coverage)
        n_held += figure.lower <= gap <= figure.upper
        lower, upper = fixed_pair(coverage)
        n_held_by_pair += lower <= gap <= upper
    assert n_held >= 0.92 * 150
    if gap == 0.0:
        assert n_held_by_pair < 0.9 * 150


def test_strata_without_a_rate_have_no_part_in_the_gap() -> None:
    rng = np.random.default_rng(2)
    coverage = play(rng, np.full(6, 0.5)).coverage
    coverage[:, 1] = np.nan
    assert np.isfinite(metrics.gap_figure(coverage).value)
    coverage[:, 1:5] = np.nan
    assert np.isnan(metrics.gap_figure(coverage).value)
    assert np.isnan(metrics.gap_figure(np.full((9, 6), np.nan)).upper)


def test_a_biased_resample_does_not_push_the_point_out() -> None:
    """Resamples far to one side of the estimate leave it inside; percentiles do not."""
    drawn = np.random.default_rng(3).normal(-0.54, 0.005, 400)
    lower, upper = resampling.interval_around(-0.507, drawn)
    assert np.quantile(drawn, 0.975) < -0.507
    assert lower < -0.54 < -0.507 < upper
    centred = np.random.default_rng(4).normal(0.2, 0.01, 400)
    expected = np.quantile(centred, [0.025, 0.975])
    np.testing.assert_allclose(resampling.interval_around(0.2, centred), expected)


def test_shares_stay_shares_when_widened() -> None:
    resamples = make_resamples(3, 20, table_factor=3.0)
    high = np.clip(np.random.default_rng(5).normal(0.97, 0.02, 1001), 0.0, 1.0)
    assert resamples.figure(high).upper > 1.0
    assert resamples.figure(high, metrics.SHARE).upper == 1.0


def test_a_price_against_almost_nothing_is_not_defined() -> None:
    rng = np.random.default_rng(6)
    resampled = metrics.Resampled(N_EPISODES)
    nothing, something = play(rng, np.full(6, 0.001)), play(rng, np.full(6, 0.4))
    assert nothing.n_correct[0] < metrics.FEWEST_REFERENCE
    found = metrics.compare_with(something, nothing, resampled)
    assert np.isnan(found["price_of_equity"]["value"])  # type: ignore[index]
    assert f"at least {metrics.FEWEST_REFERENCE}" in str(found["price_note"])
    plain = metrics.compare_with(something, something, resampled)
    assert plain["price_note"] == ""
    assert plain["price_of_equity"]["value"] == 0.0  # type: ignore[index]
    today = metrics.compare_with_today(something, nothing, resampled)
    assert np.isnan(today["correct"]["value"])  # type: ignore[index]
    assert "today's rule made" in str(today["note"])


def test_against_today_says_what_is_found_and_which_way_the_gap_moved() -> None:
    rng = np.random.default_rng(7)
    resampled = metrics.Resampled(N_EPISODES)
    today = play(rng, np.array([0.4, 0.5, 0.5, 0.5, 0.8, 0.5]))
    worse = play(rng, np.array([0.1, 0.3, 0.3, 0.3, 0.8, 0.3]))
    level = play(rng, np.array([0.6, 0.6, 0.6, 0.6, 0.6, 0.6]))
    found = metrics.compare_with_today(worse, today, resampled)
    assert found["correct"]["upper"] < 0.0  # type: ignore[index]
    assert found["direction"] == "widened"
    assert metrics.compare_with_today(level, today, resampled)["direction"] == "both"
    assert metrics.compare_with_today(today, today, resampled)["direction"] == "no clear change"
