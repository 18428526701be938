"""What the records say about a queue: its cases, visits and staff, as arrays.

One row is one case: the reports that the agency linked to one incident, from the first one on.
Nothing received, visited or closed on or after the last day is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import LiteralString

import numpy as np

from parity311.engines.table.scores import fit_logistic, one_hot, predict
from parity311.errors import EstimationError
from parity311.mdp.contract import N_STRATA
from parity311.records import cases as case_sql
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES, VISIT_RESULTS
from parity311.records.sql import identifier
from parity311.records.store import Records

KIND_PRIOR = 25.0
"""Visits the logistic fit counts for in a kind of its own (assumed)."""

SERVICE_LEVELS = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])
"""Days within which a visit counts as service, by severity code A to D."""


@dataclass(frozen=True)
class Casebook:
    """Cases first reported in a period, (n,) each; days are counted from the first day."""

    date_from: date
    date_to: date
    complaint_id: np.ndarray
    """of the first report"""
    stratum: np.ndarray
    code: np.ndarray
    """severity code of the first report, 0 = A … 3 = D"""
    units: np.ndarray
    month: np.ndarray
    """0 = January"""
    flags: dict[str, np.ndarray]
    n_reports: np.ndarray
    visit_wait: np.ndarray
    """days from the first report to the first visit; NaN where there was none"""
    since_known: np.ndarray
    """days from the latest report to the first visit; NaN where there was none"""
    result: np.ndarray
    """of the first visit, position in VISIT_RESULTS; -1 where there was none"""
    unvisited_days: np.ndarray
    """days from the first report to the closing of a case that was not visited, else NaN"""

    @property
    def n_days(self) -> int:
        """Days in the period."""
        return (self.date_to - self.date_from).days

    @property
    def days_by_month(self) -> np.ndarray:
        """Days of the period in each month of the year, (12,)."""
        days = [self.date_from + timedelta(days=i) for i in range(self.n_days)]
        return np.bincount([day.month - 1 for day in days], minlength=12)

    def per_day_by_month(self, counts: np.ndarray) -> np.ndarray:
        """Counts by month (..., 12) as a daily rate; 0 where the period has no such month."""
        return counts / np.maximum(self.days_by_month, 1)


def read_casebook(
    records: Records, domain: str, date_from: date, date_to: date, flags: tuple[str, ...]
) -> Casebook:
    """Collect the cases of a domain first reported in [date_from, date_to)."""
    rows = records.sql(_cases_query(flags), domain=domain, date_from=date_from, date_to=date_to)
    case_sql.check_enough(records, domain, rows.num_rows, (date_from, date_to))
    return Casebook(
        date_from=date_from,
        date_to=date_to,
        complaint_id=rows["complaint_id"].to_numpy(zero_copy_only=False),
        stratum=case_sql.column(rows, "stratum", np.int64),
        code=case_sql.column(rows, "code", np.int64),
        units=case_sql.column(rows, "units"),
        month=case_sql.column(rows, "month", np.int64) - 1,
        flags={flag: case_sql.column(rows, flag, np.int64) for flag in flags},
        n_reports=case_sql.column(rows, "n_reports", np.int64),
        visit_wait=case_sql.column(rows, "visit_wait"),
        since_known=case_sql.column(rows, "since_known"),
        result=case_sql.column(rows, "result", np.int64),
        unvisited_days=case_sql.column(rows, "unvisited_days"),
    )


def _cases_query(flags: tuple[str, ...]) -> LiteralString:
    columns: list[LiteralString] = [identifier(flag) for flag in flags]
    kept = "".join(f", COALESCE(CAST({flag} AS INT), 0) AS {flag}" for flag in columns)
    joins = "LEFT JOIN tracts t ON t.geoid = c.tract"
    joins = f"{joins} LEFT JOIN buildings b ON b.building_id = c.building_id"
    day = "86400.0"
    return f"""
WITH own AS (
  {case_sql.reports(f"c.*, b.units, {case_sql.STRATUM} AS stratum", joins)}
), cases AS ({case_sql.cases("stratum", "severity", "units", *columns)}
  HAVING min(received_at) >= $date_from::TIMESTAMP
), first_visits AS ({case_sql.FIRST_VISITS}
), heard AS ({case_sql.LAST_HEARD}
)
SELECT k.complaint_id, k.stratum, {case_sql.numbered("k.severity", SEVERITIES)} AS code,
  COALESCE(k.units, 1) AS units, month(k.began) AS month, k.n_reports{kept},
  epoch(v.visited_at - k.began) / {day} AS visit_wait,
  epoch(v.visited_at - h.last_heard) / {day} AS since_known,
  {case_sql.numbered("v.result", VISIT_RESULTS, -1)} AS result,
  CASE WHEN v.visited_at IS NULL AND o.closed_at < $date_to::TIMESTAMP
    THEN epoch(o.closed_at - k.began) / {day} END AS unvisited_days
FROM cases k LEFT JOIN first_visits v USING (complaint_id) LEFT JOIN heard h USING (case_id)
  LEFT JOIN outcomes o USING (complaint_id)
ORDER BY k.began, k.complaint_id"""


def visits_per_day(records: Records, domain: str, book: Casebook) -> np.ndarray:
    """Visits the inspectors could make per day, by month (12,)."""
    rows = records.sql(
        """
SELECT month(day) AS month, sum(n_slots) AS n FROM (
  SELECT CAST(v.visited_at AS DATE) AS day, COALESCE(max(v.n_slots), count(*)) AS n_slots
  FROM visits v JOIN complaints c USING (complaint_id)
  WHERE c.domain = $domain AND v.visited_at >= $date_from::TIMESTAMP
    AND v.visited_at < $date_to::TIMESTAMP GROUP BY 1)
GROUP BY 1""",
        domain=domain,
        date_from=book.date_from,
        date_to=book.date_to,
    )
    slots = np.zeros(12)
    slots[rows["month"].to_numpy() - 1] = rows["n"].to_numpy().astype(np.float64)
    return book.per_day_by_month(slots)


def count_cases(book: Casebook) -> np.ndarray:
    """Cases first reported per day, by stratum and month (6, 12)."""
    flat = np.bincount(book.stratum * 12 + book.month, minlength=N_STRATA * 12)
    return book.per_day_by_month(flat.reshape(N_STRATA, 12))


def shares_of_kinds(kind: np.ndarray, stratum: np.ndarray, n_kinds: int) -> np.ndarray:
    """Share of each kind among a stratum's cases, (6, n_kinds); a few are lent by the city."""
    counts = np.bincount(stratum * n_kinds + kind, minlength=N_STRATA * n_kinds)
    counts = counts.reshape(N_STRATA, n_kinds).astype(np.float64)
    counts += 50.0 * counts.sum(axis=0) / max(counts.sum(), 1.0)
    return counts / counts.sum(axis=1, keepdims=True)


def chance_by_kind(
    kind: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray,
    kinds: np.ndarray,
    levels: tuple[int, ...],
) -> np.ndarray:
    """Chance that a case of each kind is actionable, from cases where it was found out.

    Parameters
    ----------
    kind, label
        (n,) kind of every case looked into, and whether it was found actionable (or, where the
        truth is known, how likely that was).
    weight
        (n,) chance that the incident was still there to be found.
    kinds, levels
        (n_kinds, n_parts) parts of every kind as level numbers, and how many levels each has.
    """
    scaled = kinds / np.maximum(np.asarray(levels) - 1, 1)
    design = one_hot(scaled, levels)
    beta = fit_logistic(design[kind], label)
    found = predict(beta, design)
    there = np.bincount(kind, weight, minlength=len(kinds))
    n = np.bincount(kind, minlength=len(kinds))
    mean_there = weight.mean() if len(weight) else 1.0
    still = (there + KIND_PRIOR * mean_there) / (n + KIND_PRIOR)
    hits = np.bincount(kind, label, minlength=len(kinds))
    smooth = (hits + KIND_PRIOR * found) / (n + KIND_PRIOR)
    return np.clip(smooth / np.maximum(still, 1e-3), 1e-4, 0.95)


def access_by_stratum(stratum: np.ndarray, gets_in: np.ndarray, prior: float = 100.0) -> np.ndarray:
    """Chance that a visit gets in, by stratum (6,), leaning on the city's where visits are few."""
    if len(gets_in) == 0:
        raise EstimationError(
            "No visit on record tells how often inspectors get in (none came soon enough after a "
            "call to tell a locked door from a problem that had ended); import records with "
            "inspection times, or more months."
        )
    overall = float(gets_in.mean())
    n = np.bincount(stratum, minlength=N_STRATA)
    inside = np.bincount(stratum, gets_in, minlength=N_STRATA)
    return (inside + prior * overall) / (n + prior)


def leads_by_code(book: Casebook) -> np.ndarray:
    """Days before a visit can be made, by severity code (4,): the quickest tenth's wait."""
    leads = np.full(len(SEVERITIES), np.nan)
    for code in range(len(SEVERITIES)):
        waits = book.visit_wait[(book.code == code) & np.isfinite(book.visit_wait)]
        if len(waits) >= 20:
            leads[code] = np.quantile(waits, 0.10)
    typical = np.nanmean(leads) if np.isfinite(leads).any() else 1.0
    return np.where(np.isfinite(leads), leads, typical)


def longest_wait(book: Casebook) -> float:
    """Days after which a case is put away unvisited: the slowest of those that were, nearly."""
    days = book.unvisited_days[np.isfinite(book.unvisited_days)]
    return float(np.quantile(days, 0.98)) if len(days) >= 20 else 365.0
