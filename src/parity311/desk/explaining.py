"""What a complainant reads about their complaint: at most 120 plain words, from fixed sentences.

It says what was told, what happens and by when, who decided, why, what is not looked at, and what
one can do. It never says anything about who lives there.
"""

from __future__ import annotations

import json
from datetime import datetime

from parity311.desk.offices import promised_days
from parity311.desk.tables import CLOSED, OPEN, CaseRow
from parity311.records.schema import SERVICE_LEVEL_DAYS

MOST_WORDS = 120
ENDED = {
    "violation": "An inspector went and found a violation. The owner must fix it.",
    "no_violation": "An inspector went and found no violation.",
    "no_access": "An inspector went and could not get in.",
    "referral": "It was sent to another office.",
    "duplicate": "It was closed because the same problem is handled in another case.",
    "pending": "It was closed; what came of it is not yet known.",
    "other": "It was closed without a visit.",
}
"""How a case ended, by class: never bare "closed"."""


def explain_case(row: CaseRow) -> list[str]:
    """Paragraphs for the person who complained."""
    told = f"You told us about {row.domain.replace('_', ' ')} on {_day(row.received_at)}."
    if row.n_reports > 1:
        told += f" We have {row.n_reports} reports of it."
    return [told, _what_happens(row), _who_decided(row), _why(row), _NOT_USED, _WHAT_TO_DO]


_NOT_USED = "We did not look at your name, your language or who you are."
_WHAT_TO_DO = (
    "You can call 311 to tell us more or to ask that a person look again. If someone is in danger, "
    "call 911."
)


def _what_happens(row: CaseRow) -> str:
    if row.status == CLOSED:
        return ENDED.get(row.disposition, ENDED["other"])
    promised = promised_days(row)
    days = SERVICE_LEVEL_DAYS[row.severity] if promised is None else promised
    rule = "one day" if days == 1 else f"{days:g} days"
    first = "It waits to be looked at." if row.status == OPEN else "It is being worked on."
    if promised is not None:
        by = f"within {rule}, by {_day(row.due_at)}"
        return f"{first} Most requests like yours are promised a visit {by}."
    return f"{first} Our goal for this kind is {rule}: by {_day(row.due_at)}."


def _who_decided(row: CaseRow) -> str:
    if not row.decided_by:
        return "Nobody has decided yet. A staff member will; a program only makes a suggestion."
    chosen, said = (one.replace("_", " ").lower() for one in (row.chosen, row.action))
    if row.chosen == row.action:
        return f"A staff member chose “{chosen}”. A program had suggested the same."
    return f"A staff member chose “{chosen}”. A program had suggested “{said}”."


def _why(row: CaseRow) -> str:
    reasons = [str(one) for one in json.loads(row.reasons)][:2]
    return f"What counted: {', and '.join(reasons)}." if reasons else "No one detail decided it."


def _day(stamp: str) -> str:
    moment = datetime.fromisoformat(stamp)
    return f"{moment:%B} {moment.day}, {moment.year}"
