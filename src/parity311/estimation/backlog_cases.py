"""What the records, or the truth, say about a backlog: arrivals, outcomes, crews, starts.

One row is one case, from its first report on. Nothing received, visited or closed on or after the
last day is read; the truth is read only by a domain's `truth`, which hands its tables in.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import LiteralString

import numpy as np

from parity311.engines.backlog.params import N_STARTS
from parity311.engines.backlog.process import N_CODES, BacklogShape
from parity311.mdp.contract import N_STRATA
from parity311.records import cases as case_sql
from parity311.records.absent import no_such_domain
from parity311.records.schema import BOROUGHS, SEVERITIES, VISIT_RESULTS
from parity311.records.sql import literal
from parity311.records.store import Records

CHANCE_PRIOR = 25.0
"""Visits at the city's rate that are added to a place's own (assumed)."""
DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class QueueCases:
    """Cases first reported before the last day, (n,) each; days are counted from the first day.

    Cases from before the first day are kept, for the backlogs they make: their `began` is negative.
    """

    date_from: date
    date_to: date
    complaint_id: np.ndarray
    began: np.ndarray
    left: np.ndarray
    """when a visit got in, else when it was closed; infinite where neither was in time"""
    visited: np.ndarray
    """first visit; NaN where there was none before the last day"""
    result: np.ndarray
    """of the first visit, position in VISIT_RESULTS; -1 where there was none"""
    last_heard: np.ndarray
    """latest report before the first visit"""
    stratum: np.ndarray
    code: np.ndarray
    board: np.ndarray
    borough: np.ndarray
    category: np.ndarray
    building: np.ndarray
    n_reports: np.ndarray

    @property
    def n_days(self) -> int:
        """Days in the period."""
        return (self.date_to - self.date_from).days

    @property
    def is_inside(self) -> np.ndarray:
        """Whether a case was first reported in the period, (n,) bool."""
        return self.began >= 0.0

    @property
    def got_in(self) -> np.ndarray:
        """Whether the first visit got in, (n,) bool."""
        return (self.result >= 0) & (self.result != VISIT_RESULTS.index("no_access"))

    @property
    def is_unvisited(self) -> np.ndarray:
        """Whether it was closed in the period without a visit, (n,) bool."""
        return (self.result < 0) & np.isfinite(self.left)


def read_cases(records: Records, domain: str, date_from: date, date_to: date) -> QueueCases:
    """Collect a domain's cases known before `date_to`; refuse where they are too few."""
    if domain not in records.domains:
        raise no_such_domain(records, domain)
    rows = records.sql(_CASES, domain=domain, date_from=date_from, date_to=date_to)
    visited, result = case_sql.column(rows, "visited"), case_sql.column(rows, "result", np.int64)
    is_settled = (result >= 0) & (result != VISIT_RESULTS.index("no_access"))
    closed = np.nan_to_num(case_sql.column(rows, "left_after"), nan=np.inf)
    found = QueueCases(
        date_from=date_from,
        date_to=date_to,
        complaint_id=rows["complaint_id"].to_numpy(zero_copy_only=False),
        began=case_sql.column(rows, "began"),
        left=np.where(is_settled, np.minimum(visited, closed), closed),
        visited=visited,
        result=result,
        last_heard=case_sql.column(rows, "last_heard"),
        stratum=case_sql.column(rows, "stratum", np.int64),
        code=case_sql.column(rows, "code", np.int64),
        board=case_sql.column(rows, "board", np.int64),
        borough=case_sql.column(rows, "borough", np.int64),
        category=rows["category"].to_numpy(zero_copy_only=False),
        building=rows["building"].to_numpy(zero_copy_only=False),
        n_reports=case_sql.column(rows, "n_reports", np.int64),
    )
    case_sql.check_enough(records, domain, int(found.is_inside.sum()), (date_from, date_to))
    return found


BOROUGH = case_sql.numbered("t.borough", BOROUGHS, 0)
_REPORT = f"""c.complaint_id, c.received_at, c.severity, c.category,
    COALESCE(c.building_id, c.tract) AS building, COALESCE(t.community_board, 0) AS board,
    {BOROUGH} AS borough, {case_sql.STRATUM} AS stratum"""
_FIRST = ("stratum", "severity", "board", "borough", "category", "building")
_CASES = f"""
WITH own AS (
  {case_sql.reports(_REPORT, "LEFT JOIN tracts t ON t.geoid = c.tract")}
), cases AS ({case_sql.cases(*_FIRST)}
), first_visits AS ({case_sql.FIRST_VISITS}
), heard AS ({case_sql.LAST_HEARD}
)
SELECT k.complaint_id, k.stratum, k.board, k.borough, k.category, k.building, k.n_reports,
  {case_sql.numbered("k.severity", SEVERITIES)} AS code,
  epoch(k.began - $date_from::TIMESTAMP) / {literal(DAY_SECONDS)} AS began,
  epoch(v.visited_at - $date_from::TIMESTAMP) / {literal(DAY_SECONDS)} AS visited,
  epoch(h.last_heard - $date_from::TIMESTAMP) / {literal(DAY_SECONDS)} AS last_heard,
  {case_sql.numbered("v.result", VISIT_RESULTS, -1)} AS result,
  CASE WHEN o.closed_at < $date_to::TIMESTAMP
    THEN epoch(o.closed_at - $date_from::TIMESTAMP) / {literal(DAY_SECONDS)} END AS left_after
FROM cases k LEFT JOIN first_visits v USING (complaint_id) LEFT JOIN heard h USING (case_id)
  LEFT JOIN outcomes o USING (complaint_id)
ORDER BY k.began, k.complaint_id"""


@dataclass(frozen=True)
class CasePlaces:
    """Which place every case belongs to."""

    of_case: np.ndarray
    """(n,)"""
    n: int


def week_profile(cases: QueueCases, steps_per_day: int) -> np.ndarray:
    """Cases by step of the week, mean 1, from Monday 0 h; smoothed by one a step."""
    day = cases.began[cases.is_inside] + cases.date_from.weekday()
    slot = np.floor(day % 7.0 * steps_per_day + 1e-6).astype(np.int64)
    counts = np.bincount(slot % (7 * steps_per_day), minlength=7 * steps_per_day) + 1.0
    return counts / counts.mean()


def season(cases: QueueCases) -> np.ndarray:
    """Cases a day by month, mean 1; months the period lacks count as average."""
    days = [cases.date_from + timedelta(days=i) for i in range(cases.n_days)]
    month_of_day = np.array([day.month - 1 for day in days])
    began = np.floor(cases.began[cases.is_inside]).astype(np.int64)
    counts = np.bincount(month_of_day[np.minimum(began, cases.n_days - 1)], minlength=12)
    n_days = np.bincount(month_of_day, minlength=12)
    overall = counts.sum() / max(n_days.sum(), 1)
    # A month's worth of average days steadies months that were seen for a few days only.
    rate = (counts + 30.0 * overall) / np.maximum(n_days + 30.0, 1) / max(overall, 1e-9)
    return rate / rate.mean()


def backlogs(cases: QueueCases, places: CasePlaces, shape: BacklogShape) -> tuple[np.ndarray, ...]:
    """Cases open at evenly spaced moments of the period's second half.

    Returns counts (S, P, 4 A), step of the week (S,) and month (S,) of each moment.
    """
    moments = np.floor(np.linspace(0.5 * cases.n_days, cases.n_days - 1, N_STARTS))
    found = []
    for moment in moments:
        is_open = (cases.began < moment) & (cases.left > moment)
        age = np.minimum((moment - cases.began[is_open]) / shape.bin_days, shape.n_ages - 1)
        cell = cases.code[is_open] * shape.n_ages + age.astype(np.int64)
        n_cells = N_CODES * shape.n_ages
        flat = np.bincount(places.of_case[is_open] * n_cells + cell, minlength=places.n * n_cells)
        found.append(flat.reshape(places.n, n_cells))
    dates = [cases.date_from + timedelta(days=int(moment)) for moment in moments]
    slots = np.array([day.weekday() * shape.steps_per_day for day in dates])
    return np.stack(found), slots, np.array([day.month - 1 for day in dates])


def share_by_place(
    places: CasePlaces, chosen: np.ndarray, hit: np.ndarray, prior: float = CHANCE_PRIOR
) -> np.ndarray:
    """Share of hits among a place's chosen cases, (P,), leaning on the city's where few."""
    overall = float(hit[chosen].mean()) if chosen.any() else 0.5
    n = np.bincount(places.of_case[chosen], minlength=places.n)
    hits = np.bincount(places.of_case[chosen], hit[chosen], minlength=places.n)
    return (hits + prior * overall) / (n + prior)


def chance_by_place_and_code(
    cases: QueueCases, places: CasePlaces, chosen: np.ndarray, hit: np.ndarray, there: np.ndarray
) -> np.ndarray:
    """Chance that a case is actionable, (P, 4), from cases looked into.

    `there` (n,) is the chance that the incident still lasted at the visit: hits are divided by it.
    """
    prior = CHANCE_PRIOR
    total, expected = hit[chosen].sum(), there[chosen].sum()
    overall = total / max(expected, 1e-9)
    code, place = cases.code[chosen], places.of_case[chosen]
    by_code = np.bincount(code, hit[chosen], minlength=N_CODES) + prior * overall
    by_code /= np.bincount(code, there[chosen], minlength=N_CODES) + prior
    # A place differs from the city by one factor: no place has enough cases for four.
    hits = np.bincount(place, hit[chosen], minlength=places.n) + prior * overall
    usual = np.bincount(place, (by_code[code] * there[chosen]), minlength=places.n)
    factor = hits / (usual + prior * overall)
    return np.clip(factor[:, None] * by_code, 1e-4, 0.95)


def put_away_rate(cases: QueueCases, oldest_days: float) -> float:
    """Cases of the last age put away unvisited, per case and day."""
    end = np.minimum(cases.left, cases.n_days)
    exposed = np.clip(end - np.maximum(cases.began + oldest_days, 0.0), 0.0, None)
    n = (cases.is_unvisited & (cases.left - cases.began >= oldest_days) & (cases.left >= 0)).sum()
    return float(n / max(exposed.sum(), 1.0))


def visits_per_day(records: Records, domain: str, cases: QueueCases) -> float:
    """Visits made a day in the period."""
    n_visits = case_sql.count_visits(records, domain, cases.date_from, cases.date_to)
    return float(n_visits) / max(cases.n_days, 1)


def returning_share(records: Records, domain: str, cases: QueueCases) -> float:
    """Share of the visits without access after which the case stayed in line."""
    rows = records.sql(
        """
SELECT avg(CAST(v.attempt < last.attempt AS INT)) AS share
FROM visits v JOIN complaints c USING (complaint_id)
  JOIN (SELECT complaint_id, max(attempt) AS attempt FROM visits
    WHERE visited_at < $date_to::TIMESTAMP GROUP BY 1) last USING (complaint_id)
  JOIN outcomes o USING (complaint_id)
WHERE c.domain = $domain AND v.result = 'no_access' AND o.closed_at < $date_to::TIMESTAMP
  AND v.visited_at >= $date_from::TIMESTAMP""",
        domain=domain,
        date_from=cases.date_from,
        date_to=cases.date_to,
    )
    share = rows["share"][0].as_py()
    return 0.0 if share is None else float(share)


def addresses_by_place(
    records: Records, condition: LiteralString = "true"
) -> dict[tuple[int, int, int], int]:
    """Number of buildings by community board, borough and stratum, that meet a condition."""
    rows = records.sql(f"""
SELECT COALESCE(t.community_board, 0) AS board,
  {BOROUGH} AS borough,
  {case_sql.STRATUM} AS stratum, count(*) AS n
FROM buildings b JOIN tracts t ON t.geoid = b.tract WHERE {condition} GROUP BY 1, 2, 3""")
    return {(row["board"], row["borough"], row["stratum"]): row["n"] for row in rows.to_pylist()}


def mix_by_place(place: np.ndarray, stratum: np.ndarray, n_places: int) -> np.ndarray:
    """Share of each stratum among a place's cases, (P, 6); the city's where it has none."""
    counts = np.bincount(place * N_STRATA + stratum, minlength=n_places * N_STRATA)
    counts = counts.reshape(n_places, N_STRATA).astype(np.float64)
    counts += counts.sum(axis=0) / max(counts.sum(), 1.0)
    return counts / counts.sum(axis=1, keepdims=True)
