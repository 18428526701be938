"""Requests with the days until their first visit, from records; never visited is infinite.

A request is a case: a first report and what was linked to it, so that nobody counts twice. The
clock runs from the first report to the first visit, in calendar days; being closed is no visit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import LiteralString

import numpy as np
from numpy.typing import NDArray

from parity311.errors import EstimationError, InputError, RecordsError, unknown_name
from parity311.records.absent import no_such_domain
from parity311.records.cases import CASE_ID, STRATUM, column, to_array
from parity311.records.schema import SEVERITIES
from parity311.records.store import Records
from parity311.records.strata import INCOME, LABELS
from parity311.service_levels.levels import POOLED

DISTRICTS: dict[str, LiteralString] = {
    "borough": "t.borough",
    "community_board": "t.community_board",
}
"""What a district can be, and its column."""
FEWEST = 100
"""Requests below which a category is pooled with others (assumed: twenty for each of five
districts, above the fourteen that a promise of 80 % needs)."""
EPOCH = date(1970, 1, 1)
MOST_BACKWARDS = 0.01
"""Share of the visits that may lie before the first report: more, and the clock itself is wrong."""


@dataclass(frozen=True)
class Requests:
    """Requests in order of time, (n,) each."""

    received_day: NDArray[np.int64]
    """days since 1970"""
    wait_days: NDArray[np.float64]
    """calendar days to the first visit; infinite where none came"""
    followed_days: NDArray[np.int64]
    """days from the request to the end of what is known: a visit after it would not be seen"""
    category: NDArray[np.int64]
    district: NDArray[np.int64]
    stratum: NDArray[np.int64]
    tract: NDArray[np.int64]
    """number of the tract; what goes together when intervals are drawn"""
    code: NDArray[np.int64]
    """severity code, 0 = A … 3 = D"""
    categories: tuple[str, ...]
    districts: tuple[str, ...]
    strata: tuple[str, ...] = LABELS[INCOME]
    wait_hours: NDArray[np.float64] | None = None
    """hours to the first visit, where they are known; infinite where none came"""
    n_backwards: int = 0
    """requests left out because they were visited before they were received"""

    @property
    def n(self) -> int:
        """Number of requests."""
        return len(self.received_day)

    def take(self, rows: NDArray) -> Requests:
        """Those at these places."""
        return replace(self, **{name: column[rows] for name, column in self.columns.items()})

    @property
    def columns(self) -> dict[str, NDArray]:
        """What is known of each request, (n,) each, by name."""
        names = ("received_day", "wait_days", "followed_days", "category", "district", "stratum",
                 "tract", "code", "wait_hours")  # fmt: skip
        found = {name: getattr(self, name) for name in names}
        return {name: column for name, column in found.items() if column is not None}

    @staticmethod
    def joined(parts: Sequence[Requests]) -> Requests:
        """Requests of several periods as one."""
        names = parts[0].columns
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in names}
        return replace(parts[0], **columns)

    def pooled(self, fewest: int = FEWEST, n_years: int = 1) -> Requests:
        """Small categories as one, gravest first, the pooled one last.

        Small are those with fewer requests, or with fewer a year where these are of several.
        """
        counts = np.bincount(self.category, minlength=len(self.categories))
        mean_code = np.bincount(self.category, self.code, len(self.categories))
        mean_code = mean_code / np.maximum(counts, 1)
        large = [k for k in np.argsort(mean_code, kind="stable") if counts[k] >= fewest * n_years]
        names = tuple(self.categories[k] for k in large)
        place = np.full(len(self.categories), len(large))
        place[large] = np.arange(len(large))
        has_rest = bool((place[self.category] == len(large)).any())
        if not large:
            a_year = " a year" if n_years > 1 else ""
            raise EstimationError(
                f"No category has {fewest} requests{a_year} (the largest has "
                f"{int(counts.max(initial=0) / n_years)}); lower --fewest, give more months, or "
                "another domain."
            )
        return replace(
            self,
            category=place[self.category],
            categories=(*names, POOLED) if has_rest else names,
        )


def read_requests(
    records: Records,
    domain: str,
    *,
    districts: str = "borough",
    date_from: date | None = None,
    date_to: date | None = None,
) -> Requests:
    """All requests of a domain received in [date_from, date_to), followed to the records' end."""
    if domain not in records.domains:
        raise no_such_domain(records, domain)
    if districts not in DISTRICTS:
        raise unknown_name("districts", districts, DISTRICTS)
    first, last = records.window
    start, stop = date_from or first, date_to or last
    if not first <= start < stop <= last:
        raise InputError(
            f"{records.folder} has records from {first} to {last}; {start} to {stop} was asked "
            "for, choose days within."
        )
    rows = records.sql(
        f"""
WITH own AS (
  SELECT {CASE_ID} AS case_id, c.received_at, c.category, c.severity, c.tract,
    {STRATUM} AS stratum, {DISTRICTS[districts]}::VARCHAR AS district, o.first_visit_at
  FROM complaints c LEFT JOIN tracts t ON t.geoid = c.tract
  LEFT JOIN outcomes o USING (complaint_id)
  WHERE c.domain = $domain)
SELECT min(received_at)::DATE - DATE '1970-01-01' AS received_day,
  min(first_visit_at)::DATE - min(received_at)::DATE AS wait_days,
  arg_min(category, received_at) AS category, arg_min(severity, received_at) AS severity,
  arg_min(tract, received_at) AS tract, arg_min(stratum, received_at) AS stratum,
  arg_min(district, received_at) AS district
FROM own GROUP BY case_id
HAVING min(received_at) >= $date_from::TIMESTAMP AND min(received_at) < $date_to::TIMESTAMP
ORDER BY received_day, case_id""",
        domain=domain,
        date_from=start,
        date_to=stop,
    )
    if not rows.num_rows:
        raise EstimationError(
            f"{records.folder} has no request of {domain!r} from {start} to {stop}; choose other "
            "days or another domain."
        )
    _check_districts(records, districts, rows["district"].null_count)
    wait = np.nan_to_num(column(rows, "wait_days"), nan=np.inf)
    received = column(rows, "received_day", np.int64)
    last_day = (last - EPOCH).days
    # What is visited after the records' end is not known; the day itself is not over.
    followed = last_day - 1 - received
    category, categories = _numbered(rows["category"])
    district, names = _numbered(rows["district"])
    tract, _ = _numbered(rows["tract"])
    severity = np.array(to_array(rows["severity"].combine_chunks()).tolist())
    found = Requests(
        received_day=received,
        wait_days=wait,
        followed_days=followed,
        category=category,
        district=district,
        stratum=column(rows, "stratum", np.int64),
        tract=tract,
        code=np.searchsorted(SEVERITIES, severity),
        categories=categories,
        districts=names,
    )
    return _forward_only(found, records)


def _forward_only(found: Requests, records: Records) -> Requests:
    """Leave out the few whose visit came before the request; refuse where they are many."""
    backwards = found.wait_days < 0
    n_visited = int(np.isfinite(found.wait_days).sum())
    if backwards.sum() > MOST_BACKWARDS * max(n_visited, 1):
        raise RecordsError(
            f"{records.folder}: {int(backwards.sum()):,} of {n_visited:,} visits came before the "
            "first report, so the clocks run backwards; check which dates were imported as "
            "received_at and visited_at."
        )
    return replace(found.take(np.flatnonzero(~backwards)), n_backwards=int(backwards.sum()))


def _check_districts(records: Records, districts: str, n_missing: int) -> None:
    if n_missing:
        raise RecordsError(
            f"{records.folder}: {n_missing:,} requests lie in no {districts}, so the districts do "
            "not cover the city; add their tracts to the tracts table, or group by another."
        )


def name_districts(records: Records, districts: str, geoid: NDArray) -> NDArray:
    """(n,) name of the district that each tract lies in; refused where one lies in none."""
    if districts not in DISTRICTS:
        raise unknown_name("districts", districts, DISTRICTS)
    rows = records.sql(f"SELECT t.geoid, {DISTRICTS[districts]}::VARCHAR AS name FROM tracts t")
    known = dict(zip(rows["geoid"].to_pylist(), rows["name"].to_pylist(), strict=True))
    found = [known.get(str(one)) for one in geoid]
    _check_districts(records, districts, sum(one is None for one in found))
    return np.array([str(one) for one in found])


def _numbered(values: object) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Places among the sorted names, and the names."""
    plain = np.array([str(one) for one in values.to_pylist()])  # pyright: ignore[reportAttributeAccessIssue]
    names, place = np.unique(plain, return_inverse=True)
    return place.astype(np.int64), tuple(str(name) for name in names)


def visits_after(requests: Requests, n_ages: int) -> NDArray[np.float64]:
    """(B, K, A, 1) visits after at least so many days among requests followed for A − 1 days.

    Visits after more than A − 2 days count as none, as in a followed `Setting`: history is scored
    as the simulation is.
    """
    judged = requests.followed_days >= n_ages - 1
    seen = judged & (requests.wait_days <= n_ages - 2)
    shape = (len(requests.districts), len(requests.categories), n_ages)
    found = np.zeros(shape)
    np.add.at(
        found,
        (
            requests.district[seen],
            requests.category[seen],
            requests.wait_days[seen].astype(np.int64),
        ),
        1.0,
    )
    return found[:, :, ::-1].cumsum(axis=2)[:, :, ::-1][..., None]


def count_cells(requests: Requests, rows: NDArray | Sequence[int] | None = None) -> NDArray:
    """(B, K) requests by district and category."""
    chosen = np.arange(requests.n) if rows is None else np.asarray(rows)
    n_categories = len(requests.categories)
    cell = requests.district[chosen] * n_categories + requests.category[chosen]
    counts = np.bincount(cell, minlength=len(requests.districts) * n_categories)
    return counts.reshape(len(requests.districts), n_categories)
