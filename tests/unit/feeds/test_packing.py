"""Files as agencies and portals hand them out give the same rows as a plain CSV."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
import xlsxwriter
from tests.unit.feeds import cities

from parity311.errors import InputError, RecordsError
from parity311.feeds.importing import import_records
from parity311.feeds.recognise import recognise
from parity311.records.store import open_records

pytestmark = pytest.mark.slow


ROWS = [
    cities.sr311_row(1),
    cities.sr311_row(2, incident_address="2 CALLE ÑANDÚ", closed_date="", status="Open"),
]
IDS = ["SR-50000001", "SR-50000002"]


def csv_text(rows: list[dict] = ROWS, *, index: bool = False, last: bool = False) -> str:
    """CSV, with a nameless first column as pandas writes it, or a nameless last one."""
    out = io.StringIO()
    writer = csv.writer(out)
    extra = [[""] * index, [""] * (2 * last)]
    writer.writerow([*extra[0], *rows[0], *extra[1]])
    for place, row in enumerate(rows):
        writer.writerow([*([place] * index), *row.values(), *([place] * (2 * last))])
    return out.getvalue()


def portal_json(rows: list[dict] = ROWS) -> str:
    """As a portal's rows.json: columns under meta, rows as lists under data."""
    names = [":sid", *rows[0], "location"]
    columns = [{"name": name.upper(), "fieldName": name, "dataTypeName": "text"} for name in names]
    data = [
        [f"row-{k}", *(value or None for value in row.values()), [None, "40.8", "-73.9", None]]
        for k, row in enumerate(rows)
    ]
    meta = {"view": {"id": "erm2-nwe9", "name": "311", "columns": columns}}
    return json.dumps({"meta": meta, "data": data}, indent=1)


def cities_rows() -> list[dict]:
    """The rows in letters that all encodings share."""
    return [row | {"incident_address": f"{k} MAIN ST"} for k, row in enumerate(ROWS)]


def write_zip(path: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)


def write_workbook(path: Path, rows: list[dict] = ROWS) -> None:
    """As an agency's clerk makes it: a cover sheet, a title above the table, real dates."""
    book = xlsxwriter.Workbook(path)
    book.add_worksheet("About").write(0, 0, "Made by hand")
    sheet = book.add_worksheet("Complaints")
    sheet.write(0, 1, "Heat complaints, winter")
    shown = book.add_format({"num_format": "m/d/yyyy h:mm AM/PM"})
    sheet.write_row(3, 1, list(rows[0]))
    for number, row in enumerate(rows, start=4):
        for place, (name, value) in enumerate(row.items(), start=1):
            if name.endswith("_date") and value:
                sheet.write_datetime(number, place, datetime.fromisoformat(value), shown)
            elif name in ("unique_key", "bbl", "latitude", "longitude", "incident_zip"):
                sheet.write_number(number, place, float(value))
            else:
                sheet.write(number, place, value)
    book.close()


WAYS = {
    "workbook": write_workbook,
    "Windows-1252": lambda path: path.write_text(
        csv_text([row | {"status": row["status"], "x": "Peña Núñez"} for row in ROWS]),
        encoding="cp1252",
    ),
    "pandas index": lambda path: path.write_text(csv_text(index=True)),
    "nameless at the end": lambda path: path.write_text(csv_text(last=True)),
    "nameless on both sides": lambda path: path.write_text(csv_text(index=True, last=True)),
    "column twice": lambda path: path.write_text(
        csv_text([row | {"Status": "x", "STATUS": "y"} for row in ROWS])
    ),
    "Windows-1252, one letter in a name": lambda path: path.write_text(
        csv_text([row | {"Größe": "x"} for row in cities_rows()]), encoding="cp1252"
    ),
    "lines end by carriage returns": lambda path: path.write_text(
        csv_text().replace("\r\n", "\r"), newline=""
    ),
    "quotation marks behind backslashes": lambda path: path.write_text(
        csv_text([row | {"note": "said XX, twice"} for row in ROWS]).replace("XX", '\\"hot\\"')
    ),
    "UTF-16": lambda path: path.write_text(csv_text(), encoding="utf-16"),
    "UTF-16 without mark": lambda path: path.write_text(csv_text(), encoding="utf-16-le"),
    "gzip under another name": lambda path: path.write_bytes(gzip.compress(csv_text().encode())),
    "zip": lambda path: write_zip(path, {"rows.csv": csv_text()}),
    "zip with what the columns mean": lambda path: write_zip(
        path, {"data_dictionary.csv": "column,meaning", "rows.csv": csv_text(), "README.txt": "x"}
    ),
    "portal rows.json": lambda path: path.write_text(portal_json()),
    "portal rows.json in a zip": lambda path: write_zip(path, {"rows.json": portal_json()}),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_rows_however_packed(tmp_path: Path, way: str) -> None:
    path = tmp_path / "given"
    WAYS[way](path)
    manifest = import_records([*cities.write_tracts(tmp_path), path], tmp_path / "records")
    records = open_records(tmp_path / "records")
    assert records.table("complaints", "heat")["complaint_id"].to_pylist() == IDS
    closed = records.table("outcomes", "heat")["closed_at"].to_pylist()
    assert [time is None for time in closed] == [False, True]
    entry = manifest["sources"][-1]
    assert (entry["rows_in"], entry["kept"], list(entry["files"])) == (2, 2, ["given"])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": "x", "b.csv": "y"}, r"holds 2 files \(a.csv, b.csv\), and one is read"),
        ({"[Content_Types].xml": "x", "word/document.xml": "y"}, "is a document, not a table"),
        ({"tracts.shp": "x", "tracts.dbf": "y"}, "export it as GeoJSON"),
    ],
)
def test_archives_that_are_no_table_say_what_to_do(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    write_zip(tmp_path / "given.zip", files)
    with pytest.raises(RecordsError, match=message):
        recognise(tmp_path / "given.zip")


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_half_a_download_of_a_portal_is_refused(tmp_path: Path, share: float) -> None:
    text = portal_json()
    path = tmp_path / "rows.json"
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(RecordsError, match="download it again"):
        import_records([*cities.write_tracts(tmp_path), path], tmp_path / "records")
    assert not (tmp_path / "records").exists()


def test_the_import_says_what_a_workbook_was_read_as(tmp_path: Path) -> None:
    path = tmp_path / "heat.xlsx"
    write_workbook(path)
    said = recognise(path).describe()
    assert "311 service requests, since it has created_date, agency, complaint_type" in said
    assert "sheet 'Complaints', header in row 4; not read: About" in said
    with pytest.raises(RecordsError, match="no table in sheet 'About'"):
        recognise(path, sheet="About")
    with pytest.raises(InputError, match="Did you mean 'Complaints'"):
        recognise(path, sheet="Complaint")


def test_half_a_workbook_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "heat.xlsx"
    write_workbook(path)
    whole = path.read_bytes()
    for share in (0.3, 0.8):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(RecordsError, match="download it again"):
            recognise(path)


def test_the_user_may_say_what_a_file_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(csv_text())
    assert recognise(path, kind="sr311").describe().startswith("311 service requests, as was said")
    with pytest.raises(RecordsError, match="none of the files|has no column"):
        recognise(path, kind="dob")
    with pytest.raises(InputError, match="Did you mean 'sr311'"):
        recognise(path, kind="sr31")


def test_a_damaged_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "given.zip"
    write_zip(path, {"rows.csv": csv_text()})
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(RecordsError, match="download it again"):
        recognise(path)
