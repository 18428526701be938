"""The paper's own gate, labelled as such, so that its behaviour can be shown.

Calibration step 5: suspend where max |e_i − e_j| > τ over strata, with e = n / N̂ (Eq. 10). N̂ sums
C/ρ̂ over tracts (Eq. 5 and 6) in a window of four weeks; ρ̂ = 1 − D/C (Eq. 3) in tracts with at
least m_min = 10 duplicates in it, the logistic proxy of Eq. 4 in the others, fitted on tracts where
duplicates are observed; Î is C where ρ̂ < 0.05. Beside it stands the 5th to 95th percentile of
B = 200 normal draws of ρ̂.

Neither is a test: with 500 incidents a stratum at a rate of one half the gate suspends equal
service half of the time, and a percentile interval of a largest difference lies above zero whatever
is true. One reading is ours: the paper divides the escalations of a single step by the need of four
weeks, which is near zero whatever happens; here service is counted over the same four weeks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.audit.gap import TAU
from parity311.errors import InputError
from parity311.reporting.as_published import clipped_factor, measure_propensity

N_DRAWS = 200
"""Draws of the published parametric bootstrap."""


@dataclass(frozen=True)
class PublishedGate:
    """What the paper's calibration step 5 says of one window."""

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
    repeats: np.ndarray,
    design: np.ndarray,
    membership: np.ndarray,
    *,
    tau: float = TAU,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> PublishedGate:
    """Apply the paper's audit to the counts of one window of four weeks.

    Parameters
    ----------
    served, complaints, repeats
        (n_tracts,) n, C and D.
    design
        (n_tracts, columns) x of Eq. 4, from `parity311.reporting.as_published.proxy_design`.
    membership
        (n_tracts, K) one where a tract belongs to a stratum.
    """
    if not 0.0 < tau < 1.0:
        raise InputError(f"tau is {tau}; it must lie between 0 and 1, 0.05 is usual.")
    some = complaints > 0
    if not some.any():
        nan = float("nan")
        return PublishedGate(nan, False, nan, nan)
    rows = measure_propensity(complaints[some], repeats[some], design[some])
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n_draws, int(some.sum())))
    drawn = (
        [rows.draw(one, None) for one in noise]
        if rows.proxy is None
        else map(rows.draw, noise, rows.proxy.draw(n_draws, rng))
    )
    factors = np.stack([clipped_factor(rows.value), *map(clipped_factor, drawn)])
    need = (complaints[some] * factors) @ membership[some]
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where(need > 0, (served @ membership) / need, np.nan)
    gaps = np.nanmax(rates, axis=1) - np.nanmin(rates, axis=1)
    lower, upper = np.quantile(gaps[1:], [0.05, 0.95])
    return PublishedGate(float(gaps[0]), bool(gaps[0] > tau), float(lower), float(upper))
