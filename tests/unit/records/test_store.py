"""A records folder: whole or not there, and clear words for each way it can be wrong."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.errors import BusyError, RecordsError, RunError
from parity311.records.schema import TABLES
from parity311.records.store import open_records, write_manifest, write_table, writing_records
from parity311.records.truth import open_truth
from parity311.report.store import start_run


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


def write_manifest_again(folder: Path) -> None:
    """As if the folder had been written with what lies in it now."""
    manifest = json.loads((folder / "manifest.json").read_text())
    details = {name: manifest[name] for name in ("date_from", "date_to")}
    write_manifest(folder, manifest["kind"], details)


def test_a_missing_column_is_named(tiny_records: Path) -> None:
    path = tiny_records / "complaints" / "heat.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["severity"]), path)
    write_manifest_again(tiny_records)
    with pytest.raises(RecordsError, match="has no column 'severity'"):
        open_records(tiny_records).table("complaints", "heat")


def test_a_damaged_file_is_named(tiny_records: Path) -> None:
    path = tiny_records / "tracts.parquet"
    records, before = open_records(tiny_records), path.read_bytes()
    path.write_bytes(before[:-9] + bytes(9))
    with pytest.raises(RecordsError, match="tracts.parquet was changed since it was written"):
        records.table("tracts")
    path.write_bytes(b"not parquet at all")
    with pytest.raises(RecordsError, match="lacks tracts.parquet, in the size that its manifest"):
        open_records(tiny_records)
    path.write_bytes(before)
    assert open_records(tiny_records).table("tracts").num_rows == 2


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
        with writing_records(tiny_records, "import", overwrite=True) as folder:
            (folder / "half.parquet").write_bytes(b"half")
            raise failure

    with pytest.raises(expected):
        write_and_fail()
    assert open_records(tiny_records).fingerprint == before
    assert [path.name for path in tiny_records.parent.iterdir()] == [tiny_records.name]


@pytest.mark.parametrize("name", ["tracts.parquet", "visits/heat.parquet"])
def test_changed_rows_are_never_used(tiny_records: Path, name: str) -> None:
    path = tiny_records / name
    before = path.read_bytes()
    for at in (4, len(before) // 2, len(before) - 5):
        path.write_bytes(before[:at] + bytes([before[at] ^ 64]) + before[at + 1 :])
        with pytest.raises(RecordsError, match="was changed since it was written"):
            open_records(tiny_records).sql("SELECT count(*) FROM complaints")
        with pytest.raises(RecordsError, match="was changed since it was written"):
            open_records(tiny_records).validate()


def test_a_changed_manifest_is_found(tiny_records: Path) -> None:
    path = tiny_records / "manifest.json"
    path.write_text(path.read_text().replace("2024-08-01", "2024-09-01"))
    with pytest.raises(RecordsError, match="manifest.json was changed since it was written"):
        open_records(tiny_records)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '"x"', '{"kind": "import"}', '{"kind": ["import"]}', "\x00", '{"kind": "zoo"}'],
)
def test_what_is_no_manifest_is_said_in_one_line(tiny_records: Path, text: str) -> None:
    (tiny_records / "manifest.json").write_text(text)
    with pytest.raises(RecordsError, match="cannot be read as a manifest") as caught:
        open_records(tiny_records)
    assert "\n" not in str(caught.value)


def test_a_file_the_manifest_does_not_name_is_no_domain(tiny_records: Path) -> None:
    heat = tiny_records / "complaints" / "heat.parquet"
    (tiny_records / "complaints" / "other.parquet").write_bytes(heat.read_bytes())
    with pytest.raises(RecordsError, match=r"holds complaints/other\.parquet, which its manifest"):
        open_records(tiny_records)


def damage_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


def damage_version(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"format_version": ', '"format_version": 9'))


def damage_files(folder: Path) -> None:
    (folder / "tracts.parquet").unlink()


@pytest.mark.parametrize("damage", [damage_manifest, damage_version, damage_files])
def test_no_error_advises_to_replace_real_records(tiny_records: Path, damage: Any) -> None:
    damage(tiny_records)
    with pytest.raises(RecordsError) as caught:
        open_records(tiny_records)
    assert "overwrite" not in str(caught.value)
    assert "city build" not in str(caught.value)
    assert "new folder" in str(caught.value)


def test_a_synthetic_city_is_built_again_with_its_own_command(tmp_path: Path) -> None:
    city = write_city(tmp_path / "a city", preset="small", seed="7")
    damage_files(city)
    with pytest.raises(RecordsError) as caught:
        open_records(city)
    command = f"parity311 city build --out '{city}' --preset small --seed 7 --from 2024-01-01"
    assert command in str(caught.value)
    assert "--overwrite" in str(caught.value)


def test_a_missing_folder_is_no_reason_for_a_synthetic_city_alone(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="There is no folder .*records import"):
        open_records(tmp_path / "nowhere")
    (tmp_path / "rows.csv").write_text("a,b\n")
    with pytest.raises(RecordsError, match="is a file, not a folder of records"):
        open_records(tmp_path / "rows.csv")


# What may be replaced


def write_city(out: Path, **manifest: str) -> Path:
    """A synthetic city in miniature."""
    write_folder(out, tiny_tables())
    details = {"date_from": "2024-01-01", "date_to": "2024-08-01", **manifest}
    write_manifest(out, "city", details)
    return out


def write_foreign(out: Path) -> Path:
    (out / "deep").mkdir(parents=True)
    (out / "deep" / "thesis.txt").write_text("years of work")
    return out


def write_run(out: Path) -> Path:
    with start_run(out, "c", {}):
        pass
    return out


def write_import(out: Path) -> Path:
    return write_folder(out, tiny_tables())


def write_city_with_notes(out: Path) -> Path:
    (write_city(out) / "notes.txt").write_text("mine")
    return out


def write_damaged_city(out: Path) -> Path:
    damage_manifest(write_city(out))
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def put(out: Path, kind: str) -> None:
    with writing_records(out, kind, overwrite=True) as folder:
        for name, data in tiny_tables().items():
            write_table(folder, name, data, "heat" if TABLES[name].by_domain else None)
        details = {"date_from": "2024-01-01", "date_to": "2024-08-01", "note": "new"}
        write_manifest(folder, kind, details)


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (write_foreign, "city", "holds files that are not parity311's (deep)"),
        (write_foreign, "import", "holds files that are not parity311's (deep)"),
        (write_run, "city", "holds runs"),
        (write_import, "city", "holds imported records"),
        (write_city, "import", "holds a synthetic city"),
        (write_city_with_notes, "city", "holds notes.txt besides"),
        (write_damaged_city, "city", "holds a damaged manifest.json"),
    ],
)
def test_only_its_own_kind_is_replaced(tmp_path: Path, make: Any, kind: str, said: str) -> None:
    out = make(tmp_path / "out")
    before = contents(out)
    with pytest.raises(RecordsError, match=re.escape(said)) as caught:
        put(out, kind)
    assert str(out) in str(caught.value)
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(("make", "kind"), [(write_city, "city"), (write_import, "import")])
def test_its_own_kind_is_replaced_and_nothing_is_left_beside(
    tmp_path: Path, make: Any, kind: str
) -> None:
    put(make(tmp_path / "out"), kind)
    assert open_records(tmp_path / "out").manifest["note"] == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["city", "import"])
def test_an_empty_folder_may_be_used(tmp_path: Path, kind: str) -> None:
    (tmp_path / "out").mkdir()
    put(tmp_path / "out", kind)
    assert open_records(tmp_path / "out").manifest["kind"] == kind


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (".", "is the current folder"),
        ("", "is the current folder"),
        ("..", "contains the current folder"),
        ("../here", "is the current folder"),
        ("/", "contains the current folder"),
        ("~", "is the home folder"),
        ("file", "is a file"),
        ("link", "is a link"),
        ("dangling", "is a link"),
        ("circle", "is a link"),
        ("circle/city", "Cannot write .*circle"),
        ("file/city", "Cannot write .*file"),
    ],
)
def test_places_that_are_nobodys_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, said: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Path("file").write_text("mine")
    write_city(tmp_path / "city")
    Path("link").symlink_to(tmp_path / "city")
    Path("dangling").symlink_to(tmp_path / "nowhere")
    Path("circle").symlink_to("circle")
    before = contents(tmp_path)
    with pytest.raises((RecordsError, RunError), match=said) as caught:
        put(Path(given).expanduser(), "city")
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("make", "advises"), [(write_city, True), (write_import, False), (write_foreign, False)]
)
def test_only_a_synthetic_city_is_advised_to_be_replaced(
    tmp_path: Path, make: Any, advises: bool
) -> None:
    out = make(tmp_path / "out")
    kind = "import" if make is write_import else "city"
    with pytest.raises(RecordsError, match="choose another folder") as caught:
        writing_records(out, kind).__enter__()
    assert ("--overwrite" in str(caught.value)) == advises


# What a killed replacement leaves


def test_a_replacement_cut_off_between_its_two_steps_is_put_back(tmp_path: Path) -> None:
    city = write_city(tmp_path / "out")
    before = contents(city)
    city.rename(tmp_path / ".out.old")
    assert open_records(city).manifest["kind"] == "city"
    assert contents(city) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_replacement_cut_off_after_its_last_step_is_tidied(tmp_path: Path) -> None:
    city = write_city(tmp_path / "out")
    write_city(tmp_path / ".out.old")
    write_foreign(tmp_path / ".out.partial-0123abcd")
    put(city, "city")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert open_records(city).manifest["note"] == "new"


def test_a_former_folder_is_kept_while_something_else_took_its_place(tmp_path: Path) -> None:
    write_import(tmp_path / ".out.old")
    write_foreign(tmp_path / "out")
    with pytest.raises(RecordsError, match="not parity311's"):
        put(tmp_path / "out", "import")
    assert (tmp_path / ".out.old" / "manifest.json").is_file()


def test_a_second_writer_is_told_and_the_first_one_wins(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with writing_records(out, "city") as folder:
        write_city(folder / "x")
        with pytest.raises(BusyError, match=f"Another process is writing {out}"):
            put(out, "city")
        (folder / "x").rename(folder.with_name("x"))
        for path in (tmp_path / "x").iterdir():
            path.rename(folder / path.name)
        (tmp_path / "x").rmdir()
    assert open_records(out).manifest["kind"] == "city"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    put(out, "city")
