"""How long ALL requests wait: survival curves in which open and never visited ones count.

The share visited within so many days is one less the product of (1 − visits/at risk) over the days
(Kaplan and Meier 1958). A request is at risk until its visit or until the records end, also after
it was closed without one: being dropped takes nobody out of the count, so dropping the slow cannot
shorten a quantile. Where fewer than the asked share were visited, the quantile is infinite.

Intervals draw tracts with exponential weights (the Bayesian bootstrap), because requests of one
tract wait alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity311.resampling import LEVEL, exponential_weights

N_DRAWS = 400
LONGEST_DAYS = 180
"""Days that a curve covers: twice the longest service level."""
FEWEST_SHOWN = 10
"""Requests below which a cell is not shown: it would tell of single people."""
QUANTILES = (0.5, 0.75, 0.9)


class Quantile(NamedTuple):
    """Days within which a share of all requests was visited; infinite where it never was."""

    level: float
    days: float
    lower: float
    upper: float


@dataclass(frozen=True)
class WaitCurve:
    """Share of all requests visited within 0, 1, … days."""

    n: int
    n_visited: int
    n_open: int
    """not visited when the records end"""
    n_tracts: int
    share: NDArray[np.float64]
    """(A,)"""
    drawn: NDArray[np.float64]
    """(D, A) the same with tracts drawn anew"""

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower ends of the intervals, day by day."""
        return np.quantile(self.drawn, (1 - LEVEL) / 2, axis=0)

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper ends."""
        return np.quantile(self.drawn, (1 + LEVEL) / 2, axis=0)

    def within(self, days: int) -> tuple[float, float, float]:
        """Share visited within so many days, with its interval."""
        place = min(days, len(self.share) - 1)
        return float(self.share[place]), float(self.lower[place]), float(self.upper[place])

    def quantile(self, level: float) -> Quantile:
        """Days within which this share of all requests was visited."""
        drawn = np.sort(days_to_share(self.drawn, level))
        low = drawn[int((1 - LEVEL) / 2 * (len(drawn) - 1))]
        high = drawn[int(np.ceil((1 + LEVEL) / 2 * (len(drawn) - 1)))]
        days = float(days_to_share(self.share[None], level)[0])
        return Quantile(level, days, min(float(low), days), max(float(high), days))


def days_to_share(share: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """First day at which curves (D, A) reach a share; infinite where they never do."""
    reached = share >= level - 1e-9
    return np.where(reached.any(axis=1), reached.argmax(axis=1), np.inf)


def fit_curve(
    wait_days: NDArray[np.float64],
    followed_days: NDArray[np.int64],
    tract: NDArray[np.int64],
    *,
    longest_days: int = LONGEST_DAYS,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> WaitCurve:
    """The curve of requests with their waits, the days they were followed, and their tracts."""
    seen = wait_days <= followed_days
    last = np.where(seen, wait_days, followed_days).astype(np.int64)
    n_ages = longest_days + 1
    names, place = np.unique(tract, return_inverse=True)
    n_tracts = len(names)
    cell = place * (n_ages + 1) + np.minimum(last, n_ages)
    size = n_tracts * (n_ages + 1)
    ended = np.bincount(cell, minlength=size).reshape(n_tracts, -1)
    visits = np.bincount(cell[seen], minlength=size).reshape(n_tracts, -1)[:, :n_ages]
    # At risk on a day: whoever was not visited before it, and was still followed on it.
    at_risk = ended[:, ::-1].cumsum(axis=1)[:, ::-1][:, :n_ages]
    rng = np.random.default_rng(seed)
    weights = np.vstack([np.ones((1, n_tracts)), exponential_weights(n_tracts, n_draws, rng)])
    share = _product_limit(weights @ visits, weights @ at_risk)
    return WaitCurve(
        n=len(wait_days),
        n_visited=int(seen.sum()),
        n_open=int((~seen).sum()),
        n_tracts=n_tracts,
        share=share[0],
        drawn=share[1:],
    )


def _product_limit(visits: NDArray[np.float64], at_risk: NDArray[np.float64]) -> NDArray:
    """(D, A) share visited; after the last day with anybody at risk it stays as it is."""
    hazard = np.divide(visits, at_risk, out=np.zeros_like(visits), where=at_risk > 0)
    return 1.0 - np.cumprod(1.0 - np.minimum(hazard, 1.0), axis=1)
