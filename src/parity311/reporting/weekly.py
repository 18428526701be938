"""Reports by area and week, as the paper counts them: C, and D within a tract-week.

A duplicate there is a report of "an incident already logged in the same tract-week", so a call a
month after the first is none. Weeks run from the first day of the dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np

from parity311.records.cases import CASE_ID, KNOWN
from parity311.records.store import Records
from parity311.reporting.areas import Areas

WEEK_DAYS = 7

QUERY = f"""
WITH r AS (
  SELECT tract, {CASE_ID} AS incident,
    date_diff('day', $date_from::TIMESTAMP, received_at) // 7 AS "week"
  FROM complaints c WHERE {KNOWN} AND received_at >= $date_from::TIMESTAMP
)
SELECT tract, "week", count(*) AS n_reports, count(*) - count(DISTINCT incident) AS n_repeats
FROM r GROUP BY ALL ORDER BY ALL"""


@dataclass(frozen=True)
class WeeklyReports:
    """Counts of (n_areas, n_weeks); the last week may be cut by the last date."""

    n_reports: np.ndarray
    """C: reports received"""
    n_repeats: np.ndarray
    """D: of those, reports of an incident already logged in the same area and week"""

    def in_windows(self, n_weeks: int) -> tuple[np.ndarray, np.ndarray]:
        """C and D of every window of so many weeks, by the week that ends it: (n_areas, n_steps).

        Only whole windows count; where there is not one, all weeks are the window.
        """
        width = min(n_weeks, self.n_reports.shape[1])
        sums = []
        for counts in (self.n_reports, self.n_repeats):
            running = np.cumsum(np.pad(counts, ((0, 0), (1, 0))), axis=1)
            sums.append(running[:, width:] - running[:, :-width])
        return sums[0], sums[1]


def count_weekly(
    area: np.ndarray, day: np.ndarray, incident: np.ndarray, *, n_areas: int, n_days: int
) -> WeeklyReports:
    """Count reports (arrays of one row a report; days since the first date) by area and week."""
    week = (day // WEEK_DAYS).astype(np.int64)
    shape = (n_areas, -(-n_days // WEEK_DAYS))
    n_reports = np.zeros(shape)
    np.add.at(n_reports, (area, week), 1.0)
    n_incidents = np.zeros(shape)
    once = np.unique(np.column_stack([area, week, incident]), axis=0)
    np.add.at(n_incidents, (once[:, 0], once[:, 1]), 1.0)
    return WeeklyReports(n_reports, n_reports - n_incidents)


def weekly_from_records(
    records: Records, domain: str, areas: Areas, date_from: date, date_to: date
) -> WeeklyReports:
    """Count the reports of a domain in [date_from, date_to) by tract and week."""
    rows = records.sql(QUERY, domain=domain, date_from=date_from, date_to=date_to)
    area, known = areas.match(rows["tract"].to_numpy(zero_copy_only=False))
    week = rows["week"].to_numpy(zero_copy_only=False).astype(np.int64)
    shape = (areas.n_areas, -(-(date_to - date_from).days // WEEK_DAYS))
    counts = []
    for name in ("n_reports", "n_repeats"):
        values = rows[name].to_numpy(zero_copy_only=False).astype(np.float64)
        total = np.zeros(shape)
        np.add.at(total, (area[known], week[known]), values[known])
        counts.append(total)
    return WeeklyReports(*counts)
