"""Strata, and totals of estimated incidents per stratum with joint draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.errors import unknown_name
from parity311.reporting.areas import Areas
from parity311.reporting.incidents import INTERVAL, Estimate

STRATA = ("income5", "income2", "race", "majority")
UNKNOWN = "unknown"
MAJORITY = 0.5
"""A group is an area's majority from this share on."""


@dataclass(frozen=True)
class Strata:
    """Names of the strata and the stratum of every area."""

    kind: str
    names: tuple[str, ...]
    of_area: np.ndarray


def stratify(areas: Areas, kind: str = "income5") -> Strata:
    """Put every area into a stratum; areas that cannot be placed form ``unknown``.

    income5: quintiles 1 … 5. income2: low (1-2), middle (3), high (4-5). race: household-weighted
    quintiles of the Black and Hispanic share. majority: the group with half or more, or mixed.
    """
    if kind not in STRATA:
        raise unknown_name("strata", kind, STRATA)
    quintile = areas.income_quintile
    if kind == "income5":
        return Strata(
            kind, ("1", "2", "3", "4", "5", UNKNOWN), np.where(quintile == 0, 5, quintile - 1)
        )
    if kind == "income2":
        place = np.array([3, 0, 0, 1, 2, 2])[quintile]
        return Strata(kind, ("low", "middle", "high", UNKNOWN), place)
    if kind == "race":
        share = _share(areas, "share_black") + _share(areas, "share_hispanic")
        place = weighted_quintile(share, areas.households)
        return Strata(kind, fifths, np.where(place == 0, 5, place - 1))
    groups = ("white", "black", "hispanic", "asian")
    shares = np.column_stack([_share(areas, f"share_{group}") for group in groups])
    known = np.isfinite(shares).all(axis=1)
    largest = np.argmax(np.where(np.isfinite(shares), shares, -1.0), axis=1)
    place = np.where(np.max(np.nan_to_num(shares), axis=1) >= MAJORITY, largest, 4)
    return Strata(kind, (*groups, "mixed", UNKNOWN), np.where(known, place, 5))


def weighted_quintile(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Quintile 1 … 5 of every value, each holding a fifth of the weight; 0 where NaN."""
    known = np.isfinite(values)
    order = np.argsort(values[known], kind="stable")
    weight = np.maximum(weights[known][order], 1e-12)
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    out = np.zeros(len(values), dtype=np.int64)
    inner = np.empty(known.sum(), dtype=np.int64)
    inner[order] = np.minimum((middle * 5).astype(np.int64), 4) + 1
    out[known] = inner
    return out


def _share(areas: Areas, name: str) -> np.ndarray:
    return areas.covariates.get(name, np.full(areas.n_areas, np.nan))


@dataclass(frozen=True)
class StrataTotals:
    """Estimated incidents N̂ per window and stratum, with a 90 % interval and joint draws."""

    strata: Strata
    estimate: np.ndarray
    """(n_windows, n_strata)"""
    lower: np.ndarray
    upper: np.ndarray
    draws: np.ndarray
    """(n_draws, n_windows, n_strata)"""
    windows_28d: float

    @property
    def per_28_days(self) -> np.ndarray:
        """(n_strata,) incidents per window of 28 days, averaged over the period."""
        return self.estimate.sum(axis=0) / self.windows_28d

    @property
    def draws_per_28_days(self) -> np.ndarray:
        """(n_draws, n_strata) the same for every joint draw."""
        return self.draws.sum(axis=1) / self.windows_28d


def total_by_stratum(estimate: Estimate, strata: Strata, rng: np.random.Generator) -> StrataTotals:
    """Sum estimated incidents over the areas of every stratum, draw by draw.

    A draw holds one value of every parameter for all areas at once, so errors that areas share do
    not average out; where the estimator counts unreported incidents, their own chance is added.
    """
    n_groups = len(strata.names)
    n_draws = len(estimate.factor_draws)
    shape = (estimate.n_windows, n_groups)
    point, counted = np.zeros(shape), np.zeros(shape)
    draws = np.zeros((n_draws, *shape))
    group_of_cell = strata.of_area[estimate.cell_area]
    for group in range(n_groups):
        member = group_of_cell == group
        counts = estimate.cell_counts[member]
        counted[:, group] = counts.sum(axis=0)
        point[:, group] = estimate.factors[member] @ counts
        draws[:, :, group] = estimate.factor_draws[:, member] @ counts
    if estimate.counts_unreported:
        draws = counted + _draw_unreported(rng, counted, draws)
    lower, upper = np.percentile(draws, INTERVAL, axis=0)
    return StrataTotals(strata, point, lower, upper, draws, estimate.windows_28d)


def _draw_unreported(
    rng: np.random.Generator, counted: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """Negative binomial around the drawn mean; half a report stands in where there was none."""
    shape = np.maximum(counted, 0.5)
    overall = totals.sum(axis=(1, 2), keepdims=True) / np.maximum(counted.sum(), 1.0)
    mean = np.where(counted > 0, totals - counted, 0.5 * np.maximum(overall - 1.0, 0.0))
    return rng.poisson(rng.gamma(shape, np.maximum(mean, 0.0) / shape)).astype(np.float64)
