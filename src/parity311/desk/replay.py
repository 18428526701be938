"""A city's days fed to the desk as they came: complaints, inspectors' visits, closings.

For training staff, for demonstrations and for tests. It reads the city's records, never its truth.
What was fed is remembered, so that a desk that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy.orm import Session

from parity311.desk.cases import find_case
from parity311.desk.desk import Desk
from parity311.desk.intake import NewComplaint, close_case, record_visit, take_backlog, take_in
from parity311.desk.refusals import NothingThereError
from parity311.desk.tables import SettingRow, VisitRow
from parity311.errors import InputError, Parity311Error
from parity311.records.journal import Journal, moment_of
from parity311.records.schema import SEVERITIES, TABLES
from parity311.records.store import Records

FED_TO = "replay_fed_to"
REPLAY_STEP = timedelta(hours=1)
"""Time of the city that is fed in one transaction at most."""
MARKED_EVERY = timedelta(minutes=5)
"""Quiet time of the city after which it is noted that nothing came."""
BEAT_SECONDS = 0.5
"""How often the feeder looks at the clock."""


@dataclass(frozen=True)
class CityEvent:
    """Something that happened in the city."""

    at: datetime
    domain: str
    complaint: NewComplaint | None = None
    visit: Mapping[str, Any] | None = None
    closing: Mapping[str, Any] | None = None


class CityReplay:
    """Days of a city's records, in order."""

    def __init__(
        self, records: Records, domains: tuple[str, ...], start: datetime, days: int
    ) -> None:
        self.start, self.ends = start, start + timedelta(days=days)
        found = [one for domain in domains for one in self._read(records, domain)]
        self.events = sorted(found, key=lambda one: one.at)
        self._times = [one.at for one in self.events]
        self.incidents = {
            row["complaint_id"]: row["incident_id"] or ""
            for domain in domains
            for row in records.sql(_INCIDENTS, domain=domain, date_to=start).to_pylist()
        }

    def _read(self, records: Records, domain: str) -> Iterator[CityEvent]:
        asked = {"domain": domain, "date_from": self.start, "date_to": self.ends}
        flags = _flags(records, domain)
        for row in records.sql(_COMPLAINTS, **asked).to_pylist():
            plain: dict[str, Any] = {name: row[name] or "" for name in _COPIED}
            complaint = NewComplaint(
                **plain,
                received_at=row["received_at"],
                domain=domain,
                channel=row["channel"],
                units=float(row["units"]),
                flags={name: bool(row[name]) for name in flags},
                source="replay",
            )
            yield CityEvent(row["received_at"], domain, complaint=complaint)
        for row in records.sql(_VISITS, **asked).to_pylist():
            yield CityEvent(row["visited_at"], domain, visit=row)
        for row in records.sql(_CLOSINGS, **asked).to_pylist():
            yield CityEvent(row["closed_at"], domain, closing=row)

    def between(self, after: datetime, until: datetime) -> list[CityEvent]:
        """Events later than one moment, up to another."""
        return self.events[bisect_right(self._times, after) : bisect_right(self._times, until)]


_COPIED = ("complaint_id", "category", "severity", "tract", "building_id", "language",
           "incident_id")  # fmt: skip
_COMPLAINTS = """
SELECT c.*, COALESCE(b.units, 1) AS units FROM complaints c LEFT JOIN buildings b
  ON b.building_id = c.building_id
WHERE c.domain = $domain AND c.received_at >= $date_from AND c.received_at < $date_to
ORDER BY c.received_at, c.complaint_id"""
_INCIDENTS = """
SELECT complaint_id, incident_id FROM complaints
WHERE domain = $domain AND received_at < $date_to"""
_VISITS = """
SELECT v.* FROM visits v JOIN complaints c USING (complaint_id)
WHERE c.domain = $domain AND v.visited_at >= $date_from AND v.visited_at < $date_to
ORDER BY v.visited_at, v.visit_id"""
_CLOSINGS = """
SELECT o.complaint_id, o.closed_at, o.disposition_class FROM outcomes o
  JOIN complaints c USING (complaint_id)
WHERE c.domain = $domain AND o.closed_at >= $date_from AND o.closed_at < $date_to
ORDER BY o.closed_at, o.complaint_id"""


def _flags(records: Records, domain: str) -> list[str]:
    """The domain's own yes/no columns."""
    table = records.table("complaints", domain)
    return [
        field.name
        for field in table.schema
        if field.name not in TABLES["complaints"].column_names and str(field.type) == "bool"
    ]


def start_replay(desk: Desk, replay: CityReplay, speed: float) -> None:
    """Put what is open on the desk, where this is its first start, and set the clock."""
    kept = desk.recall(FED_TO)
    if kept is None:
        with desk.database.writing() as session:
            for office in desk.offices.values():
                backlog = open_complaints(office.past, replay.incidents)
                take_backlog(session, office, backlog, replay.start)
        desk.remember(FED_TO, replay.start.isoformat())
    fed_to = datetime.fromisoformat(kept) if kept else replay.start
    if not replay.start <= fed_to <= replay.ends:
        raise InputError(
            f"This desk was replaying {fed_to}, which lies outside of what was asked for now "
            f"({replay.start} to {replay.ends}); go on with the same day, or use another database."
        )
    desk.clock.speed = speed
    desk.clock.set(fed_to)
    desk.more["replay"] = replay


def feed(desk: Desk, replay: CityReplay, until: datetime) -> int:
    """Feed what happened up to a moment; how many events. Done again, it changes nothing."""
    kept = desk.recall(FED_TO)
    fed_to = datetime.fromisoformat(kept) if kept else replay.start
    until = min(until, replay.ends)
    events = replay.between(fed_to, until)
    hours = groupby(events, key=lambda one: (one.at - replay.start) // REPLAY_STEP)
    for _, some in hours:
        with desk.database.writing() as session:
            for event in some:
                _feed_one(desk, session, event)
                fed_to = event.at
            session.merge(SettingRow(name=FED_TO, value=json.dumps(fed_to.isoformat())))
    if until - fed_to >= MARKED_EVERY:
        desk.remember(FED_TO, until.isoformat())
    return len(events)


def _feed_one(desk: Desk, session: Session, event: CityEvent) -> None:
    if event.complaint is not None:
        take_in(session, desk.office(event.domain), [event.complaint], event.at)
        return
    told = event.visit or event.closing
    assert told is not None
    try:
        case = find_case(session, str(told["complaint_id"]))
    except NothingThereError:
        return  # a report that is part of another case, or a case from before the desk
    if event.visit is not None:
        names = ("visit_id", "attempt", "result", "propensity", "n_waiting", "n_slots")
        visit = VisitRow(
            **{name: told[name] for name in names},
            visited_at=event.at.isoformat(timespec="seconds"),
        )
        record_visit(session, case, visit)
    else:
        close_case(case, event.at, str(told["disposition_class"]))


def open_complaints(journal: Journal, incidents: Mapping[str, str]) -> list[NewComplaint]:
    """The open cases of a journal, as complaints that came in before the desk opened."""
    names = {area.tract: geoid for geoid, area in journal.areas.items()}
    found = []
    for at in journal.open_rows.tolist():
        building = int(journal.building[at])
        found.append(
            NewComplaint(
                complaint_id=str(journal.complaint_id[at]),
                domain=journal.domain,
                category=journal.categories[int(journal.category[at])],
                severity=SEVERITIES[int(journal.code[at])],
                received_at=moment_of(float(journal.began[at])),
                tract=names[int(journal.tract[at])],
                building_id=str(journal.building_ids[building]) if building >= 0 else "",
                units=float(journal.units[at]),
                flags={name: bool(values[at]) for name, values in journal.flags.items()},
                n_reports=int(journal.n_reports[at]),
                incident_id=incidents.get(str(journal.complaint_id[at]), ""),
                source="before",
            )
        )
    return found


class Feeder(threading.Thread):
    """Feeds a replay by the desk's clock until it is told to stop."""

    def __init__(self, desk: Desk, replay: CityReplay) -> None:
        super().__init__(name="parity311-replay", daemon=True)
        self._desk, self._replay, self._stops = desk, replay, threading.Event()
        self.last_problem = ""

    def run(self) -> None:
        """Feed, and go on after a database that was away for a while."""
        while not self._stops.wait(BEAT_SECONDS):
            try:
                feed(self._desk, self._replay, self._desk.clock.now())
                self.last_problem = ""
            except Parity311Error as error:
                self.last_problem = str(error)

    def stop(self) -> None:
        """Stop after the present step."""
        self._stops.set()
        self.join(timeout=10)
