"""Compare strata: gap and ratio with bands, who is worst off, and one verdict with its reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.audit.gap import (
    FAIL,
    INSUFFICIENT,
    PASS,
    Differences,
    Gap,
    Ratio,
    gap_from_band,
    ratio_band,
    ratio_from_band,
    simultaneous_band,
)
from parity311.audit.resample import RateDraws
from parity311.audit.spec import AuditSpec


@dataclass(frozen=True)
class Comparison:
    """All strata of one kind under one denominator."""

    verdict: str
    """PASS, FAIL or INSUFFICIENT, by `measure`."""
    reason: str
    measure: str
    """gap, or ratio where the mean rate is below the specification's limit."""
    gap: Gap
    ratio: Ratio
    mean_rate: float
    p_parity: float
    """Chance of differences this large if all strata were equal (max-T)."""
    worst_off: str
    """Strata with the lowest rate of a benefit, or the highest of a burden, among the pairs that
    are beyond the limit; empty unless the verdict is FAIL: otherwise the order may be chance."""
    best_off: str
    left_out: tuple[str, ...]
    """Strata too small to judge; while there is one, nothing passes."""


def compare_strata(
    rates: RateDraws,
    labels: tuple[str, ...],
    spec: AuditSpec,
    *,
    compared: np.ndarray | None = None,
) -> Comparison:
    """Judge the strata that are large enough; one that is not turns PASS into INSUFFICIENT.

    A gap between large strata is a lower bound of the gap over all of them, so FAIL stands.
    ``compared`` (K,) leaves strata like `unknown` out of the comparison altogether.
    """
    asked = np.ones(len(labels), bool) if compared is None else compared
    large = (rates.out_of >= spec.minimum_events) & (rates.n_tracts >= spec.minimum_tracts)
    use = asked & large & rates.is_known
    values = np.where(use, rates.rates, np.nan)
    half_event = 0.5 / np.maximum(rates.out_of, 0.5)
    gap_band = simultaneous_band(values, rates.draws, spec.level, rates.n_tracts)
    log_band = ratio_band(values, rates.draws, spec.level, half_event, rates.n_tracts)
    gap = gap_from_band(gap_band, values, spec.tau)
    ratio = ratio_from_band(log_band, values, spec.smallest_ratio)
    total = rates.out_of[use].sum()
    mean_rate = float(rates.events[use].sum() / total) if total > 0 else float("nan")
    is_rare = mean_rate < spec.ratio_below
    judged = ratio if is_rare else gap
    left_out = tuple(label for label, a, u in zip(labels, asked, use, strict=True) if a and not u)
    verdict, reason = judged.verdict, judged.reason
    if left_out and verdict == PASS:
        verdict, reason = INSUFFICIENT, f"{_too_small(left_out, spec)}; among the others {reason}"
    elif left_out:
        reason = f"{reason}; {_too_small(left_out, spec)}"
    band = log_band if is_rare else gap_band
    limit = -np.log(spec.smallest_ratio) if is_rare else spec.tau
    low, high = ("", "")
    if verdict == FAIL and band is not None:
        low, high = _ends(band, values, labels, limit)
    worst, best = (low, high) if spec.polarity == "benefit" else (high, low)
    return Comparison(
        verdict=verdict,
        reason=reason,
        measure="ratio" if is_rare else "gap",
        gap=gap,
        ratio=ratio,
        mean_rate=mean_rate,
        p_parity=band.p_parity if band else float("nan"),
        worst_off=worst,
        best_off=best,
        left_out=left_out,
    )


def _too_small(left_out: tuple[str, ...], spec: AuditSpec) -> str:
    verb = "has" if len(left_out) == 1 else "have"
    return (
        f"{', '.join(left_out)} {verb} under {spec.minimum_events} to count or under "
        f"{spec.minimum_tracts} tracts"
    )


def _ends(
    band: Differences, values: np.ndarray, labels: tuple[str, ...], limit: float
) -> tuple[str, str]:
    """Lowest and highest strata among the pairs whose own bounds lie beyond the limit.

    A stratum may have the lowest rate of all by chance alone, in no pair that is; equal ones are
    named together.
    """
    pairs = band.pairs[np.abs(band.difference) - band.critical * band.error > limit]
    low, high = (np.array([f(values[pair]) for pair in pairs]) for f in (np.min, np.max))

    def name(rate: float) -> str:
        there = [k for k in np.unique(pairs) if values[k] == rate]
        return ", ".join(labels[k] for k in there)

    return name(low.min()), name(high.max())
