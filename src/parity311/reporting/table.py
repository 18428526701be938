"""What an estimator sees: one row per reported incident, as the agency linked its reports."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np

from parity311.errors import EstimationError, InputError
from parity311.records.store import Records
from parity311.reporting.areas import Areas

WINDOW_DAYS = 28
"""The paper's rolling window: four weeks."""
MAX_EXPOSURE_DAYS = 100.0
"""Exposure is cut 100 days after the first report (Liu, Bhandaram and Garg; 30 and 200 are their
robustness checks)."""
MIN_EXPOSURE_DAYS = 0.1
"""Shorter exposures say nothing about the rate and are left out of its fit (same source)."""


@dataclass(frozen=True)
class ReportTable:
    """Reported incidents as arrays of length n_incidents, and reports per area and window."""

    area: np.ndarray
    """Index of the incident's area."""
    first_report_day: np.ndarray
    """Days from ``date_from`` to the first report."""
    n_further: np.ndarray
    """Reports after the first while the exposure lasted."""
    last_delay_days: np.ndarray
    """Days from the first to the last report within the exposure; 0 where there is only one."""
    exposure_days: np.ndarray
    """Days from the first report to the earliest of first visit, closing, 100 days, ``date_to``."""
    pattern: np.ndarray
    """Index into ``patterns``: what was known at intake that changes how often it is reported."""
    patterns: tuple[str, ...]
    n_reports: np.ndarray
    """(n_areas, n_windows) reports received."""
    n_duplicates: np.ndarray
    """(n_areas, n_windows) of those, reports of an incident that was already reported."""
    date_from: date
    date_to: date
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows of the source that are not used, by reason."""

    @property
    def n_incidents(self) -> int:
        """Number of reported incidents."""
        return len(self.area)

    @property
    def n_areas(self) -> int:
        """Number of areas, with or without reports."""
        return self.n_reports.shape[0]

    @property
    def n_windows(self) -> int:
        """Number of windows of 28 days that the dates touch."""
        return self.n_reports.shape[1]

    @property
    def n_days(self) -> float:
        """Days covered."""
        return float((self.date_to - self.date_from).days)

    @property
    def window(self) -> np.ndarray:
        """Window of every incident, by its first report."""
        return np.minimum(self.first_report_day // WINDOW_DAYS, self.n_windows - 1).astype(np.int64)

    @property
    def informs_rate(self) -> np.ndarray:
        """Incidents whose exposure is long enough to say something about the reporting rate."""
        return self.exposure_days > MIN_EXPOSURE_DAYS

    def incidents_by_window(self) -> np.ndarray:
        """Reported incidents, (n_areas, n_windows)."""
        flat = self.area.astype(np.int64) * self.n_windows + self.window
        counts = np.bincount(flat, minlength=self.n_areas * self.n_windows)
        return counts.reshape(self.n_areas, self.n_windows).astype(np.float64)

    def take(self, rows: np.ndarray) -> ReportTable:
        """The same table with these rows (in this order); reports per window stay as they are."""
        return replace(
            self,
            area=self.area[rows],
            first_report_day=self.first_report_day[rows],
            n_further=self.n_further[rows],
            last_delay_days=self.last_delay_days[rows],
            exposure_days=self.exposure_days[rows],
            pattern=self.pattern[rows],
        )


def count_windows(date_from: date, date_to: date) -> int:
    """Number of windows of 28 days that [date_from, date_to) touches."""
    n_days = (date_to - date_from).days
    if n_days <= 0:
        raise InputError(
            f"The dates run from {date_from} to {date_to}, which is no day at all; the second must "
            "be later."
        )
    return -(-n_days // WINDOW_DAYS)


def reports_from_records(
    records: Records,
    domain: str,
    areas: Areas,
    *,
    date_from: date | None = None,
    date_to: date | None = None,
    max_exposure_days: float = MAX_EXPOSURE_DAYS,
    by_pattern: tuple[str, ...] = ("severity",),
) -> ReportTable:
    """Collect the reported incidents of a domain first reported in [date_from, date_to).

    Exposure opens at the first report and closes at the earliest of the first visit, the closing,
    ``max_exposure_days`` later, and ``date_to``; nothing after ``date_to`` is read. A report whose
    source gives no incident is an incident of its own.
    """
    if domain not in records.domains:
        raise InputError(
            f"{records.folder} has no complaints of domain {domain!r}; it has "
            f"{', '.join(records.domains)}."
        )
    date_from = date_from or records.window[0]
    date_to = date_to or records.window[1]
    n_windows = count_windows(date_from, date_to)
    query = _incidents_query(domain, date_from, date_to, max_exposure_days, by_pattern)
    rows = records.sql(query)
    if rows.num_rows == 0:
        raise EstimationError(
            f"No complaints of {domain!r} were received from {date_from} to {date_to}; choose "
            f"dates within {records.window[0]} to {records.window[1]}."
        )
    codes = rows["tract"].to_numpy(zero_copy_only=False)
    area, known = match_areas(codes, areas)
    counts = records.sql(_reports_query(domain, date_from, date_to))
    n_reports, n_duplicates = _reports_by_window(counts, areas, n_windows)
    patterns, pattern = np.unique(
        rows["pattern"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True
    )

    def column(name: str) -> np.ndarray:
        return rows[name].to_numpy(zero_copy_only=False)[known]

    left_out = {"the tract is not in the tracts table": int((~known).sum())}
    return ReportTable(
        area=area[known],
        first_report_day=column("first_report_day").astype(np.float64),
        n_further=column("n_further").astype(np.int64),
        last_delay_days=column("last_delay_days").astype(np.float64),
        exposure_days=column("exposure_days").astype(np.float64),
        pattern=pattern[known],
        patterns=tuple(str(name) for name in patterns),
        n_reports=n_reports,
        n_duplicates=n_duplicates,
        date_from=date_from,
        date_to=date_to,
        left_out={reason: n for reason, n in left_out.items() if n},
    )


def _incidents_query(
    domain: str, date_from: date, date_to: date, max_exposure_days: float, by: tuple[str, ...]
) -> str:
    """SQL: one row per reported incident, with its exposure and the reports within it.

    A duplicate's own closing is clerical, so only closings of other classes end the exposure.
    """
    parts = " || '|' || ".join(f"CAST(arg_min(r.{name}, r.at) AS VARCHAR)" for name in by) or "''"
    return f"""
WITH r AS (
  SELECT c.*, COALESCE(c.incident_id, c.complaint_id) AS incident, c.received_at AS at,
    LEAST(o.first_visit_at, CASE WHEN o.disposition_class <> 'duplicate' THEN o.closed_at END)
      AS ended_at
  FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
  WHERE c.domain = '{domain}' AND c.received_at < TIMESTAMP '{date_to}'
), i AS (
  SELECT incident, min(at) AS first_at, arg_min(tract, at) AS tract, {parts} AS pattern,
    LEAST(min(ended_at), min(at) + INTERVAL {int(max_exposure_days * 86400)} SECOND,
      TIMESTAMP '{date_to}') AS closes_at
  FROM r GROUP BY incident HAVING min(at) >= TIMESTAMP '{date_from}'
)
SELECT any_value(i.tract) AS tract, any_value(i.pattern) AS pattern,
  epoch(any_value(i.first_at) - TIMESTAMP '{date_from}') / 86400.0 AS first_report_day,
  GREATEST(epoch(any_value(i.closes_at) - any_value(i.first_at)) / 86400.0, 0) AS exposure_days,
  GREATEST(count(*) FILTER (WHERE r.at <= i.closes_at) - 1, 0) AS n_further,
  COALESCE(epoch(max(r.at) FILTER (WHERE r.at <= i.closes_at) - any_value(i.first_at)), 0)
    / 86400.0 AS last_delay_days
FROM i JOIN r USING (incident) GROUP BY i.incident ORDER BY i.incident"""


def _reports_query(domain: str, date_from: date, date_to: date) -> str:
    return f"""
WITH r AS (
  SELECT tract, received_at,
    row_number() OVER (PARTITION BY COALESCE(incident_id, complaint_id)
      ORDER BY received_at, complaint_id) > 1 AS is_duplicate
  FROM complaints WHERE domain = '{domain}' AND received_at < TIMESTAMP '{date_to}'
)
SELECT tract, {window_query(date_from)} AS "window",
  count(*) AS n_reports, count(*) FILTER (WHERE is_duplicate) AS n_duplicates
FROM r WHERE received_at >= TIMESTAMP '{date_from}' GROUP BY ALL ORDER BY ALL"""


def window_query(date_from: date) -> str:
    """SQL for the window of 28 days that a report falls into."""
    return f"date_diff('day', TIMESTAMP '{date_from}', received_at) // {WINDOW_DAYS}"


def match_areas(codes: np.ndarray, areas: Areas) -> tuple[np.ndarray, np.ndarray]:
    """Index of every code among the areas, and whether it is one of them."""
    order = np.argsort(areas.geoid.astype(str))
    names = areas.geoid.astype(str)[order]
    place = np.searchsorted(names, codes.astype(str)).clip(max=len(names) - 1)
    known = names[place] == codes.astype(str)
    return order[place], known


def _reports_by_window(counts, areas: Areas, n_windows: int) -> tuple[np.ndarray, np.ndarray]:
    area, known = match_areas(counts["tract"].to_numpy(zero_copy_only=False), areas)
    window = counts["window"].to_numpy(zero_copy_only=False).astype(np.int64)
    shape = (areas.n_areas, n_windows)
    totals = []
    for name in ("n_reports", "n_duplicates"):
        total = np.zeros(shape)
        values = counts[name].to_numpy(zero_copy_only=False).astype(np.float64)
        np.add.at(total, (area[known], window[known]), values[known])
        totals.append(total)
    return totals[0], totals[1]
