"""Every file of real rows at hand imports, and every one of its rows is accounted for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from tests.unit.feeds.conftest import account_of

from parity311.errors import RecordsError
from parity311.feeds import places
from parity311.feeds.boundaries import read_boundaries
from parity311.feeds.codes import read_codes
from parity311.feeds.importing import ImportOptions, import_records
from parity311.feeds.recognise import recognise
from parity311.records.quality import check_records
from parity311.records.store import open_records

pytestmark = pytest.mark.slow

FIGURES = "nyc_tracts/nyc_tract2020_acs_merged.csv"
BOUNDARIES = "nyc_tracts/nyc_tracts_2020_simplified.geojson"
DISTRICTS = "nyc_tracts/community_districts.geojson"
HEAT = "heat/address_year_2020_2022_with_tract.csv.gz"

ROWS = {
    "sr311/rows_normalised.csv": (
        10_510,
        3334,
        4887,
        {"no location", "location not found", "unknown code"},
    ),
    "sr311/export_2025-07_old_headers.csv": (3200, 1083, 2108, {"no location"}),
    "sr311/export_2026_new.csv": (17_612, 0, 15_353, {"no location"}),
    "sr311/rows_jl.csv": (1000, 176, 824, set()),
    "sr311/soda_rows.json": (1000, 496, 504, set()),
    "sr311/events_by_bbl.csv.gz": (152_204, 0, 132_291, {"location not found"}),
    "dob/dob_complaints_100.csv": (100, 0, 0, {"location not found"}),
    "dob/soda_eabe-havv.json": (2, 0, 0, {"location not found"}),
    "hpd/complaints_and_problems_10.csv": (10, 10, 0, set()),
    "hpd/violations_100.csv": (100, 100, 0, set()),
    "boiler/soda_52dp-yji6.json": (4, 0, 0, {"location not found"}),
}
"""Rows in, kept, out of scope, and the reasons of the others, of each file imported alone."""
AGGREGATES = {
    "dob/dob_complaint_categories.csv": 183,
    "dob/dob_disposition_codes.csv": 131,
    "dob/desc_borough.csv": 5,
    "dob/desc_category_outcomes.csv": 11,
    "dob/desc_monthly.csv": 77,
    "dob/desc_outcome_shares.csv": 6,
    "dob/descriptives.csv": 15,
    "dob/service_levels_2017_2020.csv": 193,
    "dob/volumes_2017_2020.csv": 193,
    "heat/resolution_description_lookup.csv": 18,
}


@pytest.fixture(autouse=True)
def _boundaries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same two files of boundaries go into every import here: they are read once."""
    monkeypatch.setattr(places, "read_boundaries", read_once)


read_once = cache(read_boundaries)


def run(data: Path, out: Path, *names: str, **options: Any) -> dict[str, Any]:
    paths = [data / name for name in (FIGURES, BOUNDARIES, DISTRICTS, *names)]
    return import_records(paths, out, ImportOptions(**options))


@pytest.mark.parametrize("name", ROWS)
def test_each_file_alone(shared_data: Path, tmp_path: Path, name: str) -> None:
    """Rows without a tract are kept by borough here, so that one import shows both accounts."""
    rows_in, kept, out_of_scope, reasons = ROWS[name]
    besides = [] if "violations" not in name else ["hpd/complaints_and_problems_10.csv"]
    manifest = run(shared_data, tmp_path / "r", name, *besides, keep_unlocated=True)
    entry = account_of(manifest, Path(name).name)
    set_aside = sum(entry["quarantined"].values())
    assert (entry["rows_in"], entry["out_of_scope"]) == (rows_in, out_of_scope)
    assert rows_in == entry["kept"] + out_of_scope + set_aside
    records = open_records(tmp_path / "r")
    by_borough = records.sql("SELECT count(*) AS n FROM complaints WHERE located_by = 'borough'")
    assert entry["kept"] - by_borough["n"][0].as_py() == kept
    assert set(entry["quarantined"]) == reasons - {"no location", "location not found"}
    records.validate()


def test_a_file_without_places_alone_keeps_nothing(shared_data: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"Not one row could be kept.*location not found \(4\)"):
        run(shared_data, tmp_path / "r", "boiler/soda_52dp-yji6.json")
    assert not (tmp_path / "r").exists()


def test_all_files_together(shared_data: Path, tmp_path: Path) -> None:
    """Rows that repeat between files are one, and places are learned from file to file."""
    manifest = run(shared_data, tmp_path / "r", *ROWS, *AGGREGATES, HEAT)
    for name, (rows_in, *_) in ROWS.items():
        entry = account_of(manifest, Path(name).name)
        assert entry["rows_in"] == rows_in
    for name, rows_in in AGGREGATES.items():
        entry = account_of(manifest, Path(name).name)
        assert (entry["rows_in"], entry["kept"], entry["differs"]) == (rows_in, rows_in, [])
    assert account_of(manifest, "events_by_bbl.csv.gz")["kept"] > 2000
    assert account_of(manifest, "dob_complaints_100.csv")["kept"] > 20
    heat_counts = account_of(manifest, Path(HEAT).name)
    assert (heat_counts["rows_in"], heat_counts["kept"]) == (106_132, 106_125)
    records = open_records(tmp_path / "r")
    records.validate()
    report = check_records(records)
    assert all(source.get("unaccounted", 0) == 0 for source in report["sources"])
    assert records.table("tracts").num_rows == 2325
    rates = records.sql("""
SELECT t.income_quintile AS quintile, 1000 * sum(h.n) / sum(t.households * t.share_renter) AS rate
FROM tracts t LEFT JOIN (SELECT tract, sum(complaints) AS n
  FROM reference_heat_by_tract GROUP BY 1) h ON h.tract = t.geoid
WHERE t.income_quintile > 0 GROUP BY 1 ORDER BY 1""")["rate"].to_pylist()
    # Heat complaints per 1,000 renter households over three years, as in the fact sheet.
    assert rates == pytest.approx([359, 364, 295, 219, 128], rel=0.1)
    heat = report["domains"]["heat"]
    # Closing days of real heat complaints: median near two days (fact sheet: 1.87).
    assert 1 < heat["closing_days_median"] < 3


def test_raw_census_codes_are_no_incomes(shared_data: Path, tmp_path: Path) -> None:
    paths = ["nyc_tracts/acs_2022_raw_sentinels.csv", BOUNDARIES, DISTRICTS, "sr311/rows_jl.csv"]
    manifest = import_records([shared_data / name for name in paths], tmp_path / "r")
    tracts = open_records(tmp_path / "r").table("tracts")
    assert tracts.num_rows == 2229
    assert tracts["median_income"].null_count == 29
    assert manifest["notes"]["tracts"] == {"median_income: Census code for not published": 29}


def test_points_fall_into_the_published_tracts(shared_data: Path) -> None:
    """106,132 addresses whose tract is published; the boundaries at hand are simplified."""
    bounds = read_boundaries(shared_data / BOUNDARIES)
    rows = duckdb.sql(
        f"SELECT long, lat, GEOID FROM read_csv('{shared_data / HEAT}', types = {{'GEOID': "
        "'VARCHAR'}) WHERE GEOID IS NOT NULL AND lat IS NOT NULL"
    ).fetchnumpy()
    index, is_nearest = bounds.locate(np.asarray(rows["long"]), np.asarray(rows["lat"]))
    agree = bounds.ids[index] == np.asarray(rows["GEOID"]).astype(str)
    assert (index >= 0).mean() > 0.999
    assert agree.mean() > 0.95
    assert is_nearest.mean() < 0.02


def test_neighbours_are_the_published_ones(shared_data: Path) -> None:
    bounds = read_boundaries(shared_data / BOUNDARIES)
    folder = shared_data / "flood_reports"
    ids = [row[0] for row in duckdb.sql(
        f"SELECT GEOID::VARCHAR FROM read_csv('{folder / 'henri_tracts.csv'}') ORDER BY node"
    ).fetchall()]  # fmt: skip
    pairs = duckdb.sql(f"FROM read_csv('{folder / 'tract_rook_edges.csv'}')").fetchall()
    published = {tuple(sorted((ids[a], ids[b]))) for a, b in pairs}
    known = set(ids)
    found = {
        tuple(sorted((str(geoid), other)))
        for geoid, others in zip(bounds.ids, bounds.neighbours(), strict=True)
        for other in others
        if str(geoid) in known and other in known
    }
    assert len(found & published) / len(published) > 0.99
    assert len(found & published) / len(found) > 0.97


def test_our_codes_agree_with_the_published_lists(shared_data: Path) -> None:
    categories = {row["code"]: row for row in read_codes("dob_categories").to_pylist()}
    for code, priority in duckdb.sql(
        f"SELECT code, priority_rev2018 FROM read_csv('"
        f"{shared_data / 'dob/dob_complaint_categories.csv'}', all_varchar = true)"
    ).fetchall():
        if priority in ("A", "B", "C", "D"):
            assert categories[code]["severity"] == priority
            assert categories[code]["severity_basis"] == "published"
        else:
            assert categories[code]["severity_basis"] == "assigned"
    ours = {row["code"]: row for row in read_codes("dob_dispositions").to_pylist()}
    moved = {"L2", "L3", "Y2", "Y4", "P4", "H1", "H2", "XX", "K1", "K2", "J2"}
    for code, published in duckdb.sql(
        f"SELECT code, outcome_class FROM read_csv('"
        f"{shared_data / 'dob/dob_disposition_codes.csv'}', all_varchar = true)"
    ).fetchall():
        if code not in moved:
            assert ours[code]["disposition_class"] == published, code


def test_every_published_heat_text_has_its_class(shared_data: Path, tmp_path: Path) -> None:
    """The classes of the lookup and ours, text by text."""
    expected = {
        "inspected - violations": "violation",
        "inspected - previous violations": "violation",
        "inspected - no violations": "no_violation",
        "responded - heat restored": "no_violation",
        "contacted - heat restored": "no_violation",
        "responded - heat not required": "no_violation",
        "no access - closed": "no_access",
        "possible inspection - status unknown": "other",
        "still open": "pending",
        "admin closed": "other",
        "duplicate": "duplicate",
    }
    texts = duckdb.sql(
        f"FROM read_csv('{shared_data / 'heat/resolution_description_lookup.csv'}')"
    ).fetchall()
    phrases = read_codes("resolution_texts").to_pylist()
    for kind, text in texts:
        found = next(
            row["disposition_class"]
            for row in phrases
            if row["agency"] == "HPD"
            and duckdb.execute("SELECT lower(?) LIKE ?", [text, row["phrase"]]).fetchall()[0][0]
        )
        assert found == expected[kind], text


def test_files_that_are_no_rows(shared_data: Path) -> None:
    with pytest.raises(RecordsError, match="an error the server answered with"):
        recognise(shared_data / "dob/soda_error_bad_column_http400.json")
    for name in ("dob/views_metadata_17.json", "boiler/views_metadata_16.json"):
        assert recognise(shared_data / name).kind == "metadata"
    lines = (shared_data / "dob/soda_response_headers.txt").read_text().splitlines()
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    assert "x-soda2-truth-last-modified" in headers
    assert json.loads(headers["x-soda2-fields"]) == ["n"]
