"""Rates by stratum and their draws: tracts are resampled whole, reporting draws go along.

The stratum, the staff who come and the habits of reporting belong to the tract, so rows of one
tract are not independent and tracts, not rows, are resampled. Weights are exponential (the Bayesian
bootstrap, Rubin 1981): the same first-order spread as drawing tracts with replacement, and no draw
leaves a small stratum without data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEW_EVENTS = 10
"""Below this many events the spread over tracts says too little (at none, it is zero), and the
draws come from Jeffreys' law of a count instead."""


TINY = 1e-12
"""Keeps a widened draw positive, so that ratios have a logarithm."""


@dataclass(frozen=True)
class RateDraws:
    """Rates of K strata, estimated and drawn."""

    rates: NDArray[np.float64]
    """(K,) estimate; NaN where a stratum has nothing to divide by."""
    draws: NDArray[np.float64]
    """(B, K) joint draws."""
    events: NDArray[np.float64]
    """(K,) counted events."""
    out_of: NDArray[np.float64]
    """(K,) what they are divided by."""
    n_tracts: NDArray[np.int64]
    """(K,) tracts that contribute."""

    @property
    def error(self) -> NDArray[np.float64]:
        """(K,) standard errors."""
        return self.draws.std(axis=0, ddof=1)

    def interval(self, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(K,) lower and upper ends, one stratum at a time (not simultaneous)."""
        tail = (1 - level) / 2
        ends = np.quantile(self.draws, [tail, 1 - tail], axis=0)
        return ends[0], ends[1]

    def design_effect(self) -> NDArray[np.float64]:
        """(K,) variance over tracts relative to independent rows; NaN where that has no meaning."""
        plain = self.rates * (1 - self.rates) / self.out_of
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(plain > 0, self.error**2 / plain, np.nan)


def draw_weights(n_tracts: int, n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(n_draws, n_tracts) exponential weights; one set serves every rate of an audit jointly."""
    return rng.standard_exponential((n_draws, n_tracts))


def draw_rates(
    served: NDArray[np.floating],
    out_of: NDArray[np.floating],
    weights: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    membership: NDArray[np.floating] | None = None,
) -> RateDraws:
    """Rates per stratum with joint draws.

    Parameters
    ----------
    served
        (n_tracts, K) events of each tract in each stratum.
    out_of
        (n_tracts, K) what they are divided by; or (n_draws, n_tracts) joint draws of an estimated
        denominator per tract, with ``membership``.
    weights
        (n_draws, n_tracts) from `draw_weights`.
    membership
        (n_tracts, K) share of each tract that belongs to each stratum, for a denominator that is
        known per tract only.
    """
    if membership is None:
        total, below = out_of.sum(axis=0), weights @ out_of
        contributes = out_of > 0
    else:
        total = out_of.mean(axis=0) @ membership
        below = (weights * out_of) @ membership
        contributes = (membership > 0) & (out_of.mean(axis=0) > 0)[:, None]
    events = served.sum(axis=0)
    n_tracts = contributes.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where(total > 0, events / total, np.nan)
        draws = np.where(total > 0, (weights @ served) / below, np.nan)
    # The spread of m exponentially weighted tracts is short by (m - 1) / (m + 1).
    widen = np.sqrt((n_tracts + 1) / np.maximum(n_tracts - 1, 1))
    middle = draws.mean(axis=0)
    draws = np.maximum(middle + widen * (draws - middle), TINY)
    for k in np.flatnonzero((total > 0) & (events < FEW_EVENTS)):
        counts = rng.standard_gamma(events[k] + 0.5, len(weights))
        # A known denominator does not vary; an estimated one carries its own draws.
        draws[:, k] = counts / (total[k] if membership is None else out_of @ membership[:, k])
    return RateDraws(rates, draws, events.astype(float), total.astype(float), n_tracts)
