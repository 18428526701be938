"""Strata, and totals of estimated incidents per stratum with joint draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.errors import unknown_name
from parity311.records.strata import RACE_GROUPS, race_strata
from parity311.reporting.areas import Areas
from parity311.reporting.incidents import INTERVAL, IncidentEstimate

STRATA = ("income5", "income2", "race", "majority")
UNKNOWN = "unknown"
ALL = "all"
"""The one stratum where nothing is known by which areas could be told apart."""


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
    unknown = np.full(areas.n_areas, np.nan)
    fifths = ("1", "2", "3", "4", "5", UNKNOWN)
    if kind == "income5":
        return Strata(kind, fifths, np.where(quintile == 0, 5, quintile - 1))
    if kind == "income2":
        place = np.array([3, 0, 0, 1, 2, 2])[quintile]
        return Strata(kind, ("low", "middle", "high", UNKNOWN), place)
    shares = {
        f"share_{group}": areas.covariates.get(f"share_{group}", unknown) for group in RACE_GROUPS
    }
    by_race = race_strata(**shares, households=areas.households)
    if kind == "race":
        place = by_race.black_hispanic_quintile.astype(np.int64)
        return Strata(kind, fifths, np.where(place == 0, 5, place - 1))
    names = (*RACE_GROUPS, "mixed", UNKNOWN)
    of_area = np.array([names.index(str(name)) for name in by_race.majority_group])
    return Strata(kind, names, of_area)


def stratify_known(areas: Areas, kind: str = "income5") -> Strata:
    """The same; one stratum ``all`` where no area can be placed, not five that are empty."""
    found = stratify(areas, kind)
    if np.any(found.of_area != found.names.index(UNKNOWN)):
        return found
    return Strata(kind, (ALL,), np.zeros(areas.n_areas, dtype=np.int64))


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


def total_by_stratum(
    estimate: IncidentEstimate, strata: Strata, rng: np.random.Generator
) -> StrataTotals:
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
        draws[:, :, np.bincount(strata.of_area, minlength=n_groups) == 0] = 0.0
        for group in np.flatnonzero(counted.sum(axis=0) == 0):
            # Nobody reported anything there: what is pooled from others, never a silent zero.
            point[:, group] = estimate.incidents[strata.of_area == group].sum(axis=0)
        draws = np.maximum(draws + _draw_counts(rng, estimate, strata, n_draws), 0.0)
    lower, upper = np.percentile(draws, INTERVAL, axis=0)
    return StrataTotals(strata, point, lower, upper, draws, estimate.windows_28d)


def _draw_counts(
    rng: np.random.Generator, estimate: IncidentEstimate, strata: Strata, n_draws: int
) -> np.ndarray:
    """What is uncertain about the reported incidents, spread over windows by their number.

    Areas are independent in this, windows of an area are not told apart.
    """
    n_groups = len(strata.names)
    variance = (estimate.count_sd * estimate.factors) ** 2
    spread = np.sqrt(np.bincount(strata.of_area, variance, minlength=n_groups))
    by_window = np.zeros((estimate.n_windows, n_groups))
    for group in range(n_groups):
        counts = estimate.cell_counts[strata.of_area[estimate.cell_area] == group].sum(axis=0)
        by_window[:, group] = counts / max(float(counts.sum()), 1.0)
    return rng.standard_normal((n_draws, 1, n_groups)) * spread * by_window


def _draw_unreported(
    rng: np.random.Generator, counted: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """Negative binomial around the drawn mean; half a report stands in where there was none."""
    shape = np.maximum(counted, 0.5)
    overall = totals.sum(axis=(1, 2), keepdims=True) / np.maximum(counted.sum(), 1.0)
    mean = np.where(counted > 0, totals - counted, 0.5 * np.maximum(overall - 1.0, 0.0))
    return rng.poisson(rng.gamma(shape, np.maximum(mean, 0.0) / shape)).astype(np.float64)
