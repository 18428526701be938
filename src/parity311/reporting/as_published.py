"""The paper's estimator, exactly, for comparison: ρ̂ = 1 − D/C, Î = C/ρ̂.

It is inverted: D/C rises with reporting, so ρ̂ falls as people report more, and Î grows with the
square of the reporting rate. It is never a default.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from parity311.reporting.areas import Areas
from parity311.reporting.incidents import Estimate, estimate_from_factors
from parity311.reporting.settings import Settings
from parity311.reporting.table import ReportTable

MIN_DUPLICATES = 10
"""m_min: below this many duplicates in a tract and window the proxy takes over."""
MIN_PROPENSITY = 0.05
"""ρ_min: below it Î is clipped at C."""
PROXY_COVARIATES = ("log_income", "share_bachelors", "share_limited_english", "share_renter")
"""Income, college, English (here its opposite) and tenure, as the paper lists them."""


@dataclass(frozen=True)
class Proxy:
    """Logistic regression of ρ̂ on covariates."""

    coefficients: np.ndarray
    covariance: np.ndarray

    def propensity(self, design: np.ndarray) -> np.ndarray:
        """ρ̂ of every row of the design."""
        return expit(design @ self.coefficients)


def fit_proxy(design: np.ndarray, n_first: np.ndarray, n_reports: np.ndarray) -> Proxy:
    """Binomial logistic regression of first reports among reports, with a weak ridge.

    The paper does not say how the proxy is fitted; maximum likelihood is our reading. The ridge
    (sd 10 on the logit scale) only keeps an empty fit defined.
    """
    precision = np.full(design.shape[1], 0.01)

    def objective(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        score = design @ coefficients
        value = np.sum(n_reports * np.logaddexp(0.0, score) - n_first * score)
        value += 0.5 * precision @ coefficients**2
        gap = n_reports * expit(score) - n_first
        return float(value), design.T @ gap + precision * coefficients

    fitted = minimize(objective, np.zeros(design.shape[1]), jac=True, method="BFGS")
    share = expit(design @ fitted.x)
    weight = n_reports * share * (1 - share)
    information = design.T @ (weight[:, None] * design) + np.diag(precision)
    return Proxy(fitted.x, np.linalg.inv(information))


def as_published(table: ReportTable, areas: Areas, settings: Settings) -> Estimate:
    """Estimate incidents as the paper does, window by window, and draw ρ̂ as it does.

    Draws: ρ̂ normal with the delta method's variance ρ̂(1 − ρ̂)/C where the moment estimator is used,
    the proxy's coefficients normal elsewhere.
    """
    names = tuple(name for name in PROXY_COVARIATES if name in areas.covariates)
    design = np.column_stack([np.ones(areas.n_areas), areas.design(names)[0]])
    area, window = np.nonzero(table.n_reports)
    reports = table.n_reports[area, window]
    duplicates = np.minimum(table.n_duplicates[area, window], reports)
    moment = 1.0 - duplicates / reports
    observed = duplicates > 0
    proxy = fit_proxy(design[area[observed]], (reports - duplicates)[observed], reports[observed])
    use_moment = duplicates >= MIN_DUPLICATES
    propensity = np.where(use_moment, moment, proxy.propensity(design)[area])
    rng = np.random.default_rng(settings.seed)
    sd = np.sqrt(moment * (1 - moment) / reports)
    factor_draws = np.empty((settings.n_draws, len(area)), dtype=np.float32)
    coefficients = rng.multivariate_normal(
        proxy.coefficients, proxy.covariance, settings.n_draws, method="eigh"
    )
    for draw, values in zip(factor_draws, coefficients, strict=True):
        moved = moment + sd * rng.standard_normal(len(area))
        drawn = np.where(use_moment, moved, expit(design @ values)[area])
        draw[:] = clipped_factor(np.minimum(drawn, 1.0))
    share = np.full(areas.n_areas, np.nan)
    weight = np.bincount(area, reports, minlength=areas.n_areas)
    mean = np.bincount(area, reports * propensity, minlength=areas.n_areas)
    np.divide(mean, weight, out=share, where=weight > 0)
    counts = np.zeros((len(area), table.n_windows))
    counts[np.arange(len(area)), window] = reports
    return estimate_from_factors(
        "as_published",
        "The paper's 1 - D/C with its proxy and clip: inverted, it calls areas that report more "
        f"needier. Moment estimator used in {use_moment.mean():.0%} of tract-windows.",
        table,
        areas,
        counts=counts,
        factors=clipped_factor(propensity),
        factor_draws=factor_draws,
        share=share,
        cell_area=area,
    )


def clipped_factor(propensity: np.ndarray) -> np.ndarray:
    """Î/C: one over ρ̂, or one where ρ̂ < ρ_min.

    The paper clips Î at C. C/ρ̂ is never below C, so an upper clip would cancel every correction and
    a lower one none; read as: where ρ̂ is too small to be believed, use C.
    """
    return np.where(propensity < MIN_PROPENSITY, 1.0, 1.0 / np.maximum(propensity, MIN_PROPENSITY))
