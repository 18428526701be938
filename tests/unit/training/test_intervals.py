"""Intervals of a mean over seeds: Student's t, and never beyond what the figure can be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from parity311.training.intervals import SHARE, mean_interval


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
