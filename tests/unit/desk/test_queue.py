"""Staff at work: the queue, decisions that are taken once, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import BoundedSemaphore, Thread
from time import sleep
from typing import Any

import pytest
from sqlalchemy import select, text
from tests.served import PRICES, save_package
from tests.unit.desk.conftest import open_small
from tests.unit.desk.staff import HOST, START, SmallDesk, cases_of
from tests.unit.lifecycle.offices import WHO, audit_row, write_audit

from parity311.desk import accounts, cases, intake
from parity311.desk.intake import NewComplaint, take_in
from parity311.desk.offices import CameIn
from parity311.desk.replay import feed
from parity311.desk.rooms import entrance
from parity311.desk.tables import CaseRow
from parity311.errors import InputError, Parity311Error, RegistryError
from parity311.records.journal_reader import read_journal
from parity311.records.store import open_records


def test_a_day_is_worked_through(either: SmallDesk) -> None:
    """Backlog, new complaints, accept, override, undo, claim: on both databases, chain whole."""
    clerk, other = either.browser("intake"), either.browser("supervisor")
    before = cases_of(clerk)
    assert before
    assert either.play(5) > 0
    lines = cases_of(clerk)
    assert len(lines) > len(before)
    first, second, third = (one["complaint_id"] for one in lines[:3])
    assert clerk.post(f"/case/{first}/claim").status_code == 200
    refused = other.post(f"/case/{first}/accept", headers={"Accept": "application/json"})
    assert refused.status_code == 409
    assert "intake is working on case" in refused.json()["error"]["message"]
    assert clerk.post(f"/case/{first}/accept").status_code == 200
    # The same post again finds the case decided.
    assert clerk.post(f"/case/{first}/accept").status_code == 409
    chosen = next(one for one in either.desk.office("heat").actions if one != lines[1]["action"])
    otherwise = {"action": chosen, "reason": "other", "note": "Tenant called: boiler exploded"}
    assert clerk.post(f"/case/{second}/override", data=otherwise).status_code == 200
    assert other.post(f"/case/{third}/accept").status_code == 200
    assert clerk.post(f"/case/{third}/undo").status_code == 409  # not one's own
    assert other.post(f"/case/{third}/undo").status_code == 200
    assert [one.action for one in either.log] == ["accept", "override", "accept", "undo"]
    # What was written freely is not in the log, only its hash.
    assert "boiler exploded" not in "".join(one.payload for one in either.log)
    page = clerk.get(f"/case/{second}").text
    assert "boiler exploded" in page
    assert either.problems == []
    # Inspectors come as they came: the cases end, decided or not.
    either.play(20)
    assert cases_of(clerk, status="closed")
    assert either.problems == []


def test_a_recommendation_is_the_one_of_recommend_and_made_once(
    desk_records: Path, desk_files: Path, tmp_path: Path
) -> None:
    """What a clerk sees is what `recommend` says of the same cases at the same moment."""
    small = open_small(desk_records, desk_files, str(tmp_path / "a.db"))
    registry = small.desk.registry
    folder = save_package(tmp_path / "dual", "heat", "dual_threshold", prices=PRICES)
    audit = write_audit(tmp_path / "audit.json", audit_row("PASS", "dual_threshold"))
    version = registry.propose(folder, audit, **WHO)
    registry.act("release", version, **WHO)
    again = open_small(desk_records, desk_files, str(tmp_path / "b.db"))
    for action, subject in (("propose", ""), ("release", version)):
        if action == "propose":
            again.desk.registry.propose(folder, audit, **WHO)
        else:
            again.desk.registry.act(action, subject, **WHO)
    journal = read_journal(open_records(desk_records), "heat", START)
    expected = {
        row["complaint_id"]: row for row in registry.load(version).recommend(journal).rows()
    }
    office = again.desk.office("heat")
    office.forget()
    found = office.answer_all(office.standing(lambda *_: CameIn(), START))
    assert found.keys() == expected.keys()
    arms = [one["arm"] for one in found.values()]
    assert "policy" in arms
    for name, one in found.items():
        assert one["version"] == version
        if one["arm"] == "policy":
            assert (one["action"], one["margin"]) == (
                expected[name]["action"],
                expected[name]["margin"],
            )
            assert one["propensity"] == pytest.approx(0.9)


def test_today_decides_and_the_page_says_so(small: SmallDesk) -> None:
    clerk = small.browser("intake")
    assert "no policy is in office there" in clerk.get("/queue").text
    line = cases_of(clerk)[0]
    assert line["recommended_by"] == "today's rule"
    assert line["reasons"]
    case = clerk.get(f"/case/{line['complaint_id']}.json").json()["case"]
    assert case["version"] == ""
    assert case["features"]
    assert case["propensity"] == 1.0


def test_many_are_accepted_together_but_nobody_is_sent(small: SmallDesk) -> None:
    clerk = small.browser("intake")
    lines = cases_of(clerk)
    sent = [one["complaint_id"] for one in lines if one["escalates"]][:2]
    assert len(sent) == 2
    refused = clerk.post("/queue/accept", data={"complaint_id": sent})
    assert refused.status_code == 400
    assert "case by case" in refused.text
    with small.desk.database.writing() as session:
        for name in sent:
            cases.find_case(session, name).escalates = False
    assert clerk.post("/queue/accept", data={"complaint_id": sent}).status_code == 200
    assert len(small.log) == 2
    # All or none: one of them is decided by now.
    rest = [lines[2]["complaint_id"], sent[0]]
    assert clerk.post("/queue/accept", data={"complaint_id": rest}).status_code == 409
    assert len(small.log) == 2
    assert clerk.post("/queue/accept", data={}).status_code == 400


def test_a_complaint_that_comes_twice_is_taken_once(small: SmallDesk) -> None:
    office = small.desk.office("heat")
    one = NewComplaint(
        "new-1", "heat", "HEAT", "B", START, "36005000001", building_id="2000000001",
        incident_id="same", flags={"is_no_heat": True},
    )  # fmt: skip
    more = replace(one, complaint_id="new-2")
    with small.desk.database.writing() as session:
        first, again, second = take_in(session, office, [one, one, more], START)
    assert (first.is_new, again.is_new, second.is_new) == (True, False, False)
    assert len(first.check_code) == 8
    assert second.tracking == "new-1"
    with small.desk.database.reading() as session:
        case = cases.find_case(session, "new-1")
        assert case.n_reports == 2
        assert json.loads(case.features)
    with small.desk.database.writing() as session, pytest.raises(InputError, match="tract"):
        take_in(session, office, [replace(one, complaint_id="x", tract="1")], START)


def file_at_once(
    small: SmallDesk, names: list[str], monkeypatch: pytest.MonkeyPatch, refused: str = ""
) -> tuple[list[int], dict[str, Any]]:
    """Complaints whose senders all wait while somebody else writes; how many a turn took."""
    plain, sizes = intake.take_in, []

    def counted(session: Any, office: Any, some: Any, *more: Any) -> list[intake.Taken]:
        sizes.append(len(some))
        found = plain(session, office, some, *more)
        if refused in {one.complaint_id for one in some}:
            raise InputError("refused")
        return found

    monkeypatch.setattr(intake, "take_in", counted)
    filing, office, answers = intake.Filing(small.desk), small.desk.office("heat"), {}

    def send(name: str) -> None:
        try:
            answers[name] = filing.file(
                office, NewComplaint(name, "heat", "HEAT", "B", START, "36005000001")
            )
        except InputError as error:
            answers[name] = error

    senders = [Thread(target=send, args=(name,)) for name in names]
    with small.desk.database.writing():
        for one in senders:
            one.start()
        while len(filing._waiting) < len(names) - 1:
            sleep(0.001)
    for one in senders:
        one.join()
    return sizes, answers


def test_what_is_filed_at_once_is_stored_together(
    small: SmallDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"at-once-{number}" for number in range(6)]
    sizes, answers = file_at_once(small, names, monkeypatch)
    assert sizes == [1, 5]
    assert {answers[name].tracking for name in names} == set(names)
    with small.desk.database.reading() as session:
        assert all(cases.find_case(session, name).n_reports == 1 for name in names)


def test_one_that_is_refused_costs_the_others_nothing(
    small: SmallDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"at-once-{number}" for number in range(4)]
    _, answers = file_at_once(small, names, monkeypatch, refused="at-once-2")
    assert isinstance(answers["at-once-2"], InputError)
    with small.desk.database.reading() as session:
        for name in ("at-once-0", "at-once-1", "at-once-3"):
            assert cases.find_case(session, name).complaint_id == answers[name].tracking
        with pytest.raises(Parity311Error):
            cases.find_case(session, "at-once-2")


def test_a_replay_goes_on_where_it_was(small: SmallDesk) -> None:
    small.play(6)
    with small.desk.database.reading() as session:
        n_cases = len(session.scalars(select(CaseRow.number)).all())
    assert feed(small.desk, small.replay, START + timedelta(days=6)) == 0
    small.desk.remember("replay_fed_to", START.isoformat())
    # Fed again after a crash that lost the mark: everything is there once.
    assert feed(small.desk, small.replay, START + timedelta(days=6)) > 0
    with small.desk.database.reading() as session:
        assert len(session.scalars(select(CaseRow.number)).all()) == n_cases


def test_bad_input_is_told_in_one_line(small: SmallDesk) -> None:
    clerk = small.browser("intake")
    name = cases_of(clerk)[0]["complaint_id"]
    tries = {
        "no such case": ("post", "/case/nobody/accept", {}, 404),
        "no action": ("post", f"/case/{name}/override", {"reason": "urgent"}, 400),
        "an unknown action": (
            "post", f"/case/{name}/override", {"action": "shout", "reason": "urgent"}, 400),
        "an unknown reason": (
            "post", f"/case/{name}/override", {"action": "defer", "reason": "x"}, 400),
        "a page of nonsense": ("get", "/queue?page=-1", {}, 400),
        "an unknown domain": ("get", "/queue?domain=police", {}, 404),
        "no such page": ("get", "/nowhere", {}, 404),
    }  # fmt: skip
    for what, (method, path, data, status) in tries.items():
        answer = clerk.request(
            method, path, data=data or None, headers={"Accept": "application/json"}
        )
        assert answer.status_code == status, (what, answer.text)
        assert answer.json()["error"]["message"].endswith("."), what
        page = clerk.request(method, path, data=data or None)
        assert "Traceback" not in page.text
    assert small.log == []


def test_a_changed_byte_is_found(small: SmallDesk) -> None:
    clerk = small.browser("intake")
    names = [one["complaint_id"] for one in cases_of(clerk)[:2]]
    for name in names:
        clerk.post(f"/case/{name}/accept")
    assert small.problems == []
    database = small.desk.database
    with pytest.raises(RegistryError, match="only adds rows"), database.writing() as session:
        session.execute(text("UPDATE desk_log SET actor = 'somebody' WHERE seq = 1"))
    with database.writing() as session:
        session.execute(text("DROP TRIGGER desk_log_no_update"))
        session.execute(text("UPDATE desk_log SET actor = 'somebody' WHERE seq = 1"))
    assert small.problems == ["entry 1 was changed: its columns are not what its line says"]
    changed = "UPDATE desk_log SET payload = '{}' || substr(payload, 2) WHERE seq = 1"
    with database.writing() as session:
        session.execute(text("UPDATE desk_log SET actor = 'intake' WHERE seq = 1"))
        # One byte of a line, after which it can no longer be read.
        session.execute(text(changed.format("[")))
    assert small.problems[0] == "entry 1 was changed: its hash is another"
    assert small.browser("auditor").get("/audit").status_code == 200
    with database.writing() as session:
        session.execute(text(changed.format("{")))
        session.execute(text("UPDATE desk_cases SET chosen = 'defer' WHERE decided_seq = 2"))
    assert small.problems == [f"case {names[1]} stands otherwise than the log says"]


class TestAccess:
    def test_passwords_are_drawn_and_nobody_knows_them(self, small: SmallDesk) -> None:
        assert len(set(small.passwords.values())) == 4
        kept = small.desk.folder / "accounts.txt"
        assert kept.stat().st_mode & 0o077 == 0
        for name in small.passwords:
            for guess in (name, "password", "parity311", "admin", ""):
                answer = small.browser().post("/login", data={"name": name, "password": guess})
                assert answer.status_code in (400, 401, 429)

    def test_other_sites_posts_are_refused(self, small: SmallDesk) -> None:
        clerk = small.browser("intake")
        name = cases_of(clerk)[0]["complaint_id"]
        path = f"/case/{name}/accept"
        for headers in (
            {"Origin": "http://evil.test"},
            {"Origin": HOST, "Sec-Fetch-Site": "cross-site"},
            {"Origin": HOST, "Sec-Fetch-Site": "same-site"},
            {"Origin": "null"},
        ):
            assert clerk.post(path, headers=headers).status_code == 403, headers
        assert small.log == []
        assert clerk.post(path, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200

    def test_a_login_ends(self, small: SmallDesk, monkeypatch: pytest.MonkeyPatch) -> None:
        clerk = small.browser("intake")
        assert clerk.get("/queue.json").status_code == 200
        monkeypatch.setattr(accounts, "IDLE_MINUTES", -1)
        assert clerk.get("/queue.json").status_code == 401
        away = clerk.get("/queue", follow_redirects=False)
        assert (away.status_code, away.headers["location"]) == (303, "/login?to=%2Fqueue")

    def test_a_role_that_changes_ends_the_login(self, small: SmallDesk) -> None:
        clerk, boss = small.browser("intake"), small.browser("administrator")
        changed = boss.post("/accounts/intake", data={"role": "auditor", "is_active": "true"})
        assert changed.status_code == 200
        assert clerk.get("/queue.json").status_code == 401

    def test_a_password_is_changed_by_who_knows_it(self, small: SmallDesk) -> None:
        clerk = small.browser("intake")
        wrong = clerk.post("/account/password", data={"old": "x", "new": "long enough now"})
        assert wrong.status_code == 400
        right = {"old": small.passwords["intake"], "new": "long enough now"}
        assert clerk.post("/account/password", data=right).status_code == 200
        assert clerk.get("/queue.json").status_code == 401
        small.passwords["intake"] = "long enough now"
        assert cases_of(small.browser("intake"))

    def test_a_password_that_was_forgotten_is_given_anew(self, small: SmallDesk) -> None:
        clerk, boss = small.browser("intake"), small.browser("administrator")
        path = "/accounts/intake/password"
        assert clerk.post(path, data={"password": "long enough now"}).status_code == 403
        assert boss.post(path, data={"password": "short"}).status_code == 400
        assert boss.post(path, data={"password": "long enough now"}).status_code == 200
        assert clerk.get("/queue.json").status_code == 401
        small.passwords["intake"] = "long enough now"
        assert cases_of(small.browser("intake"))

    def test_the_last_administrator_stays(self, small: SmallDesk) -> None:
        boss = small.browser("administrator")
        for given in ({"role": "auditor", "is_active": "true"}, {"role": "administrator"}):
            refused = boss.post("/accounts/administrator", data=given)
            assert (refused.status_code, "last administrator" in refused.text) == (400, True)
        more = {"name": "second", "role": "administrator", "password": "long enough now"}
        assert boss.post("/accounts", data=more).status_code == 200
        gone = boss.post("/accounts/administrator", data={"role": "administrator"})
        assert gone.status_code in (200, 401)
        assert boss.get("/accounts.json").status_code == 401

    def test_one_password_is_not_tried_on_every_name(
        self, small: SmallDesk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(entrance, "NAMES_AT_ONCE", 5)
        visitor = small.browser()
        statuses = [
            visitor.post("/login", data={"name": f"n{n}", "password": "Summer2026"}).status_code
            for n in range(7)
        ]
        assert statuses == [401] * 5 + [429] * 2

    def test_few_hashes_are_made_at_once(
        self, small: SmallDesk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who cannot have a turn is told to wait, and takes no memory."""
        monkeypatch.setattr(accounts, "HASH_WAIT_SECONDS", 0.01)
        monkeypatch.setattr(accounts, "_hashing", BoundedSemaphore(1))
        given = {"name": "intake", "password": small.passwords["intake"]}
        with accounts._hashing:
            assert small.browser().post("/login", data=given).status_code == 429
        assert small.browser("intake").get("/queue.json").status_code == 200

    def test_every_answer_has_the_policy_of_its_content(self, small: SmallDesk) -> None:
        for path in ("/login", "/nowhere", "/static/desk.css", "/queue"):
            headers = small.browser().get(path, follow_redirects=False).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]

    def test_no_page_has_styles_or_scripts_in_line(self, small: SmallDesk) -> None:
        clerk = small.browser("intake")
        name = cases_of(clerk)[0]["complaint_id"]
        for path in ("/login", "/queue", f"/case/{name}", "/account"):
            page = clerk.get(path).text
            assert " style=" not in page
            assert "<style" not in page
            assert "<script>" not in page
            assert " on" not in {part[:3] for part in page.split("<") if part.startswith(" on")}
