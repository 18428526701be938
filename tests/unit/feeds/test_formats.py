"""Files are recognised by their headers, whatever the portal called its columns that year."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.feeds import cities

from parity311.errors import RecordsError
from parity311.feeds.importing import import_records
from parity311.feeds.recognise import recognise
from parity311.records.store import open_records

pytestmark = pytest.mark.slow


HEADERS = {
    "api": None,
    "until 2025": cities.OLD_HEADERS,
    "December 2025": cities.DECEMBER_2025_HEADERS,
    "about 2018": cities.EARLY_HEADERS,
}


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def test_every_311_header_gives_the_same_rows(
    tmp_path: Path, headers: dict[str, str] | None, delimiter: str
) -> None:
    rows = [cities.sr311_row(1), cities.sr311_row(2, descriptor="APARTMENT ONLY")]
    path = cities.write_csv(tmp_path / "rows.csv", rows, headers, delimiter)
    assert recognise(path).kind == "sr311"
    import_records([*cities.write_tracts(tmp_path), path], tmp_path / "records")
    table = open_records(tmp_path / "records").table("complaints", "heat")
    assert table["complaint_id"].to_pylist() == ["SR-50000001", "SR-50000002"]
    assert table["is_building_wide"].to_pylist() == [True, False]


def test_api_rows_as_json(tmp_path: Path) -> None:
    """The API leaves out null fields: the second row has no closing at all."""
    rows = [cities.sr311_row(1), cities.sr311_row(2)]
    del rows[1]["closed_date"], rows[1]["resolution_description"]
    rows[0]["location"] = {"type": "Point", "coordinates": [-73.9, 40.8]}
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    import_records([*cities.write_tracts(tmp_path), path], tmp_path / "records")
    outcomes = open_records(tmp_path / "records").table("outcomes", "heat")
    assert outcomes["disposition_class"].to_pylist() == ["no_violation", "other"]


def test_a_renamed_column_is_named_with_its_nearest(tmp_path: Path) -> None:
    path = cities.write_csv(
        tmp_path / "rows.csv", [cities.sr311_row(1)],
        cities.OLD_HEADERS | {"created_date": "Creation Date"},
    )  # fmt: skip
    with pytest.raises(RecordsError, match=r"no column 'created_date'.*Perhaps 'Creation Date'"):
        recognise(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("some words\nof a text\n", "none of the files that can be imported"),
        ('{"message": "no", "errorCode": "query.soql.no-such-column"}', "an error the server"),
        ("[", "holds no rows"),
    ],
)
def test_what_is_no_export_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(RecordsError, match=message):
        recognise(path)


def test_another_citys_file_is_no_tax_lots(tmp_path: Path) -> None:
    """Coordinates alone made it look like PLUTO."""
    path = tmp_path / "requests.csv"
    path.write_text("case_id,open_dt,case_title,latitude,longitude\n1,2024-01-01,Heat,42.3,-71.1\n")
    with pytest.raises(RecordsError, match="none of the files.*case_id, open_dt.*--map"):
        recognise(path)
    path.write_text("bbl,latitude,longitude\n1000010001,40.7,-74.0\n")
    with pytest.raises(RecordsError, match=r"looks like tax lots .* no column 'unitsres'"):
        recognise(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"There is no file .*nowhere\.csv"):
        recognise(tmp_path / "nowhere.csv")
