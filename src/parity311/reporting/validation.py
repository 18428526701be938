"""Score every estimator against the truth of a synthetic city. Nothing that trains reads this.

Reports whose truth is known: a domain of a synthetic city, or a scenario drawn on its tracts.

Only validation reads this. Nothing that estimates or trains may.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parity311.city.departures import DEFAULT, get_departure
from parity311.errors import EstimationError, InputError
from parity311.records.absent import no_such_domain
from parity311.records.store import open_records
from parity311.records.truth import Truth, open_truth
from parity311.reporting.areas import Areas, areas_from_records
from parity311.reporting.duplicates_truth import score_rules
from parity311.reporting.estimate import ESTIMATORS, estimate
from parity311.reporting.incidents import INTERVAL, IncidentEstimate
from parity311.reporting.lifetimes import Lifetime, estimated, exponential
from parity311.reporting.sensitivity import lifetime_band
from parity311.reporting.settings import InspectionSample, Settings
from parity311.reporting.simulation import ReportingScenario, simulate
from parity311.reporting.strata import stratify, total_by_stratum
from parity311.reporting.table import ReportTable, reports_from_records

CITY = "city"
"""Name of the case that is read from the city's own records."""
N_SCENARIO_WINDOWS = 6
SCENARIOS: dict[str, tuple[ReportingScenario, str]] = {
    "service_lags": (
        ReportingScenario(income_slope=0.4, service_slope=-0.5, n_windows=N_SCENARIO_WINDOWS),
        "the city comes about four times as late in the poorest areas as in the richest",
    ),
    "heavy_tailed": (
        ReportingScenario(income_slope=0.4, gamma_shape=1.0, n_windows=N_SCENARIO_WINDOWS),
        "reporting varies exponentially between incidents of one place",
    ),
    "sparse": (
        ReportingScenario(income_slope=0.4, incidents_per_area_window=6.0, n_windows=13),
        "6 incidents per tract and window",
    ),
    "closing_by_income": (
        ReportingScenario(income_slope=0.4, closing_slope=0.3, n_windows=N_SCENARIO_WINDOWS),
        "incidents end by themselves sooner where income is higher",
    ),
}
"""The generative model of the estimators with one assumption changed each time; on top of these,
people of high income always report more (0.4 of the log rate per standard deviation: about three
times between the outer quintiles)."""


@dataclass(frozen=True)
class KnownReports:
    """Reports with a known truth."""

    name: str
    origin: str
    """Where reports and truth come from, in words."""
    table: ReportTable
    areas: Areas
    true_incidents: np.ndarray
    """(n_areas, n_windows) incidents that began in each window."""
    true_reported: np.ndarray
    """(n_areas,) of those, reported ones."""
    lifetime: Lifetime
    """The true law, or one law for all where lifetimes differ by area."""
    knows_lifetime: bool = True
    """Whether ``lifetime`` is the true law everywhere."""

    @property
    def true_totals(self) -> np.ndarray:
        """(n_areas,) incidents that began in the period."""
        return self.true_incidents.sum(axis=1)

    def inspect(self, share: float, seed: int) -> InspectionSample:
        """Inspect a random share of the areas: the truth of what happened there, reported or not.

        The records of the city hold no such sample; it is drawn from its truth.
        """
        rng = np.random.default_rng(seed)
        n = max(2, round(share * self.areas.n_areas))
        area = np.sort(rng.choice(self.areas.n_areas, n, replace=False))
        found = (self.true_totals[area], self.true_reported[area])
        return InspectionSample(area, *found, is_complete=True)


def case_from_city(city: Path, domain: str) -> KnownReports:
    """Read a domain of a city with its truth."""
    records, truth = open_records(city), open_truth(city)
    if domain not in records.domains:
        raise no_such_domain(records, domain)
    lifetime = true_lifetime(truth, domain)
    areas = areas_from_records(records)
    table = reports_from_records(records, domain, areas)
    world = get_departure(records.manifest.get("world", DEFAULT.name))
    knows_lifetime = world.lifetime_laws == DEFAULT.lifetime_laws
    incidents = truth.table("incidents", domain)
    began = incidents["began_at"].to_numpy()
    date_from, date_to = (np.datetime64(day) for day in records.window)
    inside = (began >= date_from) & (began < date_to)
    area, known = areas.match(incidents["tract"].to_numpy(zero_copy_only=False)[inside])
    reported = incidents["n_reports"].to_numpy()[inside] > 0
    day = (began[inside] - date_from) / np.timedelta64(1, "D")
    window = (day // table.window_days).astype(np.int64)
    true_incidents = np.zeros((areas.n_areas, table.n_windows), dtype=np.int64)
    np.add.at(true_incidents, (area[known], window[known]), 1)
    return KnownReports(
        CITY,
        "the city's records, scored against its truth",
        table,
        areas,
        true_incidents,
        np.bincount(area[known], reported[known], minlength=areas.n_areas).astype(np.int64),
        lifetime if knows_lifetime else lifetime.scaled(1.0),
        knows_lifetime,
    )


def case_from_scenario(name: str, areas: Areas, seed: int) -> KnownReports:
    """Draw a scenario on the tracts of a city."""
    scenario = SCENARIOS[name][0]
    drawn = simulate(scenario, areas, seed)
    knows_lifetime = scenario.closing_slope == 0
    origin = "known" if knows_lifetime else "assumed"
    return KnownReports(
        name,
        "drawn from the estimators' own model on the city's tracts, one assumption changed",
        drawn.table,
        areas,
        drawn.true_by_window,
        drawn.true_reported,
        exponential(scenario.mean_lifetime_days, origin=origin),
        knows_lifetime,
    )


def true_lifetime(truth: Truth, domain: str) -> Lifetime:
    """The law of natural lifetimes that made a domain's incidents, by category."""
    parameters = truth.parameters[domain]
    if "hazard.lifetime_days" not in parameters:
        raise InputError(
            f"The domain {domain!r} has no incidents with a lifetime (its records are filings); "
            "validate a domain with complaints, e.g. heat."
        )
    mean = parameters["hazard.lifetime_days"]["value"]
    factors = {
        path.split(".")[1]: entry["value"]
        for path, entry in parameters.items()
        if path.startswith("categories.") and path.endswith(".lifetime_factor")
    }
    means = {name: mean * factor for name, factor in factors.items()}
    return Lifetime("exponential", mean, by_pattern=means, origin="known")


N_QUINTILES = 5
INSPECTED_SHARE = 0.05
"""Share of tracts with a random inspection sample, where one is tried."""
WRONG_LIFETIME = 1.5
"""Factor by which the lifetime that is merely assumed misses the true one."""
WITHIN = 0.05
COVERAGE = (0.85, 0.95)
"""What is asked of the default estimator: relative bias of every quintile, and the share of areas
whose 90 % interval holds the truth."""
COMPARED = ("zero_truncated", "as_published", "raw")
"""Estimators shown beside the default one in every scenario."""


@dataclass(frozen=True)
class Score:
    """How far an estimator is from the truth."""

    scenario: str
    estimator: str
    lifetime: str
    """known, estimated, assumed (one mean for all, wrong), or none where it uses none."""
    inspections: float
    """Share of tracts with a random inspection sample."""
    bias_by_quintile: tuple[float, ...]
    """Relative error of Î by income quintile."""
    interval_by_quintile: tuple[tuple[float, float], ...]
    """90 % interval of Î over the truth, by quintile."""
    ratio_error: float
    """Relative error of the ratio of the first to the fifth quintile."""
    low_share_at_parity: float
    """Share of escalations quintiles 1-2 get, against 4-5, where the equity term is zero."""
    true_low_share: float
    coverage: float
    """Share of areas whose 90 % interval holds the truth."""
    coverage_by_window: float
    """The same for areas and windows."""
    band_by_quintile: tuple[tuple[float, float], ...] | None
    """Sensitivity band over the truth, where the lifetime is estimated."""
    band_holds_truth: bool | None
    mean_lifetime_days: float | None
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One estimator, told so much."""

    estimator: str
    lifetime: str = "known"
    inspections: float = 0.0


@dataclass(frozen=True)
class Refusal:
    """A trial that gave no estimate, and why."""

    scenario: str
    estimator: str
    lifetime: str
    inspections: float
    reason: str


def validate_city(
    city: Path, domain: str = "heat", *, scenarios: bool = True, seed: int = 0
) -> dict[str, Any]:
    """Score every estimator on a city's domain, and the default one on changed assumptions."""
    case = case_from_city(city, domain)
    # In a world of other lifetimes the exponential law of the same mean is only assumed.
    lifetime = "known" if case.knows_lifetime else "assumed"
    trials = [Trial(name, lifetime) for name in ESTIMATORS]
    trials += [Trial("exposure_rate", "assumed")] if case.knows_lifetime else []
    found = score_trials(case, [*trials, *_untold()], seed)
    for name in SCENARIOS if scenarios else ():
        found += score_scenario(name, case, seed)
    rows = [row for row in found if isinstance(row, Score)]
    return {
        "city": str(city),
        "domain": domain,
        "n_cases": case.table.n_incidents,
        "n_true_incidents": int(case.true_incidents.sum()),
        "estimators": rows,
        "refusals": [row for row in found if isinstance(row, Refusal)],
        "bars": check_bars(found),
        "scenarios": {CITY: case.origin} | {name: text for name, (_, text) in SCENARIOS.items()},
        "inspections": (
            "random inspection samples are drawn from the truth: the records hold none"
        ),
        "duplicate_detection": score_rules(city, domain),
        "assumptions": case.table.notes,
    }


def _untold() -> list[Trial]:
    """The default estimator without the lifetime: from reports alone, and with inspections."""
    return [
        Trial("exposure_rate", "estimated"),
        Trial("exposure_rate", "estimated", INSPECTED_SHARE),
    ]


def score_scenario(name: str, city: KnownReports, seed: int) -> list[Score | Refusal]:
    """Score the default estimator, and some beside it, on a scenario drawn on a city's tracts."""
    case = case_from_scenario(name, city.areas, seed)
    told = "known" if case.knows_lifetime else "assumed"
    trials = [Trial(other) for other in COMPARED] + [Trial("exposure_rate", told), *_untold()]
    return score_trials(case, trials, seed)


def score_trials(case: KnownReports, trials: list[Trial], seed: int) -> list[Score | Refusal]:
    """Run every trial on a case; one that cannot be computed says why."""
    rows: list[Score | Refusal] = []
    fits: dict[Any, Any] = {}
    for trial in trials:
        settings = replace(_settings(case, trial, seed), fits=fits)
        begun = time.perf_counter()
        given = {field: getattr(settings, field) for field in settings.__dataclass_fields__}
        try:
            found = estimate(case.table, case.areas, estimator=trial.estimator, **given)
        except EstimationError as error:
            told = (trial.estimator, trial.lifetime, trial.inspections)
            rows.append(Refusal(case.name, *told, str(error)))
            continue
        rows.append(score(case, found, trial, settings, time.perf_counter() - begun))
    return rows


def _settings(case: KnownReports, trial: Trial, seed: int) -> Settings:
    if trial.lifetime == "estimated":
        settings = Settings(estimated(), seed=seed)
    elif trial.lifetime == "assumed" and case.knows_lifetime:
        settings = Settings(case.lifetime.scaled(WRONG_LIFETIME), seed=seed)
    else:
        settings = Settings(case.lifetime, seed=seed)
    if not trial.inspections:
        return settings
    sample = case.inspect(trial.inspections, seed)
    return replace(settings, inspections=sample, closing_covariates=("log_income",))


def score(
    case: KnownReports,
    found: IncidentEstimate,
    trial: Trial,
    settings: Settings,
    seconds: float = 0.0,
) -> Score:
    """Compare an estimate with the truth."""
    strata = stratify(case.areas)
    true_totals = case.true_totals
    truth = np.bincount(strata.of_area, true_totals, minlength=6)[:N_QUINTILES]
    rng = np.random.default_rng(settings.seed)
    totals = total_by_stratum(found, strata, rng)
    point = totals.estimate.sum(axis=0)[:N_QUINTILES]
    ends = np.percentile(totals.draws.sum(axis=1), INTERVAL, axis=0)[:, :N_QUINTILES] / truth
    lower, upper = np.percentile(found.area_draws(rng), INTERVAL, axis=0)
    inside = (lower <= true_totals) & (true_totals <= upper)
    low, high = found.window_intervals()
    inside_window = (low <= case.true_incidents) & (case.true_incidents <= high)
    band = None
    if trial.lifetime == "estimated" and not trial.inspections:
        wide = lifetime_band(case.table, case.areas, strata, found, settings)
        pairs = np.stack([wide.lower, wide.upper])[:, :N_QUINTILES] / truth
        band = tuple((float(low), float(high)) for low, high in pairs.T)
    return Score(
        scenario=case.name,
        estimator=found.estimator,
        lifetime=trial.lifetime if ESTIMATORS[found.estimator].uses_lifetime else "none",
        inspections=trial.inspections,
        bias_by_quintile=tuple(float(value) for value in point / truth - 1.0),
        interval_by_quintile=tuple((float(low), float(high)) for low, high in ends.T),
        ratio_error=float(point[0] / point[4] / (truth[0] / truth[4]) - 1.0),
        low_share_at_parity=_low_share(point),
        true_low_share=_low_share(truth),
        coverage=float(inside.mean()),
        coverage_by_window=float(inside_window.mean()),
        band_by_quintile=band,
        band_holds_truth=None if band is None else all(low <= 1.0 <= high for low, high in band),
        mean_lifetime_days=found.details.get("mean_lifetime_days"),
        seconds=round(seconds, 3),
    )


def _low_share(by_quintile: np.ndarray) -> float:
    low, high = by_quintile[:2].sum(), by_quintile[3:5].sum()
    return float(low / (low + high))


def check_bars(rows: Sequence[Score | Refusal]) -> list[dict[str, Any]]:
    """What is asked of the default estimator, and whether it holds, scenario by scenario."""
    bars = []
    for row in rows:
        if row.estimator != "exposure_rate" or row.lifetime == "assumed":
            continue
        told = f"{row.inspections:.0%} inspected" if row.inspections else row.lifetime
        if isinstance(row, Refusal):
            bars.append(_bar(row.scenario, told, "an estimate", None, False))
            continue
        worst = max(abs(value) for value in row.bias_by_quintile)
        asked: dict[str, tuple[float, bool]] = {}
        if row.lifetime == "known" or row.inspections:
            asked["largest bias of a quintile"] = (worst, worst <= WITHIN)
            asked["coverage"] = (row.coverage, COVERAGE[0] <= row.coverage <= COVERAGE[1])
        if row.inspections:
            asked["error of the ratio of outer quintiles"] = (
                row.ratio_error,
                abs(row.ratio_error) <= WITHIN,
            )
        if row.band_holds_truth is not None:
            asked["sensitivity band holds the truth"] = (worst, row.band_holds_truth)
        bars += [_bar(row.scenario, told, name, value, ok) for name, (value, ok) in asked.items()]
    return bars


def _bar(
    scenario: str, lifetime: str, asked: str, value: float | None, holds: bool
) -> dict[str, Any]:
    return dict(scenario=scenario, lifetime=lifetime, asked=asked, value=value, holds=holds)
