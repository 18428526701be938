"""Complaints on record as they stood when they came in: what a queue's policy would have seen.

Only what was known strictly before a report's own moment is read, apart from the report itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import LiteralString

import numpy as np

from parity311.errors import EstimationError
from parity311.records.cases import CASE_ID, KNOWN, STRATUM, column
from parity311.records.schema import SEVERITIES
from parity311.records.sql import identifier
from parity311.records.store import Records

DAYS_PER_MONTH = 365.25 / 12


@dataclass(frozen=True)
class RecordedReports:
    """Reports received in a period, (n,) each."""

    complaint_id: np.ndarray
    tract: np.ndarray
    severity: np.ndarray
    """code A … D"""
    code: np.ndarray
    """the same as a number, 0 = A"""
    stratum: np.ndarray
    units: np.ndarray
    flags: dict[str, np.ndarray]
    month: np.ndarray
    """0 = January"""
    day_of_year: np.ndarray
    """0 = 1 January, with the time of day"""
    n_earlier: np.ndarray
    """reports of the same case before this one"""
    n_waiting: np.ndarray
    """cases reported before it, and neither visited nor closed by then"""
    visits_per_day: np.ndarray
    """visits made per day in its month, before the period began"""


def read_reports(
    records: Records, domain: str, date_from: date, date_to: date, flags: tuple[str, ...]
) -> RecordedReports:
    """Read the reports of a domain received in [date_from, date_to), in order."""
    rows = records.sql(_reports_query(flags), domain=domain, date_from=date_from, date_to=date_to)
    if rows.num_rows == 0:
        raise EstimationError(
            f"{records.folder} has no report of {domain!r} from {date_from} to {date_to}; choose "
            f"dates within {records.window[0]} to {records.window[1]}."
        )
    received = rows["received_at"].to_numpy().astype("datetime64[s]")
    month = (received.astype("datetime64[M]").astype(np.int64)) % 12
    since = (received - received.astype("datetime64[Y]").astype("datetime64[s]")).astype(float)
    severity = np.asarray(rows["severity"].to_pylist(), dtype=str)
    return RecordedReports(
        complaint_id=np.asarray(rows["complaint_id"].to_pylist(), dtype=str),
        tract=np.asarray(rows["tract"].to_pylist(), dtype=str),
        severity=severity,
        code=np.searchsorted(SEVERITIES, severity),
        stratum=column(rows, "stratum", np.int64),
        units=column(rows, "units"),
        flags={flag: column(rows, flag, np.int64) for flag in flags},
        month=month,
        day_of_year=since / 86400.0,
        n_earlier=column(rows, "n_earlier", np.int64),
        n_waiting=_waiting(records, domain, date_to, received),
        visits_per_day=_visits_per_day(records, domain, date_from)[month],
    )


def _reports_query(flags: tuple[str, ...]) -> LiteralString:
    chosen = "".join(
        f", COALESCE(CAST(c.{flag} AS INT), 0) AS {flag}" for flag in map(identifier, flags)
    )
    return f"""
SELECT * FROM (
  SELECT c.complaint_id, c.tract, c.severity, c.received_at, COALESCE(b.units, 1) AS units{chosen},
    {STRATUM} AS stratum,
    row_number() OVER (PARTITION BY {CASE_ID}
      ORDER BY c.received_at, c.complaint_id) - 1 AS n_earlier
  FROM complaints c LEFT JOIN tracts t ON t.geoid = c.tract
    LEFT JOIN buildings b ON b.building_id = c.building_id
  WHERE {KNOWN})
WHERE received_at >= $date_from::TIMESTAMP ORDER BY received_at, complaint_id"""


def _waiting(records: Records, domain: str, date_to: date, at: np.ndarray) -> np.ndarray:
    """Cases that waited at each of these moments."""
    rows = records.sql(
        f"""
WITH cases AS (
  SELECT {CASE_ID} AS case_id, min(c.received_at) AS began,
    arg_min(o.closed_at, c.received_at) AS closed, min(v.visited_at) AS visited
  FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
    LEFT JOIN (SELECT complaint_id, min(visited_at) AS visited_at FROM visits GROUP BY 1) v
      USING (complaint_id)
  WHERE {KNOWN} GROUP BY 1)
SELECT began, LEAST(closed, visited) AS ended FROM cases""",
        domain=domain,
        date_to=date_to,
    )
    began, ended = (
        rows[name].drop_null().to_numpy().astype("datetime64[s]") for name in ("began", "ended")
    )
    return np.searchsorted(np.sort(began), at) - np.searchsorted(np.sort(ended), at)


def _visits_per_day(records: Records, domain: str, date_to: date) -> np.ndarray:
    """Visits per day by month of the year (12,), over the days before `date_to`."""
    rows = records.sql(
        """
SELECT month(v.visited_at) AS month, count(*) AS n,
  count(DISTINCT year(v.visited_at)) AS years
FROM visits v JOIN complaints c USING (complaint_id)
WHERE c.domain = $domain AND v.visited_at < $date_to::TIMESTAMP GROUP BY 1""",
        domain=domain,
        date_to=date_to,
    )
    found = np.full(12, np.nan)
    month = rows["month"].to_numpy() - 1
    years = rows["years"].to_numpy().astype(np.float64)
    found[month] = rows["n"].to_numpy().astype(np.float64) / (years * DAYS_PER_MONTH)
    typical = np.nanmean(found) if np.isfinite(found).any() else 1.0
    return np.where(np.isfinite(found), found, typical)
