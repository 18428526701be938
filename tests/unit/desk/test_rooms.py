"""Supervisor, auditor, resident, operator: what each sees, and what is not shown to anybody."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import textstat
from sqlalchemy import event
from tests.postgres import Server
from tests.served import PRICES, save_package
from tests.unit.desk.conftest import open_small
from tests.unit.desk.staff import START, SmallDesk, cases_of
from tests.unit.lifecycle.offices import WHO, audit_row, write_audit

from parity311.desk import uploads
from parity311.desk.app import make_app
from parity311.desk.explaining import ENDED, MOST_WORDS, SENTENCES, explain_case
from parity311.desk.figures import _cell, read_service
from parity311.desk.intake import NewComplaint, take_in
from parity311.desk.languages import direction
from parity311.desk.rooms.public import NOT_FOUND
from parity311.desk.tables import CaseRow
from parity311.desk.telling import make_teller
from parity311.explain.phrases import PHRASES, parse_catalogue
from parity311.pipelines.audit_table import template_text

DEMOGRAPHIC = re.compile(
    r"\b(race|racial|black|white|hispanic|asian|income|poor|rich|quintile|immigra\w*|renter)\b",
    re.I,
)


def release(small: SmallDesk, folder: Path) -> str:
    """A policy of heat in office."""
    package = save_package(folder / "dual", "heat", "dual_threshold", prices=PRICES)
    audit = write_audit(folder / "audit.json", audit_row("PASS", "dual_threshold"))
    version = small.desk.registry.propose(package, audit, **WHO)
    small.desk.registry.act("release", version, **WHO)
    small.desk.office("heat").forget()
    return version


def test_a_supervisor_suspends_and_the_desk_says_so(small: SmallDesk, tmp_path: Path) -> None:
    version = release(small, tmp_path)
    boss, clerk = small.browser("supervisor"), small.browser("intake")
    office = boss.get("/office.json").json()
    assert office["policies"][0]["version"] == version
    assert office["policies"][0]["prices"][0]["price"] == PRICES[0]
    assert "no policy is in office there" not in clerk.get("/queue").text
    assert version in clerk.get("/").text
    assert (
        boss.post("/office/heat/act", data={"action": "suspend", "reason": " "}).status_code == 400
    )
    done = boss.post("/office/heat/act", data={"action": "suspend", "reason": "gap widens"})
    assert done.status_code == 200
    assert "no policy is in office there" in clerk.get("/queue").text
    assert small.desk.registry.deciding("heat") is None
    again = boss.post("/office/heat/act", data={"action": "suspend", "reason": "again"})
    assert again.status_code == 409
    assert (
        boss.post("/office/heat/act", data={"action": "resume", "reason": "ok"}).status_code == 200
    )
    assert small.desk.registry.deciding("heat") == version
    assert small.problems == []


def test_new_cases_follow_the_policy_in_office(small: SmallDesk, tmp_path: Path) -> None:
    version = release(small, tmp_path)
    small.play(6)
    with small.desk.database.reading() as session:
        rows = session.query(CaseRow).where(CaseRow.source == "replay").all()
        found = [(row.version, row.arm, row.propensity) for row in rows]
    assert found
    assert {one[0] for one in found} == {version}
    assert {(arm, round(chance, 2)) for _, arm, chance in found} <= {
        ("policy", 0.9),
        ("today", 0.1),
    }


def test_a_resident_gets_an_answer(small: SmallDesk) -> None:
    office = small.desk.office("heat")
    one = NewComplaint(
        "mine-1", "heat", "HEAT", "B", START, "36005000001", flags={"is_no_heat": True},
        person={"name": "J. Rivera", "email": "j@example.org", "phone": "", "words": "It is cold"},
    )  # fmt: skip
    with small.desk.database.writing() as session:
        (taken,) = take_in(session, office, [one], START)
    visitor = small.browser()
    asked = {"tracking": "mine-1", "code": taken.check_code.lower()}
    page = visitor.post("/status", data=asked)
    assert page.status_code == 200
    assert "You told us about heat on March 1, 2024." in page.text
    assert "Rivera" not in page.text
    for wrong in ({"tracking": "mine-1", "code": "AAAAAAAA"}, {"tracking": "x", "code": "y"}):
        assert visitor.post("/status", data=wrong).status_code == 404
    # Codes cannot be tried out.
    answers = [
        visitor.post("/status", data=asked | {"code": str(n)}).status_code for n in range(12)
    ]
    assert 429 in answers
    clerk = small.browser("intake")
    clerk.post("/case/mine-1/accept")
    told = json.dumps([entry.payload for entry in small.log])
    assert "mine-1" in told
    assert not re.search("Rivera|example.org|cold", told)


def every_explanation() -> list[list[str]]:
    """All that can be said: how a case stands, who decided, every pair of reasons."""
    words = sorted({text for one in PHRASES.values() for text in (one.high, one.low)}, key=len)
    found = []
    for place in range(0, len(words), 2):
        for status, ended, decided in (
            ("open", "", ""), ("decided", "", "clerk"), *(("closed", one, "clerk") for one in ENDED)
        ):  # fmt: skip
            row = CaseRow(
                complaint_id="x", domain="complaint_triage", severity="D", n_reports=12,
                received_at="2025-11-30T10:00:00", due_at="2026-02-28T10:00:00", status=status,
                disposition=ended, decided_by=decided, chosen="inspect_now", action="defer",
                reasons=json.dumps(words[place : place + 2]),
            )  # fmt: skip
            found.append(explain_case(row))
    return found


def problems_of(paragraphs: list[str]) -> list[str]:
    """What an explanation must not be."""
    text = " ".join(paragraphs)
    found = []
    if len(text.split()) > MOST_WORDS:
        found.append(f"{len(text.split())} words")
    # By letters and sentences: formulas by syllables need a dictionary that is downloaded.
    grade = textstat.automated_readability_index(text)
    if grade > 8:
        found.append(f"grade {grade:.1f}")
    if DEMOGRAPHIC.search(text):
        found.append("names a demographic")
    return found


def test_an_explanation_is_short_plain_and_about_the_case() -> None:
    given = every_explanation()
    assert len(given) > 100
    assert {one: problems_of(one_given) for one, one_given in enumerate(given)
            if problems_of(one_given)} == {}  # fmt: skip
    bad = ["Notwithstanding administrative considerations, prioritisation of low-income localities"]
    assert set(problems_of(bad * 20)) >= {"names a demographic", "180 words"} or problems_of(
        bad * 20
    )
    assert problems_of(["Residents of this area are mostly black."]) == ["names a demographic"]


def texts_for_residents() -> set[str]:
    """All that a resident can read on the page of their complaint."""
    template = resources.files("parity311.desk").joinpath("templates/status.html").read_text()
    shown = set(re.findall(r'say\("([^"]+)"\)', template))
    return {*ENDED.values(), *SENTENCES.values(), NOT_FOUND, *shown}


@pytest.mark.parametrize("language", ["es", "zh"])
def test_every_text_for_residents_is_translated(language: str, small: SmallDesk) -> None:
    own = resources.files("parity311.desk").joinpath(f"locale/{language}.po").read_text("utf-8")
    entries = parse_catalogue(own)
    texts = texts_for_residents()
    assert len(texts) > 30
    assert sorted(texts - entries.keys()) == []
    places = re.compile(r"{\w+}")
    assert [one for one, other in entries.items()
            if sorted(places.findall(one)) != sorted(places.findall(other))] == []  # fmt: skip
    # Nobody reviewed it, which the catalogue and the page say.
    assert own.count("#, fuzzy") == len(entries)
    page = small.browser().get("/status", headers={"Accept-Language": f"{language}-US,en;q=0.5"})
    assert f'<html lang="{language}" dir="ltr">' in page.text
    assert "machine" not in page.text
    assert entries["This translation was made by a machine and nobody has reviewed it; the "
                   "English text counts."] in page.text  # fmt: skip
    assert '<html lang="en"' in small.browser().get("/status?language=en").text
    # Whoever comes to the public page finds the way in their own language.
    front = small.browser().get("/").text
    assert f'lang="{language}">{entries["What became of my complaint"]}</a>' in front.replace(
        f' hreflang="{language}"', ""
    )
    assert direction("ar") == "rtl"


def test_small_cells_are_not_told(small: SmallDesk) -> None:
    few = _cell("2025-01", "heat", 0, 9, 4)
    assert few["cases"] is None
    assert few["share"] is None
    # Nine of a hundred that were not seen would be told by the share.
    assert _cell("2025-01", "heat", 0, 100, 91)["share"] is None
    assert _cell("2025-01", "heat", 0, 100, 90)["share"] == pytest.approx(0.9)
    assert _cell("2025-01", "heat", 0, 100, 100)["share"] == 1.0
    # The small desk's own cells are all too small, and the public page says nothing of them.
    desk = small.desk
    with desk.database.reading() as session:
        found = read_service(session, desk.offices.values(), desk.clock.now())
    assert found
    assert all(one["cases"] is None or one["cases"] >= 10 for one in found)
    assert "fewer than 10" in small.browser().get("/").text


def test_an_auditor_uploads_a_table(small: SmallDesk) -> None:
    auditor = small.browser("auditor")
    page = auditor.get("/audit")
    assert "Every entry follows on the one before it" in page.text
    table = ("mine.csv", io.BytesIO(template_text().encode()), "text/csv")
    made = auditor.post("/audit/table", files={"table": table}, data={})
    assert made.status_code == 200, made.text
    assert "<html" in made.text
    assert made.url.path.startswith("/audit/made/")
    assert auditor.get("/audit/made/nothing").status_code == 404
    for name, content in (("x.csv", b"\xff\xfe nonsense"), ("x.exe", b"MZ"), ("x.csv", b"")):
        wrong = auditor.post(
            "/audit/table", files={"table": (name, io.BytesIO(content))},
            headers={"Accept": "application/json"},
        )  # fmt: skip
        assert wrong.status_code == 400, (name, wrong.text)
        assert "Traceback" not in wrong.text


def test_operators_see_figures_and_no_person(small: SmallDesk) -> None:
    out = io.StringIO()
    small.__dict__["app"] = make_app(small.desk, teller=make_teller(out))
    clerk = small.browser("intake")
    name = cases_of(clerk)[0]["complaint_id"]
    clerk.post(f"/case/{name}/accept")
    assert clerk.get("/healthz").json() == {"status": "ok"}
    assert clerk.get("/readyz").json()["status"] == "ready"
    figures = clerk.get("/metrics").text
    assert 'parity311_cases{domain="heat",status="decided"} 1.0' in figures
    assert "parity311_decisions 1.0" in figures
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert any(one["route"] == "/case/{complaint_id}/accept" for one in lines)
    assert name not in out.getvalue()
    assert "intake" not in out.getvalue()


def swollen(kind: str) -> bytes:
    """A file of a few kilobytes that holds two megabytes of a table."""
    text = b"area,received_at,served\n" + b"x" * 2_000_000
    if kind == "gz":
        return gzip.compress(text)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.csv", text)
    body = out.getvalue()
    # A part that says it is small, in both places where its size stands.
    lying = len(text).to_bytes(4, "little"), (1000).to_bytes(4, "little")
    return body.replace(*lying) if kind == "lying" else body


@pytest.mark.parametrize("kind", ["gz", "zip", "lying"])
def test_a_file_that_swells_is_refused(
    small: SmallDesk, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    auditor, body = small.browser("auditor"), swollen(kind)
    assert len(body) < 20_000
    for limit, words in ((1_000_000, "MB" if kind != "lying" else "cannot be unpacked"),):
        monkeypatch.setattr(uploads, "MOST_UNPACKED", limit)
        for path, field in (("/records", "complaints"), ("/audit/table", "table")):
            called = "a.csv" if field == "table" else "a.zip"
            given = {field: (called, io.BytesIO(body))}
            refused = auditor.post(path, files=given, headers={"Accept": "application/json"})
            assert refused.status_code == 400, refused.text
            assert words in refused.json()["error"]["message"]
    assert uploads.list_uploads(small.desk.folder / "uploads") == []


def test_a_full_disk_loses_nothing_and_is_told(small: SmallDesk) -> None:
    """Decisions until the disk is full, then with room again: each told one is there, once."""
    clerk = small.browser("intake")
    names = [one["complaint_id"] for one in cases_of(clerk)]
    pages = [0]

    def limit(connection: Any, _: Any) -> None:
        if pages[0]:
            connection.execute(f"PRAGMA max_page_count = {pages[0]}")

    engine = small.desk.database._engine
    event.listen(engine, "connect", limit)
    pages[0] = 1  # no more than there are
    told, answer = 0, None
    for act in ["accept", "undo"] * 100:
        answer = clerk.post(f"/case/{names[0]}/{act}")
        if answer.status_code != 200:
            break
        told += 1
    assert answer is not None
    assert answer.status_code == 503, told
    assert "Traceback" not in answer.text
    assert len(small.log) == told
    assert small.problems == []
    pages[0] = 0
    assert clerk.post(f"/case/{names[1]}/accept").status_code == 200
    assert len(small.log) == told + 1
    assert small.problems == []


def test_a_server_that_goes_away_comes_back(
    desk_records: Path, desk_files: Path, tmp_path: Path, desk_server: Server
) -> None:
    """PostgreSQL stopped and started under kept connections: told meanwhile, then as before."""
    desk_server.do("CREATE DATABASE away")
    small = open_small(desk_records, desk_files, desk_server.address("away"))
    with small.desk.database.kept_open():
        clerk = small.browser("intake")
        first, second = (one["complaint_id"] for one in cases_of(clerk)[:2])
        assert clerk.post(f"/case/{first}/accept").status_code == 200
        desk_server.stop()
        try:
            for answer in (clerk.get("/queue"), clerk.post(f"/case/{second}/accept"),
                           clerk.get("/readyz")):  # fmt: skip
                assert answer.status_code == 503
                assert "Traceback" not in answer.text
        finally:
            desk_server.start()
        assert clerk.post(f"/case/{second}/accept").status_code == 200
        assert len(small.log) == 2
        assert small.problems == []


def test_a_database_that_goes_away_is_told(small: SmallDesk) -> None:
    clerk = small.browser("intake")
    name = cases_of(clerk)[0]["complaint_id"]
    path = Path(str(small.desk.database.url.database))
    away = path.with_suffix(".away")
    path.rename(away)
    for answer in (clerk.get("/queue"), clerk.post(f"/case/{name}/accept"), clerk.get("/readyz")):
        assert answer.status_code == 503
        assert "Traceback" not in answer.text
    away.rename(path)
    assert clerk.post(f"/case/{name}/accept").status_code == 200
    assert len(small.log) == 1
