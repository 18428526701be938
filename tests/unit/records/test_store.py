"""A records folder: whole or not there, and clear words for each way it can be wrong."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.errors import RecordsError
from parity311.records.store import open_records, writing_folder
from parity311.records.truth import open_truth


def replace_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def test_round_trip_and_views(tiny_records: Path) -> None:
    records = open_records(tiny_records)
    records.validate()
    assert records.domains == ("heat",)
    assert records.sql("SELECT count(*) AS n FROM complaints JOIN outcomes USING (complaint_id)")[
        "n"
    ].to_pylist() == [40]


def test_same_rows_same_fingerprint(tmp_path: Path) -> None:
    first = write_folder(tmp_path / "a", tiny_tables())
    second = write_folder(tmp_path / "b", tiny_tables())
    assert open_records(first).fingerprint == open_records(second).fingerprint
    tables = tiny_tables()
    tables["tracts"] = replace_column(tables["tracts"], "households", pa.array([1, 2], pa.int32()))
    third = write_folder(tmp_path / "c", tables)
    assert open_records(third).fingerprint != open_records(first).fingerprint


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("borough", pa.array(["Bronx", "Atlantis"]), r"row 2, column 'borough': 'Atlantis'"),
        ("households", pa.array([10, -4], pa.int32()), r"row 2, column 'households': -4"),
        ("households", pa.array(["10", "4"]), r"type is string, expected int32"),
        ("population", pa.array([10, None], pa.int32()), r"may not be empty"),
        ("share_white", pa.array([0.5, 1.5]), r"1.5 is not allowed, expected at most 1.0"),
        ("geoid", pa.array(["36005000001"] * 2), r"1 rows repeat a value of 'geoid'"),
    ],
)
def test_invalid_rows_are_named(
    tmp_path: Path, column: str, values: pa.Array, message: str
) -> None:
    tables = tiny_tables()
    tables["tracts"] = replace_column(tables["tracts"], column, values)
    with pytest.raises(RecordsError, match=message):
        write_folder(tmp_path / "records", tables)
    assert list(tmp_path.iterdir()) == []


def test_a_visit_after_the_closing_is_refused(tmp_path: Path) -> None:
    tables = tiny_tables()
    outcomes = tables["outcomes"]
    tables["outcomes"] = replace_column(outcomes, "closed_at", tables["complaints"]["received_at"])
    with pytest.raises(RecordsError, match="first_visit_at .* is after closed_at"):
        write_folder(tmp_path / "records", tables)


def test_a_missing_column_is_named(tiny_records: Path) -> None:
    path = tiny_records / "complaints" / "heat.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["severity"]), path)
    with pytest.raises(RecordsError, match="has no column 'severity'"):
        open_records(tiny_records).table("complaints", "heat")


def test_a_damaged_file_is_named(tiny_records: Path) -> None:
    (tiny_records / "tracts.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(RecordsError, match="tracts.parquet cannot be read as Parquet"):
        open_records(tiny_records).table("tracts")


def test_missing_half_written_and_foreign_folders(tiny_records: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="There is no folder"):
        open_records(tmp_path / "nowhere")
    manifest_path = tiny_records / "manifest.json"
    manifest = json.loads(manifest_path.read_text())
    manifest_path.write_text(json.dumps(manifest | {"format_version": 99}))
    with pytest.raises(RecordsError, match="written in format 99"):
        open_records(tiny_records)
    manifest_path.write_text('{"format_ver')
    with pytest.raises(RecordsError, match="cannot be read as a manifest"):
        open_records(tiny_records)
    manifest_path.unlink()
    with pytest.raises(RecordsError, match="has no manifest.json"):
        open_records(tiny_records)


def test_a_file_gone_is_named(tiny_records: Path) -> None:
    (tiny_records / "visits" / "heat.parquet").unlink()
    with pytest.raises(RecordsError, match="lacks visits/heat.parquet"):
        open_records(tiny_records)


def test_imported_records_have_no_truth(tiny_records: Path) -> None:
    with pytest.raises(RecordsError, match="without a known truth"):
        open_truth(tiny_records)


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_folder_whole(
    tiny_records: Path, failure: BaseException
) -> None:
    before = open_records(tiny_records).fingerprint
    expected = RecordsError if isinstance(failure, OSError) else KeyboardInterrupt

    def write_and_fail() -> None:
        with writing_folder(tiny_records, overwrite=True) as folder:
            (folder / "half.parquet").write_bytes(b"half")
            raise failure

    with pytest.raises(expected):
        write_and_fail()
    assert open_records(tiny_records).fingerprint == before
    assert [path.name for path in tiny_records.parent.iterdir()] == [tiny_records.name]


def test_existing_folder_needs_overwrite(tiny_records: Path) -> None:
    with pytest.raises(RecordsError, match="--overwrite"), writing_folder(tiny_records):
        pass
