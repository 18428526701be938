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
from parity311.reporting.hierarchy import Fit, Inspected, Model, Prior, fit_hierarchy
from parity311.reporting.incidents import NOT_PUBLISHED, Estimate, estimate_from_shares
from parity311.reporting.inspections import inspected_cells
from parity311.reporting.lifetimes import Lifetime
from parity311.reporting.likelihood import RowData, reported_share
from parity311.reporting.settings import Settings
from parity311.reporting.table import ReportTable

LOG_CLOSING_CENTRE = np.log(1.0 / 14.0)
LOG_CLOSING_SD = 2.0
"""Belief about an estimated closing rate: a mean lifetime of two weeks, within a factor of 50."""
CLOSING_SLOPE_SD = 0.5
"""Belief about how log closing rates vary with a standardised covariate, where inspections tell."""


@dataclass(frozen=True)
class RateFit:
    """A fitted reporting rate: cells, mode and what follows from a value of its parameters."""

    cells: Cells
    fit: Fit

    @property
    def mean_lifetime_days(self) -> float:
        """Fitted (or given) mean natural lifetime, averaged over areas on the log scale."""
        return float(np.exp(-self._log_closing(self.fit.parameters).mean()))

    @property
    def silent_share(self) -> float:
        """Share of reported incidents that get no further report whatever the exposure."""
        return float(1.0 / (1.0 + np.exp(-self.fit.parameters[-2])))

    @property
    def gamma_shape(self) -> float | None:
        """Shape of the Gamma mixture; None without mixing."""
        return float(np.exp(self.fit.parameters[-1])) if self.fit.model.is_mixed else None

    def _log_closing(self, parameters: np.ndarray) -> np.ndarray:
        n_slopes = self.cells.design.shape[1]
        return parameters[..., n_slopes:-2] @ self.fit.model.closing_design.T

    def log_rate_of_areas(self, parameters: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """Log λ of an average incident of every area; leading axes of the arguments are kept."""
        n_slopes = self.cells.design.shape[1]
        return parameters[..., :n_slopes] @ self.cells.area_design.T + effects

    def share_of_cells(self, parameters: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """P(reported) of every cell; leading axes (draws) are kept."""
        n_slopes = self.cells.design.shape[1]
        log_rate = parameters[..., :n_slopes] @ self.cells.design.T
        log_rate = log_rate + effects[..., self.cells.area]
        log_closing = self._log_closing(parameters)[..., self.cells.area]
        return self._share(parameters, log_rate, log_closing)

    def share_of_areas(self, parameters: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """P(reported) of an average incident of every area; leading axes (draws) are kept."""
        log_rate = self.log_rate_of_areas(parameters, effects)
        return self._share(parameters, log_rate, self._log_closing(parameters))

    def _share(
        self, parameters: np.ndarray, log_rate: np.ndarray, log_closing: np.ndarray
    ) -> np.ndarray:
        model = self.fit.model
        log_shape = parameters[..., -1:]
        return reported_share(model.law, model.is_mixed, log_rate, log_closing, log_shape)


def exposure_rate(table: ReportTable, areas: Areas, settings: Settings) -> Estimate:
    """Zero-inflated Poisson with exposure and a lifetime law, partially pooled over areas."""
    fitted = fit_exposure_rate(table, areas, settings)
    assumption = settings.lifetime.describe(fitted.mean_lifetime_days)
    return estimate_from_fit("exposure_rate", assumption, fitted, table, areas, settings)


def exposure_rate_mixed(table: ReportTable, areas: Areas, settings: Settings) -> Estimate:
    """The same with a Gamma spread of reporting between incidents of one place."""
    fitted = fit_exposure_rate(table, areas, settings, is_mixed=True)
    assumption = settings.lifetime.describe(fitted.mean_lifetime_days)
    return estimate_from_fit("exposure_rate_mixed", assumption, fitted, table, areas, settings)


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
    lifetime = settings.lifetime
    use = table.informs_rate
    data = RowData(
        table.n_further[use].astype(np.float64),
        table.last_delay_days[use],
        table.exposure_days[use],
    )
    _check_fixed_lifetime(lifetime, data)
    return fit_rows(
        table, areas, settings, lifetime.law, closing_prior(settings, areas), data, use, is_mixed
    )


def fit_rows(
    table: ReportTable,
    areas: Areas,
    settings: Settings,
    law: str,
    prior: Prior,
    data: RowData,
    use: np.ndarray,
    is_mixed: bool,
) -> RateFit:
    """Fit one law to the rows in ``use``, whose data are given."""
    cells = build_cells(table, areas, settings.covariates)
    inspected: Inspected | None = None
    if settings.inspections is not None:
        cells, inspected = inspected_cells(cells, settings.inspections)
    slopes, _ = areas.design(settings.closing_covariates)
    model = Model(
        law=law,
        is_mixed=is_mixed,
        cells=replace(cells, row_cell=cells.row_cell[use]),
        closing_design=np.column_stack([np.ones(areas.n_areas), slopes]),
        prior=prior,
        inspected=inspected,
    )
    days = max(float(data.exposure_days.sum()), 0.1)
    fit = fit_hierarchy(model, data, float(np.log((data.n_further.sum() + 0.5) / days)))
    if not fit.has_converged:
        raise EstimationError(
            f"The reporting rate did not converge on {len(data.n_further)} incidents; give a "
            "lifetime (exponential:DAYS) instead of estimating it, or fewer covariates."
        )
    return RateFit(cells, fit)


def estimate_from_fit(
    name: str,
    assumption: str,
    fitted: RateFit,
    table: ReportTable,
    areas: Areas,
    settings: Settings,
    *,
    has_rate: bool = True,
) -> Estimate:
    """Draw parameters and effects jointly and turn them into estimated incidents."""
    rng = np.random.default_rng(settings.seed)
    parameters, effects = fitted.fit.draw(rng, settings.n_draws)
    rates = np.exp(fitted.log_rate_of_areas(parameters, effects))
    if not has_rate:
        rates = np.full_like(rates, np.nan)
    details = {"silent_share": fitted.silent_share, "area_sd": fitted.fit.sigma}
    if has_rate:
        details["mean_lifetime_days"] = fitted.mean_lifetime_days
    if fitted.gamma_shape is not None:
        details["gamma_shape"] = fitted.gamma_shape
    cells = fitted.cells
    return estimate_from_shares(
        name,
        assumption,
        table,
        areas,
        rate=(rates.mean(axis=0), rates.std(axis=0)),
        share_draws=fitted.share_of_areas(parameters, effects),
        cell_area=cells.area,
        row_cell=cells.row_cell,
        cell_share_draws=fitted.share_of_cells(parameters, effects),
        reason=np.where(cells.n_missing > 0, NOT_PUBLISHED, "").astype(object),
        details=details,
    )


def closing_prior(settings: Settings, areas: Areas) -> Prior:
    """Belief about the closing rate: given, given with a spread, or wide where estimated."""
    n_slopes = areas.design(settings.closing_covariates)[0].shape[1]
    lifetime = settings.lifetime
    mean = np.zeros(1 + n_slopes)
    sd = np.full(1 + n_slopes, CLOSING_SLOPE_SD)
    if lifetime.mean_days is None:
        mean[0], sd[0] = LOG_CLOSING_CENTRE, LOG_CLOSING_SD
    else:
        mean[0], sd[0] = -np.log(lifetime.mean_days), lifetime.log_sd
    return Prior(mean, sd)


def _check_fixed_lifetime(lifetime: Lifetime, data: RowData) -> None:
    longest = float(np.max(data.last_delay_days, initial=0.0))
    if lifetime.law == "fixed" and lifetime.mean_days is not None and longest > lifetime.mean_days:
        raise EstimationError(
            f"A report came {longest:.3g} days after the first one of its incident, so incidents "
            f"cannot all last {lifetime.mean_days:.3g} days; give fixed:{np.ceil(longest):.0f} or "
            "more, or an exponential law."
        )
