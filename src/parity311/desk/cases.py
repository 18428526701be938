"""Cases as staff see and decide them: the queue, one case, claim, accept, override, undo.

Every act is one transaction that holds the writers' turn: it looks at the case as it is now,
writes an entry of the log and the case's columns together, or nothing. A post that comes a second
time finds the case decided and is told so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from parity311.city.process import ComplaintProcess
from parity311.desk import ledger
from parity311.desk.accounts import Actor, utc_now
from parity311.desk.offices import promised_days
from parity311.desk.refusals import DeskRefusal, NothingThereError, OvertakenError
from parity311.desk.tables import (
    CLOSED,
    DECIDED,
    OPEN,
    CaseRow,
    DeskLogRow,
    NoteRow,
    ReportRow,
    VisitRow,
)
from parity311.domains import get_domain
from parity311.errors import Parity311Error
from parity311.number_text import in_days
from parity311.records.schema import SERVICE_LEVEL_DAYS

CLAIM_MINUTES = 15
UNDO_SECONDS = 30
MOST_AT_ONCE = 50
"""Cases that one bulk act may accept."""
LONGEST_NOTE = 2000
OVERRIDE_REASONS = {
    "knows_more": "I know something the program does not",
    "wrong_category": "The complaint is not what its category says",
    "urgent": "It is more urgent than it looks",
    "not_urgent": "It is less urgent than it looks",
    "duplicate": "The same thing is being handled already",
    "no_staff": "There is nobody to send",
    "instruction": "I was instructed to",
    "other": "Another reason, written below",
}
"""Why staff decide otherwise; `other` needs words."""
TODAY_WORDS = "today's rule"
BLIND_REASON = "decided without seeing the recommendation"


@dataclass(frozen=True)
class QueueQuery:
    """What of the queue is asked for."""

    domain: str = ""
    status: str = OPEN
    search: str = ""
    page: int = 1
    size: int = 50


def read_queue(session: Session, asked: QueueQuery, now: datetime) -> dict[str, Any]:
    """One page of the queue: visits first, then what is due first."""
    where = [CaseRow.status == asked.status]
    if asked.domain:
        where.append(CaseRow.domain == asked.domain)
    if asked.search:
        where.append(
            CaseRow.complaint_id.contains(asked.search, autoescape=True)
            | CaseRow.building_id.contains(asked.search, autoescape=True)
        )
    counted = session.execute(
        select(CaseRow.escalates, func.count()).where(*where).group_by(CaseRow.escalates)
    )
    n = {bool(escalates): times for escalates, times in counted}
    total = sum(n.values())
    skipped, rows = (asked.page - 1) * asked.size, list[CaseRow]()
    # One part after the other, so that each is read in the order of its index.
    for is_visit in (True, False):
        left = asked.size - len(rows)
        if left and skipped < n.get(is_visit, 0):
            rows += session.scalars(
                select(CaseRow)
                .where(*where, CaseRow.escalates == is_visit)
                .order_by(CaseRow.due_at, CaseRow.number)
                .offset(skipped)
                .limit(left)
            )
        skipped = max(skipped - n.get(is_visit, 0), 0)
    return {
        "cases": [summary_of(row, now) for row in rows],
        "total": total,
        "page": asked.page,
        "pages": max(-(-total // asked.size), 1),
        "status": asked.status,
        "domain": asked.domain,
        "search": asked.search,
    }


def has_decided(session: Session, actor: Actor) -> bool:
    """Whether somebody ever decided a case here; the tour is open until then."""
    asked = select(DeskLogRow.seq).where(DeskLogRow.actor == actor.name).limit(1)
    return session.scalars(asked).first() is not None


def next_open(session: Session, actor: Actor, but: str) -> str:
    """The first case of the queue that waits for a decision, but for one; empty where none does."""
    free = (CaseRow.claimed_by == actor.name) | (CaseRow.claimed_until <= utc_now())
    for is_visit in (True, False):
        found = session.scalars(
            select(CaseRow.complaint_id)
            .where(CaseRow.status == OPEN, CaseRow.escalates == is_visit)
            .where(CaseRow.complaint_id != but, free)
            .order_by(CaseRow.due_at, CaseRow.number)
            .limit(1)
        ).first()
        if found is not None:
            return found
    return ""


@cache
def _category_names(domain: str) -> dict[str, str]:
    """What a domain's numbered categories are about, in words."""
    try:
        process = get_domain(domain).process
    except Parity311Error:
        return {}  # a case of a domain that this version no longer has
    listed = process.categories if isinstance(process, ComplaintProcess) else ()
    return {one.code: one.title for one in listed if one.code.isdigit() and one.title}


def category_words(domain: str, category: str) -> str:
    """A category for people: its number with what it means."""
    known = _category_names(domain)
    return f"{known[category]} ({category})" if category in known else category


def count_open(session: Session) -> int:
    """Cases that wait for a decision."""
    return session.scalar(select(func.count()).where(CaseRow.status == "open")) or 0


def summary_of(row: CaseRow, now: datetime) -> dict[str, Any]:
    """A case as a line of the queue."""
    claimed = row.claimed_by if row.claimed_until > utc_now() else ""
    return hide_if_blind(
        row,
        {
            "complaint_id": row.complaint_id,
            "domain": row.domain,
            "category": row.category,
            "about": category_words(row.domain, row.category),
            "severity": row.severity,
            "received_at": row.received_at,
            "status": row.status,
            "action": row.action,
            "goes": row.goes,
            "escalates": row.escalates,
            "todays_action": row.todays_action,
            "recommended_by": row.version if row.arm == "policy" else TODAY_WORDS,
            "fallback": row.fallback,
            "sure": say_sure(row),
            "reasons": json.loads(row.reasons),
            "n_reports": row.n_reports,
            "clock": service_clock(row, now),
            "claimed_by": claimed,
            "chosen": row.chosen,
            "decided_by": row.decided_by,
            "decided_at": row.decided_at,
            "is_blind": row.is_blind,
        },
    )


HIDDEN = {
    "action": "", "goes": "", "escalates": False, "todays_action": "", "recommended_by": "",
    "fallback": "", "sure": "", "reasons": [], "margin": None, "agreement": None,
    "price_effect": "", "policy": "", "features": {},
}  # fmt: skip
"""What staff are not shown of a blind case before they decide it."""


def hide_if_blind(row: CaseRow, told: dict[str, Any]) -> dict[str, Any]:
    """The same without what was recommended, where that is hidden until somebody decided."""
    if not row.is_blind or row.status != OPEN:
        return told
    return told | {name: value for name, value in HIDDEN.items() if name in told}


def say_sure(row: CaseRow) -> str:
    """How sure the recommendation is, in words."""
    if row.agreement is not None:
        share = row.agreement
        word = "sure" if share >= 0.9 else "fairly sure" if share >= 0.7 else "unsure"
        return f"{word}: {share:.0%} of the estimates agree"
    if row.arm != "policy":
        return "a fixed rule"
    return "not measured for this policy"


def service_clock(row: CaseRow, now: datetime) -> dict[str, Any]:
    """When the case is due, by which rule, and how that stands."""
    due = datetime.fromisoformat(row.due_at)
    ended = datetime.fromisoformat(row.closed_at) if row.closed_at else now
    days = (due - ended).total_seconds() / 86_400
    state = "overdue" if days < 0 else "due soon" if days < 1 else "on time"
    amount = f"{abs(days):.0f} days" if abs(days) >= 2 else f"{abs(days) * 24:.0f} hours"
    allowed = promised_days(row)
    rule = "promised" if allowed is not None else f"code {row.severity}"
    allowed = SERVICE_LEVEL_DAYS[row.severity] if allowed is None else allowed
    return {
        "due_at": row.due_at,
        "state": state,
        "words": f"overdue by {amount}" if days < 0 else f"{state}, {amount} left",
        "rule": f"{rule}: {in_days(allowed)}",
    }


def find_case(session: Session, complaint_id: str) -> CaseRow:
    """The case of this number."""
    row = session.scalars(select(CaseRow).where(CaseRow.complaint_id == complaint_id)).first()
    if row is None:
        raise NothingThereError(
            f"There is no case {complaint_id[:60]!r}; look for it in the queue."
        )
    return row


def read_case(session: Session, complaint_id: str, now: datetime) -> dict[str, Any]:
    """One case with all that staff need to decide it."""
    row = find_case(session, complaint_id)
    reports = session.scalars(
        select(ReportRow).where(ReportRow.case_number == row.number).order_by(ReportRow.received_at)
    )
    visits = session.scalars(
        select(VisitRow).where(VisitRow.case_number == row.number).order_by(VisitRow.visited_at)
    )
    notes = session.scalars(select(NoteRow).where(NoteRow.case_number == row.number))
    log = ledger.entries_about(session, row.complaint_id, row.domain)
    return summary_of(row, now) | hide_if_blind(row, {
        "tract": row.tract,
        "building_id": row.building_id,
        "units": row.units,
        "margin": row.margin,
        "agreement": row.agreement,
        "propensity": row.propensity,
        "price_effect": row.price_effect,
        "version": row.version,
        "policy": row.policy,
        "features": json.loads(row.features),
        "flags": json.loads(row.flags),
        "scored_at": row.scored_at,
        "closed_at": row.closed_at,
        "disposition": row.disposition,
        "duplicate_of": row.duplicate_of,
        "decided_seq": row.decided_seq,
        "can_undo": is_fresh(row),
        "reports": [
            {"complaint_id": one.complaint_id, "received_at": one.received_at,
             "channel": one.channel, "language": one.language}
            for one in reports
        ],
        "visits": [{"visited_at": one.visited_at, "result": one.result} for one in visits],
        "notes": [one.words for one in notes],
        "likely_duplicates": likely_duplicates(session, row),
        "log": [
            {"seq": one.seq, "at": one.at, "actor": one.actor, "action": one.action,
             "reason": one.reason, "chosen": ledger.details_of(one).get("chosen", "")}
            for one in log
        ],
    })  # fmt: skip


def likely_duplicates(session: Session, row: CaseRow) -> list[dict[str, Any]]:
    """Other cases that may be about the same thing: same kind, same building, not closed."""
    if not row.building_id:
        return []
    others = session.scalars(
        select(CaseRow)
        .where(
            CaseRow.domain == row.domain,
            CaseRow.building_id == row.building_id,
            CaseRow.category == row.category,
            CaseRow.number != row.number,
            CaseRow.status != "closed",
        )
        .order_by(CaseRow.received_at)
        .limit(5)
    )
    return [
        {"complaint_id": one.complaint_id, "received_at": one.received_at, "status": one.status,
         "severity": one.severity, "same": "building and category"}
        for one in others
    ]  # fmt: skip


def claim(session: Session, actor: Actor, complaint_id: str) -> None:
    """Take a case for a while, so that nobody else works on it."""
    row = _undecided(session, complaint_id)
    _refuse_claimed(row, actor)
    until = datetime.now(UTC) + timedelta(minutes=CLAIM_MINUTES)
    row.claimed_by, row.claimed_until = actor.name, until.isoformat(timespec="milliseconds")


def release_claim(session: Session, actor: Actor, complaint_id: str) -> None:
    """Give a case back."""
    row = _undecided(session, complaint_id)
    _refuse_claimed(row, actor)
    row.claimed_by = row.claimed_until = ""


def accept(session: Session, actor: Actor, complaint_id: str, now: datetime) -> int:
    """Do as recommended; number of the entry."""
    row = _undecided(session, complaint_id)
    _refuse_claimed(row, actor)
    _refuse_blind(row)
    return _decide(session, actor, row, ledger.ACCEPT, row.action, "as recommended", now)


def accept_many(
    session: Session, actor: Actor, complaint_ids: Sequence[str], now: datetime
) -> list[str]:
    """Accept several cases with one recommendation; all of them or none. Escalations never."""
    chosen = list(dict.fromkeys(complaint_ids))
    if not chosen or len(chosen) > MOST_AT_ONCE:
        raise DeskRefusal(
            f"{len(chosen)} cases were chosen; allowed are 1 to {MOST_AT_ONCE} at once."
        )
    rows = [_undecided(session, one) for one in chosen]
    actions = {(row.domain, row.action) for row in rows}
    if len(actions) > 1:
        raise DeskRefusal(
            f"The chosen cases have {len(actions)} different recommendations; accept those of one "
            "kind together, the others on their own."
        )
    if any(row.escalates for row in rows):
        raise DeskRefusal(
            "A recommendation that sends somebody is decided case by case; open each and accept it."
        )
    for row in rows:
        _refuse_claimed(row, actor)
        _refuse_blind(row)
    for row in rows:
        _decide(session, actor, row, ledger.ACCEPT, row.action, "as recommended, together", now)
    return chosen


def override(
    session: Session, actor: Actor, complaint_id: str, action: str, reason: str, note: str,
    actions: Sequence[str], now: datetime,
) -> int:  # fmt: skip
    """Decide otherwise than recommended, with a reason; number of the entry."""
    row = _undecided(session, complaint_id)
    _refuse_claimed(row, actor)
    if action not in actions:
        raise DeskRefusal(f"{action[:40]!r} was chosen; allowed are {', '.join(actions)}.")
    _refuse_blind(row)
    if action == row.action:
        raise DeskRefusal(f"{action} is what was recommended; accept it, or choose another.")
    if reason not in OVERRIDE_REASONS:
        raise DeskRefusal(
            f"The reason {reason[:40]!r} was given; choose one of {', '.join(OVERRIDE_REASONS)}."
        )
    more = _seal_note(session, row, note)
    if reason == "other" and not more:
        raise DeskRefusal("For another reason some words are needed; write them in the note.")
    return _decide(session, actor, row, ledger.OVERRIDE, action, reason, now, **more)


def decide_blind(
    session: Session, actor: Actor, complaint_id: str, action: str, note: str,
    actions: Sequence[str], now: datetime,
) -> int:  # fmt: skip
    """Decide a case whose recommendation is hidden; number of the entry."""
    row = _undecided(session, complaint_id)
    _refuse_claimed(row, actor)
    if not row.is_blind:
        raise DeskRefusal(
            f"The recommendation for {row.complaint_id} is shown; accept it, or choose another."
        )
    if action not in actions:
        raise DeskRefusal(f"{action[:40]!r} was chosen; allowed are {', '.join(actions)}.")
    more = _seal_note(session, row, note)
    act = ledger.ACCEPT if action == row.action else ledger.OVERRIDE
    return _decide(session, actor, row, act, action, BLIND_REASON, now, was_blind=True, **more)


def merge(session: Session, actor: Actor, complaint_id: str, into: str, now: datetime) -> int:
    """Close a case as a duplicate of another that is not closed; number of the entry."""
    row = _undecided(session, complaint_id)
    _refuse_claimed(row, actor)
    other = find_case(session, into.strip())
    if other.number == row.number or other.domain != row.domain:
        raise DeskRefusal(
            f"{into[:60]!r} was given; a case joins another one of {row.domain.replace('_', ' ')}."
        )
    if other.status == CLOSED or other.duplicate_of:
        raise OvertakenError(
            f"Case {other.complaint_id} is closed; join one that is still worked on."
        )
    entry = _decide(
        session, actor, row, ledger.MERGE, ledger.MERGED, "the same problem", now,
        into=other.complaint_id,
    )  # fmt: skip
    row.status, row.duplicate_of = CLOSED, other.complaint_id
    row.closed_at, row.disposition = now.isoformat(timespec="seconds"), ledger.MERGED
    other.n_reports += row.n_reports
    return entry


def _seal_note(session: Session, row: CaseRow, note: str) -> dict[str, str]:
    """Keep what somebody wrote apart from the log, which gets its hash."""
    words = note.strip()
    if len(words) > LONGEST_NOTE or "\0" in words:
        raise DeskRefusal(f"The note has {len(words):,} characters; {LONGEST_NOTE:,} are allowed.")
    if not words:
        return {}
    salt, sealed = ledger.sealed(words)
    session.add(NoteRow(case_number=row.number, salt=salt, words=words))
    return {"note_sha256": sealed}


def undo(session: Session, actor: Actor, complaint_id: str) -> int:
    """Take one's decision back within a moment; number of the entry."""
    row = find_case(session, complaint_id)
    if not _stands(row) or row.decided_by != actor.name:
        raise OvertakenError(
            f"Case {row.complaint_id} has no decision of yours to take back; look at it as it is."
        )
    if not is_fresh(row):
        raise OvertakenError(
            f"A decision can be taken back for {UNDO_SECONDS} seconds; decide the case again "
            "through your supervisor."
        )
    entry = ledger.append(
        session, actor=actor.name, action=ledger.UNDO, domain=row.domain, version=row.version,
        reason="taken back", details={"case": row.complaint_id, "role": actor.role,
                                      "takes_back": row.decided_seq},
    )  # fmt: skip
    if row.duplicate_of:
        find_case(session, row.duplicate_of).n_reports -= row.n_reports
        row.duplicate_of = row.closed_at = row.disposition = ""
    row.status, row.chosen, row.decided_by, row.decided_at, row.decided_seq = OPEN, "", "", "", 0
    return entry.seq


def _stands(row: CaseRow) -> bool:
    """Whether a decision of staff is the last that happened to a case."""
    return row.status == DECIDED or bool(row.duplicate_of)


def is_fresh(row: CaseRow) -> bool:
    """Whether a decision can still be taken back."""
    if not _stands(row) or not row.decided_at:
        return False
    age = datetime.now(UTC) - datetime.fromisoformat(row.decided_at)
    return age <= timedelta(seconds=UNDO_SECONDS)


def _undecided(session: Session, complaint_id: str) -> CaseRow:
    row = find_case(session, complaint_id)
    if row.status != OPEN:
        who = f"{row.decided_by} decided {row.chosen}" if row.decided_by else "it was closed"
        raise OvertakenError(
            f"Case {row.complaint_id} is no longer open: {who}; nothing was changed. Go on with "
            "the next."
        )
    return row


def _refuse_claimed(row: CaseRow, actor: Actor) -> None:
    if row.claimed_by not in ("", actor.name) and row.claimed_until > utc_now():
        raise OvertakenError(
            f"{row.claimed_by} is working on case {row.complaint_id} until "
            f"{row.claimed_until[11:16]} UTC; take another, or ask them."
        )


def _refuse_blind(row: CaseRow) -> None:
    if row.is_blind:
        raise DeskRefusal(
            f"The recommendation for {row.complaint_id} is hidden until somebody decided; open the "
            "case and choose an action."
        )


def _decide(
    session: Session, actor: Actor, row: CaseRow, act: str, chosen: str, reason: str,
    now: datetime, **more: Any,
) -> int:  # fmt: skip
    """Write the entry and the case's columns; the number of the entry."""
    details = {
        "case": row.complaint_id,
        "role": actor.role,
        "chosen": chosen,
        "recommended": row.action,
        "arm": row.arm,
        "propensity": row.propensity,
        "fallback": row.fallback,
        "city_time": now.isoformat(timespec="seconds"),
        **more,
    }
    entry = ledger.append(
        session, actor=actor.name, action=act, domain=row.domain, version=row.version,
        reason=reason, details=details,
    )  # fmt: skip
    row.status, row.chosen, row.decided_by = DECIDED, chosen, actor.name
    row.decided_at, row.decided_seq = utc_now(), entry.seq
    row.claimed_by = row.claimed_until = ""
    session.flush()
    return entry.seq
