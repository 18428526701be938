"""Other systems that are asked for complaints: another Open311 server, or a Socrata feed.

Each is asked again and again for what came since the last time, page by page, and then how the
complaints that it told of earlier have ended. A complaint that comes twice is taken once; what
cannot be taken is counted by reason, and the rest goes on.
"""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.desk.accounts import utc_now
from parity311.desk.desk import Desk
from parity311.desk.georeport import city_time, zoned
from parity311.desk.intake import (
    MOST_TOGETHER,
    NewComplaint,
    check_complaint,
    nearest_tract,
    record_closing,
    take_in,
)
from parity311.desk.outside import ask
from parity311.desk.partners import check_address, is_time, wait
from parity311.desk.refusals import DeskRefusal
from parity311.desk.tables import CLOSED, CaseRow, ClosingRow, ReportRow, SourceRow
from parity311.errors import InputError, Parity311Error
from parity311.records.sql import literals

MOST_READ, MOST_PAGES = 1000, 20
"""Rows of a page that are asked for, and pages at one time."""
MOST_FOLLOWED = 100
"""Complaints of earlier whose end is asked for at one time; the next ones come the next time."""
ASKED_AT_ONCE = 500
DAYS_BACK = 7
"""Days that a source is asked for when it is asked first."""
LATE = timedelta(hours=1)
"""Rows are published a little late: so much of what was read is asked for again."""
KINDS = ("georeport", "socrata")
FIELDS = {
    "georeport": ("service_request_id", "requested_datetime", "service_code", "lat", "long"),
    "socrata": ("unique_key", "created_date", "complaint_type", "latitude", "longitude"),
}
"""Where a source's rows have number, time, code and place."""
Codes = Mapping[str, tuple[str, str]]
"""Their code -> our domain and category."""


@dataclass
class _Found:
    """What one asking came to."""

    complaints: dict[str, tuple[NewComplaint, str]] = field(default_factory=dict)
    """by number here: the complaint, and when it was closed; empty: it is open"""
    left_out: Counter[str] = field(default_factory=Counter)
    last: str = ""
    problem: str = ""


def add_source(
    session: Session, desk: Desk, name: str, kind: str, address: str, codes: str, minutes: float,
    by: str,
) -> None:  # fmt: skip
    """Ask a system for complaints every so many minutes."""
    if session.get(SourceRow, name) is not None:
        raise DeskRefusal(f"There is a source {name!r} already; choose another name.")
    if kind not in KINDS:
        raise DeskRefusal(f"{kind[:40]!r} was given; allowed is {' or '.join(KINDS)}.")
    read_codes(desk, codes)
    session.add(
        SourceRow(
            name=name, kind=kind, address=check_address(address), codes=codes, minutes=minutes,
            made_by=by, made_at=utc_now(),
        )
    )  # fmt: skip


def read_codes(desk: Desk, text: str) -> dict[str, tuple[str, str]]:
    """Lines `their code = domain / category` -> domain and category."""
    found: dict[str, tuple[str, str]] = {}
    for line in filter(str.strip, text.splitlines()):
        theirs, is_pair, ours = line.rpartition("=")
        domain, _, category = (one.strip() for one in ours.partition("/"))
        if not is_pair or not theirs.strip() or domain not in desk.offices:
            raise DeskRefusal(
                f"{line[:60]!r} was given; write one line a code, as Heat = heat / HEAT ONLY. "
                f"Served here: {', '.join(desk.offices)}."
            )
        codes = desk.office(domain).codes
        category = category or next(iter(codes))
        if category not in codes:
            raise DeskRefusal(
                f"{category[:60]!r} is no category of {domain}; allowed: {', '.join(codes)}."
            )
        found[theirs.strip()] = (domain, category)
    if not found:
        raise DeskRefusal("No code was given; write one line a code, as Heat = heat / HEAT ONLY.")
    return found


def ask_sources(desk: Desk) -> int:
    """Ask every source that is due for what is new; how many complaints were new."""
    with desk.database.reading() as session:
        sources = session.scalars(select(SourceRow).where(SourceRow.ended_at == "")).all()
        session.expunge_all()
    n = 0
    for one in sources:
        if is_time(desk, f"source {one.name}"):
            wait(desk, f"source {one.name}", 60.0 * one.minutes)
            n += ask_source(desk, one)
    return n


def ask_source(desk: Desk, source: SourceRow) -> int:
    """Ask one source; how many complaints were new. What it answers wrongly is told on its page."""
    now = desk.clock.now()
    began = datetime.fromisoformat(source.read_to) if source.read_to else now - timedelta(DAYS_BACK)
    codes = read_codes(desk, source.codes)
    found = _Found(last=source.read_to)
    for rows in _pages(desk, source, codes, began - LATE, found):
        _read_rows(desk, source, codes, rows, found)
    if not found.problem:
        for rows in _followed(desk, source, found):
            _read_rows(desk, source, codes, rows, found, moves=False)
    n = _take_all(desk, found)
    left_out = [f"{times} left out: {why}" for why, times in found.left_out.items()]
    problem = "; ".join([*filter(None, [found.problem]), *left_out])
    with desk.database.writing() as session:
        row = session.get_one(SourceRow, source.name)
        row.problem = problem[:300]
        if not found.problem:
            row.read_to = min(found.last, now.isoformat(timespec="seconds"))
    return n


def _pages(
    desk: Desk, source: SourceRow, codes: Codes, began: datetime, found: _Found
) -> Iterator[list[Any]]:
    """What came since a moment, page by page, until one has nothing that was not told before."""
    seen: set[str] = set()
    number_of = FIELDS[source.kind][0]
    for page in range(1, MOST_PAGES + 1):
        rows = _ask(desk, f"{_base(source)}?{urlencode(_query(source, codes, began, page))}", found)
        names = {str(row.get(number_of)) for row in rows if isinstance(row, dict)}
        # A server that knows no pages gives the first one for each.
        if page > 1 and not names - seen:
            return
        yield rows
        seen |= names
        if not rows or (source.kind == "socrata" and len(rows) < MOST_READ):
            return
    if source.kind == "georeport":
        # In no order that is known: what was not read may lie anywhere.
        found.problem = f"it has more than {MOST_PAGES} pages at one time; name fewer codes"


def _followed(desk: Desk, source: SourceRow, found: _Found) -> Iterator[list[Any]]:
    """How complaints that it told of earlier stand now, the next hundred of those not closed."""
    turns: dict[str, int] = desk.more.setdefault("followed", {})
    start = f"{source.name}-"
    with desk.database.reading() as session:
        rows = session.execute(
            select(CaseRow.number, CaseRow.complaint_id)
            .where(CaseRow.complaint_id.startswith(start, autoescape=True))
            .where(CaseRow.source == source.kind, CaseRow.status != CLOSED)
            .where(CaseRow.number > turns.get(source.name, 0))
            .order_by(CaseRow.number)
            .limit(MOST_FOLLOWED)
        ).all()
    turns[source.name] = rows[-1][0] if len(rows) == MOST_FOLLOWED else 0
    names = [name.removeprefix(start) for _, name in rows if name not in found.complaints]
    names = [one for one in names if "," not in one and "'" not in one]
    if names:
        quoted = ", ".join(f"'{one}'" for one in names)
        asked = {
            "georeport": {"service_request_id": ",".join(names)},
            "socrata": {"$where": f"unique_key in ({quoted})", "$limit": str(MOST_READ)},
        }
        rows = _ask(desk, f"{_base(source)}?{urlencode(asked[source.kind])}", found)
        number_of, wanted = FIELDS[source.kind][0], set(names)
        yield [one for one in rows if isinstance(one, dict) and str(one.get(number_of)) in wanted]


def _base(source: SourceRow) -> str:
    is_server = source.kind == "georeport"
    return f"{source.address}/requests.json" if is_server else source.address


def _query(source: SourceRow, codes: Codes, began: datetime, page: int) -> dict[str, str]:
    """What asks for the rows of the named codes since a moment."""
    stamp = began.isoformat(timespec="seconds")
    if source.kind == "georeport":
        plain = [one for one in codes if "," not in one]
        by_code = {"service_code": ",".join(plain)} if len(plain) == len(codes) else {}
        paged = {"page": str(page), "page_size": str(MOST_READ)} if page > 1 else {}
        return {"start_date": zoned(stamp)} | by_code | paged
    # SoQL quotes text as SQL does.
    return {
        "$where": f"created_date >= '{stamp}' AND complaint_type in ({literals(codes)})",
        "$order": "created_date, unique_key",
        "$limit": str(MOST_READ),
        "$offset": str((page - 1) * MOST_READ),
    }


def _ask(desk: Desk, address: str, found: _Found) -> list[Any]:
    """The rows that an address answers; none, and the problem, where it answers no list."""
    body, problem = ask(urllib.request.Request(address), loopback=desk.own_machine)
    if problem:
        found.problem = problem
        return []
    try:
        rows = json.loads(body)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        found.problem = "its answer cannot be read: it is no list in JSON"
        return []
    return rows


def _read_rows(
    desk: Desk, source: SourceRow, codes: Codes, rows: Sequence[Any], found: _Found, *,
    moves: bool = True,
) -> None:  # fmt: skip
    """Read rows into what was found; one that cannot be taken still says how far was read."""
    for row in rows:
        try:
            if not isinstance(row, dict):
                raise ValueError("no row")
            received = city_time(str(row.get(FIELDS[source.kind][1])))
            if moves:
                found.last = max(found.last, received.isoformat(timespec="seconds"))
            one = _read_row(desk, source, codes, row, received)
            found.complaints[one.complaint_id] = one, _closed_at(row, one)
        except (Parity311Error, ValueError, TypeError, OverflowError) as error:
            is_ours = isinstance(error, Parity311Error)
            found.left_out[str(error) if is_ours else "a row cannot be read"] += 1


def _read_row(
    desk: Desk, source: SourceRow, codes: Codes, row: Mapping[str, Any], received: datetime
) -> NewComplaint:
    number, _, code, lat, long = (row.get(name) for name in FIELDS[source.kind])
    if number is None or not str(number).strip():
        raise InputError("it has no number")
    if str(code) not in codes:
        raise InputError(f"their code {str(code)[:40]!r} is not among those that were named")
    domain, category = codes[str(code)]
    tract = nearest_tract(desk, float(str(lat)), float(str(long)))
    if tract is None:
        raise InputError("its place lies outside of the city served here")
    one = NewComplaint(
        complaint_id=f"{source.name}-{str(number)[:80]}",
        domain=domain,
        category=category,
        severity=desk.office(domain).codes[category],
        received_at=min(received, desk.clock.now()),
        tract=tract,
        building_id=str(row.get("address_id") or "")[:80],
        source=source.kind,
    )
    check_complaint(desk.office(domain), one)
    return one


def _closed_at(row: Mapping[str, Any], one: NewComplaint) -> str:
    """When the source says that a complaint was closed; empty where it is open."""
    if str(row.get("status") or "").lower() != CLOSED:
        return ""
    at = row.get("updated_datetime") or row.get("closed_date")
    closed = city_time(str(at)) if at else one.received_at
    return max(closed, one.received_at).isoformat(timespec="seconds")


def _take_all(desk: Desk, found: _Found) -> int:
    """Take in what is new and end what was closed, some at a time; how many were new."""
    known, ended = _known(desk, list(found.complaints))
    todo = [
        (one, closed)
        for name, (one, closed) in sorted(
            found.complaints.items(), key=lambda pair: pair[1][0].received_at
        )
        if name not in known or (closed and name not in ended)
    ]
    for domain in {one.domain for one, _ in todo}:
        own = [pair for pair in todo if pair[0].domain == domain]
        for start in range(0, len(own), MOST_TOGETHER):
            some = own[start : start + MOST_TOGETHER]
            with desk.database.writing() as session:
                new = [one for one, _ in some]
                take_in(session, desk.office(domain), new, desk.clock.now(), desk.blind_share)
                for one, closed in some:
                    if closed:
                        _close(session, one, closed)
    return sum(one.complaint_id not in known for one, _ in todo)


def _known(desk: Desk, names: Sequence[str]) -> tuple[set[str], set[str]]:
    """Which complaints are here already, and of which the end is."""
    known, ended = set[str](), set[str]()
    with desk.database.reading() as session:
        for start in range(0, len(names), ASKED_AT_ONCE):
            some = names[start : start + ASKED_AT_ONCE]
            asked = select(ReportRow.complaint_id).where(ReportRow.complaint_id.in_(some))
            known |= set(session.scalars(asked))
            asked = select(ClosingRow.complaint_id).where(ClosingRow.complaint_id.in_(some))
            ended |= set(session.scalars(asked))
    return known, ended


def _close(session: Session, one: NewComplaint, closed: str) -> None:
    """A case that the source says is closed; what came of it is not told."""
    row = ClosingRow(
        complaint_id=one.complaint_id, domain=one.domain, closed_at=closed, disposition="other"
    )
    record_closing(session, row)
