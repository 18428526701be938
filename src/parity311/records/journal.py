"""A domain's cases as an office knew them at one moment: what serving looks at.

The same columns come from a records folder (`journal_reader`) and from a city at work, so that one
path leads from either to a recommendation. Nothing that was received, visited or closed at the
moment or after it is in a journal. Times are days since 1970 with fractions; NaN or infinity says
that something has not happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np

from parity311.errors import InputError
from parity311.records.past import GroupedTimes

EPOCH = datetime(1970, 1, 1)
DAY_SECONDS = 86_400.0
UNKNOWN = -1
"""Stands for a building, an equipment or a community board that a report does not name."""


@dataclass(frozen=True)
class Cases:
    """Cases in the order they came in, (n,) each: some of a journal, or new ones beside it."""

    complaint_id: np.ndarray
    """of the case's first report"""
    began: np.ndarray
    """when that was received"""
    code: np.ndarray
    """severity code as recorded, 0 = A … 3 = D"""
    category: np.ndarray
    """position in `categories`"""
    tract: np.ndarray
    """number of the tract, its position in `Journal.tracts`"""
    stratum: np.ndarray
    """0 … 4 income quintiles, 5 unknown"""
    borough: np.ndarray
    """position in the schema's `BOROUGHS`; -1 in another city"""
    board: np.ndarray
    """community board, borough digit × 100 + board"""
    zip: np.ndarray
    """number of the postal code"""
    building: np.ndarray
    """number of the building; UNKNOWN where none is named"""
    units: np.ndarray
    n_reports: np.ndarray
    last_report: np.ndarray
    n_attempts: np.ndarray
    """visits so far"""
    last_visit: np.ndarray
    """latest visit; NaN without one"""
    categories: tuple[str, ...]
    flags: Mapping[str, np.ndarray]
    """what the first report says yes or no to, (n,) bool each"""
    further: Mapping[str, np.ndarray]
    """columns that only some domains have, (n,) each: of filings the `equipment`, the `boilers` of
    the building, and the `defect` that was found, NaN while that is not known"""

    @property
    def n(self) -> int:
        """Number of cases."""
        return len(self.began)

    def take(self, rows: np.ndarray) -> Cases:
        """Those at these positions."""
        return Cases(
            **{name: getattr(self, name)[rows] for name in _TAKEN},
            categories=self.categories,
            flags={name: values[rows] for name, values in self.flags.items()},
            further={name: values[rows] for name, values in self.further.items()},
        )

    def join(self, other: Cases) -> Cases:
        """These cases and, after them, others; categories of the others are numbered anew."""
        shift = len(self.categories)
        both = {name: (getattr(self, name), getattr(other, name)) for name in _TAKEN}
        both["category"] = (self.category, other.category + shift)
        extra = lambda a, b: {name: np.append(a[name], b[name]) for name in a if name in b}  # noqa: E731
        return Cases(
            **{name: np.concatenate(parts) for name, parts in both.items()},
            categories=(*self.categories, *other.categories),
            flags=extra(self.flags, other.flags),
            further=extra(self.further, other.further),
        )

    def number_categories(self, number: Mapping[str, int], otherwise: int) -> np.ndarray:
        """Number of each case's category, (n,): by its code, or the other where it has none."""
        table = np.array([number.get(code, otherwise) for code in self.categories], np.int64)
        return np.append(table, otherwise)[self.category]


class Area(NamedTuple):
    """What a tract says of a complaint that comes from it; fields as in `Journal`."""

    tract: int
    stratum: int
    borough: int
    board: int
    zip: int


@dataclass(frozen=True)
class Journal(Cases):
    """All cases of a domain at a moment, with their reports (m,) and visits (k,)."""

    domain: str
    as_of: float
    """the moment, in days since 1970"""
    settled: np.ndarray
    """(n,) first visit with access; infinite without one"""
    closed: np.ndarray
    """(n,) infinite while it is open"""
    report_at: np.ndarray
    report_case: np.ndarray
    """position of the case"""
    visit_at: np.ndarray
    visit_case: np.ndarray
    visit_result: np.ndarray
    """position in the schema's `VISIT_RESULTS`"""
    tracts: np.ndarray
    """geoids"""
    n_tracts: int
    """tracts of the city, those without a case included"""
    building_ids: np.ndarray = field(default_factory=lambda: np.zeros(0, object))
    """id of every building by its number"""
    areas: Mapping[str, Area] = field(default_factory=dict)
    """every tract of the city by its geoid, for complaints that are yet to come"""

    @property
    def moment(self) -> datetime:
        """The moment as a date and time."""
        return moment_of(self.as_of)

    @cached_property
    def building_numbers(self) -> dict[str, int]:
        """Number of every building by its id."""
        return {str(name): number for number, name in enumerate(self.building_ids)}

    @property
    def as_cases(self) -> Cases:
        """Its cases without what else the journal holds; the same arrays, not copies."""
        return Cases(**{one.name: getattr(self, one.name) for one in fields(Cases)})

    @property
    def open_rows(self) -> np.ndarray:
        """Positions of the cases that nobody has settled or closed, in order of arrival."""
        is_open = (self.closed >= self.as_of) & (self.settled >= self.as_of)
        return np.flatnonzero(is_open)

    def rewind(self, day: float) -> Journal:
        """The journal as it stood at an earlier moment, in days since 1970.

        Names keep their numbers, so that some are named of which there is no case yet.
        """
        if day > self.as_of:
            raise InputError(
                f"The journal tells what was known before {self.moment}; {moment_of(day)} is later."
            )
        n = int(np.searchsorted(self.began, day))
        heard, seen = (int(np.searchsorted(at, day)) for at in (self.report_at, self.visit_at))
        known = lambda times: np.where(times[:n] < day, times[:n], np.inf)  # noqa: E731
        n_reports, last_report = _last_of(self.report_case[:heard], self.report_at, n)
        n_attempts, last_visit = _last_of(self.visit_case[:seen], self.visit_at, n)
        further = {name: values[:n] for name, values in self.further.items()}
        if "defect" in further:
            further["defect"] = np.where(self.closed[:n] < day, further["defect"], np.nan)
        return replace(
            self,
            as_of=float(day),
            **{name: getattr(self, name)[:n] for name in _FIXED},
            n_reports=n_reports,
            last_report=last_report,
            n_attempts=n_attempts,
            last_visit=last_visit,
            settled=known(self.settled),
            closed=known(self.closed),
            report_at=self.report_at[:heard],
            report_case=self.report_case[:heard],
            visit_at=self.visit_at[:seen],
            visit_case=self.visit_case[:seen],
            visit_result=self.visit_result[:seen],
            flags={name: values[:n] for name, values in self.flags.items()},
            further=further,
        )

    @cached_property
    def by_building(self) -> GroupedTimes:
        """Cases in order of building, then of arrival."""
        return GroupedTimes.of(self.building, self.began)

    @cached_property
    def by_tract(self) -> GroupedTimes:
        """Cases in order of tract, then of arrival."""
        return GroupedTimes.of(self.tract, self.began)

    @cached_property
    def new_per_day(self) -> float:
        """Cases that came in a day, over the last year or as long as there are records."""
        first = max(self.as_of - 365.0, float(self.began[0]) if self.n else self.as_of)
        n = self.n - np.searchsorted(self.began, first)
        return float(n) / max(self.as_of - first, 1.0)

    def visits_per_day(self, days: float = 28.0) -> float:
        """Visits made a day over the last days, or over all of them where there were none."""
        n = len(self.visit_at) - np.searchsorted(self.visit_at, self.as_of - days)
        if n == 0 and len(self.visit_at):
            n, days = len(self.visit_at), self.as_of - float(self.began[0])
        return float(n) / max(days, 1.0)

    def days_since_last(self, cases: Cases) -> np.ndarray:
        """Days since the case before it at the same building, (n,); NaN where there was none."""
        order = self.by_building
        place = order.n_before(cases.building, cases.began) - 1
        last = np.where(place >= 0, place, 0)
        is_same = (place >= 0) & (order.group[last] == cases.building) & (cases.building >= 0)
        days = cases.began - order.time[last] if self.n else np.zeros(cases.n)
        return np.where(is_same, days, np.nan)

    def n_near(self, cases: Cases, days: float) -> np.ndarray:
        """Cases of the same tract that came in so many days before it, (n,)."""
        order = self.by_tract
        low = order.n_before(cases.tract, cases.began - days)
        return order.n_before(cases.tract, cases.began) - low

    def n_in_city(self, cases: Cases, days: float) -> np.ndarray:
        """Cases of the whole city that came in so many days before it, (n,)."""
        low = np.searchsorted(self.began, cases.began - days)
        return np.searchsorted(self.began, cases.began) - low


_FIXED = (
    "complaint_id", "began", "code", "category", "tract", "stratum", "borough", "board", "zip",
    "building", "units",
)  # fmt: skip
"""What a case's first report says, and nothing changes later."""
_TAKEN = (*_FIXED, "n_reports", "last_report", "n_attempts", "last_visit")


def _last_of(case: np.ndarray, at: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """How many events each of n cases had and when the last was, (n,) each; NaN without one.

    Events are in order of time.
    """
    own = np.flatnonzero((case >= 0) & (case < n))
    last = np.full(n, np.nan)
    last[case[own]] = at[own]
    return np.bincount(case[own], minlength=n), last


def day_of(moment: datetime) -> float:
    """Days since 1970."""
    return (moment - EPOCH).total_seconds() / DAY_SECONDS


def moment_of(day: float) -> datetime:
    """The date and time so many days after 1970, to the second."""
    return EPOCH + timedelta(seconds=round(day * DAY_SECONDS))
