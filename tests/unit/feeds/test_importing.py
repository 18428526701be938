"""Every row is kept, counted or set aside with its reason; nothing personal is stored."""

from __future__ import annotations

import csv
import gzip
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from tests.unit.feeds.cities import (
    CENTRES,
    GEOIDS,
    boiler_row,
    dob_row,
    hpd_row,
    sr311_row,
    write_csv,
    write_tracts,
)
from tests.unit.feeds.conftest import Importer, account_of

from parity311.errors import InputError, RecordsError
from parity311.feeds.importing import ImportOptions, import_records
from parity311.records.quality import check_records
from parity311.records.store import Records

pytestmark = pytest.mark.slow


def quarantine(records: Records, source: str) -> dict[str, str]:
    path = records.folder / "quarantine" / f"{source}.parquet"
    rows = duckdb.sql(f"SELECT key, reason FROM '{path}' ORDER BY row").fetchall()
    with path.with_suffix(".csv").open(encoding="utf-8-sig", newline="") as file:
        shown = [(row["key"] or None, row["reason"]) for row in csv.DictReader(file)]
    assert shown == rows
    return {str(key): reason for key, reason in rows}


def outcomes(records: Records, domain: str) -> dict[str, dict[str, Any]]:
    return {row["complaint_id"]: row for row in records.table("outcomes", domain).to_pylist()}


def test_each_reason_and_nothing_lost(import_rows: Importer) -> None:
    rows = [
        sr311_row(1),
        sr311_row(2, unique_key=""),
        sr311_row(3, created_date="soon"),
        sr311_row(4, created_date="1900-01-01T00:00:00.000"),
        sr311_row(5, created_date="2099-01-01T00:00:00.000"),
        sr311_row(6, complaint_type="A NEW TYPE"),
        sr311_row(7),
        sr311_row(7, closed_date="2024-01-13T10:00:00.000", resolution_description=""),
        sr311_row(8, latitude="0", longitude="0", bbl="", incident_address=""),
        sr311_row(9, latitude="", longitude="", bbl="", incident_address=""),
        sr311_row(10, latitude="", longitude="", bbl="2099990001", incident_address=""),
        sr311_row(11, agency="NYPD", complaint_type="Noise - Residential"),
    ]
    records, manifest = import_rows(sr311=rows)
    records.validate()
    found = quarantine(records, "sr311")
    assert found == {
        "None": "no key",
        "50000003": "received date unreadable",
        "50000004": "received date before any record",
        "50000005": "received in the future",
        "50000006": "unknown code",
        "50000007": "repeated key",
        "50000008": "coordinates outside the city",
        "50000009": "no location",
        "50000010": "location not found",
    }
    entry = account_of(manifest, "sr311.csv")
    assert (entry["rows_in"], entry["kept"], entry["out_of_scope"]) == (12, 2, 1)
    assert sum(entry["quarantined"].values()) == 9
    # Of the two rows of one key the later one stayed.
    assert outcomes(records, "heat")["SR-50000007"]["closed_at"] == datetime(2024, 1, 13, 10)
    source = check_records(records)["sources"][-1]
    assert source["unaccounted"] == 0


def test_an_account_that_does_not_add_up_is_reported(import_rows: Importer) -> None:
    """The check of the accounts itself: a row that vanished must show."""
    records, _manifest = import_rows(sr311=[sr311_row(1), sr311_row(2)])
    records.manifest["sources"][-1]["kept"] = 1
    report = check_records(records)
    assert report["sources"][-1]["unaccounted"] == 1
    assert any("unaccounted" in warning for warning in report["warnings"])


def test_a_damaged_line_is_counted_and_its_neighbours_kept(
    import_rows: Importer, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "rows.csv", [sr311_row(k) for k in range(1, 6)])
    lines = path.read_bytes().splitlines()
    lines[2] = lines[2].rsplit(b",", 3)[0]
    lines[4] = lines[4].replace(b"GRAND", b"GR\xc9ND")
    path.write_bytes(b"\n".join(lines) + b'\n50000009,"2024-01-10T09:30')
    records, manifest = import_rows(files=[path])
    entry = account_of(manifest, "rows.csv")
    assert entry["kept"] == 3
    assert entry["rows_in"] == 6
    assert entry["quarantined"] == {
        "unreadable line: invalid encoding": 1,
        "unreadable line: missing columns": 1,
        "unreadable line: unquoted value": 1,
    }
    assert entry["first_unreadable_line"] == 3
    assert records.table("complaints", "heat").num_rows == 3


@pytest.mark.slow
def test_case_and_agency_separate_types(import_rows: Importer) -> None:
    rows = [
        sr311_row(1, complaint_type="ELEVATOR", descriptor="N/A"),
        sr311_row(2, agency="DOB", complaint_type="Elevator", descriptor="Elevator - Defective"),
        sr311_row(3, agency="DOB", complaint_type="Plumbing", descriptor="Leaking"),
        sr311_row(4, complaint_type="PLUMBING", descriptor="BASIN/SINK"),
    ]
    records, _ = import_rows(sr311=rows)
    assert records.table("complaints", "housing")["category"].to_pylist() == [
        "ELEVATOR",
        "PLUMBING",
    ]
    assert records.table("complaints", "elevator")["category"].to_pylist() == ["63"]
    assert records.table("complaints", "complaint_triage")["category"].to_pylist() == ["94"]


@pytest.mark.parametrize(
    ("created", "closed", "expected"),
    [
        # Closed before it came in; the placeholder; a closing date without a time on the same day.
        ("2024-01-10T09:30:00.000", "2024-01-09T00:00:00.000", None),
        ("2024-01-10T09:30:00.000", "1900-01-01T00:00:00.000", None),
        ("2024-01-10T09:30:00.000", "2024-01-10T00:00:00.000", datetime(2024, 1, 10, 9, 30)),
        # The night clocks are set back: 1:50 comes before the second 1:10.
        ("2024-11-03T01:50:00.000", "2024-11-03T01:10:00.000", datetime(2024, 11, 3, 1, 50)),
        ("2024-11-10T01:50:00.000", "2024-11-10T01:10:00.000", None),
    ],
)
def test_closing_times_that_cannot_be(
    import_rows: Importer, created: str, closed: str, expected: datetime | None
) -> None:
    records, _ = import_rows(sr311=[sr311_row(1, created_date=created, closed_date=closed)])
    assert records.table("outcomes", "heat")["closed_at"].to_pylist() == [expected]


def test_location_falls_back_and_says_how(import_rows: Importer) -> None:
    nowhere = {"latitude": "", "longitude": ""}
    rows = [
        sr311_row(1),
        sr311_row(2, bbl="2024500001", incident_address="", **nowhere),
        sr311_row(3, bbl="2024500099", incident_address="", **nowhere),
        sr311_row(4, bbl="", incident_address="1  GRAND   CONCOURSE", **nowhere),
        sr311_row(5, bbl="2099900001", incident_address="", **nowhere),
    ]
    for number, row in enumerate(rows):
        row["unique_key"] = str(number)
    rows[0]["bbl"] = "2024500001"
    records, manifest = import_rows(sr311=rows)
    table = records.table("complaints", "heat")
    assert dict(
        zip(table["complaint_id"].to_pylist(), table["located_by"].to_pylist(), strict=True)
    ) == {
        "SR-0": "coordinates",
        "SR-1": "lot",
        "SR-2": "block",
        "SR-3": "address",
    }
    assert set(table["tract"].to_pylist()) == {GEOIDS[0]}
    coverage = {
        (row["by"], row["stratum"]): (row["rows"], row["located"]) for row in manifest["coverage"]
    }
    assert coverage["borough", "Bronx"] == (5, 4)


def test_rows_without_a_tract_can_be_kept_as_unknown(import_rows: Importer) -> None:
    lost = sr311_row(2, latitude="", longitude="", bbl="", incident_address="")
    records, manifest = import_rows(ImportOptions(keep_unlocated=True), sr311=[sr311_row(1), lost])
    assert account_of(manifest, "sr311.csv")["kept"] == 2
    tracts = {row["geoid"]: row for row in records.table("tracts").to_pylist()}
    assert tracts["36005000000"]["income_quintile"] == 0
    assert tracts["36005000000"]["households"] == 0
    records.validate()


def test_dob_rows_codes_and_prior_enforcement(import_rows: Importer) -> None:
    lots = [{"bbl": "2024500012", "unitsres": "24", "yearbuilt": "1931", "bct2020": "2000100"}]
    prints = [{"bin": "2000012", "mappluto_bbl": "2024500012", "base_bbl": "2024500012"}]
    rows = [
        dob_row(2000001),
        dob_row(2000002, disposition_code="L2"),
        dob_row(2000003, disposition_code="C2", inspection_date="01/15/2024"),
        dob_row(2000004, status="ACTIVE", disposition_code="  ", inspection_date="",
                disposition_date=""),
        dob_row(2000005, complaint_category="ZZ"),
        dob_row(2000006, bin="2000000"),
        dob_row(2000001, disposition_code="I2", dobrundate="20240101000000"),
    ]  # fmt: skip
    records, _manifest = import_rows(dob=rows, lots=lots, footprints=prints)
    found = outcomes(records, "elevator")
    assert found["DOB-2000001"]["disposition"] == "A8"
    assert found["DOB-2000001"]["first_visit_at"] == datetime(2024, 1, 18)
    assert found["DOB-2000002"]["disposition_class"] == "violation"
    assert found["DOB-2000002"]["is_prior_enforcement"]
    assert (found["DOB-2000003"]["n_visits"], found["DOB-2000003"]["first_visit_at"]) == (2, None)
    assert found["DOB-2000004"]["disposition_class"] == "pending"
    assert quarantine(records, "dob") == {
        "2000005": "unknown code",
        "2000006": "location not found",
        "2000001": "repeated key",
    }
    assert records.table("buildings").to_pylist() == [
        {"building_id": "2024500012", "tract": "36005000100", "units": 24, "year_built": 1931,
         "boilers": 0, "elevators": 0}
    ]  # fmt: skip
    visits = records.table("visits", "elevator").to_pylist()
    assert [(v["complaint_id"], v["attempt"], v["result"]) for v in visits] == [
        ("DOB-2000003", 2, "no_access"),
        ("DOB-2000001", 1, "violation"),
        ("DOB-2000002", 1, "violation"),
    ]


def test_a_dob_complaint_that_311_has_too_is_one(import_rows: Importer) -> None:
    """The agency's row stays and takes time of day, channel and place from the request."""
    request = sr311_row(
        12, agency="DOB", complaint_type="Elevator", descriptor="Single Device", bbl="2024500012",
        created_date="2024-01-11T08:15:00.000",
    )  # fmt: skip
    alone = sr311_row(
        90, agency="DOB", complaint_type="Elevator", descriptor="Single Device",
        incident_address="90 OTHER STREET",
    )  # fmt: skip
    records, manifest = import_rows(dob=[dob_row(2000001)], sr311=[request, alone])
    table = records.table("complaints", "elevator").to_pylist()
    assert [row["complaint_id"] for row in table] == ["SR-50000090", "DOB-2000001"]
    assert table[1]["received_at"] == datetime(2024, 1, 11, 8, 15)
    assert table[1]["channel"] == "PHONE"
    assert table[1]["tract"] == GEOIDS[0]
    assert quarantine(records, "sr311") == {"50000012": "the same complaint in a fuller source"}
    assert manifest["notes"]["matching"]["311 requests matched to dob"] == 1


def test_hpd_problems_link_their_duplicates_and_replace_requests(import_rows: Importer) -> None:
    problems = [
        hpd_row(1, unique_key="50000001"),
        hpd_row(2, unique_key="50000002", received_date="01/11/2024", problem_duplicate_flag="Y",
                status_description="This is a duplicate of a building-wide condition."),
        hpd_row(3, unique_key="50000003", received_date="03/01/2024", problem_duplicate_flag="Y",
                problem_status_date="03/02/2024"),
        hpd_row(4, unique_key="50000004", major_category="PLUMBING", type="NON EMERGENCY"),
        hpd_row(4, unique_key="50000004", major_category="PLUMBING", type="NON EMERGENCY",
                problem_status_date="01/20/2024"),
    ]  # fmt: skip
    requests = [sr311_row(1, unique_key="50000001", created_date="2024-01-10T07:45:00.000")]
    violation = {
        "violationid": "1", "class": "C", "inspectiondate": "2024-01-12T00:00:00",
        "novdescription": "SECTION 27-2029 ADM CODE PROVIDE HEAT", "bbl": "2024500012",
        "bin": "2000012", "latitude": str(CENTRES[GEOIDS[0]][1]),
        "longitude": str(CENTRES[GEOIDS[0]][0]),
    }  # fmt: skip
    records, manifest = import_rows(
        hpd_problems=problems, sr311=requests, hpd_violations=[violation]
    )
    rows = {row["complaint_id"]: row for row in records.table("complaints", "heat").to_pylist()}
    assert {key: row["incident_id"] for key, row in rows.items()} == {
        "HPD-1": "HPD-1",
        "HPD-2": "HPD-1",
        "HPD-3": None,  # the original was closed in January
    }
    assert rows["HPD-1"]["received_at"] == datetime(2024, 1, 10, 7, 45)
    assert rows["HPD-1"]["category"] == "NO HEAT"
    assert rows["HPD-1"]["severity"] == "B"
    assert outcomes(records, "heat")["HPD-1"]["n_violations_30d"] == 1
    assert records.table("complaints", "housing")["severity"].to_pylist() == ["C"]
    assert account_of(manifest, "hpd_problems.csv")["quarantined"] == {"repeated key": 1}
    assert account_of(manifest, "sr311.csv")["kept"] == 0


def test_texts_of_311_mark_duplicates(import_rows: Importer) -> None:
    text = "The complaint you filed is a duplicate of a condition already reported."
    rows = [
        sr311_row(1, bbl="2024500012"),
        sr311_row(2, bbl="2024500012", created_date="2024-01-10T11:00:00.000",
                  resolution_description=text),
        sr311_row(3, bbl="2024500012", created_date="2024-01-10T12:00:00.000",
                  resolution_description="", status="Open", closed_date=""),
    ]  # fmt: skip
    records, _ = import_rows(sr311=rows)
    table = records.table("complaints", "heat")
    assert table["incident_id"].to_pylist() == ["SR-50000001", "SR-50000001", None]
    classes = records.table("outcomes", "heat")["disposition_class"].to_pylist()
    assert classes == ["no_violation", "duplicate", "pending"]


def test_names_of_owners_are_stored_nowhere(import_rows: Importer) -> None:
    prints = [{"bin": "2000012", "mappluto_bbl": "2024500012"}]
    lots = [{"bbl": "2024500012", "unitsres": "24", "bct2020": "2000100", "ownername": "OWNERNAME"}]
    filings = [
        boiler_row(1),
        boiler_row(2, bin_number="2000000"),
        boiler_row(3, inspection_date="?"),
    ]
    records, _ = import_rows(boiler=filings, footprints=prints, lots=lots)
    rows = records.table("complaints", "boiler").to_pylist()
    assert (rows[0]["channel"], rows[0]["category"]) == ("FILING", "FILING")
    assert (rows[0]["is_high_pressure"], rows[0]["is_internal"]) == (True, True)
    result = records.table("outcomes", "boiler").to_pylist()[0]
    assert (result["defect_found"], result["lff_45"], result["lff_180"]) == (True, True, False)
    for path in records.folder.rglob("*"):
        if path.suffix == ".parquet":
            text = str(duckdb.sql(f"SELECT * FROM '{path}'").fetchall())
        elif path.is_file():
            text = path.read_text()
        else:
            continue
        assert "OWNER" not in text.upper() or "OWNERNAME" not in text.upper()
        assert "APPLICANTNAME" not in text


@pytest.mark.slow
def test_same_rows_same_tables_in_any_memory(tmp_path: Path) -> None:
    rows = [
        sr311_row(
            k, created_date=f"2024-01-{1 + k % 28:02d}T{k % 24:02d}:00:00.000",
            incident_address=f"{k % 50} X STREET", bbl=f"20245{k % 50 + 1:05d}",
        )
        for k in range(3000)
    ]  # fmt: skip
    paths = [*write_tracts(tmp_path), write_csv(tmp_path / "rows.csv", rows)]
    first = import_records(paths, tmp_path / "a")
    second = import_records(paths, tmp_path / "b", ImportOptions(memory_limit="200MB", threads=1))
    assert first["fingerprint"] == second["fingerprint"]


def test_manifest_tells_source_terms_time_and_hash(import_rows: Importer) -> None:
    _, manifest = import_rows(sr311=[sr311_row(1)])
    for source in manifest["sources"]:
        assert source["terms"]
        assert source["retrieved_at"].endswith("Z")
        assert all(len(digest) == 64 for digest in source["files"].values())
    assert "/" not in "".join(name for s in manifest["sources"] for name in s["files"])


@pytest.mark.parametrize(
    ("kept", "message"),
    [([0, 2], "ACS figures"), ([1, 2], "tract boundaries"), ([0, 1], "holds complaints")],
)
def test_what_is_missing_is_named(tmp_path: Path, kept: list[int], message: str) -> None:
    figures, outline = write_tracts(tmp_path)
    given = {0: outline, 1: figures, 2: write_csv(tmp_path / "rows.csv", [sr311_row(1)])}
    with pytest.raises(InputError, match=message):
        import_records([given[k] for k in kept], tmp_path / "records")
    assert not (tmp_path / "records").exists()


def test_an_import_that_keeps_nothing_writes_only_what_it_set_aside(tmp_path: Path) -> None:
    lost = [sr311_row(1, latitude="", longitude="", bbl="", incident_address="")]
    paths = [*write_tracts(tmp_path), write_csv(tmp_path / "rows.csv", lost)]
    with pytest.raises(RecordsError, match=r"Not one row .* no location \(1\)"):
        import_records(paths, tmp_path / "records")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "acs.csv", "records-quarantine", "rows.csv", "tracts.geojson",
    ]  # fmt: skip


def test_a_cut_off_json_download_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"created_date": "2024-01-10T00:00:00.000", "agency": "HPD", '
                    '"complaint_type": "HEATING"}, {"created_da')  # fmt: skip
    with pytest.raises(RecordsError, match="cut off"):
        import_records([*write_tracts(tmp_path), path], tmp_path / "records")
    assert not (tmp_path / "records").exists()


def test_a_cut_off_gzip_download_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = list(sr311_row(1))
    lines = [",".join(names)]
    for key in range(4000):
        row = sr311_row(key, unique_key=str(rng.integers(10**12)))
        lines.append(",".join(f'"{row[name]}"' for name in names))
    whole = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(whole[:-2000])
    with pytest.raises(RecordsError, match="cut off"):
        import_records([*write_tracts(tmp_path), path], tmp_path / "records")
    assert not [one for one in tmp_path.iterdir() if "records" in one.name]


def test_only_the_domains_asked_for(import_rows: Importer) -> None:
    rows = [sr311_row(1), sr311_row(2, complaint_type="PLUMBING", descriptor="SINK")]
    records, manifest = import_rows(ImportOptions(domains=("housing",)), sr311=rows)
    assert records.domains == ("housing",)
    assert manifest["out_of_scope"] == [{"source": "sr311", "domain": "heat", "rows": 1}]
    with pytest.raises(InputError, match="Did you mean 'heat'"):
        import_rows(ImportOptions(domains=("heet",)), sr311=rows)


def test_dob_alone_says_what_would_locate_it(tmp_path: Path) -> None:
    """Its rows have a building number only; they can be looked at although none was kept."""
    files = [*write_tracts(tmp_path), write_csv(tmp_path / "dob.csv", [dob_row(2000001)])]
    for place in ("records-quarantine", "records-quarantine-2"):
        with pytest.raises(RecordsError, match="not found.*footprints.*--keep-unlocated") as caught:
            import_records(files, tmp_path / "records")
        assert str(tmp_path / place) in str(caught.value)
        with (tmp_path / place / "dob.csv").open(encoding="utf-8-sig", newline="") as file:
            (kept,) = csv.DictReader(file)
        assert (kept["key"], kept["reason"]) == ("2000001", "location not found")
    assert not (tmp_path / "records").exists()


def test_an_unreadable_date_is_shown(tmp_path: Path) -> None:
    rows = [sr311_row(1, created_date="24·03·2025 10:00")]
    files = [*write_tracts(tmp_path), write_csv(tmp_path / "rows.csv", rows)]
    with pytest.raises(
        RecordsError, match=r"unreadable \(1, like '24·03·2025 10:00'\).*date_format"
    ):
        import_records(files, tmp_path / "records")


def test_day_first_dates_are_read_and_said(import_rows: Importer) -> None:
    rows = [
        sr311_row(1, created_date="24/03/2024 10:00", closed_date="25/03/2024 11:00"),
        sr311_row(2, created_date="04/03/2024 10:00", closed_date="05/03/2024 11:00"),
    ]
    records, manifest = import_rows(sr311=rows)
    received = records.table("complaints", "heat")["received_at"].to_pylist()
    assert received == [datetime(2024, 3, 4, 10), datetime(2024, 3, 24, 10)]
    assert any("day/month" in warning for warning in check_records(records)["warnings"])
    assert manifest["notes"]["dates"][0]["file"] == "sr311.csv"


def test_closings_at_the_moment_of_receipt_are_counted(import_rows: Importer) -> None:
    rows = [sr311_row(k) for k in range(1, 4)]
    rows.append(sr311_row(4, closed_date=rows[0]["created_date"]))
    records, manifest = import_rows(sr311=rows)
    said = manifest["notes"]["closed at the moment of receipt"]
    assert said == [{"file": "sr311.csv", "closed": 4, "at_once": 1}]
    report = check_records(records)
    assert report["domains"]["heat"]["share_closed_at_once"] == 0.25
    assert any("no figure of closing days" in warning for warning in report["warnings"])
    _, sound = import_rows(sr311=rows[:3])
    assert sound["notes"]["closed at the moment of receipt"] == []
