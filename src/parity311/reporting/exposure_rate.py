"""The default estimator: a rate of further reports per day while an incident is open.

In the manner of Liu, Bhandaram and Garg: the clock starts at the first report, which removes the
incidents nobody reported from the rate, and stops when the city comes. Rates are pooled partially
over areas. P(reported), and with it the number of incidents, follows from the rate only under a
lifetime law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from parity311.errors import EstimationError
from parity311.reporting.areas import Areas
from parity311.reporting.cells import Cells, build_cells
from parity311.reporting.hierarchy import Draws, Fit, fit_hierarchy
from parity311.reporting.incidents import (
    INTERVAL,
    NOT_PUBLISHED,
    IncidentEstimate,
    estimate_from_shares,
)
from parity311.reporting.inspections import (
    Factors,
    anchor_factors,
    inspected_cells,
    say_anchor,
)
from parity311.reporting.lifetimes import Lifetime
from parity311.reporting.likelihood import Mixture, RowData, reported_share
from parity311.reporting.model import LOG_CALLBACK, NEVER, Inspected, Model
from parity311.reporting.settings import Settings
from parity311.reporting.table import MAX_EXPOSURE_DAYS, ReportTable

N_HERMITE = 9
"""Nodes of the average over an area's effect; exact for polynomials of degree 17."""


WIDE = 3.0
FEW_DUPLICATES = (
    "Few duplicates: the total is known within a factor of {:.0f} only; read its interval, not its "
    "point."
)
"""Said where the ends of the 90 % interval of the total are further apart than this factor."""


@dataclass(frozen=True)
class RateFit:
    """A fitted reporting rate: cells, mode and what follows from a value of its parameters."""

    cells: Cells
    fit: Fit

    @property
    def mean_lifetime_days(self) -> float:
        """Fitted (or given) mean natural lifetime, averaged over areas on the log scale."""
        closing = self.fit.model.split(self.fit.parameters)[1]
        return float(np.exp(-(self.cells.closing.areas @ closing).mean()))

    @property
    def silent_share(self) -> float:
        """Share of reported incidents that get no further report whatever the exposure."""
        return float(1.0 / (1.0 + np.exp(-self.fit.parameters[-1])))

    @property
    def call_back_days(self) -> float | None:
        """Mean days from an incident's end until a call finds it ended; None where none did."""
        return float(np.exp(-self.fit.parameters[-2])) if self.fit.model.is_free[-2] else None

    def coefficients(self) -> list[dict[str, float | str]]:
        """Coefficients of the log rate with their standard errors; slopes per sd over areas."""
        errors = np.sqrt(np.maximum(np.diag(self.fit.covariance), 0.0))
        values = self.fit.parameters
        return [
            {"name": name, "coefficient": float(values[place]), "se": float(errors[place])}
            for place, name in enumerate(self.cells.rate.names)
        ]

    def log_rate_of_areas(self, parameters: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """Logarithm of λ of an average incident of every area; leading axes are kept."""
        return self.fit.model.split(parameters)[0] @ self.cells.rate.areas.T + effects

    def share_of_cells(
        self, parameters: np.ndarray, effects: np.ndarray, mixture: Mixture
    ) -> np.ndarray:
        """(n_cells,) P(reported)."""
        cells = self.cells
        rate, closing = self.fit.model.split(parameters)
        log_odds = cells.rate.cells @ rate + effects[cells.area]
        log_odds -= cells.closing.cells @ closing + cells.closing_offset
        share = reported_share(self.fit.model.law, mixture, log_odds)
        return np.where(cells.is_certain, 1.0, share)

    def share_of_areas(
        self, parameters: np.ndarray, effects: np.ndarray, mixture: Mixture
    ) -> np.ndarray:
        """(n_areas,) P(reported) of an average incident."""
        rate, closing = self.fit.model.split(parameters)
        log_odds = self.cells.rate.areas @ rate + effects - self.cells.closing.areas @ closing
        return reported_share(self.fit.model.law, mixture, log_odds)

    def factors(
        self,
        counts: np.ndarray,
        parameters: np.ndarray,
        effects: np.ndarray,
        mixture: Mixture,
    ) -> np.ndarray:
        """(n_areas,) incidents per reported incident, given the reported ones of every cell.

        Where an area has none, that of an average incident there.
        """
        n_areas, area = self.cells.n_areas, self.cells.area
        inverse = 1.0 / np.maximum(self.share_of_cells(parameters, effects, mixture), 1e-12)
        total = np.bincount(area, counts * inverse, minlength=n_areas)
        reported = np.bincount(area, counts, minlength=n_areas)
        average = 1.0 / np.maximum(self.share_of_areas(parameters, effects, mixture), 1e-12)
        return np.divide(total, reported, out=average, where=reported > 0)

    def mean_factors(self, counts: np.ndarray) -> np.ndarray:
        """(n_areas,) the same at the mode, averaged over what is uncertain about the effects.

        The average is larger than one over the share at the effects' mode. Common parameters stay
        at theirs, so that a few wild draws do not set the level.
        """
        fit = self.fit
        spread = 1.0 / np.sqrt(fit.curvature.spread(fit.sigma))
        nodes, weights = np.polynomial.hermite_e.hermegauss(N_HERMITE)
        out = np.zeros(self.cells.n_areas)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            effects = fit.effects + node * spread
            out += weight * self.factors(counts, fit.parameters, effects, fit.model.mixture)
        return out


def exposure_rate(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """Zero-inflated Poisson with exposure and a lifetime law, partially pooled over areas.

    Rates vary between incidents of one place (Gamma), as far as the reports show it.
    """
    return _estimate("exposure_rate", table, areas, settings, is_mixed=True)


def exposure_rate_even(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """The same with one rate for all incidents of a place and pattern."""
    return _estimate("exposure_rate_even", table, areas, settings, is_mixed=False)


def _estimate(
    name: str, table: ReportTable, areas: Areas, settings: Settings, *, is_mixed: bool
) -> IncidentEstimate:
    settings = settings if settings.fits is not None else replace(settings, fits={})
    alone = None
    if settings.inspections is not None:
        without = replace(settings, inspections=None, closing_covariates=())
        alone = fit_exposure_rate(table, areas, without, is_mixed=is_mixed)
    fitted = fit_exposure_rate(table, areas, settings, is_mixed=is_mixed)
    assumption = settings.lifetime.describe(fitted.mean_lifetime_days)
    return estimate_from_fit(name, assumption, fitted, table, areas, settings, alone=alone)


def fit_exposure_rate(
    table: ReportTable, areas: Areas, settings: Settings, *, is_mixed: bool = False
) -> RateFit:
    """Fit reporting rates by maximum likelihood with partial pooling over areas.

    Parameters
    ----------
    is_mixed
        Let the rate vary between incidents of one cell (Gamma); undoes what conditioning on a
        first report does to it.
    """
    lifetime, known = settings.lifetime, {} if settings.fits is None else settings.fits
    told = (repr(lifetime), settings.covariates, settings.closing_covariates, is_mixed)
    if settings.inspections is None and told in known:
        return known[told]
    use = table.informs_rate
    data = RowData(
        table.n_further[use].astype(np.float64),
        table.last_delay_days[use],
        table.exposure_days[use],
        table.found_ended[use].astype(np.float64),
        table.called_until_days[use],
    )
    _check_fixed_lifetime(lifetime, data)
    cells = build_cells(table, areas, settings)
    inspected: Inspected | None = None
    if settings.inspections is not None:
        cells, inspected = inspected_cells(cells, settings.inspections)
    calls = LOG_CALLBACK if lifetime.law == "exponential" and data.found_ended.any() else NEVER
    model = Model(lifetime.law, cells, log_callback=calls, inspected=inspected)
    check_repeats(table, use)
    near = next((one.fit for name, one in known.items() if name[1::2] == told[1::2]), None)
    fit = fit_rows(model, data, cells.row_cell[use], is_mixed=is_mixed, near=near)
    found = RateFit(cells, fit)
    if settings.inspections is None:
        known[told] = found
    return found


def check_repeats(table: ReportTable, use: np.ndarray) -> None:
    """Refuse a table in which no incident was reported again, or none is known to have been."""
    n, n_unmarked = int(use.sum()), table.n_unmarked
    if n == 0 or table.n_further[use].sum() > 0:
        return
    if n_unmarked:
        raise EstimationError(
            f"Duplicates are not marked for {n_unmarked:,} of {table.n_incidents:,} complaints, "
            f"and no other was reported a second time while it was open ({MAX_EXPOSURE_DAYS:g} "
            "days at most), so nothing tells how fast people report; link them with `parity311 "
            "records link`, import a source that marks them (in a map: duplicate or parent), or "
            "use estimator 'raw'."
        )
    raise EstimationError(
        f"None of {n:,} incidents was reported a second time while it was open "
        f"({MAX_EXPOSURE_DAYS:g} days at most), so nothing tells how fast people report; widen the "
        "dates, or use estimator 'raw'."
    )


def fit_rows(
    model: Model,
    data: RowData,
    cell: np.ndarray,
    *,
    is_mixed: bool = False,
    near: Fit | None = None,
) -> Fit:
    """Fit a model, from the crude rate or a fit nearby; raise where nothing can be told."""
    n = len(cell)
    if n == 0:
        raise EstimationError(
            "No incident has an exposure of more than 0.1 day, so reports say nothing about how "
            "fast people report; give closing or inspection times, or use estimator "
            "'zero_truncated'."
        )
    crude = data.n_further.sum() / max(float(data.exposure_days.sum()), 0.1)
    try:
        fit = fit_hierarchy(model, data, cell, float(np.log(crude)), is_mixed=is_mixed, near=near)
    except np.linalg.LinAlgError:
        fit = None
    if (fit is None or not fit.has_converged) and near is not None:
        return fit_rows(model, data, cell, is_mixed=is_mixed)
    if fit is None or not fit.has_converged:
        raise EstimationError(
            f"The reporting rate did not converge on {n} incidents; give a lifetime "
            "(exponential:DAYS) instead of estimating it, or fewer covariates."
        )
    return fit


def estimate_from_fit(
    name: str,
    assumption: str,
    fitted: RateFit,
    table: ReportTable,
    areas: Areas,
    settings: Settings,
    *,
    has_rate: bool = True,
    alone: RateFit | None = None,
) -> IncidentEstimate:
    """Draw parameters and effects jointly and turn them into estimated incidents.

    `alone` is the fit of the reports without the inspections: what these are held against.
    """
    draws = fitted.fit.draw(np.random.default_rng(settings.seed), settings.n_draws)
    rates = np.exp(fitted.log_rate_of_areas(draws.parameters, draws.effects))
    if not has_rate:
        rates = np.full_like(rates, np.nan)
    details = {
        "silent_share": fitted.silent_share,
        "area_sd": fitted.fit.sigma,
        "log_likelihood": fitted.fit.log_likelihood,
    }
    if has_rate:
        details["mean_lifetime_days"] = fitted.mean_lifetime_days
    if fitted.call_back_days is not None:
        details["call_back_days"] = fitted.call_back_days
    if fitted.fit.between is not None:
        details["between_incident_variance"] = fitted.fit.between.mode
    factors = _draw_factors(fitted, draws, table)
    reported = np.bincount(table.area, table.weight, minlength=areas.n_areas)
    sample = settings.inspections
    if sample is not None and has_rate:
        assumption += f" Random inspections of {len(sample.area)} areas were joined."
    if sample is not None and alone is not None:
        rng = np.random.default_rng([settings.seed, 1])
        by_reports = _draw_factors(alone, alone.fit.draw(rng, settings.n_draws), table)
        slopes = np.nan_to_num(areas.design(settings.closing_covariates)[0])
        anchor = anchor_factors(by_reports, reported, slopes, sample, rng)
        if anchor is not None:
            factors = factors.mix(anchor.factors, anchor.chance_off, rng)
            details["chance_law_is_off"] = anchor.chance_off
            details["inspections_shift"] = anchor.shift
            assumption += say_anchor(anchor)
    low, high = np.percentile(factors.draws @ reported, INTERVAL)
    if high > WIDE * low:
        assumption = f"{assumption} {FEW_DUPLICATES.format(high / low)}"
    return estimate_from_shares(
        name,
        assumption,
        table,
        areas,
        rate=(rates.mean(axis=0), rates.std(axis=0)),
        factors=factors.mean,
        factor_draws=factors.draws,
        reason=np.where(fitted.cells.n_missing > 0, NOT_PUBLISHED, "").astype(object),
        details=details,
        coefficients=fitted.coefficients(),
    )


def _draw_factors(fitted: RateFit, draws: Draws, table: ReportTable) -> Factors:
    """Incidents per reported incident, at the mode and in every draw of the parameters."""
    cells = fitted.cells
    counts = np.bincount(cells.row_cell, table.weight, minlength=len(cells.area))
    each = zip(draws.parameters, draws.effects, draws.mixtures, strict=True)
    drawn = np.array([fitted.factors(counts, *draw) for draw in each])
    return Factors(fitted.mean_factors(counts), drawn)


def _check_fixed_lifetime(lifetime: Lifetime, data: RowData) -> None:
    longest = float(np.max(data.last_delay_days, initial=0.0))
    if lifetime.law == "fixed" and lifetime.mean_days is not None and longest > lifetime.mean_days:
        raise EstimationError(
            f"A report came {longest:.3g} days after the first one of its incident, so incidents "
            f"cannot all last {lifetime.mean_days:.3g} days; give fixed:{np.ceil(longest):.0f} or "
            "more, or an exponential law."
        )
