"""Another city needs one TOML file; Chicago's is in the package."""

from __future__ import annotations

import json
from datetime import datetime
from importlib.resources import files
from pathlib import Path

import pytest
from tests.unit.feeds.cities import CENTRES, GEOIDS, shapes, write_csv

from parity311.errors import InputError, RecordsError
from parity311.feeds.citymap import read_city_map
from parity311.feeds.importing import import_records
from parity311.records.store import open_records

pytestmark = pytest.mark.slow


CHICAGO = Path(str(files("parity311.feeds") / "maps" / "chicago_311.toml"))
TRACTS = tuple(geoid.replace("36005", "17031").replace("36061", "17031") for geoid in GEOIDS)


def request(number: int, **changes: str) -> dict[str, str]:
    x, y = CENTRES[GEOIDS[number % 4]]
    row = {
        "SR_NUMBER": f"SR24-{number:08d}",
        "SR_TYPE": "Building Violation",
        "OWNER_DEPARTMENT": "DOB - Buildings",
        "STATUS": "Completed",
        "ORIGIN": "Phone Call",
        "CREATED_DATE": "01/10/2024 09:30:00 AM",
        "CLOSED_DATE": "01/20/2024 05:00:00 PM",
        "STREET_ADDRESS": f"{number} W MADISON ST",
        "ZIP_CODE": "60602",
        "DUPLICATE": "false",
        "PARENT_SR_NUMBER": "",
        "LATITUDE": str(y),
        "LONGITUDE": str(x),
    }
    return row | changes


@pytest.fixture
def chicago(tmp_path: Path) -> list[Path]:
    outline = tmp_path / "tracts.geojson"
    outline.write_text(json.dumps(shapes("geoid10", TRACTS)))
    figures = [
        {"GEOID": geoid, "population": 3000, "households": 1000, "median_income": 30_000 * (i + 1),
         "side": "Far North Side", "community_area": 77}
        for i, geoid in enumerate(TRACTS)
    ]  # fmt: skip
    rows = [
        request(1),
        request(2, DUPLICATE="true", PARENT_SR_NUMBER="SR24-00000001", ORIGIN="Internet"),
        request(3, SR_TYPE="Sewer Cleaning Inspection Request", STATUS="Open", CLOSED_DATE=""),
        request(4, SR_TYPE="311 INFORMATION ONLY CALL"),
    ]
    return [
        outline,
        write_csv(tmp_path / "figures.csv", figures),
        write_csv(tmp_path / "chicago.csv", rows),
    ]


@pytest.mark.slow
def test_chicago_becomes_canonical_tables(tmp_path: Path, chicago: list[Path]) -> None:
    manifest = import_records(chicago, tmp_path / "records", city_map=read_city_map(CHICAGO))
    records = open_records(tmp_path / "records")
    records.validate()
    assert records.domains == ("drainage", "housing")
    rows = records.table("complaints", "housing").to_pylist()
    assert [row["incident_id"] for row in rows] == ["SR24-00000001", "SR24-00000001"]
    assert [row["channel"] for row in rows] == ["PHONE", "ONLINE"]
    assert rows[0]["received_at"] == datetime(2024, 1, 10, 9, 30)
    assert rows[0]["building_id"] == "1 W MADISON ST"
    tracts = records.table("tracts")
    assert set(tracts["borough"].to_pylist()) == {"Far North Side"}
    assert tracts["income_quintile"].to_pylist() == [1, 2, 4, 5]
    assert manifest["city"] == "Chicago"
    entry = manifest["sources"][-1]
    assert entry["quarantined"] == {"unknown code": 1}
    assert entry["terms"].startswith("City of Chicago")


def test_boroughs_are_still_checked_in_new_york(tmp_path: Path) -> None:
    """The relaxed check of place names must keep rejecting a wrong borough."""
    from tests.conftest import tiny_tables, write_folder

    tables = tiny_tables()
    at = tables["tracts"].column_names.index("borough")
    import pyarrow as pa

    tables["tracts"] = tables["tracts"].set_column(at, "borough", pa.array(["Bronx", "Loop"]))
    with pytest.raises(RecordsError, match="'Loop' is not allowed"):
        write_folder(tmp_path / "records", tables)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('key = "SR_NUMBER"', "", "does not say which column is 'key'"),
        ('key = "SR_NUMBER"', 'kee = "SR_NUMBER"', "Unknown field in .complaints."),
        ('severity = "A"', 'severity = "X"', "severity of category"),
        ('class = "pending"', 'class = "waiting"', "outcome class of status 'Open'"),
        ('domain = "drainage", severity = "A"', 'domain = "Sewers!"', "give a domain's slug"),
        ("config_version = 1", "config_version = 9", "this version reads 1"),
        ("[channels]", "[chanels]", "Did you mean 'channels'"),
        ("[city]", "[city", "is not TOML"),
        ('severity = "A"', 'severty = "A"', "Unknown key in category .*Did you mean 'severity'"),
        ('{ class = "pending" }', '{ class = "pending", visit = 1 }', "key in status 'Open'"),
        (
            'Open = { class = "pending" }',
            'Open = "pending"',
            "status 'Open' .* is 'pending'; write",
        ),
        ("[city]", '[city]\ntimezone = "x"', "Did you mean 'time_zone'"),
        ('"America/Chicago"', '"Chicago"', "time_zone 'Chicago', which is none"),
        ("[complaints]", '[complaints]\ndate_format = "%Q"', "date_format '%Q', which cannot"),
        ('key = "SR_NUMBER"', 'key = ""', "gives '' as the column of 'key'"),
    ],
)
def test_mistakes_in_the_map_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = CHICAGO.read_text()
    assert old in text
    path = tmp_path / "city.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        read_city_map(path)


def test_a_file_the_map_does_not_fit_is_named(tmp_path: Path, chicago: list[Path]) -> None:
    wrong = write_csv(tmp_path / "wrong.csv", [{"SR_NUMBER": "1", "SR_TYPE": "x", "STATUS": "y"}])
    with pytest.raises(RecordsError, match="looks like complaints of Chicago but has no column"):
        import_records([*chicago[:2], wrong], tmp_path / "out", city_map=read_city_map(CHICAGO))


def test_a_wrong_column_of_the_map_is_named_as_the_user_wrote_it(
    tmp_path: Path, chicago: list[Path]
) -> None:
    path = tmp_path / "city.toml"
    path.write_text(CHICAGO.read_text().replace('"CREATED_DATE"', '"CREATION_DATE"'))
    message = "no column 'CREATION_DATE', which the map gives as received_at.*'CREATED_DATE'"
    with pytest.raises(RecordsError, match=message):
        import_records(chicago, tmp_path / "out", city_map=read_city_map(path))


def test_a_column_that_may_be_absent_is_named_too(tmp_path: Path, chicago: list[Path]) -> None:
    path = tmp_path / "city.toml"
    path.write_text(CHICAGO.read_text().replace('"CLOSED_DATE"', '"CLOSING_DATE"'))
    manifest = import_records(chicago, tmp_path / "out", city_map=read_city_map(path))
    (said,) = manifest["notes"]["columns"]
    assert said["file"] == "chicago.csv"
    assert "'CLOSING_DATE'" in said["note"]


@pytest.mark.parametrize(
    ("removed", "incidents"),
    [
        ((), ["SR24-00000001", "SR24-00000001"]),
        (('duplicate = "DUPLICATE"',), ["SR24-00000001", "SR24-00000001"]),
        (('duplicate = "DUPLICATE"', 'parent = "PARENT_SR_NUMBER"'), [None, None]),
    ],
    ids=["marked", "by its parent only", "not marked"],
)
def test_nobody_is_an_original_where_nothing_is_marked(
    tmp_path: Path, chicago: list[Path], removed: tuple[str, ...], incidents: list[str | None]
) -> None:
    """Without a mark of duplicates nothing is known of them: no incident per complaint."""
    text = CHICAGO.read_text()
    for line in removed:
        assert line in text
        text = text.replace(line, "")
    path = tmp_path / "city.toml"
    path.write_text(text)
    import_records(chicago, tmp_path / "out", city_map=read_city_map(path))
    rows = open_records(tmp_path / "out").table("complaints", "housing")
    assert rows["incident_id"].to_pylist() == incidents


@pytest.mark.slow
def test_times_with_an_offset_turn_to_the_citys_clock(tmp_path: Path, chicago: list[Path]) -> None:
    rows = [request(1, CREATED_DATE="2024-01-10T15:30:00+00:00", CLOSED_DATE="")]
    write_csv(chicago[2], rows)
    path = tmp_path / "city.toml"
    path.write_text(CHICAGO.read_text().replace('time_zone = "America/Chicago"', ""))
    with pytest.raises(InputError, match="time_zone"):
        import_records(chicago, tmp_path / "out", city_map=read_city_map(path))
    own = '[complaints]\ndate_format = "%Y-%m-%dT%H:%M:%S%z"'
    path.write_text(path.read_text().replace("[complaints]", own))
    with pytest.raises(InputError, match="say whose clock"):
        read_city_map(path)
    path.write_text(CHICAGO.read_text().replace("[complaints]", own))
    import_records(chicago, tmp_path / "own", city_map=read_city_map(path))
    rows = open_records(tmp_path / "own").table("complaints", "housing")
    assert rows["received_at"].to_pylist() == [datetime(2024, 1, 10, 9, 30)]
    import_records(chicago, tmp_path / "out", city_map=read_city_map(CHICAGO))
    rows = open_records(tmp_path / "out").table("complaints", "housing")
    assert rows["received_at"].to_pylist() == [datetime(2024, 1, 10, 9, 30)]
