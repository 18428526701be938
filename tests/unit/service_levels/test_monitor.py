"""The monitor of promises: quiet while they hold, awake soon after they break."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.service_levels.monitor import ALARM, follow_promise


def days_of(n_days: int, per_day: int) -> np.ndarray:
    """So many requests due each day."""
    return np.repeat(np.arange(n_days), per_day)


def test_two_weeks_by_hand() -> None:
    """Kept 1 of 4, then 4 of 4, of a promised half: stakes 0.8 and 1.8 on ¼ and −½."""
    due = np.array([0, 1, 2, 3, 7, 8, 9, 10])
    kept = np.array([1, 0, 0, 0, 1, 1, 1, 1], bool)
    found = follow_promise(due, kept, 0.5, today=20)
    first = 0.1 * 1.2 + 0.9 * 1.45
    second = 0.1 * 1.2 * 0.6 + 0.9 * 1.45 * 0.1
    np.testing.assert_allclose(found.e_value, [first, second])
    assert found.n_due.tolist() == [4, 8]
    assert found.kept_share.tolist() == [0.25, 0.625]
    assert not found.is_broken


def test_what_is_not_due_does_not_count() -> None:
    found = follow_promise(np.array([5, 30]), np.array([True, False]), 0.8, today=30)
    assert found.n_due.tolist() == [1]
    assert len(follow_promise(np.array([5]), np.array([True]), 0.8, today=5).week) == 0


def test_false_alarms_are_few_and_a_fall_is_found_soon() -> None:
    """Twenty requests a day at p = 0.8: kept exactly for a year, then a fall of ten points."""
    rng = np.random.default_rng(0)
    due = days_of(364, 20)
    quiet = [follow_promise(due, rng.random(len(due)) < 0.8, 0.8, today=400) for _ in range(400)]
    assert np.mean([one.is_broken for one in quiet]) <= 0.05
    fallen = [follow_promise(due, rng.random(len(due)) < 0.7, 0.8, today=400) for _ in range(200)]
    weeks = [one.first_alarm for one in fallen]
    assert all(week is not None for week in weeks)
    assert np.median([week for week in weeks if week is not None]) * 7 <= 60


def test_looking_with_a_plain_test_every_week_would_cry_wolf() -> None:
    """The broken twin: a 5 % test repeated every week alarms in far more than 5 % of years."""
    rng = np.random.default_rng(1)
    alarms = []
    for _ in range(300):
        kept = rng.binomial(140, 0.8, 52).cumsum()
        n = 140 * np.arange(1, 53)
        alarms.append(((kept / n - 0.8) / np.sqrt(0.16 / n) < -1.645).any())
    assert np.mean(alarms) > 0.15
    assert ALARM == 20.0


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        follow_promise(np.array([1]), np.array([True]), 1.0, today=3)
