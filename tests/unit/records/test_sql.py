"""The door to DuckDB: quoting, files read as files, and a connection that reads nothing else."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parity311.errors import InputError, RecordsError
from parity311.records import sql
from parity311.records.store import open_records

TEXTS = (
    "it's",
    "'; COPY (SELECT 1) TO 'x'; --",
    '"',
    "]]",
    "a\nb",
    "a\0b",
    "../x",
    "<script>alert(1)</script>",
    "=cmd()",
    "\u202eabc",
    "x" * 10_000,
    "\\' OR 1=1",
    "$1 ? %s {x}",
)
FOLDERS = ("a*b", "a?b", "a[b]c", "a{b,c}", "it's", 'say "x"', "domain=other", "~", "a\nb", "a\\b")


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_text_comes_back_as_it_went_in(text: str) -> None:
    with sql.connect() as connection:
        assert connection.execute(f"SELECT {sql.literal(text)}").fetchall() == [(text,)]
        assert connection.execute("SELECT $text", {"text": text}).fetchall() == [(text,)]


@pytest.mark.parametrize("name", [text for text in TEXTS if "\0" not in text], ids=repr)
def test_a_name_is_a_name(name: str) -> None:
    with sql.connect() as connection:
        found = connection.sql(f"SELECT 1 AS {sql.identifier(name)}").to_arrow_table()
    assert found.column_names == [name]


def test_a_name_with_a_nul_byte_is_refused() -> None:
    with pytest.raises(InputError, match="NUL byte"):
        sql.identifier("a\0b")


def test_numbers_and_days_are_values() -> None:
    with sql.connect() as connection:
        query = f"SELECT {sql.literal(-2)} + {sql.literal(0.5)}, {sql.literal(date(2024, 2, 29))}"
        assert connection.execute(query).fetchall() == [(-1.5, "2024-02-29")]


@pytest.mark.parametrize("folder", FOLDERS, ids=repr)
def test_a_folder_name_is_no_pattern(folder: str, tmp_path: Path) -> None:
    path = tmp_path / folder / "x.parquet"
    for place, n in (
        (path, 1),
        (tmp_path / "axb" / "x.parquet", 2),
        (tmp_path / "ab/x.parquet", 3),
    ):
        place.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [n]}), place)
    with sql.connect() as connection:
        sql.add_view(connection, "rows", [path])
        sql.lock(connection, [path])
        found = connection.sql("SELECT * FROM rows").to_arrow_table()
    assert found.to_pylist() == [{"n": 1}]


def test_a_name_that_cannot_be_told_from_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="backslash"):
        sql.files([tmp_path / "a\\?b" / "x.parquet"])


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO '{out}'",
        "SELECT 1; COPY (SELECT 1) TO '{out}'",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "ATTACH '{out}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
    ],
)
def test_records_read_their_own_files_and_write_none(
    query: str, tiny_records: Path, tmp_path: Path
) -> None:
    secret, out = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("a\n1\n")
    records = open_records(tiny_records)
    assert records.sql("SELECT count(*) AS n FROM complaints")["n"][0].as_py() > 0
    with pytest.raises(RecordsError, match="failed"):
        records.sql(query.format(out=out, secret=secret))  # pyright: ignore[reportArgumentType]
    assert not out.exists()
    # The twin: an open connection does what the locked one refuses.
    if query.startswith("COPY"):
        duckdb.connect().execute(query.format(out=out))
        assert out.exists()


@pytest.mark.parametrize(
    "name",
    ["../x.parquet", "/x.parquet", "complaints/'; COPY.parquet", "complaints/a b.parquet", "a.csv"],
)
def test_a_manifest_names_tables_only(name: str, tiny_records: Path) -> None:
    path = tiny_records / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][name] = {"rows": 1, "sha256": "0"}
    path.write_text(json.dumps(manifest))
    with pytest.raises(RecordsError):
        open_records(tiny_records)


def test_a_manifest_too_deep_to_read_is_refused(tiny_records: Path) -> None:
    (tiny_records / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(RecordsError):
        open_records(tiny_records)
