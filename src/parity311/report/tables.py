"""Tables of a run: Parquet for programs, CSV for people."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from parity311.errors import RunError
from parity311.storage.disk import write_bytes_through
from parity311.storage.strict_json import to_plain

FORMULA = re.compile(r"\A([=+\-@\t\r])")
"""What makes a spreadsheet run a cell."""


def write_table(folder: Path, name: str, arrow: pa.Table) -> None:
    """Write `<name>.parquet` and `<name>.csv`."""
    buffer = io.BytesIO()
    parquet.write_table(arrow, buffer, compression="zstd")
    write_bytes_through(folder / f"{name}.parquet", buffer.getvalue())
    text = io.BytesIO()
    arrow_csv.write_csv(_flatten_nested(arrow), text)
    write_bytes_through(folder / f"{name}.csv", text.getvalue())


def as_cell(text: str) -> str:
    """Text that a spreadsheet shows and does not run: a formula gets an apostrophe before it."""
    return FORMULA.sub(r"'\1", text)


def to_arrow(
    name: str, table: pa.Table | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
) -> pa.Table:
    """Build an Arrow table from columns or rows; columns of rows are the union of their keys."""
    if isinstance(table, pa.Table):
        return table
    try:
        if isinstance(table, Mapping):
            return pa.table({key: _to_column(column) for key, column in table.items()})
        rows = [dict(row) for row in table]
        keys = list(dict.fromkeys(key for row in rows for key in row))
        return pa.table({key: _to_column([row.get(key) for row in rows]) for key in keys})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise RunError(
            f"Cannot store table {name!r} ({error}); give equally long columns of one type each."
        ) from error


def _to_column(values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if not hasattr(values, "__array__"):
        values = [value.item() if hasattr(value, "item") else value for value in values]
        return pa.array(values, from_pandas=True)
    return pa.array(np.asarray(values), from_pandas=True)  # NaN is stored as null


def _flatten_nested(table: pa.Table) -> pa.Table:
    """Write lists and structures as JSON text and NaN as nothing: CSV knows neither.

    Text that a spreadsheet would take for a formula is marked as text.
    """
    columns: dict[str, Any] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_nested(field.type):
            cells = (None if v is None else json.dumps(to_plain(v)) for v in column.to_pylist())
            columns[field.name] = pa.array(list(cells), pa.string())
        elif pa.types.is_floating(field.type):
            is_missing = compute.is_nan(column)  # pyright: ignore[reportAttributeAccessIssue]
            choose = compute.if_else  # pyright: ignore[reportAttributeAccessIssue]
            columns[field.name] = choose(is_missing, pa.scalar(None, field.type), column)
        else:
            columns[field.name] = column
        if pa.types.is_string(columns[field.name].type):
            cells = (None if v is None else as_cell(v) for v in columns[field.name].to_pylist())
            columns[field.name] = pa.array(list(cells), pa.string())
    return pa.table(list(columns.values()), [as_cell(name) for name in columns])
