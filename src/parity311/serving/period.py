"""Every case of a period, as a policy would have seen it on its day.

What a backtest asks policies about and what an explanation explains is built here, by the sight
that serves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from typing import Any, NamedTuple

import numpy as np

from parity311.agents.package import flatten, nest
from parity311.errors import EstimationError, InputError
from parity311.mdp.contract import Domain, Sight
from parity311.records.journal import DAY_SECONDS, Cases, Journal, day_of
from parity311.records.journal_reader import read_journal
from parity311.records.schema import SEVERITIES
from parity311.records.store import Records
from parity311.serving.refusals import check_fields

DAYS_END = 1.0 - 0.75 / DAY_SECONDS
"""When a day is looked back on, in days from its beginning: past its last second, and still of its
own date."""


class SeenComplaints(NamedTuple):
    """Complaints as a policy would have seen them; NumPy arrays."""

    complaint_id: Any
    """(n,)"""
    tract: Any
    """(n,) geoid"""
    severity: Any
    """(n,) severity code"""
    stratum: Any
    """(n,) position in `STRATUM_NAMES`"""
    features: Any
    """(n, n_names) in the order of the domain's `observation_names`"""


@dataclass(frozen=True)
class SeenPeriod:
    """The cases of a period as they were seen, and what else was known of them, (n,) each."""

    complaints: SeenComplaints
    began: np.ndarray
    """days since 1970"""
    code: np.ndarray
    """severity code, 0 = A"""
    units: np.ndarray
    ahead: np.ndarray
    """cases reported before it that waited on that day"""


def decides_by_case(domain: Domain) -> bool:
    """Whether the domain says how it sees a case on record, and decides about one at a time.

    Neither the whole office is decided about, nor a case hour by hour.
    """
    sight = domain.sight
    return sight is not None and sight.rank is None and not sight.is_repeated


def see_period(
    domain: Domain, records: Records, params: Any, date_from: date, date_to: date
) -> SeenPeriod:
    """The cases that came in in [date_from, date_to), each as of the end of the day it came in.

    Where a domain decides about some cases only, as about those where nobody opened, they are
    those of which it first had to decide in the period, as of the end of that day. `params` are
    the domain's, as estimated or as served.
    """
    sight = domain.sight
    if sight is None or not decides_by_case(domain):
        raise no_recorded_log(domain)
    last = min(date_to, records.window[1])
    journal = read_journal(records, domain.slug, datetime.combine(last, time()))
    check_fields(domain, journal)
    served = nest(flatten(sight.keep(params) if sight.keep else params))
    rows, ahead, features = [], [], []
    for day, chosen, cases, before in _days(sight, journal, date_from):
        view = sight.see(served, day, cases, before)
        rows.append(chosen)
        ahead.append(before)
        features.append(np.asarray(sight.show(served, view), np.float64))
    if not rows:
        raise EstimationError(
            f"{records.folder} has no case of {domain.slug!r} from {date_from} to {date_to}; "
            f"choose dates within {records.window[0]} to {records.window[1]}."
        )
    row = np.concatenate(rows)
    seen = SeenComplaints(
        complaint_id=journal.complaint_id[row].astype(str),
        tract=np.asarray(journal.tracts, str)[journal.tract[row]],
        severity=np.array(SEVERITIES)[journal.code[row]],
        stratum=journal.stratum[row],
        features=np.concatenate(features),
    )
    return SeenPeriod(
        complaints=seen,
        began=journal.began[row],
        code=journal.code[row],
        units=journal.units[row],
        ahead=np.concatenate(ahead),
    )


def no_recorded_log(domain: Domain) -> InputError:
    """Error for a domain whose decisions are not whether to visit a complaint that came in."""
    return InputError(
        f"Records say whether somebody went to a complaint in time; what {domain.slug!r} decides "
        f'is another thing ("{domain.decision}"), and which of it was chosen is not on record. '
        "Give a log of its process, --records LOG.parquet, as `log_decisions` writes it."
    )


def _days(
    sight: Sight, journal: Journal, date_from: date
) -> Iterator[tuple[Journal, np.ndarray, Cases, np.ndarray]]:
    """Every day with a case to see: the journal at its end, positions, cases, cases ahead."""
    first = int(day_of(datetime.combine(date_from, time())))
    is_seen = np.zeros(journal.n, bool)
    if sight.concerns is None:
        days = np.unique(journal.began[journal.began >= first] // 1.0)
    else:
        days = np.arange(first - 1.0, journal.as_of)
    for start in days:
        day = journal.rewind(min(start + DAYS_END, journal.as_of))
        waiting = day.open_rows
        if sight.concerns is None:
            rows = np.arange(np.searchsorted(day.began, start), day.n)
            cases = _as_somebody_went(day, rows, start)
        else:
            waiting = waiting[sight.concerns(day.take(waiting))]
            rows = waiting[~is_seen[waiting]]
            is_seen[rows] = True
            cases = day.take(rows)
        if len(rows) and start >= first:
            yield day, rows, cases, np.searchsorted(waiting, rows).astype(np.float64)


def _as_somebody_went(day: Journal, rows: np.ndarray, start: float) -> Cases:
    """Cases of this day as they stood when somebody first went, or at its end if nobody did.

    What was heard after a visit is no reason for it.
    """
    seen, heard = (int(np.searchsorted(at, start)) for at in (day.visit_at, day.report_at))
    went = np.full(day.n + 1, np.inf)
    # Backwards, so that the first visit stays; the last place is for visits to no known case.
    went[day.visit_case[seen:][::-1]] = day.visit_at[seen:][::-1]
    case, at = day.report_case[heard:], day.report_at[heard:]
    is_before = (case >= 0) & (at < went[case])
    n_reports = np.bincount(case[is_before], minlength=day.n)[rows]
    last = day.began.copy()
    last[case[is_before]] = at[is_before]
    return replace(
        day.take(rows),
        n_reports=np.maximum(n_reports, 1),
        last_report=last[rows],
        n_attempts=np.zeros(len(rows), np.int64),
        last_visit=np.full(len(rows), np.nan),
    )
