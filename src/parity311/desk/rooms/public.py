"""What anybody can see: the policy in force, who was served, the log's daily hash, one's case."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from fastapi import Form, Response
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from parity311.desk import ledger
from parity311.desk.explaining import explain_case
from parity311.desk.figures import (
    choices_made,
    picture_service,
    read_promises,
    read_service,
)
from parity311.desk.intake import hash_check_code
from parity311.desk.languages import ENGLISH, LANGUAGES, REVIEWED, language_of, speak
from parity311.desk.limits import Bucket
from parity311.desk.refusals import NothingThereError
from parity311.desk.tables import CaseRow
from parity311.desk.web import Caller, Room, json_response, render, wants_json

ROOM = Room("public")
NOT_FOUND = (
    "No complaint has this tracking number and check code; both were given to you when you "
    "complained. Check them, or call 311."
)
STATUS_TITLE = "What became of my complaint"
LOOKS_AT_ONCE, LOOKS_A_MINUTE = 10, 6.0


@ROOM.page("/", "public.html", "public.read")
def show_public(caller: Caller) -> dict[str, Any]:
    """The policy in force, the monthly figures, and the hash of every day's log."""
    desk = caller.desk
    policies = []
    for domain, office in desk.offices.items():
        version = office.deciding[0]
        lines = desk.registry.statement(version) if version else ()
        policies.append(
            {"domain": domain, "version": version, "statement": [vars(one) for one in lines]}
        )
    promised = {name: one.promised for name, one in desk.offices.items() if one.promised}
    with desk.database.reading() as session:
        service = read_service(session, desk.offices.values(), desk.clock.now())
        promises = read_promises(session, promised, desk.clock.now())
        choices = choices_made(session)
        heads = ledger.daily_heads(session)
    return {
        "title": "Who decides about complaints, and how",
        "answers": [
            {"language": one, "words": speak(one)(STATUS_TITLE)}
            for one in LANGUAGES
            if one != ENGLISH
        ],
        "policies": policies,
        "service": service,
        "pictures": [picture_service(service, domain) for domain in desk.offices],
        "choices": choices,
        "promises": promises,
        "is_promised": bool(promised),
        "heads": heads,
    }


@ROOM.page("/status", "status.html", "public.read")
def show_status(caller: Caller) -> dict[str, Any]:
    """Where one asks what became of a complaint."""
    return status_page(language_of(caller.request), None)


def status_page(language: str, found: dict[str, Any] | None) -> dict[str, Any]:
    """The page in a language, with an answer or without."""
    return {
        "title": speak(language)(STATUS_TITLE),
        "found": found,
        "language": language,
        "languages": LANGUAGES,
        "reviewed": sorted(REVIEWED),
    }


@ROOM.raw("/status", "public.read", methods=["POST"])
def look_up(
    caller: Caller,
    tracking: Annotated[str, Form(max_length=80)],
    code: Annotated[str, Form(max_length=40)],
    language: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    """What became of a complaint, by tracking number and check code."""
    looks = caller.desk.more.setdefault("looks", Bucket(LOOKS_AT_ONCE, LOOKS_A_MINUTE))
    looks.take(caller.address)
    spoken = language if language in LANGUAGES else language_of(caller.request)
    found = find_by_code(caller, tracking.strip(), code, spoken)
    if wants_json(caller.request):
        return json_response(found)
    return HTMLResponse(render(caller, "status.html", status_page(spoken, found)))


def find_by_code(caller: Caller, tracking: str, code: str, language: str) -> dict[str, Any]:
    """The answer for a complainant; the same refusal whichever is wrong."""
    with caller.desk.database.reading() as session:
        row = session.scalars(select(CaseRow).where(CaseRow.complaint_id == tracking)).first()
        salt, kept = (row.check_salt, row.check_hash) if row else ("", "")
        is_right = hmac.compare_digest(hash_check_code(salt, code), kept or "0" * 64)
        if row is None or not is_right:
            raise NothingThereError(speak(language)(NOT_FOUND))
        return {
            "tracking": row.complaint_id,
            "status": row.status,
            "due_at": row.due_at,
            "disposition": row.disposition,
            "policy_version": row.version or "today's rule",
            "paragraphs": explain_case(row, language),
        }
