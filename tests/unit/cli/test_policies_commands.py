"""`parity311 policies`: the registry on the command line, refusals in one line and code 2."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.lifecycle.offices import Office

from parity311.cli import main, options

Call = Callable[..., tuple[int, str, str]]
BY = ("--by", "A. Okafor", "--reason", "yearly review")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """Packages and audits; its own registry lies elsewhere."""
    return Office(tmp_path, str(tmp_path / "elsewhere" / "policies.db"))


@pytest.fixture
def call(
    office: Office, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Run `parity311 policies …` in the office's folder; exit code, output, errors."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.chdir(office.folder)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["parity311", "policies", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def propose(call: Call, office: Office, verdict: str = "PASS") -> str:
    folder, audit = office.package(), office.audit(verdict)
    code, out, err = call("propose", folder, "--audit", audit, *BY, "--json")
    assert code == 0, err
    return json.loads(out)["version"]


def test_the_whole_way(call: Call, office: Office) -> None:
    first, second = propose(call, office), propose(call, office)
    assert (office.folder / "registry" / "policies.db").is_file()
    for words, expected in (
        (("shadow", first), "heat-1 is SHADOW; today's rule decides in heat"),
        (("release", first), "heat-1 is LIVE; heat-1 decides in heat"),
        (("watch", "heat"), "heat-1 is WATCH; heat-1 decides"),
        (("suspend", "heat"), "heat-1 is SUSPENDED; today's rule decides"),
        (("resume", "heat"), "heat-1 is LIVE"),
        (("release", second), "heat-1 is RETIRED, heat-2 is LIVE; heat-2 decides"),
        (("rollback", "heat"), "heat-1 is LIVE, heat-2 is RETIRED; heat-1 decides"),
        (("retire", first), "heat-1 is RETIRED; today's rule decides"),
    ):
        code, out, err = call(*words, *BY)
        assert code == 0, err
        assert expected in out
    code, out, _ = call("list")
    assert code == 0
    assert "heat: today's rule decides" in out
    code, out, _ = call("log")
    assert (code, out.count("yearly review")) == (0, 10)
    code, out, _ = call("verify")
    assert code == 0
    assert "10 entries and 2 versions verify" in out
    head = json.loads(call("verify", "--json")[1])["head"]
    assert call("verify", "--head", head)[0] == 0
    assert call("verify", "--head", "ab" * 32)[0] == 2


@pytest.mark.parametrize(
    ("verdict", "next_step"),
    [
        ("PASS", "policies release heat-1 --by NAME --reason TEXT"),
        ("INSUFFICIENT", "--reason TEXT --insufficient-because TEXT"),
        ("FAIL", "never goes live"),
    ],
)
def test_what_comes_next_is_what_the_gates_would_allow(
    verdict: str, next_step: str, call: Call, office: Office
) -> None:
    code, out, _ = call("propose", office.package(), "--audit", office.audit(verdict), *BY)
    assert code == 0
    assert next_step in out
    assert ("policies release" in out) == (verdict != "FAIL")


def test_a_database_by_its_address(call: Call, office: Office) -> None:
    folder, audit = office.package(), office.audit()
    where = ("--database", "sqlite:///other.db")
    assert call("propose", folder, "--audit", audit, *BY, *where)[0] == 0
    code, out, _ = call("list", "--json", *where)
    found = json.loads(out)
    assert (code, found["policies"][0]["state"], found["deciding"]) == (
        0,
        "PROPOSED",
        {"heat": None},
    )
    assert call("list", "--database", "other.db")[0] == 0
    assert call("list")[0] == 2


def test_a_list_is_short_and_says_what_was_seen(call: Call, office: Office) -> None:
    first, second = propose(call, office), propose(call, office)
    long = "because " * 60
    assert call("release", first, "--by", "B. Silva", "--reason", long)[0] == 0
    code, out, _ = call("list")
    assert (code, out.count("because")) == (0, 7)
    assert "Entry 3 is the last of the log" in out
    assert json.loads(call("list", "--json")[1])["last_entry"] == 3
    code, _, err = call("release", second, *BY, "--seen", 2)
    assert (code, "B. Silva did release heat-1" in err) == (2, True)
    assert call("suspend", "heat", *BY, "--seen", 4)[0] == 2
    code, out, _ = call("release", second, *BY, "--seen", 3)
    assert (code, "heat-2 decides" in out) == (0, True)


def test_the_live_policy_is_written_to_serve(call: Call, office: Office) -> None:
    version = propose(call, office)
    code, _, err = call("export", "heat", "--out", "live")
    assert (code, "today's rule decides" in err) == (2, True)
    call("release", version, *BY)
    code, out, _ = call("export", "heat", "--out", "live")
    assert (code, "heat-1 in live" in out) == (0, True)
    assert call("show", "live")[0] == 0
    assert call("export", "heat-1", "--out", "live")[0] == 0


def test_statements_and_what_changed(call: Call, office: Office) -> None:
    version = propose(call, office)
    plain, priced = office.both_packages()
    code, out, _ = call("statement", version)
    assert code == 0
    assert "largest gap of coverage that passes the audit" in out
    assert "5 points" in out
    code, out, _ = call("diff", plain, priced)
    assert code == 0
    assert "What they are paid for" in out
    assert "weight on areas that are behind in coverage catching up" in out
    assert "30 %" in out
    code, out, _ = call("diff", version, plain, "--json")
    rows = {row["name"]: row for row in json.loads(out)["statement"]}
    assert (code, rows["tau"]["first"], rows["tau"]["second"]) == (0, "5 points", "not audited")
    assert "They are paid for the same." in call("diff", version, version)[1]


def change_log(folder: Path) -> None:
    with sqlite3.connect(folder / "registry" / "policies.db") as connection:
        connection.execute("DROP TRIGGER log_no_update")
        connection.execute("UPDATE log SET reason = 'other' WHERE seq = 1")
    connection.close()


def change_package(folder: Path) -> None:
    path = next(iter(sorted(folder.glob("policy*/policy.safetensors"))))
    path.write_bytes(path.read_bytes()[:-1] + b"?")


REFUSED: dict[str, tuple[tuple[str, ...], Callable[[Path], None] | None, str]] = {
    "no name": (("release", "heat-1", "--reason", "why"), None, "Missing option '--by'"),
    "no reason": (("release", "heat-1", "--by", "A"), None, "Missing option '--reason'"),
    "an empty name": (("release", "heat-1", "--by", " ", "--reason", "why"), None, "--by is ' '"),
    "no audit": (("propose", "policy1", *BY), None, "Missing option '--audit'"),
    "no such audit": (("propose", "policy1", "--audit", "x", *BY), None, "holds no audit"),
    "no package": (("propose", "nowhere", "--audit", "PASS.json", *BY), None, "no whole policy"),
    "no such version": (("release", "heat-9", *BY), None, "Unknown version 'heat-9'"),
    "nobody in office": (("rollback", "heat", *BY), None, "No policy is in office in 'heat'"),
    "a version for a domain": (("suspend", "heat-1", *BY), None, "heat-1 is a version"),
    "no such domain": (("suspend", "heet", *BY), None, "domain of this registry 'heet'"),
    "failed": (("release", "heat-2", *BY), None, "never goes live"),
    "could not tell": (("release", "heat-3", *BY), None, "--insufficient-because"),
    "a changed log": (("release", "heat-1", *BY), change_log, "was tampered with: entry 1"),
    "a changed package": (("release", "heat-1", *BY), change_package, "no longer whole"),
    "a changed log is listed": (("list",), change_log, "was tampered with"),
    "a changed log is verified": (("verify",), change_log, "does not verify: entry 1"),
    "a changed package is verified": (("verify",), change_package, "does not verify: the package"),
    "no registry": (("list", "--database", "nowhere.db"), None, "There is no registry at"),
    "another kind": (("list", "--database", "mysql://u:secret@h/x"), None, "begins with 'mysql'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_one_line_and_changes_nothing(
    name: str, call: Call, office: Office
) -> None:
    for verdict in ("PASS", "FAIL", "INSUFFICIENT"):
        propose(call, office, verdict)
    words, damage, expected = REFUSED[name]
    if damage:
        damage(office.folder)
    code, out, err = call(*words)
    assert (code, out) == (2, ""), (out, err)
    said = err.strip().splitlines()
    assert len(said) == 1, err
    assert said[0].startswith("error: ")
    assert expected in said[0]
    assert "secret" not in said[0]
    connection = sqlite3.connect(office.folder / "registry" / "policies.db")
    assert {row[0] for row in connection.execute("SELECT state FROM states")} == {"PROPOSED"}
    connection.close()


def test_a_machine_without_the_packages_is_told_what_to_install(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "find_spec", lambda name: None)
    code, _, err = call("list")
    assert code == 2
    assert "pip install 'parity311[registry]'" in err
