"""No command ends in a traceback: nonsense for any option is one line and exit code 2, at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.bad_input import FILE, Try, call, commands, tries


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with nothing but a file in it."""
    (tmp_path / FILE).write_text("not a folder\n")
    return tmp_path


@pytest.mark.parametrize("attempt", list(tries()), ids=str)
def test_nonsense_is_refused_in_one_line(
    attempt: Try,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = call(attempt, monkeypatch, folder)
    said = capsys.readouterr().err.strip().splitlines()
    assert code == 2, said
    assert len(said) == 1
    assert said[0].startswith("error: ")
    # Refused before anything was begun: no city, no run, no half of one.
    assert [path.name for path in folder.iterdir()] == [FILE]


def test_every_command_is_tried() -> None:
    tried = {attempt.command for attempt in tries()}
    assert tried == {name for name, _ in commands()}


def test_an_accepted_command_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(Try("domains", ("--json",)), monkeypatch, folder) == 0


def test_a_crash_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: an error that is nobody's input leaves `main` as it is."""
    monkeypatch.setattr("parity311.cli.printing.domain_cards", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call(Try("domains", ()), monkeypatch, folder)
