"""The doors of README lead somewhere: their commands, in order, in a folder with nothing but data.

The researcher's is Python, and runs in tests/docs/test_python.py.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.docs.test_commands import shell_blocks
from tests.unit.cli.bad_input import Try, call
from tests.unit.feeds.test_propose import write_unknown_city

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MOST_COMMANDS = 5
NOT_RUN = {
    "source .venv/bin/activate": "the suite runs in its environment already",
    "parity311 run --records": "minutes; tests/unit/lifecycle has a run on records",
    "parity311 open": "starts the reader's browser; tests/unit/cli has it",
}
"""Commands of doors that are only read here, with the reason."""
DOORS = {"I have complaints": "records/ours/manifest.json", "I have a table to check": "runs"}
"""Doors that are commands, and what is there behind each."""


def commands_of(door: str) -> list[str]:
    """The commands below a heading of README."""
    text = (ROOT / "README.md").read_text()
    section = text[text.index(f"## {door}") :].partition("\n## ")[0]
    lines = "\n".join(shell_blocks(section)).splitlines()
    return [re.sub(r"\s+#.*$", "", line).strip() for line in lines if line.strip()]


@pytest.mark.parametrize("door", DOORS)
def test_a_door_leads_to_a_result(
    door: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = write_unknown_city(tmp_path, n=400)
    files[0].rename(tmp_path / "requests.csv")
    commands = commands_of(door)
    assert 2 <= len(commands) <= MOST_COMMANDS
    ran = 0
    for command in commands:
        if command.startswith(tuple(NOT_RUN)):
            continue
        first, *rest = shlex.split(command)[1:]
        code = call(Try(first, tuple(rest)), monkeypatch, tmp_path)
        assert code == 0, f"{command}: {capsys.readouterr().err[-1500:]}"
        ran += 1
    assert ran >= 2
    assert (tmp_path / DOORS[door]).exists()
    audits = list((tmp_path / "runs").glob("*/audit.html"))
    assert audits
    assert all((page.parent / "audit.xlsx").is_file() for page in audits)


def test_nothing_is_left_out_in_vain() -> None:
    printed = [command for door in DOORS for command in commands_of(door)]
    for begins in NOT_RUN:
        assert any(command.startswith(begins) for command in printed), begins
