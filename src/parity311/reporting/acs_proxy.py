"""A proxy for areas with too little data: P(reported) from the census covariates of an area.

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
from parity311.reporting.counts import geometric, zero_truncated
from parity311.reporting.exposure_rate import exposure_rate
from parity311.reporting.incidents import IncidentEstimate, estimate_from_shares
from parity311.reporting.settings import Settings
from parity311.reporting.table import ReportTable

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
