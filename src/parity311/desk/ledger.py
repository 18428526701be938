"""The desk's log: what staff did, in the chain that the registry's log is made of.

The log is what counts; a case's columns repeat it for queries, and `ledger_problems` holds them to
it. Every day's last hash belongs on the public page: whoever rewrites the database cannot take
that back.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.desk.tables import CaseRow, DeskLogRow
from parity311.lifecycle.chain import COLUMNS, FIRST, LogEntry, add_entry, chain_problems

ENTRY_FIELDS = (*COLUMNS, "payload", "previous_hash", "hash")
ACCEPT, OVERRIDE, UNDO, MERGE = "accept", "override", "undo", "merge"
DECISIONS = (ACCEPT, OVERRIDE, MERGE)
"""Acts after which a case is decided."""


def append(session: Session, **act: Any) -> LogEntry:
    """Write what somebody did after what is there; the session has the writers' turn.

    `act` has actor, action, domain, version, reason and details.
    """
    last = session.scalars(select(DeskLogRow).order_by(DeskLogRow.seq.desc()).limit(1)).first()
    entry = add_entry([_entry(last)] if last else [], datetime.now(UTC), **act)
    session.add(DeskLogRow(**{name: getattr(entry, name) for name in ENTRY_FIELDS}))
    return entry


def read_log(session: Session, last: int | None = None) -> list[LogEntry]:
    """All entries, or the last few, oldest first."""
    asked = select(DeskLogRow).order_by(DeskLogRow.seq.desc())
    rows = session.scalars(asked if last is None else asked.limit(last))
    return [_entry(row) for row in rows][::-1]


def entries_about(session: Session, complaint_id: str, domain: str) -> list[LogEntry]:
    """What was done with one case."""
    rows = session.scalars(
        select(DeskLogRow)
        .where(DeskLogRow.domain == domain, DeskLogRow.payload.contains(complaint_id))
        .order_by(DeskLogRow.seq)
    )
    return [one for one in map(_entry, rows) if one.details.get("case") == complaint_id]


def head_of(session: Session) -> tuple[int, str]:
    """Number and hash of the last entry."""
    last = session.scalars(select(DeskLogRow).order_by(DeskLogRow.seq.desc()).limit(1)).first()
    return (last.seq, last.hash) if last else (0, FIRST)


def daily_heads(entries: Sequence[LogEntry]) -> list[dict[str, Any]]:
    """The last entry of every day: what is published."""
    last = {one.at[:10]: one for one in entries}
    return [{"day": day, "entry": one.seq, "hash": one.hash} for day, one in last.items()]


def ledger_problems(session: Session) -> list[str]:
    """What does not fit in the log, or between it and the cases; an empty list is what you want."""
    entries = read_log(session)
    found = chain_problems(entries)
    told: dict[str, tuple[str, int]] = {}
    for entry in entries:
        case = entry.details.get("case")
        if entry.action in DECISIONS:
            if case in told:
                found.append(f"entry {entry.seq} decides {case} a second time")
            told[str(case)] = (entry.details["chosen"], entry.seq)
        elif entry.action == UNDO:
            told.pop(str(case), None)
    decided = select(CaseRow.complaint_id, CaseRow.chosen, CaseRow.decided_seq)
    stands = {row[0]: (row[1], row[2]) for row in session.execute(decided) if row[2]}
    for case in sorted(stands.keys() | told.keys()):
        if stands.get(case) != told.get(case):
            found.append(f"case {case} stands otherwise than the log says")
    return found


def sealed(words: str) -> tuple[str, str]:
    """A salt, and the hash of the words with it: what the log keeps of a free text."""
    salt = secrets.token_hex(16)
    return salt, hashlib.sha256(f"{salt}\n{words}".encode()).hexdigest()


def _entry(row: DeskLogRow) -> LogEntry:
    return LogEntry(**{name: getattr(row, name) for name in ENTRY_FIELDS})
