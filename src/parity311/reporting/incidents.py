"""From reported incidents and P(reported) to all incidents, with what remains unknown.

If incidents of an area arrive at rate m and each is reported with probability p, the unreported
ones are Poisson with mean m(1 − p), independent of the R reported ones given m. Seen from R alone
they are negative binomial with mean R(1 − p)/p. Pooling m over similar areas, m ~ Gamma(a, mean),
gives (a + R)(1 − p)/(a/mean + p): a number for an area with no report as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
from scipy.stats import nbinom, norm

from parity311.reporting.areas import Areas
from parity311.reporting.link_quality import UsedLinks
from parity311.reporting.table import WINDOW_DAYS, ReportTable

INTERVAL = (5.0, 95.0)
"""Percentiles of every interval, as the paper's bootstrap has them: 90 %."""
NO_REPORTS = "no report in the whole period: pooled from areas of the same income quintile"
NOT_PUBLISHED = "covariates not published: set to the mean"


UNCORRECTED = "no report in the whole period: this estimator says 0, which is no finding"


@dataclass(frozen=True)
class IncidentEstimate:
    """Estimated incidents per area and window under one estimator."""

    estimator: str
    assumption: str
    """What was assumed, in words; printed with every number."""
    geoid: np.ndarray
    date_from: date
    date_to: date
    rate_per_day: np.ndarray
    """(n_areas,) reports a day per open incident; NaN where the estimator has no rate."""
    rate_se: np.ndarray
    reported_share: np.ndarray
    """(n_areas,) P(reported); NaN where the estimator has none."""
    reported_share_se: np.ndarray
    incidents: np.ndarray
    """(n_areas, n_windows) estimated incidents."""
    incidents_se: np.ndarray
    cell_area: np.ndarray
    """(n_cells,) area of every cell of the draws."""
    cell_counts: np.ndarray
    """(n_cells, n_windows) what is multiplied: reported incidents, or reports."""
    factors: np.ndarray
    """(n_cells,) what it is multiplied by: one over P(reported)."""
    factor_draws: np.ndarray
    """(n_draws, n_cells) joint draws of the factors."""
    counts_unreported: bool
    """Whether draws add the chance by which unreported incidents vary given the factor."""
    count_sd: np.ndarray
    """(n_areas,) standard deviation of the reported incidents: cases may continue others, and be
    reported after the period they began in."""
    pooled_unreported: np.ndarray
    """(n_areas,) incidents nobody reported, over the whole period, pooled over similar areas."""
    pooled_shape: float
    reason: np.ndarray
    """(n_areas,) why a number is pooled or missing; empty where it is neither."""
    details: dict[str, float] = field(default_factory=dict)
    """Fitted quantities worth printing: mean lifetime, silent share, spread over areas …"""
    coefficients: list[dict[str, Any]] = field(default_factory=list)
    """Coefficients of the log reporting rate: name, coefficient, se."""

    @property
    def n_windows(self) -> int:
        """Number of windows."""
        return self.incidents.shape[1]

    @property
    def windows_28d(self) -> float:
        """Length of the period in windows of 28 days."""
        return (self.date_to - self.date_from).days / WINDOW_DAYS

    def window_intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """(n_areas, n_windows) ends of the 90 % interval of every area and window.

        Unreported incidents are negative binomial with the estimate's mean and variance; estimates
        that claim nothing unreported get a normal interval.
        """
        shares = [value / 100.0 for value in INTERVAL]
        if not self.counts_unreported:
            ends = [self.incidents + norm.ppf(share) * self.incidents_se for share in shares]
            return np.maximum(ends[0], 0.0), ends[1]
        reported = self.cell_counts
        mean = np.maximum(self.incidents - reported, 1e-9)
        variance = np.maximum(self.incidents_se**2, mean * (1.0 + 1e-6))
        size = mean**2 / (variance - mean)
        ends = [nbinom.ppf(share, size, mean / variance) for share in shares]
        return reported + ends[0], reported + ends[1]

    def area_draws(self, rng: np.random.Generator) -> np.ndarray:
        """(n_draws, n_areas) joint draws of the incidents of every area over the whole period."""
        counts = self.cell_counts.sum(axis=1)
        n_areas = len(self.geoid)
        reported = np.bincount(self.cell_area, counts, minlength=n_areas)
        out = np.empty((len(self.factor_draws), n_areas))
        plain = np.bincount(self.cell_area, counts * self.factors, minlength=n_areas) - reported
        for draw, factor in zip(out, self.factor_draws, strict=True):
            total = np.bincount(self.cell_area, counts * factor, minlength=n_areas)
            draw[:] = total
            if self.counts_unreported:
                scale = np.divide(
                    total - reported, plain, out=np.ones(n_areas), where=np.abs(plain) > 1e-12
                )
                counted = reported + self.count_sd * rng.standard_normal(n_areas)
                counted = np.maximum(counted, 0.0)
                scale *= np.divide(counted, reported, out=np.ones(n_areas), where=reported > 0)
                mean = np.maximum(self.pooled_unreported * scale, 0.0)
                shape = reported + self.pooled_shape
                draw[:] = counted + rng.poisson(rng.gamma(shape, mean / shape))
        return out


@dataclass(frozen=True)
class Unreported:
    """Incidents nobody reported, by area and window, pooled over areas."""

    mean: np.ndarray
    """(n_areas, n_windows)"""
    variance: np.ndarray
    """(n_areas, n_windows) given P(reported)"""
    total_mean: np.ndarray
    """(n_areas,) the same for the whole period at once"""
    total_shape: float


def infer_unreported(
    reported: np.ndarray, share: np.ndarray, plain_total: np.ndarray, areas: Areas
) -> Unreported:
    """Estimate the incidents nobody reported, per area and window, pooled within income groups.

    Parameters
    ----------
    reported
        (n_areas, n_windows) reported incidents R.
    share
        (n_areas,) P(reported) as it applies to an area's incidents.
    plain_total
        (n_areas,) Σ (1/p − 1) over the area's reported incidents: the plain, unpooled estimate.

    Notes
    -----
    Pooling changes how unreported incidents are spread over areas, not their total: within every
    income group and window the total is that of R(1 − p)/p.
    """
    plain = np.where(
        reported.sum(axis=1, keepdims=True) > 0,
        reported * (plain_total / np.maximum(reported.sum(axis=1), 1.0))[:, None],
        0.0,
    )
    expected, expected_total = _expected_reported(reported, share, areas)
    shape = _gamma_shape(reported, expected)
    total_shape = _gamma_shape(reported.sum(axis=1), expected_total)
    mean = _pool(reported, share[:, None], shape, expected)
    variance = mean * (1.0 + mean / (shape + reported))
    total_mean = _pool(reported.sum(axis=1), share, total_shape, expected_total)
    for group in np.unique(areas.income_quintile):
        member = areas.income_quintile == group
        have, want = mean[member].sum(axis=0), plain[member].sum(axis=0)
        factor = np.where(want > 0, want / np.maximum(have, 1e-300), 1.0)
        mean[member] *= factor
        variance[member] *= factor**2
        have_total, want_total = total_mean[member].sum(), plain[member].sum()
        total_mean[member] *= want_total / have_total if want_total > 0 else 1.0
    return Unreported(mean, variance, total_mean, total_shape)


def _pool(
    reported: np.ndarray, share: np.ndarray, shape: float, expected: np.ndarray
) -> np.ndarray:
    """Mean unreported incidents under a Gamma spread of rates, moved by one standard error at most.

    Where an area is nothing like its group (incidents where hardly anybody lives), its own reports
    count: the limited translation of Efron and Morris (1972).
    """
    odds = (1.0 - share) / share
    pooled = (shape + reported) * odds / (shape / np.maximum(expected, 1e-12) + 1.0)
    own = reported * odds
    error = np.sqrt((reported + 1.0) * (1.0 - share)) / share
    return np.clip(pooled, own - error, own + error)


def _expected_reported(
    reported: np.ndarray, share: np.ndarray, areas: Areas
) -> tuple[np.ndarray, np.ndarray]:
    """Reported incidents expected from households, P(reported) and the income group."""
    exposure = np.maximum(areas.households, 1.0) * share
    expected = np.empty_like(reported)
    everyone = reported.sum(axis=0) / exposure.sum()
    for group in np.unique(areas.income_quintile):
        member = areas.income_quintile == group
        total = reported[member].sum(axis=0)
        # Half an incident at the city's rate keeps a group with none from a silent zero.
        rate = (total + 0.5) / (exposure[member].sum() + 0.5 / np.maximum(everyone, 1e-12))
        expected[member] = exposure[member, None] * rate[None, :]
    return expected, expected.sum(axis=1)


def _gamma_shape(reported: np.ndarray, expected: np.ndarray) -> float:
    """Shape a of the Gamma spread of incident rates, by moments: Var R = E + E²/a."""
    excess = float(np.sum((reported - expected) ** 2 - expected))
    square = float(np.sum(expected**2))
    return float(np.clip(square / excess if excess > 0 else 100.0, 0.05, 100.0))


def _edge_variance(
    reported: np.ndarray, rate_per_day: np.ndarray, share: np.ndarray, length_days: float
) -> np.ndarray:
    """Variance of the reported incidents of a window from what crosses its edges.

    An incident is counted when it is first reported, p/λ days after it began on average: some are
    carried in from before and some carried out, as many on average, independently.
    """
    delay_days = np.minimum(np.nan_to_num(share / rate_per_day), length_days)
    return 2.0 * (reported.T / length_days * delay_days).T


def estimate_from_shares(
    estimator: str,
    assumption: str,
    table: ReportTable,
    areas: Areas,
    *,
    rate: tuple[np.ndarray, np.ndarray],
    factors: np.ndarray,
    factor_draws: np.ndarray,
    reason: np.ndarray,
    details: dict[str, float],
    coefficients: Sequence[dict[str, Any]] = (),
) -> IncidentEstimate:
    """Assemble an estimate from incidents per reported incident, by area, and draws of it."""
    reported = table.incidents_by_window()
    n_reported = reported.sum(axis=1)
    share = 1.0 / factors
    unreported = infer_unreported(reported, share, n_reported * (factors - 1.0), areas)
    share_draws = 1.0 / factor_draws
    relative = share_draws.std(axis=0) / np.maximum(share_draws.mean(axis=0), 1e-12)
    of_cases = (table.count_sd * factors) ** 2 / np.maximum(n_reported, 1.0)
    at_edges = _edge_variance(reported, rate[0], share, table.window_days)
    total_at_edges = _edge_variance(n_reported, rate[0], share, table.n_days)
    # d(unreported)/d(log p) = −unreported/(1 − p): the parameters' share of the error.
    slope = unreported.mean / np.maximum(1.0 - share, 1e-6)[:, None]
    return IncidentEstimate(
        estimator=estimator,
        assumption=" ".join((assumption, *table.notes)),
        geoid=areas.geoid,
        date_from=table.date_from,
        date_to=table.date_to,
        rate_per_day=rate[0],
        rate_se=rate[1],
        reported_share=share,
        reported_share_se=share_draws.std(axis=0),
        incidents=reported + unreported.mean,
        incidents_se=np.sqrt(
            unreported.variance
            + (slope * relative[:, None]) ** 2
            + reported * of_cases[:, None]
            + at_edges * factors[:, None] ** 2
        ),
        cell_area=np.arange(areas.n_areas),
        cell_counts=reported,
        factors=factors,
        factor_draws=factor_draws,
        counts_unreported=True,
        count_sd=np.sqrt(table.count_sd**2 + total_at_edges),
        pooled_unreported=unreported.total_mean,
        pooled_shape=unreported.total_shape,
        reason=np.where((reason == "") & (n_reported == 0), NO_REPORTS, reason),
        details=details,
        coefficients=list(coefficients),
    )


def estimate_from_factors(
    estimator: str,
    assumption: str,
    table: ReportTable,
    areas: Areas,
    *,
    counts: np.ndarray,
    factors: np.ndarray,
    factor_draws: np.ndarray,
    share: np.ndarray,
    cell_area: np.ndarray | None = None,
) -> IncidentEstimate:
    """Assemble an estimate that multiplies counts by factors and claims nothing more."""
    n_areas = areas.n_areas
    cell_area = np.arange(n_areas) if cell_area is None else cell_area
    spread = factor_draws.std(axis=0)
    incidents, variance = np.zeros((2, n_areas, table.n_windows))
    np.add.at(incidents, cell_area, counts * factors[:, None])
    np.add.at(variance, cell_area, (counts * spread[:, None]) ** 2)
    nothing = np.full(n_areas, np.nan)
    silent = table.n_reports.sum(axis=1) == 0
    return IncidentEstimate(
        estimator=estimator,
        assumption=assumption,
        geoid=areas.geoid,
        date_from=table.date_from,
        date_to=table.date_to,
        rate_per_day=nothing,
        rate_se=nothing,
        reported_share=share,
        reported_share_se=nothing,
        incidents=incidents,
        incidents_se=np.sqrt(variance),
        cell_area=cell_area,
        cell_counts=counts,
        factors=factors,
        factor_draws=factor_draws,
        counts_unreported=False,
        count_sd=np.zeros(n_areas),
        pooled_unreported=np.zeros(n_areas),
        pooled_shape=1.0,
        reason=np.where(silent, UNCORRECTED, "").astype(object),
    )


def widen(found: IncidentEstimate, links: UsedLinks, seed: int) -> IncidentEstimate:
    """The same estimate with draws and errors that say how far the links may be off."""
    spread = links.log_spread
    rng = np.random.default_rng([seed, 311])
    factor = np.exp(spread * rng.standard_normal(len(found.factor_draws)))[:, None]
    unreported = np.maximum(found.incidents - _counted(found), 0.0)
    said = f"{links.words[0].upper()}{links.words[1:]}; intervals are wider by as much."
    return replace(
        found,
        assumption=f"{found.assumption} {said}",
        factor_draws=1.0 + (found.factor_draws - 1.0) * factor,
        incidents_se=np.sqrt(found.incidents_se**2 + (unreported * spread) ** 2),
    )


def _counted(found: IncidentEstimate) -> np.ndarray:
    """(n_areas, n_windows) what the estimate counts before it adds anything unreported."""
    counted = np.zeros_like(found.incidents)
    np.add.at(counted, found.cell_area, found.cell_counts)
    return counted
