"""A synthetic city beside the records it is modelled on: figures, pictures, a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from parity311.city.describe import describe_city
from parity311.records.store import Records, open_records
from parity311.report.pictures import (
    Axis,
    Cell,
    Panel,
    Point,
    profile_grid,
    scatter_plot,
    tract_map,
)
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.store import RunWriter, start_run

BUSY_MONTHS = 3
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def describe_and_draw(city: Path, runs: Path) -> dict[str, Any]:
    """Describe a city, draw what it looks like, and write both as a run."""
    description = describe_city(city)
    records = open_records(city)
    with start_run(runs, "city describe", {"city": city.name, **scenario(records)}) as run:
        add_city(run, records)
        run.add_metrics({"calibration": description["calibration"]})
        run.set_report(_report(run, records, description))
    return {"city": str(city), **description, "report": str(run.final_path / "report.html")}


def scenario(records: Records) -> dict[str, Any]:
    """What was asked of the generator, from the manifest."""
    names = ("preset", "seed", "participation", "capacity", "date_from", "date_to")
    return {name: records.manifest.get(name) for name in names}


def add_city(run: RunWriter, records: Records) -> None:
    """Record a synthetic city as the data of a run."""
    details = scenario(records)
    run.add_data(
        records.folder.name,
        records.fingerprint,
        is_synthetic=True,
        statement=(
            f"A synthetic city ({details['preset']}, seed {details['seed']}), with "
            f"{details['participation']} participation and {details['capacity']} capacity, "
            f"{details['date_from']} to {details['date_to']}. No real person or building is in it."
        ),
        **details,
    )


def _report(run: RunWriter, records: Records, description: dict[str, Any]) -> Report:
    judged = [row for row in description["calibration"] if row["ok"] is not None]
    n_ok = description["n_ok"]
    off = [row["name"] for row in judged if not row["ok"]]
    return Report(
        title="A synthetic city beside New York's records",
        summary=(
            f"{n_ok} of {len(judged)} figures lie within their tolerance of the published records.",
            "Off: " + "; ".join(off) + "." if off else "None is off.",
        ),
        figures=(
            KeyFigure("within tolerance", n_ok / len(judged), number_format="percent"),
            KeyFigure(
                "figures that come out of the process",
                sum(row["kind"] == "outcome" for row in judged),
                note="not parameters read back",
                number_format="integer",
            ),
        ),
        sections=(
            _calibration_section(run, description),
            _profile_section(run, records),
            _map_section(run, records),
        ),
    )


def _calibration_section(run: RunWriter, description: dict[str, Any]) -> Section:
    rows = description["calibration"]
    run.add_table("calibration", rows)
    shares = [
        Point(
            row["name"],
            row["target"],
            row["achieved"],
            group="within tolerance" if row["ok"] else "off",
            is_labelled=not row["ok"],
        )
        for row in rows
        if row["ok"] is not None and row["tolerance"].endswith("points")
    ]
    run.draw(
        "shares",
        scatter_plot,
        shares,
        title="Shares: the city against the records",
        x_axis=Axis("target", number_format="percent"),
        y_axis=Axis("achieved", number_format="percent"),
        equality_label="equal",
    )
    columns = (
        Column("name", "figure", number_format="text"),
        Column("target", "target"),
        Column("achieved", "achieved"),
        Column("tolerance", "tolerance", number_format="text"),
        Column("ok", "within", number_format="text"),
        Column("kind", "kind", number_format="text"),
        Column("source", "source", number_format="text"),
    )
    return Section(
        heading="Figures beside their targets",
        text=("Each figure of the city stands beside the one published for New York.",),
        pictures=(
            Picture(
                "shares",
                caption="Points on the line are equal; named ones lie outside their tolerance.",
                alt=f"{len(shares)} shares of the city against their targets.",
                table=TableView("calibration", columns, max_rows=200),
            ),
        ),
    )


def _profile_section(run: RunWriter, records: Records) -> Section:
    counts = records.sql("""
SELECT domain, month(received_at) AS month, count(*) AS n FROM complaints GROUP BY ALL
ORDER BY domain, month""").to_pylist()
    panels = []
    for domain in records.domains:
        months = np.zeros(12)
        for row in counts:
            if row["domain"] == domain:
                months[row["month"] - 1] = row["n"]
        panels.append(Panel(domain, {"complaints": list(months / max(months.sum(), 1))}))
    run.add_table("months", counts)
    run.draw(
        "months",
        profile_grid,
        panels,
        MONTHS,
        title="Complaints by month",
        axis=Axis("share of a domain's complaints", number_format="percent"),
    )
    view = TableView("months")
    picture = Picture(
        "months",
        caption=_say_seasons(panels),
        alt="Share of complaints by month for each domain.",
        table=view,
    )
    return Section(heading="The year, domain by domain", pictures=(picture,))


def _say_seasons(panels: list[Panel]) -> str:
    """Which domain's complaints crowd most into few months, and which least, as counted."""
    shares = {
        panel.title: sum(sorted(panel.values["complaints"], reverse=True)[:BUSY_MONTHS])
        for panel in panels
    }
    known = {name: share for name, share in shares.items() if share > 0}
    if not known:
        return "No complaint was counted."
    most, least = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
    return (
        f"In their {BUSY_MONTHS} busiest months: {known[most]:.0%} of the complaints of {most}, "
        f"the most seasonal, and {known[least]:.0%} of those of {least}, the least; a year without "
        f"seasons would have {BUSY_MONTHS / 12:.0%}."
    )


def _map_section(run: RunWriter, records: Records) -> Section:
    rows = records.sql("""
SELECT t.geoid, t.borough, t.longitude, t.latitude, t.median_income, t.income_quintile,
  1000.0 * count(c.complaint_id) / NULLIF(any_value(t.households), 0)
    AS complaints_per_1000_households
FROM tracts t LEFT JOIN complaints c ON c.tract = t.geoid AND c.domain = 'heat'
GROUP BY ALL ORDER BY t.geoid""").to_pylist()
    run.add_table("tracts", rows)
    pictures = []
    for name, title, caption in (
        ("median_income", "Median household income", "One mark a tract, at its place."),
        (
            "complaints_per_1000_households",
            "Heat complaints per 1,000 households",
            "Complaints by the place they come from; they show who reports as well as what fails.",
        ),
    ):
        cells = [
            Cell(row["longitude"], row["latitude"], _or_nan(row[name]), row["borough"])
            for row in rows
        ]
        run.draw(name, tract_map, cells, title=title, axis=Axis(title.lower()))
        view = TableView("tracts", max_rows=20)
        pictures.append(Picture(name, caption=caption, alt=f"Map: {title.lower()}.", table=view))
    return Section(heading="The map", pictures=tuple(pictures))


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
