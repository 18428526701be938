"""Rates by stratum and their draws: tracts are resampled whole, reporting draws go along.

The stratum, the staff who come and the habits of reporting belong to the tract, so rows of one
tract are not independent and tracts, not rows, are resampled, with exponential weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FEW_EVENTS = 10
"""Below this many events the spread over tracts says too little (at none, it is zero), and the
draws come from Jeffreys' law of a count instead."""
TINY = 1e-12
"""Keeps a widened draw positive, so that ratios have a logarithm."""


@dataclass(frozen=True)
class RateDraws:
    """Rates of K strata, estimated and drawn."""

    rates: np.ndarray
    """(K,) estimate; NaN where a stratum has nothing to divide by."""
    draws: np.ndarray
    """(B, K) joint draws; NaN where a draw leaves nothing to divide by."""
    events: np.ndarray
    """(K,) counted events."""
    out_of: np.ndarray
    """(K,) what they are divided by."""
    n_tracts: np.ndarray
    """(K,) tracts that contribute."""

    @property
    def error(self) -> np.ndarray:
        """(K,) standard errors."""
        return self.draws.std(axis=0, ddof=1)

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """(K,) lower and upper ends, one stratum at a time (not simultaneous)."""
        tail = (1 - level) / 2
        ends = np.quantile(self.draws, [tail, 1 - tail], axis=0)
        return ends[0], ends[1]

    @property
    def is_known(self) -> np.ndarray:
        """(K,) whether a stratum has a rate in the estimate and in every draw."""
        return np.isfinite(self.rates) & np.isfinite(self.draws).all(axis=0)

    def design_effect(self) -> np.ndarray:
        """(K,) variance over tracts relative to independent rows; NaN where that has no meaning."""
        with np.errstate(divide="ignore", invalid="ignore"):
            plain = self.rates * (1 - self.rates) / self.out_of
            return np.where(plain > 0, self.error**2 / plain, np.nan)


def draw_rates(
    served: np.ndarray,
    out_of: np.ndarray,
    weights: np.ndarray,
    rng: np.random.Generator,
) -> RateDraws:
    """Rates per stratum with joint draws, for counted denominators.

    Parameters
    ----------
    served, out_of
        (n_tracts, K) events of each tract in each stratum, and what they are divided by.
    weights
        (n_draws, n_tracts) from `exponential_weights`.
    """
    return combine_draws(
        served.sum(axis=0),
        out_of.sum(axis=0),
        weights @ served,
        weights @ out_of,
        (out_of > 0).sum(axis=0),
        rng,
    )


def draw_rates_per_estimate(
    served: np.ndarray,
    estimates: np.ndarray,
    membership: np.ndarray,
    weights: np.ndarray,
    rng: np.random.Generator,
) -> RateDraws:
    """Rates per stratum with joint draws, for a denominator that is itself estimated.

    Parameters
    ----------
    served
        (n_tracts, K) events.
    estimates
        (n_draws, n_tracts) joint draws of the denominator, one for each resample.
    membership
        (n_tracts, K) one where a tract belongs to a stratum.
    """
    middle = estimates.mean(axis=0)
    return combine_draws(
        served.sum(axis=0),
        middle @ membership,
        weights @ served,
        (weights * estimates) @ membership,
        ((membership > 0) & (middle > 0)[:, None]).sum(axis=0),
        rng,
        estimated_only=estimates @ membership,
    )


def combine_draws(
    events: np.ndarray,
    total: np.ndarray,
    top: np.ndarray,
    below: np.ndarray,
    n_tracts: np.ndarray,
    rng: np.random.Generator,
    *,
    estimated_only: np.ndarray | None = None,
) -> RateDraws:
    """Divide drawn sums (B, K), widen for few tracts, and replace draws that rest on few events.

    ``estimated_only`` (B, K) are draws of the denominator without resampled tracts.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where(total > 0, events / total, np.nan)
        draws = np.where((total > 0) & (below > 0), top / below, np.nan)
    # The spread of m exponentially weighted tracts is short by (m - 1) / (m + 1).
    widen = np.sqrt((n_tracts + 1) / np.maximum(n_tracts - 1, 1))
    middle = draws.mean(axis=0)
    draws = np.maximum(middle + widen * (draws - middle), TINY)
    for k in np.flatnonzero((total > 0) & (events < FEW_EVENTS)):
        counts = rng.standard_gamma(events[k] + 0.5, len(draws))
        out_of = np.full(len(draws), total[k]) if estimated_only is None else estimated_only[:, k]
        draws[:, k] = np.divide(counts, out_of, out=np.full(len(draws), np.nan), where=out_of > 0)
    return RateDraws(
        rates, draws, np.asarray(events, float), np.asarray(total, float), np.asarray(n_tracts)
    )


def sum_by(
    tract: np.ndarray,
    group: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
) -> np.ndarray:
    """Sum values into a (n_tracts, n_groups) matrix."""
    flat = np.bincount(tract * shape[1] + group, weights=values, minlength=shape[0] * shape[1])
    return flat.reshape(shape)
