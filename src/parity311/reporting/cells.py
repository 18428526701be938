"""Incidents that share an area and what was known at intake share a reporting rate: a cell."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from parity311.reporting.areas import COVARIATES, SHARES, Areas
from parity311.reporting.lifetimes import Lifetime
from parity311.reporting.settings import Settings
from parity311.reporting.table import BY_AGENCY, SEPARATOR, ReportTable

INTERCEPT_SD = 5.0
CATEGORY_SD = 1.0
"""Priors of Liu, Bhandaram and Garg: intercept N(0, 5), category effects N(0, 1)."""
SLOPE_SD = 0.4
"""Belief about slopes per standard deviation and borough effects on the log rate. Theirs is
N(0, 1), with which seven covariates let rates differ a thousandfold where there are few duplicates;
their estimates lie within 0.17, and 0.4 makes the richest fifth report three times as fast."""
LOG_CLOSING_CENTRE = np.log(1.0 / 14.0)
LOG_CLOSING_SD = 2.0
"""Belief about an estimated closing rate: a mean lifetime of two weeks, within a factor of 50."""
CLOSING_SLOPE_SD = 0.5
"""Belief about how log closing rates vary with a standardised covariate or between patterns."""


@dataclass(frozen=True)
class Design:
    """A linear predictor: columns for every cell and for an average incident of every area."""

    cells: np.ndarray
    """(n_cells, n_columns)"""
    areas: np.ndarray
    """(n_areas, n_columns)"""
    prior_mean: np.ndarray
    """(n_columns,)"""
    prior_sd: np.ndarray
    """(n_columns,); 0 keeps a coefficient at its prior mean."""
    names: tuple[str, ...] = ()
    """What every column stands for, where that is printed."""


@dataclass(frozen=True)
class Cells:
    """Cells of a table and the designs of their log reporting rate and log closing rate."""

    area: np.ndarray
    """(n_cells,) area of the cell."""
    is_certain: np.ndarray
    """(n_cells,) incidents the agency found itself, which no resident had to report."""
    rate: Design
    closing: Design
    closing_offset: np.ndarray
    """(n_cells,) known difference of log closing rates between patterns."""
    row_cell: np.ndarray
    """(n_incidents,) cell of every row of the table."""
    n_missing: np.ndarray
    """(n_areas,) covariates that are not published and were set to the mean."""
    n_areas: int


def build_cells(table: ReportTable, areas: Areas, settings: Settings) -> Cells:
    """Group the table's rows into cells of one area and one intake pattern."""
    n_patterns = len(table.patterns)
    code = table.area.astype(np.int64) * n_patterns + table.pattern
    unique, row_cell = np.unique(code, return_inverse=True)
    area, pattern = unique // n_patterns, unique % n_patterns
    share = np.bincount(table.pattern, minlength=n_patterns) / max(table.n_incidents, 1)
    levels, first_factor, labels = pattern_levels(table.patterns)
    contrast = levels[pattern] - share @ levels
    first = contrast[:, first_factor]
    names = settings.covariates
    if names is None:
        names = tuple(name for name in COVARIATES if name in areas.covariates)
        names += tuple(name for name in areas.covariates if name not in (*SHARES, *COVARIATES))
    slopes, n_missing = areas.design(names)
    return Cells(
        area=area,
        is_certain=np.array([name == BY_AGENCY for name in table.patterns])[pattern],
        rate=_rate_design(areas, slopes, area, contrast, (areas.varying(names), labels)),
        closing=_closing_design(areas, settings, area, first),
        closing_offset=_known_offsets(settings.lifetime, table.patterns)[pattern],
        row_cell=row_cell,
        n_missing=n_missing,
        n_areas=areas.n_areas,
    )


def pattern_levels(
    patterns: tuple[str, ...],
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Indicators of the levels of every factor of a pattern ("category|severity|…").

    Returns
    -------
    (n_patterns, n_levels), which of the levels belong to the first factor, and their names. A
    factor with one level has none; the pattern of what the agency found itself is at no level.
    """
    parts = [name.split(SEPARATOR) for name in patterns if name != BY_AGENCY]
    n_factors = max((len(part) for part in parts), default=0)
    columns, is_first, labels = [], [], []
    for factor in range(n_factors):
        at = [
            name.split(SEPARATOR)[factor]
            if name != BY_AGENCY and name.count(SEPARATOR) >= factor
            else None
            for name in patterns
        ]
        names = sorted({value for value in at if value is not None})
        if len(names) > 1:
            columns += [[float(value == name) for value in at] for name in names]
            is_first += [factor == 0] * len(names)
            labels += names
    levels = np.array(columns).reshape(-1, len(patterns)).T
    return levels, np.array(is_first, dtype=bool), tuple(labels)


def _known_offsets(lifetime: Lifetime, patterns: tuple[str, ...]) -> np.ndarray:
    """Difference of log closing rates from the lifetime's mean, by pattern."""
    if lifetime.mean_days is None:
        return np.zeros(len(patterns))
    means = [
        lifetime.by_pattern.get(name.split(SEPARATOR)[0], lifetime.mean_days) for name in patterns
    ]
    return np.log(lifetime.mean_days) - np.log(means)


def _rate_design(
    areas: Areas,
    slopes: np.ndarray,
    area: np.ndarray,
    contrast: np.ndarray,
    labels: tuple[tuple[str, ...], tuple[str, ...]],
) -> Design:
    boroughs = np.unique(areas.borough.astype(str))
    dummies = (areas.borough.astype(str)[:, None] == boroughs[None, :]).astype(np.float64)
    if len(boroughs) == 1:
        boroughs, dummies = boroughs[:0], np.zeros((areas.n_areas, 0))
    by_area = np.column_stack([np.ones(areas.n_areas), slopes, dummies])
    n_columns = by_area.shape[1] + contrast.shape[1]
    sd = np.full(n_columns, SLOPE_SD)
    sd[0], sd[by_area.shape[1] :] = INTERCEPT_SD, CATEGORY_SD
    names = ("intercept", *labels[0], *(f"borough {name}" for name in boroughs), *labels[1])
    return replace(_design(by_area, area, contrast, np.zeros(n_columns), sd), names=names)


def _closing_design(
    areas: Areas, settings: Settings, area: np.ndarray, contrast: np.ndarray
) -> Design:
    """Closing rate: given, given with a spread, or wide where it is estimated."""
    lifetime = settings.lifetime
    slopes = areas.design(settings.closing_covariates)[0]
    if not lifetime.is_estimated:
        contrast = contrast[:, :0]
    by_area = np.column_stack([np.ones(areas.n_areas), slopes])
    n_columns = by_area.shape[1] + contrast.shape[1]
    mean, sd = np.zeros(n_columns), np.full(n_columns, CLOSING_SLOPE_SD)
    if lifetime.mean_days is None:
        mean[0], sd[0] = LOG_CLOSING_CENTRE, LOG_CLOSING_SD
    else:
        mean[0], sd[0] = -np.log(lifetime.mean_days), lifetime.log_sd
    return _design(by_area, area, contrast, mean, sd)


def _design(
    by_area: np.ndarray, area: np.ndarray, contrast: np.ndarray, mean: np.ndarray, sd: np.ndarray
) -> Design:
    average = np.zeros((len(by_area), contrast.shape[1]))
    return Design(
        cells=np.column_stack([by_area[area], contrast]),
        areas=np.column_stack([by_area, average]),
        prior_mean=mean,
        prior_sd=sd,
    )
