"""Monitoring that may be looked at every day: bands that hold at all looks together.

Tests repeated on growing data alarm sooner or later (a 5 % test looked at 60 times: 33 %). A
confidence sequence is wide enough for every look at once, including the one at which somebody
decides to stop. It is fed sums of tract and period, because rows of one tract and month go
together, and it follows these tracts as they were treated so far, not a larger population.

Each pair of strata has its own sequence on the weighted mean of the period-by-period differences
(asymptotic, normal mixture: Robbins 1970; Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024);
pairs share the error by Bonferroni, so the largest gap is covered too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from parity311.errors import InputError

MIN_EVENTS = 50
"""Events and non-events each stratum of a pair needs before its sequence speaks: the band is
asymptotic, and at the first few events its variance is not known."""
TUNED_LOOK = 12.0
"""The mixture is tightest after as much information as this many first periods bring (a year of
months)."""


@dataclass(frozen=True)
class GapSequence:
    """Bounds of the largest gap after each period."""

    estimate: np.ndarray
    """(T,) largest of the pairs' weighted mean differences so far; NaN before any pair speaks."""
    lower: np.ndarray
    upper: np.ndarray
    e_value: np.ndarray
    """(T,) evidence against a gap within tau; 20 or more is an alarm at 5 % at any time."""


def half_width(variance: np.ndarray, tuning: float | np.ndarray, alpha: float) -> np.ndarray:
    """Half-width of a sequence on a sum whose variance so far is ``variance``.

    ``tuning`` is the inverse of the variance at which the band is tightest (times a constant);
    with ``variance`` = t·s², ``tuning`` = r²/s² and a division by t this is
    s·√(2(t·r² + 1)/(t²·r²)·log(√(t·r² + 1)/α)).
    """
    scaled = variance * tuning + 1.0
    return np.sqrt(2.0 * scaled / tuning * np.log(np.sqrt(scaled) / alpha))


def log_e_value(excess: np.ndarray, variance: np.ndarray, tuning: float) -> np.ndarray:
    """Log evidence that a sum is further than ``excess`` from what it should be."""
    scaled = variance * tuning + 1.0
    return 0.5 * (tuning * excess**2 / scaled - np.log(scaled))


def gap_sequence(
    served: np.ndarray,
    cases: np.ndarray,
    stratum: np.ndarray,
    *,
    n_strata: int,
    tau: float = 0.05,
    level: float = 0.95,
) -> GapSequence:
    """Follow the largest gap over periods.

    Parameters
    ----------
    served, cases
        (T periods, n_tracts) sums.
    stratum
        (n_tracts,) index of each tract's stratum; a negative one leaves the tract out.
    """
    if not 0.0 < tau < 1.0:
        raise InputError(f"tau is {tau}; it must lie between 0 and 1, 0.05 is usual.")
    membership = (stratum[:, None] == np.arange(n_strata)).astype(float)
    events, totals = served @ membership, cases @ membership
    variance = _variance_by_period(served, cases, membership, events, totals)
    pairs = list(combinations(range(n_strata), 2))
    n_periods = len(served)
    best = np.full((3, n_periods), np.nan)
    evidence = np.zeros((len(pairs), n_periods))
    for row, (i, j) in enumerate(pairs):
        mean, reach, evidence[row] = _follow_pair(
            events[:, [i, j]],
            totals[:, [i, j]],
            variance[:, [i, j]],
            tau,
            (1 - level) / len(pairs),
        )
        new = np.vstack([np.abs(mean), np.maximum(np.abs(mean) - reach, 0), np.abs(mean) + reach])
        best = np.fmax(best, new)
    # The mean of e-values is an e-value, whatever their dependence.
    return GapSequence(best[0], best[1], best[2], evidence.mean(axis=0))


def _variance_by_period(
    served: np.ndarray,
    cases: np.ndarray,
    membership: np.ndarray,
    events: np.ndarray,
    totals: np.ndarray,
) -> np.ndarray:
    """(T, K) squared residuals of tract sums about the rate so far, summed over tracts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.nan_to_num(events.cumsum(axis=0) / totals.cumsum(axis=0))
    residual = served - cases * (rate @ membership.T)
    return (residual**2) @ membership


def _follow_pair(
    events: np.ndarray,
    totals: np.ndarray,
    variance: np.ndarray,
    tau: float,
    alpha: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted mean difference (T,), half-width (T,) and e-value (T,) of two strata."""
    both = np.all(totals > 0, axis=1)
    safe = np.where(both[:, None], totals, 1.0)
    # How much a period says is known from its cases, before anything is served.
    weight = np.where(both, safe.prod(axis=1) / safe.sum(axis=1), 0.0)
    difference = np.where(both, events[:, 0] / safe[:, 0] - events[:, 1] / safe[:, 1], 0.0)
    spread = np.where(both, (variance / safe**2).sum(axis=1), 0.0) * weight**2
    total_weight = weight.cumsum()
    total_spread = spread.cumsum()
    total = (weight * difference).cumsum()
    speaks = _speaks(events, totals, both) & (total_spread > 0)
    first = np.flatnonzero(speaks)
    if not len(first):
        nan = np.full(len(events), np.nan)
        return nan, nan, np.zeros(len(events))
    # Fixed by the first period that speaks, so that no later look can choose it.
    start = first[0]
    tuning = (start + 1) / (TUNED_LOOK * total_spread[start]) * _best_ratio(alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(speaks, total / total_weight, np.nan)
        reach = np.where(speaks, half_width(total_spread, tuning, alpha) / total_weight, np.nan)
    excess = np.maximum(np.abs(total) - tau * total_weight, 0.0)
    log_e = np.where(speaks, log_e_value(excess, total_spread, tuning), -np.inf)
    return mean, reach, np.exp(np.minimum(log_e, 700.0))


def _speaks(events: np.ndarray, totals: np.ndarray, both: np.ndarray) -> np.ndarray:
    counted = (events * both[:, None]).cumsum(axis=0)
    other = (totals * both[:, None]).cumsum(axis=0) - counted
    return np.all(np.minimum(counted, other) >= MIN_EVENTS, axis=1)


def _best_ratio(alpha: float) -> float:
    """V·tuning at which a band is tightest at variance V: −W₋₁(−α²e⁻¹) − 1, near 2 log(1/α)."""
    from scipy.special import lambertw

    return float(-lambertw(-(alpha**2) * np.exp(-1.0), -1).real - 1.0)
