"""Validation at the edge: a table is checked once, when it is written or first read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parity311.errors import RecordsError
from parity311.records.schema import Column, Table


def validate_table(table: Table, data: pa.Table, where: str) -> None:
    """Raise `RecordsError` naming file, column and row for the first thing that is wrong.

    Checks presence, type, nulls, ranges, allowed values, a unique key and the order of times.
    """
    for column in table.columns:
        if column.name not in data.column_names:
            raise RecordsError(
                f"{where} has no column {column.name!r} ({column.meaning}); it has "
                f"{', '.join(data.column_names)}. Rebuild or re-import the records."
            )
        _check_column(column, data[column.name], where)
    extra = [name for name in data.column_names if name not in table.column_names]
    if extra and not table.free_fields:
        raise RecordsError(
            f"{where} has unknown column {extra[0]!r}; allowed: {', '.join(table.column_names)}. "
            "Remove it, or import the file with a column map."
        )
    _check_key(table.key, data[table.key], where)
    for earlier, later in table.time_order:
        _check_order(earlier, later, data, where)


def _check_column(column: Column, values: pa.ChunkedArray, where: str) -> None:
    if not _type_matches(values.type, column.type):
        raise RecordsError(
            f"{where}, column {column.name!r}: type is {values.type}, expected {column.type}. "
            "Convert it before importing."
        )
    if not column.nullable and values.null_count:
        _fail(column, values, pc.is_null(values), where, "may not be empty")
    if column.minimum is not None:
        _fail(column, values, pc.less(values, column.minimum), where, f"at least {column.minimum}")
    if column.maximum is not None:
        bad = pc.greater(values, column.maximum)
        _fail(column, values, bad, where, f"at most {column.maximum}")
    if column.allowed is not None:
        known = pc.is_in(values, value_set=pa.array(column.allowed))
        bad = pc.and_(pc.invert(known), pc.is_valid(values))
        _fail(column, values, bad, where, f"one of {', '.join(column.allowed)}")


def _type_matches(given: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_list(expected):
        return pa.types.is_list(given) and given.value_type == expected.value_type
    return given == expected


def _fail(
    column: Column, values: pa.ChunkedArray, bad: pa.ChunkedArray, where: str, allowed: str
) -> None:
    rows = pc.indices_nonzero(pc.fill_null(bad, False))
    if len(rows) == 0:
        return
    row = rows[0].as_py()
    given = values[row].as_py()
    raise RecordsError(
        f"{where}, row {row + 1}, column {column.name!r}: {given!r} is not allowed, expected "
        f"{allowed} ({len(rows)} such rows). Correct the rows or leave them out."
    )


def _check_key(key: str, values: pa.ChunkedArray, where: str) -> None:
    n_distinct = pc.count_distinct(values).as_py()
    if n_distinct != len(values):
        raise RecordsError(
            f"{where}: {len(values) - n_distinct} rows repeat a value of {key!r}, which must be "
            "unique. Keep one row for each."
        )


def _check_order(earlier: str, later: str, data: pa.Table, where: str) -> None:
    bad = pc.fill_null(pc.greater(data[earlier], data[later]), False)
    rows = pc.indices_nonzero(bad)
    if len(rows):
        row = rows[0].as_py()
        raise RecordsError(
            f"{where}, row {row + 1}: {earlier} {data[earlier][row]} is after {later} "
            f"{data[later][row]} ({len(rows)} such rows). Correct the times or leave them empty."
        )
