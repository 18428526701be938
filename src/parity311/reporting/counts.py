"""Estimators that know only how many reports each incident had, not for how long it was open.

They take a slow city for a talkative one: where cases stay open longer, more duplicates come in.

A proxy for areas with too little data: P(reported) from the census covariates of an area.

A logistic proxy on the covariates of the paper's Eq. 4 (income, by its logarithm; college, English,
tenure), fitted not to its inverted ρ̂ but to whichever estimator is chosen, on areas with enough
duplicates to speak for themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from parity311.errors import EstimationError, unknown_name
from parity311.reporting.areas import Areas
from parity311.reporting.as_published import MIN_DUPLICATES
from parity311.reporting.cells import build_cells
from parity311.reporting.exposure_rate import (
    RateFit,
    check_repeats,
    estimate_from_fit,
    exposure_rate,
    fit_rows,
)
from parity311.reporting.incidents import (
    IncidentEstimate,
    estimate_from_factors,
    estimate_from_shares,
)
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


BASES: dict[str, Callable[[ReportTable, Areas, Settings], IncidentEstimate]] = {
    "exposure_rate": exposure_rate,
    "zero_truncated": zero_truncated,
    "geometric": geometric,
}
"""Estimators that give P(reported) of an area."""
PROXY_COVARIATES = ("log_income", "share_bachelors", "share_limited_english", "share_renter")
"""Income, college, English (here its opposite) and tenure."""
MIN_AREAS = 10
"""A proxy fitted to fewer areas says nothing."""
BY_PROXY = f"fewer than {MIN_DUPLICATES} duplicates: P(reported) from its census covariates"


def acs_proxy(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """Estimate by ``settings.proxy_of`` where there are duplicates enough, by the proxy elsewhere.

    Every joint draw of the estimator has its own fit of the proxy; what the proxy does not explain
    is drawn anew for every area it speaks for.
    """
    if settings.proxy_of not in BASES:
        raise unknown_name("estimator to fit the proxy to", settings.proxy_of, BASES)
    base = BASES[settings.proxy_of](table, areas, settings)
    n_duplicates = table.n_duplicates.sum(axis=1)
    has_enough = n_duplicates >= MIN_DUPLICATES
    names = tuple(name for name in PROXY_COVARIATES if name in areas.covariates)
    design = np.column_stack([np.ones(areas.n_areas), areas.design(names)[0]])
    if has_enough.sum() < max(MIN_AREAS, 2 * design.shape[1]):
        raise EstimationError(
            f"{int(has_enough.sum())} areas have {MIN_DUPLICATES} duplicates or more, too few to "
            f"fit a proxy; widen the dates, or use estimator {settings.proxy_of!r}."
        )
    solve = _least_squares(design[has_enough], n_duplicates[has_enough])
    share = np.clip(1.0 / base.factors, 1e-6, 1 - 1e-6)
    draws = np.clip(1.0 / base.factor_draws, 1e-6, 1 - 1e-6)
    fitted = design @ (solve @ logit(share)[has_enough])
    unexplained = (logit(share) - fitted)[has_enough]
    sd = float(np.sqrt(np.average(unexplained**2, weights=n_duplicates[has_enough])))
    rng = np.random.default_rng(settings.seed + 1)
    moved = (logit(draws)[:, has_enough] @ solve.T) @ design.T
    moved = moved + sd * rng.standard_normal(moved.shape)
    by_proxy = np.where(has_enough, share, expit(fitted))
    proxied_draws = np.where(has_enough, draws, expit(moved))
    return estimate_from_shares(
        "acs_proxy",
        f"{base.assumption} In {int((~has_enough).sum())} of {areas.n_areas} areas P(reported) "
        f"is a logistic function of {', '.join(names) or 'nothing'}, fitted to the others.",
        replace(table, notes=()),
        areas,
        rate=(base.rate_per_day, base.rate_se),
        factors=1.0 / by_proxy,
        factor_draws=1.0 / proxied_draws,
        reason=np.where(has_enough, base.reason, BY_PROXY).astype(object),
        details={**base.details, "proxy_sd": sd},
    )


def _least_squares(design: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(n_columns, n_rows) matrix that gives weighted least-squares coefficients, a weak ridge in.

    The ridge (sd 10 on the logit scale) only keeps an empty fit defined.
    """
    weighted = design * weight[:, None]
    return np.linalg.solve(weighted.T @ design + 0.01 * np.eye(design.shape[1]), weighted.T)
