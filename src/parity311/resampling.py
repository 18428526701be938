"""Resampling and intervals: every scheme several parts of the system use, in one place.

Weights say how often an observation counts in a resample: multinomial (the bootstrap; the first
row is the data itself) or exponential (the Bayesian bootstrap, Rubin 1981: the same first-order
spread, and no draw leaves a small stratum without data). Intervals are Student's, of percentiles,
of the jackknife, or studentised. A studentised one is for skewed values: resampling the t statistic
corrects to second order what a symmetric interval misses on the side of the long tail (Hall 1992,
*The Bootstrap and Edgeworth Expansion*).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
N_RESAMPLES = 599
"""Of a studentised interval: enough that the 2.5 % points are the 15th from each end."""
ANY = (-np.inf, np.inf)
SHARE = (0.0, 1.0)
"""Where a share, and a difference between the largest and the smallest share, can lie."""


def bootstrap_weights(n: int, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(1 + n_resamples, n) multinomial weights; the first row is the data itself."""
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)
    return np.concatenate([np.ones((1, n)), drawn])


def exponential_weights(n: int, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """(n_draws, n) exponential weights; one set serves every rate of an audit jointly."""
    return rng.standard_exponential((n_draws, n))


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


def mean_interval(
    values: Sequence[float] | np.ndarray, limits: tuple[float, float] = ANY
) -> list[float] | None:
    """95 % interval of the mean over seeds or cities (Student's t), within what the figure can be.

    None for a single value.
    """
    from scipy.stats import t

    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return None
    half = t.ppf((1 + LEVEL) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    ends = np.clip([known.mean() - half, known.mean() + half], *limits)
    return [float(end) for end in ends]


def jackknife(
    statistic: Callable[..., float | np.ndarray], *values: np.ndarray
) -> tuple[float, list[float] | None]:
    """A statistic of means (n,) each, and Student's interval of its pseudo-values.

    `statistic` takes one number for each array. Of a mean the interval is Student's; of a ratio one
    observation with hardly any denominator widens it instead of deciding the figure.
    """
    n = len(values[0])
    whole = float(statistic(*(one.mean() for one in values)))
    if n < 2:
        return whole, None
    left_out = statistic(*((one.sum() - one) / (n - 1) for one in values))
    return whole, mean_interval(n * whole - (n - 1) * np.broadcast_to(left_out, (n,)))


@dataclass(frozen=True)
class Figure:
    """An estimate with its interval and standard error."""

    value: float
    lower: float
    upper: float
    error: float

    def as_record(self) -> dict[str, float]:
        """Plain numbers for a file."""
        return {"value": self.value, "lower": self.lower, "upper": self.upper}


UNDEFINED = Figure(float("nan"), float("nan"), float("nan"), float("nan"))


def interval_around(value: float, drawn: np.ndarray, widening: float = 1.0) -> tuple[float, float]:
    """95 % interval of a statistic from its resamples, (B,) finite; the estimate lies within.

    Percentiles, with their distance from the estimate widened. Where they leave the estimate out,
    resampling moves the statistic by more than it spreads; how far the estimate itself was moved
    is then unknown, so the interval covers the percentiles and their mirror image about it.
    """
    tail = (1.0 - LEVEL) / 2.0
    lower, upper = value + widening * (np.quantile(drawn, [tail, 1.0 - tail]) - value)
    if not lower <= value <= upper:
        reach = max(abs(lower - value), abs(upper - value))
        lower, upper = value - reach, value + reach
    return float(lower), float(upper)


def figure_of(samples: np.ndarray, widening: float, within: tuple[float, float] = ANY) -> Figure:
    """Figure from a statistic on the data and on every resample, (1 + B,), its range respected."""
    value, drawn = float(samples[0]), samples[1:]
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < 2 or not np.isfinite(value):
        return Figure(value, float("nan"), float("nan"), float("nan"))
    lower, upper = interval_around(value, drawn, widening)
    lower, upper = min(max(lower, within[0]), value), max(min(upper, within[1]), value)
    return Figure(value, lower, upper, widening * float(drawn.std(ddof=1)))


class Intervals(NamedTuple):
    """Estimates with intervals, (L, K) each."""

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    error: np.ndarray
    """standard error"""


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
