"""A complaint comes in: it becomes a case with a recommendation, or one more report of a case.

The recommendation is made here, once; pages only read it. A complaint that comes twice under one
id is taken once, so that whoever is not sure it arrived may send it again.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from math import isfinite
from threading import Lock
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.desk.accounts import utc_now
from parity311.desk.desk import Desk
from parity311.desk.offices import CameIn, DeskOffice, OfficeStanding
from parity311.desk.tables import CLOSED, CaseRow, ClosingRow, PersonRow, ReportRow, VisitRow
from parity311.errors import BusyError, InputError, UnreachableError
from parity311.records.journal import Area
from parity311.records.schema import CHANNELS, SEVERITIES

SHOWN_TEXT = ("category", "severity", "tract", "building_id")
FARTHEST_KM = 5.0
"""A position farther than this from every tract's centre lies outside of the city (assumed)."""
KM_A_DEGREE = 111.2
MOST_TOGETHER = 32
"""Complaints stored in one transaction at most, so that decisions of staff do not wait for long."""
ASKED_AT_ONCE = 500
"""Complaints that are looked for on record in one question."""
CHECK_CODE_LENGTH = 8
CHECK_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without those that look alike."""


@dataclass(frozen=True)
class NewComplaint:
    """One report as it comes in; times are the city's."""

    complaint_id: str
    domain: str
    category: str
    severity: str
    received_at: datetime
    tract: str
    building_id: str = ""
    channel: str = "UNKNOWN"
    language: str = ""
    incident_id: str = ""
    """what the source links reports of one incident by"""
    units: float = 1.0
    n_reports: int = 1
    """how many there were already, of a case from before the desk"""
    flags: Mapping[str, bool] | None = None
    more: Mapping[str, Any] | None = None
    """what else the source tells, which nothing here looks at: for the export"""
    source: str = "desk"
    person: Mapping[str, str] | None = None
    """name, email, phone, words: kept apart"""


@dataclass(frozen=True)
class Taken:
    """What became of a complaint."""

    complaint_id: str
    tracking: str
    """id of the case it belongs to"""
    check_code: str
    """for the public page; empty where it had been handed out before"""
    is_new: bool
    """whether a case was made for it"""
    scored_ms: float = 0.0
    scored_cpu_ms: float = 0.0
    """what recommending took, by the clock and of the processor"""


def take_in(
    session: Session,
    office: DeskOffice,
    complaints: Sequence[NewComplaint],
    now: datetime,
    blind_share: float = 0.0,
) -> list[Taken]:
    """Store complaints of one domain with their recommendation; the session has the turn.

    Of so many, by lot, staff do not see the recommendation before they decide.
    """
    standing = standing_of(session, office, now)

    def answer(one: NewComplaint) -> dict[str, Any]:
        began, of_processor = time.perf_counter(), time.thread_time()
        found = office.answer(standing, plain_complaint(one))
        is_blind = draw_blind(office, one.complaint_id, blind_share)
        # Its place in the queue must not tell what is hidden.
        escalates = found["escalates"] and not is_blind
        took[one.complaint_id] = (time.perf_counter() - began, time.thread_time() - of_processor)
        return found | {"is_blind": is_blind, "escalates": escalates}

    took: dict[str, tuple[float, float]] = {}
    taken = _take_all(session, office, complaints, answer)
    nothing = (0.0, 0.0)
    return [
        replace(one, scored_ms=1000 * wall, scored_cpu_ms=1000 * cpu)
        for one in taken
        for wall, cpu in [took.get(one.complaint_id, nothing)]
    ]


@dataclass
class _Filed:
    """A complaint whose sender waits for an answer, and what became of it."""

    office: DeskOffice
    complaint: NewComplaint
    taken: Taken | None = None
    error: Exception | None = None

    @property
    def is_answered(self) -> bool:
        return self.taken is not None or self.error is not None


class Filing:
    """Complaints that are filed at the same time are stored together: one turn, one commit.

    Whoever gets the turn stores what the others brought meanwhile, and nobody is answered before
    his own is kept. A disk that takes ten milliseconds to keep anything takes them once for all.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk, self._turn = desk, Lock()
        self._waiting: deque[_Filed] = deque()

    def file(self, office: DeskOffice, complaint: NewComplaint) -> Taken:
        """Store a complaint, and any that wait; what became of this one."""
        check_complaint(office, complaint)
        mine = _Filed(office, complaint)
        self._waiting.append(mine)
        with self._turn:
            while not mine.is_answered:
                first = self._waiting[0].office
                some: list[_Filed] = []
                while self._waiting and self._waiting[0].office is first:
                    some.append(self._waiting.popleft())
                    if len(some) == MOST_TOGETHER:
                        break
                self._store(some)
        if mine.error is not None:
            raise mine.error
        assert mine.taken is not None
        return mine.taken

    def _store(self, some: Sequence[_Filed]) -> None:
        """Store all or none; where one of several cannot be stored, each by itself."""
        desk = self._desk
        try:
            with desk.database.writing() as session:
                given = [one.complaint for one in some]
                found = take_in(session, some[0].office, given, desk.clock.now(), desk.blind_share)
        except Exception as error:
            if len(some) == 1 or isinstance(error, BusyError | UnreachableError):
                for one in some:
                    one.error = error
            else:
                for one in some:
                    self._store([one])
            return
        for one, taken in zip(some, found, strict=True):
            one.taken = taken


def plain_complaint(one: NewComplaint) -> dict[str, Any]:
    """A complaint as the fields that recommending reads."""
    plain = {name: getattr(one, name) for name in ("complaint_id", *SHOWN_TEXT)}
    more = {"received_at": _stamp(one.received_at), "units": one.units}
    return plain | more | dict(one.flags or {})


def draw_blind(office: DeskOffice, complaint_id: str, share: float) -> bool:
    """Whether the recommendation about a complaint is hidden; its name draws."""
    named = hashlib.sha256(f"blind {office.domain} {complaint_id}".encode()).digest()
    return int.from_bytes(named[:8]) < share * 2**64


def take_backlog(
    session: Session, office: DeskOffice, complaints: Sequence[NewComplaint], now: datetime
) -> int:
    """Store what was open when the desk began, recommended all together; how many cases."""
    standing = office.standing(lambda *_: CameIn(), now)
    if not standing.policy.cases.n:
        return 0
    found = office.answer_all(standing)
    known = [one for one in complaints if one.complaint_id in found]
    taken = _take_all(session, office, known, lambda one: found[one.complaint_id])
    return sum(one.is_new for one in taken)


def _take_all(
    session: Session,
    office: DeskOffice,
    complaints: Sequence[NewComplaint],
    answer: Callable[[NewComplaint], dict[str, Any]],
) -> list[Taken]:
    """Store complaints together: what is on record is asked for once, rows are added at once."""
    for one in complaints:
        check_complaint(office, one)
    by_report, by_incident = _cases_on_record(session, office.domain, complaints)
    taken: list[Taken] = []
    reports: list[tuple[NewComplaint, CaseRow]] = []
    for one in complaints:
        case = by_report.get(one.complaint_id)
        if case is not None:
            taken.append(Taken(one.complaint_id, case.complaint_id, "", False))
            continue
        case = by_incident.get(one.incident_id) if one.incident_id else None
        is_new, code = case is None, ""
        if case is None:
            case, code = _make_case(office, one, answer(one))
            session.add(case)
            if one.incident_id:
                by_incident[one.incident_id] = case
        else:
            case.n_reports += 1
            case.last_report_at = _stamp(one.received_at)
        by_report[one.complaint_id] = case
        reports.append((one, case))
        taken.append(Taken(one.complaint_id, case.complaint_id, code, is_new))
    session.flush()  # gives new cases their numbers
    session.add_all(_make_report(one, case.number) for one, case in reports)
    session.add_all(
        PersonRow(complaint_id=one.complaint_id, **one.person) for one, _ in reports if one.person
    )
    session.flush()
    return taken


def _cases_on_record(
    session: Session, domain: str, complaints: Sequence[NewComplaint]
) -> tuple[dict[str, CaseRow], dict[str, CaseRow]]:
    """Cases by the report, and by the incident, that the desk has already."""
    joined = (CaseRow, ReportRow.case_number == CaseRow.number)
    by_report: dict[str, CaseRow] = {}
    by_incident: dict[str, CaseRow] = {}
    for start in range(0, len(complaints), ASKED_AT_ONCE):
        some = complaints[start : start + ASKED_AT_ONCE]
        names = [one.complaint_id for one in some]
        asked = select(ReportRow.complaint_id, CaseRow).join(*joined)
        for name, case in session.execute(asked.where(ReportRow.complaint_id.in_(names))):
            by_report[name] = case
        links = {one.incident_id for one in some if one.incident_id}
        if not links:
            continue
        asked = select(ReportRow.incident_id, CaseRow).join(*joined).order_by(CaseRow.number)
        is_linked = (ReportRow.domain == domain, ReportRow.incident_id.in_(links))
        for name, case in session.execute(asked.where(*is_linked)):
            by_incident.setdefault(name, case)
    return by_report, by_incident


def _make_report(one: NewComplaint, case_number: int) -> ReportRow:
    return ReportRow(
        **{name: getattr(one, name) for name in ("complaint_id", "domain", *SHOWN_TEXT)},
        **{name: getattr(one, name) for name in ("channel", "language", "incident_id")},
        case_number=case_number,
        received_at=_stamp(one.received_at),
        flags=json.dumps({**(one.flags or {}), **(one.more or {})}),
    )


def _make_case(
    office: DeskOffice, one: NewComplaint, found: Mapping[str, Any]
) -> tuple[CaseRow, str]:
    plain = {name: getattr(one, name) for name in ("complaint_id", *SHOWN_TEXT)}
    code, salt, code_hash = draw_check_code()
    case = CaseRow(
        **plain,
        **found,
        domain=one.domain,
        received_at=_stamp(one.received_at),
        due_at=_stamp(office.due_at(one.category, one.severity, one.tract, one.received_at)),
        flags=json.dumps(dict(one.flags or {})),
        source=one.source,
        units=one.units,
        n_reports=one.n_reports,
        stratum=office.past.areas[one.tract].stratum,
        last_report_at=_stamp(one.received_at),
        check_salt=salt,
        check_hash=code_hash,
        scored_at=utc_now(),
    )
    return case, code


def check_complaint(office: DeskOffice, one: NewComplaint) -> Area:
    """Where a complaint comes from; one that the office cannot take is refused."""
    area = office.past.areas.get(one.tract)
    if area is None:
        raise InputError(
            f"Tract {one.tract!r} was given, which this city does not have; give the eleven digits "
            "of one of its tracts."
        )
    if one.severity not in SEVERITIES or one.channel not in CHANNELS:
        raise InputError(
            f"Severity {one.severity!r} and channel {one.channel!r} were given; allowed are "
            f"{', '.join(SEVERITIES)} and {', '.join(CHANNELS)}."
        )
    return area


def draw_check_code() -> tuple[str, str, str]:
    """A check code, a salt, and the hash that is stored."""
    code = "".join(secrets.choice(CHECK_LETTERS) for _ in range(CHECK_CODE_LENGTH))
    salt = secrets.token_hex(8)
    return code, salt, hash_check_code(salt, code)


def hash_check_code(salt: str, code: str) -> str:
    """What is stored of a check code; case and spaces do not count."""
    plain = "".join(code.upper().split())
    return hashlib.sha256(f"{salt}\n{plain}".encode()).hexdigest()


def standing_of(session: Session, office: DeskOffice, now: datetime) -> OfficeStanding:
    """Who decides, with the queue beside which complaints are answered."""
    return office.standing(partial(read_new, session, office.domain), now)


def nearest_tract(desk: Desk, lat: float, long: float) -> str | None:
    """The tract whose centre is nearest to a position; None where it lies outside of the city."""
    places = list(desk.places.values())
    kept = desk.more.get("centres")
    if kept is None:
        kept = desk.more["centres"] = np.array([(one.latitude, one.longitude) for one in places])
    if not (isfinite(lat) and isfinite(long) and len(kept)):
        return None
    up, across = kept[:, 0] - lat, (kept[:, 1] - long) * np.cos(np.radians(kept[:, 0]))
    km = KM_A_DEGREE * np.hypot(up, across)
    at = int(km.argmin())
    return places[at].geoid if km[at] <= FARTHEST_KM else None


def read_new(session: Session, domain: str, number: int, closed_at: str) -> CameIn:
    """Cases of a domain after this number, and closings at this time or later."""
    came = session.scalars(
        select(CaseRow)
        .where(CaseRow.domain == domain, CaseRow.number > number)
        .order_by(CaseRow.number)
    ).all()
    ends = session.execute(
        select(CaseRow.complaint_id, CaseRow.closed_at).where(
            CaseRow.domain == domain, CaseRow.closed_at >= (closed_at or "0")
        )
    )
    return CameIn(came, [(name, when) for name, when in ends])


def record_visit(session: Session, visit: VisitRow) -> None:
    """Store what an inspector found; the same visit told twice counts once."""
    if session.get(VisitRow, visit.visit_id) is None:
        case = _find(session, visit.complaint_id)
        visit.case_number = case.number if case else 0
        session.add(visit)


def record_closing(session: Session, told: ClosingRow) -> None:
    """End a case with what came of it; who decided stays on record, as does a merging."""
    case = _find(session, told.complaint_id)
    if case is not None and case.duplicate_of:
        return
    session.merge(told)
    if case is not None:
        case.status, case.closed_at, case.disposition = CLOSED, told.closed_at, told.disposition


def _find(session: Session, complaint_id: str) -> CaseRow | None:
    return session.scalars(select(CaseRow).where(CaseRow.complaint_id == complaint_id)).first()


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
