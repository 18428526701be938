"""Years of a policy on records alone: what was reported is reported again, the policy goes first.

No truth is needed, so imported records can be played. A drawn year takes four weeks at a time from
one of the recorded years, at about the same place of the calendar: requests with their further
reports, and as many first visits a day as were made. The policy says who is visited; a visit finds
what the recorded one found; who was put away unvisited leaves the line on the same day. What a
record cannot say stays out: visits without access, and who would have called again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity311.city.incumbent import Rule, WaitingCases, ask_rule, choose_visits
from parity311.errors import EstimationError
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.records.journal import Journal, day_of
from parity311.records.journal_reader import read_journal
from parity311.records.schema import VISIT_RESULTS
from parity311.records.store import Records
from parity311.service_levels.requests import Requests, name_districts
from parity311.service_levels.years import (
    UNUSED_DAYS,
    WEEK_DAYS,
    WEEKS_AROUND,
    YEAR_DAYS,
)
from parity311.serving.period import DAYS_END

WEEKS_TOGETHER = 4
"""Weeks that are drawn as one, so that buildings that report again do so soon."""
N_WEEKS = YEAR_DAYS // WEEK_DAYS
NOTHING = VISIT_RESULTS.index("no_violation")
"""What a visit finds where none is on record."""


@dataclass(frozen=True)
class RecordedCases:
    """A domain's cases and what the records say of each, (n,) each, in order of arrival."""

    journal: Journal
    """at the end of the records"""
    first_day: int
    """first day of whole weeks, days since 1970"""
    n_years: int
    slots: NDArray[np.int64]
    """(days,) first visits made on each day from the first on"""
    result: NDArray[np.int64]
    """what a visit found"""
    put_away: NDArray[np.float64]
    """when a case that nobody visited was closed; infinite where it was not"""
    district: NDArray[np.int64]
    districts: tuple[str, ...]


def read_recorded_cases(records: Records, domain: str, districts: str) -> RecordedCases:
    """Read what years are drawn from; less than a year is refused."""
    first, last = (day_of(datetime.combine(day, time())) for day in records.window)
    n_years = int(last - first) // YEAR_DAYS
    if n_years < 1:
        raise EstimationError(
            f"{records.folder} has {int(last - first)} days; years are drawn from at least one of "
            f"{YEAR_DAYS}, give more months."
        )
    journal = read_journal(records, domain, datetime.combine(records.window[1], time()))
    seen = np.full(journal.n, np.inf)
    # Backwards, so that the first visit of a case stays.
    seen[journal.visit_case[::-1]] = journal.visit_at[::-1]
    result = np.full(journal.n, NOTHING)
    result[journal.visit_case] = journal.visit_result
    is_seen = np.isfinite(seen)
    slots = np.bincount((seen[is_seen] - first).astype(np.int64), minlength=int(last - first))
    names = name_districts(records, districts, journal.tracts[journal.tract])
    labels, district = np.unique(names, return_inverse=True)
    return RecordedCases(
        journal=journal,
        first_day=int(first),
        n_years=n_years,
        slots=slots,
        result=result,
        put_away=np.where(is_seen, np.inf, journal.closed),
        district=district.astype(np.int64),
        districts=tuple(str(one) for one in labels),
    )


@dataclass(frozen=True)
class DrawnYears:
    """Two years put together from recorded weeks: one to warm up, one that counts."""

    journal: Journal
    """all cases and reports of both years, as nobody had been sent anywhere"""
    source: NDArray[np.int64]
    """(n,) recorded case behind each"""
    put_away: NDArray[np.float64]
    slots: NDArray[np.int64]
    """(days,)"""
    first_day: int


def draw_years(cases: RecordedCases, years: range, rng: np.random.Generator) -> DrawnYears:
    """Draw two years from some of the recorded ones, the first being 0."""
    n_blocks = 2 * N_WEEKS // WEEKS_TOGETHER
    year = rng.choice(np.asarray(years), n_blocks)
    week = np.arange(n_blocks) * WEEKS_TOGETHER + rng.integers(
        -WEEKS_AROUND, WEEKS_AROUND + 1, n_blocks
    )
    week = np.clip(week % N_WEEKS, 0, N_WEEKS - WEEKS_TOGETHER)
    size = WEEKS_TOGETHER * WEEK_DAYS
    begins = year * YEAR_DAYS + week * WEEK_DAYS
    # The drawn years stand where the last recorded ones did, so that seasons are the calendar's.
    start = cases.first_day + max(cases.n_years - 2, 0) * YEAR_DAYS
    shift = start + np.arange(n_blocks) * size - (cases.first_day + begins)
    journal = cases.journal
    began = journal.began - cases.first_day
    rows, moved, slots = [], [], []
    for number, begin in enumerate(begins.tolist()):
        low, high = np.searchsorted(began, (begin, begin + size))
        rows.append(np.arange(low, high))
        moved.append(np.full(high - low, shift[number]))
        slots.append(cases.slots[begin : begin + size])
    source, move = np.concatenate(rows), np.concatenate(moved).astype(np.float64)
    return DrawnYears(
        journal=_move(journal, source, move, start + n_blocks * size),
        source=source,
        put_away=cases.put_away[source] + move,
        slots=np.concatenate(slots),
        first_day=start,
    )


def _move(journal: Journal, source: NDArray, move: NDArray, end: int) -> Journal:
    """The journal with these cases, each moved by so many days, before anybody was sent."""
    taken = journal.take(source)
    n = len(source)
    order = np.argsort(journal.report_case, kind="stable")
    sorted_case = journal.report_case[order]
    low, high = (np.searchsorted(sorted_case, source, side=side) for side in ("left", "right"))
    case = np.repeat(np.arange(n), high - low)
    within = np.arange(len(case)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
    at = journal.report_at[order[low[case] + within]] + move[case]
    by_time = np.argsort(at, kind="stable")
    never, nobody = np.full(n, np.inf), np.zeros(0)
    return replace(
        journal,
        **{name: getattr(taken, name) for name in _CASE_COLUMNS},
        as_of=float(end),
        complaint_id=np.array([f"drawn-{one}" for one in range(n)], object),
        began=taken.began + move,
        last_report=taken.last_report + move,
        flags=taken.flags,
        further=taken.further,
        settled=never,
        closed=never,
        report_at=at[by_time],
        report_case=case[by_time],
        visit_at=nobody,
        visit_case=nobody.astype(np.int64),
        visit_result=nobody.astype(np.int64),
    )


_CASE_COLUMNS = ("code", "category", "tract", "stratum", "borough", "board", "zip", "building",
                 "units", "n_reports", "n_attempts", "last_visit")  # fmt: skip


def play_drawn(
    cases: RecordedCases, drawn: DrawnYears, rule: Rule, seed: int, fewer: float = 1.0
) -> Requests:
    """Let a rule visit its way through two drawn years; the requests of the second."""
    journal, n = drawn.journal, drawn.journal.n
    visited, result = np.full(n, np.inf), cases.result[drawn.source]
    log: dict[str, list[Any]] = {"at": [], "case": []}
    # Whole visits whose running sum is that of the factor.
    slots = np.diff(np.floor(fewer * np.cumsum(drawn.slots) + 1e-9), prepend=0.0).astype(np.int64)
    rng = np.random.default_rng(seed)
    unused = 0
    for number, new in enumerate(slots.tolist()):
        n_slots = new + min(unused, int(slots[max(number - UNUSED_DAYS, 0) : number].sum()))
        unused = n_slots
        now = drawn.first_day + number + DAYS_END
        known = int(np.searchsorted(journal.began, now))
        is_open = np.isinf(visited[:known]) & (drawn.put_away[:known] >= now)
        rows = np.flatnonzero(is_open)
        if not n_slots or not len(rows):
            continue

        def look_up(now: float = now, rows: NDArray = rows) -> tuple[Journal, NDArray]:
            return _as_played(journal, now, visited, result, drawn.put_away, log), rows

        priority = ask_rule(rule, _waiting(journal, rows, now, n_slots, look_up))
        chosen = rows[choose_visits(rng, priority, n_slots, 0.0).position]
        visited[chosen] = now
        unused -= len(chosen)
        log["at"] += [now] * len(chosen)
        log["case"] += chosen.tolist()
    return _requests(cases, drawn, visited)


def _as_played(
    journal: Journal,
    now: float,
    visited: NDArray,
    result: NDArray,
    put_away: NDArray,
    log: dict[str, list[Any]],
) -> Journal:
    """What the office would have on paper: reports as they came, visits as they were played."""
    today = journal.rewind(now)
    n = today.n
    at, case = np.array(log["at"], np.float64), np.array(log["case"], np.int64)
    been = visited[:n] < now
    settled = np.where(been, visited[:n], np.inf)
    return replace(
        today,
        settled=settled,
        closed=np.where(been, settled, np.where(put_away[:n] < now, put_away[:n], np.inf)),
        n_attempts=been.astype(np.int64),
        last_visit=np.where(been, visited[:n], np.nan),
        visit_at=at,
        visit_case=case,
        visit_result=result[case],
    )


def _waiting(
    journal: Journal, rows: NDArray, now: float, n_slots: int, look_up: Any
) -> WaitingCases:
    none = np.zeros(len(rows), np.int32)
    stratum = journal.stratum[rows]
    flags = [journal.flags[name][rows] for name in journal.flags]
    return WaitingCases(
        day=int(now),
        severity=journal.code[rows].astype(np.int8),
        age_days=now - journal.began[rows],
        category=journal.category[rows].astype(np.int8),
        tract=journal.tract[rows].astype(np.int32),
        stratum=np.where(stratum < N_KNOWN_STRATA, stratum + 1, 0).astype(np.int8),
        units=journal.units[rows].astype(np.int32),
        n_attempts=none.astype(np.int16),
        n_prior_cases=none,
        n_prior_violations=none,
        flags=np.stack(flags, axis=1) if flags else np.zeros((len(rows), 0), bool),
        n_slots=n_slots,
        look_up=look_up,
    )


def _requests(cases: RecordedCases, drawn: DrawnYears, visited: NDArray) -> Requests:
    """Requests of the year that counts, with their waits in whole days."""
    journal = drawn.journal
    begins, last = drawn.first_day + YEAR_DAYS, drawn.first_day + 2 * YEAR_DAYS
    rows = np.flatnonzero(journal.began >= begins)
    received = np.floor(journal.began[rows]).astype(np.int64)
    return Requests(
        received_day=received,
        wait_days=np.maximum(np.floor(visited[rows]) - received, 0.0),
        followed_days=last - 1 - received,
        category=journal.category[rows].astype(np.int64),
        district=cases.district[drawn.source[rows]],
        stratum=journal.stratum[rows].astype(np.int64),
        tract=journal.tract[rows].astype(np.int64),
        code=journal.code[rows].astype(np.int64),
        categories=journal.categories,
        districts=cases.districts,
        wait_hours=24.0 * np.maximum(visited[rows] - journal.began[rows], 0.0),
    )


def play_recorded(
    cases: RecordedCases, make_rule: Any, n_years: int, *, years: range, seed: int, fewer: float = 1
) -> Iterator[Requests]:
    """So many drawn years under a rule that is made anew for each."""
    for number in range(n_years):
        rng = np.random.default_rng([seed, number])
        yield play_drawn(cases, draw_years(cases, years, rng), make_rule(), seed + number, fewer)
