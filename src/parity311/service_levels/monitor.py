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
        return KeptSequence(nothing.astype(np.int64), nothing.astype(np.int64), nothing, nothing)
    week, place = np.unique(due_day[passed] // BLOCK_DAYS, return_inverse=True)
    n = np.bincount(place)
    kept = np.bincount(place, is_kept[passed])
    shortfall = share - kept / n
    stakes = np.array(STAKES)[:, None] / (1.0 - share)
    grown = np.exp(np.log1p(stakes * shortfall).cumsum(axis=1))
    capital = np.array(CAPITALS) @ grown
    return KeptSequence(week, n.cumsum(), kept.cumsum() / n.cumsum(), capital)
