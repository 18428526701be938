"""Does the rate rise or fall across ordered strata? Crude, given severity, and by regression.

The named tests take rows as independent; the exposure belongs to the tract, so beside each stands
the same statistic with its spread measured over tracts, and that one counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

MIN_TRACTS = 5
"""Fewer tracts leave no spread to measure a trend against."""
MAX_ITERATIONS = 50
TOLERANCE = 1e-10
"""Newton steps of the logistic fit stop below this relative change."""
LARGEST_LOG_ODDS = 12.0
"""Coefficients beyond this mean that a layer is all served or none: no finite odds fit it."""


@dataclass(frozen=True)
class TrendTest:
    """One test of a trend."""

    name: str
    statistic: float
    """z, positive where the rate rises with the score."""
    p_value: float
    estimate: float
    """Change of the rate per score (log odds ratio for a regression)."""
    lower: float
    upper: float
    reason: str = ""
    """Why there is no test, where there is none."""


def no_test(name: str, reason: str) -> TrendTest:
    """A test that cannot be made, with its reason."""
    return TrendTest(name, np.nan, np.nan, np.nan, np.nan, np.nan, reason)


def cochran_armitage(served: np.ndarray, cases: np.ndarray, scores: np.ndarray) -> TrendTest:
    """Crude trend of K proportions, rows taken as independent (Cochran 1954, Armitage 1955).

    ``served``, ``cases`` and ``scores`` are (K,). With the variance given both margins (N − 1),
    which makes it Mantel's test of one layer.
    """
    test = mantel_extension(served[:, None], cases[:, None], scores)
    return replace(test, name="Cochran–Armitage")


def mantel_extension(served: np.ndarray, cases: np.ndarray, scores: np.ndarray) -> TrendTest:
    """Trend within layers of severity, rows taken as independent (Mantel 1963).

    ``served`` and ``cases`` are (K strata, S layers), ``scores`` (K,).
    """
    name = "Mantel extension"
    score, variance, spread = 0.0, 0.0, 0.0
    for s in range(cases.shape[1]):
        total = cases[:, s].sum()
        if total < 2:
            continue
        rate = served[:, s].sum() / total
        centred = scores - (cases[:, s] @ scores) / total
        layer = (cases[:, s] * centred**2).sum()
        score += served[:, s] @ centred
        variance += rate * (1 - rate) * layer * total / (total - 1)
        spread += layer
    if not variance > 0:
        rate = served.sum() / cases.sum() if cases.sum() > 0 else np.nan
        return no_test(name, _no_variation(rate, spread))
    return _z_test(name, score, variance, spread)


def tract_trend(served: np.ndarray, cases: np.ndarray, scores: np.ndarray) -> TrendTest:
    """The same score as Mantel's, with its spread measured over tracts.

    Parameters
    ----------
    served, cases
        (n_tracts, S layers); one layer gives the crude trend.
    scores
        (n_tracts,) score of each tract's stratum; NaN leaves a tract out.
    """
    name = "trend over tracts" + (", given severity" if cases.shape[1] > 1 else "")
    known = np.isfinite(scores) & (cases.sum(axis=1) > 0)
    served, cases, scores = served[known], cases[known], scores[known]
    if known.sum() < MIN_TRACTS:
        return no_test(name, f"{known.sum()} tracts have cases; a trend needs {MIN_TRACTS}")
    total = cases.sum(axis=0)
    use = total > 0
    served, cases, total = served[:, use], cases[:, use], total[use]
    rate = served.sum(axis=0) / total
    centred = scores[:, None] - (scores @ cases) / total
    contribution = (centred * (served - cases * rate)).sum(axis=1)
    spread = (cases * centred**2).sum()
    n = len(scores)
    variance = n / (n - 1) * (contribution**2).sum()
    if not variance > 0 or not spread > 0:
        return no_test(name, _no_variation(float(served.sum() / total.sum()), spread))
    return _z_test(name, contribution.sum(), variance, spread, freedom=n - 2)


def logistic_trend(
    served: np.ndarray,
    cases: np.ndarray,
    design: np.ndarray,
    tract: np.ndarray,
    *,
    name: str = "logistic regression",
    level: float = 0.95,
) -> TrendTest:
    """Log odds per score in a logistic regression with errors clustered by tract (CR1).

    Parameters
    ----------
    served, cases, tract
        (n,) rows are tract × month × severity cells.
    design
        (n, p) covariates; the first column is the score, the rest (layers) include a constant.
    """
    use = cases > 0
    fit = fit_logistic(served[use], cases[use], design[use], tract[use])
    if isinstance(fit, str):
        return no_test(name, fit)
    slope, error = fit.coefficients[0], np.sqrt(fit.covariance[0, 0])
    freedom = max(fit.n_clusters - 1, 1)
    reach = stats.t.isf((1 - level) / 2, freedom) * error
    z = slope / error
    p_value = 2 * stats.t.sf(abs(z), freedom)
    return TrendTest(name, float(z), float(p_value), slope, slope - reach, slope + reach)


@dataclass(frozen=True)
class LogisticFit:
    """Coefficients (p,) and their clustered covariance (p, p)."""

    coefficients: np.ndarray
    covariance: np.ndarray
    n_clusters: int


def fit_logistic(
    served: np.ndarray,
    cases: np.ndarray,
    design: np.ndarray,
    cluster: np.ndarray,
) -> LogisticFit | str:
    """Newton's method on grouped binomial rows; the reason instead where no fit exists."""
    clusters, member = np.unique(cluster, return_inverse=True)
    if len(clusters) < MIN_TRACTS:
        return f"{len(clusters)} tracts have cases; a regression needs {MIN_TRACTS}"
    rate = served.sum() / cases.sum()
    if not 0 < rate < 1:
        return _no_variation(float(rate), 1.0)
    weighted = design * np.sqrt(cases)[:, None]
    if np.linalg.matrix_rank(weighted.T @ weighted) < design.shape[1]:
        return "the covariates do not vary apart from each other"
    beta = np.zeros(design.shape[1])
    for _ in range(MAX_ITERATIONS):
        mean = 1 / (1 + np.exp(-(design @ beta)))
        gradient = design.T @ (served - cases * mean)
        information = (design * (cases * mean * (1 - mean))[:, None]).T @ design
        step = np.linalg.solve(information, gradient)
        beta = beta + step
        if np.abs(beta).max() > LARGEST_LOG_ODDS:
            return "a layer is all served or none, so that no finite odds fit it"
        if np.abs(step).max() < TOLERANCE * (1 + np.abs(beta).max()):
            break
    mean = 1 / (1 + np.exp(-(design @ beta)))
    rows = design * (served - cases * mean)[:, None]
    sums = np.zeros((len(clusters), design.shape[1]))
    np.add.at(sums, member, rows)
    bread = np.linalg.inv((design * (cases * mean * (1 - mean))[:, None]).T @ design)
    correction = len(clusters) / (len(clusters) - 1)
    covariance = correction * bread @ (sums.T @ sums) @ bread
    return LogisticFit(beta, covariance, len(clusters))


def shape_test(fit: LogisticFit, columns: np.ndarray) -> tuple[float, float]:
    """Wald test that all these coefficients are zero (quintile dummies: a non-monotone shape).

    Returns
    -------
    F statistic and p-value with (number of columns, clusters − 1) degrees of freedom.
    """
    part = fit.coefficients[columns]
    wald = part @ np.linalg.solve(fit.covariance[np.ix_(columns, columns)], part)
    statistic = float(wald / len(columns))
    return statistic, float(stats.f.sf(statistic, len(columns), fit.n_clusters - 1))


def _z_test(
    name: str, score: float, variance: float, spread: float, freedom: float = np.inf
) -> TrendTest:
    error = np.sqrt(variance)
    z = score / error
    reach = stats.t.isf(0.025, freedom) * error / spread
    slope = score / spread
    p_value = float(2 * stats.t.sf(abs(z), freedom))
    return TrendTest(name, float(z), p_value, float(slope), slope - reach, slope + reach)


def _no_variation(rate: float, spread: float) -> str:
    if not np.isfinite(rate):
        return "there are no cases"
    if rate in (0.0, 1.0):
        return "all cases were served" if rate else "no case was served"
    return "only one stratum has cases" if not spread > 0 else "nothing varies"
