"""Counting a few moments one by one gives what counting many together gives."""

from __future__ import annotations

import numpy as np

from parity311.records.past import FEW, GroupedTimes


def test_a_few_moments_are_counted_as_many_are() -> None:
    rng = np.random.default_rng(0)
    order = GroupedTimes.of(rng.integers(-1, 50, 3000), np.round(100 * rng.random(3000)))
    group, time = rng.integers(-1, 55, 400), np.round(100 * rng.random(400))
    together = order.n_before(group, time)
    few = [order.n_before(group[i : i + FEW], time[i : i + FEW]) for i in range(0, 400, FEW)]
    assert np.concatenate(few).tolist() == together.tolist()
    assert together.max() > 0


def test_nothing_was_before_anything_in_an_empty_order() -> None:
    empty = GroupedTimes.of(np.zeros(0, np.int64), np.zeros(0))
    assert empty.n_before(np.array([0, -1]), np.array([1.0, 2.0])).tolist() == [0, 0]
