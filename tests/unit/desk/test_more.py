"""Blind cases, duplicates, survey, choices, partners, scoring, export: as users meet them."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.unit.desk.conftest import open_small
from tests.unit.desk.staff import START, SmallDesk, cases_of

from parity311.desk.exporting import export_desk
from parity311.desk.figures import read_anchoring
from parity311.desk.partners import SIGNATURE, tell_partners
from parity311.desk.sources import ask_sources
from parity311.errors import RecordsError
from parity311.feeds.desk_export import import_desk_export
from parity311.lifecycle.database import Database
from parity311.lifecycle.watch import read_survey
from parity311.pipelines.overrides import read_overrides
from parity311.records.store import open_records

JSON = {"Accept": "application/json"}


def test_a_blind_case_shows_nothing_before_it_is_decided(small: SmallDesk) -> None:
    small.desk.blind_share = 1.0
    small.play(6)
    clerk = small.browser("intake")
    lines = [one for one in cases_of(clerk) if one["is_blind"]]
    assert lines
    assert {one["action"] for one in lines} == {""}
    assert not any(one["escalates"] or one["reasons"] for one in lines)
    name = lines[0]["complaint_id"]
    told = clerk.get(f"/case/{name}.json").json()["case"]
    assert (told["action"], told["features"], told["margin"]) == ("", {}, None)
    page = clerk.get(f"/case/{name}").text
    assert "Recommended:" not in page
    assert clerk.post(f"/case/{name}/accept", headers=JSON).status_code == 400
    assert clerk.post("/queue/accept", data={"complaint_id": [name]}).status_code == 400
    assert clerk.post(f"/case/{name}/decide", data={"action": "shout"}).status_code == 400
    action = small.desk.office("heat").actions[0]
    assert clerk.post(f"/case/{name}/decide", data={"action": action}).status_code == 200
    assert small.log[-1].details["was_blind"] is True
    assert "Recommended:" in clerk.get(f"/case/{name}").text
    with small.desk.database.reading() as session:
        shown, hidden = read_anchoring(session)
    assert (shown["decisions"], hidden["decisions"]) == (0, 1)
    small.desk.blind_share = 0.0
    small.play(11)
    other = next(one for one in cases_of(clerk) if not one["is_blind"])["complaint_id"]
    assert clerk.post(f"/case/{other}/decide", data={"action": action}).status_code == 400
    assert small.problems == []


def test_a_duplicate_joins_another_and_comes_back(small: SmallDesk) -> None:
    clerk = small.browser("intake")
    first, second = (one["complaint_id"] for one in cases_of(clerk)[:2])
    for wrong, status in ((first, 400), ("nobody", 404)):
        refused = clerk.post(f"/case/{first}/merge", data={"into": wrong}, headers=JSON)
        assert refused.status_code == status
    assert clerk.post(f"/case/{first}/merge", data={"into": second}).status_code == 200
    told = clerk.get(f"/case/{first}.json").json()["case"]
    assert (told["status"], told["duplicate_of"]) == ("closed", second)
    assert clerk.get(f"/case/{second}.json").json()["case"]["n_reports"] == 2
    assert small.problems == []
    assert clerk.post(f"/case/{first}/undo").status_code == 200
    assert clerk.get(f"/case/{second}.json").json()["case"]["n_reports"] == 1
    assert small.problems == []


def test_staff_answer_once_a_week_and_the_watch_reads_it(small: SmallDesk, tmp_path: Path) -> None:
    clerk = small.browser("intake")
    given = {"domain": "heat", "score": "3", "words": "Too many repeats."}
    assert clerk.post("/survey", data=given).status_code == 200
    assert clerk.post("/survey", data=given).status_code == 409
    assert small.browser("supervisor").post("/survey", data=given | {"score": "1"}).is_success
    for wrong in ({"score": "9"}, {"domain": "police"}):
        assert clerk.post("/survey", data=given | wrong).status_code in (400, 404)
    # Fewer than five answers have no mean that could be laid at somebody's door.
    assert "too few to tell" in small.browser("supervisor").get("/office").text
    export_desk(small.desk.database, tmp_path / "desk.zip")
    with zipfile.ZipFile(tmp_path / "desk.zip") as file:
        (tmp_path / "survey.csv").write_bytes(file.read("survey.csv"))
    assert [score for _, score in read_survey(tmp_path / "survey.csv")] == [0.75, 0.25]


def frontier_run(folder: Path) -> Path:
    """A run with a frontier of three points, as `parity311 frontier` writes it."""
    from parity311.report.store import start_run
    from parity311.storage.strict_json import write_json

    def share(value: float) -> dict[str, float]:
        return {"value": value, "lower": value - 0.01, "upper": value + 0.01}

    points = [
        {"place": place, "is_best": True, "is_knee": place == 1, "gap": share(0.02 + place / 50),
         "recall": share(0.5 + place / 20), "visits": share(0.3),
         "preference": {"speed": 0.5, "minus_cost": 0.2, "equity": 0.2, "retention": 0.1}}
        for place in range(3)
    ]  # fmt: skip
    with start_run(folder, "frontier", {"domain": "heat"}) as run:
        found = {"domain": "heat", "setting": "a test", "test_from": "2024-01-01", "seeds": 5,
                 "points": points, "rules": []}  # fmt: skip
        write_json(run.path / "frontier.json", found)
        run.add_metrics({"frontier": found})
        (run.path / "frontier.html").write_text("<html lang=en><title>x</title>a frontier</html>")
    return folder


def test_a_group_chooses_an_outcome(small: SmallDesk, tmp_path: Path) -> None:
    assert "No frontier was measured" in small.browser().get("/choices").text
    small.desk.runs = frontier_run(tmp_path / "runs")
    visitor, auditor = small.browser(), small.browser("auditor")
    (menu,) = visitor.get("/choices.json").json()["menus"]
    assert [one["name"] for one in menu["points"]] == ["0", "1", "2"]
    # Gaps of 2, 4 and 6 points, each with one to both sides, by a limit of 5.
    assert [one["verdict"] for one in menu["points"]] == ["within", "within", "open"]
    given = {"run": menu["run"], "point": "1", "who": "Community Board 3",
             "reason": "The gap matters more to us than two points of finds."}  # fmt: skip
    assert visitor.post("/choices", data=given, headers=JSON).status_code == 401
    assert auditor.post("/choices", data=given | {"point": "9"}).status_code == 404
    assert auditor.post("/choices", data=given).status_code == 200
    assert "Community Board 3" in visitor.get("/").text
    told = visitor.get("/choices").text
    assert "would pass an audit; found 55.0" in told
    assert "Paid for speed 0.50" in told
    assert small.log[-1].details["outcome"]["gap"]["value"] == pytest.approx(0.04)
    assert small.problems == []
    page = auditor.get(f"/audit/runs/{menu['run']}/frontier")
    assert "a frontier" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert auditor.get(f"/audit/runs/{menu['run']}/secret").status_code == 404
    assert auditor.get("/audit/runs/..%2f..%2fetc/audit").status_code == 404


@contextmanager
def other_system(answer: Any) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """Another system at a real address: what it was sent, and what it answers."""
    got: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = answer(len(got))
            if status == 200:
                got.append((dict(self.headers), body))
            self.send_response(status)
            self.end_headers()

        def do_GET(self) -> None:
            body = answer(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/in", got
        server.shutdown()
        thread.join(timeout=10)


def test_every_decision_is_told_once_and_signed(small: SmallDesk) -> None:
    small.desk.own_machine = True
    clerk, boss = small.browser("intake"), small.browser("administrator")
    names = [one["complaint_id"] for one in cases_of(clerk)[:3]]
    clerk.post(f"/case/{names[0]}/accept")  # before anybody was to be told
    down = [False]
    with other_system(lambda _: 503 if down[0] else 200) as (address, got):
        wrong = boss.post("/partners/hooks", data={"name": "crm", "address": "file:///etc/passwd"})
        assert wrong.status_code == 400
        made = boss.post("/partners/hooks", data={"name": "crm", "address": address}, headers=JSON)
        secret = made.json()["secret"]
        clerk.post(f"/case/{names[1]}/accept")
        assert tell_partners(small.desk) == 1
        down[0] = True
        clerk.post(f"/case/{names[2]}/accept")
        assert tell_partners(small.desk) == 0
        assert "it answered 503" in boss.get("/partners").text
        down[0] = False
        small.desk.more["partners"].clear()  # the wait is over
        assert tell_partners(small.desk) == 1
        assert tell_partners(small.desk) == 0
    assert [json.loads(body)["complaint_id"] for _, body in got] == names[1:]
    for headers, body in got:
        signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        assert headers[SIGNATURE] == f"sha256={signed}"
        assert "intake" not in json.dumps({**json.loads(body), "role": ""})
    assert boss.post("/partners/hooks/end", data={"name": "crm"}).status_code == 200


@pytest.mark.parametrize("kind", ["georeport", "socrata"])
def test_another_system_is_asked_for_complaints(small: SmallDesk, kind: str) -> None:
    small.desk.own_machine = True
    place = next(iter(small.desk.places.values()))
    at = (START - timedelta(hours=2)).isoformat()
    plain = [(1, "Heat", place.latitude, "open"), (2, "Heat", place.latitude, "closed"),
             (3, "Noise", place.latitude, "open"), (4, "Heat", 48.8, "open")]  # fmt: skip
    names = {
        "georeport": ("service_request_id", "requested_datetime", "service_code", "lat", "long"),
        "socrata": ("unique_key", "created_date", "complaint_type", "latitude", "longitude"),
    }[kind]
    rows = [
        dict(zip(names, (number, at, code, lat, place.longitude), strict=True)) | {"status": status}
        for number, code, lat, status in plain
    ]
    body = [json.dumps(rows).encode()]
    boss, clerk = small.browser("administrator"), small.browser("intake")
    before = len(cases_of(clerk))
    with other_system(lambda _: body[0]) as (address, _):
        given = {"name": "next-door", "kind": kind, "address": address, "codes": "Heat = heat"}
        assert boss.post("/partners/sources", data=given | {"codes": "x"}).status_code == 400
        assert boss.post("/partners/sources", data=given).status_code == 200
        assert ask_sources(small.desk) == 2
        assert ask_sources(small.desk) == 0  # not yet time
        small.desk.more["partners"].clear()
        assert ask_sources(small.desk) == 0  # the same rows again
        page = boss.get("/partners").text
        assert "2 left out" not in page
        assert "&#39;Noise&#39; is not among those" in page
        assert "outside of the city" in page
        small.desk.more["partners"].clear()
        body[0] = b"<html>maintenance</html>"
        assert ask_sources(small.desk) == 0
        assert "cannot be read" in boss.get("/partners").text
    assert len(cases_of(clerk)) == before + 1
    closed = [one["complaint_id"] for one in cases_of(clerk, status="closed")]
    assert closed == ["next-door-2"]


def test_complaints_are_scored_without_being_taken_in(small: SmallDesk) -> None:
    key = small.browser("administrator").post("/keys", data={"name": "batch"}, headers=JSON).json()
    other = small.browser()
    tract = next(iter(small.desk.offices["heat"].past.areas))
    one = {"category": "HEAT", "severity": "B", "tract": tract}
    asked = {"domain": "heat",
             "complaints": [{**one, "complaint_id": f"x-{n}"} for n in range(30)]}  # fmt: skip
    assert other.post("/score", json=asked, headers=JSON).status_code == 403
    headers = {"Authorization": f"Bearer {key['key']}", **JSON}
    told = other.post("/score", json=asked, headers=headers).json()
    assert [line["complaint_id"] for line in told["scored"]] == [f"x-{n}" for n in range(30)]
    assert all(line["action"] for line in told["scored"])
    for wrong in ({"complaints": []}, {"domain": "police"}, {"complaints": [{"severity": "B"}]},
                  {"complaints": [one] * 1001}):  # fmt: skip
        answer = other.post("/score", json=asked | wrong, headers=headers)
        assert answer.status_code in (400, 404), wrong
        assert "Traceback" not in answer.text
    # A program that sends JSON is answered in JSON, also what it does not take.
    broken = other.post("/score", content="{bad", headers={"Content-Type": "application/json"})
    assert broken.status_code == 400
    assert broken.json()["error"]["message"].startswith("The body is no JSON: ")
    with small.desk.database.reading() as session:
        assert not session.scalar(
            sa.text("SELECT count(*) FROM desk_cases WHERE complaint_id LIKE 'x-%'")
        )


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    found = open_records(folder).table(name, "heat").to_pylist()
    return sorted(found, key=lambda row: str(row.get("visit_id") or row["complaint_id"]))


def test_what_is_exported_are_the_records_as_they_stand(
    desk_records: Path, desk_files: Path, tmp_path: Path
) -> None:
    """Replayed to the end of the records and exported, every row is the city's own."""
    last = open_records(desk_records).window[1]
    start = START.replace(year=last.year, month=last.month, day=last.day) - timedelta(days=20)
    small = open_small(desk_records, desk_files, str(tmp_path / "a.db"), start)
    clerk = small.browser("intake")
    small.play(3)
    for line in cases_of(clerk)[:4]:
        clerk.post(f"/case/{line['complaint_id']}/accept")
    clerk.post(f"/case/{cases_of(clerk)[0]['complaint_id']}/accept")
    clerk.post(f"/case/{cases_of(clerk)[0]['complaint_id']}/undo")
    small.play(20)
    export = tmp_path / "desk.zip"
    answer = small.browser("administrator").get("/export")
    export.write_bytes(answer.content)
    manifest = import_desk_export(desk_records, export, tmp_path / "after")
    assert manifest["date_to"] == str(last)
    for name in ("complaints", "visits", "outcomes"):
        assert rows_of(tmp_path / "after", name) == rows_of(desk_records, name), name
    with zipfile.ZipFile(export) as file:
        (tmp_path / "decisions.csv").write_bytes(file.read("decisions.csv"))
    read = read_overrides(tmp_path / "decisions.csv")
    assert 4 <= len(read) <= 5
    assert all(one.date for one in read)
    lines = list(csv.DictReader(io.StringIO((tmp_path / "decisions.csv").read_text())))
    assert {one["role"] for one in lines} == {"intake"}
    # A byte that changed is noticed.
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(export) as file, zipfile.ZipFile(broken, "w") as out:
        for name in file.namelist():
            data = file.read(name)
            out.writestr(
                name, data.replace(b"violation", b"violatjon") if "visits" in name else data
            )
    with pytest.raises(RecordsError, match="was changed"):
        import_desk_export(desk_records, broken, tmp_path / "other")


def test_a_desk_of_the_previous_layout_is_brought_up_to_date(
    small: SmallDesk, tmp_path: Path
) -> None:
    """Taken back to the layout before by hand, opened again: log, cases and visits are whole."""
    clerk = small.browser("intake")
    small.play(20)
    for line in cases_of(clerk, status="open")[:2]:
        clerk.post(f"/case/{line['complaint_id']}/accept")
    n_log = len(small.log)
    path = str(small.desk.database.url.database)
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        for index in ("desk_cases_in_order", "desk_cases_by_closing", "desk_acts_of_a_case"):
            connection.execute(sa.text(f"DROP INDEX {index}"))
        for table in ("acts", "closings", "survey", "choices", "hooks", "sources"):
            connection.execute(sa.text(f"DROP TABLE desk_{table}"))
        connection.execute(sa.text("ALTER TABLE desk_cases DROP COLUMN is_blind"))
        connection.execute(sa.text("ALTER TABLE desk_visits DROP COLUMN complaint_id"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0005'"))
    engine.dispose()
    with pytest.raises(Exception, match="has layout 0005"):
        Database(path)
    again = Database(path, makes=True)
    with again.reading() as session:
        acts = session.scalar(sa.text("SELECT count(*) FROM desk_acts"))
        visits = session.scalar(sa.text("SELECT count(*) FROM desk_visits WHERE complaint_id = ''"))
        closed = session.scalar(sa.text("SELECT count(*) FROM desk_closings"))
    assert acts == n_log
    assert visits == 0
    assert closed
    assert small.problems == []
    assert clerk.get("/queue").status_code == 200
