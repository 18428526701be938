"""Comparing agents of several seeds: the definitions of Agarwal et al. (2021), and pairing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from parity311.errors import InputError
from parity311.evaluation.comparison_statistics import (
    compare_runs,
    interquartile_mean,
    make_resamples,
    mean_samples,
    ratio_samples,
)


@pytest.mark.parametrize("n", [3, 4, 5, 8, 11])
def test_the_interquartile_mean_is_the_trimmed_mean(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_one_wild_seed_of_five_does_not_move_it() -> None:
    calm = np.array([1.0, 1.1, 0.9, 1.0, 1.05])
    wild = calm.copy()
    wild[1] = 1000.0
    assert interquartile_mean(wild) < 1.2 < wild.mean()


def test_the_probability_of_improvement_is_mann_whitney_by_episode() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.3, 1, (5, 12)), rng.normal(0, 1, (5, 12))
    found = compare_runs(first, second, make_resamples(5, 12)).probability
    wanted = np.mean(
        [
            stats.mannwhitneyu(first[:, e], second[:, e]).statistic / 25  # type: ignore[union-attr]
            for e in range(12)
        ]
    )
    assert found.value == pytest.approx(wanted)
    assert found.lower < found.value < found.upper


def test_shared_noise_of_an_episode_does_not_widen_a_difference() -> None:
    """The twin without pairing is several times as wide."""
    rng = np.random.default_rng(1)
    hard = rng.normal(0, 10, 40)
    first, second = (hard + shift + rng.normal(0, 0.1, (3, 40)) for shift in (0.5, 0.0))
    resamples = make_resamples(3, 40)
    paired = compare_runs(first, second, resamples).difference
    apart = resamples.figure(mean_samples(first, resamples))
    assert paired.lower > 0
    assert paired.upper - paired.lower < 0.1 * (apart.upper - apart.lower)


def test_equal_policies_are_not_told_apart() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(5, 30)), rng.normal(size=(5, 30))
    found = compare_runs(first, second, make_resamples(5, 30))
    assert found.difference.lower < 0 < found.difference.upper
    assert found.probability.lower < 0.5 < found.probability.upper


def test_a_ratio_is_of_sums_not_a_mean_of_ratios() -> None:
    top, bottom = np.array([[1.0, 9.0]]), np.array([[1.0, 99.0]])
    samples = ratio_samples(top, bottom, make_resamples(1, 2))
    assert samples[0] == pytest.approx(0.1)


def test_seeds_must_be_as_many_as_the_resamples_are_for() -> None:
    with pytest.raises(InputError, match="4 runs were given"):
        mean_samples(np.ones((4, 10)), make_resamples(5, 10))
