"""A city's days fed to the desk as they came: complaints, inspectors' visits, closings.

For training staff, for demonstrations and for tests. It reads the city's records, never its truth.
What was fed is remembered, so that a desk that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy.orm import Session

from parity311.desk.desk import FED_TO, Desk
from parity311.desk.intake import (
    NewComplaint,
    record_closing,
    record_visit,
    take_in,
)
from parity311.desk.tables import ClosingRow, SettingRow, VisitRow
from parity311.errors import InputError
from parity311.records.schema import TABLES
from parity311.records.store import Records

REPLAY_STEP = timedelta(hours=1)
"""Time of the city that is fed in one transaction at most."""
MARKED_EVERY = timedelta(minutes=5)
"""Quiet time of the city after which it is noted that nothing came."""


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

    def _read(self, records: Records, domain: str) -> Iterator[CityEvent]:
        asked = {"domain": domain, "date_from": self.start, "date_to": self.ends}
        free = _free_fields(records, domain)
        for row in records.sql(_COMPLAINTS, **asked).to_pylist():
            plain: dict[str, Any] = {name: row[name] or "" for name in _COPIED}
            complaint = NewComplaint(
                **plain,
                received_at=row["received_at"],
                domain=domain,
                channel=row["channel"],
                units=float(row["units"]),
                flags={name: bool(row[name]) for name, is_flag in free.items() if is_flag},
                more={name: row[name] for name, is_flag in free.items() if not is_flag},
                source="replay",
            )
            yield CityEvent(row["received_at"], domain, complaint=complaint)
        for row in records.sql(_VISITS, **asked).to_pylist():
            yield CityEvent(row["visited_at"], domain, visit=row)
        for row in records.sql(_CLOSINGS, **asked).to_pylist():
            yield CityEvent(row["closed_at"], domain, closing=row)

    def between(self, after: datetime, until: datetime) -> list[CityEvent]:
        """Events later than one moment, up to another; those of the very first belong to it."""
        first = bisect_right(self._times, after) if after > self.start else 0
        return self.events[first : bisect_right(self._times, until)]


_COPIED = ("complaint_id", "category", "severity", "tract", "building_id", "language",
           "incident_id")  # fmt: skip
_COMPLAINTS = """
SELECT c.*, COALESCE(b.units, 1) AS units FROM complaints c LEFT JOIN buildings b
  ON b.building_id = c.building_id
WHERE c.domain = $domain AND c.received_at >= $date_from AND c.received_at < $date_to
ORDER BY c.received_at, c.complaint_id"""
_VISITS = """
SELECT v.* FROM visits v JOIN complaints c USING (complaint_id)
WHERE c.domain = $domain AND v.visited_at >= $date_from AND v.visited_at < $date_to
ORDER BY v.visited_at, v.visit_id"""
_CLOSINGS = """
WITH firsts AS (
  SELECT complaint_id FROM complaints WHERE domain = $domain
  QUALIFY row_number() OVER (PARTITION BY COALESCE(incident_id, complaint_id)
    ORDER BY received_at, complaint_id) = 1)
SELECT o.complaint_id, o.closed_at, o.disposition, o.disposition_class
FROM outcomes o JOIN firsts USING (complaint_id)
WHERE o.closed_at >= $date_from AND o.closed_at < $date_to
ORDER BY o.closed_at, o.complaint_id"""
"""A case is closed once: what its first report says."""


def _free_fields(records: Records, domain: str) -> dict[str, bool]:
    """The domain's own columns, and whether each says yes or no."""
    table = records.table("complaints", domain)
    return {
        field.name: str(field.type) == "bool"
        for field in table.schema
        if field.name not in TABLES["complaints"].column_names
    }


def start_replay(desk: Desk, replay: CityReplay, speed: float) -> None:
    """Go on with the replay where it was, and set the clock."""
    kept = desk.recall(FED_TO)
    if kept is None:
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
        office = desk.office(event.domain)
        take_in(session, office, [event.complaint], event.at, desk.blind_share)
        return
    if event.visit is not None:
        names = ("visit_id", "complaint_id", "attempt", "result", "propensity", "n_waiting",
                 "n_slots")  # fmt: skip
        plain = {name: event.visit[name] for name in names}
        record_visit(session, VisitRow(**plain, visited_at=_stamp(event.at)))
        return
    told = event.closing
    assert told is not None
    closing = ClosingRow(
        complaint_id=str(told["complaint_id"]),
        domain=event.domain,
        closed_at=_stamp(event.at),
        disposition=str(told["disposition_class"]),
        code=str(told["disposition"] or ""),
    )
    record_closing(session, closing)


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
