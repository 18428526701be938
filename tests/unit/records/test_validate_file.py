"""Tables on disk are checked in batches, with the row numbers of the whole file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import tiny_tables

from parity311.errors import RecordsError
from parity311.records import validate
from parity311.records.schema import TABLES
from parity311.records.store import open_records
from parity311.records.validate import validate_file


@pytest.fixture(params=[7, 1 << 18], ids=["in batches", "at once"], autouse=True)
def _batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are compared by hash where rows do not fit into one batch."""
    monkeypatch.setattr(validate, "BATCH_ROWS", request.param)


def write(folder: Path, change: dict[str, pa.Array] | None = None) -> Path:
    table = tiny_tables()["complaints"]
    for name, values in (change or {}).items():
        table = table.set_column(table.column_names.index(name), name, values)
    pq.write_table(table, folder / "heat.parquet", row_group_size=7)
    return folder / "heat.parquet"


def test_sound_rows_pass(tmp_path: Path) -> None:
    validate_file(TABLES["complaints"], write(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"severity": ["B"] * 30 + ["X"] * 10}, r"row 31, column 'severity': 'X'"),
        ({"complaint_id": ["same"] * 40}, "39 rows repeat a value of 'complaint_id'"),
        ({"channel": [None] * 40}, "may not be empty"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, change: dict[str, list], message: str) -> None:
    columns = {name: pa.array(values, pa.string()) for name, values in change.items()}
    path = write(tmp_path, columns)
    with pytest.raises(RecordsError, match=message):
        validate_file(TABLES["complaints"], path, tmp_path)


def test_a_damaged_file_of_a_folder_is_named(tiny_records: Path) -> None:
    records = open_records(tiny_records)
    records.validate()
    path = tiny_records / "complaints" / "heat.parquet"
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(RecordsError, match="heat.parquet was changed since it was written"):
        records.validate()
    with pytest.raises(RecordsError, match="cannot be read as Parquet"):
        validate_file(TABLES["complaints"], path, tiny_records)
