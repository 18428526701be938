"""A domain's cases as an office knew them at one moment: what serving looks at.

The same columns come from a records folder (`read_journal`) and from a city at work, so that one
path leads from either to a recommendation. Nothing that was received, visited or closed at the
moment or after it is in a journal. Times are days since 1970 with fractions; NaN or infinity says
that something has not happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, LiteralString, NamedTuple

import numpy as np

from parity311.errors import InputError
from parity311.records.absent import no_such_domain
from parity311.records.cases import KNOWN, STRATUM, cases, column, numbered, reports, to_array
from parity311.records.schema import BOROUGHS, SEVERITIES, TABLES, VISIT_RESULTS
from parity311.records.sql import identifier, literal
from parity311.records.store import Records, table_path

if TYPE_CHECKING:
    import pyarrow as pa

EPOCH = datetime(1970, 1, 1)
DAY_SECONDS = 86_400.0
UNKNOWN = -1
"""Stands for a building, an equipment or a community board that a report does not name."""


@dataclass(frozen=True)
class Cases:
    """Some cases of a journal, or new ones beside it, (n,) each; fields as in `Journal`."""

    complaint_id: np.ndarray
    began: np.ndarray
    code: np.ndarray
    category: np.ndarray
    tract: np.ndarray
    stratum: np.ndarray
    borough: np.ndarray
    board: np.ndarray
    zip: np.ndarray
    building: np.ndarray
    units: np.ndarray
    n_reports: np.ndarray
    last_report: np.ndarray
    n_attempts: np.ndarray
    last_visit: np.ndarray
    categories: tuple[str, ...]
    flags: Mapping[str, np.ndarray]
    further: Mapping[str, np.ndarray]

    @property
    def n(self) -> int:
        """Number of cases."""
        return len(self.began)

    def take(self, rows: np.ndarray) -> Cases:
        """Those at these positions."""
        return take_cases(self, rows)

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
class Journal:
    """Cases in the order they came in, (n,) each; then their reports (m,) and visits (k,)."""

    domain: str
    as_of: float
    """the moment, in days since 1970"""
    complaint_id: np.ndarray
    """of the case's first report"""
    began: np.ndarray
    """when that was received"""
    code: np.ndarray
    """severity code as recorded, 0 = A … 3 = D"""
    category: np.ndarray
    """position in `categories`"""
    tract: np.ndarray
    """position in `tracts`"""
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
    settled: np.ndarray
    """first visit with access; infinite without one"""
    closed: np.ndarray
    """infinite while it is open"""
    report_at: np.ndarray
    report_case: np.ndarray
    """position of the case"""
    visit_at: np.ndarray
    visit_case: np.ndarray
    visit_result: np.ndarray
    """position in the schema's `VISIT_RESULTS`"""
    categories: tuple[str, ...]
    tracts: np.ndarray
    """geoids"""
    n_tracts: int
    """tracts of the city, those without a case included"""
    flags: Mapping[str, np.ndarray] = field(default_factory=dict)
    """what the first report says yes or no to, (n,) bool each"""
    further: Mapping[str, np.ndarray] = field(default_factory=dict)
    """columns that only some domains have, (n,) each: of filings the `equipment`, the `boilers` of
    the building, and the `defect` that was found, NaN while that is not known"""
    building_ids: np.ndarray = field(default_factory=lambda: np.zeros(0, object))
    """id of every building by its number"""
    areas: Mapping[str, Area] = field(default_factory=dict)
    """every tract of the city by its geoid, for complaints that are yet to come"""

    @property
    def n(self) -> int:
        """Number of cases."""
        return len(self.began)

    @property
    def moment(self) -> datetime:
        """The moment as a date and time."""
        return moment_of(self.as_of)

    @cached_property
    def building_numbers(self) -> dict[str, int]:
        """Number of every building by its id."""
        return {str(name): number for number, name in enumerate(self.building_ids)}

    @property
    def open_rows(self) -> np.ndarray:
        """Positions of the cases that nobody has settled or closed, in order of arrival."""
        is_open = (self.closed >= self.as_of) & (self.settled >= self.as_of)
        return np.flatnonzero(is_open)

    def take(self, rows: np.ndarray) -> Cases:
        """Cases at these positions."""
        return take_cases(self, rows)

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


FEW = 8
"""Moments that are sooner counted one by one than together."""


@dataclass(frozen=True)
class GroupedTimes:
    """Moments sorted by group, then by time: what a count over a group's past is read off."""

    group: np.ndarray
    time: np.ndarray
    row: np.ndarray
    """(n,) position of each in what was sorted"""
    starts: np.ndarray
    """(largest group + 2,) where each group begins"""

    @classmethod
    def of(cls, group: np.ndarray, time: np.ndarray) -> GroupedTimes:
        """Sort moments (n,) of groups (n,), numbered from 0; a group below 0 is none."""
        row = np.lexsort((time, group))
        n_groups = int(group.max(initial=-1)) + 1
        starts = np.searchsorted(group[row], np.arange(n_groups + 1))
        return cls(group[row], time[row], row, starts)

    def n_before(self, group: np.ndarray, time: np.ndarray) -> np.ndarray:
        """How many sorted moments come before each of these times in their groups, (n,).

        The count includes all groups before, so that a difference of two is a count in the group.
        """
        if len(group) <= FEW:
            pairs = zip(group.tolist(), time.tolist(), strict=True)
            return np.array([self._n_before_one(*one) for one in pairs], np.int64)
        known = np.clip(group, 0, max(len(self.starts) - 2, 0))
        is_known = (group >= 0) & (group < len(self.starts) - 1)
        low = np.where(is_known, self.starts[known], 0)
        high = np.where(is_known, self.starts[np.minimum(known + 1, len(self.starts) - 1)], 0)
        # A binary search in every group at once.
        while (is_going := low < high).any():
            middle = (low + high) // 2
            is_earlier = self.time[np.minimum(middle, len(self.time) - 1)] < time
            high = np.where(is_going & ~is_earlier, middle, high)
            low = np.where(is_going & is_earlier, middle + 1, low)
        return low

    def _n_before_one(self, group: int, time: float) -> int:
        if not 0 <= group < len(self.starts) - 1:
            return 0
        low, high = self.starts[group], self.starts[group + 1]
        return int(low + self.time[low:high].searchsorted(time))


PastCount = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]
"""(group (n,), at (n,), days) -> how many, and the sum of their values, in the days before"""


def count_past(group: np.ndarray, time: np.ndarray, value: np.ndarray) -> PastCount:
    """Make a counter of what happened to a group before a moment; arrays (m,), in any order."""
    order = GroupedTimes.of(group, time)
    summed = np.append(0.0, np.cumsum(value[order.row]))

    def count(of: np.ndarray, at: np.ndarray, days: float) -> tuple[np.ndarray, np.ndarray]:
        low, high = order.n_before(of, at - days), order.n_before(of, at)
        return high - low, summed[high] - summed[low]

    return count


def take_cases(source: Journal | Cases, rows: np.ndarray) -> Cases:
    """Cases at these positions of a journal, or of other cases."""
    chosen = {name: getattr(source, name)[rows] for name in _TAKEN}
    return Cases(
        **chosen,
        categories=source.categories,
        flags={name: values[rows] for name, values in source.flags.items()},
        further={name: values[rows] for name, values in source.further.items()},
    )


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


def read_journal(records: Records, domain: str, as_of: datetime) -> Journal:
    """The cases of a domain as the records show them just before a moment."""
    if domain not in records.domains:
        raise no_such_domain(records, domain)
    if as_of.tzinfo is not None:
        raise InputError(
            f"The moment {as_of} names a time zone; records have the city's own time, give that."
        )
    first, last = records.window
    if not first <= as_of.date() <= last:
        raise InputError(
            f"{records.folder} has records from {first} to {last}; {as_of} lies outside, choose a "
            "moment between them."
        )
    fields, found = (_fields(records, name, domain) for name in ("complaints", "outcomes"))
    flags = [name for name, is_flag in fields.items() if is_flag]
    asked = {"domain": domain, "date_to": as_of}
    rows = records.sql(
        _cases_query(flags, "equipment_id" in fields, "defect_found" in found), **asked
    )
    heard = records.sql(_REPORTS, **asked)
    visited = records.sql(_VISITS, **asked)
    building, building_ids = _encoded(rows["building_id"])
    equipment, _ = _encoded(rows["equipment_id"])
    zips, zip_codes = _encoded(rows["zip"])
    tract, tracts = _encoded(rows["tract"])
    category, categories = _encoded(rows["category"])
    areas = _read_areas(records, tracts, zip_codes)
    number = lambda name: column(rows, name, np.int64)  # noqa: E731
    never = lambda name: np.nan_to_num(column(rows, name), nan=np.inf)  # noqa: E731
    place = {name: i for i, name in enumerate(rows["complaint_id"].to_pylist())}
    visit_case = _places(visited["complaint_id"], place)
    # A visit on record under a later report of its case cannot be told apart; it counts nowhere.
    told = visit_case != UNKNOWN
    return Journal(
        domain=domain,
        as_of=day_of(as_of),
        complaint_id=to_array(rows["complaint_id"].combine_chunks()),
        began=column(rows, "began_day"),
        code=number("code"),
        category=category,
        tract=tract,
        stratum=number("stratum"),
        borough=number("borough"),
        board=number("board"),
        zip=zips,
        building=building,
        units=column(rows, "units"),
        n_reports=number("n_reports"),
        last_report=column(rows, "last_day"),
        n_attempts=number("n_attempts"),
        last_visit=column(rows, "visit_day"),
        settled=never("settled_day"),
        closed=never("closed_day"),
        report_at=column(heard, "day"),
        report_case=_places(heard["complaint_id"], place),
        visit_at=column(visited, "day")[told],
        visit_case=visit_case[told],
        visit_result=column(visited, "result", np.int64)[told],
        categories=tuple(str(name) for name in categories),
        tracts=tracts,
        n_tracts=len(areas),
        flags={name: column(rows, name, bool) for name in flags},
        further={
            "equipment": equipment,
            "boilers": column(rows, "boilers"),
            "defect": column(rows, "defect"),
        },
        building_ids=building_ids,
        areas=areas,
    )


def _read_areas(records: Records, tracts: np.ndarray, zips: np.ndarray) -> dict[str, Area]:
    """Every tract of the city, numbered as the cases' are."""
    rows = records.sql(f"""
SELECT t.geoid, {STRATUM} AS stratum, {numbered("t.borough", BOROUGHS, -1)} AS borough,
  COALESCE(t.community_board, 0) AS board, t.zip FROM tracts t""").to_pylist()
    tract_of, zip_of = ({str(name): i for i, name in enumerate(x)} for x in (tracts, zips))
    return {
        row["geoid"]: Area(
            tract_of.get(row["geoid"], UNKNOWN),
            row["stratum"],
            row["borough"],
            row["board"],
            zip_of.get(str(row["zip"]), UNKNOWN),
        )
        for row in rows
    }


_NUMBERED: tuple[LiteralString, ...] = ("building_id", "equipment_id", "zip")
_FIRST: tuple[LiteralString, ...] = (
    "tract", "severity", "category", "stratum", "borough", "board", "units", "boilers", *_NUMBERED
)  # fmt: skip
_VISITED = "visited_at < $date_to::TIMESTAMP"


def _days(moment: LiteralString) -> LiteralString:
    return f"epoch({moment}) / {literal(DAY_SECONDS)}"


def _cases_query(flags: Sequence[str], has_equipment: bool, has_defects: bool) -> LiteralString:
    stated = "".join(f", COALESCE(c.{name}, false) AS {name}" for name in map(identifier, flags))
    equipment = "c.equipment_id" if has_equipment else "CAST(NULL AS VARCHAR)"
    defect = "CAST(o.defect_found AS DOUBLE)" if has_defects else "CAST(NULL AS DOUBLE)"
    columns = f"""c.complaint_id, c.received_at, c.tract, c.severity, c.category, c.building_id,
    {equipment} AS equipment_id, t.zip, {STRATUM} AS stratum,
    {numbered("t.borough", BOROUGHS, -1)} AS borough, COALESCE(t.community_board, 0) AS board,
    COALESCE(b.units, 1) AS units, COALESCE(b.boilers, 0) AS boilers{stated}"""
    joins = """LEFT JOIN tracts t ON t.geoid = c.tract
    LEFT JOIN buildings b ON b.building_id = c.building_id"""
    return f"""
WITH own AS ({reports(columns, joins)}
), cases AS ({cases(*_FIRST, *map(identifier, flags))}
), heard AS (SELECT case_id, max(received_at) AS last_report FROM own GROUP BY 1
), seen AS (
  SELECT complaint_id, count(*) AS n_attempts, max(visited_at) AS last_visit,
    min(visited_at) FILTER (WHERE result <> 'no_access') AS settled
  FROM visits WHERE {_VISITED} GROUP BY 1
)
SELECT k.* EXCLUDE (began), {_days("k.began")} AS began_day,
  {_days("h.last_report")} AS last_day, {numbered("k.severity", SEVERITIES)} AS code,
  COALESCE(s.n_attempts, 0) AS n_attempts, {_days("s.last_visit")} AS visit_day,
  {_days("s.settled")} AS settled_day,
  CASE WHEN o.closed_at < $date_to::TIMESTAMP THEN {_days("o.closed_at")} END AS closed_day,
  CASE WHEN o.closed_at < $date_to::TIMESTAMP THEN {defect} END AS defect
FROM cases k JOIN heard h USING (case_id) LEFT JOIN seen s USING (complaint_id)
  LEFT JOIN outcomes o USING (complaint_id)
ORDER BY k.began, k.complaint_id"""


_REPORTS = f"""
WITH own AS ({reports()}
), cases AS ({cases()})
SELECT k.complaint_id, {_days("own.received_at")} AS day
FROM own JOIN cases k USING (case_id) ORDER BY own.received_at, own.complaint_id"""

_VISITS = f"""
SELECT v.complaint_id, {_days("v.visited_at")} AS day,
  {numbered("v.result", VISIT_RESULTS)} AS result
FROM visits v JOIN complaints c USING (complaint_id)
WHERE {KNOWN} AND v.{_VISITED} ORDER BY v.visited_at, v.complaint_id"""


def _fields(records: Records, name: str, domain: str) -> dict[str, bool]:
    """Columns of its own that a domain has in a table, and whether each says yes or no."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(table_path(records.folder, name, domain))
    own = [column for column in schema.names if column not in TABLES[name].column_names]
    return {column: pa.types.is_boolean(schema.field(column).type) for column in own}


def _encoded(texts: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Position of every text among the different ones, and those; UNKNOWN for none."""
    coded = texts.combine_chunks().dictionary_encode()
    index = np.nan_to_num(to_array(coded.indices), nan=UNKNOWN).astype(np.int64)
    return index, to_array(coded.dictionary)


def _places(names: pa.ChunkedArray, place: dict[str, int]) -> np.ndarray:
    return np.array([place.get(name, UNKNOWN) for name in names.to_pylist()], np.int64)
