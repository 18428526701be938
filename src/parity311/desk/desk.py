"""What a desk is made of: the registry and its database, an office a domain, a clock, the city."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from parity311.desk.identity import Provider
from parity311.desk.offices import DeskOffice
from parity311.desk.refusals import NothingThereError
from parity311.desk.tables import SettingRow
from parity311.lifecycle.database import Database
from parity311.lifecycle.registry import Registry

OPENED = "opened"
"""Setting: when the desk began by the city's time, and its domains."""
FED_TO = "replay_fed_to"
"""Setting: how far a replay came."""


@dataclass
class CityClock:
    """The city's own time: the machine's, or that of a day that is replayed faster."""

    start: datetime | None = None
    """first moment of a replay; None: the machine's time"""
    speed: float = 1.0
    began: datetime = field(default_factory=datetime.now)

    def now(self) -> datetime:
        """The time, naive, to the second."""
        real = datetime.now()
        found = self.start + (real - self.began) * self.speed if self.start else real
        return found.replace(microsecond=0)

    def set(self, moment: datetime) -> None:
        """Go on from this moment."""
        self.start, self.began = moment, datetime.now()


@dataclass(frozen=True)
class TractPlace:
    """A tract on the map."""

    geoid: str
    borough: str
    board: int
    longitude: float
    latitude: float


@dataclass
class Desk:
    """All that a request needs."""

    registry: Registry
    offices: Mapping[str, DeskOffice]
    clock: CityClock
    places: Mapping[str, TractPlace]
    folder: Path
    is_synthetic: bool = True
    """whether complaints come from a generated city, which every page says"""
    behind_https: bool = False
    blind_share: float = 0.0
    """share of new cases that staff decide before they see what is recommended"""
    runs: Path | None = None
    """folder of runs that auditors and groups are shown"""
    own_machine: bool = False
    """whether other systems may be on this machine, which is else not asked"""
    provider: Provider | None = None
    """who else says who staff are"""
    more: dict[str, Any] = field(default_factory=dict)
    """what rooms keep between requests, by the name of the room"""

    @property
    def database(self) -> Database:
        """Where everything is."""
        return self.registry.database

    def office(self, domain: str) -> DeskOffice:
        """The office of a domain that is served here."""
        if domain not in self.offices:
            raise NothingThereError(
                f"{domain[:40]!r} is not served at this desk; it serves {', '.join(self.offices)}."
            )
        return self.offices[domain]

    def remember(self, name: str, value: Any) -> None:
        """Keep a setting over a restart."""
        with self.database.writing() as session:
            session.merge(SettingRow(name=name, value=json.dumps(value)))

    def recall(self, name: str) -> Any:
        """A setting as it was kept; None where it never was."""
        with self.database.reading() as session:
            return recall(session, name)


def recall(session: Session, name: str) -> Any:
    """A setting as it was kept; None where it never was."""
    row = session.get(SettingRow, name)
    return json.loads(row.value) if row else None
