"""`parity311 recommend` and `policies`: files that can be read, refusals in one line."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import write_folder
from tests.served import PRICES, random_network, save_package
from tests.unit.serving.test_point_in_time import AS_OF, plant

from parity311.agents.package import MANIFEST, WEIGHTS
from parity311.cli import main
from parity311.domains import get_domain
from parity311.mdp.harness import Harness

MOMENT = AS_OF.isoformat()
COMPLAINT = {
    "complaint_id": "new",
    "category": "HEAT",
    "severity": "A",
    "tract": "36005000001",
    "is_building_wide": True,
}


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """A folder with records, one policy for each of three uses, and a complaint."""
    write_folder(tmp_path / "records", plant("nothing", AS_OF))
    weights = random_network(Harness(get_domain("heat")))
    save_package(tmp_path / "policy", "heat", weights)
    save_package(tmp_path / "priced", "heat", "dual_threshold", prices=PRICES)
    (tmp_path / "complaint.json").write_text(json.dumps(COMPLAINT))
    return tmp_path


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(office: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command line in the office's folder; exit code, output, errors."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.chdir(office)
        monkeypatch.setattr(sys, "argv", ["parity311", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


GOOD = ("recommend", "policy", "--records", "records", "--as-of", MOMENT)


def test_the_open_cases_as_json_on_the_screen(call: Call) -> None:
    code, out, err = call(*GOOD, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["summary"]["open_cases"] == len(found["recommendations"]) >= 2
    first = found["recommendations"][0]
    assert first["rank"] == 1
    assert first["action"] in [action.name for action in get_domain("heat").actions]
    assert first["received"] < "2024-05-01"
    for name in ("margin", "reasons", "todays_rule", "due", "likely_duplicates", "fallback"):
        assert name in first


def test_a_table_on_the_screen(call: Call) -> None:
    code, out, err = call(*GOOD, "--capacity", 1)
    assert code == 0, err
    assert out.startswith("heat, 2024-05-01 08:00: ")
    assert "today's rule" in out


@pytest.mark.parametrize("ending", ["csv", "json", "CSV"])
def test_a_file_says_the_same(ending: str, call: Call, office: Path) -> None:
    _, out, _ = call(*GOOD, "--json")
    expected = json.loads(out)["recommendations"]
    code, out, err = call(*GOOD, "--out", f"today.{ending}")
    assert code == 0, err
    assert f"{len(expected)} recommendations in today.{ending}" in out
    text = (office / f"today.{ending}").read_text()
    if ending == "json":
        content = json.loads(text)
        assert content["recommendations"] == expected
        assert content["summary"]["domain"] == "heat"
        return
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["complaint_id"] for row in rows] == [row["complaint_id"] for row in expected]
    assert [row["action"] for row in rows] == [row["action"] for row in expected]


@pytest.mark.skipif(find_spec("xlsxwriter") is None, reason="xlsxwriter is not installed")
def test_a_workbook(call: Call, office: Path) -> None:
    _, out, _ = call(*GOOD, "--json")
    expected = json.loads(out)["recommendations"]
    code, _, err = call(*GOOD, "--out", "today.xlsx")
    assert code == 0, err
    with zipfile.ZipFile(office / "today.xlsx") as book:
        texts = book.read("xl/sharedStrings.xml").decode()
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert sheet.count("<row ") == len(expected) + 1
    assert all(f">{row['complaint_id']}<" in texts for row in expected)


def test_one_complaint_from_a_file_and_from_standard_input(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = call(*GOOD, "--complaint", "complaint.json", "--json")
    assert code == 0, err
    (row,) = json.loads(out)["recommendations"]
    assert row["complaint_id"] == "new"
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(COMPLAINT)))
    code, again, err = call(*GOOD, "--complaint", "-", "--json")
    assert code == 0, err
    assert json.loads(again) == json.loads(out)
    # A code A comes before what waits.
    assert row["todays_rank"] == 1


def test_one_complaint_beside_an_empty_queue(call: Call) -> None:
    words = ("recommend", "policy", "--records", "records", "--complaint", "complaint.json")
    code, out, err = call(*words, "--as-of", "2024-01-01T00:00", "--json")
    assert code == 0, err
    assert json.loads(out)["summary"]["open_cases"] == 1


def test_prices_are_brought_up_to_date(call: Call) -> None:
    words = ("recommend", "priced", "--records", "records", "--as-of", MOMENT, "--update-prices")
    code, out, err = call(*words, "--json")
    assert code == 0, err
    prices = json.loads(out)["prices"]
    assert prices[0]["stratum"] == "quintile_1"
    assert any(row["change"] for row in prices)
    code, out, err = call(*words)
    assert code == 0, err
    assert "Coverage prices since 2024-02-01" in out


def test_policies_are_shown_and_compared(call: Call) -> None:
    code, out, _ = call("policies", "show", "policy", "--json")
    assert (code, json.loads(out)["domain"]) == (0, "heat")
    code, out, _ = call("policies", "show", "policy")
    assert code == 0
    assert "domain: heat" in out
    code, out, _ = call("policies", "diff", "policy", "priced", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["fields"]["agent"] == {"first": "network", "second": "dual_threshold"}
    assert 0.0 <= found["same_decisions"] < 1.0
    code, out, _ = call("policies", "diff", "policy", "policy")
    assert "They say the same of themselves." in out
    assert "100.0%" in out


def break_weights(office: Path) -> None:
    path = office / "policy" / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def cut_records(office: Path) -> None:
    (office / "records" / "visits" / "heat.parquet").unlink()


def cut_manifest(office: Path) -> None:
    path = office / "records" / "manifest.json"
    path.write_text(path.read_text()[:100])


def other_domain(office: Path) -> None:
    shutil.rmtree(office / "policy")
    save_package(office / "policy", "snad", "index")


def write(name: str, text: str) -> Callable[[Path], Any]:
    return lambda office: (office / name).write_text(text)


def without(name: str) -> str:
    return json.dumps({key: value for key, value in COMPLAINT.items() if key != name})


NOTHING: Callable[[Path], Any] = lambda office: None  # noqa: E731
ONE = ("--complaint", "complaint.json")
BAD: dict[str, tuple[Callable[[Path], Any], tuple[str, ...], str]] = {
    "no open cases": (NOTHING, ("--as-of", "2024-01-01"), "No case of 'heat' is open at"),
    "before the records": (NOTHING, ("--as-of", "2023-12-31"), "lies outside"),
    "after the records": (NOTHING, ("--as-of", "2025-01-01"), "lies outside"),
    "no moment": (NOTHING, ("--as-of", "today"), "The moment 'today' was given"),
    "a moment with a zone": (NOTHING, ("--as-of", "2024-05-01T08:00+02:00"), "names a time zone"),
    "a domain the records lack": (other_domain, (), "snad"),
    "a damaged package": (break_weights, (), "changed since it was"),
    "no package": (lambda office: (office / "policy" / MANIFEST).unlink(), (), "no whole policy"),
    "capacity 0": (NOTHING, ("--capacity", "0"), "A capacity of 0 was given"),
    "capacity -1": (NOTHING, ("--capacity", "-1"), "A capacity of -1 was given"),
    "an unknown field": (
        write("complaint.json", json.dumps({**COMPLAINT, "colour": "red"})), ONE, "colour",
    ),
    "a missing field": (write("complaint.json", without("tract")), ONE, "lacks tract"),
    "no JSON": (write("complaint.json", "{"), ONE, "holds no complaint"),
    "no object": (write("complaint.json", "[1]"), ONE, "one JSON object"),
    "no file": (NOTHING, ("--complaint", "nowhere.json"), "holds no complaint"),
    "half of the records": (cut_records, (), "visits"),
    "half of a manifest": (cut_manifest, (), "manifest"),
    "no records": (lambda office: shutil.rmtree(office / "records"), (), "records"),
    "an unknown ending": (NOTHING, ("--out", "today.pdf"), "has to end in .csv, .xlsx, .json"),
    "no ending": (NOTHING, ("--out", "today"), "has to end in"),
    "a folder": (lambda office: (office / "x.csv").mkdir(), ("--out", "x.csv"), "x.csv"),
    "prices of a policy without": (NOTHING, ("--update-prices",), "without a weight on equity"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_writes_nothing(name: str, call: Call, office: Path) -> None:
    damage, words, expected = BAD[name]
    damage(office)
    before = sorted(path for path in office.rglob("*"))
    out = () if "--out" in words else ("--out", "today.csv")
    code, printed, err = call(*GOOD, *words, *out)
    assert code == 2, (printed, err)
    said = err.strip().splitlines()
    assert len(said) == 1, err
    assert said[0].startswith("error: ")
    assert expected in said[0]
    assert sorted(path for path in office.rglob("*")) == before


def test_the_same_without_what_is_bad_is_accepted(call: Call, office: Path) -> None:
    """The table's own check: what it starts from works."""
    code, _, err = call(*GOOD, "--out", "today.csv", "--capacity", "1", *ONE)
    assert code == 0, err
    assert (office / "today.csv").exists()


def test_a_text_that_is_a_formula_stays_text(call: Call, office: Path) -> None:
    given = {**COMPLAINT, "complaint_id": "=1+1"}
    (office / "complaint.json").write_text(json.dumps(given))
    code, _, err = call(*GOOD, *ONE, "--out", "one.csv")
    assert code == 0, err
    (row,) = csv.DictReader(io.StringIO((office / "one.csv").read_text()))
    assert row["complaint_id"] == "'=1+1"
