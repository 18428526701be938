"""The paper's own rule, kept exactly and labelled, so that its behaviour can be shown.

The published gate compares the largest difference of point estimates with tau, and reports the 5th
to 95th percentile of B = 200 parametric draws of the reporting propensity beside it. Neither is a
test: with 500 incidents a stratum at a rate of one half the gate suspends equal service half of the
time, and a percentile interval of a largest difference lies above zero whatever is true.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.audit.gap import TAU
from parity311.errors import InputError

N_DRAWS = 200
"""Draws of the published parametric bootstrap."""
MIN_PROPENSITY = 0.05
"""The paper's rho_min: below it, complaints stand for incidents."""


@dataclass(frozen=True)
class PublishedGate:
    """What the paper's calibration step 5 says."""

    largest_gap: float
    is_suspended: bool
    """Whether the point estimate is beyond tau."""
    lower: float
    """5th percentile of the largest gap over the draws of the propensity."""
    upper: float
    """95th percentile."""


def published_gate(
    served: np.ndarray,
    complaints: np.ndarray,
    duplicates: np.ndarray,
    membership: np.ndarray,
    *,
    tau: float = TAU,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> PublishedGate:
    """Apply the paper's audit: e_g = served_g / N̂_g with N̂ from the inverted propensity.

    Parameters
    ----------
    served, complaints, duplicates
        (n_tracts,) counts of the window.
    membership
        (n_tracts, K) one where a tract belongs to a stratum.
    """
    if not 0.0 < tau < 1.0:
        raise InputError(f"tau is {tau}; it must lie between 0 and 1, 0.05 is usual.")
    some = np.maximum(complaints, 1.0)
    propensity = 1.0 - duplicates / some
    # Delta method on a share of C reports: variance ρ(1 − ρ)/C, drawn as the paper says.
    error = np.sqrt(propensity * (1.0 - propensity) / some)
    noise = np.random.default_rng(seed).standard_normal((n_draws, len(served)))
    gap = _largest_gap(served, complaints, propensity[None], membership)[0]
    drawn = _largest_gap(served, complaints, propensity + noise * error, membership)
    lower, upper = np.nanquantile(drawn, [0.05, 0.95])
    return PublishedGate(float(gap), bool(gap > tau), float(lower), float(upper))


def _largest_gap(
    served: np.ndarray, complaints: np.ndarray, propensity: np.ndarray, membership: np.ndarray
) -> np.ndarray:
    """(B,) largest difference over strata for (B, n_tracts) propensities."""
    usable = np.clip(propensity, MIN_PROPENSITY, 1.0)
    incidents = np.where(propensity < MIN_PROPENSITY, complaints, complaints / usable)
    total = incidents @ membership
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where(total > 0, (served @ membership) / total, np.nan)
    return np.nanmax(rates, axis=1) - np.nanmin(rates, axis=1)
