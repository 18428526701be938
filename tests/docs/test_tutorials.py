"""The three doors: each tutorial is walked from its text, in order, to its result.

The place is as `make run` leaves it, with the one domain that a page needs in its city. What a page
asks to be written into a file is written, Python is run, commands are run; a block that needs a
package of others is run where that package is.
"""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.cli.bad_input import Try, call

from parity311.city.build import build_city
from parity311.domains import get_domain

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
CITY = "cities/small-7-measured-calibrated"
MOST_COMMANDS = 5
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?(?:<!-- needs: (?P<needs>\w+) -->\n)?"
    r"```(?P<kind>\w*)\n(?P<text>.*?)```",
    re.DOTALL,
)
SHORTENED = {
    "parity311 policies make": "--draws 0",
    # A city for tuning: nobody looks at the reserved ones, and this test is somebody.
    "parity311 leaderboard": "--seeds 501 --episodes 2",
}
"""What is added to a command so that it takes seconds."""
FEWER_STEPS = ("learn(20_000)", "learn(200)")


class Step(NamedTuple):
    """One thing that a page asks for: a command, Python to run, or a file to write."""

    kind: str
    text: str
    file: str = ""
    needs: str = ""


def steps_of(page: Path) -> Iterator[Step]:
    """What a page asks for, in its order."""
    for block in BLOCK.finditer(page.read_text()):
        file, needs, text = block["file"] or "", block["needs"] or "", block["text"]
        if file:
            yield Step("file", text, file, needs)
        elif block["kind"] == "python":
            yield Step("python", text, needs=needs)
        elif not block["kind"]:
            yield from (Step("command", line) for line in text.strip().splitlines())


def walk(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Do what a page asks for; what was left out, since a package is not there."""
    left_out: list[str] = []
    for step in steps_of(page):
        if step.needs and find_spec(step.needs) is None:
            left_out.append(step.file.removesuffix(".py"))
        elif step.kind == "file":
            (place / step.file).write_text(step.text.replace(*FEWER_STEPS))
        elif step.kind == "python":
            exec(step.text, {"__name__": "__main__"})
        elif step.text.startswith("python "):
            runpy.run_path(str(place / step.text.split()[1]), run_name="__main__")
        elif step.text.startswith("parity311 ") and not any(one in step.text for one in left_out):
            more = next((add for word, add in SHORTENED.items() if step.text.startswith(word)), "")
            first, *rest = shlex.split(f"{step.text} {more}")[1:]
            assert call(Try(first, tuple(rest)), monkeypatch, place) == 0, step.text
    return left_out


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_the_analyst_gets_a_work_list(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build_city([get_domain("drainage").process], "small", 7, out=place / CITY, workers=1)
    walk(TUTORIALS / "analyst.md", place, monkeypatch)
    lines = (place / "today.csv").read_text().splitlines()
    assert lines[0].startswith("rank,complaint_id,action")
    assert len(lines) > 10
    said = capsys.readouterr()
    assert "0 out of scope" in said.out + said.err


def test_the_auditor_gets_a_verdict(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda *_: True)
    walk(TUTORIALS / "auditor.md", place, monkeypatch)
    assert re.search(r"PASS|FAIL|INSUFFICIENT", capsys.readouterr().out)
    assert list(place.glob("runs/*/audit.html"))


def test_the_researcher_gets_a_place(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left_out = walk(TUTORIALS / "researcher.md", place, monkeypatch)
    printed = capsys.readouterr().out
    for row in ("mine:decide", "today's rule", "best rule", "best known"):
        assert row in printed
    assert ("sb3_agent:learn" in printed) == (left_out == [])
    assert "one crew, always" in printed


@pytest.mark.parametrize("name", ["analyst.md", "auditor.md", "researcher.md"])
def test_a_door_leads_there_in_five_commands(name: str) -> None:
    commands = [one.text for one in steps_of(TUTORIALS / name) if one.kind == "command"]
    ours = [text for text in commands if text.startswith("parity311 ")]
    assert 0 < len(ours) <= MOST_COMMANDS
    assert commands[0] == "source .venv/bin/activate"


def test_a_page_whose_command_fails_is_noticed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = place / "page.md"
    page.write_text("```\nparity311 audit nowhere.csv\n```\n")
    with pytest.raises(AssertionError, match="nowhere"):
        walk(page, place, monkeypatch)
