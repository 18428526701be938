"""Reports from a user's own CSV: one row per report, no city needed.

Columns: ``incident_id``, ``reported_at``, ``area``; optional ``ended_at`` (closing or inspection,
whichever came first), ``opened_at`` (when the incident began, where known), ``report_id``,
``category``; ``borough`` (a larger district), ``households`` and ``income_quintile`` of the area;
every other column is a number: a covariate of the area where all rows of every area agree, else of
the incident (used by `reporting regress` only). A second CSV may list the areas instead (``area``
and the same columns), so that areas nobody reported from are estimated as well.
docs/how-to/estimate-from-your-own-reports.md has an example.

What comes out does not depend on the order of rows. Rows with one ``report_id`` are one report, at
its earliest time; an incident ends at the earliest end that any of its rows gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from parity311.errors import InputError
from parity311.reporting.areas import Areas
from parity311.reporting.own_csv import (
    area_ids,
    is_empty,
    read_days,
    read_numbers,
    read_table,
    refuse,
    texts_of,
)
from parity311.reporting.settings import InspectionSample
from parity311.reporting.table import (
    MAX_EXPOSURE_DAYS,
    MIN_PATTERN_INCIDENTS,
    WINDOW_DAYS,
    ReportTable,
    count_windows,
    group_patterns,
)
from parity311.reporting.weekly import count_weekly

REQUIRED = ("incident_id", "reported_at", "area")
TIMES = ("reported_at", "ended_at", "opened_at")
KNOWN = (*REQUIRED, "ended_at", "opened_at", "report_id", "category", "borough")
AREA_NUMBERS = ("households", "income_quintile")
INSPECTED = ("area", "n_found", "n_reported")
FIRST_DAY = date(1970, 1, 1)


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
    borough: np.ndarray
    """Empty where not given."""
    notes: tuple[str, ...] = ()
    """How dates were read, where that is to be said."""

    def in_order(self) -> OwnReports:
        """The same rows by time, incident, request …, in whatever order they came."""
        report = np.zeros(len(self.incident)) if self.report is None else self.report
        keys = (self.opened_day, self.ended_day, self.category, self.area, report, self.incident)
        order = np.lexsort((*keys, self.reported_day))
        return replace(
            self,
            incident=self.incident[order],
            area=self.area[order],
            category=self.category[order],
            reported_day=self.reported_day[order],
            ended_day=self.ended_day[order],
            opened_day=self.opened_day[order],
            report=None if self.report is None else self.report[order],
            covariates={name: values[order] for name, values in self.covariates.items()},
            borough=self.borough[order],
        )


@dataclass(frozen=True)
class GivenAreas:
    """A checked CSV of areas."""

    name: np.ndarray
    numbers: dict[str, np.ndarray]
    borough: np.ndarray


def read_own_reports(path: Path, *, day_first: bool | None = None) -> OwnReports:
    """Read and check a CSV; an error names row (the header is row 1) and column.

    ``day_first`` says how dates like 03/04/2024 are read, where no date in the file tells.
    """
    rows = read_table(path, REQUIRED, (*KNOWN, *AREA_NUMBERS), "report")
    for name in ("incident_id", "area"):
        refuse(path, name, rows[name], is_empty(rows[name]), "may not be empty")
    days, notes = read_days(path, rows, TIMES, "reported_at", day_first)
    return OwnReports(
        incident=texts_of(rows["incident_id"]),
        area=area_ids(rows),
        category=_texts_if_any(rows, "category"),
        reported_day=days["reported_at"],
        ended_day=days["ended_at"],
        opened_day=days["opened_at"],
        report=texts_of(rows["report_id"]) if "report_id" in rows.column_names else None,
        covariates=_read_columns(path, rows),
        borough=_texts_if_any(rows, "borough"),
        notes=tuple(f"{note[0].upper()}{note[1:]}." for note in notes),
    )


def read_own_areas(path: Path) -> GivenAreas:
    """Read and check a CSV of areas: their names, and their numeric columns."""
    rows = read_table(path, ("area",), ("area", "borough", *AREA_NUMBERS), "area")
    refuse(path, "area", rows["area"], is_empty(rows["area"]), "may not be empty")
    names = area_ids(rows)
    first = np.unique(names, return_index=True)[1]
    repeated = np.ones(len(names), dtype=bool)
    repeated[first] = False
    refuse(path, "area", rows["area"], repeated, "every area may stand in one row only")
    return GivenAreas(names, _read_columns(path, rows), _texts_if_any(rows, "borough"))


def _read_columns(path: Path, rows: pa.Table) -> dict[str, np.ndarray]:
    """Every column that is a number; quintiles must be such."""
    found = {
        name: read_numbers(path, rows, name) for name in rows.column_names if name not in KNOWN
    }
    name = "income_quintile"
    if name in found:
        bad = ~np.isnan(found[name]) & ~np.isin(found[name], np.arange(6))
        refuse(path, name, rows[name], bad, "expected 1 to 5, or nothing where it is not known")
    return found


def _texts_if_any(rows: pa.Table, name: str) -> np.ndarray:
    return texts_of(rows[name]) if name in rows.column_names else np.full(rows.num_rows, "")


def read_inspections(path: Path, areas: Areas) -> InspectionSample:
    """Read a CSV of random inspections: area, n_found, n_reported (of those found, ever)."""
    rows = read_table(path, INSPECTED, INSPECTED, "inspected area")
    index, known = areas.match(area_ids(rows))
    refuse(path, "area", rows["area"], ~known, "it must be an area of the reports or records")
    counts = []
    for name in INSPECTED[1:]:
        values = read_numbers(path, rows, name)
        bad = ~(values >= 0) | (values != np.round(values))
        refuse(path, name, rows[name], bad, "expected a whole number, 0 or more")
        counts.append(values)
    refuse(path, "n_reported", rows["n_reported"], counts[1] > counts[0], "more than n_found")
    return InspectionSample(index, counts[0], counts[1])


def reports_from_own(
    own: OwnReports,
    *,
    date_from: date | None = None,
    date_to: date | None = None,
    max_exposure_days: float = MAX_EXPOSURE_DAYS,
    window_days: int = WINDOW_DAYS,
    given_areas: GivenAreas | None = None,
    takes_incident_covariates: bool = False,
    least_of_category: int = MIN_PATTERN_INCIDENTS,
) -> tuple[ReportTable, Areas]:
    """Build the table and the areas of a user's own reports.

    Every area of the file, or of ``given_areas``, has a row. Repeated request ids count once;
    reports before their incident opened are left out; an incident that ended before its first
    report keeps its place among the reported ones and says nothing about the rate. Each of these is
    counted in ``left_out``. Columns that differ between incidents of an area are refused unless
    ``takes_incident_covariates``; then they are in the table, by its incidents. Categories with
    fewer than ``least_of_category`` incidents are put together.
    """
    own = own.in_order()
    of_area, of_incident = _sort_covariates(own, given_areas)
    if of_incident and given_areas is None and not takes_incident_covariates:
        raise InputError(_varies(own, of_incident[0]))
    keep, left_out, notes = _usable(own)
    date_from = date_from or FIRST_DAY + timedelta(days=int(own.reported_day[keep].min()))
    date_to = date_to or FIRST_DAY + timedelta(days=int(own.reported_day[keep].max()) + 1)
    n_windows = count_windows(date_from, date_to, window_days)
    start, stop = ((day - FIRST_DAY).days for day in (date_from, date_to))
    listed = own.area if given_areas is None else np.concatenate([given_areas.name, own.area])
    names, place_of = np.unique(listed, return_inverse=True)
    area_of_row = place_of[len(listed) - len(own.area) :]
    keep &= own.reported_day < stop
    left_out["after the last date"] = int((own.reported_day >= stop).sum())
    rows = np.flatnonzero(keep)
    # Rows are in the order of time, so a stable sort leaves an incident's first report first.
    rows = rows[np.argsort(own.incident[rows], kind="stable")]
    if len(rows) == 0:
        raise InputError(f"No report lies before {date_to}; choose later dates.")
    incident = np.unique(own.incident[rows], return_inverse=True)[1]
    heads = np.flatnonzero(np.diff(incident, prepend=-1))
    opens = own.reported_day[rows[heads]]
    ended = _earliest_end(own, own.incident[rows[heads]])
    closes = np.fmin(np.fmin(ended, opens + max_exposure_days), stop)
    closes = np.maximum(closes, opens)
    left_out["ended before the first report: not used for the rate"] = int((ended < opens).sum())
    day = own.reported_day[rows]
    within = day <= closes[incident]
    n_further = np.bincount(incident, within, minlength=len(heads)) - 1
    last = np.maximum.reduceat(np.where(within, day, -np.inf), heads)
    inside = opens >= start
    left_out["first reported before the first date"] = int((~inside).sum())
    patterns, pattern = group_patterns(own.category[rows[heads]][inside], least_of_category)
    shape = (len(names), n_windows)
    in_dates = day >= start
    window = ((day - start) // window_days).astype(np.int64)
    n_reports, n_duplicates = np.zeros(shape), np.zeros(shape)
    is_first = np.zeros(len(rows), dtype=bool)
    is_first[heads] = True
    place = (area_of_row[rows][in_dates], window[in_dates])
    np.add.at(n_reports, place, 1.0)
    np.add.at(n_duplicates, place, (~is_first)[in_dates].astype(np.float64))
    if given_areas is not None:
        notes += _notes_on_areas(own, given_areas)
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
        notes=(*own.notes, *notes),
        covariates={
            name: own.covariates[name][rows[heads]][inside]
            for name in of_incident
            if takes_incident_covariates
        },
        weekly=count_weekly(
            area_of_row[rows][in_dates],
            (day - start)[in_dates],
            incident[in_dates],
            n_areas=len(names),
            n_days=(date_to - date_from).days,
        ),
    )
    if given_areas is None:
        columns = {name: own.covariates[name] for name in of_area}
        return table, _areas_of(columns, own.borough, names, area_of_row)
    of_listed = place_of[: len(given_areas.name)]
    return table, _areas_of(given_areas.numbers, given_areas.borough, names, of_listed)


def _earliest_end(own: OwnReports, incidents: np.ndarray) -> np.ndarray:
    """The earliest end that any row of each incident gives, repeated requests included."""
    names, place = np.unique(own.incident, return_inverse=True)
    ended = np.full(len(names), np.nan)
    np.fmin.at(ended, place, own.ended_day)
    return ended[np.searchsorted(names, incidents)]


def _usable(own: OwnReports) -> tuple[np.ndarray, dict[str, int], tuple[str, ...]]:
    """Rows to use, how many are not by reason, and what is to be said of the others."""
    keep = np.ones(len(own.incident), dtype=bool)
    left_out: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    if own.report is not None:
        first, of_first = np.unique(own.report, return_index=True, return_inverse=True)[1:]
        repeated = own.report != ""
        repeated[first] = False
        elsewhere = repeated & (own.incident != own.incident[first[of_first]])
        left_out["request id repeated"] = int((repeated & ~elsewhere).sum())
        reason = "request id repeated under another incident: counted with the earliest"
        left_out[reason] = int(elsewhere.sum())
        keep &= ~repeated
    else:
        notes = _drop_joined(own, keep, left_out)
    early = own.reported_day < own.opened_day
    left_out["reported before the incident opened"] = int((early & keep).sum())
    keep &= ~early
    if not keep.any():
        raise InputError(
            "Every row is a repeated request or a report before its incident opened; correct "
            "report_id or opened_at."
        )
    return keep, left_out, notes


def _drop_joined(own: OwnReports, keep: np.ndarray, left_out: dict[str, int]) -> tuple[str, ...]:
    """Notice rows that a join multiplied, where no request id tells.

    Two reports of one incident at one second are rarer than a join; on one day they are not.
    """
    place = np.unique(own.incident, return_inverse=True)[1]
    moments, moment = np.unique(own.reported_day, return_inverse=True)
    first = np.unique(place.astype(np.int64) * len(moments) + moment, return_index=True)[1]
    repeated = np.ones(len(keep), dtype=bool)
    repeated[first] = False
    if not repeated.any():
        return ()
    if np.any(own.reported_day != np.round(own.reported_day)):
        left_out["same incident and time, and no report_id: taken as one report"] = int(
            repeated.sum()
        )
        keep &= ~repeated
        return ()
    return (
        f"{int(repeated.sum()):,} of {len(keep):,} rows repeat the incident and day of another and "
        "count as reports of their own; if they come from a join, give report_id.",
    )


def _sort_covariates(own: OwnReports, given: GivenAreas | None) -> tuple[list[str], list[str]]:
    """Columns that are the same in all rows of every area, and those that are not.

    Where areas are listed in a file of their own, no column of the reports is the areas'.
    """
    _, area = np.unique(own.area, return_inverse=True)
    varying = [name for name, values in own.covariates.items() if _differs(values, area) >= 0]
    if given is not None:
        return [], [name for name in varying if name not in given.numbers]
    return [name for name in own.covariates if name not in varying], varying


def _differs(values: np.ndarray, group: np.ndarray) -> int:
    """The first group with two values; −1 where there is none."""
    known = np.isfinite(values)
    low, high = np.full((2, int(group.max()) + 1), np.nan)
    np.fmin.at(low, group[known], values[known])
    np.fmax.at(high, group[known], values[known])
    found = np.flatnonzero(low < high)
    return int(found[0]) if len(found) else -1


def _varies(own: OwnReports, name: str) -> str:
    names, area = np.unique(own.area, return_inverse=True)
    place = _differs(own.covariates[name], area)
    values = own.covariates[name][area == place]
    low, high = np.nanmin(values), np.nanmax(values)
    return (
        f"Column {name!r} has {low:g} and {high:g} in area {str(names[place])!r}, and an estimate "
        "takes covariates of areas only; leave the column out, use `reporting regress`, which "
        "takes covariates of incidents, or list the areas with --areas."
    )


def _notes_on_areas(own: OwnReports, given: GivenAreas) -> tuple[str, ...]:
    """What is to be said where areas are listed in a file of their own."""
    notes = []
    absent = int((~np.isin(np.unique(own.area), given.name)).sum())
    if absent:
        notes.append(
            f"{absent} areas with reports are not in the list of areas: covariates unknown."
        )
    if own.covariates:
        notes.append(
            f"Columns {', '.join(own.covariates)} of the reports are not used: the areas have "
            "their own file."
        )
    return tuple(notes)


def _areas_of(
    columns: dict[str, np.ndarray], boroughs: np.ndarray, names: np.ndarray, area_of_row: np.ndarray
) -> Areas:
    """Areas with the one value that every covariate has over their rows."""
    n = len(names)

    def value(values: np.ndarray) -> np.ndarray:
        found = np.full(n, np.nan)
        np.fmax.at(found, area_of_row, values)
        return found

    covariates = {name: value(values) for name, values in columns.items()}
    households = covariates.pop("households", np.ones(n))
    quintile = covariates.pop("income_quintile", np.zeros(n))
    borough = np.full(n, "", dtype=object)
    for place, name in zip(area_of_row, boroughs, strict=True):
        if name and borough[place] not in ("", name):
            raise InputError(
                f"Area {str(names[place])!r} lies in borough {str(borough[place])!r} and in "
                f"{str(name)!r}; give every area one."
            )
        borough[place] = name or borough[place]
    return Areas(
        geoid=names.astype(object),
        borough=borough,
        households=np.nan_to_num(households, nan=1.0),
        income_quintile=np.nan_to_num(quintile).astype(np.int64),
        covariates=covariates,
        edges=np.zeros((0, 2), dtype=np.int64),
    )
