"""Draw reports of incidents from the generative model of the estimators, truth included.

A small stand-in for a city in which every assumption can be changed by itself: how reporting varies
between incidents, how the city's speed and natural lifetimes vary with income, how many incidents
there are. `validation` and the tests use it; it knows no domain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np

from parity311.reporting.areas import Areas
from parity311.reporting.settings import InspectionSample
from parity311.reporting.table import MAX_EXPOSURE_DAYS, WINDOW_DAYS, ReportTable, count_windows
from parity311.reporting.weekly import WeeklyReports, count_weekly

WARM_UP_LIFETIMES = 10.0
"""Incidents are drawn from this many mean lifetimes before the first day, so that the first window
is like any other."""


@dataclass(frozen=True)
class ReportingScenario:
    """One way in which incidents come about and are reported."""

    incidents_per_area_window: float = 40.0
    """Mean incidents of an area in 28 days."""
    n_windows: int = 13
    rate_per_day: float = 0.06
    """Reports a day in an average area (about 1.5 reports per reported incident here)."""
    income_slope: float = 0.0
    """Log reporting rate per standard deviation of income."""
    area_sd: float = 0.26
    """Published sd of tract effects on the log reporting rate."""
    silent_share: float = 0.1
    gamma_shape: float | None = None
    """Shape of the Gamma spread between incidents of one place; None: none."""
    mean_lifetime_days: float = 14.0
    lifetime_law: str = "exponential"
    closing_slope: float = 0.0
    """Log closing rate per standard deviation of income."""
    service_days: float = 16.0
    """Mean days from the first report to the visit (Gamma, shape 2)."""
    service_slope: float = 0.0
    """Log service days per standard deviation of income."""


@dataclass(frozen=True)
class SimulatedReports:
    """What the agency sees, and the truth."""

    table: ReportTable
    areas: Areas
    true_by_window: np.ndarray
    """(n_areas, n_windows) incidents that began in each window."""
    true_reported: np.ndarray
    """(n_areas,) of those, incidents that somebody reported (ever)."""
    true_rate: np.ndarray
    """(n_areas,) reports a day of an average incident."""

    @property
    def true_incidents(self) -> np.ndarray:
        """(n_areas,) incidents that began in the period."""
        return self.true_by_window.sum(axis=1)

    def inspect(self, rng: np.random.Generator, share: float) -> InspectionSample:
        """Inspect all incidents of a random share of areas (two at least)."""
        n = max(2, round(share * self.areas.n_areas))
        area = np.sort(rng.choice(self.areas.n_areas, n, replace=False))
        return InspectionSample(area, self.true_incidents[area], self.true_reported[area])


def make_areas(n_areas: int, rng: np.random.Generator) -> Areas:
    """Areas with income only: standard normal, five quintiles of equal size, no neighbours."""
    income = rng.standard_normal(n_areas)
    rank = np.argsort(np.argsort(income))
    return Areas(
        geoid=np.array([f"{place:06d}" for place in range(n_areas)], dtype=object),
        borough=np.full(n_areas, "", dtype=object),
        households=np.full(n_areas, 1000.0),
        income_quintile=1 + (5 * rank) // n_areas,
        covariates={"log_income": income},
        edges=np.zeros((0, 2), dtype=np.int64),
    )


def simulate(scenario: ReportingScenario, areas: Areas, seed: int) -> SimulatedReports:
    """Draw incidents, reports and visits, and what the agency's table holds of them."""
    rng = np.random.default_rng(seed)
    n_days = scenario.n_windows * WINDOW_DAYS
    income = np.nan_to_num(areas.design(("log_income",))[0][:, 0])
    effect = scenario.income_slope * income + scenario.area_sd * rng.standard_normal(areas.n_areas)
    rate = scenario.rate_per_day * np.exp(effect)
    closing = np.exp(scenario.closing_slope * income) / scenario.mean_lifetime_days
    early = WARM_UP_LIFETIMES * scenario.mean_lifetime_days
    level = rng.gamma(5.0, 0.2, areas.n_areas) * scenario.incidents_per_area_window / WINDOW_DAYS
    area = np.repeat(np.arange(areas.n_areas), rng.poisson(level * (n_days + early)))
    n = len(area)
    own = rate[area]
    if scenario.gamma_shape is not None:
        own = own * rng.gamma(scenario.gamma_shape, 1.0 / scenario.gamma_shape, n)
    began = rng.uniform(-early, n_days, n)
    life = 1.0 / closing[area]
    if scenario.lifetime_law == "exponential":
        life = life * rng.standard_exponential(n)
    first = rng.standard_exponential(n) / np.maximum(own, 1e-12)
    reported = first < life
    visit = scenario.service_days * np.exp(scenario.service_slope * income[area])
    visit = visit * rng.gamma(2.0, 0.5, n)
    exposure = np.minimum(np.minimum(visit, MAX_EXPOSURE_DAYS), n_days - began - first)
    is_open = np.clip(np.minimum(life - first, exposure), 0.0, None)
    speaks = reported & (rng.random(n) >= scenario.silent_share)
    further = np.where(speaks, rng.poisson(own * np.where(speaks, is_open, 0.0)), 0)
    last = np.where(further > 0, is_open * rng.random(n) ** (1.0 / np.maximum(further, 1)), 0.0)
    seen = reported & (began + first >= 0) & (began + first < n_days)
    begun = began >= 0
    true_by_window = np.zeros((areas.n_areas, scenario.n_windows), dtype=np.int64)
    np.add.at(true_by_window, (area[begun], (began[begun] // WINDOW_DAYS).astype(np.int64)), 1)
    return SimulatedReports(
        table=replace(
            _table(area, began + first, further, last, exposure, seen, areas, n_days),
            weekly=_by_week(area, began + first, further, last, seen, areas, n_days, seed),
        ),
        areas=areas,
        true_by_window=true_by_window,
        true_reported=np.bincount(area[begun & reported], minlength=areas.n_areas),
        true_rate=rate,
    )


def _table(
    area: np.ndarray,
    opened: np.ndarray,
    further: np.ndarray,
    last: np.ndarray,
    exposure: np.ndarray,
    seen: np.ndarray,
    areas: Areas,
    n_days: int,
) -> ReportTable:
    """What the agency sees; reports are counted in the window of their incident's first one."""
    date_from = date(2024, 1, 1)
    date_to = date_from + timedelta(days=n_days)
    n = int(seen.sum())
    shape = (areas.n_areas, count_windows(date_from, date_to))
    n_reports, n_duplicates = np.zeros(shape), np.zeros(shape)
    place = (area[seen], (opened[seen] // WINDOW_DAYS).astype(np.int64))
    np.add.at(n_reports, place, 1.0 + further[seen])
    np.add.at(n_duplicates, place, further[seen].astype(np.float64))
    return ReportTable(
        area=area[seen],
        first_report_day=opened[seen],
        n_further=further[seen],
        last_delay_days=last[seen],
        exposure_days=exposure[seen],
        found_ended=np.zeros(n, dtype=bool),
        called_until_days=exposure[seen],
        pattern=np.zeros(n, dtype=np.int64),
        patterns=("",),
        weight=np.ones(n),
        count_sd=np.zeros(areas.n_areas),
        n_reports=n_reports,
        n_duplicates=n_duplicates,
        date_from=date_from,
        date_to=date_to,
    )


def _by_week(
    area: np.ndarray,
    opened: np.ndarray,
    further: np.ndarray,
    last: np.ndarray,
    seen: np.ndarray,
    areas: Areas,
    n_days: int,
    seed: int,
) -> WeeklyReports:
    """Every report at its own day: given the last one, those between are spread evenly."""
    rng = np.random.default_rng([seed, 1])  # of its own, so that the other draws stay as they were
    incident = np.repeat(np.flatnonzero(seen), 1 + further[seen])
    end = np.cumsum(1 + further[seen])
    delay = last[incident] * rng.random(len(incident))
    delay[end - 1] = last[seen]
    delay[end - 1 - further[seen]] = 0.0
    day = opened[incident] + delay
    kept = day < n_days
    return count_weekly(
        area[incident][kept], day[kept], incident[kept], n_areas=areas.n_areas, n_days=n_days
    )
