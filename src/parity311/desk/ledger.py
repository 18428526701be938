"""The desk's log: what staff did, in the chain that the registry's log is made of.

The log is what counts; a case's columns repeat it for queries, and `ledger_problems` holds them to
it. Every day's last hash belongs on the public page: whoever rewrites the database cannot take
that back.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from parity311.desk.tables import ActRow, CaseRow, DeskLogRow
from parity311.lifecycle.chain import COLUMNS, FIRST, LogEntry, add_entry, chain_problems

ENTRY_FIELDS = (*COLUMNS, "payload", "previous_hash", "hash")
ACCEPT, OVERRIDE, UNDO, MERGE = "accept", "override", "undo", "merge"
ROWS_AT_ONCE = 1000
DECISIONS = (ACCEPT, OVERRIDE, MERGE)
"""Acts after which a case is decided."""
MERGED = "duplicate"
"""What is chosen about a case that joins another."""


def append(session: Session, **act: Any) -> LogEntry:
    """Write what somebody did after what is there; the session has the writers' turn.

    `act` has actor, action, domain, version, reason and details.
    """
    last = session.scalars(select(DeskLogRow).order_by(DeskLogRow.seq.desc()).limit(1)).first()
    entry = add_entry([_entry(last)] if last else [], datetime.now(UTC), **act)
    session.add(DeskLogRow(**{name: getattr(entry, name) for name in ENTRY_FIELDS}))
    case = entry.details.get("case")
    if case:
        session.add(ActRow(seq=entry.seq, complaint_id=case))
    return entry


def read_log(session: Session, last: int | None = None) -> list[LogEntry]:
    """All entries, or the last few, oldest first."""
    asked = select(DeskLogRow).order_by(DeskLogRow.seq.desc())
    rows = session.scalars(asked if last is None else asked.limit(last))
    return [_entry(row) for row in rows][::-1]


def read_after(session: Session, seq: int, most: int) -> list[LogEntry]:
    """Entries after this one, the first so many."""
    asked = select(DeskLogRow).where(DeskLogRow.seq > seq).order_by(DeskLogRow.seq).limit(most)
    return [_entry(row) for row in session.scalars(asked)]


def entries_about(session: Session, complaint_id: str, domain: str) -> list[LogEntry]:
    """What was done with one case."""
    rows = session.scalars(
        select(DeskLogRow)
        .join(ActRow, ActRow.seq == DeskLogRow.seq)
        .where(ActRow.complaint_id == complaint_id, DeskLogRow.domain == domain)
        .order_by(DeskLogRow.seq)
    )
    return list(map(_entry, rows))


def head_of(session: Session) -> tuple[int, str]:
    """Number and hash of the last entry."""
    last = session.scalars(select(DeskLogRow).order_by(DeskLogRow.seq.desc()).limit(1)).first()
    return (last.seq, last.hash) if last else (0, FIRST)


def daily_heads(session: Session, days: int = 60) -> list[dict[str, Any]]:
    """The last entry of every day, of the last so many: what is published."""
    day = func.substr(DeskLogRow.at, 1, 10)
    ends = select(func.max(DeskLogRow.seq)).group_by(day)
    rows = session.scalars(
        select(DeskLogRow)
        .where(DeskLogRow.seq.in_(ends))
        .order_by(DeskLogRow.seq.desc())
        .limit(days)
    )
    return [{"day": one.at[:10], "entry": one.seq, "hash": one.hash} for one in rows]


def ledger_problems(session: Session) -> list[str]:
    """What does not fit in the log, or between it and the cases; an empty list is what you want."""
    told: dict[str, tuple[str, int]] = {}
    twice: list[str] = []

    def passing() -> Iterator[LogEntry]:
        fields = (getattr(DeskLogRow, name) for name in ENTRY_FIELDS)
        asked = select(*fields).order_by(DeskLogRow.seq)
        # One after the other: a log of years does not fit into memory.
        for row in session.execute(asked.execution_options(yield_per=ROWS_AT_ONCE)):
            entry = LogEntry(**dict(zip(ENTRY_FIELDS, row, strict=True)))
            details = details_of(entry)
            case = str(details.get("case"))
            if entry.action in DECISIONS:
                if case in told:
                    twice.append(f"entry {entry.seq} decides {case} a second time")
                told[case] = (details.get("chosen", ""), entry.seq)
            elif entry.action == UNDO:
                told.pop(case, None)
            yield entry

    entries = passing()
    found = chain_problems(entries)
    for _ in entries:
        pass  # what follows on a gap decides cases all the same
    found += twice
    decided = select(CaseRow.complaint_id, CaseRow.chosen, CaseRow.decided_seq)
    stands = {row[0]: (row[1], row[2]) for row in session.execute(decided) if row[2]}
    for case in sorted(stands.keys() | told.keys()):
        if stands.get(case) != told.get(case):
            found.append(f"case {case} stands otherwise than the log says")
    return found


def details_of(entry: LogEntry) -> dict[str, Any]:
    """What an entry rested on; nothing where its line was changed beyond reading."""
    try:
        found = entry.details
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def sealed(words: str) -> tuple[str, str]:
    """A salt, and the hash of the words with it: what the log keeps of a free text."""
    salt = secrets.token_hex(16)
    return salt, hashlib.sha256(f"{salt}\n{words}".encode()).hexdigest()


def _entry(row: DeskLogRow) -> LogEntry:
    return LogEntry(**{name: getattr(row, name) for name in ENTRY_FIELDS})
