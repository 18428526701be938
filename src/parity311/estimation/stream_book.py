"""Cases of a stream of complaints as the records hold them.

A row is a case: the reports the agency linked to one incident, from the first on. Features are as
of that first report; nothing received, visited or closed on or after the last day is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import LiteralString

import numpy as np

from parity311.engines.stream.process import N_LEVELS, ActionTable, StreamShape
from parity311.records.absent import no_such_domain
from parity311.records.cases import CUT_OFF, STRATUM, cases, check_enough, column, numbered, reports
from parity311.records.schema import BOROUGHS, SEVERITIES
from parity311.records.sql import literal
from parity311.records.store import Records

FEWEST_IN_STREAM = 120
"""Cases below which a stream cannot be estimated (assumed: a few per kind that matters)."""
FEWEST_TESTED = 30
"""Cases below which nothing is scored: where the truth is known every case brings its own chance,
and only the mixture of kinds is a sample, whose error fewer cannot show (assumed)."""

HISTORY_DAYS = 180
"""Days over which complaints about an address, and about its tract, are remembered (assumed)."""


@dataclass(frozen=True)
class CaseFacts:
    """What the kind of a case is told by, as of its first report, (n,) each."""

    borough: np.ndarray
    """position in the schema's `BOROUGHS`; -1 in another city"""
    board: np.ndarray
    """community board"""
    category: np.ndarray
    """code of the complaint"""
    gap_days: np.ndarray
    """days since the case before it at the same building; NaN where there was none"""
    near_ratio: np.ndarray
    """cases of its tract in the last half year, against the mean over the city's tracts"""


@dataclass(frozen=True)
class StreamOffice:
    """What a domain says about its stream, beyond what the records hold."""

    slug: str
    shape: StreamShape
    place_of: Callable[[CaseFacts], np.ndarray]
    """place of each case, 0 … n_places - 1"""
    history_of: Callable[[CaseFacts], np.ndarray]
    """history of each case, 0 … n_histories - 1, the top is recurrent"""
    days_per_complaint: float
    """Days between two complaints of one office: which share of the city it is"""
    actions: ActionTable
    speed_unit: float
    """Severity-weighted days that a typical correct escalation avoids"""
    cost_unit: float
    """Hours that a typical correct escalation takes"""
    keep_unit: float = 1.0
    """Severity-weighted dwelling-unit days that it keeps habitable"""
    has_dwellings: bool = False
    """Whether anybody lives behind the complaint; if not, retention is zero"""
    example_lifetime_days: float = 60.0
    """Mean days until an incident ends by itself in the hand-made example; records tell theirs"""


@dataclass(frozen=True)
class Book:
    """Cases first reported in a period, (n,) each."""

    complaint_id: np.ndarray
    stratum: np.ndarray
    kind: np.ndarray
    season: np.ndarray
    category: np.ndarray
    """code of the complaint"""
    units: np.ndarray
    n_extra: np.ndarray
    """further reports of the case"""
    open_days: np.ndarray
    """days from the first report to the closing, or to the last day"""
    looked_days: np.ndarray
    """days from the last report before it to the first visit with access; NaN without one"""
    is_found: np.ndarray
    """whether a violation was written"""
    n_visits: np.ndarray
    first_wait: np.ndarray
    """days from the first report to the first visit; NaN without one"""
    dates: tuple[date, date]
    """first day, and the day after the last"""

    @property
    def is_looked(self) -> np.ndarray:
        """Cases in which an inspector got in, (n,) bool."""
        return np.isfinite(self.looked_days)


def recent_or_earlier(facts: CaseFacts, recent_days: float) -> np.ndarray:
    """History of each case: none before, earlier ones, or one so many days ago at most."""
    days = facts.gap_days
    return np.select([np.isnan(days), days <= recent_days], [0, 2], 1)


def season_of(day: date) -> int:
    """Season of a day: 0 winter (December to February) … 3 autumn."""
    return day.month % 12 // 3


def read_book(
    office: StreamOffice,
    records: Records,
    date_from: date,
    date_to: date,
    cut_off: LiteralString = CUT_OFF,
    *,
    fewest: int = FEWEST_IN_STREAM,
) -> Book:
    """Collect an office's cases first reported in [date_from, date_to), `fewest` of them at least.

    `cut_off` is changed only by the test of it.
    """
    if office.slug not in records.domains:
        raise no_such_domain(records, office.slug)
    rows = records.sql(
        _book_query(cut_off), domain=office.slug, date_from=date_from, date_to=date_to
    )
    check_enough(records, office.slug, rows.num_rows, (date_from, date_to), fewest)
    facts = CaseFacts(
        borough=column(rows, "borough", np.int64),
        board=column(rows, "board", np.int64),
        category=rows["category"].to_numpy(zero_copy_only=False),
        gap_days=column(rows, "gap_days"),
        near_ratio=column(rows, "near_ratio"),
    )
    kind = kinds_of(office, facts, column(rows, "code", np.int64))
    return Book(
        complaint_id=rows["complaint_id"].to_numpy(zero_copy_only=False),
        stratum=column(rows, "stratum", np.int64),
        kind=kind,
        season=column(rows, "month", np.int64) % 12 // 3,
        category=facts.category,
        units=column(rows, "units"),
        n_extra=column(rows, "n_reports") - 1.0,
        open_days=column(rows, "open_days"),
        looked_days=column(rows, "looked_days"),
        is_found=column(rows, "is_found"),
        n_visits=column(rows, "n_visits"),
        first_wait=column(rows, "first_wait"),
        dates=(date_from, date_to),
    )


def kinds_of(office: StreamOffice, facts: CaseFacts, code: np.ndarray) -> np.ndarray:
    """Kind of each case, (n,), from what is known of it and its severity code (0 = A)."""
    place, history = office.place_of(facts), office.history_of(facts)
    return (place * N_LEVELS + N_LEVELS - 1 - code) * office.shape.n_histories + history


def _book_query(cut_off: LiteralString) -> LiteralString:
    day = "86400.0"
    return f"""
WITH own AS ({reports()}
), cases AS ({cases("tract", "building_id", "severity", "category")}
), known AS (
  SELECT k.*, epoch(began - lag(began) OVER (PARTITION BY building_id ORDER BY began))
      / {day} AS gap_days,
    count(*) OVER (PARTITION BY tract ORDER BY began RANGE BETWEEN
      INTERVAL {literal(HISTORY_DAYS)} DAY PRECEDING AND {cut_off}) AS n_near,
    count(*) OVER (ORDER BY began RANGE BETWEEN
      INTERVAL {literal(HISTORY_DAYS)} DAY PRECEDING AND {cut_off}) AS n_city
  FROM cases k
), found AS (
  SELECT complaint_id, min(visited_at) AS first_at, count(*) AS n_visits,
    min(visited_at) FILTER (WHERE result <> 'no_access') AS looked_at,
    max(CAST(result = 'violation' AS INT)) AS is_found
  FROM visits WHERE visited_at < $date_to::TIMESTAMP GROUP BY complaint_id
), heard AS (
  SELECT k.case_id, max(own.received_at) AS last_heard
  FROM cases k JOIN found v USING (complaint_id) JOIN own ON own.case_id = k.case_id
  WHERE own.received_at <= v.looked_at GROUP BY k.case_id
), described AS (
  SELECT k.*, {numbered("t.borough", BOROUGHS, -1)} AS borough,
    COALESCE(t.community_board, 0) AS board, COALESCE(b.units, 1) AS units,
    k.n_near / greatest(k.n_city / (SELECT count(*) FROM tracts), 1e-9) AS near_ratio,
    {STRATUM} AS stratum
  FROM known k LEFT JOIN tracts t ON t.geoid = k.tract
    LEFT JOIN buildings b ON b.building_id = k.building_id
)
SELECT k.complaint_id, k.stratum, {numbered("k.severity", SEVERITIES)} AS code, k.units,
  month(k.began) AS month, k.n_reports, k.borough, k.board, k.category, k.gap_days, k.near_ratio,
  epoch(least(COALESCE(o.closed_at, $date_to::TIMESTAMP), $date_to::TIMESTAMP) - k.began)
    / {day} AS open_days,
  epoch(v.looked_at - COALESCE(h.last_heard, k.began)) / {day} AS looked_days,
  COALESCE(v.is_found, 0) AS is_found, COALESCE(v.n_visits, 0) AS n_visits,
  epoch(v.first_at - k.began) / {day} AS first_wait
FROM described k LEFT JOIN found v USING (complaint_id) LEFT JOIN heard h USING (case_id)
  LEFT JOIN outcomes o USING (complaint_id)
WHERE k.began >= $date_from::TIMESTAMP ORDER BY k.began, k.complaint_id"""


def history_start(records: Records, date_from: date, date_to: date) -> date:
    """First day whose cases have a full history, if that leaves most of the period."""
    start = max(date_from, records.window[0] + timedelta(days=HISTORY_DAYS))
    return start if (date_to - start).days >= 2 * HISTORY_DAYS else date_from
