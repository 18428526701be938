"""Counts over a group's past: how often something happened before a moment, and to whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FEW = 8
"""Moments that are sooner counted one by one than together."""


@dataclass(frozen=True)
class GroupedTimes:
    """Moments sorted by group, then by time: what a count over a group's past is read off."""

    group: np.ndarray
    time: np.ndarray
    row: np.ndarray
    """(n,) position of each in what was sorted"""
    starts: np.ndarray
    """(largest group + 2,) where each group begins"""

    @classmethod
    def of(cls, group: np.ndarray, time: np.ndarray) -> GroupedTimes:
        """Sort moments (n,) of groups (n,), numbered from 0; a group below 0 is none."""
        row = np.lexsort((time, group))
        n_groups = int(group.max(initial=-1)) + 1
        starts = np.searchsorted(group[row], np.arange(n_groups + 1))
        return cls(group[row], time[row], row, starts)

    def n_before(self, group: np.ndarray, time: np.ndarray) -> np.ndarray:
        """How many sorted moments come before each of these times in their groups, (n,).

        The count includes all groups before, so that a difference of two is a count in the group.
        """
        if len(group) <= FEW:
            pairs = zip(group.tolist(), time.tolist(), strict=True)
            return np.array([self._n_before_one(*one) for one in pairs], np.int64)
        known = np.clip(group, 0, max(len(self.starts) - 2, 0))
        is_known = (group >= 0) & (group < len(self.starts) - 1)
        low = np.where(is_known, self.starts[known], 0)
        high = np.where(is_known, self.starts[np.minimum(known + 1, len(self.starts) - 1)], 0)
        # A binary search in every group at once.
        while (is_going := low < high).any():
            middle = (low + high) // 2
            is_earlier = self.time[np.minimum(middle, len(self.time) - 1)] < time
            high = np.where(is_going & ~is_earlier, middle, high)
            low = np.where(is_going & is_earlier, middle + 1, low)
        return low

    def _n_before_one(self, group: int, time: float) -> int:
        if not 0 <= group < len(self.starts) - 1:
            return 0
        low, high = self.starts[group], self.starts[group + 1]
        return int(low + self.time[low:high].searchsorted(time))


PastCount = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]
"""(group (n,), at (n,), days) -> how many, and the sum of their values, in the days before"""


def count_past(group: np.ndarray, time: np.ndarray, value: np.ndarray) -> PastCount:
    """Make a counter of what happened to a group before a moment; arrays (m,), in any order."""
    order = GroupedTimes.of(group, time)
    summed = np.append(0.0, np.cumsum(value[order.row]))

    def count(of: np.ndarray, at: np.ndarray, days: float) -> tuple[np.ndarray, np.ndarray]:
        low, high = order.n_before(of, at - days), order.n_before(of, at)
        return high - low, summed[high] - summed[low]

    return count
