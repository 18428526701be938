"""Validation at the edge: a table is checked once, when it is written or first read."""

# pyarrow.compute makes its functions when it is imported, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parity311.errors import RecordsError
from parity311.records.schema import ColumnSpec, Table
from parity311.records.sql import connect, files, identifier

BATCH_ROWS = 1 << 18
"""Rows that are looked at together."""


def validate_table(table: Table, data: pa.Table, where: str) -> None:
    """Raise `RecordsError` naming file, column and row for the first thing that is wrong.

    Checks presence, type, nulls, ranges, allowed values, a unique key and the order of times.
    """
    _check_rows(table, data, where)
    _check_key(table.key, data[table.key], where)


def validate_file(table: Table, path: Path, folder: Path) -> None:
    """Check a table on disk in batches, so that its size does not matter; raise as above."""
    where = str(path.relative_to(folder))
    first_row = 0
    try:
        with pq.ParquetFile(path) as file:
            _check_rows(table, file.schema_arrow.empty_table(), where)
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                data = pa.Table.from_batches([batch])
                _check_rows(table, data, where, first_row)
                first_row += len(data)
    except (pa.ArrowInvalid, OSError) as error:
        raise RecordsError(
            f"{where} cannot be read as Parquet ({str(error).splitlines()[0]}); build or import "
            "the records again."
        ) from error
    if first_row <= BATCH_ROWS:
        _check_key(table.key, pq.read_table(path, columns=[table.key])[table.key], where)
        return
    # Hashes of the keys need a fraction of the memory; equal ones are looked at again in full.
    with connect() as connection:
        n_distinct = connection.execute(
            f"SELECT count(DISTINCT hash({identifier(table.key)})) "
            f"FROM read_parquet({files([path])}, hive_partitioning = false)"
        ).fetchall()[0][0]
    if n_distinct != first_row:
        _check_key(table.key, pq.read_table(path, columns=[table.key])[table.key], where)


def _check_rows(table: Table, data: pa.Table, where: str, first_row: int = 0) -> None:
    """Everything but the key; ``first_row`` is the place of these rows in their file."""
    for column in table.columns:
        if column.name not in data.column_names:
            raise RecordsError(
                f"{where} has no column {column.name!r} ({column.meaning}); it has "
                f"{', '.join(data.column_names)}. Rebuild or re-import the records."
            )
        binds = None
        if column.allowed_where is not None and column.allowed_where[0] in data.column_names:
            binds = _starts_with(data[column.allowed_where[0]], column.allowed_where[1])
        _check_column(column, data[column.name], where, first_row, binds)
    extra = [name for name in data.column_names if name not in table.column_names]
    if extra and not table.free_fields:
        raise RecordsError(
            f"{where} has unknown column {extra[0]!r}; allowed: {', '.join(table.column_names)}. "
            "Remove it, or import the file with a column map."
        )
    for earlier, later in table.time_order:
        _check_order(earlier, later, data, where, first_row)


def _starts_with(values: pa.ChunkedArray, beginnings: tuple[str, ...]) -> pa.ChunkedArray:
    masks = [pc.starts_with(values, pattern=beginning) for beginning in beginnings]
    return reduce(pc.or_kleene, masks)


def _check_column(
    column: ColumnSpec,
    values: pa.ChunkedArray,
    where: str,
    first_row: int,
    binds: pa.ChunkedArray | None = None,
) -> None:
    if not _type_matches(values.type, column.type):
        raise RecordsError(
            f"{where}, column {column.name!r}: type is {values.type}, expected {column.type}. "
            "Convert it before importing."
        )
    if not column.nullable and values.null_count:
        _fail(column, values, pc.is_null(values), where, "may not be empty", first_row)
    if column.minimum is not None:
        bad = pc.less(values, column.minimum)
        _fail(column, values, bad, where, f"at least {column.minimum}", first_row)
    if column.maximum is not None:
        bad = pc.greater(values, column.maximum)
        _fail(column, values, bad, where, f"at most {column.maximum}", first_row)
    if column.allowed is not None:
        known = pc.is_in(values, value_set=pa.array(column.allowed))
        bad = pc.and_(pc.invert(known), pc.is_valid(values))
        if binds is not None:
            bad = pc.and_(bad, pc.fill_null(binds, False))
        _fail(column, values, bad, where, f"one of {', '.join(column.allowed)}", first_row)


def _type_matches(given: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_list(expected):
        return pa.types.is_list(given) and given.value_type == expected.value_type
    return given == expected


def _fail(
    column: ColumnSpec,
    values: pa.ChunkedArray,
    bad: pa.ChunkedArray,
    where: str,
    allowed: str,
    first_row: int,
) -> None:
    rows = pc.indices_nonzero(pc.fill_null(bad, False))
    if len(rows) == 0:
        return
    row = rows[0].as_py()
    given = values[row].as_py()
    raise RecordsError(
        f"{where}, row {first_row + row + 1}, column {column.name!r}: {given!r} is not allowed, "
        f"expected {allowed} ({len(rows)} such rows). Correct the rows or leave them out."
    )


def _check_key(key: str, values: pa.ChunkedArray, where: str) -> None:
    n_distinct = pc.count_distinct(values).as_py()
    if n_distinct != len(values):
        raise RecordsError(
            f"{where}: {len(values) - n_distinct} rows repeat a value of {key!r}, which must be "
            "unique. Keep one row for each."
        )


def _check_order(earlier: str, later: str, data: pa.Table, where: str, first_row: int) -> None:
    bad = pc.fill_null(pc.greater(data[earlier], data[later]), False)
    rows = pc.indices_nonzero(bad)
    if len(rows):
        row = rows[0].as_py()
        raise RecordsError(
            f"{where}, row {first_row + row + 1}: {earlier} {data[earlier][row]} is after {later} "
            f"{data[later][row]} ({len(rows)} such rows). Correct the times or leave them empty."
        )
