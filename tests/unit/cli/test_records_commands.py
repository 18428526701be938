"""The commands print figures, take --json, and end in one clear line when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.feeds.cities import sr311_row, write_csv, write_tracts
from tests.unit.feeds.soda_server import serving
from tests.unit.feeds.test_fetch import nyc
from typer.testing import CliRunner

from parity311.cli.records import fetch_app, records_app
from parity311.errors import InputError, RecordsError


def run(app, *arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_fetch_import_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(nyc()) as server:
        monkeypatch.setenv("PARITY311_NYC_PORTAL", server.address)
        monkeypatch.setenv("PARITY311_CENSUS_ADDRESS", f"{server.address}/data")
        monkeypatch.setenv("CENSUS_API_KEY", "a-key")
        fetched = run(
            fetch_app, "nyc", "--domains", "heat", "--since", "2024-01-01", "--out",
            tmp_path / "nyc", "--json",
        )  # fmt: skip
    assert fetched.exit_code == 0, fetched.output
    assert json.loads(fetched.stdout)["datasets"][0]["server_rows"] == 23
    assert "a-key" not in fetched.output
    imported = run(records_app, "import", tmp_path / "nyc", "--out", tmp_path / "r", "--json")
    assert imported.exit_code == 0, imported.output
    assert json.loads(imported.stdout)["date_from"] == "2024-01-10"
    checked = run(records_app, "check", tmp_path / "r", "--json")
    report = json.loads(checked.stdout)
    assert report["domains"]["heat"]["complaints"] == 23
    plain = run(records_app, "check", tmp_path / "r")
    assert "23 complaints" in plain.stdout
    assert "out of scope" in plain.stdout


def test_errors_are_raised_for_the_command_line_to_print(tmp_path: Path) -> None:
    paths = [*write_tracts(tmp_path), write_csv(tmp_path / "rows.csv", [sr311_row(1)])]
    run(records_app, "import", *paths, "--out", tmp_path / "r")
    again = run(records_app, "import", *paths, "--out", tmp_path / "r")
    assert isinstance(again.exception, RecordsError)
    assert "already holds imported records" in str(again.exception)
    assert "--overwrite" not in str(again.exception)
    nothing = run(records_app, "check", tmp_path / "nowhere")
    assert isinstance(nothing.exception, RecordsError)
    unknown = run(records_app, "import", *paths, "--out", tmp_path / "x", "--domains", "elevators")
    assert isinstance(unknown.exception, InputError)
    assert "Did you mean 'elevator'" in str(unknown.exception)
