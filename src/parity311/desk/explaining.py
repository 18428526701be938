"""What a complainant reads about their complaint: at most 120 plain words, from fixed sentences.

It says what was told, what happens and by when, who decided, why, what is not looked at, and what
one can do. It never says anything about who lives there. Every sentence is translated whole.
"""

from __future__ import annotations

import json
from datetime import datetime

from parity311.desk.languages import ENGLISH, Say, speak
from parity311.desk.tables import CLOSED, OPEN, CaseRow
from parity311.explain.phrases import action_words
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
SENTENCES = {
    "told": "You told us about {what} on {day}.",
    "reports": "We have {n} reports of it.",
    "waits": "It waits to be looked at.",
    "worked": "It is being worked on.",
    "goal": "Our goal for this kind is {days} days: by {day}.",
    "goal_day": "Our goal for this kind is one day: by {day}.",
    "nobody": "Nobody has decided yet. A staff member will; a program only makes a suggestion.",
    "same": "A staff member chose “{chosen}”. A program had suggested the same.",
    "other": "A staff member chose “{chosen}”. A program had suggested “{said}”.",
    "why": "What counted: {reason}.",
    "why_two": "What counted: {reason}, and {second}.",
    "no_why": "No one detail decided it.",
    "not_used": "We did not look at your name, your language or who you are.",
    "to_do": "You can call 311 to tell us more or to ask that a person look again. "
    "If someone is in danger, call 911.",
}
WHOLE_OFFICE = {"visit": "Inspect", "wait": "Defer", "duplicate": "Merge"}
"""What is chosen where a policy decides for the whole office, by an action with words."""


def explain_case(row: CaseRow, language: str = ENGLISH) -> list[str]:
    """Paragraphs for the person who complained."""
    say = speak(language)
    what = say(row.domain.replace("_", " "))
    told = say(SENTENCES["told"]).format(what=what, day=_day(row.received_at, language))
    if row.n_reports > 1:
        told += " " + say(SENTENCES["reports"]).format(n=row.n_reports)
    return [
        told,
        _what_happens(row, say, language),
        _who_decided(row, say),
        _why(row, say),
        say(SENTENCES["not_used"]),
        say(SENTENCES["to_do"]),
    ]


def _what_happens(row: CaseRow, say: Say, language: str) -> str:
    if row.status == CLOSED:
        return say(ENDED.get(row.disposition, ENDED["other"]))
    days = SERVICE_LEVEL_DAYS[row.severity]
    goal = say(SENTENCES["goal_day" if days == 1 else "goal"])
    first = say(SENTENCES["waits" if row.status == OPEN else "worked"])
    return f"{first} {goal.format(days=f'{days:g}', day=_day(row.due_at, language))}"


def _who_decided(row: CaseRow, say: Say) -> str:
    if not row.decided_by:
        return say(SENTENCES["nobody"])
    chosen, said = (
        say(action_words(WHOLE_OFFICE.get(one, one))) for one in (row.chosen, row.action)
    )
    is_same = row.chosen == row.action
    return say(SENTENCES["same" if is_same else "other"]).format(chosen=chosen, said=said)


def _why(row: CaseRow, say: Say) -> str:
    reasons = [say(str(one)) for one in json.loads(row.reasons)][:2]
    if not reasons:
        return say(SENTENCES["no_why"])
    kind = "why_two" if len(reasons) > 1 else "why"
    return say(SENTENCES[kind]).format(reason=reasons[0], second=reasons[-1])


def _day(stamp: str, language: str) -> str:
    moment = datetime.fromisoformat(stamp)
    if language != ENGLISH:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%B} {moment.day}, {moment.year}"
