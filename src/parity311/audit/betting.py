"""Evidence that may be looked at every day and starts anew now and then: betting e-processes.

Who bets against "the mean is at most m" and multiplies the stake by 1 + λ(x − m) cannot expect to
gain while that is true, whatever came before; a capital of 1/α is reached with a chance of α at
most, over all looks together (Ville; Waudby-Smith and Ramdas 2024). Nothing is asymptotic: values
need bounds, and days may depend on each other.

One bet over a whole year is slow to see what begins in its ninth month. Part of the stake is
therefore kept back for bets that begin later, one every four weeks: their sum is a bet like any
other, so the chance of a false alarm stays α a year.
"""

from __future__ import annotations

import numpy as np

SIZES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
"""Shares of the largest bet there may be; the stake is spread evenly over them."""
N_STARTS = 13
"""Bets a year, one every four weeks."""
START_DAYS = 28
YEAR_DAYS = N_STARTS * START_DAYS + 1


def capital(
    values: np.ndarray, days: np.ndarray, *, mean: float, low: float, n_days: int
) -> np.ndarray:
    """(n_days,) capital at the end of each day of a bet that the mean is above ``mean``.

    Parameters
    ----------
    values
        (n,) in order, none below ``low``, which lies below ``mean``.
    days
        (n,) day of each value from 0 on, rising.
    n_days
        Days of the year that have passed.
    """
    sizes = np.asarray(SIZES) / (mean - low)
    gains = np.log1p(sizes[:, None] * (np.asarray(values, np.float64) - mean))
    daily = np.stack([np.bincount(days, one, minlength=n_days) for one in gains])
    total = np.concatenate([np.zeros((len(sizes), 1)), daily.cumsum(axis=1)], axis=1)
    found = np.zeros(n_days)
    for start in range(N_STARTS):
        first = start * START_DAYS
        if first >= n_days:
            found += 1.0  # kept back
            continue
        since = total[:, first + 1 :] - total[:, [first]]
        found[:first] += 1.0
        found[first:] += np.exp(np.minimum(since, 700.0)).mean(axis=0)
    return found / N_STARTS


def start_anew(paths: np.ndarray, first: np.ndarray) -> np.ndarray:
    """(T,) one e-process from several that begin one after another.

    ``paths`` is (n, T); before the look ``first`` (n,) at which it begins, a path counts as 1.
    """
    looks = np.arange(paths.shape[1])
    return np.where(looks < np.asarray(first)[:, None], 1.0, paths).mean(axis=0)
