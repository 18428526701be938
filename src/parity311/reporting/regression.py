"""The plain published regressions of further reports, without pooling, to compare with.

Liu, Bhandaram and Garg: y further reports over d days are Poisson(λd), log λ = α + effects of the
category and the borough (each summing to zero) + slopes; with zero inflation
P(0) = θ + (1 − θ)e^−λd. Maximum likelihood, no priors, no effect of the area unless asked for.
Slopes are per standard deviation over the incidents used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, gammaln

from parity311.errors import EstimationError, InputError, unknown_name
from parity311.reporting.areas import Areas
from parity311.reporting.exposure_rate import check_repeats
from parity311.reporting.table import SEPARATOR, ReportTable

MODELS = ("poisson", "zero_inflated")
FACTORS = ("category", "severity", "size")
"""Names of the parts of a pattern, in their order."""
NORMAL_95 = 1.959964
START_LOGIT = -1.0
"""Where the search for the share of silent incidents starts: 0.27."""
LEAST_SILENT = 1e-3
"""A share of silent incidents below this is none: it lies at its bound, and has no error."""


@dataclass(frozen=True)
class Term:
    """One line of the result: a combination of the columns of the design."""

    term: str
    level: str
    """Level of a factor; empty for intercept and slopes."""
    weights: np.ndarray
    """(n_columns,)"""
    scale: float = 1.0
    """Standard deviation of a slope's covariate: coefficient over scale is per unit."""


@dataclass(frozen=True)
class Regression:
    """A fitted regression."""

    model: str
    terms: list[dict[str, Any]]
    log_likelihood: float
    n_incidents: int
    n_further: int
    n_left_out: int
    silent_share: float | None
    silent_share_se: float | None

    def describe(self) -> dict[str, Any]:
        """The figures, for JSON and for printing."""
        return {
            "model": self.model,
            "n_incidents": self.n_incidents,
            "n_further_reports": self.n_further,
            "n_left_out": self.n_left_out,
            "log_likelihood": self.log_likelihood,
            "silent_share": self.silent_share,
            "silent_share_se": self.silent_share_se,
            "coefficients": self.terms,
        }


def regress(
    table: ReportTable,
    areas: Areas,
    *,
    model: str = "poisson",
    covariates: Sequence[str] = (),
    has_area_effects: bool = False,
) -> Regression:
    """Fit one of `MODELS` to the incidents with an exposure of more than 0.1 day."""
    if model not in MODELS:
        raise unknown_name("model", model, MODELS)
    use = table.informs_rate
    numbers = {name: _numbers(table, areas, name)[use] for name in covariates}
    whole = np.all([np.isfinite(values) for values in numbers.values()] or [True], axis=0)
    use[use] = whole
    numbers = {name: values[whole] for name, values in numbers.items()}
    if not use.any():
        raise EstimationError(
            "No incident has an exposure of more than 0.1 day and all covariates; give closing or "
            "inspection times, or fewer covariates."
        )
    check_repeats(table, use)
    y = table.n_further[use].astype(np.float64)
    design, terms = _make_design(table, areas, use, y, numbers, has_area_effects)
    offset = np.log(table.exposure_days[use])
    beta = _fit_poisson(design, y, offset)
    has_silence = model == "zero_inflated"
    start = np.append(beta, START_LOGIT) if has_silence else beta
    found = _maximise(design, y, offset, start)
    covariance = np.linalg.inv(-_derivatives(design, y, offset, found)[2])
    silent = float(expit(found[-1])) if has_silence else None
    silent_se = None
    if silent is not None and silent > LEAST_SILENT:
        silent_se = float(np.sqrt(covariance[-1, -1]) * silent * (1.0 - silent))
    n = design.shape[1]
    return Regression(
        model=model,
        terms=[_describe(term, found[:n], covariance[:n, :n]) for term in terms],
        log_likelihood=_derivatives(design, y, offset, found)[0],
        n_incidents=len(y),
        n_further=int(y.sum()),
        n_left_out=table.n_incidents - len(y),
        silent_share=silent,
        silent_share_se=silent_se,
    )


def _numbers(table: ReportTable, areas: Areas, name: str) -> np.ndarray:
    """(n_incidents,) a covariate of the incident, or of its area."""
    if name in table.covariates:
        return table.covariates[name]
    if name in areas.covariates:
        return areas.covariates[name][table.area]
    raise unknown_name("covariate", name, [*table.covariates, *areas.covariates])


def _make_design(
    table: ReportTable,
    areas: Areas,
    use: np.ndarray,
    y: np.ndarray,
    numbers: dict[str, np.ndarray],
    has_area_effects: bool,
) -> tuple[np.ndarray, list[Term]]:
    """Columns, and how the printed terms follow from their coefficients."""
    parts = np.array([name.split(SEPARATOR) for name in table.patterns])[table.pattern[use]]
    factors = {name: parts[:, place] for place, name in enumerate(FACTORS[: parts.shape[1]])}
    factors["borough"] = areas.borough.astype(str)[table.area[use]]
    if has_area_effects:
        factors["area"] = areas.geoid.astype(str)[table.area[use]]
    blocks: list[np.ndarray] = [np.ones((len(y), 1))]
    planned: list[tuple[str, str, int, np.ndarray, float]] = [("intercept", "", 0, np.ones(1), 1.0)]
    width = 1
    for name, labels in factors.items():
        levels, index = np.unique(labels, return_inverse=True)
        if len(levels) < 2:
            continue
        _refuse_silent_levels(name, levels, np.bincount(index, y))
        coding = np.vstack([np.eye(len(levels) - 1), -np.ones(len(levels) - 1)])
        blocks.append(coding[index])
        planned += [
            (name, str(level), width, coding[place], 1.0) for place, level in enumerate(levels)
        ]
        width += len(levels) - 1
    for name, values in numbers.items():
        spread = float(values.std())
        if spread == 0.0:
            raise InputError(f"Covariate {name!r} is {values[0]:g} everywhere; leave it out.")
        blocks.append(((values - values.mean()) / spread)[:, None])
        planned.append((name, "", width, np.ones(1), spread))
        width += 1
    design = np.column_stack(blocks)
    if np.linalg.matrix_rank(design) < width:
        raise EstimationError(
            "Some effects cannot be told apart: a factor or covariate follows from others (as a "
            "borough does from its areas); leave one of them out."
        )
    terms = []
    for name, level, at, weights, scale in planned:
        full = np.zeros(width)
        full[at : at + len(weights)] = weights
        terms.append(Term(name, level, full, scale))
    return design, terms


def _refuse_silent_levels(name: str, levels: np.ndarray, further: np.ndarray) -> None:
    silent = levels[further == 0]
    if len(silent):
        raise EstimationError(
            f"No incident of {name} {str(silent[0])!r} was reported again, so its effect has no "
            f"finite estimate ({len(silent)} such levels); put it together with others, or use "
            "`reporting estimate`, which pools."
        )


def _fit_poisson(design: np.ndarray, y: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Start at the crude rate and maximise."""
    start = np.zeros(design.shape[1])
    start[0] = np.log(y.sum() / np.exp(offset).sum())
    return _maximise(design, y, offset, start)


def _maximise(
    design: np.ndarray, y: np.ndarray, offset: np.ndarray, start: np.ndarray
) -> np.ndarray:
    def value(at: np.ndarray) -> tuple[float, np.ndarray]:
        found = _derivatives(design, y, offset, at)
        return -found[0], -found[1]

    def bend(at: np.ndarray) -> np.ndarray:
        return -_derivatives(design, y, offset, at)[2]

    found = minimize(
        value, start, jac=True, hess=bend, method="trust-exact",
        options={"gtol": 1e-6 * max(1.0, np.sqrt(y.sum())), "maxiter": 500},
    )  # fmt: skip
    if not np.isfinite(found.fun) or not (found.success or found.status == 1):
        raise EstimationError(
            "The regression did not converge; leave out covariates, or put rare categories "
            "together."
        )
    return found.x


def _derivatives(
    design: np.ndarray, y: np.ndarray, offset: np.ndarray, at: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log likelihood, gradient and Hessian; the last parameter is logit θ where there is one more.

    r: chance that an incident without a further report is not one of the silent.
    """
    n = design.shape[1]
    eta = np.clip(design @ at[:n] + offset, -700.0, 50.0)
    mu = np.exp(eta)
    plain = y * eta - mu - gammaln(y + 1.0)
    if len(at) == n:
        hessian = -(design.T * mu) @ design
        return float(plain.sum()), design.T @ (y - mu), hessian
    logit = float(at[-1])
    theta = float(expit(logit))
    log_theta, log_rest = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    both = np.logaddexp(log_theta, log_rest - mu)
    is_zero = y == 0
    speaks = np.where(is_zero, np.exp(log_rest - mu - both), 1.0)
    either = speaks * (1.0 - speaks)
    value = float(np.where(is_zero, both, log_rest + plain).sum())
    slope = np.append(design.T @ (y - speaks * mu), (1.0 - speaks - theta).sum())
    bend = -speaks * mu + either * mu**2
    hessian = np.empty((n + 1, n + 1))
    hessian[:n, :n] = (design.T * bend) @ design
    hessian[:n, n] = hessian[n, :n] = design.T @ (either * mu)
    hessian[n, n] = float((either - theta * (1.0 - theta)).sum())
    return value, slope, hessian


def _describe(term: Term, beta: np.ndarray, covariance: np.ndarray) -> dict[str, Any]:
    value = float(term.weights @ beta)
    error = float(np.sqrt(term.weights @ covariance @ term.weights))
    return {
        "term": term.term,
        "level": term.level,
        "coefficient": value,
        "se": error,
        "lower": value - NORMAL_95 * error,
        "upper": value + NORMAL_95 * error,
        "per_unit": value / term.scale,
        "per_unit_se": error / term.scale,
    }
