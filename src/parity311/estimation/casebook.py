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
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES, VISIT_RESULTS
from parity311.records.sql import cases, identifier, literal
from parity311.records.store import Records

FEWEST_CASES = 200
"""Cases below which a queue cannot be estimated (assumed: three per kind of complaint)."""

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
    if rows.num_rows < FEWEST_CASES:
        raise EstimationError(
            f"{records.folder} has {rows.num_rows} cases of {domain!r} from {date_from} to "
            f"{date_to}; at least {FEWEST_CASES} are needed, give more months."
        )

    def column(name: str, kind: type = np.float64) -> np.ndarray:
        return rows[name].to_numpy(zero_copy_only=False).astype(kind)

    return Casebook(
        date_from=date_from,
        date_to=date_to,
        complaint_id=rows["complaint_id"].to_numpy(zero_copy_only=False),
        stratum=column("stratum", np.int64),
        code=column("code", np.int64),
        units=column("units"),
        month=column("month", np.int64) - 1,
        flags={flag: column(flag, np.int64) for flag in flags},
        n_reports=column("n_reports", np.int64),
        visit_wait=column("visit_wait"),
        since_known=column("since_known"),
        result=column("result", np.int64),
        unvisited_days=column("unvisited_days"),
    )


def _cases_query(flags: tuple[str, ...]) -> LiteralString:
    columns: list[LiteralString] = [identifier(flag) for flag in flags]
    chosen = "".join(
        f",\n    arg_min(CAST({flag} AS INT), received_at) AS {flag}" for flag in columns
    )
    kept = "".join(f", COALESCE({flag}, 0) AS {flag}" for flag in columns)
    codes = cases(SEVERITIES)
    results = cases(VISIT_RESULTS)
    day = "86400.0"
    return f"""
WITH own AS (
  SELECT c.*, COALESCE(c.incident_id, c.complaint_id) AS case_id, b.units,
    CASE WHEN t.income_quintile BETWEEN 1 AND 5 THEN t.income_quintile - 1
      ELSE {literal(N_STRATA - 1)} END AS stratum
  FROM complaints c LEFT JOIN tracts t ON t.geoid = c.tract
    LEFT JOIN buildings b ON b.building_id = c.building_id
  WHERE c.domain = $domain AND c.received_at < $date_to::TIMESTAMP
), cases AS (
  SELECT case_id, min(received_at) AS began, count(*) AS n_reports,
    arg_min(complaint_id, received_at) AS complaint_id, arg_min(stratum, received_at) AS stratum,
    arg_min(severity, received_at) AS severity, arg_min(units, received_at) AS units{chosen}
  FROM own GROUP BY case_id HAVING min(received_at) >= $date_from::TIMESTAMP
), first_visits AS (
  SELECT complaint_id, min(visited_at) AS visited_at, arg_min(result, visited_at) AS result
  FROM visits WHERE visited_at < $date_to::TIMESTAMP GROUP BY complaint_id
), heard AS (
  SELECT k.case_id, max(own.received_at) AS last_heard
  FROM cases k JOIN first_visits v USING (complaint_id) JOIN own ON own.case_id = k.case_id
  WHERE own.received_at < v.visited_at GROUP BY k.case_id
)
SELECT k.complaint_id, k.stratum, CASE k.severity {codes} END AS code,
  COALESCE(k.units, 1) AS units, month(k.began) AS month, k.n_reports{kept},
  epoch(v.visited_at - k.began) / {day} AS visit_wait,
  epoch(v.visited_at - h.last_heard) / {day} AS since_known,
  CASE v.result {results} ELSE -1 END AS result,
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
