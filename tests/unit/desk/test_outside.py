"""What reaches out and what comes back: other systems' pages, addresses not asked, logs."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.desk.staff import START, SmallDesk, cases_of
from tests.unit.desk.test_more import JSON, other_system

from parity311.desk import intake
from parity311.desk.app import make_app
from parity311.desk.keeper import Keeper
from parity311.desk.outside import is_refused
from parity311.desk.sources import ask_sources
from parity311.desk.tables import CLOSED
from parity311.desk.telling import ServerNotes, make_teller


@pytest.mark.parametrize(
    ("address", "is_inside"),
    [
        ("127.0.0.1", True), ("::1", True), ("169.254.169.254", True), ("fe80::1%eth0", True),
        ("::ffff:169.254.169.254", True), ("::ffff:127.0.0.1", True), ("0.0.0.0", True),
        ("10.1.2.3", False), ("192.168.0.7", False), ("93.184.215.14", False), ("2606::1", False),
    ],
)  # fmt: skip
def test_what_only_this_machine_reaches_is_not_asked(address: str, is_inside: bool) -> None:
    assert is_refused(address, loopback=False) == is_inside
    if "127" in address or address == "::1":
        assert not is_refused(address, loopback=True)


def test_an_administrator_does_not_reach_this_machine(small: SmallDesk) -> None:
    """By the address it arrives at, whatever the name says; and no password stands on a page."""
    boss = small.browser("administrator")
    place = {"name": "inner", "kind": "georeport", "codes": "Heat = heat"}
    with other_system(lambda _: b"[]") as (address, _):
        named = address.replace("127.0.0.1", "localhost")
        for number, one in enumerate((address, named)):
            given = place | {"name": f"inner{number}", "address": one}
            assert boss.post("/partners/sources", data=given).status_code == 200
        assert ask_sources(small.desk) == 0
        assert boss.get("/partners").text.count("own addresses are not asked") == 2
    for wrong in ("https://me:secret@host/", "http://[::1", "http://host:99999", "ftp://host"):
        answer = boss.post("/partners/sources", data=place | {"address": wrong}, headers=JSON)
        assert answer.status_code == 400, wrong


def rows_of(small: SmallDesk, numbers: range, code: str = "Heat") -> list[dict[str, Any]]:
    """A server's complaints, a minute apart."""
    place = next(iter(small.desk.places.values()))
    return [
        {"service_request_id": number, "service_code": code, "status": "open",
         "requested_datetime": (START - timedelta(hours=9) + timedelta(minutes=number)).isoformat(),
         "lat": place.latitude, "long": place.longitude}
        for number in numbers
    ]  # fmt: skip


def test_all_pages_are_read_and_ends_are_followed(small: SmallDesk) -> None:
    """Pages of forty, newest first; what nobody asked for does not hold the rest up."""
    small.desk.own_machine = True
    rows = rows_of(small, range(100)) + rows_of(small, range(100, 130), "Noise")
    asked: list[dict[str, list[str]]] = []

    def answer(path: str) -> bytes:
        query = parse_qs(urlsplit(path).query)
        asked.append(query)
        if "service_request_id" in query:
            wanted = set(query["service_request_id"][0].split(","))
            return json.dumps(
                [one for one in rows if str(one["service_request_id"]) in wanted]
            ).encode()
        page = int(query.get("page", ["1"])[0])
        return json.dumps(rows[::-1][40 * (page - 1) : 40 * page]).encode()

    with other_system(answer) as (address, _):
        given = {"name": "city", "kind": "georeport", "address": address, "codes": "Heat = heat"}
        boss = small.browser("administrator")
        assert boss.post("/partners/sources", data=given).status_code == 200
        assert ask_sources(small.desk) == 100
        assert {one["service_code"][0] for one in asked if "start_date" in one} == {"Heat"}
        assert "30 left out" in boss.get("/partners").text
        # Days later one has ended, and what was read to then is no longer asked for.
        rows[3] |= {"status": "closed", "updated_datetime": (START + timedelta(days=1)).isoformat()}
        small.desk.clock.set(START + timedelta(days=2))
        small.desk.more["partners"].clear()
        del asked[:]
        assert ask_sources(small.desk) == 0
        (first,) = {one["start_date"][0] for one in asked if "start_date" in one}
        assert first > (START - timedelta(days=1)).isoformat()
    ended = cases_of(small.browser("intake"), status=CLOSED)
    assert [one["complaint_id"] for one in ended] == ["city-3"]


def test_what_another_system_makes_up_stops_nothing(small: SmallDesk) -> None:
    """Rows of every wrong shape beside a right one; the right one is taken."""
    small.desk.own_machine = True
    (good,) = rows_of(small, range(1))
    wrong = [
        None, 7, "row", [], {}, good | {"requested_datetime": "yesterday"},
        good | {"service_request_id": None}, good | {"lat": "north"}, good | {"lat": None},
        good | {"service_request_id": 5, "status": "closed", "updated_datetime": "soon"},
        good | {"service_request_id": 6, "requested_datetime": "0001-01-01T00:00:00+14:00"},
    ]  # fmt: skip
    with other_system(lambda _: json.dumps([*wrong, good]).encode()) as (address, _):
        given = {"name": "odd", "kind": "georeport", "address": address, "codes": "Heat = heat"}
        small.browser("administrator").post("/partners/sources", data=given)
        assert ask_sources(small.desk) == 1
    assert "odd-0" in {one["complaint_id"] for one in cases_of(small.browser("intake"))}


def test_the_keeper_goes_on_and_says_what_failed() -> None:
    out, done = io.StringIO(), []

    def broken() -> None:
        raise AttributeError("Ana Rivera, 555-0100")

    keeper = Keeper("x", {"broken": broken, "good": lambda: done.append(1)}, make_teller(out))
    keeper.look_round()
    keeper.look_round()
    assert len(done) == 2
    assert keeper.problems == {"broken": "AttributeError"}
    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["work"] == "broken"
    assert "Rivera" not in line


def test_a_failure_is_logged_without_what_anybody_wrote(
    small: SmallDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that quotes a resident, deep in the intake: its kind and places are told alone."""
    out = io.StringIO()
    small.__dict__["app"] = make_app(small.desk, teller=make_teller(out))
    key = small.browser("administrator").post("/keys", data={"name": "a"}, headers=JSON).json()

    def fail(one: Any, _: int) -> None:
        raise RuntimeError(f"cannot store {one}")

    monkeypatch.setattr(intake, "_make_report", fail)
    given = {"api_key": key["key"], "service_code": "heat", "lat": "40.8", "long": "-73.9",
             "first_name": "Rivera", "description": "the neighbour's stove"}  # fmt: skip
    answer = small.browser().post("/open311/v2/requests.json", data=given)
    assert answer.status_code == 500
    text = out.getvalue() + answer.text
    for secret in ("Rivera", "stove", key["key"], "cannot store"):
        assert secret not in text
    failed = next(json.loads(one) for one in text.splitlines() if '"failed"' in one)
    assert failed["kinds"][0] == "RuntimeError"
    assert any("intake.py" in one for one in failed["places"])


def test_the_servers_own_words_carry_no_values() -> None:
    import logging

    out = io.StringIO()
    notes = ServerNotes(make_teller(out))
    record = logging.LogRecord(
        "uvicorn.error", logging.ERROR, "x", 1, "Exception in %s\n", ("Rivera",), None
    )
    notes.handle(record)
    assert json.loads(out.getvalue())["note"] == "Exception in %s"
