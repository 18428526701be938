"""The paper's own correction, for comparison only: ρ̂ = 1 − D/C (Eq. 3), Î = C/ρ̂ (Eq. 5).

It is inverted: D/C rises with reporting, so ρ̂ falls as people report more, and Î grows with the
square of the reporting rate. It is never a default.

What the paper writes: D counts reports of an incident already logged in the same tract-week (4.3,
Notation); N̂_t sums Î over the tracts of a stratum (Eq. 6) on a rolling window of four weeks that
ends at step t (below Eq. 9); a tract with fewer than m_min = 10 duplicates in the window has the
proxy ρ̂ = σ(β₀ + βᵀx) of Eq. 4 (calibration, step 1), x being income, college attainment, English
proficiency and tenure; Î is C where ρ̂ < ρ_min = 0.05 (step 2); B = 200 normal draws of ρ̂ with the
delta method's variance.

What it leaves open, and how it is read here: steps are weeks; the proxy is one maximum likelihood
fit over all steps; where no duplicate was observed anywhere there is nothing to fit it to and Eq. 3
stands alone (ρ̂ = 1); the figure of a period is the mean of N̂_t over its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from parity311.errors import EstimationError
from parity311.reporting.areas import Areas, standardise
from parity311.reporting.incidents import IncidentEstimate, estimate_from_factors
from parity311.reporting.settings import Settings
from parity311.reporting.table import ReportTable
from parity311.reporting.weekly import WEEK_DAYS

MIN_DUPLICATES = 10
"""m_min: below this many duplicates in a tract and window the proxy takes over."""
MIN_PROPENSITY = 0.05
"""ρ_min: below it Î is clipped at C."""
PROXY_SHARES = ("share_bachelors", "share_limited_english", "share_renter")
"""College, English (here its opposite, which turns the sign of its slope) and tenure, beside
income."""


@dataclass(frozen=True)
class Proxy:
    """Logistic regression of ρ̂ on covariates."""

    coefficients: np.ndarray
    covariance: np.ndarray

    def propensity(self, design: np.ndarray) -> np.ndarray:
        """ρ̂ of every row of the design."""
        return expit(design @ self.coefficients)

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """(n_draws, n_columns) coefficients from their asymptotic normal law."""
        return rng.multivariate_normal(self.coefficients, self.covariance, n_draws, method="eigh")


def fit_proxy(design: np.ndarray, n_first: np.ndarray, n_reports: np.ndarray) -> Proxy:
    """Binomial logistic regression of first reports among reports, with a weak ridge.

    The paper does not say how the proxy is fitted; maximum likelihood is our reading. The ridge
    (sd 10 on the logit scale) only keeps a fit to few areas defined.
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


def proxy_design(columns: Sequence[np.ndarray], households: np.ndarray) -> np.ndarray:
    """(n_areas, 1 + covariates) x of Eq. 4 with its intercept; a missing value is the mean."""
    return np.column_stack([np.ones(len(households)), standardise(columns, households)[0]])


def _income(areas: Areas) -> np.ndarray | None:
    """Income itself, as the paper has it: from the census, a user's file, or its logarithm."""
    if areas.median_income is not None:
        return areas.median_income
    if "median_income" in areas.covariates:
        return areas.covariates["median_income"]
    return np.exp(areas.covariates["log_income"]) if "log_income" in areas.covariates else None


@dataclass(frozen=True)
class Propensity:
    """ρ̂ of rows that have reports: Eq. 3 where there are duplicates enough, Eq. 4 elsewhere."""

    moment: np.ndarray
    """1 − D/C"""
    use_moment: np.ndarray
    error: np.ndarray
    """Delta method on a share of C reports: √(ρ̂(1 − ρ̂)/C)."""
    proxy: Proxy | None
    """None where no duplicate was observed anywhere."""
    design: np.ndarray

    @property
    def value(self) -> np.ndarray:
        """ρ̂ of every row."""
        if self.proxy is None:
            return self.moment
        return np.where(self.use_moment, self.moment, self.proxy.propensity(self.design))

    def draw(self, noise: np.ndarray, coefficients: np.ndarray | None) -> np.ndarray:
        """One draw of ρ̂ from standard normals and drawn coefficients; never above one."""
        moved = self.moment + self.error * noise
        if coefficients is not None:
            moved = np.where(self.use_moment, moved, expit(self.design @ coefficients))
        return np.minimum(moved, 1.0)


def measure_propensity(
    n_reports: np.ndarray, n_repeats: np.ndarray, design: np.ndarray, overlap: int = 1
) -> Propensity:
    """Step 1 of the paper's calibration, for rows of a tract and a window with reports.

    Rows of overlapping windows see a report ``overlap`` times; the fit counts it once.
    """
    moment = 1.0 - n_repeats / n_reports
    use_moment = n_repeats >= MIN_DUPLICATES
    seen = n_repeats > 0
    proxy = None
    if seen.any():
        first = n_reports - n_repeats
        proxy = fit_proxy(design[seen], first[seen] / overlap, n_reports[seen] / overlap)
    else:
        use_moment = np.ones(len(moment), dtype=bool)
    error = np.sqrt(moment * (1.0 - moment) / n_reports)
    return Propensity(moment, use_moment, error, proxy, design)


def as_published(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    """Estimate incidents as the paper does, on windows that end at every week, and draw ρ̂ too.

    The figure of a window of the table is the mean of Î_t over the steps t in it. Draws: ρ̂ normal
    with the delta method's variance where Eq. 3 is used, the proxy's coefficients normal elsewhere;
    windows that overlap within one window of the table move together.
    """
    if table.weekly is None:
        raise EstimationError(
            "The table holds no reports by week, which the paper counts duplicates in; use "
            "estimator 'raw'."
        )
    n_weeks = max(round(table.window_days / WEEK_DAYS), 1)
    reports, repeats = table.weekly.in_windows(n_weeks)
    steps = _steps_of_windows(table, reports.shape[1], n_weeks)
    step, area = np.nonzero(reports.T)
    income = _income(areas)
    columns = [areas.covariates[name] for name in PROXY_SHARES if name in areas.covariates]
    columns += [] if income is None else [income]
    design = proxy_design(columns, areas.households)[area]
    rows = measure_propensity(reports[area, step], repeats[area, step], design, n_weeks)
    cells = _Cells.make(steps, area, step, reports[area, step])
    rng = np.random.default_rng(settings.seed)
    coefficients = None if rows.proxy is None else rows.proxy.draw(settings.n_draws, rng)
    factor_draws = np.empty((settings.n_draws, len(cells.area)), dtype=np.float32)
    for number, draw in enumerate(factor_draws):
        noise = rng.standard_normal(len(cells.area))[cells.first_of_row]
        drawn = rows.draw(noise, None if coefficients is None else coefficients[number])
        draw[:] = cells.mean_factor(clipped_factor(drawn))
    share = np.full(areas.n_areas, np.nan)
    weight = np.bincount(area, reports[area, step], minlength=areas.n_areas)
    mean = np.bincount(area, reports[area, step] * rows.value, minlength=areas.n_areas)
    np.divide(mean, weight, out=share, where=weight > 0)
    counts = np.zeros((len(cells.area), table.n_windows))
    counts[np.arange(len(cells.area)), cells.window] = cells.n_reports
    used = (
        "No duplicate was observed in any tract-week: complaints stand as they are."
        if rows.proxy is None
        else f"Moment estimator used in {rows.use_moment.mean():.0%} of tract-windows."
    )
    return estimate_from_factors(
        "as_published",
        "The paper's 1 - D/C with its proxy and clip: inverted, it calls areas that report more "
        f"needier. {used}",
        table,
        areas,
        counts=counts,
        factors=cells.mean_factor(clipped_factor(rows.value)),
        factor_draws=factor_draws,
        share=share,
        cell_area=cells.area,
    )


@dataclass(frozen=True)
class _Cells:
    """Areas and windows of the table, each with the rows (area, step) that it is the mean of."""

    area: np.ndarray
    window: np.ndarray
    n_reports: np.ndarray
    """Reports of four weeks, averaged over the steps, times the window's length in four weeks."""
    row: np.ndarray
    """(n_pairs,) row of every pair"""
    cell: np.ndarray
    """(n_pairs,) its cell"""
    weight: np.ndarray
    """(n_pairs,) its share of the cell's reports"""
    first_of_row: np.ndarray
    """(n_rows,) a cell of every row"""

    @staticmethod
    def make(
        steps: list[tuple[int, int, float]], area: np.ndarray, step: np.ndarray, n: np.ndarray
    ) -> _Cells:
        """Pair rows, sorted by step, with windows through (step, window, weight)."""
        ranges = [np.searchsorted(step, (s, s + 1)) for s, _, _ in steps]
        row = np.concatenate([np.arange(a, b) for a, b in ranges])
        sizes = [int(b - a) for a, b in ranges]
        window = np.repeat([w for _, w, _ in steps], sizes)
        part = np.repeat([weight for _, _, weight in steps], sizes) * n[row]
        n_windows = 1 + max(w for _, w, _ in steps)
        code, cell = np.unique(area[row] * n_windows + window, return_inverse=True)
        total = np.bincount(cell, part)
        first = np.zeros(len(n), dtype=np.int64)
        first[row[::-1]] = cell[::-1]
        return _Cells(
            code // n_windows, code % n_windows, total, row, cell, part / total[cell], first
        )

    def mean_factor(self, factor: np.ndarray) -> np.ndarray:
        """Î/C of every cell from that of every row."""
        return np.bincount(self.cell, self.weight * factor[self.row], minlength=len(self.area))


def _steps_of_windows(
    table: ReportTable, n_steps: int, n_weeks: int
) -> list[tuple[int, int, float]]:
    """(step, window, weight): the steps that end in a window, or the last before it.

    Weights turn four weeks into the window's length, and steps into their mean.
    """
    assert table.weekly is not None
    n_days = int(table.n_days)
    width = min(n_weeks, table.weekly.n_reports.shape[1])
    ends = np.minimum((np.arange(n_steps) + width) * WEEK_DAYS, n_days)
    # A window cut short by the last date is no window of four weeks: the one before stands for it.
    whole = ends - np.arange(n_steps) * WEEK_DAYS == width * WEEK_DAYS
    usable = np.flatnonzero(whole) if whole.any() else np.arange(n_steps)
    span = min(width * WEEK_DAYS, n_days)
    pairs = []
    for window in range(table.n_windows):
        start, end = window * table.window_days, min((window + 1) * table.window_days, n_days)
        inside = usable[(ends[usable] > start) & (ends[usable] <= end)]
        if not len(inside):
            inside = usable[ends[usable] <= start][-1:]
        if not len(inside):
            inside = usable[:1]
        pairs += [(int(s), window, (end - start) / span / len(inside)) for s in inside]
    return sorted(pairs)


def clipped_factor(propensity: np.ndarray) -> np.ndarray:
    """Î/C: one over ρ̂, or one where ρ̂ < ρ_min.

    The paper clips Î at C. C/ρ̂ is never below C, so an upper clip would cancel every correction and
    a lower one none; read as: where ρ̂ is too small to be believed, use C.
    """
    return np.where(propensity < MIN_PROPENSITY, 1.0, 1.0 / np.maximum(propensity, MIN_PROPENSITY))
