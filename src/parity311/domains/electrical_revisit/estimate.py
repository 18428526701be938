"""Params of a stream of visits without access, from records or from a city's truth.

A row is the first visit to a case if nobody opened. Features are as of that visit; nothing that
happened on or after the last day is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, LiteralString

import numpy as np

from parity311.arrays import jnp
from parity311.domains.electrical_revisit.revisits import DELAYS_DAYS, MAX_REVISITS, RevisitParams
from parity311.engines.stream.process import N_LEVELS
from parity311.engines.table.scores import fit_logistic, predict
from parity311.errors import EstimationError
from parity311.estimation import casebook
from parity311.estimation.incident_ends import Ends, believe_ends
from parity311.estimation.kind_chances import chance_from_looks
from parity311.estimation.stream import (
    FEWEST_LOOKED,
    list_cells,
    make_params,
    period_rates,
    units_by_kind,
)
from parity311.estimation.stream_book import HISTORY_DAYS, StreamOffice, history_start
from parity311.estimation.stream_truth import connect_truth, true_reporting
from parity311.mdp.contract import N_STRATA
from parity311.records.absent import no_such_domain
from parity311.records.cases import CUT_OFF, STRATUM, cases, check_enough, column, numbered, reports
from parity311.records.schema import SEVERITIES
from parity311.records.sql import add_columns, literal
from parity311.records.store import Records

FEWEST_VISITS = 100
"""First visits without access below which the stream cannot be estimated (assumed)."""

DENIAL_PRIOR = 20.0
"""Visits at the city's share without access that are lent to a community board (assumed)."""

DENIAL_EDGES = (0.75, 1.0, 1.25)
"""Levels of a board's denial rate, against the city's over the same half year."""

DELAY_SD = 0.25
"""Sd of the belief, in log odds, that a month's delay changes who opens (assumed: that depends on
the hours people keep, hardly on how long ago the notice was left)."""

N_DENIALS, N_PASTS, N_AGES = 4, 3, 3
LEVELS = (N_DENIALS, N_LEVELS, N_PASTS, N_AGES)
"""How many levels each part of a kind has."""
AGE_EDGES_DAYS = (2.0, 10.0)
"""Edges of the levels of the complaint's age at the visit."""


@dataclass(frozen=True)
class Visits:
    """First visits without access in a period, (n,) each."""

    complaint_id: np.ndarray
    visited_at: np.ndarray
    stratum: np.ndarray
    kind: np.ndarray
    season: np.ndarray
    category: np.ndarray
    """code of the complaint"""
    units: np.ndarray
    delay_days: np.ndarray
    """days to the second visit; NaN where there was none"""
    gets_in: np.ndarray
    """whether the second visit did"""
    is_found: np.ndarray
    n_extra: np.ndarray
    open_days: np.ndarray
    dates: tuple[date, date]


def split_kind(kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Past of the property and age of the complaint, from the last part of kinds (n, 3)."""
    return kinds[:, 2] // N_AGES, kinds[:, 2] % N_AGES


def read_visits(
    office: StreamOffice,
    records: Records,
    date_from: date,
    date_to: date,
    *,
    without_access: bool = True,
) -> Visits:
    """Collect the first visits made in [date_from, date_to): those without access, or the others.

    Of the others, `is_found` is what the first visit brought.
    """
    if office.slug not in records.domains:
        raise no_such_domain(records, office.slug)
    rows = records.sql(
        _visits_query(without_access), domain=office.slug, date_from=date_from, date_to=date_to
    )
    fewest = FEWEST_VISITS if without_access else 0
    what = "first visits without access of"
    check_enough(records, office.slug, rows.num_rows, (date_from, date_to), fewest, what)
    denial = np.searchsorted(DENIAL_EDGES, column(rows, "denial_ratio"), side="right")
    age = np.searchsorted(AGE_EDGES_DAYS, column(rows, "age_days"), side="right")
    level = N_LEVELS - 1 - column(rows, "code", np.int64)
    history = column(rows, "past", np.int64) * N_AGES + age
    return Visits(
        complaint_id=rows["complaint_id"].to_numpy(zero_copy_only=False),
        visited_at=rows["visited_at"].to_numpy(zero_copy_only=False),
        stratum=column(rows, "stratum", np.int64),
        kind=(denial * N_LEVELS + level) * office.shape.n_histories + history,
        season=column(rows, "month", np.int64) % 12 // 3,
        category=rows["category"].to_numpy(zero_copy_only=False),
        units=column(rows, "units"),
        delay_days=column(rows, "delay_days"),
        gets_in=column(rows, "gets_in"),
        is_found=column(rows, "is_found"),
        n_extra=column(rows, "n_reports") - 1.0,
        open_days=column(rows, "open_days"),
        dates=(date_from, date_to),
    )


def _visits_query(without_access: bool) -> LiteralString:
    is_asked = "k.result = 'no_access'" if without_access else "k.result <> 'no_access'"
    day = "86400.0"
    past = f"RANGE BETWEEN INTERVAL {literal(HISTORY_DAYS)} DAY PRECEDING AND {CUT_OFF}"
    return f"""
WITH own AS ({reports()}
), cases AS ({cases("tract", "building_id", "severity", "category")}
), firsts AS (
  SELECT k.*, v.visited_at, v.result, t.community_board, COALESCE(b.units, 1) AS units,
    {STRATUM} AS stratum
  FROM cases k JOIN visits v ON v.complaint_id = k.complaint_id AND v.attempt = 1
    LEFT JOIN tracts t ON t.geoid = k.tract LEFT JOIN buildings b ON b.building_id = k.building_id
  WHERE v.visited_at < $date_to::TIMESTAMP
), known AS (
  SELECT *, CAST(result = 'no_access' AS INT) AS denied,
    count(*) OVER board AS n_board,
    COALESCE(sum(CAST(result = 'no_access' AS INT)) OVER board, 0) AS denied_board,
    COALESCE(avg(CAST(result = 'no_access' AS INT)) OVER city, 0.3) AS denied_city,
    count(*) OVER building AS n_building,
    COALESCE(sum(CAST(result = 'no_access' AS INT)) OVER building, 0) AS denied_building
  FROM firsts
  WINDOW board AS (PARTITION BY community_board ORDER BY visited_at {past}),
    city AS (ORDER BY visited_at {past}),
    building AS (PARTITION BY building_id ORDER BY visited_at
      RANGE BETWEEN UNBOUNDED PRECEDING AND {CUT_OFF})
), seconds AS (
  SELECT complaint_id, visited_at AS second_at, result AS second_result
  FROM visits WHERE attempt = 2 AND visited_at < $date_to::TIMESTAMP
)
SELECT k.complaint_id, k.category, k.visited_at, k.stratum, k.units, month(k.visited_at) AS month,
  {numbered("k.severity", SEVERITIES)} AS code, k.n_reports,
  epoch(k.visited_at - k.began) / {day} AS age_days,
  (k.denied_board + {literal(DENIAL_PRIOR)} * k.denied_city) / (k.n_board + {literal(DENIAL_PRIOR)})
    / greatest(k.denied_city, 1e-6) AS denial_ratio,
  CASE WHEN k.denied_building > 0 THEN 2 WHEN k.n_building > 0 THEN 1 ELSE 0 END AS past,
  epoch(s.second_at - k.visited_at) / {day} AS delay_days,
  CASE WHEN s.second_result <> 'no_access' THEN 1 ELSE 0 END AS gets_in,
  CASE WHEN COALESCE(s.second_result, k.result) = 'violation' THEN 1 ELSE 0 END AS is_found,
  epoch(least(COALESCE(o.closed_at, $date_to::TIMESTAMP), $date_to::TIMESTAMP) - k.began)
    / {day} AS open_days
FROM known k LEFT JOIN seconds s USING (complaint_id) LEFT JOIN outcomes o USING (complaint_id)
WHERE {is_asked} AND k.visited_at >= $date_from::TIMESTAMP
ORDER BY k.visited_at, k.complaint_id"""


def _access_design(kinds: np.ndarray, delay_days: np.ndarray) -> np.ndarray:
    """What the chance of getting in at a second visit depends on, (n, 3)."""
    past, _ = split_kind(kinds)
    # A fit takes every coefficient to have a sd of one; a smaller column has a smaller effect.
    delay = DELAY_SD * np.log1p(delay_days) / np.log(31.0)
    return np.column_stack([kinds[:, 0] / (N_DENIALS - 1), past / (N_PASTS - 1), delay])


def access_again(
    office: StreamOffice, visits: Visits, gets_in: np.ndarray, is_counted: np.ndarray
) -> np.ndarray:
    """Chance that a second visit gets in, by kind and delay (n_kinds, 5), from those counted.

    `gets_in` is whether each did, or, where the truth is known, how likely it was.

    Logistic in the board's denial rate, the property's past, and the logarithm of the delay.
    """
    kinds = office.shape.kinds
    rows = is_counted & np.isfinite(visits.delay_days)
    design = _access_design(kinds[visits.kind[rows]], visits.delay_days[rows])
    beta = fit_logistic(design, gets_in[rows].astype(np.float64))
    found = [
        predict(beta, _access_design(kinds, np.full(len(kinds), delay))) for delay in DELAYS_DAYS
    ]
    return np.stack(found, axis=1)


def make_revisit_params(
    office: StreamOffice,
    visits: Visits,
    *,
    chance: np.ndarray,
    again: np.ndarray,
    lifetime_days: float,
    written_share: float,
    followed_share: float,
    returns_per_day: float,
    reported_share: np.ndarray,
) -> RevisitParams:
    """Params of one office."""
    n_seconds = int(np.isfinite(visits.delay_days).sum())
    capacity = n_seconds / len(visits.kind)
    stream = make_params(
        office,
        cells=list_cells(office, visits.kind, visits.stratum, visits.season),
        chance=chance,
        units=units_by_kind(office, visits.kind, visits.units),
        season_rates=period_rates(visits.season, visits.dates),
        lifetime_days=lifetime_days,
        written_share=written_share,
        followed_share=followed_share,
        lead_days=0.0,
        access=np.full(N_STRATA, float(again.mean())),
        visits_per_case=capacity,
        returns_per_day=returns_per_day,
        reported_share=reported_share,
    )
    stream = stream._replace(
        visits_per_step=jnp.float32(min(capacity, MAX_REVISITS)), crew_per_step=jnp.float32(0.0)
    )
    return RevisitParams(stream, jnp.asarray(again, jnp.float32))


def estimate_revisits(
    office: StreamOffice,
    records: Records,
    calibration: Any,
    date_to: date,
    *,
    date_from: date | None = None,
    ends: Ends | None = None,
) -> RevisitParams:
    """The office as the agency could know it before `date_to`.

    What was wrong is known only where a visit got in; who never opens is never known. How incidents
    end is estimated, or given as `ends`.
    """
    first = date_from or records.window[0]
    start = history_start(records, first, date_to)
    visits = read_visits(office, records, start, date_to)
    n_looked = int(visits.gets_in.sum())
    if n_looked < FEWEST_LOOKED:
        raise EstimationError(
            f"Second visits got in {n_looked} times in {office.slug!r} from {start} to "
            f"{date_to} in {records.folder}; at least {FEWEST_LOOKED} are needed, give more months."
        )
    ends = ends or believe_ends(office.slug, records, first, date_to).mean()
    lifetime = ends.days_of(visits.category)
    exposure = lifetime * (1.0 - np.exp(-np.maximum(visits.open_days, 0.0) / lifetime))
    reported = calibration.reported / np.maximum(calibration.denominators, 1e-9)
    return make_revisit_params(
        office,
        visits,
        chance=_estimate_chances(office, records, visits, ends),
        again=access_again(office, visits, visits.gets_in, np.ones(len(visits.kind), bool)),
        lifetime_days=ends.mean_days,
        written_share=ends.written_share,
        followed_share=ends.followed_share,
        returns_per_day=float(visits.n_extra.sum() / max(exposure.sum(), 1e-9)),
        reported_share=np.where(calibration.denominators > 0, np.clip(reported, 0.02, 1.0), 1.0),
    )


def _parts(office: StreamOffice) -> np.ndarray:
    """Denials, severity, past and age of every kind, (n_kinds, 4)."""
    kinds = office.shape.kinds
    return np.column_stack([kinds[:, :2], *split_kind(kinds)])


def _estimate_chances(
    office: StreamOffice, records: Records, visits: Visits, ends: Ends
) -> np.ndarray:
    """Chance that a case of each kind is actionable and open at the visit in hand (n_kinds,).

    Second visits that got in tell it for doors that stayed shut, corrected for incidents that ended
    in between. They are few; first visits that got in tell how it differs between kinds, and that a
    door stayed shut is one more part of a kind.
    """
    opened = read_visits(office, records, *visits.dates, without_access=False)
    looked = visits.gets_in > 0
    lifetime = ends.days_of(visits.category[looked])
    there = np.exp(-np.maximum(visits.delay_days[looked], 0.0) / lifetime)
    parts = np.repeat(_parts(office), 2, axis=0)
    is_shut = np.arange(len(parts)) % 2
    return chance_from_looks(
        np.concatenate([2 * visits.kind[looked] + 1, 2 * opened.kind]),
        np.concatenate([visits.is_found[looked], opened.is_found]),
        np.concatenate([there, np.ones(len(opened.kind))]),
        np.column_stack([parts, is_shut]),
        (*LEVELS, 2),
        ends.written_share,
    )[1::2]


_TRUE_VISITS = """
SELECT i.actionable_chance * CAST(i.natural_end_at > k.visited_at AS INT) AS chance,
  CAST(i.natural_end_at > k.second_at AS INT) AS is_open,
  COALESCE(s.access_chance, 0.0) AS access_chance
FROM cases k JOIN linked USING (complaint_id) JOIN incidents i USING (true_incident_id)
  LEFT JOIN (SELECT complaint_id, access_chance FROM visits JOIN chances USING (visit_id)
    WHERE attempt = 2) s USING (complaint_id)
ORDER BY place"""


def true_revisits(
    office: StreamOffice,
    records: Records,
    happened: Any,
    date_from: date,
    *,
    date_to: date | None = None,
) -> RevisitParams:
    """The office as it really was in [date_from, date_to).

    `happened` is the truth of a synthetic city; only a domain's `truth` may open it.
    """
    last = date_to or records.window[1]
    visits = read_visits(office, records, date_from, last)
    delay = np.nan_to_num(visits.delay_days, nan=1e4)
    second = visits.visited_at + (delay * 86_400e6).astype("timedelta64[us]")
    connection = connect_truth(office, records, happened)
    connection.register("chances", happened.table("visits", office.slug))
    columns = {
        "complaint_id": visits.complaint_id,
        "visited_at": visits.visited_at,
        "second_at": second,
        "place": np.arange(len(visits.kind)),
    }
    add_columns(connection, "cases", columns)
    case = connection.sql(_TRUE_VISITS).fetchnumpy()
    reporting = true_reporting(connection, last)
    ones = np.ones(len(visits.kind))
    return make_revisit_params(
        office,
        visits,
        chance=casebook.chance_by_kind(
            visits.kind, case["chance"].astype(np.float64), ones, _parts(office), LEVELS
        ),
        again=access_again(office, visits, case["access_chance"], case["is_open"] == 1),
        lifetime_days=reporting.lifetime_days,
        written_share=reporting.written_share,
        followed_share=reporting.followed_share,
        returns_per_day=reporting.returns_per_day,
        reported_share=reporting.reported_share,
    )
