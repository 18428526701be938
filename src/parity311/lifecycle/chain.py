"""The log: entries of which each carries the hash of the one before it.

An entry is a line of JSON with sorted keys; its hash covers that line and the hash before. Whoever
changes, removes or slips in an entry breaks every hash after it. Whoever may rewrite the whole
database can make a new chain: the last hash belongs on a page outside of it (`verify --head`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from parity311.errors import RegistryError
from parity311.storage.strict_json import canonical_json

FIRST = "0" * 64
"""What stands in the place of a hash before the first entry."""
MOST_SKEW = timedelta(seconds=2)
"""How far two clocks that write one log may differ; the later time is then written."""
CLOCK, CLOCK_BECAUSE = "machine_clock", "clock_because"
"""Details of an entry whose machine's clock is behind the log, and why the log is ahead."""
COLUMNS = ("seq", "at", "actor", "action", "domain", "version", "reason")
"""What an entry's line repeats of the row it stands in."""


@dataclass(frozen=True)
class LogEntry:
    """One act."""

    seq: int
    """from 1"""
    at: str
    """UTC, ISO 8601 to the microsecond"""
    actor: str
    action: str
    domain: str
    version: str
    reason: str
    payload: str
    """all of the above and what else was decided on, as one line of JSON"""
    previous_hash: str
    hash: str

    @property
    def details(self) -> dict[str, Any]:
        """What the act rested on and changed."""
        return json.loads(self.payload)["details"]


def add_entry(
    entries: Sequence[LogEntry], now: datetime, *, clock_because: str = "", **act: Any
) -> LogEntry:
    """The entry that comes after these; a clock that jumped back is refused.

    Where the last entry was written by a clock that was ahead, ``clock_because`` says so. The entry
    then has that time too, and its details what this clock says; those after it are held to that.
    """
    last = entries[-1] if entries else None
    at = _write(now)
    if last is not None:
        told = last.details.get(CLOCK)
        if _is_before(now, told or last.at) and not clock_because:
            raise RegistryError(
                f"The clock says {at}, and the last act was logged at {told or last.at}: it jumped "
                "back. Set the clock of this machine right, then try again; where it was ahead "
                "then, the acts of `parity311 policies` take --clock-because TEXT. Nothing was "
                "changed."
            )
        if _is_before(now, last.at):
            why = clock_because or last.details.get(CLOCK_BECAUSE, "")
            act = act | {"details": {**act.get("details", {}), CLOCK: at, CLOCK_BECAUSE: why}}
        at = max(at, last.at)
    plain = {"seq": last.seq + 1 if last else 1, "at": at, **act}
    payload = canonical_json(plain)
    previous = last.hash if last else FIRST
    columns = {name: plain[name] for name in COLUMNS}
    return LogEntry(
        **columns, payload=payload, previous_hash=previous, hash=hash_of(previous, payload)
    )


def hash_of(previous: str, payload: str) -> str:
    """Hash of an entry: SHA-256 of the hash before it and its line."""
    return hashlib.sha256(f"{previous}\n{payload}".encode()).hexdigest()


def _is_before(now: datetime, logged: str) -> bool:
    """Whether a clock is further behind a logged time than two clocks may differ."""
    return now + MOST_SKEW < datetime.fromisoformat(logged)


def _write(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def chain_problems(entries: Iterable[LogEntry]) -> list[str]:
    """What does not fit in a log, a line each; an empty list is what you want."""
    found, previous, at = [], FIRST, ""
    for place, entry in enumerate(entries, start=1):
        if entry.seq != place:
            found.append(f"entry {place} is missing: the next has number {entry.seq}")
            break  # all that follows is shifted
        if entry.previous_hash != previous:
            found.append(f"entry {place} does not follow on entry {place - 1}")
        if entry.hash != hash_of(entry.previous_hash, entry.payload):
            found.append(f"entry {place} was changed: its hash is another")
        elif _columns_of(entry.payload) != {name: getattr(entry, name) for name in COLUMNS}:
            found.append(f"entry {place} was changed: its columns are not what its line says")
        if entry.at < at:
            found.append(f"entry {place} was written before entry {place - 1}")
        previous, at = entry.hash, entry.at
    return found


def _columns_of(payload: str) -> dict[str, Any] | None:
    try:
        plain = json.loads(payload)
        return {name: plain[name] for name in COLUMNS}
    except (ValueError, KeyError, TypeError):
        return None
