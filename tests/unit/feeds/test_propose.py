"""A proposed map says how sure it is, and imports as it is where columns are plain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.feeds.cities import CENTRES, GEOIDS, shapes, write_csv
from tests.unit.feeds.test_portal_maps import BOSTON_NEW, TRACTS
from typer.testing import CliRunner

from parity311.cli.records import records_app
from parity311.errors import InputError
from parity311.feeds.citymap import read_city_map
from parity311.feeds.importing import import_records
from parity311.feeds.propose import propose_map
from parity311.feeds.words import OUTCOME_WORDS, first_match
from parity311.records.store import open_records

pytestmark = pytest.mark.slow


def row(number: int, **changes: str) -> dict[str, str]:
    """A request of a city nobody described."""
    x, y = CENTRES[GEOIDS[number % 4]]
    kinds = ("No heat in apartment", "Pothole", "Sewer back-up", "Unsanitary conditions")
    found = {
        "Ticket Number": f"T-{number}",
        "Date Opened": f"{1 + number % 28}.02.2025 14:{number % 60:02d}",
        "Date Closed": "" if number % 5 == 0 else f"{1 + number % 28}.03.2025 09:00",
        "Issue Type": kinds[number % 4],
        "Ticket Status": "Open" if number % 5 == 0 else "Resolved",
        "Intake Method": "Phone" if number % 2 else "Web portal",
        "Street Address": f"{number} Main St",
        "Postal Code": "70118",
        "Lng": str(x + number * 1e-6),
        "Lat": str(y),
        "Crew": f"crew {number % 3}",
    }
    return found | changes


def write_unknown_city(folder: Path, n: int = 60) -> list[Path]:
    figures = [
        {"GEOID": geoid, "Total Population": 3000, "Total Households": 1000,
         "Median Household Income": 30_000 * (i + 1)}
        for i, geoid in enumerate(TRACTS)
    ]  # fmt: skip
    outline = folder / "tracts.geojson"
    outline.write_text(json.dumps(shapes("GEOID20", TRACTS)))
    return [
        write_csv(folder / "tickets.csv", [row(k) for k in range(n)], delimiter=";"),
        write_csv(folder / "tracts.csv", figures),
        outline,
    ]


def test_a_proposal_of_plain_columns_imports_as_it_is(tmp_path: Path) -> None:
    files = write_unknown_city(tmp_path)
    (tmp_path / "scratch").mkdir()
    found = propose_map(files, tmp_path / "scratch")
    placed = {one.field: one.column for one in found.guesses}
    assert placed["received_at"] == "Date Opened"
    assert placed["closed_at"] == "Date Closed"
    assert (placed["longitude"], placed["latitude"]) == ("Lng", "Lat")
    assert found.missing == ()
    assert found.unused == ("Crew",)
    assert {one.sureness for one in found.guesses} <= {"sure", "likely"}
    (tmp_path / "city.toml").write_text(found.text)
    own = read_city_map(tmp_path / "city.toml")
    source = import_records(files, tmp_path / "out", city_map=own)["sources"][0]
    assert (source["rows_in"], source["kept"], source["out_of_scope"]) == (60, 45, 15)
    assert open_records(tmp_path / "out").domains == ("drainage", "heat", "housing")


def test_what_cannot_be_placed_is_said(tmp_path: Path) -> None:
    rows = [{"Lorem": str(k), "Opened": "2025-01-01", "Ipsum": "x"} for k in range(9)]
    path = write_csv(tmp_path / "rows.csv", rows)
    (tmp_path / "scratch").mkdir()
    found = propose_map([path], tmp_path / "scratch")
    assert set(found.missing) == {"key", "category", "longitude", "latitude"}
    assert "# longitude = ?" in found.text
    (tmp_path / "city.toml").write_text(found.text)
    with pytest.raises(InputError, match="does not say which column is 'key'"):
        read_city_map(tmp_path / "city.toml")


def test_known_portals_are_recognised(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", [BOSTON_NEW, BOSTON_NEW | {"case_id": "2"}])
    (tmp_path / "scratch").mkdir()
    assert "--map boston_311" in propose_map([path], tmp_path / "scratch").known_as


def test_the_command_writes_a_map_once(tmp_path: Path) -> None:
    files = [str(path) for path in write_unknown_city(tmp_path)]
    out = tmp_path / "city.toml"
    runner = CliRunner()
    first = runner.invoke(records_app, ["map", *files, "--out", str(out)])
    assert first.exit_code == 0, first.output
    assert "likely" in first.output or "sure" in first.output
    again = runner.invoke(records_app, ["map", *files, "--out", str(out)])
    assert isinstance(again.exception, InputError)


@pytest.mark.parametrize(
    ("status", "meant"),
    [
        ("no violation found", "no_violation"),
        ("NO_VIOLATION", "no_violation"),
        ("VIOLATION_ISSUED", "violation"),
        ("NO_ACCESS", "no_access"),
        ("Closed (Dup)", "duplicate"),
        ("Abgeschlossen", "other"),
        ("Fermée", "other"),
        ("Em andamento", "pending"),
    ],
)
def test_a_status_is_read_however_a_system_spells_it(status: str, meant: str) -> None:
    found = first_match(status, OUTCOME_WORDS)
    assert found is not None
    assert found[0] == meant
