"""Open311 GeoReport v2: how other systems see services, file complaints and follow them.

A service is a domain of the desk; its categories and yes/no fields are attributes. A place is a
position, which is put into the nearest tract, or a building's id as `address_id`.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Depends, Form, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from parity311.desk import keys
from parity311.desk.explaining import ENDED
from parity311.desk.georeport import SPECIFICATION, answer, city_time, zoned
from parity311.desk.intake import Filing, NewComplaint, nearest_tract
from parity311.desk.limits import Bucket
from parity311.desk.offices import DeskOffice
from parity311.desk.refusals import DeskRefusal, NothingThereError
from parity311.desk.tables import CLOSED, CaseRow
from parity311.desk.web import Caller, Room, Went, json_response, render, wants_json

ROOM = Room("open311")
BASE = "/open311/v2"
LONGEST_WORDS = 4000
MOST_DAYS, MOST_ROWS = 90, 1000
FILED_AT_ONCE, FILED_A_MINUTE = 600, 12_000.0
Kind = Literal["xml", "json"]


async def read_fields(request: Request) -> dict[str, list[str]]:
    """A form's texts by name; what is empty is absent."""
    form = await request.form(max_fields=200)
    found: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if isinstance(value, str) and value.strip():
            found.setdefault(name, []).append(value)
    return found


Fields = Annotated[dict[str, list[str]], Depends(read_fields)]


@ROOM.raw("/open311/discovery.{kind}", "public.read", methods=["GET"])
def discover(caller: Caller, kind: Kind) -> Response:
    """Where the interface is and what it speaks."""
    content = {
        "changeset": "2026-11-18T00:00:00-05:00",
        "contact": "The administrator of this desk.",
        "key_service": "The administrator of this desk makes keys at /keys.",
        "endpoints": [
            {
                "specification": SPECIFICATION,
                "url": str(caller.request.base_url).rstrip("/") + BASE,
                "changeset": "2026-11-18T00:00:00-05:00",
                "type": "test" if caller.desk.is_synthetic else "production",
                "formats": ["text/xml", "application/json"],
            }
        ],
    }
    return answer(kind, "discovery", "", content)


@ROOM.raw(BASE + "/services.{kind}", "public.read", methods=["GET"])
def list_services(caller: Caller, kind: Kind) -> Response:
    """What can be complained about."""
    content = [
        {
            "service_code": name,
            "service_name": office.title,
            "description": office.deciding[1].domain.decision,
            "metadata": True,
            "type": "realtime",
            "keywords": name.replace("_", ","),
            "group": "housing",
        }
        for name, office in caller.desk.offices.items()
    ]
    return answer(kind, "services", "service", content)


@ROOM.raw(BASE + "/services/{service_code}.{kind}", "public.read", methods=["GET"])
def define_service(caller: Caller, service_code: str, kind: Kind) -> Response:
    """What a complaint of a service may say."""
    office = caller.desk.office(service_code)
    codes = office.codes
    attributes: list[dict[str, Any]] = [
        _attribute("category", "singlevaluelist", 1, "What it is about", sorted(codes))
    ]
    for place, name in enumerate(office.past.flags, start=2):
        words = name.replace("_", " ")
        attributes.append(_attribute(name, "singlevaluelist", place, words, ["true", "false"]))
    content = {"service_code": service_code, "attributes": attributes}
    return answer(kind, "service_definition", "", content)


def _attribute(
    code: str, datatype: str, order: int, words: str, values: list[str]
) -> dict[str, Any]:
    return {
        "variable": True,
        "code": code,
        "datatype": datatype,
        "required": False,
        "datatype_description": "",
        "order": order,
        "description": words,
        "values": [{"key": one, "name": one} for one in values],
    }


@ROOM.raw(BASE + "/requests.{kind}", "public.read", methods=["POST"])
def file_request(caller: Caller, kind: Kind, fields: Fields) -> Response:
    """File a complaint; its number comes back, with the check code as a notice."""
    desk = caller.desk
    given = {name: values[0] for name, values in fields.items()}
    with desk.database.reading() as session:
        system = keys.check_key(session, given.get("api_key", ""))
    filed = desk.more.setdefault("filed", Bucket(FILED_AT_ONCE, FILED_A_MINUTE))
    filed.take(system)
    if "service_code" not in given:
        raise DeskRefusal("service_code was not given; services.json lists what there is.")
    office = desk.office(given["service_code"])
    complaint = _read_complaint(caller, office, given)
    filing: Filing = desk.more.setdefault("filing", Filing(desk))
    taken = filing.file(office, complaint)
    caller.request.state.timings = {
        "score": taken.scored_ms, "score-cpu": taken.scored_cpu_ms
    }  # fmt: skip
    notice = f"Tracking number {taken.tracking}, check code {taken.check_code}."
    told = {"service_request_id": taken.complaint_id, "service_notice": notice, "account_id": ""}
    return answer(kind, "service_requests", "request", [told])


def _read_complaint(caller: Caller, office: DeskOffice, given: dict[str, str]) -> NewComplaint:
    """What was posted as a complaint of the desk."""
    codes = office.codes
    category = given.get("attribute[category]", next(iter(codes)))
    if category not in codes:
        raise DeskRefusal(f"category {category[:60]!r} was given; allowed: {', '.join(codes)}.")
    words = given.get("description", "")
    if len(words) > LONGEST_WORDS:
        raise DeskRefusal(f"description has {len(words):,} characters; {LONGEST_WORDS:,} fit.")
    flags = {}
    for name in office.past.flags:
        said = given.get(f"attribute[{name}]", "false").lower()
        if said not in ("true", "false"):
            raise DeskRefusal(f"{name} {said[:20]!r} was given; allowed is true or false.")
        flags[name] = said == "true"
    person = {
        "name": " ".join(given.get(one, "") for one in ("first_name", "last_name")).strip(),
        "email": given.get("email", ""),
        "phone": given.get("phone", ""),
        "words": words,
    }
    building = given.get("address_id", "")
    return NewComplaint(
        complaint_id=f"{office.domain}-{secrets.token_hex(5)}",
        domain=office.domain,
        category=category,
        severity=codes[category],
        received_at=caller.desk.clock.now(),
        tract=_find_tract(caller, office, given, building),
        building_id=building,
        channel="ONLINE",
        flags=flags,
        source="open311",
        person={name: value[:LONGEST_WORDS] for name, value in person.items()},
    )


def _find_tract(caller: Caller, office: DeskOffice, given: dict[str, str], building: str) -> str:
    """The tract of a building on record, or the nearest to a position."""
    number = office.past.building_numbers.get(building)
    if number is not None:
        at = int((office.past.building == number).argmax())
        return str(office.past.tracts[office.past.tract[at]])
    try:
        lat, long = float(given["lat"]), float(given["long"])
    except (KeyError, ValueError):
        raise DeskRefusal(
            "No place was given that this desk knows; give lat and long in degrees, or the "
            "address_id of a building on record."
        ) from None

    found = nearest_tract(caller.desk, lat, long)
    if found is None:
        raise DeskRefusal(f"lat {lat:g}, long {long:g} lies outside of the city served here.")
    return found


@ROOM.raw(BASE + "/tokens/{token}.{kind}", "public.read", methods=["GET"])
def read_token(caller: Caller, token: str, kind: Kind) -> Response:
    """The number that belongs to a token: numbers are given at once, so it is the same."""
    _find(caller, token)
    told = {"service_request_id": token, "token": token}
    return answer(kind, "service_requests", "request", [told])


@ROOM.raw(BASE + "/requests.{kind}", "public.read", methods=["GET"])
def list_requests(
    caller: Caller, kind: Kind, service_request_id: str = "", service_code: str = "",
    start_date: str = "", end_date: str = "", status: str = "", page: int = 1,
    page_size: int = MOST_ROWS,
) -> Response:  # fmt: skip
    """Complaints by number, or of at most ninety days."""
    asked = select(CaseRow).order_by(CaseRow.received_at.desc())
    if service_request_id:
        asked = asked.where(CaseRow.complaint_id.in_(service_request_id.split(",")[:MOST_ROWS]))
    else:
        last = _moment(end_date, caller.desk.clock.now())
        first = _moment(start_date, last - timedelta(days=MOST_DAYS))
        if last - first > timedelta(days=MOST_DAYS):
            raise DeskRefusal(f"More than {MOST_DAYS} days were asked for; ask for fewer.")
        low, high = (one.isoformat(timespec="seconds") for one in (first, last))
        asked = asked.where(CaseRow.received_at >= low, CaseRow.received_at <= high)
        if service_code:
            asked = asked.where(CaseRow.domain.in_(service_code.split(",")))
        if status in ("open", "closed"):
            is_closed = CaseRow.status == CLOSED
            asked = asked.where(is_closed if status == "closed" else ~is_closed)
    size = min(max(page_size, 1), MOST_ROWS)
    at = min(max(page - 1, 0), 10**6) * size
    with caller.desk.database.reading() as session:
        rows = session.scalars(asked.offset(at).limit(size))
        content = [_describe(caller, row) for row in rows]
    return answer(kind, "service_requests", "request", content)


@ROOM.raw(BASE + "/requests/{service_request_id}.{kind}", "public.read", methods=["GET"])
def read_request(caller: Caller, service_request_id: str, kind: Kind) -> Response:
    """One complaint."""
    content = [_find(caller, service_request_id)]
    return answer(kind, "service_requests", "request", content)


def _find(caller: Caller, number: str) -> dict[str, Any]:
    with caller.desk.database.reading() as session:
        row = session.scalars(select(CaseRow).where(CaseRow.complaint_id == number)).first()
        if row is None:
            raise NothingThereError(f"There is no service_request_id {number[:60]!r}.")
        return _describe(caller, row)


def _describe(caller: Caller, row: CaseRow) -> dict[str, Any]:
    """A case as the specification has it; the position is the tract's, never the person's."""
    place = caller.desk.places.get(row.tract)
    is_closed = row.status == CLOSED
    return {
        "service_request_id": row.complaint_id,
        "status": "closed" if is_closed else "open",
        "status_notes": ENDED.get(row.disposition, "") if is_closed else "",
        "service_name": caller.desk.office(row.domain).title,
        "service_code": row.domain,
        "description": row.category,
        "agency_responsible": "",
        "service_notice": "",
        "requested_datetime": zoned(row.received_at),
        "updated_datetime": zoned(row.closed_at or row.received_at),
        "expected_datetime": zoned(row.due_at),
        "address": "",
        "address_id": row.building_id,
        "zipcode": "",
        "lat": place.latitude if place else None,
        "long": place.longitude if place else None,
        "media_url": "",
    }


def _moment(text: str, otherwise: datetime) -> datetime:
    """A date and time of the specification in the city's own time."""
    if not text:
        return otherwise
    try:
        return city_time(text)
    except (ValueError, OverflowError):
        raise DeskRefusal(f"{text[:40]!r} was given; write 2025-07-01T00:00:00Z.") from None


@ROOM.page("/keys", "keys.html", "keys.manage")
def show_keys(caller: Caller) -> dict[str, Any]:
    """Keys of other systems."""
    with caller.desk.database.reading() as session:
        return {"title": "Keys", "keys": keys.list_keys(session), "made": ""}


@ROOM.raw("/keys", "keys.manage", methods=["POST"])
def make_key(caller: Caller, name: Annotated[str, Form(min_length=1, max_length=60)]) -> Response:
    """Make a key; it is shown now and never again."""
    with caller.desk.database.writing() as session:
        made = keys.make_key(session, name, caller.actor.name)
    if wants_json(caller.request):
        return json_response({"name": name, "key": made})
    with caller.desk.database.reading() as session:
        content = {"title": "Keys", "keys": keys.list_keys(session), "made": made}
    return HTMLResponse(render(caller, "keys.html", content))


@ROOM.act("/keys/end", "keys.manage")
def end_key(caller: Caller, name: Annotated[str, Form(max_length=60)]) -> Went:
    """End the keys of a system."""
    with caller.desk.database.writing() as session:
        keys.end_key(session, name)
    return Went("/keys", "account")
