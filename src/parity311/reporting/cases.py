"""Reports whose truth is known: a domain of a synthetic city, or a scenario drawn on its tracts.

Only validation reads this. Nothing that estimates or trains may.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parity311.errors import InputError
from parity311.records.absent import no_such_domain
from parity311.records.store import open_records
from parity311.records.truth import Truth, open_truth
from parity311.reporting.areas import Areas, areas_from_records
from parity311.reporting.lifetimes import Lifetime, exponential
from parity311.reporting.settings import InspectionSample
from parity311.reporting.simulation import Scenario, simulate
from parity311.reporting.table import ReportTable, reports_from_records

CITY = "city"
"""Name of the case that is read from the city's own records."""
N_SCENARIO_WINDOWS = 6
SCENARIOS: dict[str, tuple[Scenario, str]] = {
    "service_lags": (
        Scenario(income_slope=0.4, service_slope=-0.5, n_windows=N_SCENARIO_WINDOWS),
        "the city comes about four times as late in the poorest areas as in the richest",
    ),
    "heavy_tailed": (
        Scenario(income_slope=0.4, gamma_shape=1.0, n_windows=N_SCENARIO_WINDOWS),
        "reporting varies exponentially between incidents of one place",
    ),
    "sparse": (
        Scenario(income_slope=0.4, incidents_per_area_window=6.0, n_windows=13),
        "6 incidents per tract and window",
    ),
    "closing_by_income": (
        Scenario(income_slope=0.4, closing_slope=0.3, n_windows=N_SCENARIO_WINDOWS),
        "incidents end by themselves sooner where income is higher",
    ),
}
"""The generative model of the estimators with one assumption changed each time; on top of these,
people of high income always report more (0.4 of the log rate per standard deviation: about three
times between the outer quintiles)."""


@dataclass(frozen=True)
class Case:
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
        return InspectionSample(area, self.true_totals[area], self.true_reported[area])


def case_from_city(city: Path, domain: str) -> Case:
    """Read a domain of a city with its truth."""
    records, truth = open_records(city), open_truth(city)
    if domain not in records.domains:
        raise no_such_domain(records, domain)
    lifetime = true_lifetime(truth, domain)
    areas = areas_from_records(records)
    table = reports_from_records(records, domain, areas)
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
    return Case(
        CITY,
        "the city's records, scored against its truth",
        table,
        areas,
        true_incidents,
        np.bincount(area[known], reported[known], minlength=areas.n_areas).astype(np.int64),
        lifetime,
    )


def case_from_scenario(name: str, areas: Areas, seed: int) -> Case:
    """Draw a scenario on the tracts of a city."""
    scenario = SCENARIOS[name][0]
    drawn = simulate(scenario, areas, seed)
    knows_lifetime = scenario.closing_slope == 0
    origin = "known" if knows_lifetime else "assumed"
    return Case(
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
