"""What is promised and what is kept today, as a page: curves and tables over all requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parity311.number_text import in_days
from parity311.report.pictures import Axis, Estimate, Line, Series, interval_plot, line_chart
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.store import RunWriter

NEVER = "never in the days followed"
WAIT_COLUMNS = (
    Column("name", "", number_format="text"),
    Column("n", "requests", number_format="integer", reason="note"),
    Column("visited", "visited at all", lower="visited_lower", upper="visited_upper",
           number_format="percent", reason="note"),
    Column("median", "half within", number_format="text"),
    Column("p75", "three quarters within", number_format="text"),
    Column("p90", "nine in ten within", number_format="text"),
    Column("kept", "in time, by code", lower="kept_lower", upper="kept_upper",
           number_format="percent", reason="note"),
    Column("note", "note", number_format="text"),
)  # fmt: skip
WAYS = {
    "code": "By severity code",
    "category": "By category",
    "district": "By district",
    "stratum": "By income of the tract",
    "cell": "By category and district",
}


def page_name(*parts: str) -> str:
    """Name of a table or picture: letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9_]+", "-", "-".join(parts).lower().replace("_", "-")).strip("-")


def write_levels_page(run: RunWriter, found: Sequence[Mapping[str, Any]]) -> Report:
    """Store tables and pictures of measured domains and return the report that shows them."""
    return Report(
        title="Promised and kept: how long all requests wait",
        summary=tuple(_sentence(one) for one in found),
        figures=tuple(_figure(one) for one in found),
        sections=(*(_section(run, one) for one in found), _method()),
    )


def _sentence(one: Mapping[str, Any]) -> str:
    whole = one["whole"]
    worst = [row for row in one["rows"]["cell"] if row["kept"] is not None]
    said = (
        f"{_title(one)}: of {whole['n']:,} requests {whole['visited']:.0%} were visited within "
        f"{one['longest_days']} days, and {whole['kept']:.0%} of those that were due in the time "
        "their code promises."
    )
    if worst:
        last = min(worst, key=lambda row: row["kept"])
        said += f" Least in {last['name']}: {last['kept']:.0%}."
    return said


def _title(one: Mapping[str, Any]) -> str:
    return str(one["domain"]).replace("_", " ").capitalize()


def _figure(one: Mapping[str, Any]) -> KeyFigure:
    whole = one["whole"]
    return KeyFigure(
        f"{_title(one)}: visited in time, of all that were due",
        whole["kept"],
        interval=(whole["kept_lower"], whole["kept_upper"]),
        note=f"half of all requests within {whole['median']}",
        number_format="percent",
    )


def _section(run: RunWriter, one: Mapping[str, Any]) -> Section:
    pictures = [_curves(run, one, way) for way in ("district", "stratum")]
    pictures.append(_kept_picture(run, one))
    tables = []
    for way, heading in WAYS.items():
        name = page_name(one["domain"], "waits", way)
        run.add_table(name, one["rows"][way])
        tables.append(TableView(name, WAIT_COLUMNS, caption=heading))
    return Section(
        heading=_title(one),
        text=(_sentence(one),),
        pictures=tuple(pictures),
        tables=tuple(tables),
        notes=(
            f"{one['whole']['n_open']:,} requests had no visit when the records end; "
            f"{one['n_backwards']:,} were left out because their visit came before them. "
            f"Received from {one['date_from']} to {one['date_to']}.",
        ),
    )


def _curves(run: RunWriter, one: Mapping[str, Any], way: str) -> Picture:
    curves = one["curves"][way]
    days = list(range(len(next(iter(curves.values()))["share"])))
    lines = [
        Line(name, days, curve["share"], curve["lower"], curve["upper"])
        for name, curve in curves.items()
    ]
    name = page_name(one["domain"], "curve", way)
    title = f"{_title(one)}: share of ALL requests visited within so many days, {WAYS[way].lower()}"
    run.draw(
        name, line_chart, lines, title=title, x_axis=Axis("days since the first report"),
        y_axis=Axis("visited, of all requests", "percent", includes=(0.0, 1.0)),
    )  # fmt: skip
    return Picture(
        name,
        caption="A curve that stays low is not slow but silent: those requests are never visited.",
        alt=f"{len(lines)} rising curves; the table below has their quantiles.",
        table=TableView(page_name(one["domain"], "curve-figures", way)),
        title=title,
    )


def _kept_picture(run: RunWriter, one: Mapping[str, Any]) -> Picture:
    rows = one["rows"]["cell"]
    estimates = [
        Estimate(row["name"], _number(row["kept"]), _number(row["kept_lower"]),
                 _number(row["kept_upper"]), row["note"])
        for row in rows
    ]  # fmt: skip
    name = page_name(one["domain"], "kept")
    title = f"{_title(one)}: visited in the time the code promises, of all that were due"
    run.draw(
        name, interval_plot, [Series("kept", estimates)], title=title,
        axis=Axis("visited in time", "percent", includes=(0.0, 1.0)),
    )  # fmt: skip
    return Picture(
        name,
        caption="Below one half, most people of that place and kind wait longer than promised.",
        alt=f"{len(estimates)} cells with intervals; the table has every figure.",
        table=TableView(page_name(one["domain"], "waits", "cell"), WAIT_COLUMNS),
        title=title,
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def add_curve_tables(run: RunWriter, one: Mapping[str, Any]) -> None:
    """Store the curves themselves, one row a day and group."""
    for way, curves in one["curves"].items():
        rows = [
            {"group": name, "days": day, "share": curve["share"][day],
             "lower": curve["lower"][day], "upper": curve["upper"][day]}
            for name, curve in curves.items()
            for day in range(0, len(curve["share"]), 5)
        ]  # fmt: skip
        run.add_table(page_name(one["domain"], "curve-figures", way), rows)


def days_in_words(days: float, lower: float, upper: float) -> str:
    """A quantile with its interval; infinite is never."""
    if not np.isfinite(days):
        return f"{NEVER} (from {lower:.0f} days)" if np.isfinite(lower) else NEVER
    last = f"{upper:.0f}" if np.isfinite(upper) else "never"
    return f"{in_days(round(days))} ({lower:.0f} to {last})"


def _method() -> Section:
    return Section(
        heading="How this was counted",
        text=(
            "A request is a case: a first report and what was linked to it. Its clock runs from "
            "the first report to the first visit, in calendar days; being closed is no visit.",
            "Shares are of ALL requests: one that is open when the records end counts for as long "
            "as it was followed (Kaplan and Meier), one that was closed without a visit counts as "
            "never visited. Dropping the slow cannot make these figures better.",
            "In time: visited within the days of its severity code (A 1, B 40, C 60, D 90), of the "
            "requests for which these days had passed.",
        ),
        notes=(
            "Intervals are 95 %, with tracts drawn anew. Groups of fewer than 10 requests are not "
            "shown.",
        ),
    )
