"""Promises that are in force, held against records: due dates for the desk, kept shares for all.

`due_dates` is the desk's clock, `count_kept` the table on its public page and in `watch`. A request
keeps the promise that was in force on the day it was received.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity311.records.store import Records
from parity311.service_levels.levels import POOLED, ServiceLevels, in_force
from parity311.service_levels.monitor import ALARM, follow_promise
from parity311.service_levels.requests import (
    DISTRICTS,
    EPOCH,
    Requests,
    name_districts,
    read_requests,
)

FEWEST_SHOWN = 10
"""Requests below which a share is not shown: who they are could be told."""


@dataclass(frozen=True)
class KeptCell:
    """How the promises of one cell were kept so far."""

    district: str
    category: str
    days: int | None
    """promised to those received last"""
    n_due: int
    """requests whose day has passed, open ones included"""
    n_kept: int
    n_overdue: int
    """of the others, how many nobody has visited to this day"""
    kept_share: float | None
    """none where there are too few to show"""
    lower: float | None
    upper: float | None
    """95 % band of the weekly share that holds on all days at once"""
    evidence: float
    """e-value that fewer than promised are kept"""
    is_broken: bool


@dataclass(frozen=True)
class KeptPromises:
    """All cells, and the domain as a whole."""

    domain: str
    share: float
    """what was promised"""
    cells: tuple[KeptCell, ...]
    whole: KeptCell
    n_without: int
    """requests that were promised nothing"""

    def describe(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def count_kept(
    versions: Sequence[ServiceLevels], records: Records, *, since: date, until: date | None = None
) -> KeptPromises:
    """Count what was kept of the promises to requests received from a day on.

    Parameters
    ----------
    versions
        Levels of one domain, as they followed on each other.
    until
        The day of the look; the end of the records if not given.
    """
    last = versions[-1]
    check_city(last, records)
    requests = read_requests(records, last.domain, districts=last.districts, date_from=since)
    today = ((until or records.window[1]) - EPOCH).days
    days, named = promised_days(versions, requests)
    has_promise = np.isfinite(days) & (requests.received_day < today)
    rows = np.flatnonzero(has_promise)
    cell = requests.district[rows] * len(named[1]) + named[0][rows]
    cells = tuple(
        _cell(
            requests, rows[cell == one], days, today, last.share,
            requests.districts[one // len(named[1])], named[1][one % len(named[1])],
        )
        for one in np.unique(cell).tolist()
    )  # fmt: skip
    whole = _cell(requests, rows, days, today, last.share, "all districts", "all categories")
    asked = int((requests.received_day < today).sum())
    return KeptPromises(last.domain, last.share, cells, whole, asked - len(rows))


def check_city(levels: ServiceLevels, records: Records) -> None:
    """Refuse levels that leave a district of the city out."""
    geoid = np.array(records.table("tracts")["geoid"].to_pylist(), object)
    names = name_districts(records, levels.districts, geoid)
    levels.check_covers(sorted(set(names.tolist())))


def promised_days(
    versions: Sequence[ServiceLevels], requests: Requests
) -> tuple[NDArray[np.float64], tuple[NDArray[np.int64], tuple[str, ...]]]:
    """(n,) days promised to each request, NaN for none; and its category as the levels name it."""
    last = versions[-1]
    told = {one.category for one in last.promise}
    pools = POOLED in told
    names = [one if one in told or not pools else POOLED for one in requests.categories]
    labels, place = np.unique(np.array(names), return_inverse=True)
    day = requests.received_day
    found = np.full(requests.n, np.nan)
    begins = np.unique(day)
    force = [in_force(versions, date.fromordinal(int(one) + EPOCH.toordinal())) for one in begins]
    number = np.array([-1 if one is None else versions.index(one) for one in force])
    version = number[np.searchsorted(begins, day)]
    for which, levels in enumerate(versions):
        table = np.full((len(requests.districts), len(requests.categories)), np.nan)
        for b, district in enumerate(requests.districts):
            for k, category in enumerate(requests.categories):
                promise = levels.find(district, category)
                if promise is not None and promise.days is not None:
                    table[b, k] = promise.days
        mine = version == which
        found[mine] = table[requests.district[mine], requests.category[mine]]
    return found, (place[requests.category], tuple(str(one) for one in labels))


def _cell(
    requests: Requests,
    rows: NDArray[np.int64],
    days: NDArray[np.float64],
    today: int,
    share: float,
    district: str,
    category: str,
) -> KeptCell:
    due = requests.received_day[rows] + days[rows].astype(np.int64)
    # A visit on a day that is not over cannot be seen, nor one after it.
    visit = requests.received_day[rows] + requests.wait_days[rows]
    is_kept = (requests.wait_days[rows] <= days[rows]) & (visit < today)
    passed = due < today
    found = follow_promise(due, is_kept, share, today=today)
    n_due, n_kept = int(passed.sum()), int((passed & is_kept).sum())
    is_shown = n_due >= FEWEST_SHOWN
    promised = days[rows[-1]] if len(rows) and district != "all districts" else np.nan
    return KeptCell(
        district=district,
        category=category,
        days=int(promised) if np.isfinite(promised) else None,
        n_due=n_due,
        n_kept=n_kept,
        n_overdue=int((passed & (visit >= today)).sum()),
        kept_share=n_kept / n_due if is_shown else None,
        lower=float(found.lower[-1]) if is_shown else None,
        upper=float(found.upper[-1]) if is_shown else None,
        evidence=float(found.e_value[-1]) if n_due else 1.0,
        is_broken=bool(n_due and (found.e_value >= ALARM).any()),
    )


def due_dates(versions: Sequence[ServiceLevels], records: Records) -> dict[str, date]:
    """Promised day of every complaint on record that was promised one, by its id: a clock's end."""
    last = versions[-1]
    district = DISTRICTS[last.districts]
    rows = records.sql(
        f"""
SELECT c.complaint_id, c.received_at::DATE AS received, c.category, {district}::VARCHAR AS district
FROM complaints c LEFT JOIN tracts t ON t.geoid = c.tract WHERE c.domain = $domain""",
        domain=last.domain,
    ).to_pylist()
    found = {}
    for row in rows:
        levels = in_force(versions, row["received"])
        due = levels and levels.due(row["received"], str(row["district"]), row["category"])
        if due:
            found[row["complaint_id"]] = due
    return found
