"""Score every estimator against the truth of a synthetic city. Nothing that trains reads this."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.records.store import open_records
from parity311.records.truth import Truth, open_truth
from parity311.reporting.areas import Areas, areas_from_records
from parity311.reporting.duplicates import LinkRule, LinkScore, link_reports, score_links
from parity311.reporting.estimate import ESTIMATORS, estimate
from parity311.reporting.incidents import INTERVAL, Estimate
from parity311.reporting.lifetimes import Lifetime, estimated, exponential
from parity311.reporting.sensitivity import lifetime_band
from parity311.reporting.settings import InspectionSample, Settings
from parity311.reporting.simulation import Scenario, simulate
from parity311.reporting.strata import stratify, total_by_stratum
from parity311.reporting.table import ReportTable, reports_from_records

N_QUINTILES = 5
INSPECTED_SHARE = 0.05
"""Share of tracts with a random inspection sample, where one is tried."""
SCENARIOS: dict[str, tuple[Scenario, str]] = {
    "service_lags": (
        Scenario(income_slope=0.4, service_slope=-0.5),
        "the city comes about four times as late in the poorest areas as in the richest",
    ),
    "heavy_tailed": (
        Scenario(income_slope=0.4, gamma_shape=1.0),
        "reporting varies exponentially between incidents of one place",
    ),
    "sparse": (
        Scenario(income_slope=0.4, incidents_per_area_window=6.0, n_windows=13),
        "6 incidents per tract and window",
    ),
    "closing_by_income": (
        Scenario(income_slope=0.4, closing_slope=0.3),
        "incidents end by themselves sooner where income is higher",
    ),
}
"""The same model with one assumption changed each time, on the city's own tracts."""


@dataclass(frozen=True)
class Case:
    """Data with a known truth."""

    table: ReportTable
    areas: Areas
    true_incidents: np.ndarray
    """(n_areas,) incidents that began in the period."""
    true_reported: np.ndarray
    """(n_areas,) of those, reported ones."""
    lifetime: Lifetime
    """The true law."""
    closing_covariates: tuple[str, ...] = ("log_income",)

    def inspect(self, share: float, seed: int) -> InspectionSample:
        """Inspect a random share of the areas."""
        rng = np.random.default_rng(seed)
        n = max(2, round(share * self.areas.n_areas))
        area = np.sort(rng.choice(self.areas.n_areas, n, replace=False))
        return InspectionSample(area, self.true_incidents[area], self.true_reported[area])


@dataclass(frozen=True)
class Score:
    """How far an estimator is from the truth."""

    scenario: str
    estimator: str
    lifetime: str
    """known, estimated, assumed, or none."""
    inspections: float
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
    band_by_quintile: tuple[tuple[float, float], ...] | None
    """Sensitivity band over the truth, where the lifetime is estimated."""
    mean_lifetime_days: float | None
    seconds: float
    note: str = ""


def validate_city(
    city: Path, domain: str = "heat", *, scenarios: bool = True, seed: int = 0
) -> dict[str, Any]:
    """Score every estimator on a city's domain, and the default one on changed assumptions."""
    case = case_from_city(city, domain)
    rows = [_attempt("city", case, name, "known", 0.0, seed) for name in ESTIMATORS]
    rows.append(_attempt("city", case, "exposure_rate", "estimated", 0.0, seed))
    rows.append(_attempt("city", case, "exposure_rate", "estimated", INSPECTED_SHARE, seed))
    if scenarios:
        for name in SCENARIOS:
            rows += score_scenario(name, case.areas, seed)
    return {
        "city": str(city),
        "domain": domain,
        "n_reported_incidents": case.table.n_incidents,
        "n_true_incidents": int(case.true_incidents.sum()),
        "estimators": rows,
        "scenarios": {name: text for name, (_, text) in SCENARIOS.items()},
        "duplicate_detection": score_duplicates(city, domain),
        "assumptions": case.table.notes,
    }


def score_scenario(name: str, areas: Areas, seed: int) -> list[Score]:
    """Score the estimators that a scenario is about."""
    scenario = SCENARIOS[name][0]
    drawn = simulate(scenario, areas, seed)
    case = Case(
        drawn.table,
        areas,
        drawn.true_incidents,
        drawn.true_reported,
        exponential(scenario.mean_lifetime_days, origin="known"),
    )
    main = "exposure_rate_mixed" if name == "heavy_tailed" else "exposure_rate"
    tried = [
        ("as_published", "known", 0.0),
        ("raw", "known", 0.0),
        ("zero_truncated", "known", 0.0),
    ]
    tried += [(main, "known", 0.0), (main, "estimated", 0.0), (main, "estimated", INSPECTED_SHARE)]
    return [_attempt(name, case, *how, seed) for how in tried]


def case_from_city(city: Path, domain: str) -> Case:
    """Read a domain of a city with its truth."""
    records, truth = open_records(city), open_truth(city)
    areas = areas_from_records(records)
    table = reports_from_records(records, domain, areas)
    incidents = truth.table("incidents", domain)
    began = incidents["began_at"].to_numpy()
    date_from, date_to = (np.datetime64(day) for day in records.window)
    inside = (began >= date_from) & (began < date_to)
    area, known = areas.match(incidents["tract"].to_numpy(zero_copy_only=False)[inside])
    reported = incidents["n_reports"].to_numpy()[inside] > 0
    n = areas.n_areas
    return Case(
        table,
        areas,
        np.bincount(area[known], minlength=n),
        np.bincount(area[known], reported[known], minlength=n).astype(np.int64),
        true_lifetime(truth, domain),
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


def _attempt(
    scenario: str, case: Case, name: str, lifetime: str, inspections: float, seed: int
) -> Score:
    """Run one estimator and score it."""
    settings = Settings(case.lifetime if lifetime == "known" else estimated(), seed=seed)
    if inspections:
        sample = case.inspect(inspections, seed)
        settings = replace(settings, inspections=sample, closing_covariates=case.closing_covariates)
    begun = time.perf_counter()
    given = {field: getattr(settings, field) for field in settings.__dataclass_fields__}
    found = estimate(case.table, case.areas, estimator=name, **given)
    seconds = time.perf_counter() - begun
    used = lifetime if ESTIMATORS[name].uses_lifetime else "none"
    return score(scenario, case, found, used, inspections, settings, seconds)


def score(
    scenario: str,
    case: Case,
    found: Estimate,
    lifetime: str,
    inspections: float,
    settings: Settings,
    seconds: float,
) -> Score:
    """Compare an estimate with the truth."""
    strata = stratify(case.areas)
    truth = np.bincount(strata.of_area, case.true_incidents, minlength=6)[:N_QUINTILES]
    rng = np.random.default_rng(settings.seed)
    totals = total_by_stratum(found, strata, rng)
    point = totals.estimate.sum(axis=0)[:N_QUINTILES]
    ends = np.percentile(totals.draws.sum(axis=1), INTERVAL, axis=0)[:, :N_QUINTILES] / truth
    lower, upper = np.percentile(found.area_draws(rng), INTERVAL, axis=0)
    inside = (lower <= case.true_incidents) & (case.true_incidents <= upper)
    band = None
    if lifetime == "estimated" and not inspections:
        wide = lifetime_band(case.table, case.areas, strata, found, settings)
        pairs = np.stack([wide.lower, wide.upper])[:, :N_QUINTILES] / truth
        band = tuple((float(low), float(high)) for low, high in pairs.T)
    return Score(
        scenario=scenario,
        estimator=found.estimator,
        lifetime=lifetime,
        inspections=inspections,
        bias_by_quintile=tuple(float(value) for value in point / truth - 1.0),
        interval_by_quintile=tuple((float(low), float(high)) for low, high in ends.T),
        ratio_error=float(point[0] / point[4] / (truth[0] / truth[4]) - 1.0),
        low_share_at_parity=_low_share(point),
        true_low_share=_low_share(truth),
        coverage=float(inside.mean()),
        band_by_quintile=band,
        mean_lifetime_days=found.details.get("mean_lifetime_days"),
        seconds=round(seconds, 3),
    )


def _low_share(by_quintile: np.ndarray) -> float:
    low, high = by_quintile[:2].sum(), by_quintile[3:5].sum()
    return float(low / (low + high))


def score_duplicates(city: Path, domain: str, rule: LinkRule | None = None) -> LinkScore:
    """Link reports as if the source marked no duplicates, and compare with the truth."""
    records, truth = open_records(city), open_truth(city)
    rule = rule or LinkRule()
    rows = records.sql(f"""
SELECT c.complaint_id, epoch(c.received_at) / 86400 AS day, c.category, c.building_id,
  epoch(o.closed_at) / 86400 AS closed
FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
WHERE c.domain = '{domain}' AND c.building_id IS NOT NULL ORDER BY c.complaint_id""")
    real = truth.table("reports", domain).sort_by("complaint_id")
    names = real["complaint_id"].to_numpy(zero_copy_only=False)
    place = np.searchsorted(names, rows["complaint_id"].to_numpy(zero_copy_only=False))
    linked = link_reports(
        rows["day"].to_numpy(),
        rows["category"].to_numpy(zero_copy_only=False).astype(str),
        rule,
        building=rows["building_id"].to_numpy(zero_copy_only=False).astype(str),
        closed_day=rows["closed"].to_numpy(zero_copy_only=False),
    )
    return score_links(linked, real["true_incident_id"].to_numpy()[place])
