"""Weights and intervals: Student's t, the jackknife, and never beyond what a figure can be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from parity311.resampling import SHARE, bootstrap_weights, jackknife, mean_interval


def test_it_is_students_interval() -> None:
    values = np.array([0.2, 0.5, 0.9])
    low, high = mean_interval(values) or [0.0, 0.0]
    assert t.interval(0.95, 2, values.mean(), values.std(ddof=1) / 3**0.5) == pytest.approx(
        (low, high)
    )


def test_the_interval_of_a_share_ends_where_shares_end() -> None:
    assert (mean_interval([0.1, 0.4]) or [0.0])[0] < 0.0
    assert mean_interval([0.1, 0.4], SHARE) == [0.0, 1.0]


def test_one_seed_has_no_interval() -> None:
    assert mean_interval([0.3, float("nan")]) is None


def test_one_city_has_a_figure_and_no_interval() -> None:
    """Nothing is divided by what is left of it: warnings are errors here."""
    with np.errstate(all="raise"):
        whole, ends = jackknife(lambda gain, base: gain / base, np.array([1.0]), np.array([2.0]))
    assert (whole, ends) == (0.5, None)


def test_the_jackknife_of_a_mean_is_students_interval() -> None:
    values = np.array([0.2, 0.5, 0.9])
    whole, ends = jackknife(lambda mean: mean, values)
    assert whole == values.mean()
    assert ends == pytest.approx(mean_interval(values))


def test_the_first_weights_are_the_data_itself() -> None:
    weights = bootstrap_weights(4, 3, np.random.default_rng(0))
    assert (weights[0] == 1.0).all()
    assert (weights.sum(axis=1) == 4.0).all()
    assert (weights[1:] != 1.0).any()
