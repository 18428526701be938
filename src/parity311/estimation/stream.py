"""Params of a stream of complaints: from what the agency can see, or made by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

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
from parity311.estimation.incident_ends import Ends, believe_ends
from parity311.estimation.kind_chances import chance_from_looks
from parity311.estimation.stream_book import (
    Book,
    StreamOffice,
    history_start,
    read_book,
    season_of,
)
from parity311.mdp.contract import N_STRATA
from parity311.records.cases import column
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.records.store import Records

FEWEST_LOOKED = 40
"""Cases an inspector must have looked into for chances to be estimated (assumed)."""

LATEST_LIVES = 1.5
"""Mean lifetimes after which a look no longer tells what an incident was: four in five are over."""

CREW_SHARE = 0.2
"""Largest share of the inspectors' visits that the quick crew makes (assumed: one inspector of
five). Where fewer cases are of the gravest code, it is no more than these: today's rule sends the
crew to nothing else, and an inspector who waits for code A would be missing on the round."""

SEVERAL_SLOTS = 2.0
"""Usual slots of a weekday from which a day without any is out of the ordinary (assumed)."""

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
    written_share: float,
    followed_share: float,
    lead_days: float,
    access: np.ndarray,
    visits_per_case: float,
    returns_per_day: float,
    reported_share: np.ndarray,
) -> StreamParams:
    """Params of one office; `season_rates` (4,) are complaints per day relative to the year's.

    `followed_share` is that of incidents which a visit left there and which came back.
    """
    shape, number = office.shape, _number
    days = office.days_per_complaint / np.clip(season_rates, 0.2, 5.0)
    place = cells // N_STRATA // (N_LEVELS * shape.n_histories)
    shares = np.bincount(place.ravel(), minlength=shape.n_places) / place.size
    level = cells // N_STRATA // shape.n_histories % N_LEVELS
    crew_share = min(CREW_SHARE, float((level == N_LEVELS - 1).mean()))
    back = returns_per_day * office.days_per_complaint / np.maximum(shares, 1e-6)
    params = StreamParams(
        cells=jnp.asarray(cells, jnp.int32),
        kinds=number(np.stack([chance, units if office.has_dwellings else 0 * units], axis=1)),
        days_per_step=number(days),
        lifetime_days=number(lifetime_days),
        written_share=number(written_share),
        goes_on=number(_goes_on(followed_share, returns_per_day, lifetime_days)),
        lead_days=number(lead_days),
        access=number(access),
        visits_per_step=number(min((1.0 - crew_share) * visits_per_case, MAX_VISITS)),
        crew_per_step=number(min(crew_share * visits_per_case, 1.0)),
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


def _goes_on(followed_share: float, returns_per_day: float, lifetime_days: float) -> float:
    """Chance that people report on after a visit that wrote nothing up.

    So that as many come back as do: what is open comes back before it ends with chance rL / (1 +
    rL), at r further reports a day and a lifetime of L days.
    """
    reports = returns_per_day * lifetime_days
    return float(np.clip(followed_share * (1.0 + reports) / max(reports, 1e-6), 0.0, 1.0))


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


def visits_per_case(office: StreamOffice, records: Records, book: Book) -> float:
    """Cases the inspectors can deal with per case that comes in: slots over attempts."""
    rows = records.sql(_SLOTS, domain=office.slug, date_from=book.dates[0], date_to=book.dates[1])
    n_days = (book.dates[1] - book.dates[0]).days
    weekday = np.array([(book.dates[0] + timedelta(days=i)).weekday() for i in range(n_days)])
    days = count_slots(
        column(rows, "weekday", np.int64),
        column(rows, "n_slots"),
        column(rows, "n_visits"),
        np.bincount(weekday, minlength=7),
    )
    attempts = book.n_visits[book.n_visits > 0]
    return days / len(book.kind) / max(float(attempts.mean()) if len(attempts) else 1.0, 1.0)


_SLOTS = """
SELECT (isodow(CAST(v.visited_at AS DATE)) - 1) AS weekday, max(v.n_slots) AS n_slots,
  count(*) AS n_visits
FROM visits v JOIN complaints c USING (complaint_id)
WHERE c.domain = $domain AND v.visited_at >= $date_from::TIMESTAMP
  AND v.visited_at < $date_to::TIMESTAMP GROUP BY CAST(v.visited_at AS DATE)"""


def count_slots(
    weekday: np.ndarray, n_slots: np.ndarray, n_visits: np.ndarray, n_days: np.ndarray
) -> float:
    """Visits that could be made, from the days on which some were.

    Parameters
    ----------
    weekday, n_slots, n_visits
        (n,) of each day with a visit: 0 = Monday, the slots on record (NaN: none are), the visits.
    n_days
        (7,) days of each weekday in the period.

    A day without a visit is on no record. Where a weekday usually has several slots, nobody was
    waiting on it, and it had as many as the others. Where it has one at most, it may have had none.
    """
    total = 0.0
    for number in range(7):
        own = weekday == number
        known = n_slots[own & np.isfinite(n_slots)]
        made = np.where(np.isfinite(n_slots[own]), n_slots[own], n_visits[own]).sum()
        works = len(known) > 0 and len(known) == own.sum() and np.median(known) >= SEVERAL_SLOTS
        total += float(known.mean() * n_days[number] if works else made)
    return total


def access_of(book: Book, is_counted: np.ndarray) -> np.ndarray:
    """Chance that a visited case is looked into in the end, by stratum (6,)."""
    return casebook.access_by_stratum(book.stratum[is_counted], book.is_looked[is_counted])


def lead_days(book: Book) -> float:
    """Days before a visit can be made: the quickest hundredth's wait, which no queue has made."""
    waits = book.first_wait[np.isfinite(book.first_wait)]
    return float(np.quantile(waits, 0.01)) if len(waits) >= 20 else 1.0


def _early_looks(book: Book, lifetime_days: np.ndarray) -> np.ndarray:
    """Cases looked into before most incidents were over, (n,) bool; the quickest if few.

    What is found weeks later says more about how long incidents last than about what they were.
    `lifetime_days` (n,) is that of each case's category.
    """
    lives = np.where(book.is_looked, book.looked_days, np.inf) / lifetime_days
    return lives <= max(LATEST_LIVES, np.sort(lives)[FEWEST_LOOKED - 1])


def draw_ends(
    office: StreamOffice, records: Records, date_from: date, date_to: date
) -> Callable[[int], dict[str, Any]]:
    """What the records of [date_from, date_to) leave open about how incidents end.

    Returns options of `estimate_params` by the number of a joint draw.
    """
    belief = believe_ends(office.slug, records, date_from, date_to)
    return lambda seed: {"ends": belief.draw(seed)}


def estimate_params(
    office: StreamOffice,
    records: Records,
    calibration: Any,
    date_to: date,
    *,
    date_from: date | None = None,
    ends: Ends | None = None,
) -> StreamParams:
    """The office as the agency could know it before `date_to`.

    Incidents and reporting come from the calibration. What is actionable is known only where an
    inspector got in and wrote it up; it is corrected for incidents that had ended by then, and for
    what inspectors let pass (`incident_ends`, or `ends` where it is given).
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
    ends = ends or believe_ends(office.slug, records, first, date_to).mean()
    lifetime = ends.days_of(book.category)
    looked = _early_looks(book, lifetime)
    there = np.exp(-np.maximum(book.looked_days, 0.0) / lifetime)[looked]
    exposure = lifetime * (1.0 - np.exp(-np.maximum(book.open_days, 0.0) / lifetime))
    reported = calibration.reported / np.maximum(calibration.denominators, 1e-9)
    shape = office.shape
    return make_params(
        office,
        cells=list_cells(office, book.kind, book.stratum, book.season),
        chance=chance_from_looks(
            book.kind[looked],
            book.is_found[looked],
            there,
            shape.kinds,
            kind_levels(shape),
            ends.written_share,
        ),
        units=units_by_kind(office, book.kind, book.units),
        season_rates=period_rates(book.season, book.dates),
        lifetime_days=ends.mean_days,
        written_share=ends.written_share,
        followed_share=ends.followed_share,
        lead_days=lead_days(book),
        access=access_of(book, np.isfinite(book.first_wait)),
        visits_per_case=visits_per_case(office, records, book),
        returns_per_day=float(book.n_extra.sum() / max(exposure.sum(), 1e-9)),
        reported_share=np.where(calibration.denominators > 0, np.clip(reported, 0.02, 1.0), 1.0),
    )


def kind_levels(shape: StreamShape) -> tuple[int, ...]:
    """How many levels each part of a kind has."""
    return (shape.n_places, N_LEVELS, shape.n_histories)


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
        lifetime_days=office.example_lifetime_days,
        written_share=0.8,
        followed_share=0.05,
        lead_days=1.0,
        access=np.full(N_STRATA, 0.9),
        visits_per_case=visits_per_case,
        returns_per_day=returns_per_day,
        reported_share=np.append(reported, 1.0),
    )
