"""Estimators that know only how many reports each incident had, not for how long it was open.

They take a slow city for a talkative one: where cases stay open longer, more duplicates come in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parity311.reporting.areas import Areas
from parity311.reporting.cells import build_cells
from parity311.reporting.exposure_rate import (
    RateFit,
    check_repeats,
    estimate_from_fit,
    fit_rows,
)
from parity311.reporting.incidents import IncidentEstimate, estimate_from_factors
from parity311.reporting.lifetimes import fixed
from parity311.reporting.likelihood import RowData
from parity311.reporting.model import NEVER, Model
from parity311.reporting.settings import Settings
from parity311.reporting.table import ReportTable

ONE_LIFETIME = fixed(1.0)
"""The unit of time is a lifetime."""


def zero_truncated(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """Poisson reports per incident, seen only if there is one: P(reported) = 1 − e^−λ.

    λ̂ solves reports per reported incident = λ/(1 − e^−λ); pooled over areas.
    """
    fitted = _fit_counts("fixed", table, areas, settings)
    text = (
        "Assumes that every incident is open equally long and reported at one rate within an area; "
        "ignores how long the city took."
    )
    return estimate_from_fit("zero_truncated", text, fitted, table, areas, settings, has_rate=False)


def geometric(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """Geometric reports per incident: P(reported) = D/C, Î = R·C/D; pooled over areas."""
    fitted = _fit_counts("geometric", table, areas, settings)
    text = (
        "Assumes that incidents end at a constant rate, or that reporting varies exponentially "
        "between them; ignores how long the city took."
    )
    return estimate_from_fit("geometric", text, fitted, table, areas, settings, has_rate=False)


def _fit_counts(law: str, table: ReportTable, areas: Areas, settings: Settings) -> RateFit:
    """Fit reports per incident with no exposure; agency findings say nothing about residents."""
    use = table.is_resident
    n = int(use.sum())
    further = table.n_further[use].astype(np.float64)
    data = RowData(further, np.zeros(n), np.ones(n), np.zeros(n), np.zeros(n))
    cells = build_cells(table, areas, replace(settings, lifetime=ONE_LIFETIME))
    model = Model(law, cells, logit_silent=NEVER)
    check_repeats(table, use)
    return RateFit(cells, fit_rows(model, data, cells.row_cell[use]))


def lower_bound(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """Chao1 in its form without division by zero: R + f₁(f₁ − 1) / (2(f₂ + 1)).

    f₁, f₂: incidents with one and two reports. A lower bound whatever the spread of reporting;
    draws are log-normal in the unreported part (Chao 1987). Incidents of a source that does not
    mark duplicates are no singletons: they count as reported, and add nothing unreported. Where
    nothing was reported twice, f₁(f₁ − 1)/2 grows with the table and bounds nothing: refused.
    """
    is_marked = np.ones(table.n_incidents, bool)
    if table.is_unmarked is not None:
        is_marked = ~table.is_unmarked
    check_repeats(table, np.ones(table.n_incidents, bool))
    n_areas = areas.n_areas
    once = table.weight * ((table.n_further == 0) & is_marked)
    ones = np.bincount(table.area, once, minlength=n_areas)
    twos = np.bincount(table.area, table.weight * (table.n_further == 1), minlength=n_areas)
    reported = np.bincount(table.area, table.weight, minlength=n_areas)
    missed = ones * np.maximum(ones - 1, 0) / (2 * (twos + 1))
    variance = (
        missed
        + ones * np.maximum(2 * ones - 1, 0) ** 2 / (4 * (twos + 1) ** 2)
        + ones**2 * twos * np.maximum(ones - 1, 0) ** 2 / (4 * (twos + 1) ** 4)
    )
    spread = np.sqrt(np.log1p(variance / np.maximum(missed, 1e-12) ** 2)) * (missed > 0)
    rng = np.random.default_rng(settings.seed)
    noise = rng.standard_normal((settings.n_draws, n_areas))
    draws = missed * np.exp(spread * noise - spread**2 / 2)
    at_least = np.maximum(reported, 1.0)
    return estimate_from_factors(
        "lower_bound",
        "A lower bound: it assumes nothing about how reporting varies, and ignores how long the "
        "city took.",
        table,
        areas,
        counts=table.incidents_by_window(),
        factors=1.0 + missed / at_least,
        factor_draws=1.0 + draws / at_least,
        share=np.divide(
            reported, reported + missed, out=np.full(n_areas, np.nan), where=reported > 0
        ),
    )


def raw(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """Complaints as they are: no correction, no uncertainty, nothing unreported."""
    ones = np.ones(areas.n_areas)
    return estimate_from_factors(
        "raw",
        "Counts complaints, duplicates included, as if they were incidents.",
        table,
        areas,
        counts=table.n_reports,
        factors=ones,
        factor_draws=np.ones((settings.n_draws, areas.n_areas)),
        share=np.full(areas.n_areas, np.nan),
    )
