"""Intake: the queue, one case, and what staff do with it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Form, Query, Response

from parity311.desk import cases
from parity311.desk.pictures import draw_place
from parity311.desk.web import Caller, Room, Went

ROOM = Room("queue")
CaseId = Annotated[str, Form(max_length=80)]
N_SHOWN = 50
ASK_AGAIN_MS = 5000


@ROOM.page("/queue", "queue.html", "queue.read")
def show_queue(
    caller: Caller,
    domain: Annotated[str, Query(max_length=40)] = "",
    status: Literal["open", "decided", "closed"] = "open",
    search: Annotated[str, Query(max_length=80)] = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> dict[str, Any]:
    """The queue: what waits, with what is recommended."""
    desk = caller.desk
    if domain:
        desk.office(domain)
    asked = cases.QueueQuery(domain, status, search, page, N_SHOWN)
    with desk.database.reading() as session:
        found = cases.read_queue(session, asked, desk.clock.now())
        is_first = not cases.has_decided(session, caller.actor)
    return {
        "title": "Queue", "domains": list(desk.offices), "offices": offices_of(caller),
        "is_first": is_first,
    } | found  # fmt: skip


@ROOM.raw("/queue/changes", "queue.read", methods=["GET"], include_in_schema=False)
def tell_changes(caller: Caller) -> Response:
    """How many cases are open, as one server-sent event; the browser asks again by itself.

    The answer ends after its event, so that no open page holds a thread or a shutdown up.
    """
    with caller.desk.database.reading() as session:
        n_open = cases.count_open(session)
    text = f"retry: {ASK_AGAIN_MS}\ndata: {n_open}\n\n"
    return Response(text, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@ROOM.page("/case/{complaint_id}", "case.html", "queue.read")
def show_case(caller: Caller, complaint_id: str) -> dict[str, Any]:
    """One case: the facts, then what is recommended and why."""
    desk = caller.desk
    with desk.database.reading() as session:
        found = cases.read_case(session, complaint_id, desk.clock.now())
        following = cases.next_open(session, caller.actor, complaint_id)
    place = desk.places.get(found["tract"])
    return {
        "title": f"Case {complaint_id}",
        "case": found,
        "next_case": following,
        "place": vars(place) if place else None,
        "map": draw_place(desk.places, found["tract"]),
        "actions": desk.office(found["domain"]).actions,
        "reasons": cases.OVERRIDE_REASONS,
        "offices": offices_of(caller, found["domain"]),
    }


@ROOM.act("/case/{complaint_id}/accept", "case.decide")
def accept(caller: Caller, complaint_id: str) -> Went:
    """Do as recommended."""
    with caller.desk.database.writing() as session:
        seq = cases.accept(session, caller.actor, complaint_id, caller.desk.clock.now())
    return Went(f"/case/{complaint_id}", "accepted", {"entry": seq})


@ROOM.act("/case/{complaint_id}/override", "case.decide")
def override(
    caller: Caller,
    complaint_id: str,
    action: Annotated[str, Form(max_length=60)],
    reason: Annotated[str, Form(max_length=60)],
    note: Annotated[str, Form(max_length=cases.LONGEST_NOTE)] = "",
) -> Went:
    """Decide otherwise, with a reason."""
    with caller.desk.database.writing() as session:
        domain = cases.find_case(session, complaint_id).domain
        seq = cases.override(
            session, caller.actor, complaint_id, action, reason, note,
            caller.desk.office(domain).actions, caller.desk.clock.now(),
        )  # fmt: skip
    return Went(f"/case/{complaint_id}", "overridden", {"entry": seq})


@ROOM.act("/case/{complaint_id}/decide", "case.decide")
def decide(
    caller: Caller,
    complaint_id: str,
    action: Annotated[str, Form(max_length=60)],
    note: Annotated[str, Form(max_length=cases.LONGEST_NOTE)] = "",
) -> Went:
    """Decide a case whose recommendation is hidden."""
    with caller.desk.database.writing() as session:
        domain = cases.find_case(session, complaint_id).domain
        seq = cases.decide_blind(
            session, caller.actor, complaint_id, action, note,
            caller.desk.office(domain).actions, caller.desk.clock.now(),
        )  # fmt: skip
    return Went(f"/case/{complaint_id}", "decided", {"entry": seq})


@ROOM.act("/case/{complaint_id}/merge", "case.decide")
def merge(caller: Caller, complaint_id: str, into: CaseId) -> Went:
    """Close a case as a duplicate of another."""
    with caller.desk.database.writing() as session:
        seq = cases.merge(session, caller.actor, complaint_id, into, caller.desk.clock.now())
    return Went(f"/case/{complaint_id}", "merged", {"entry": seq})


@ROOM.act("/case/{complaint_id}/undo", "case.decide")
def undo(caller: Caller, complaint_id: str) -> Went:
    """Take one's decision back within half a minute."""
    with caller.desk.database.writing() as session:
        seq = cases.undo(session, caller.actor, complaint_id)
    return Went(f"/case/{complaint_id}", "undone", {"entry": seq})


@ROOM.act("/case/{complaint_id}/claim", "case.decide")
def claim(caller: Caller, complaint_id: str) -> Went:
    """Take a case for a while."""
    with caller.desk.database.writing() as session:
        cases.claim(session, caller.actor, complaint_id)
    return Went(f"/case/{complaint_id}", "claimed")


@ROOM.act("/case/{complaint_id}/give-back", "case.decide")
def give_back(caller: Caller, complaint_id: str) -> Went:
    """Give a case back."""
    with caller.desk.database.writing() as session:
        cases.release_claim(session, caller.actor, complaint_id)
    return Went("/queue", "given_back")


@ROOM.act("/queue/accept", "case.decide")
def accept_many(
    caller: Caller, complaint_id: Annotated[list[str], Form(max_length=cases.MOST_AT_ONCE)]
) -> Went:
    """Accept several cases with one recommendation; never those that send somebody."""
    with caller.desk.database.writing() as session:
        done = cases.accept_many(session, caller.actor, complaint_id, caller.desk.clock.now())
    return Went("/queue", "accepted_many", {"accepted": done})


def offices_of(caller: Caller, domain: str = "") -> list[dict[str, str]]:
    """Who decides in each domain served here, for the banner."""
    return [
        {"domain": name, "version": office.deciding[0]}
        for name, office in caller.desk.offices.items()
        if domain in ("", name)
    ]
