"""Tables, pictures and pages of the reporting commands, written into a run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from parity311.report import pictures
from parity311.report.pictures import Axis, Cell, Reference, Series
from parity311.report.sections import Column, Picture, Report, Section, TableView
from parity311.report.store import RunWriter
from parity311.reporting.areas import Areas
from parity311.reporting.exposure_rate import WIDE
from parity311.reporting.incidents import INTERVAL, IncidentEstimate
from parity311.reporting.sensitivity import Band
from parity311.reporting.strata import StrataTotals
from parity311.reporting.table import ReportTable

PER = "incidents per 28 days"


def hash_file(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_estimate(
    run: RunWriter,
    areas: Areas,
    table: ReportTable,
    found: IncidentEstimate,
    totals: StrataTotals,
    band: Band | None,
) -> None:
    """Write estimates per area, area and window, and stratum, with a map and a ranked plot."""
    run.add_table("areas", _area_rows(areas, table, found, totals))
    run.add_table("area_windows", _area_window_columns(areas, table, found))
    run.add_table("strata_windows", _stratum_window_columns(table, totals))
    strata = _stratum_columns(table, totals, band)
    run.add_table("strata", strata)
    has_map = _draw_map(run, areas, found)
    run.draw(
        "ranked",
        pictures.ranked_plot,
        _stratum_estimates(strata),
        title="Estimated incidents by stratum",
        axis=Axis(PER, includes=(0.0,)),
    )
    run.set_report(_estimate_report(found, totals, band, table, has_map=has_map))


def _area_rows(
    areas: Areas, table: ReportTable, found: IncidentEstimate, totals: StrataTotals
) -> dict[str, Any]:
    scale = totals.windows_28d
    names = np.array(totals.strata.names, dtype=object)
    return {
        "area": list(areas.geoid),
        "stratum": list(names[totals.strata.of_area]),
        "complaints": table.n_reports.sum(axis=1) / scale,
        "reported_incidents": table.incidents_by_window().sum(axis=1) / scale,
        "rate_per_day": found.rate_per_day,
        "rate_se": found.rate_se,
        "reported_share": found.reported_share,
        "reported_share_se": found.reported_share_se,
        "estimated_incidents": found.incidents.sum(axis=1) / scale,
        "reason": [str(reason) for reason in found.reason],
    }


def _window_starts(table: ReportTable) -> list[Any]:
    step = timedelta(days=table.window_days)
    return [table.date_from + place * step for place in range(table.n_windows)]


def _area_window_columns(
    areas: Areas, table: ReportTable, found: IncidentEstimate
) -> dict[str, Any]:
    n_areas, n_windows = found.incidents.shape
    lower, upper = found.window_intervals()
    starts = np.array(_window_starts(table), dtype="datetime64[D]")
    return {
        "area": np.repeat(areas.geoid.astype(str), n_windows),
        "window_from": np.tile(starts, n_areas),
        "estimated_incidents": found.incidents.ravel(),
        "se": found.incidents_se.ravel(),
        "lower": lower.ravel(),
        "upper": upper.ravel(),
    }


def _stratum_window_columns(table: ReportTable, totals: StrataTotals) -> dict[str, Any]:
    n_windows, n_strata = totals.estimate.shape
    starts = np.array(_window_starts(table), dtype="datetime64[D]")
    return {
        "window_from": np.repeat(starts, n_strata),
        "stratum": list(totals.strata.names) * n_windows,
        "estimated_incidents": totals.estimate.ravel(),
        "lower": totals.lower.ravel(),
        "upper": totals.upper.ravel(),
    }


def _stratum_columns(table: ReportTable, totals: StrataTotals, band: Band | None) -> dict[str, Any]:
    scale = totals.windows_28d
    n = len(totals.strata.names)
    lower, upper = np.percentile(totals.draws_per_28_days, (5, 95), axis=0)

    def by_stratum(values: np.ndarray) -> np.ndarray:
        return np.bincount(totals.strata.of_area, values, minlength=n) / scale

    columns = {
        "stratum": list(totals.strata.names),
        "complaints": by_stratum(table.n_reports.sum(axis=1)),
        "reported_incidents": by_stratum(table.incidents_by_window().sum(axis=1)),
        "estimated_incidents": totals.per_28_days,
        "lower": lower,
        "upper": upper,
    }
    if band is not None:
        columns["band_lower"] = band.lower / scale
        columns["band_upper"] = band.upper / scale
    return columns


def _stratum_estimates(columns: dict[str, Any]) -> list[pictures.Estimate]:
    rows = zip(
        columns["stratum"],
        columns["estimated_incidents"],
        columns["lower"],
        columns["upper"],
        strict=True,
    )
    return [
        pictures.Estimate(f"stratum {name}", float(value), float(low), float(high))
        for name, value, low, high in rows
    ]


def _draw_map(run: RunWriter, areas: Areas, found: IncidentEstimate) -> bool:
    """Draw the map where positions and shares are known; whether it was drawn."""
    if areas.position is None or not np.isfinite(found.reported_share).any():
        return False
    cells = [
        Cell(float(longitude), float(latitude), float(share))
        for (longitude, latitude), share in zip(areas.position, found.reported_share, strict=True)
    ]
    run.draw(
        "map",
        pictures.tract_map,
        cells,
        title="Estimated share of incidents that somebody reports",
        axis=Axis("share reported", "percent"),
    )
    return True


STRATA_VIEW = TableView(
    "strata",
    (
        Column("stratum", "stratum", number_format="text"),
        Column("complaints", "complaints"),
        Column("reported_incidents", "reported incidents"),
        Column("estimated_incidents", "estimated incidents", lower="lower", upper="upper"),
    ),
    caption=f"All figures are per 28 days; 90 % intervals for {PER}.",
)


def _estimate_report(
    found: IncidentEstimate,
    totals: StrataTotals,
    band: Band | None,
    table: ReportTable,
    *,
    has_map: bool,
) -> Report:
    shown = [
        Picture(
            "ranked",
            caption="Estimated incidents with their 90 % interval, highest first.",
            alt="One row per stratum with a dot at the estimate and a line for the interval.",
            table=STRATA_VIEW,
        )
    ]
    if has_map:
        shown.append(
            Picture(
                "map",
                caption="Darker and larger: more of the incidents there are reported.",
                alt="A map of tracts by estimated share of incidents reported.",
                table=TableView("areas", max_rows=20),
            )
        )
    left_out = [f"{n} rows: {reason}." for reason, n in table.left_out.items()]
    sensitivity = (band.describe(),) if band is not None else ()
    return Report(
        title="From complaints to estimated incidents",
        summary=(
            say_total(totals, table.n_reports.sum() / totals.windows_28d),
            found.assumption,
        ),
        sections=(
            Section(
                "Estimated incidents by stratum",
                text=(found.assumption, *sensitivity),
                pictures=tuple(shown),
                notes=tuple(left_out),
            ),
        ),
    )


def say_total(totals: StrataTotals, complaints: float) -> str:
    """How many incidents stand behind the complaints; a range where that is all that is known."""
    total = float(totals.per_28_days.sum())
    lower, upper = np.percentile(totals.draws_per_28_days.sum(axis=1), INTERVAL)
    ends = f"{min(lower, total):,.0f} to {max(upper, total):,.0f}"
    behind = f"incidents per 28 days stand behind {complaints:,.0f} complaints"
    if upper >= WIDE * lower:
        return f"Anything from {ends} {behind}: no one number can be given."
    if upper == lower:
        return f"About {total:,.0f} {behind}."
    return f"About {total:,.0f} ({ends}) {behind}."


def write_comparison(
    run: RunWriter,
    rows: list[dict[str, Any]],
    strata: tuple[str, ...],
    notes: Sequence[str] = (),
) -> None:
    """Write every estimator's share by stratum and one picture of them side by side."""
    flat = [
        {"estimator": row["estimator"], **part}
        for row in rows
        if row["strata"] is not None
        for part in row["strata"]
    ]
    run.add_table("comparison", flat)
    series = [
        Series(
            row["estimator"],
            [
                pictures.Estimate(f"stratum {part['stratum']}", part["share"])
                for part in row["strata"]
                if part["share"] is not None
            ],
        )
        for row in rows
        if row["strata"] is not None
    ]
    run.draw(
        "shares",
        pictures.interval_plot,
        series,
        title="Share of all incidents that each estimator gives a stratum",
        axis=Axis("share of incidents", "percent", includes=(0.0,)),
    )
    failed = [f"{row['estimator']}: {row['reason']}" for row in rows if row["strata"] is None]
    run.set_report(
        Report(
            title="Estimators side by side",
            summary=(
                "The same reports, read by every estimator; what differs is what each assumes.",
                *notes,
            ),
            sections=(
                Section(
                    "Shares by stratum",
                    pictures=(
                        Picture(
                            "shares",
                            caption="How the estimators spread need over the strata.",
                            alt="One row per stratum with a mark for every estimator.",
                            table=TableView("comparison"),
                        ),
                    ),
                    notes=tuple(failed),
                ),
            ),
        )
    )


def write_validation(run: RunWriter, result: dict[str, Any]) -> None:
    """Write the scores of every estimator and a picture of their bias by quintile."""
    rows = []
    for row in result["estimators"]:
        plain = {
            key: row[key]
            for key in (
                "scenario",
                "estimator",
                "lifetime",
                "inspections",
                "ratio_error",
                "low_share_at_parity",
                "true_low_share",
                "coverage",
                "seconds",
            )
        }
        bias = {f"bias_{place + 1}": value for place, value in enumerate(row["bias_by_quintile"])}
        rows.append({**plain, **bias})
    run.add_table("scores", rows)
    in_city = [row for row in result["estimators"] if row["scenario"] == "city"]
    series = [
        Series(
            _name_of(row),
            [
                pictures.Estimate(f"quintile {place + 1}", value)
                for place, value in enumerate(row["bias_by_quintile"])
            ],
        )
        for row in in_city
        if row["estimator"] in ("exposure_rate", "as_published", "raw", "zero_truncated")
    ]
    run.draw(
        "bias",
        pictures.interval_plot,
        series,
        title="Relative error of estimated incidents by income quintile",
        axis=Axis("error", "percent", includes=(0.0,)),
        reference=Reference(0.0, "the truth"),
    )
    run.set_report(
        Report(
            title=f"Estimators against the truth: {result['domain']}",
            summary=(
                f"{result['n_true_incidents']:,} incidents happened, "
                f"{result['n_cases']:,} cases were opened.",
            ),
            sections=(
                Section(
                    "Error by income quintile",
                    pictures=(
                        Picture(
                            "bias",
                            caption="How far each estimator is from the truth.",
                            alt="One row per quintile with a mark for every estimator.",
                            table=TableView("scores"),
                        ),
                    ),
                    notes=(
                        *(f"{name}: {text}." for name, text in result["scenarios"].items()),
                        *(
                            f"No estimate by {row['estimator']} in {row['scenario']}: "
                            f"{row['reason']}"
                            for row in result["refusals"]
                        ),
                    ),
                ),
            ),
        )
    )


def _name_of(row: dict[str, Any]) -> str:
    """Estimator, with how it knows the lifetime where that matters."""
    if row["lifetime"] == "none":
        return row["estimator"]
    inspected = f", {row['inspections']:.0%} inspected" if row["inspections"] else ""
    return f"{row['estimator']} (lifetime {row['lifetime']}{inspected})"
