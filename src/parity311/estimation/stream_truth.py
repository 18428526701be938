"""Params of a stream of complaints from the truth of a synthetic city: what policies are scored in.

What counts is the chance with which an incident turned out actionable, not how it fell: a kind has
a few dozen cases a year, and a ceiling that knows how the dice fall could not be learned from any
record. A further case of an incident that visits have let pass is less likely actionable than the
first: its chance is that given what those visits found.
"""

from __future__ import annotations

from datetime import date
from typing import Any, NamedTuple

import numpy as np

from parity311.engines.stream.process import StreamParams
from parity311.estimation import casebook
from parity311.estimation.stream import (
    access_of,
    kind_levels,
    lead_days,
    list_cells,
    make_params,
    period_rates,
    units_by_kind,
    visits_per_case,
)
from parity311.estimation.stream_book import FEWEST_TESTED, StreamOffice, read_book
from parity311.mdp.contract import N_STRATA
from parity311.records.cases import STRATUM
from parity311.records.sql import add_columns, connect
from parity311.records.store import Records

_INCIDENTS = f"""
SELECT i.n_reports, i.began_at,
  {STRATUM} AS stratum,
  epoch(i.natural_end_at - i.began_at) / 86400.0 AS lifetime_days,
  epoch(i.ended_at - i.first_reported_at) / 86400.0 AS heard_days
FROM incidents i LEFT JOIN tracts t ON t.geoid = i.tract
WHERE i.began_at < $date_to::TIMESTAMP"""

_LOOKS = """
SELECT l.true_incident_id, v.visited_at, c.received_at,
  CAST(v.result = 'violation' AS INT) AS is_written,
  CAST(i.is_actionable AS INT) AS is_actionable
FROM visits v JOIN complaints c USING (complaint_id) JOIN linked l USING (complaint_id)
JOIN incidents i USING (true_incident_id)
WHERE v.result <> 'no_access' AND v.visited_at < i.natural_end_at
  AND v.visited_at < $date_to::TIMESTAMP"""
"""Visits with access to what was still there."""

_VISITED = f"""
WITH looks AS ({_LOOKS}
), later AS (
  SELECT l.true_incident_id, max(c.received_at) AS heard_at
  FROM complaints c JOIN linked l USING (complaint_id)
  WHERE c.incident_id IS NULL OR c.incident_id = c.complaint_id GROUP BY 1
), passed AS (
  SELECT true_incident_id, min(visited_at) AS visited_at FROM looks WHERE is_written = 0 GROUP BY 1
)
SELECT (SELECT sum(is_written) / greatest(sum(is_actionable), 1) FROM looks) AS written_share,
  avg(CAST(heard_at > visited_at AS INT)) AS followed_share
FROM passed JOIN later USING (true_incident_id)"""

CASES = f"""
WITH looks AS ({_LOOKS}
), passed AS (
  SELECT c.complaint_id, count(k.visited_at) AS n_passed
  FROM complaints c JOIN linked l USING (complaint_id)
  LEFT JOIN looks k ON k.true_incident_id = l.true_incident_id
    AND k.is_written = 0 AND k.visited_at < c.received_at
  GROUP BY 1
)
SELECT i.actionable_chance AS chance, CAST(i.is_actionable AS INT) AS is_actionable, p.n_passed,
  CAST(v.first_at < i.natural_end_at AS INT) AS is_alive
FROM (SELECT complaint_id, row_number() OVER () AS place FROM cases) k
JOIN linked USING (complaint_id) JOIN incidents i USING (true_incident_id)
JOIN passed p USING (complaint_id)
LEFT JOIN (SELECT complaint_id, min(visited_at) AS first_at FROM visits GROUP BY 1) v
  USING (complaint_id)
ORDER BY place"""
"""Of every case: the chance behind it, how it fell, and how many visits let it pass before."""


class TrueReporting(NamedTuple):
    """How incidents really last, are reported, and are written up."""

    lifetime_days: float
    returns_per_day: float
    """further reports per day that a reported incident is open"""
    reported_share: np.ndarray
    """(6,)"""
    written_share: float
    """of what is actionable and there, by visits with access"""
    followed_share: float
    """of incidents that a visit left there, those that came back as a further case"""


def connect_truth(office: StreamOffice, records: Records, happened: Any) -> Any:
    """A connection with the incidents, whose reports they are, and what the agency has on record.

    `happened` is the truth of a synthetic city; only a domain's `truth` may open it.
    """
    connection = connect()
    connection.register("incidents", happened.table("incidents", office.slug))
    connection.register("linked", happened.table("reports", office.slug))
    connection.register("complaints", records.table("complaints", office.slug))
    connection.register("visits", records.table("visits", office.slug))
    connection.register("tracts", records.table("tracts", columns=["geoid", "income_quintile"]))
    return connection


def true_reporting(connection: Any, date_to: date) -> TrueReporting:
    """Lifetimes, reporting and writing up of the incidents before `date_to`."""
    began = connection.sql(_INCIDENTS, params={"date_to": date_to}).fetchnumpy()
    lifetime = float(began["lifetime_days"].mean())
    # Who reports does not change over the years, but what began lately may yet be reported.
    early = np.datetime64(date_to) - np.timedelta64(int(2 * lifetime), "D")
    is_settled = began["began_at"] < early
    is_settled |= not is_settled.any()
    stratum = began["stratum"][is_settled]
    total = np.bincount(stratum, minlength=N_STRATA)
    reported = np.bincount(stratum, began["n_reports"][is_settled] > 0, minlength=N_STRATA)
    heard = np.ma.filled(began["heard_days"], np.nan)
    again = np.maximum(began["n_reports"] - 1, 0)[np.isfinite(heard)].sum()
    visited = connection.sql(_VISITED, params={"date_to": date_to}).fetchnumpy()
    return TrueReporting(
        lifetime,
        float(again / max(np.nansum(heard), 1e-9)),
        np.where(total > 0, reported / np.maximum(total, 1), 1.0),
        float(np.ma.filled(visited["written_share"], 1.0)[0]),
        float(np.ma.filled(visited["followed_share"], 0.0)[0]),
    )


def chance_after(chance: np.ndarray, n_passed: np.ndarray, written_share: float) -> np.ndarray:
    """Chance (n,) that an incident is actionable after so many visits that wrote nothing up."""
    still = chance * (1.0 - written_share) ** n_passed
    return still / np.maximum(still + 1.0 - chance, 1e-9)


def true_params(
    office: StreamOffice,
    records: Records,
    happened: Any,
    date_from: date,
    *,
    date_to: date | None = None,
) -> StreamParams:
    """The office as it really was in [date_from, date_to).

    `happened` is the truth of a synthetic city; only a domain's `truth` may open it.
    """
    last = date_to or records.window[1]
    book = read_book(office, records, date_from, last, fewest=FEWEST_TESTED)
    shape = office.shape
    connection = connect_truth(office, records, happened)
    add_columns(connection, "cases", {"complaint_id": book.complaint_id})
    reporting = true_reporting(connection, last)
    case = connection.sql(CASES, params={"date_to": last}).fetchnumpy()
    chance = chance_after(
        case["chance"].astype(np.float64), case["n_passed"], reporting.written_share
    )
    ones = np.ones(len(book.kind))
    return make_params(
        office,
        cells=list_cells(office, book.kind, book.stratum, book.season),
        chance=casebook.chance_by_kind(book.kind, chance, ones, shape.kinds, kind_levels(shape)),
        units=units_by_kind(office, book.kind, book.units),
        season_rates=period_rates(book.season, book.dates),
        lifetime_days=reporting.lifetime_days,
        written_share=reporting.written_share,
        followed_share=reporting.followed_share,
        lead_days=lead_days(book),
        access=access_of(book, np.ma.filled(case["is_alive"], 0) == 1),
        visits_per_case=visits_per_case(office, records, book),
        returns_per_day=reporting.returns_per_day,
        reported_share=reporting.reported_share,
    )
