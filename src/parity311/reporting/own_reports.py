"""Reports from a user's own CSV: one row per report, no city needed.

Columns: ``incident_id``, ``reported_at``, ``area``; optional ``ended_at`` (closing or inspection,
whichever came first), ``opened_at`` (when the incident began, where known), ``report_id``,
``category``, ``households`` and ``income_quintile`` of the area; every other column is a numeric
covariate of the area. A second CSV may list the areas instead (``area`` and the same columns), so
that areas nobody reported from are estimated as well.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from parity311.errors import InputError, RecordsError
from parity311.records.sql import connect, files, identifier, literal
from parity311.reporting.areas import Areas
from parity311.reporting.settings import InspectionSample
from parity311.reporting.table import (
    MAX_EXPOSURE_DAYS,
    WINDOW_DAYS,
    ReportTable,
    count_windows,
    group_patterns,
)

REQUIRED = ("incident_id", "reported_at", "area")
TIMES = ("reported_at", "ended_at", "opened_at")
KNOWN = (*REQUIRED, "ended_at", "opened_at", "report_id", "category")
INSPECTED = ("area", "n_found", "n_reported")
FIRST_DAY = date(1970, 1, 1)
OPTIONS = "header = true, auto_detect = false, delim = ',', quote = '\"'"
"""How a CSV is read; its columns are text."""


@dataclass(frozen=True)
class OwnReports:
    """A checked CSV as arrays over its rows."""

    incident: np.ndarray
    area: np.ndarray
    category: np.ndarray
    reported_day: np.ndarray
    """Days since 1970."""
    ended_day: np.ndarray
    """NaN where not given."""
    opened_day: np.ndarray
    report: np.ndarray | None
    covariates: dict[str, np.ndarray]


def read_own_reports(path: Path) -> OwnReports:
    """Read and check a CSV; an error names row (the header is row 1) and column."""
    rows = _read_csv(path, REQUIRED, "report")
    for name in ("incident_id", "area"):
        _refuse(path, name, rows[name], _is_empty(rows[name]), "may not be empty")
    days = {name: _read_days(path, rows, name) for name in TIMES}
    n = rows.num_rows
    return OwnReports(
        incident=_texts(rows["incident_id"]),
        area=_texts(rows["area"]),
        category=_texts(rows["category"]) if "category" in rows.column_names else np.full(n, ""),
        reported_day=days["reported_at"],
        ended_day=days["ended_at"],
        opened_day=days["opened_at"],
        report=_texts(rows["report_id"]) if "report_id" in rows.column_names else None,
        covariates={
            name: _read_numbers(path, rows, name) for name in rows.column_names if name not in KNOWN
        },
    )


def read_own_areas(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Read and check a CSV of areas: their names, and their numeric columns."""
    rows = _read_csv(path, ("area",), "area")
    _refuse(path, "area", rows["area"], _is_empty(rows["area"]), "may not be empty")
    names = _texts(rows["area"])
    first = np.unique(names, return_index=True)[1]
    repeated = np.ones(len(names), dtype=bool)
    repeated[first] = False
    _refuse(path, "area", rows["area"], repeated, "every area may stand in one row only")
    columns = [name for name in rows.column_names if name != "area"]
    return names, {name: _read_numbers(path, rows, name) for name in columns}


def read_inspections(path: Path, areas: Areas) -> InspectionSample:
    """Read a CSV of random inspections: area, n_found, n_reported (of those found, ever)."""
    rows = _read_csv(path, INSPECTED, "inspected area")
    index, known = areas.match(_texts(rows["area"]))
    _refuse(path, "area", rows["area"], ~known, "it must be an area of the reports or records")
    counts = []
    for name in INSPECTED[1:]:
        values = _read_numbers(path, rows, name)
        bad = ~(values >= 0) | (values != np.round(values))
        _refuse(path, name, rows[name], bad, "expected a whole number, 0 or more")
        counts.append(values)
    _refuse(path, "n_reported", rows["n_reported"], counts[1] > counts[0], "more than n_found")
    return InspectionSample(index, counts[0], counts[1])


def _read_csv(path: Path, required: tuple[str, ...], what: str) -> pa.Table:
    """Read a CSV as text; one line that says what is wrong where it cannot be."""
    if not path.is_file():
        raise RecordsError(f"There is no file {path}; give the path of a CSV, one row per {what}.")
    if path.stat().st_size == 0:
        raise RecordsError(f"{path} is empty; write one header row and one row per {what}.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = [name.strip() for name in next(csv.reader(file))]
        if len(set(header)) < len(header):
            raise RecordsError(f"{path}, row 1: a column is named twice; rename one of them.")
        if any("\n" in name or "\r" in name for name in header):
            raise RecordsError(
                f"{path}, row 1: a column name has a line break; rename that column."
            )
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header)
        with connect() as connection:
            rows = connection.sql(
                f"SELECT * FROM read_csv({files([path])}, columns = {{{columns}}}, {OPTIONS})"
            ).to_arrow_table()
    except (duckdb.Error, UnicodeDecodeError, csv.Error, StopIteration) as error:
        place = re.search(r"Line: (\d+)", str(error))
        where = f", row {place[1]}" if place else ""
        raise RecordsError(
            f"{path}{where} cannot be read as CSV; write one header row and one row per {what}, "
            "separated by commas, with as many values as the header, in UTF-8."
        ) from error
    missing = [name for name in required if name not in rows.column_names]
    if missing:
        raise RecordsError(
            f"{path} has no column {missing[0]!r}; it has {', '.join(rows.column_names)}, and "
            f"needs {', '.join(required)}. Rename or add it."
        )
    if rows.num_rows == 0:
        raise RecordsError(f"{path} has a header and no rows; give at least one {what}.")
    return rows


def _texts(column: pa.ChunkedArray) -> np.ndarray:
    return np.array([value or "" for value in column.to_pylist()], dtype=str)


def _is_empty(column: pa.ChunkedArray) -> np.ndarray:
    return np.array([not (value or "").strip() for value in column.to_pylist()])


def _refuse(path: Path, name: str, column: pa.ChunkedArray, bad: np.ndarray, allowed: str) -> None:
    found = np.flatnonzero(bad)
    if len(found):
        row = int(found[0])
        raise RecordsError(
            f"{path}, row {row + 2}, column {name!r}: {column[row].as_py()!r} is not allowed, "
            f"{allowed} ({len(found)} such rows). Correct the rows or leave them out."
        )


def _read_days(path: Path, rows: pa.Table, name: str) -> np.ndarray:
    """Days since 1970 of a column of times; NaN where empty or where there is no such column."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, np.nan)
    with connect() as connection:
        connection.register("given", rows.select([name]))
        days = connection.sql(
            f"SELECT epoch(TRY_CAST({identifier(name)} AS TIMESTAMP)) / 86400.0 AS day FROM given"
        ).fetchnumpy()["day"]
    days = np.ma.filled(np.ma.asarray(days, dtype=np.float64), np.nan)
    empty = _is_empty(rows[name])
    bad = np.isnan(days) & (~empty if name != "reported_at" else np.ones(len(days), dtype=bool))
    _refuse(path, name, rows[name], bad, "expected a time like 2025-03-01 14:30")
    return days


def _read_numbers(path: Path, rows: pa.Table, name: str) -> np.ndarray:
    values = np.full(rows.num_rows, np.nan)
    bad = np.zeros(rows.num_rows, dtype=bool)
    for row, value in enumerate(rows[name].to_pylist()):
        if value is None or not value.strip():
            continue
        try:
            values[row] = float(value)
        except ValueError:
            bad[row] = True
    _refuse(path, name, rows[name], bad, "expected a number (covariate of the area)")
    return values


def reports_from_own(
    own: OwnReports,
    *,
    date_from: date | None = None,
    date_to: date | None = None,
    max_exposure_days: float = MAX_EXPOSURE_DAYS,
    window_days: int = WINDOW_DAYS,
    given_areas: tuple[np.ndarray, dict[str, np.ndarray]] | None = None,
) -> tuple[ReportTable, Areas]:
    """Build the table and the areas of a user's own reports.

    Every area of the file, or of ``given_areas``, has a row. Repeated request ids count once;
    reports before their incident opened are left out; an incident that ended before its first
    report keeps its place among the reported ones and says nothing about the rate. Each of these is
    counted in ``left_out``.
    """
    keep, left_out = _usable(own)
    date_from = date_from or FIRST_DAY + timedelta(days=int(own.reported_day[keep].min()))
    date_to = date_to or FIRST_DAY + timedelta(days=int(own.reported_day[keep].max()) + 1)
    n_windows = count_windows(date_from, date_to, window_days)
    start, stop = ((day - FIRST_DAY).days for day in (date_from, date_to))
    listed = own.area if given_areas is None else np.concatenate([given_areas[0], own.area])
    names, place_of = np.unique(listed, return_inverse=True)
    area_of_row = place_of[len(listed) - len(own.area) :]
    keep &= own.reported_day < stop
    left_out["after the last date"] = int((own.reported_day >= stop).sum())
    rows = np.flatnonzero(keep)
    rows = rows[np.lexsort((own.reported_day[rows], own.incident[rows]))]
    if len(rows) == 0:
        raise InputError(f"No report lies before {date_to}; choose later dates.")
    incident = np.unique(own.incident[rows], return_inverse=True)[1]
    heads = np.flatnonzero(np.diff(incident, prepend=-1))
    opens = own.reported_day[rows[heads]]
    ended = np.fmin.reduceat(own.ended_day[rows], heads)
    closes = np.fmin(np.fmin(ended, opens + max_exposure_days), stop)
    closes = np.maximum(closes, opens)
    left_out["ended before the first report: not used for the rate"] = int((ended < opens).sum())
    day = own.reported_day[rows]
    within = day <= closes[incident]
    n_further = np.bincount(incident, within, minlength=len(heads)) - 1
    last = np.maximum.reduceat(np.where(within, day, -np.inf), heads)
    inside = opens >= start
    left_out["first reported before the first date"] = int((~inside).sum())
    patterns, pattern = group_patterns(own.category[rows[heads]][inside])
    shape = (len(names), n_windows)
    in_dates = day >= start
    window = ((day - start) // window_days).astype(np.int64)
    n_reports, n_duplicates = np.zeros(shape), np.zeros(shape)
    is_first = np.zeros(len(rows), dtype=bool)
    is_first[heads] = True
    place = (area_of_row[rows][in_dates], window[in_dates])
    np.add.at(n_reports, place, 1.0)
    np.add.at(n_duplicates, place, (~is_first)[in_dates].astype(np.float64))
    table = ReportTable(
        area=area_of_row[rows[heads]][inside],
        first_report_day=(opens - start)[inside],
        n_further=np.maximum(n_further, 0)[inside].astype(np.int64),
        last_delay_days=np.maximum(last - opens, 0.0)[inside],
        exposure_days=(closes - opens)[inside],
        found_ended=np.zeros(int(inside.sum()), dtype=bool),
        called_until_days=(closes - opens)[inside],
        pattern=pattern,
        patterns=patterns,
        weight=np.ones(int(inside.sum())),
        count_sd=np.zeros(len(names)),
        n_reports=n_reports,
        n_duplicates=n_duplicates,
        date_from=date_from,
        date_to=date_to,
        window_days=window_days,
        left_out={reason: n for reason, n in left_out.items() if n},
    )
    if given_areas is None:
        return table, _areas_of(own.covariates, names, area_of_row)
    n_listed = len(given_areas[0])
    absent = int((~np.isin(np.unique(own.area), given_areas[0])).sum())
    if absent:
        note = f"{absent} areas with reports are not in the list of areas: covariates unknown."
        table = replace(table, notes=(*table.notes, note))
    return table, _areas_of(given_areas[1], names, place_of[:n_listed])


def _usable(own: OwnReports) -> tuple[np.ndarray, dict[str, int]]:
    """Rows to use, and how many are not by reason."""
    keep = np.ones(len(own.incident), dtype=bool)
    left_out = {}
    if own.report is not None:
        first = np.unique(own.report, return_index=True)[1]
        repeated = np.ones(len(keep), dtype=bool)
        repeated[first] = False
        repeated &= own.report != ""
        left_out["request id repeated"] = int(repeated.sum())
        keep &= ~repeated
    early = own.reported_day < own.opened_day
    left_out["reported before the incident opened"] = int((early & keep).sum())
    keep &= ~early
    if not keep.any():
        raise InputError(
            "Every row is a repeated request or a report before its incident opened; correct "
            "report_id or opened_at."
        )
    return keep, left_out


def _areas_of(columns: dict[str, np.ndarray], names: np.ndarray, area_of_row: np.ndarray) -> Areas:
    """Areas with the mean of every covariate over their rows."""

    def mean(values: np.ndarray) -> np.ndarray:
        known = np.isfinite(values)
        total = np.bincount(area_of_row[known], values[known], minlength=len(names))
        count = np.bincount(area_of_row[known], minlength=len(names))
        return np.divide(total, count, out=np.full(len(names), np.nan), where=count > 0)

    covariates = {name: mean(values) for name, values in columns.items()}
    households = covariates.pop("households", np.ones(len(names)))
    quintile = covariates.pop("income_quintile", np.zeros(len(names)))
    return Areas(
        geoid=names.astype(object),
        borough=np.full(len(names), "", dtype=object),
        households=np.nan_to_num(households, nan=1.0),
        income_quintile=np.clip(np.nan_to_num(np.round(quintile)), 0, 5).astype(np.int64),
        covariates=covariates,
        edges=np.zeros((0, 2), dtype=np.int64),
    )
