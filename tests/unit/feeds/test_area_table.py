"""What could be placed, by what, and the table by areas where tracts cannot be had."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.unit.feeds.cities import CENTRES, GEOIDS, dob_row, sr311_row, write_csv, write_tracts
from typer.testing import CliRunner

from parity311.audit.spec import AuditSpec
from parity311.cli import app
from parity311.errors import InputError
from parity311.feeds.area_table import explain_places, write_area_table
from parity311.feeds.importing import import_records
from parity311.pipelines.audit_table import audit_table
from parity311.records.describe import describe_import
from parity311.records.store import Records, open_records

pytestmark = pytest.mark.slow
FOUND = "The Department inspected the following conditions. Violations were issued."


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Ten heat rows in tracts, five with a ZIP alone, one with nothing; DOB rows with a BIN."""
    folder = tmp_path_factory.mktemp("areas")
    rows = []
    for k in range(1, 11):
        x, y = CENTRES[GEOIDS[k % 4]]
        rows.append(sr311_row(k, latitude=str(y), longitude=str(x), incident_zip=f"1045{k % 2}"))
    nowhere = dict.fromkeys(
        ("latitude", "longitude", "bbl", "incident_address", "community_board"), ""
    )
    rows += [sr311_row(k, **nowhere, resolution_description=FOUND) for k in range(11, 16)]
    rows.append(sr311_row(16, **nowhere, incident_zip=""))
    dob = [dob_row(2_000_000 + k, bin=f"2{k:06d}") for k in range(1, 4)]
    dob[0] |= {"house_number": "1", "bin": "2000099"}
    files = [
        *write_tracts(folder),
        write_csv(folder / "sr311.csv", rows),
        write_csv(folder / "dob.csv", dob),
    ]
    import_records(files, folder / "records")
    return open_records(folder / "records")


def test_every_row_is_placed_or_lost_with_its_reason(records: Records) -> None:
    heat, elevator = (
        next(row for row in explain_places(records) if row["domain"] == name)
        for name in ("heat", "elevator")
    )
    assert (heat["rows"], heat["n_placed"]) == (16, 10)
    assert heat["placed_by"] == {"coordinates": 10}
    assert heat["lost"] == {"no location": 6}
    assert heat["lost_carry"]["zip"] == 5
    assert heat["advice"] == "count by area instead (--by zip)"
    assert elevator["rows"] == 3
    assert "PLUTO" in elevator["advice"]


def test_rows_without_a_tract_count_by_their_area(records: Records, tmp_path: Path) -> None:
    told = write_area_table(records, "zip", tmp_path / "areas.csv")
    assert (told["rows"], told["without_area"]) == (19, 1)
    with (tmp_path / "areas.csv").open() as file:
        rows = list(csv.DictReader(file))
    saved = [row for row in rows if row["domain"] == "heat" and row["served"] == "yes"]
    assert len(saved) == 5
    assert {row["area"] for row in saved} == {"10451"}
    # An area's income is that of its tracts, and the same in all of its rows.
    assert {row["income_quintile"] for row in saved} <= set("12345")
    found = audit_table(tmp_path / "areas.csv", AuditSpec(n_draws=100), root=tmp_path / "runs")
    (heat,) = [one for one in found["domains"] if one["domain"] == "heat"]
    assert heat["n_served"] == 5


def test_the_command_says_it_in_lines(records: Records, tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["records", "locate", str(records.folder)]).output
    assert "10 of        16 have a tract" in said
    assert "6 lost: no location" in said
    # Later pages say how many, and from where.
    about = describe_import(records)
    assert "found no tract and are not compared by income. Most of those were of sr311.csv" in about
    out = tmp_path / "x.csv"
    with pytest.raises(InputError, match="allowed are zip, community_board"):
        write_area_table(records, "county", out)
    assert not out.exists()
    out.write_text("mine\n")
    with pytest.raises(InputError, match="is there already"):
        write_area_table(records, "zip", out)
