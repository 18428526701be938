"""Does the rate rise or fall across ordered strata? Crude, given severity, and by regression.

The named tests take rows as independent; the exposure belongs to the tract, so beside each stands
the same statistic with its spread measured over tracts, and that one counts.

Subgroups nobody listed: every intersection of groups, with one corrected p-value each.

Offline parity for the groups one thought of does not keep a gap from moving to others. Each
intersection's served cases are compared with what its severity codes lead to expect; the spread is
measured over tracts; and the p-value is that of the largest standardised difference among all
intersections, from random signs put to whole tracts (multiplier bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy import stats

from parity311.audit.cells import AuditCells
from parity311.audit.rates import stratum_of_cells
from parity311.audit.resample import sum_by
from parity311.audit.strata import Grouping
from parity311.records.schema import SEVERITIES

MIN_CASES = 50
"""Smaller intersections are not tested: their standardised difference is not near normal."""
MIN_EXPECTED = 10.0
"""Expected events, and expected non-events, an intersection needs."""
MIN_SCANNED_TRACTS = 10


@dataclass(frozen=True)
class Subgroup:
    """One intersection and how far it is from what its severity codes lead to expect."""

    name: str
    n_cases: float
    n_tracts: int
    rate: float
    expected_rate: float
    difference: float
    z: float
    p_value: float
    """Corrected for all intersections that were looked at."""


@dataclass(frozen=True)
class Scan:
    """All intersections that are large enough, most deviant first."""

    subgroups: tuple[Subgroup, ...]
    n_tested: int
    n_too_small: int


def scan_subgroups(
    cells: AuditCells,
    groupings: Sequence[Grouping],
    *,
    n_tracts: int,
    depth: int = 2,
    n_draws: int = 1000,
    rng: np.random.Generator,
) -> Scan:
    """Look at all intersections of up to ``depth`` groupings.

    ``cells`` are counts of cases; those of unknown tract are left out.
    """
    cells = cells.take((cells.tract >= 0) & (cells.n_cases > 0))
    residual, expected = _residuals(cells)
    layers = sum_by(cells.tract, cells.severity, residual, (n_tracts, len(SEVERITIES)))
    in_layer = np.bincount(cells.severity, weights=cells.n_cases, minlength=len(SEVERITIES))
    found: list[_Candidates] = []
    n_too_small = 0
    index = [stratum_of_cells(cells, grouping) for grouping in groupings]
    for size in range(1, depth + 1):
        for chosen in combinations(range(len(groupings)), size):
            candidates, small = _candidates(
                cells,
                [groupings[i] for i in chosen],
                [index[i] for i in chosen],
                residual,
                expected,
                layers,
                in_layer,
                n_tracts,
            )
            n_too_small += small
            if candidates is not None:
                found.append(candidates)
    if not found:
        return Scan((), 0, n_too_small)
    return _judge(found, n_too_small, n_draws, rng)


@dataclass(frozen=True)
class _Candidates:
    names: list[str]
    contribution: np.ndarray
    """(n_tracts, G) tract sums of residuals, centred within severity."""
    n_cases: np.ndarray
    n_tracts: np.ndarray
    events: np.ndarray
    expected: np.ndarray


def _residuals(cells: AuditCells) -> tuple[np.ndarray, np.ndarray]:
    """Served less expected given severity, and expected, of every cell."""
    served = np.bincount(cells.severity, weights=cells.n_served, minlength=len(SEVERITIES))
    cases = np.bincount(cells.severity, weights=cells.n_cases, minlength=len(SEVERITIES))
    rate = served / np.maximum(cases, 1.0)
    expected = cells.n_cases * rate[cells.severity]
    return cells.n_served - expected, expected


def _candidates(
    cells: AuditCells,
    groupings: list[Grouping],
    index: list[np.ndarray],
    residual: np.ndarray,
    expected: np.ndarray,
    layers: np.ndarray,
    in_layer: np.ndarray,
    n_tracts: int,
) -> tuple[_Candidates | None, int]:
    """Intersections of these groupings that are large enough, and how many are not."""
    shape = tuple(grouping.n_strata for grouping in groupings)
    member = np.ravel_multi_index(tuple(index), shape)
    n = int(np.prod(shape))
    total = np.bincount(member, weights=cells.n_cases, minlength=n)
    hoped = np.bincount(member, weights=expected, minlength=n)
    tracts = (sum_by(cells.tract, member, cells.n_cases, (n_tracts, n)) > 0).sum(axis=0)
    large = (total >= MIN_CASES) & (tracts >= MIN_SCANNED_TRACTS) & (total < cells.n_cases.sum())
    large &= np.minimum(hoped, total - hoped) >= MIN_EXPECTED
    n_small = int(((total > 0) & ~large).sum())
    keep = np.flatnonzero(large)
    if not len(keep):
        return None, n_small
    own = sum_by(cells.tract, member, residual, (n_tracts, n))[:, keep]
    share = sum_by(member, cells.severity, cells.n_cases, (n, len(in_layer)))[keep]
    centred = own - layers @ (share / np.maximum(in_layer, 1.0)).T
    events = np.bincount(member, weights=cells.n_served, minlength=n)
    places = np.array(np.unravel_index(keep, shape)).T
    names = [
        " · ".join(g.labels[i] for g, i in zip(groupings, place, strict=True)) for place in places
    ]
    return (
        _Candidates(names, centred, total[keep], tracts[keep], events[keep], hoped[keep]),
        n_small,
    )


def _judge(
    found: list[_Candidates], n_too_small: int, n_draws: int, rng: np.random.Generator
) -> Scan:
    contribution = np.hstack([part.contribution for part in found])
    error = np.sqrt((contribution**2).sum(axis=0))
    varies = error > 0
    signs = rng.integers(0, 2, (n_draws, len(contribution))) * 2.0 - 1.0
    drawn = np.abs(signs @ contribution[:, varies]) / error[varies]
    largest = np.sort(drawn.max(axis=1)) if varies.any() else np.zeros(n_draws)
    z = np.divide(contribution.sum(axis=0), error, out=np.zeros_like(error), where=varies)
    above = n_draws - np.searchsorted(largest, np.abs(z), side="left")
    p_value = (1 + above) / (1 + n_draws)
    names = [name for part in found for name in part.names]
    columns = [
        np.concatenate([getattr(part, field) for part in found])
        for field in ("n_cases", "n_tracts", "events", "expected")
    ]
    rows = []
    for k in np.argsort(-np.abs(z), kind="stable"):
        n_cases, n_tracts, events, expected = (column[k] for column in columns)
        rate, hoped = float(events / n_cases), float(expected / n_cases)
        rows.append(
            Subgroup(
                names[k], float(n_cases), int(n_tracts), rate, hoped, rate - hoped,
                float(z[k]), float(p_value[k]),
            )
        )  # fmt: skip
    return Scan(tuple(rows), len(rows), n_too_small)


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
    try:
        wald = part @ np.linalg.solve(fit.covariance[np.ix_(columns, columns)], part)
    except np.linalg.LinAlgError:
        return float("nan"), float("nan")
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
