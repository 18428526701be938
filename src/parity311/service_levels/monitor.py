"""Share of promises kept, week by week, with evidence that may be looked at at any time.

Counted are requests whose promised day has PASSED, open ones included. A week's shortfall p − x/n
is bet on: capital grows while fewer than the promised share are visited in time and, while the
promise holds, reaches twenty in no more than 5 % of all years, however often somebody looks (Ville
1939; Waudby-Smith and Ramdas 2024). Weeks, not requests, are the bets, because requests of a week
go together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parity311.errors import InputError

ALARM = 20.0
"""Evidence at which the promise is called broken: at most 5 % false alarms."""
STAKES, CAPITALS = (0.4, 0.9), (0.1, 0.9)
"""Stakes, as shares of the largest that cannot lose everything, and what each starts with. The mean
of a week of 140 requests hardly varies, so nearly all goes to the large one; the small one is for
cells of a few requests a week."""
BLOCK_DAYS = 7
GRID_STEP = 0.01
MEANS = np.arange(0.0, 1.0 + GRID_STEP / 2, GRID_STEP)
"""Means that a band is tried at; it is widened by a step, so that none between is lost."""
BAND_STAKES = (0.05, 0.15, 0.4, 0.8)
"""Stakes of a band's bets, as shares of the largest that cannot lose everything."""


@dataclass(frozen=True)
class KeptSequence:
    """Promises of one cell as time goes on, one entry a week with anything due."""

    week: NDArray[np.int64]
    n_due: NDArray[np.int64]
    """so far"""
    kept_share: NDArray[np.float64]
    """so far"""
    e_value: NDArray[np.float64]
    """evidence that fewer than the promised share are kept"""
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    """95 % band of the weeks' mean share that holds at all weeks at once"""

    @property
    def is_broken(self) -> bool:
        """Whether the evidence ever reached the alarm."""
        return bool((self.e_value >= ALARM).any())

    @property
    def first_alarm(self) -> int | None:
        """Week of the first alarm."""
        passed = np.flatnonzero(self.e_value >= ALARM)
        return int(self.week[passed[0]]) if len(passed) else None


def follow_promise(
    due_day: NDArray[np.int64],
    is_kept: NDArray[np.bool_],
    share: float,
    *,
    today: int,
) -> KeptSequence:
    """Follow a promise over requests, (n,) each, of which those due before `today` count.

    Parameters
    ----------
    due_day
        Last day on which a visit keeps the promise, days since 1970.
    is_kept
        Whether the visit came by then; an open request is not kept.
    share
        p, the promised share.
    """
    if not 0.0 < share < 1.0:
        raise InputError(f"The promised share is {share}; it must lie between 0 and 1.")
    passed = np.flatnonzero(due_day < today)
    if not len(passed):
        nothing = np.zeros(0)
        counts = nothing.astype(np.int64)
        return KeptSequence(counts, counts, nothing, nothing, nothing, nothing)
    week, place = np.unique(due_day[passed] // BLOCK_DAYS, return_inverse=True)
    n = np.bincount(place)
    kept = np.bincount(place, is_kept[passed])
    shortfall = share - kept / n
    stakes = np.array(STAKES)[:, None] / (1.0 - share)
    grown = np.exp(np.log1p(stakes * shortfall).cumsum(axis=1))
    capital = np.array(CAPITALS) @ grown
    lower, upper = band_at_all_times(kept / n)
    return KeptSequence(week, n.cumsum(), kept.cumsum() / n.cumsum(), capital, lower, upper)


def band_at_all_times(
    values: NDArray[np.float64], alpha: float = 1.0 / ALARM
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds (T,) of the mean of values (T,) in [0, 1] that hold at all times with 1 − alpha.

    A mean is left out once bets against it, half of them that it is higher and half that it is
    lower, have grown to 1/alpha; what was left out once stays out (Waudby-Smith and Ramdas 2024).
    """
    stakes = np.array(BAND_STAKES)[:, None, None]
    away = values[None, None, :] - MEANS[None, :, None]
    rises, falls = 1.0 - MEANS[:, None], MEANS[:, None]
    with np.errstate(divide="ignore", over="ignore"):
        above = np.log1p(stakes * away / np.maximum(falls, 1e-9)).cumsum(axis=-1)
        below = np.log1p(-stakes * away / np.maximum(rises, 1e-9)).cumsum(axis=-1)
    capital = 0.5 * (np.exp(np.minimum(above, 700)) + np.exp(np.minimum(below, 700))).mean(axis=0)
    is_out = np.maximum.accumulate(capital, axis=-1) >= 1.0 / alpha
    none = is_out.all(axis=0)
    low = np.where(none, np.nan, MEANS[np.argmin(is_out, axis=0)] - GRID_STEP)
    high = np.where(none, np.nan, MEANS[len(MEANS) - 1 - np.argmin(is_out[::-1], axis=0)])
    return np.clip(low, 0.0, 1.0), np.clip(high + GRID_STEP, 0.0, 1.0)
