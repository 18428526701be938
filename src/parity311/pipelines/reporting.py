"""What the commands do: read, estimate, compare or validate, and write a run with its pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import EstimationError, InputError
from parity311.records.store import open_records
from parity311.report import reporting_page as pages
from parity311.report.store import start_run
from parity311.reporting.areas import Areas, areas_from_records
from parity311.reporting.estimate import ESTIMATORS, estimate
from parity311.reporting.filings import estimate_filings, holds_filings
from parity311.reporting.incidents import IncidentEstimate
from parity311.reporting.lifetimes import Lifetime, parse_lifetime
from parity311.reporting.own_reports import (
    read_inspections,
    read_own_areas,
    read_own_reports,
    reports_from_own,
)
from parity311.reporting.sensitivity import Band, lifetime_band
from parity311.reporting.settings import N_DRAWS, Settings
from parity311.reporting.strata import ALL, StrataTotals, stratify_known, total_by_stratum
from parity311.reporting.table import (
    MIN_PATTERN_INCIDENTS,
    WINDOW_DAYS,
    ReportTable,
    reports_from_records,
)

DEFAULT = "exposure_rate"
ONE_STRATUM = "No area has what the strata are made of (such as income_quintile): one total."
CORRECTED = ("exposure_rate", "exposure_rate_even", "zero_truncated", "geometric", "acs_proxy")
"""Estimators that claim what a lower bound should lie below."""


@dataclass(frozen=True)
class EstimateConfig:
    """What an estimate is made from, resolved."""

    records: Path | None = None
    """Folder of records."""
    csv: Path | None = None
    """A CSV of reports instead."""
    areas: Path | None = None
    """A CSV of the areas of those reports."""
    inspections: Path | None = None
    """A CSV of random inspections."""
    domain: str = "heat"
    estimator: str = "exposure_rate"
    lifetime: str = "estimated"
    """estimated, exponential:DAYS or fixed:DAYS."""
    window_days: int = WINDOW_DAYS
    strata: str = "income5"
    date_from: date | None = None
    date_to: date | None = None
    n_draws: int = N_DRAWS
    seed: int = 0
    day_first: bool | None = None
    """How the CSV's dates like 03/04/2024 are read, where no date in it tells."""


@dataclass(frozen=True)
class Source:
    """Reports and areas, read from wherever they are."""

    table: ReportTable
    areas: Areas
    name: str
    fingerprint: str
    is_synthetic: bool


LONGEST_WINDOW_DAYS = 3660
"""Ten years: no records here are longer."""


def parse_window(text: str) -> int:
    """Read a window like ``28d`` or ``4w``."""
    units = {"d": 1, "w": 7}
    number, unit = text.strip()[:-1], text.strip()[-1:]
    days = int(number) * units.get(unit, 0) if number.isascii() and number.isdigit() else 0
    if not 1 <= days <= LONGEST_WINDOW_DAYS:
        raise InputError(
            f"The window {text!r} is not a length from a day to {LONGEST_WINDOW_DAYS} days; write "
            "days or weeks, e.g. 28d or 4w."
        )
    return days


def read_source(config: EstimateConfig, *, for_regression: bool = False) -> Source:
    """Read the reports of a records folder or of a CSV.

    A regression takes covariates of incidents, and categories as they are, rare ones too.
    """
    least = 1 if for_regression else MIN_PATTERN_INCIDENTS
    if (config.records is None) == (config.csv is None):
        raise InputError("Give either --records FOLDER or --csv FILE, one of them and not both.")
    if config.csv is not None:
        own = read_own_reports(config.csv, day_first=config.day_first)
        table, areas = reports_from_own(
            own,
            date_from=config.date_from,
            date_to=config.date_to,
            window_days=config.window_days,
            given_areas=read_own_areas(config.areas) if config.areas else None,
            takes_incident_covariates=for_regression,
            least_of_category=least,
        )
        files = [path for path in (config.csv, config.areas) if path is not None]
        hashes = "".join(pages.hash_file(path) for path in files)
        return Source(table, areas, config.csv.name, hashes, False)
    if config.areas is not None:
        raise InputError("--areas goes with --csv; records have their own tracts. Leave it out.")
    assert config.records is not None
    records = open_records(config.records)
    areas = areas_from_records(records)
    table = reports_from_records(
        records,
        config.domain,
        areas,
        date_from=config.date_from,
        date_to=config.date_to,
        window_days=config.window_days,
        least_of_pattern=least,
    )
    is_synthetic = records.manifest.get("kind") == "city"
    return Source(table, areas, records.folder.name, records.fingerprint, is_synthetic)


def make_settings(config: EstimateConfig, source: Source, lifetime: Lifetime) -> Settings:
    """Settings of the estimators; inspections let lifetimes differ by income."""
    settings = Settings(lifetime, n_draws=config.n_draws, seed=config.seed)
    if config.inspections is None:
        return settings
    by_income = tuple(name for name in ("log_income",) if name in source.areas.covariates)
    sample = read_inspections(config.inspections, source.areas)
    return replace(settings, inspections=sample, closing_covariates=by_income)


def make_estimate(config: EstimateConfig, source: Source, settings: Settings) -> IncidentEstimate:
    """Run the estimator; mandatory filings have their own unless the paper's is asked for."""
    if config.records is not None and config.estimator not in ("as_published", "raw"):
        records = open_records(config.records)
        if holds_filings(records, config.domain):
            return estimate_filings(records, config.domain, source.table, source.areas, settings)
    given = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return estimate(source.table, source.areas, estimator=config.estimator, **given)


def run_estimate(config: EstimateConfig, runs: Path) -> dict[str, Any]:
    """Estimate incidents per tract, window and stratum; write tables, pictures and a page."""
    lifetime = parse_lifetime(config.lifetime)
    source = read_source(config)
    strata = stratify_known(source.areas, config.strata)
    with start_run(runs, "reporting estimate", asdict(config)) as run:
        run.add_data(source.name, source.fingerprint, is_synthetic=source.is_synthetic)
        run.set_seeds(draws=config.seed)
        with run.stage("estimate"):
            settings = make_settings(config, source, lifetime)
            found = make_estimate(config, source, settings)
            totals = total_by_stratum(found, strata, np.random.default_rng(config.seed))
        band: Band | None = None
        if "mean_lifetime_days" in found.details and settings.inspections is None:
            with run.stage("sensitivity"):
                band = lifetime_band(source.table, source.areas, strata, found, settings)
        result = describe_estimate(source, found, totals, band)
        run.add_metrics(result)
        pages.write_estimate(run, source.areas, source.table, found, totals, band)
    return {"run": run.id, "report": str(run.final_path / "report.html"), **result}


def describe_estimate(
    source: Source, found: IncidentEstimate, totals: StrataTotals, band: Band | None
) -> dict[str, Any]:
    """The figures of an estimate."""
    per = totals.per_28_days
    lower, upper = np.percentile(totals.draws_per_28_days, (5, 95), axis=0)
    reported = source.table.incidents_by_window().sum(axis=1)
    rows = []
    for place, name in enumerate(totals.strata.names):
        member = totals.strata.of_area == place
        row = {
            "stratum": name,
            "n_areas": int(member.sum()),
            "complaints": float(source.table.n_reports[member].sum() / totals.windows_28d),
            "reported_incidents": float(reported[member].sum() / totals.windows_28d),
            "estimated_incidents": float(per[place]),
            "lower": float(lower[place]),
            "upper": float(upper[place]),
        }
        if band is not None:
            row["band_lower"] = float(band.lower[place] / totals.windows_28d)
            row["band_upper"] = float(band.upper[place] / totals.windows_28d)
        rows.append(row)
    return {
        "estimator": found.estimator,
        "assumption": found.assumption,
        "sensitivity": band.describe() if band is not None else None,
        "unit": "incidents per 28 days",
        "strata_kind": totals.strata.kind,
        "strata": rows,
        "details": found.details,
        "coefficients": found.coefficients,
        "left_out": source.table.left_out,
        "notes": [
            *(note for note in source.table.notes if note not in found.assumption),
            *((ONE_STRATUM,) if totals.strata.names == (ALL,) else ()),
        ],
        "n_reported_incidents": source.table.n_incidents,
        "n_areas_pooled": int((found.reason != "").sum()),
    }


def run_compare(config: EstimateConfig, runs: Path) -> dict[str, Any]:
    """Run every estimator on the same reports and say how far apart their strata totals are."""
    lifetime = parse_lifetime(config.lifetime)
    source = read_source(config)
    strata = stratify_known(source.areas, config.strata)
    rows: list[dict[str, Any]] = []
    with start_run(runs, "reporting compare", asdict(config)) as run:
        run.add_data(source.name, source.fingerprint, is_synthetic=source.is_synthetic)
        for name in ESTIMATORS:
            with run.stage(name):
                rows += _compare_one(name, config, source, strata, lifetime)
        notes = [*source.table.notes, *_explain_bound(rows)]
        if strata.names == (ALL,):
            notes.append(ONE_STRATUM)
        result = {"estimators": rows, "compared_with": DEFAULT, "notes": notes, **_distance(rows)}
        run.add_metrics(result)
        pages.write_comparison(run, rows, strata.names, notes)
    return {"run": run.id, "report": str(run.final_path / "report.html"), **result}


def _compare_one(
    name: str, config: EstimateConfig, source: Source, strata: Any, lifetime: Lifetime
) -> list[dict[str, Any]]:
    """Strata totals of one estimator; a reason instead where it cannot be computed."""
    try:
        found = estimate(
            source.table,
            source.areas,
            estimator=name,
            lifetime=lifetime,
            n_draws=config.n_draws,
            seed=config.seed,
        )
    except EstimationError as error:
        return [{"estimator": name, "strata": None, "reason": str(error)}]
    totals = total_by_stratum(found, strata, np.random.default_rng(config.seed))
    lower, upper = np.percentile(totals.draws_per_28_days, (5, 95), axis=0)
    per = totals.per_28_days
    known = np.array([stratum != "unknown" for stratum in strata.names])
    share = per / per[known].sum()
    return [
        {
            "estimator": name,
            "assumption": found.assumption,
            "strata": [
                {
                    "stratum": stratum,
                    "estimated_incidents": float(per[place]),
                    "lower": float(lower[place]),
                    "upper": float(upper[place]),
                    "share": float(share[place]) if known[place] else None,
                }
                for place, stratum in enumerate(strata.names)
            ],
            "first_to_last": _first_to_last(per[known]),
            "low_share_at_parity": _low_share(per[known]),
        }
    ]


def _first_to_last(per: np.ndarray) -> float | None:
    """Ratio of the first to the last stratum; none where there is one only, or nothing in it."""
    return float(per[0] / per[-1]) if len(per) > 1 and per[-1] else None


def run_regression(
    config: EstimateConfig, model: str, covariates: tuple[str, ...], has_area_effects: bool
) -> dict[str, Any]:
    """Fit a plain published regression; every covariate of a CSV unless some are named."""
    from parity311.reporting.regression import regress

    source = read_source(config, for_regression=True)
    names = covariates
    if not names and config.csv is not None:
        names = (*source.areas.covariates, *source.table.covariates)
    found = regress(
        source.table,
        source.areas,
        model=model,
        covariates=names,
        has_area_effects=has_area_effects,
    )
    return {
        **found.describe(),
        "source": source.name,
        "fingerprint": source.fingerprint,
        "left_out": source.table.left_out,
        "notes": list(source.table.notes),
    }


def _explain_bound(rows: list[dict[str, Any]]) -> list[str]:
    """Why the lower bound lies above other estimates, where it does."""
    totals = {
        row["estimator"]: sum(part["estimated_incidents"] for part in row["strata"])
        for row in rows
        if row["strata"] is not None
    }
    bound = totals.pop("lower_bound", None)
    above = [
        name for name, total in totals.items() if bound is not None and name in CORRECTED
        and total < bound
    ]  # fmt: skip
    if not above:
        return []
    return [
        f"lower_bound lies above {', '.join(above)} and is no bound here: more incidents look "
        "reported once than it allows for, because a visit ends reporting, and because a problem "
        "that outlives its case, or whose second report was not linked, counts as two."
    ]


def _low_share(per: np.ndarray) -> float:
    """What the two lowest strata get against the two highest where the equity term is zero."""
    k = max(1, len(per) * 2 // 5)
    low, high = per[:k].sum(), per[-k:].sum()
    return float(low / (low + high)) if low + high > 0 else float("nan")


def _distance(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How far apart the estimators are: shares moved, and ratios of first to last stratum.

    ``moved_share`` is added to every row: half the sum of absolute differences from the default
    estimator's shares (total variation), the part of all incidents it puts elsewhere.
    """
    shares = {
        row["estimator"]: np.array([part["share"] or 0.0 for part in row["strata"]])
        for row in rows
        if row["strata"] is not None
    }
    for row in rows:
        known = DEFAULT in shares and row["estimator"] in shares
        gap = shares[row["estimator"]] - shares[DEFAULT] if known else np.array([np.nan])
        row["moved_share"] = float(np.abs(gap).sum() / 2)
    ratios = {row["estimator"]: row["first_to_last"] for row in rows if row.get("first_to_last")}
    if not ratios:
        return {"largest_ratio": None, "smallest_ratio": None}
    most, least = max(ratios, key=lambda name: ratios[name]), min(ratios, key=lambda n: ratios[n])
    return {
        "largest_ratio": {"estimator": most, "first_to_last": ratios[most]},
        "smallest_ratio": {"estimator": least, "first_to_last": ratios[least]},
    }


def run_validate(
    city: Path, domain: str, runs: Path, *, scenarios: bool, seed: int
) -> dict[str, Any]:
    """Score every estimator against the truth of a synthetic city."""
    from parity311.reporting.validation import validate_city

    records = open_records(city)
    config = {"city": city, "domain": domain, "scenarios": scenarios, "seed": seed}
    with start_run(runs, "reporting validate", config) as run:
        run.add_data(city.name, records.fingerprint, is_synthetic=True)
        run.set_seeds(draws=seed)
        result = validate_city(city, domain, scenarios=scenarios, seed=seed)
        for part in ("estimators", "refusals"):
            result[part] = [asdict(row) for row in result[part]]
        run.add_metrics(result)
        pages.write_validation(run, result)
    return {"run": run.id, "report": str(run.final_path / "report.html"), **result}
