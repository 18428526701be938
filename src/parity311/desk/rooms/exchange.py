"""Other systems: complaints scored in one go, the desk's export, who is told and who is asked."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, Form, Response
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from parity311.desk import keys, partners
from parity311.desk.exporting import export_desk
from parity311.desk.intake import standing_of
from parity311.desk.limits import Bucket
from parity311.desk.refusals import DeskRefusal
from parity311.desk.sources import KINDS
from parity311.desk.sources import add_source as begin_asking
from parity311.desk.tables import HookRow, SourceRow
from parity311.desk.web import Caller, Room, Went, json_response, render, wants_json

ROOM = Room("exchange")
MOST_SCORED = 1000
SCORED_AT_ONCE, SCORED_A_MINUTE = 600, 30_000.0
Name = Annotated[str, Form(min_length=1, max_length=60, pattern=r"^[\w.-]+$")]
Address = Annotated[str, Form(min_length=8, max_length=500)]


@ROOM.raw("/score", "public.read", methods=["POST"])
def score(
    caller: Caller,
    domain: Annotated[str, Body(max_length=40)],
    complaints: Annotated[list[dict[str, Any]], Body()],
) -> Response:
    """Recommend for up to a thousand complaints without taking them in; it needs a key."""
    desk = caller.desk
    with desk.database.reading() as session:
        given = caller.request.headers.get("authorization", "")
        system = keys.check_key(session, given.removeprefix("Bearer ").strip())
        desk.more.setdefault("scored", Bucket(SCORED_AT_ONCE, SCORED_A_MINUTE)).take(system)
        office = desk.office(domain)
        standing = standing_of(session, office, desk.clock.now())
    if not 1 <= len(complaints) <= MOST_SCORED:
        raise DeskRefusal(
            f"{len(complaints):,} complaints were given; allowed are 1 to {MOST_SCORED:,}."
        )
    told = [
        {"complaint_id": str(one.get("complaint_id", "")), **_say(office.answer(standing, one))}
        for one in complaints
    ]
    return json_response({"domain": domain, "version": standing.version, "scored": told})


def _say(found: dict[str, Any]) -> dict[str, Any]:
    names = ("action", "goes", "escalates", "todays_action", "margin", "agreement", "fallback",
             "arm", "propensity")  # fmt: skip
    return {name: found[name] for name in names}


@ROOM.raw("/export", "records.export", methods=["GET"], include_in_schema=False)
def export(caller: Caller) -> Response:
    """What came in and what was decided, for `parity311 records import`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "desk.zip"
        export_desk(caller.desk.database, path, caller.desk.clock.now())
        body = path.read_bytes()
    headers = {"Content-Disposition": 'attachment; filename="desk.zip"'}
    return Response(body, media_type="application/zip", headers=headers)


@ROOM.page("/partners", "partners.html", "keys.manage")
def show_partners(caller: Caller) -> dict[str, Any]:
    """Systems that are told and systems that are asked."""
    return _list(caller) | {"secret": ""}


def _list(caller: Caller) -> dict[str, Any]:
    with caller.desk.database.reading() as session:
        hooks = session.scalars(select(HookRow).order_by(HookRow.made_at)).all()
        sources = session.scalars(select(SourceRow).order_by(SourceRow.made_at)).all()
        return {
            "title": "Other systems",
            "kinds": KINDS,
            "domains": {name: list(one.codes) for name, one in caller.desk.offices.items()},
            "hooks": [
                {"name": one.name, "address": one.address, "sent_seq": one.sent_seq,
                 "problem": one.problem, "ended_at": one.ended_at, "made_by": one.made_by}
                for one in hooks
            ],
            "sources": [
                {"name": one.name, "kind": one.kind, "address": one.address,
                 "read_to": one.read_to, "problem": one.problem, "ended_at": one.ended_at,
                 "minutes": one.minutes}
                for one in sources
            ],
        }  # fmt: skip


@ROOM.raw("/partners/hooks", "keys.manage", methods=["POST"])
def add_hook(caller: Caller, name: Name, address: Address) -> Response:
    """Tell a system of every decision; its secret is shown now and never again."""
    with caller.desk.database.writing() as session:
        secret = partners.add_hook(session, name, address, caller.actor.name)
    if wants_json(caller.request):
        return json_response({"name": name, "secret": secret})
    return HTMLResponse(render(caller, "partners.html", _list(caller) | {"secret": secret}))


@ROOM.act("/partners/hooks/end", "keys.manage")
def end_hook(caller: Caller, name: Name) -> Went:
    """Tell a system no more."""
    with caller.desk.database.writing() as session:
        partners.end_partner(session, HookRow, name)
    return Went("/partners", "hooked")


@ROOM.act("/partners/sources", "keys.manage")
def add_source(
    caller: Caller,
    name: Name,
    kind: Annotated[str, Form(max_length=20)],
    address: Address,
    codes: Annotated[str, Form(min_length=1, max_length=10_000)],
    minutes: Annotated[float, Form(ge=1, le=1440)] = 5.0,
) -> Went:
    """Ask a system for complaints again and again."""
    with caller.desk.database.writing() as session:
        begin_asking(session, caller.desk, name, kind, address, codes, minutes, caller.actor.name)
    return Went("/partners", "hooked")


@ROOM.act("/partners/sources/end", "keys.manage")
def end_source(caller: Caller, name: Name) -> Went:
    """Ask a system no more."""
    with caller.desk.database.writing() as session:
        partners.end_partner(session, SourceRow, name)
    return Went("/partners", "hooked")
