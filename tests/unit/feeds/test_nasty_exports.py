"""Exports as agencies really send them: told apart, read, or refused by what they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import xlsxwriter
from tests.unit.feeds.cities import CENTRES, GEOIDS, shapes, write_csv
from tests.unit.feeds.conftest import Importer
from tests.unit.feeds.test_portal_maps import TRACTS
from tests.unit.feeds.test_propose import row, write_unknown_city

from parity311.errors import EstimationError, InputError, RecordsError
from parity311.feeds.boundaries import read_boundaries
from parity311.feeds.citymap import people_numbers, read_city_map
from parity311.feeds.importing import import_records
from parity311.feeds.propose import Proposal, propose_map
from parity311.feeds.recognise import recognise
from parity311.pipelines.abilities import NOT, find_abilities
from parity311.pipelines.audit_records import audit_records
from parity311.records.quality import check_records, describe_notes
from parity311.records.store import open_records
from parity311.reporting.own_csv import read_table

pytestmark = pytest.mark.slow

Writer = Callable[[list[dict[str, str]]], str]

NO_TABLES = {
    "web page": (b"<!DOCTYPE html>\n<html><head><title>503 Busy</title></head></html>", "503 Busy"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + bytes(range(256)), "is a PDF, not a table"),
    "XML": (b"<?xml version='1.0'?><rows><row/></rows>", "is XML, not a table.*GeoJSON"),
    "Parquet": (b"PAR1\x15\x04", "is Parquet, not a table; save it as CSV"),
    "rar": (b"Rar!\x1a\x07", "an archive of a kind that is not read"),
}


@pytest.mark.parametrize("kind", NO_TABLES)
def test_a_file_that_is_no_table_is_called_what_it_is(tmp_path: Path, kind: str) -> None:
    """Whichever command is given it; PDF ended in a traceback, and a web page in an empty map."""
    path = tmp_path / "export.csv"
    content, said = NO_TABLES[kind]
    path.write_bytes(content)
    with pytest.raises(RecordsError, match=said):
        recognise(path)
    with pytest.raises(RecordsError, match=said):
        propose_map([path], tmp_path)
    with pytest.raises(RecordsError, match=said):
        read_table(path, ("area",), ("area",), "complaint")


def propose(folder: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Proposal:
    (folder / "scratch").mkdir(exist_ok=True)
    files = write_unknown_city(folder)
    files[0] = write_csv(folder / "export.csv", rows, delimiter=delimiter)
    return propose_map(files, folder / "scratch")


def bring(folder: Path, found: Proposal) -> dict[str, object]:
    """Import what a proposal was made of, by the proposal as it is; give the export's account."""
    (folder / "city.toml").write_text(found.text)
    files = [folder / name for name in ("export.csv", "tracts.csv", "tracts.geojson")]
    own = read_city_map(folder / "city.toml")
    manifest = import_records(files, folder / "out", city_map=own)
    return manifest["sources"][0] | {"notes": manifest["notes"]}


def test_spanish_names_and_decimal_commas(tmp_path: Path) -> None:
    kinds = ("Falta de calefacción", "Bache", "Alcantarilla tapada", "Vivienda insalubre")
    rows = [
        {
            "Número de solicitud": one["Ticket Number"],
            "Fecha de apertura": one["Date Opened"].replace(".", "/"),
            "Fecha de cierre": one["Date Closed"].replace(".", "/"),
            "Tipo de queja": kinds[k % 4],
            "Estado": "Abierto" if k % 5 == 0 else "Sin infracción" if k % 2 else "Multa emitida",
            "Canal": "Teléfono" if k % 2 else "Aplicación móvil",
            "Dirección": one["Street Address"],
            "Longitud": one["Lng"].replace(".", ","),
            "Latitud": one["Lat"].replace(".", ","),
        }
        for k, one in enumerate(row(k) for k in range(60))
    ]
    found = propose(tmp_path, rows, ";")
    assert found.missing == ()
    assert not [note for note in found.notes if "which number is the day" in note]
    source = bring(tmp_path, found)
    assert (source["kept"], source["out_of_scope"]) == (45, 15)
    records = open_records(tmp_path / "out")
    assert records.domains == ("drainage", "heat", "housing")
    classes = {
        one["disposition_class"] for one in records.sql("SELECT * FROM outcomes").to_pylist()
    }
    assert classes == {"pending", "no_violation", "violation"}
    assert set(records.sql("SELECT channel FROM complaints")["channel"].to_pylist()) == {
        "PHONE",
        "MOBILE",
    }


def test_exchanged_coordinates_are_turned_round_and_said(tmp_path: Path) -> None:
    rows = [one | {"Lng": one["Lat"], "Lat": one["Lng"]} for one in (row(k) for k in range(60))]
    found = propose(tmp_path, rows)
    placed = {one.field: one.column for one in found.guesses}
    assert (placed["longitude"], placed["latitude"]) == ("Lat", "Lng")
    assert "the other way round" in " ".join(found.notes)
    assert bring(tmp_path, found)["kept"] == 45


def test_feet_are_called_feet(tmp_path: Path) -> None:
    rows = [row(k) | {"Lng": "", "Lat": ""} for k in range(9)]
    for k, one in enumerate(rows):
        del one["Lng"], one["Lat"]
        one |= {"X_COORD": f"{985_000 + k}", "Y_COORD": f"{195_000 + k}"}
    found = propose(tmp_path, rows)
    assert {"longitude", "latitude"} <= set(found.missing)
    assert "X_COORD and Y_COORD are feet or metres" in " ".join(found.notes)


def test_outlines_in_feet_are_refused(tmp_path: Path) -> None:
    """They took all memory there was."""
    outline = shapes()
    for feature in outline["features"]:
        ring = feature["geometry"]["coordinates"][0]
        feature["geometry"]["coordinates"] = [[[x * 1e4, y * 1e4] for x, y in ring]]
    path = tmp_path / "tracts.geojson"
    path.write_text(json.dumps(outline))
    with pytest.raises(RecordsError, match=r"no longitude and latitude.*EPSG:4326"):
        read_boundaries(path)


def test_one_complaint_and_none(tmp_path: Path) -> None:
    found = propose(tmp_path, [row(14)])
    assert found.missing == ()
    assert bring(tmp_path, found)["kept"] == 1
    (tmp_path / "export.csv").write_text(",".join(row(14)) + "\n")
    with pytest.raises(RecordsError, match="a header and no rows"):
        propose_map([tmp_path / "export.csv"], tmp_path / "scratch")


def test_an_empty_column_keeps_its_name(tmp_path: Path) -> None:
    found = propose(tmp_path, [row(k) | {"Date Closed": ""} for k in range(30)])
    (closed,) = [one for one in found.guesses if one.field == "closed_at"]
    assert (closed.column, closed.sureness) == ("Date Closed", "likely")


def test_numbers_that_lost_their_zero_and_dollars(tmp_path: Path) -> None:
    """A spreadsheet takes the zero from California's tracts, and writes incomes for people."""
    found = propose(tmp_path, [row(k) for k in range(60)])
    ids = tuple("06037" + geoid[5:] for geoid in GEOIDS)
    (tmp_path / "tracts.geojson").write_text(json.dumps(shapes("GEOID20", ids)))
    figures = [
        {"GEOID": given, "Total Population": "3,000", "Total Households": "1,000",
         "Median Household Income": income}
        for given, income in zip(
            (ids[0][1:], f"1400000US{ids[1]}", f"{ids[2][1:]}.0", ids[3]),
            ("$30,000", "$60,500", "250,000+", "-666666666"), strict=True,
        )
    ]  # fmt: skip
    write_csv(tmp_path / "tracts.csv", figures)
    bring(tmp_path, found)
    tracts = open_records(tmp_path / "out").table("tracts")
    assert tuple(tracts["geoid"].to_pylist()) == ids
    assert tracts["median_income"].to_pylist() == [30_000, 60_500, 250_000, None]
    assert tracts["population"].to_pylist() == [3000] * 4


def test_nothing_written_as_zero_is_no_place(tmp_path: Path) -> None:
    rows = [row(k) | ({"Lng": "0", "Lat": "0"} if k % 2 else {}) for k in range(60)]
    found = propose(tmp_path, rows)
    assert bring(tmp_path, found)["quarantined"] == {"no location": 15}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_half_a_download_is_counted_once_and_said(tmp_path: Path, ending: str) -> None:
    """Lines that end as Windows ends them were counted twice where they could not be read."""
    found = propose(tmp_path, [row(k) for k in range(60)])
    path = tmp_path / "export.csv"
    lines = path.read_text().splitlines()
    path.write_bytes((ending.join(lines[:40]) + ending + lines[40][:30]).encode())
    source = bring(tmp_path, found)
    assert source["rows_in"] == 40
    assert source["quarantined"] == {"unreadable line: missing columns": 1}
    warnings = " ".join(check_records(open_records(tmp_path / "out"))["warnings"])
    assert "export.csv: the last line breaks off" in warnings


def test_years_that_cannot_be(tmp_path: Path) -> None:
    rows = [row(k) for k in range(60)]
    rows[4]["Date Opened"], rows[2]["Date Opened"] = "01.01.1900 10:00", "13.01.2100 10:00"
    rows[3]["Date Closed"], rows[7]["Date Closed"] = "01.01.1900 10:00", "31.12.2100 10:00"
    found = propose(tmp_path, rows)
    source = bring(tmp_path, found)
    assert source["quarantined"] == {
        "received date before any record": 1,
        "received in the future": 1,
    }
    records = open_records(tmp_path / "out")
    outcomes = records.sql("SELECT * FROM outcomes")
    closed = dict(zip(*(outcomes[name].to_pylist()
                        for name in ("complaint_id", "closed_at")), strict=True))  # fmt: skip
    assert closed["T-3"] is None
    assert closed["T-7"] is None
    said = " ".join(check_records(records)["warnings"])
    assert "1 closings lie in the future and are taken as not closed" in said


def test_one_row_a_visit_is_said(tmp_path: Path) -> None:
    rows = [row(k) | {"Visit": str(n)} for k in range(30) for n in range(2)]
    source = bring(tmp_path, propose(tmp_path, rows))
    assert source["notes"]["repeated keys"] == [{"file": "export.csv", "rows": 22, "of": 60}]
    said = " ".join(check_records(open_records(tmp_path / "out"))["warnings"])
    assert "the earlier visits are not read" in said


FOUND = "The Department inspected the following conditions. Violations were issued."


def heat(import_rows: Importer, at_once: int, n: int = 60) -> Path:
    """Heat complaints with a violation each, the first so many closed as they came in."""
    from tests.unit.feeds.cities import sr311_row

    rows = []
    for k in range(n):
        received = datetime(2024, 1, 1, 9, 30) + timedelta(days=k)
        closed = received if k < at_once else received + timedelta(hours=8)
        x, y = CENTRES[GEOIDS[k % 4]]
        rows.append(
            sr311_row(
                k,
                created_date=received.isoformat(),
                closed_date=closed.isoformat(),
                resolution_description=FOUND,
                longitude=str(x),
                latitude=str(y),
            )
        )
    return import_rows(sr311=rows)[0].folder


def test_a_closing_at_receipt_dates_no_visit(import_rows: Importer, tmp_path: Path) -> None:
    folder = heat(import_rows, at_once=20)
    records = open_records(folder)
    outcomes = records.table("outcomes", "heat").to_pylist()
    unknown = [one for one in outcomes if one["closing_is_unknown"]]
    assert len(unknown) == 20
    assert {one["first_visit_at"] for one in unknown} == {None}
    assert records.table("visits", "heat").num_rows == 40
    domain = check_records(records)["domains"]["heat"]
    assert domain["closing_days_median"] == pytest.approx(8 / 24)
    assert domain["share_usable"] == pytest.approx(40 / 60)
    said = audit_records(folder, root=tmp_path)["estimates"]["heat"]
    assert "20 violations that were found on no known day count as not found in time" in said


def test_nobody_is_called_unserved_where_no_day_is_known(
    import_rows: Importer, tmp_path: Path
) -> None:
    folder = heat(import_rows, at_once=40)
    with pytest.raises(EstimationError, match="not known for 40 of 60 of 'heat'"):
        audit_records(folder, root=tmp_path)
    found = {one.work: one for one in find_abilities(open_records(folder))}
    assert found["audit"].state == NOT
    assert found["audit"].needed == "days of inspections, or of closings"


def test_without_incomes_it_is_said(tmp_path: Path) -> None:
    found = propose(tmp_path, [row(k) for k in range(60)])
    text = (tmp_path / "tracts.csv").read_text().splitlines()
    bare = [text[0], *(line.rsplit(",", 1)[0] + "," for line in text[1:])]
    (tmp_path / "tracts.csv").write_text("\n".join(bare) + "\n")
    bring(tmp_path, found)
    records = open_records(tmp_path / "out")
    assert "lie where no income is known" in " ".join(check_records(records)["warnings"])
    audits = [one for one in find_abilities(records) if one.work == "audit"]
    assert {one.reason for one in audits} == {
        "no tract has a known income, so nothing can be compared by it"
    }


def test_an_order_of_dates_nobody_can_tell_is_left_open(tmp_path: Path) -> None:
    rows = [row(k) | {"Date Opened": f"0{1 + k % 9}/03/2025 10:00", "Date Closed": ""}
            for k in range(20)]  # fmt: skip
    found = propose(tmp_path, rows)
    assert "# day_first = false" in found.text
    with pytest.raises(InputError, match="which number is the day"):
        bring(tmp_path, found)


def described(one: dict[str, object]) -> str:
    return str(one["read_as"]) + " " + " ".join(describe_notes(one["notes"]))


def as_points(rows: list[dict[str, str]]) -> str:
    """GeoJSON of points, as a portal writes complaints."""
    features = [
        {
            "type": "Feature",
            "properties": {name: text for name, text in one.items() if name not in ("Lng", "Lat")},
            "geometry": {"type": "Point", "coordinates": [float(one["Lng"]), float(one["Lat"])]},
        }
        for one in rows
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


def as_arcgis(rows: list[dict[str, str]]) -> str:
    """The answer of a feature server: times counted in milliseconds, more rows than it gives."""

    def attributes(one: dict[str, str]) -> dict[str, object]:
        opened = datetime.strptime(one["Date Opened"], "%d.%m.%Y %H:%M").replace(tzinfo=UTC)
        return one | {"Date Opened": int(opened.timestamp() * 1000), "Lng": None, "Lat": None}

    features = [
        {
            "attributes": {n: v for n, v in attributes(one).items() if n not in ("Lng", "Lat")},
            "geometry": {"x": float(one["Lng"]), "y": float(one["Lat"])},
        }
        for one in rows
    ]
    fields = [{"name": "OBJECTID", "type": "esriFieldTypeOID"}]
    return json.dumps({"fields": fields, "exceededTransferLimit": True, "features": features})


def as_web_mercator(rows: list[dict[str, str]]) -> str:
    """What a feature server answers where nobody asks for degrees."""
    answer = json.loads(as_arcgis(rows))
    for one in answer["features"]:
        x, y = one["geometry"]["x"], one["geometry"]["y"]
        half = 20_037_508.342789244
        north = np.log(np.tan((90 + y) * np.pi / 360)) / np.pi * half
        one["geometry"] = {"x": x / 180 * half, "y": float(north)}
    reference = {"spatialReference": {"wkid": 102100, "latestWkid": 3857}}
    return json.dumps(reference | answer)


def as_ckan(rows: list[dict[str, str]]) -> str:
    """CKAN's answer, one page of more."""
    names = [{"id": name, "type": "text"} for name in rows[0]]
    result = {"fields": names, "records": rows, "total": 10 * len(rows)}
    return json.dumps({"help": "…", "success": True, "result": result})


def as_ckan_lists(rows: list[dict[str, str]]) -> str:
    """CKAN's dump as JSON: rows as lists."""
    names = [{"id": name, "type": "text"} for name in rows[0]]
    return json.dumps({"fields": names, "records": [list(one.values()) for one in rows]})


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (as_points, "points of GeoJSON"),
        (as_arcgis, "the server says that these are not all of its rows (60)"),
        (as_arcgis, "times counted from 1970 at Greenwich, like '17"),
        (as_web_mercator, "turned from Web Mercator to degrees"),
        (as_ckan, "not all of its rows (60 of 600)"),
        (as_ckan_lists, "rows under 'records'"),
    ],
)
def test_rows_within_an_answer(tmp_path: Path, write: Writer, said: str) -> None:
    """Points were taken for outlines, and an answer for one row."""
    (tmp_path / "scratch").mkdir()
    files = write_unknown_city(tmp_path)
    files[0] = tmp_path / "export.csv"
    files[0].write_text(write([row(k) for k in range(60)]))
    found = propose_map(files, tmp_path / "scratch")
    assert found.missing == ()
    source = bring(tmp_path, found)
    assert (source["rows_in"], source["kept"]) == (60, 45)
    assert said in described(source)


@pytest.mark.parametrize("write", [as_points, as_ckan])
def test_half_an_answer_is_refused(tmp_path: Path, write: Writer) -> None:
    path = tmp_path / "export.json"
    text = write([row(k) for k in range(60)])
    path.write_text(text[: len(text) // 2])
    with pytest.raises(RecordsError, match="cut off"):
        recognise(path)


@pytest.mark.parametrize(
    "titles", ["sep=,\n", "Buildings Department,,,,,\nComplaints 2023,,,,,\n,,,,,\n"]
)
def test_titles_above_the_header(tmp_path: Path, titles: str) -> None:
    """The first line was taken for the header, and the file for one without columns."""
    rows = [row(k) for k in range(60)]
    found = propose(tmp_path, rows)
    plain = bring(tmp_path, found)
    export = tmp_path / "export.csv"
    export.write_text(titles + export.read_text() + "Total,60,,,,,,,\n")
    again = propose_map([export, tmp_path / "tracts.csv", tmp_path / "tracts.geojson"], tmp_path)
    assert again.guesses == found.guesses
    (tmp_path / "out").rename(tmp_path / "plain")
    source = bring(tmp_path, found)
    assert source["kept"] == plain["kept"]
    assert source["rows_in"] == 61
    assert f"header in line {titles.count(chr(10)) + 1}" in described(source)


def test_one_column_of_points(tmp_path: Path) -> None:
    rows = [row(k) | {"Location": f"({row(k)['Lat']}, {row(k)['Lng']})"} for k in range(60)]
    for one in rows:
        del one["Lng"], one["Lat"]
    found = propose(tmp_path, rows)
    assert ("point", "Location") in {(one.field, one.column) for one in found.guesses}
    assert bring(tmp_path, found)["kept"] == 45


def test_nothing_written_in_words_joins_no_strangers(tmp_path: Path) -> None:
    """NULL as an address made one building of all that had none."""
    rows = [row(k) | {"Street Address": "NULL"} for k in range(60)]
    found = propose(tmp_path, [row(k) for k in range(60)])
    write_csv(tmp_path / "export.csv", rows)
    assert bring(tmp_path, found)["kept"] == 45
    records = open_records(tmp_path / "out")
    assert records.sql("SELECT count(building_id) AS n FROM complaints")["n"][0].as_py() == 0


def test_a_key_that_repeats_is_named_and_doubted(tmp_path: Path) -> None:
    rows = [row(k) | {"Ticket Number": f"1.0100{k % 3}E+11"} for k in range(60)]
    found = propose(tmp_path, rows)
    assert found.missing == ()
    assert "a spreadsheet shortened its numbers" in " ".join(found.notes)
    rows = [row(k) | {"Ticket Number": f"T{k // 3}"} for k in range(60)]
    assert "visits or changes of status" in " ".join(propose(tmp_path, rows).notes)


def test_a_column_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    rows = [row(k) | {"Lng": f"-75,198,{k:03d}"} for k in range(60)]
    found = propose(tmp_path, rows)
    assert "longitude" in found.missing
    assert "Lng is named like longitude, and its values, like" in " ".join(found.notes)


def test_areas_by_any_code_that_table_and_outlines_share(tmp_path: Path) -> None:
    """Of a city whose areas are no census tracts of the United States."""
    (tmp_path / "scratch").mkdir()
    files = write_unknown_city(tmp_path)
    codes = {geoid: f"E0{k:07d}" for k, geoid in enumerate(TRACTS)}
    for path in files[1:]:
        text = path.read_text()
        for geoid, code in codes.items():
            text = text.replace(geoid, code)
        path.write_text(text)
    found = propose_map(files, tmp_path / "scratch")
    (tmp_path / "export.csv").write_bytes(files[0].read_bytes())
    assert bring(tmp_path, found)["kept"] > 0
    assert set(
        open_records(tmp_path / "out").sql("SELECT geoid FROM tracts")["geoid"].to_pylist()
    ) == set(codes.values())


@pytest.mark.parametrize(
    ("texts", "is_whole", "expected"),
    [
        (["$45,312", "250,000+", "**"], True, [45312, 250000, None]),
        (["25.000,50", "1.250"], True, [25000.5, 1250]),
        (["4.120", "3.000"], True, [4120, 3000]),
        (["4 120", "4'120", "4\u00a0120"], True, [4120, 4120, 4120]),
        (["45312.25", "800.5"], True, [45312.25, 800.5]),
        (["0,353", "0,1"], False, [0.353, 0.1]),
        (["0.353"], False, [0.353]),
        (["-666666666", None], True, [-666666666, None]),
    ],
)
def test_numbers_as_people_write_them(
    texts: list[str | None], is_whole: bool, expected: list[float | None]
) -> None:
    """A dot between thousands made 25 of 25,000."""
    found = people_numbers(texts, is_whole)
    assert [None if np.isnan(one) else one for one in found] == expected


def test_sheets_of_several_years_are_read_together(tmp_path: Path) -> None:
    """Only the first was, so that a workbook lost every year but one."""
    rows = [row(k) for k in range(60)]
    found = propose(tmp_path, rows)
    with xlsxwriter.Workbook(tmp_path / "export.xlsx") as book:
        book.add_worksheet("Read me").write(0, 0, "Complaints")
        for year, part in (("2023", rows[:40]), ("2024", rows[40:])):
            sheet = book.add_worksheet(year)
            sheet.merge_range(0, 0, 0, 3, "Request")
            for line, one in enumerate([list(rows[0]), *(list(r.values()) for r in part)]):
                sheet.write_row(line + 1, 0, one)
        book.add_worksheet("Codes").write_row(0, 0, ["Code", "Meaning"])
    (tmp_path / "export.csv").unlink()
    (tmp_path / "export.xlsx").rename(tmp_path / "export.csv")
    source = bring(tmp_path, found)
    assert (source["rows_in"], source["kept"]) == (60, 45)
    assert "below it '2024' with the same columns" in described(source)


def test_a_round_number_of_rows_is_said(tmp_path: Path) -> None:
    found = propose(tmp_path, [row(k) for k in range(1_000)])
    assert "has exactly 1,000 rows" in described(bring(tmp_path, found))


def test_a_portal_is_not_told_by_names_that_all_use(tmp_path: Path) -> None:
    """Any Open311 file was called San Francisco's."""
    rows = [
        {
            "service_request_id": str(k),
            "requested_datetime": "2024-01-05T10:00:00",
            "service_name": "No heat",
            "lat": row(k)["Lat"],
            "long": row(k)["Lng"],
        }
        for k in range(20)
    ]
    assert propose(tmp_path, rows).known_as == ""


def without_coordinates(n: int = 60) -> list[dict[str, str]]:
    """Rows that name their tract alone, as a spreadsheet leaves its number."""
    rows = [{k: v for k, v in row(k).items() if k not in ("Lng", "Lat")} for k in range(n)]
    return [
        one | {"Census Tract": f"{TRACTS[k % 4]}.0", "Ward": str(1 + k % 3)}
        for k, one in enumerate(rows)
    ]


def test_rows_that_name_their_tract_alone_are_placed_by_it(tmp_path: Path) -> None:
    """No row without coordinates of its own could be imported."""
    found = propose(tmp_path, without_coordinates())
    assert {one.field: one.column for one in found.guesses}["tract"] == "Census Tract"
    assert found.missing == ()
    assert bring(tmp_path, found)["kept"] == 45
    placed = open_records(tmp_path / "out").sql(
        "SELECT complaint_id, tract, located_by FROM complaints"
    )
    assert set(placed["located_by"].to_pylist()) == {"code"}
    for one in placed.to_pylist():
        assert one["tract"] == TRACTS[int(one["complaint_id"].rpartition("-")[2]) % 4]


def test_a_ward_is_no_tract_and_no_place_at_all_is_said(tmp_path: Path) -> None:
    rows = [{k: v for k, v in one.items() if k != "Census Tract"} for one in without_coordinates()]
    found = propose(tmp_path, rows)
    assert {"longitude", "latitude"} <= set(found.missing)
    assert "no column says where" in " ".join(found.notes)


def test_the_last_change_closes_only_what_is_closed(tmp_path: Path) -> None:
    """Open311 has no other date of closing, and every open request has that one."""
    renamed = {"Date Closed": "updated_datetime", "Ticket Status": "status"}
    rows = [{renamed.get(name, name): text for name, text in row(k).items()} for k in range(60)]
    for one in rows:
        one["updated_datetime"] = one["updated_datetime"] or "20.03.2025 08:00"
    bring(tmp_path, propose(tmp_path, rows))
    outcomes = open_records(tmp_path / "out").sql("SELECT * FROM outcomes").to_pylist()
    closed = {one["disposition_class"] for one in outcomes if one["closed_at"] is not None}
    still = {one["disposition_class"] for one in outcomes if one["closed_at"] is None}
    assert (closed, still) == ({"other"}, {"pending"})


def test_closings_that_cannot_be_are_said(tmp_path: Path) -> None:
    """They were taken as not closed, or as real closings, without a word."""
    closings = ["01.01.2025 00:00", "soon", "31.03.2025 00:00", "31.03.2025 00:00"]
    rows = [row(k) | {"Date Closed": closings[k // 4 % 4]} for k in range(120)]
    said = described(bring(tmp_path, propose(tmp_path, rows)))
    assert "closings lie before the complaint was received and are taken as not closed" in said
    assert "closings cannot be read as a date and are taken as not closed" in said
    assert "closings are on one day, 2025-03-31" in said


TABLE_MAP = """config_version = 1
[complaints]
key = "Ticket Number"
received_at = "Date Opened"
category = "Issue Type"
tract = "Census Tract"
[categories]
Heat = { domain = "heat", severity = "B" }
[tracts]
geoid = "GEOID"
population = "Total Population"
households = "Total Households"
median_income = "Median Household Income"
"""
"""Of rows that have nothing but a tract."""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("\n", "\nGeography,Total,Estimate,Income\n", 1), ""),
        (lambda text: text + "Total,12000,4000,\n", ""),
        (lambda text: text.replace(TRACTS[0], f"{int(TRACTS[0]):,}".join('""')), ""),
        (lambda text: text.replace(TRACTS[0], f"{int(TRACTS[0]):.4E}"), "shortened their codes"),
        (
            lambda text: text.replace("30000", "250,000+"),
            "1 lines that cannot be read, the first 2",
        ),
    ],
)
def test_tables_of_tracts_as_they_come(
    tmp_path: Path, change: Callable[[str], str], said: str
) -> None:
    """The Census' labels stopped the import, and a line that could not be read lost its tract."""
    (tmp_path / "city.toml").write_text(TABLE_MAP)
    own = read_city_map(tmp_path / "city.toml")
    path = write_unknown_city(tmp_path, 1)[1]
    path.write_text(change(path.read_text().replace("\r\n", "\n")))
    layout = recognise(path, (own.tract_format,))
    if said:
        with pytest.raises(RecordsError, match=said):
            own.read_figures(layout)
    else:
        assert sorted(own.read_figures(layout).geoid) == sorted(TRACTS)
