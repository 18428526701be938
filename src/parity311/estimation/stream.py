"""Params of a stream of complaints: from what the agency can see, or from a city's truth."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, jnp
from parity311.engines.stream.process import (
    MAX_VISITS,
    N_DRAWABLE,
    N_LEVELS,
    N_SEASONS,
    ActionTable,
    StreamParams,
    StreamShape,
    severity_score,
)
from parity311.engines.stream.worth import capacity_shares, check_params, kind_shares
from parity311.errors import EstimationError
from parity311.estimation import casebook
from parity311.estimation.kind_chances import chance_from_looks
from parity311.estimation.stream_book import (
    FEWEST_TESTED,
    Book,
    StreamOffice,
    history_start,
    read_book,
    season_of,
)
from parity311.estimation.visit_sequences import believe_lifetime, read_sequences
from parity311.mdp.contract import N_STRATA
from parity311.records.cases import STRATUM
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.records.sql import add_columns, connect
from parity311.records.store import Records

FEWEST_LOOKED = 40
"""Cases an inspector must have looked into for chances to be estimated (assumed)."""

LATEST_LIVES = 1.5
"""Mean lifetimes after which a look no longer tells what an incident was: four in five are over."""

CREW_SHARE = 0.2
"""Share of the inspectors' visits that the quick crew makes (assumed: one inspector of five)."""

CELL_PRIOR = 50.0
"""Cases the city's mix of kinds counts for in a stratum and season of its own (assumed)."""


def list_cells(
    office: StreamOffice, kind: np.ndarray, stratum: np.ndarray, season: np.ndarray
) -> np.ndarray:
    """(4, N_DRAWABLE) complaints of each season: kind × 6 + stratum, in proportion."""
    n_cells = office.shape.n_kinds * N_STRATA
    cell = kind * N_STRATA + stratum
    whole = np.bincount(cell, minlength=n_cells) / len(cell)
    rows = []
    for number in range(N_SEASONS):
        counts = np.bincount(cell[season == number], minlength=n_cells).astype(np.float64)
        shares = (counts + CELL_PRIOR * whole) / (counts.sum() + CELL_PRIOR)
        rows.append(spread(shares, N_DRAWABLE))
    return np.stack(rows)


def spread(shares: np.ndarray, n: int) -> np.ndarray:
    """A list of n indices in which each appears in proportion to its share (largest remainders)."""
    wanted = shares / shares.sum() * n
    counts = np.floor(wanted).astype(np.int64)
    missing = n - int(counts.sum())
    counts[np.argsort(counts - wanted, kind="stable")[:missing]] += 1
    return np.repeat(np.arange(len(shares)), counts)


def make_params(
    office: StreamOffice,
    *,
    cells: np.ndarray,
    chance: np.ndarray,
    units: np.ndarray,
    season_rates: np.ndarray,
    lifetime_days: float,
    lead_days: float,
    access: np.ndarray,
    visits_per_case: float,
    returns_per_day: float,
    reported_share: np.ndarray,
) -> StreamParams:
    """Params of one office; `season_rates` (4,) are complaints per day relative to the year's."""
    shape, number = office.shape, _number
    days = office.days_per_complaint / np.clip(season_rates, 0.2, 5.0)
    place = cells // N_STRATA // (N_LEVELS * shape.n_histories)
    shares = np.bincount(place.ravel(), minlength=shape.n_places) / place.size
    back = returns_per_day * office.days_per_complaint / np.maximum(shares, 1e-6)
    params = StreamParams(
        cells=jnp.asarray(cells, jnp.int32),
        kinds=number(np.stack([chance, units if office.has_dwellings else 0 * units], axis=1)),
        days_per_step=number(days),
        lifetime_days=number(lifetime_days),
        lead_days=number(lead_days),
        access=number(access),
        visits_per_step=number(min((1.0 - CREW_SHARE) * visits_per_case, MAX_VISITS)),
        crew_per_step=number(min(CREW_SHARE * visits_per_case, 1.0)),
        comes_back=number(np.clip(back, 0.0, 1.0)),
        reported_share=number(np.clip(reported_share, 0.02, 1.0)),
        service_days=number([SERVICE_LEVEL_DAYS[code] for code in reversed(SEVERITIES)]),
        priced_bar=number(0.0),
        speed_unit=number(office.speed_unit),
        cost_unit=number(office.cost_unit),
        keep_unit=number(office.keep_unit),
        actions=ActionTable(*(jnp.asarray(x) for x in office.actions)),
    )
    check_params(shape, params)
    return params._replace(priced_bar=number(_priced_bar(shape, params)))


def _priced_bar(shape: StreamShape, params: StreamParams) -> float:
    """Severity score of the least grave visit that the office has room for, gravest first."""
    kinds = jnp.arange(shape.n_kinds)
    score = np.asarray(jax.vmap(lambda kind: severity_score(shape, kind))(kinds), np.float64)
    order = np.argsort(-score)
    cumulative = np.cumsum(kind_shares(shape, params)[order])
    place = int(np.searchsorted(cumulative, capacity_shares(params).anybody))
    # A hair below, so that ties at the bar are served.
    return float(score[order[min(place, len(order) - 1)]]) - 1e-4


def _number(value: Any) -> Any:
    return jnp.asarray(value, jnp.float32)


def units_by_kind(office: StreamOffice, kind: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Mean dwelling units of each kind, leaning on the city's mean; at most 100 count."""
    capped = np.minimum(units, 100.0)
    n = np.bincount(kind, minlength=office.shape.n_kinds)
    total = np.bincount(kind, capped, minlength=office.shape.n_kinds)
    return (total + 25.0 * capped.mean()) / (n + 25.0)


def period_rates(season: np.ndarray, dates: tuple[date, date]) -> np.ndarray:
    """Cases per day in each season of [date_from, date_to) against the whole period's, (4,)."""
    n_days = (dates[1] - dates[0]).days
    days = [season_of(dates[0] + timedelta(days=i)) for i in range(n_days)]
    in_season = np.bincount(days, minlength=N_SEASONS).astype(np.float64)
    counts = np.bincount(season, minlength=N_SEASONS)
    # A season the period hardly touches is taken at the year's rate.
    rate = counts / np.maximum(in_season, 1.0) / (len(season) / n_days)
    return np.where(in_season >= 14, rate, 1.0)


def _visits_per_case(office: StreamOffice, records: Records, book: Book) -> float:
    """Cases the inspectors can deal with per case that comes in: slots over attempts."""
    rows = records.sql(
        """
SELECT sum(n_slots) AS n FROM (
  SELECT CAST(v.visited_at AS DATE) AS day, COALESCE(max(v.n_slots), count(*)) AS n_slots
  FROM visits v JOIN complaints c USING (complaint_id)
  WHERE c.domain = $domain AND v.visited_at >= $date_from::TIMESTAMP
    AND v.visited_at < $date_to::TIMESTAMP GROUP BY 1)""",
        domain=office.slug,
        date_from=book.dates[0],
        date_to=book.dates[1],
    )
    slots = float(rows["n"][0].as_py() or 0.0)
    attempts = book.n_visits[book.n_visits > 0]
    return slots / len(book.kind) / max(float(attempts.mean()) if len(attempts) else 1.0, 1.0)


def _access(book: Book, is_counted: np.ndarray) -> np.ndarray:
    """Chance that a visited case is looked into in the end, by stratum (6,)."""
    return casebook.access_by_stratum(book.stratum[is_counted], book.is_looked[is_counted])


def _lead_days(book: Book) -> float:
    """Days before a visit can be made: the quickest hundredth's wait, which no queue has made."""
    waits = book.first_wait[np.isfinite(book.first_wait)]
    return float(np.quantile(waits, 0.01)) if len(waits) >= 20 else 1.0


def _early_looks(book: Book, lifetime_days: float) -> np.ndarray:
    """Cases looked into before most incidents were over, (n,) bool; the quickest if few.

    What is found weeks later says more about how long incidents last than about what they were.
    """
    days = np.where(book.is_looked, book.looked_days, np.inf)
    latest = max(LATEST_LIVES * lifetime_days, np.sort(days)[FEWEST_LOOKED - 1])
    return days <= latest


def estimate_lifetime(
    office: StreamOffice, records: Records, calibration: Any, dates: tuple[date, date]
) -> float:
    """Mean days until an incident ends by itself, from visits and reports in [first, last)."""
    details = calibration.estimate.details
    calibrated = float(details.get("mean_lifetime_days", office.lifetime_days))
    return believe_lifetime(read_sequences(office.slug, records, *dates), calibrated).mean_days


def estimate_params(
    office: StreamOffice,
    records: Records,
    calibration: Any,
    date_to: date,
    *,
    date_from: date | None = None,
) -> StreamParams:
    """The office as the agency could know it before `date_to`.

    Incidents and reporting come from the calibration. What is actionable is known only where an
    inspector got in and wrote it up; it is corrected for incidents that had ended by then, and by
    an assumed share for what inspectors let pass (`kind_chances.WRITTEN_SHARE`).
    """
    first = date_from or records.window[0]
    start = history_start(records, first, date_to)
    book = read_book(office, records, start, date_to)
    if book.is_looked.sum() < FEWEST_LOOKED:
        raise EstimationError(
            f"Inspectors looked into {int(book.is_looked.sum())} cases of {office.slug!r} from "
            f"{start} to {date_to} in {records.folder}; at least {FEWEST_LOOKED} are needed, give "
            "more months."
        )
    lifetime = estimate_lifetime(office, records, calibration, (first, date_to))
    looked = _early_looks(book, lifetime)
    there = np.exp(-np.maximum(book.looked_days[looked], 0.0) / lifetime)
    exposure = lifetime * (1.0 - np.exp(-np.maximum(book.open_days, 0.0) / lifetime))
    reported = calibration.reported / np.maximum(calibration.denominators, 1e-9)
    shape = office.shape
    return make_params(
        office,
        cells=list_cells(office, book.kind, book.stratum, book.season),
        chance=chance_from_looks(
            book.kind[looked], book.is_found[looked], there, shape.kinds, _levels(shape)
        ),
        units=units_by_kind(office, book.kind, book.units),
        season_rates=period_rates(book.season, book.dates),
        lifetime_days=lifetime,
        lead_days=_lead_days(book),
        access=_access(book, np.isfinite(book.first_wait)),
        visits_per_case=_visits_per_case(office, records, book),
        returns_per_day=float(book.n_extra.sum() / max(exposure.sum(), 1e-9)),
        reported_share=np.where(calibration.denominators > 0, np.clip(reported, 0.02, 1.0), 1.0),
    )


def _levels(shape: StreamShape) -> tuple[int, ...]:
    return (shape.n_places, N_LEVELS, shape.n_histories)


_TRUE_INCIDENTS = f"""
SELECT i.n_reports, i.began_at,
  {STRATUM} AS stratum,
  epoch(i.natural_end_at - i.began_at) / 86400.0 AS lifetime_days,
  epoch(i.ended_at - i.first_reported_at) / 86400.0 AS heard_days
FROM incidents i LEFT JOIN tracts t ON t.geoid = i.tract
WHERE i.began_at < $date_to::TIMESTAMP"""

_TRUE_CASES = """
SELECT i.actionable_chance AS chance,
  CAST(v.first_at < i.natural_end_at AS INT) AS is_alive
FROM (SELECT complaint_id, row_number() OVER () AS place FROM cases) k
JOIN linked USING (complaint_id) JOIN incidents i USING (true_incident_id)
LEFT JOIN (SELECT complaint_id, min(visited_at) AS first_at FROM visits GROUP BY 1) v
  USING (complaint_id)
ORDER BY place"""


class TrueReporting(NamedTuple):
    """How incidents really last and are reported."""

    lifetime_days: float
    returns_per_day: float
    """further reports per day that a reported incident is open"""
    reported_share: np.ndarray
    """(6,)"""


def true_reporting(
    office: StreamOffice, records: Records, happened: Any, date_to: date
) -> TrueReporting:
    """Lifetimes and reporting of the incidents of a synthetic city before `date_to`."""
    connection = connect()
    connection.register("incidents", happened.table("incidents", office.slug))
    connection.register("tracts", records.table("tracts", columns=["geoid", "income_quintile"]))
    began = connection.sql(_TRUE_INCIDENTS, params={"date_to": date_to}).fetchnumpy()
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
    return TrueReporting(
        lifetime,
        float(again / max(np.nansum(heard), 1e-9)),
        np.where(total > 0, reported / np.maximum(total, 1), 1.0),
    )


def true_params(
    office: StreamOffice,
    records: Records,
    happened: Any,
    date_from: date,
    *,
    date_to: date | None = None,
) -> StreamParams:
    """The office as it really was in [date_from, date_to).

    `happened` is the truth of a synthetic city; only a domain's `truth` may open it. What counts is
    the chance with which each incident turned out actionable, not how it fell: a kind has a few
    dozen cases a year, and a ceiling that knows how the dice fall could not be learned from any
    record.
    """
    last = date_to or records.window[1]
    book = read_book(office, records, date_from, last, fewest=FEWEST_TESTED)
    shape = office.shape
    connection = connect()
    connection.register("incidents", happened.table("incidents", office.slug))
    connection.register("linked", happened.table("reports", office.slug))
    connection.register("visits", records.table("visits", office.slug))
    add_columns(connection, "cases", {"complaint_id": book.complaint_id})
    case = connection.sql(_TRUE_CASES).fetchnumpy()
    chance, ones = case["chance"].astype(np.float64), np.ones(len(book.kind))
    reporting = true_reporting(office, records, happened, last)
    return make_params(
        office,
        cells=list_cells(office, book.kind, book.stratum, book.season),
        chance=casebook.chance_by_kind(book.kind, chance, ones, shape.kinds, _levels(shape)),
        units=units_by_kind(office, book.kind, book.units),
        season_rates=period_rates(book.season, book.dates),
        lifetime_days=reporting.lifetime_days,
        lead_days=_lead_days(book),
        access=_access(book, np.ma.filled(case["is_alive"], 0) == 1),
        visits_per_case=_visits_per_case(office, records, book),
        returns_per_day=reporting.returns_per_day,
        reported_share=reporting.reported_share,
    )


EXAMPLE_REPORTED = (0.354, 0.42, 0.50, 0.60, 0.729)
"""Shares of incidents that the five strata of a hand-made office report, as in boiler and heat."""


def example_params(
    office: StreamOffice,
    *,
    place_shares: tuple[float, ...],
    place_log_odds: tuple[float, ...],
    level_shares: tuple[float, float, float, float],
    history_shares: tuple[float, ...],
    history_log_odds: tuple[float, ...],
    actionable: float,
    level_log_odds: float = 0.9,
    visits_per_case: float = 0.30,
    season_rates: tuple[float, float, float, float] = (0.9, 1.0, 1.1, 1.0),
    returns_per_day: float = 0.01,
) -> StreamParams:
    """A small office by hand: five equal strata that report 35 to 73 %, visits for 30 %."""
    kinds = office.shape.kinds
    shares = np.asarray(place_shares)[kinds[:, 0]] * np.asarray(level_shares)[kinds[:, 1]]
    shares = shares * np.asarray(history_shares)[kinds[:, 2]]
    score = np.asarray(place_log_odds)[kinds[:, 0]] + level_log_odds * kinds[:, 1]
    score = score + np.asarray(history_log_odds)[kinds[:, 2]]
    offsets = np.linspace(-8.0, 4.0, 1201)
    chance = 1.0 / (1.0 + np.exp(-(score + offsets[:, None])))
    chance = chance[np.argmin(np.abs(chance @ (shares / shares.sum()) - actionable))]
    reported = np.array(EXAMPLE_REPORTED)
    cells = np.outer(shares, np.append(reported / reported.sum(), 0.0)).ravel()
    return make_params(
        office,
        cells=np.tile(spread(cells, N_DRAWABLE), (N_SEASONS, 1)),
        chance=chance,
        units=np.full(len(chance), 10.0),
        season_rates=np.asarray(season_rates),
        lifetime_days=office.lifetime_days,
        lead_days=1.0,
        access=np.full(N_STRATA, 0.9),
        visits_per_case=visits_per_case,
        returns_per_day=returns_per_day,
        reported_share=np.append(reported, 1.0),
    )
