"""The largest difference between strata, with a band that covers all pairs at once.

A bootstrap percentile of a maximum never covers zero, so the band is built around each pairwise
difference with one critical value for all of them (max-T), and the verdict has three states. The
ratio is bounded the same way on the logarithmic scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from parity311.errors import InputError
from parity311.number_text import format_value

TAU = 0.05
"""Largest gap that passes (the paper's recommendation)."""
PASS, FAIL, INSUFFICIENT = "PASS", "FAIL", "INSUFFICIENT"


@dataclass(frozen=True)
class Gap:
    """The largest pairwise gap, its simultaneous bounds and the verdict."""

    estimate: float
    lower: float
    upper: float
    verdict: str
    """PASS (upper bound within tau), FAIL (lower bound beyond tau) or INSUFFICIENT."""
    reason: str


@dataclass(frozen=True)
class Ratio:
    """The smallest ratio of two strata's rates, its simultaneous bounds and the verdict."""

    estimate: float
    lower: float
    upper: float
    verdict: str
    """PASS (lower bound at or above the floor), FAIL (upper bound below it) or INSUFFICIENT."""
    reason: str


@dataclass(frozen=True)
class Differences:
    """All pairwise differences of K values and one critical value for their band."""

    pairs: np.ndarray
    """(n_pairs, 2) indices of strata."""
    difference: np.ndarray
    error: np.ndarray
    critical: np.ndarray
    """(n_pairs,) multiples of the error: one joint value, wider where few tracts stand behind."""
    p_parity: float
    """Chance of a largest standardised difference as large as seen if all strata were equal."""

    @property
    def lower(self) -> float:
        """Lower bound of the largest absolute difference."""
        return float(np.max(np.maximum(np.abs(self.difference) - self.critical * self.error, 0.0)))

    @property
    def upper(self) -> float:
        """Upper bound of the largest absolute difference."""
        return float(np.max(np.abs(self.difference) + self.critical * self.error))

    @property
    def largest(self) -> float:
        """Estimate of the largest absolute difference."""
        return float(np.abs(self.difference).max())


def simultaneous_band(
    values: np.ndarray,
    draws: np.ndarray,
    level: float,
    n_tracts: np.ndarray | None = None,
) -> Differences | None:
    """Band of all pairwise differences of the strata that have data; None with fewer than two.

    Parameters
    ----------
    values
        (K,) estimates; NaN where a stratum has no data.
    draws
        (B, K) joint draws of them.
    n_tracts
        (K,) tracts behind each stratum; where given, Student's law replaces the normal one.
    """
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(draws).all(axis=0))
    if len(known) < 2:
        return None
    pairs = np.array(list(combinations(known, 2)))
    difference = values[pairs[:, 0]] - values[pairs[:, 1]]
    drawn = draws[:, pairs[:, 0]] - draws[:, pairs[:, 1]]
    drawn = drawn - drawn.mean(axis=0)
    error = drawn.std(axis=0, ddof=1)
    scale = np.where(error > 0, error, np.inf)
    largest = (np.abs(drawn) / scale).max(axis=1)
    seen = np.max(np.abs(difference) / scale)
    p_parity = (1 + np.count_nonzero(largest >= seen)) / (1 + len(largest))
    critical = np.full(len(pairs), np.quantile(largest, level, method="higher"))
    if n_tracts is not None:
        critical = _widen(critical, draws.var(axis=0, ddof=1)[pairs], n_tracts[pairs])
    return Differences(pairs, difference, error, critical, float(p_parity))


def _widen(critical: np.ndarray, variance: np.ndarray, n_tracts: np.ndarray) -> np.ndarray:
    """Student's multiple for the normal one, with Welch's degrees of freedom per pair (n, 2)."""
    above = (variance**2 / np.maximum(n_tracts - 1, 1)).sum(axis=1)
    total = variance.sum(axis=1)
    freedom = np.where(above > 0, total**2 / np.where(above > 0, above, 1.0), np.inf)
    return stats.t.isf(stats.norm.sf(critical), np.maximum(freedom, 1.0))


def measure_gap(
    rates: np.ndarray,
    draws: np.ndarray,
    *,
    tau: float = TAU,
    level: float = 0.95,
    n_tracts: np.ndarray | None = None,
) -> Gap:
    """Bound the maximum gap over K strata and compare it with ``tau``.

    Parameters
    ----------
    rates
        (K,) estimated rate of each stratum; NaN where a stratum has no data.
    draws
        (B, K) bootstrap draws of the same rates.
    tau, level
        Threshold of the gap, and joint confidence of the band.
    n_tracts
        (K,) tracts behind each stratum, to widen the band where they are few.
    """
    if not 0.0 < tau < 1.0:
        raise InputError(f"tau is {tau}; it must lie between 0 and 1, 0.05 is usual.")
    return gap_from_band(simultaneous_band(rates, draws, level, n_tracts), rates, tau)


def gap_from_band(band: Differences | None, rates: np.ndarray, tau: float) -> Gap:
    """The largest gap of a band of rates, judged against ``tau``."""
    if band is None:
        return Gap(np.nan, np.nan, np.nan, INSUFFICIENT, _too_few(rates))
    verdict, reason = _judge_gap(band.lower, band.upper, tau)
    return Gap(band.largest, band.lower, band.upper, verdict, reason)


def ratio_from_band(band: Differences | None, rates: np.ndarray, floor: float) -> Ratio:
    """The smallest ratio of a band of log rates, judged against ``floor``."""
    if band is None:
        return Ratio(np.nan, np.nan, np.nan, INSUFFICIENT, _too_few(rates))
    known = rates[np.unique(band.pairs)]
    estimate = float(known.min() / known.max()) if known.max() > 0 else float("nan")
    lower, upper = float(np.exp(-band.upper)), float(np.exp(-band.lower))
    verdict, reason = _judge_ratio(lower, upper, floor)
    return Ratio(estimate, lower, upper, verdict, reason)


def ratio_band(
    rates: np.ndarray,
    draws: np.ndarray,
    level: float,
    half_event: np.ndarray | None = None,
    n_tracts: np.ndarray | None = None,
) -> Differences | None:
    """Band of all pairwise differences of log rates."""
    positive = rates if half_event is None else np.where(rates == 0, half_event, rates)
    with np.errstate(divide="ignore", invalid="ignore"):
        return simultaneous_band(np.log(positive), np.log(draws), level, n_tracts)


def _too_few(rates: np.ndarray) -> str:
    return f"{np.isfinite(rates).sum()} of {len(rates)} strata have data; a gap needs two"


def _judge_gap(lower: float, upper: float, tau: float) -> tuple[str, str]:
    limit = f"the limit of {100 * tau:.3g} points"
    low, high = f"{100 * lower:.1f}", f"{100 * upper:.1f}"
    if lower > tau:
        return FAIL, f"the gap is at least {low} points, beyond {limit}"
    if upper <= tau:
        return PASS, f"the gap is at most {high} points, within {limit}"
    if upper >= 1.0:
        return INSUFFICIENT, f"nothing bounds the gap from above: it is at least {low} points"
    return INSUFFICIENT, f"the gap lies between {low} and {high} points, on both sides of {limit}"


def _judge_ratio(lower: float, upper: float, floor: float) -> tuple[str, str]:
    low, high = (format_value(end, "percent") for end in (lower, upper))
    limit = f"the limit of {format_value(floor, 'percent', 0)}"
    if upper < floor:
        return FAIL, f"the lowest rate is at most {high} of the highest, below {limit}"
    if lower >= floor:
        return PASS, f"the lowest rate is at least {low} of the highest, within {limit}"
    return (
        INSUFFICIENT,
        f"the lowest rate is between {low} and {high} of the highest, on both sides of {limit}",
    )
