"""Incidents that share an area and what was known at intake share a reporting rate: a cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.reporting.areas import COVARIATES, Areas
from parity311.reporting.table import ReportTable

INTERCEPT_SD = 5.0
SLOPE_SD = 1.0
"""Priors of Liu, Bhandaram and Garg: intercept N(0, 5), slopes and group effects N(0, 1)."""


@dataclass(frozen=True)
class Cells:
    """Cells of a table and the design of their log reporting rate."""

    area: np.ndarray
    """(n_cells,) area of the cell."""
    pattern: np.ndarray
    """(n_cells,) intake pattern of the cell."""
    design: np.ndarray
    """(n_cells, n_columns): intercept, area covariates, boroughs, patterns."""
    names: tuple[str, ...]
    prior_sd: np.ndarray
    """(n_columns,) standard deviation of the normal prior of every coefficient, mean 0."""
    row_cell: np.ndarray
    """(n_incidents,) cell of every row of the table."""
    area_design: np.ndarray
    """(n_areas, n_columns): the design of an average incident of every area."""
    n_missing: np.ndarray
    """(n_areas,) covariates that are not published and were set to the mean."""
    n_areas: int


def build_cells(table: ReportTable, areas: Areas, covariates: tuple[str, ...] | None) -> Cells:
    """Group the table's rows into cells of one area and one intake pattern."""
    if covariates is None:
        covariates = tuple(name for name in COVARIATES if name in areas.covariates)
    slopes, n_missing = areas.design(covariates)
    boroughs = np.unique(areas.borough.astype(str))
    dummies = areas.borough.astype(str)[:, None] == boroughs[None, :]
    n_patterns = len(table.patterns)
    code = table.area.astype(np.int64) * n_patterns + table.pattern
    unique, row_cell = np.unique(code, return_inverse=True)
    area, pattern = unique // n_patterns, unique % n_patterns
    by_area = [np.ones((areas.n_areas, 1)), slopes]
    names = ["intercept", *covariates[: slopes.shape[1]]]
    if len(boroughs) > 1:
        by_area.append(dummies.astype(float))
        names += [f"borough {name}" for name in boroughs]
    area_part = np.column_stack(by_area)
    share = np.bincount(table.pattern, minlength=n_patterns) / max(table.n_incidents, 1)
    parts, area_parts = [area_part[area]], [area_part]
    if n_patterns > 1:
        onehot = (pattern[:, None] == np.arange(n_patterns)[None, :]) - share[None, :]
        parts.append(onehot)
        area_parts.append(np.zeros((areas.n_areas, n_patterns)))
        names += [f"pattern {name}" for name in table.patterns]
    design = np.column_stack(parts)
    prior_sd = np.full(design.shape[1], SLOPE_SD)
    prior_sd[0] = INTERCEPT_SD
    return Cells(
        area=area,
        pattern=pattern,
        design=design,
        names=tuple(names),
        prior_sd=prior_sd,
        row_cell=row_cell,
        area_design=np.column_stack(area_parts),
        n_missing=n_missing,
        n_areas=areas.n_areas,
    )
