"""Intervals for the mean of what episodes contribute: studentised bootstrap over episodes.

Importance-weighted values are skewed, and a symmetric interval then misses more often on the side
of the long tail than it should. Resampling the t statistic corrects that to second order (Hall
1992, *The Bootstrap and Edgeworth Expansion*). Episodes are independent, decisions within one are
not, so episodes are what is resampled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
N_RESAMPLES = 599
"""Enough that the 2.5 % points are the 15th from each end."""


class Intervals(NamedTuple):
    """Estimates with intervals, (L, K) each."""

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    error: np.ndarray
    """standard error"""


@lru_cache(maxsize=4)
def draw_counts(n_episodes: int, seed: int = 0, n_resamples: int = N_RESAMPLES) -> np.ndarray:
    """How often each episode is drawn in each resample, (B, E)."""
    rng = np.random.default_rng(seed)
    counts = np.stack(
        [
            np.bincount(rng.integers(0, n_episodes, n_episodes), minlength=n_episodes)
            for _ in range(n_resamples)
        ]
    ).astype(np.float64)
    counts.flags.writeable = False
    return counts


def studentised(
    values: np.ndarray, *, seed: int = 0, n_resamples: int = N_RESAMPLES, level: float = LEVEL
) -> Intervals:
    """Intervals of the means over episodes of values (L, E, K)."""
    n_logs, n, n_outcomes = values.shape
    mean = values.mean(axis=1)
    error = values.std(axis=1, ddof=1) / np.sqrt(n)
    counts = draw_counts(n, seed, n_resamples)
    centred = (values - mean[:, None]).transpose(1, 0, 2).reshape(n, -1)
    # Two matrix products give the mean and the spread of every resample.
    drawn = counts @ centred / n
    squares = counts @ centred**2 / n
    spread = np.sqrt(np.maximum(squares - drawn**2, 0.0) / max(n - 1, 1))
    # What does not vary in a resample has no t statistic there; 0 leaves it out of the tails.
    is_known = spread > 1e-9 * np.abs(error.reshape(-1)) + 1e-300
    statistic = np.where(is_known, drawn / np.where(is_known, spread, 1.0), 0.0)
    low, high = (x.reshape(n_logs, n_outcomes) for x in _tails(statistic, (1 - level) / 2))
    return Intervals(mean, mean - high * error, mean - low * error, error)


def _tails(statistic: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Order statistics that cut `tail` off each end of axis 0."""
    n = len(statistic)
    place = round(tail * (n + 1)) - 1
    ordered = np.partition(statistic, (place, n - 1 - place), axis=0)
    return ordered[place], ordered[n - 1 - place]
