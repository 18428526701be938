"""A user's own CSV as columns of text, read like the files of an import.

Comma, semicolon, tab or bar; UTF-8 or UTF-16; gzipped or alone in a zip; a workbook. Errors name
row (the header is row 1) and column.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from parity311.errors import RecordsError
from parity311.feeds import parsing as p
from parity311.feeds.boundaries import plain_id
from parity311.feeds.citymap import parts_thousands, people_numbers
from parity311.feeds.dates import read_dates
from parity311.feeds.formats import squash
from parity311.feeds.packing import columns_within, find_packing, read_head, unpack
from parity311.feeds.recognise import DELIMITERS, find_header, unique_names
from parity311.records.sql import connect, files, identifier, literal

NAMELESS = re.compile(r"\s*|Unnamed: \d+")
"""Headers of columns without a name, as pandas writes its index and reads it again."""
COUNTS = ("households", "population", "median_income")
"""Columns of which ``1,840`` is eighteen hundred."""
OWN_ZONE = "UTC"
"""Clock of times with an offset: only differences of times matter here."""


def read_table(path: Path, required: Sequence[str], known: Sequence[str], what: str) -> pa.Table:
    """Read a CSV as text; one line that says what is wrong where it cannot be.

    ``known`` names are found in any case and spelling ("Incident ID"); columns without a name are
    left out.
    """
    if not path.is_file():
        raise RecordsError(f"There is no file {path}; give the path of a CSV, one row per {what}.")
    if path.stat().st_size == 0:
        raise RecordsError(f"{path} is empty; write one header row and one row per {what}.")
    packing = find_packing(path)
    head = read_head(path, packing)
    if not head.strip():
        raise RecordsError(f"{path} is empty; write one header row and one row per {what}.")
    if packing.has_rows_within:
        found = {",": (0, columns_within(path, packing))}
    else:
        found = {mark: find_header(path, head, mark) for mark in DELIMITERS}
    headers = {mark: _known_names(header, known) for mark, (_, header) in found.items()}
    delimiter = max(
        headers, key=lambda mark: (len(set(required) & set(headers[mark])), len(headers[mark]))
    )
    header, titles = headers[delimiter], found[delimiter][0]
    given = [name.lower() for name in header if not NAMELESS.fullmatch(name)]
    if len(set(given)) < len(given):
        raise RecordsError(f"{path}, row 1: a column is named twice; rename one of them.")
    with tempfile.TemporaryDirectory() as folder:
        plain = path if packing.is_plain else unpack(path, packing, Path(folder) / "reports.csv")
        rows = _read_rows(path, plain, unique_names(header), delimiter, titles, what)
    nameless = [
        name for name, old in zip(rows.column_names, header, strict=True) if NAMELESS.fullmatch(old)
    ]
    rows = rows.drop_columns(nameless)
    missing = [name for name in required if name not in rows.column_names]
    if missing:
        raise RecordsError(
            f"{path} has no column {missing[0]!r}; it has {', '.join(rows.column_names)}, and "
            f"needs {', '.join(required)}. Rename or add it."
        )
    if rows.num_rows == 0:
        raise RecordsError(f"{path} has a header and no rows; give at least one {what}.")
    return rows


def _known_names(header: Sequence[str], known: Sequence[str]) -> list[str]:
    wanted = {squash(name): name for name in known}
    return [wanted.get(squash(name), name.strip()) for name in header]


def _read_rows(
    path: Path, plain: Path, names: Sequence[str], delimiter: str, titles: int, what: str
) -> pa.Table:
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    try:
        with connect() as connection:
            return connection.sql(
                f"SELECT * FROM read_csv({files([plain])}, all_varchar = true, "
                f"header = true, auto_detect = false, columns = {{{columns}}}, "
                f"delim = {literal(delimiter)}, quote = '\"', skip = {literal(titles)})"
            ).to_arrow_table()
    except duckdb.Error as error:
        place = re.search(r"Line: (\d+)", str(error))
        where = f", row {place[1]}" if place else ""
        raise RecordsError(
            f"{path}{where} cannot be read as CSV; write one header row and one row per {what}, "
            "with as many values as the header, separated by commas, semicolons or tabs."
        ) from error


def texts_of(column: pa.ChunkedArray) -> np.ndarray:
    """Text of every row; empty where there is none."""
    return np.array([value or "" for value in column.to_pylist()], dtype=str)


def area_ids(rows: pa.Table) -> np.ndarray:
    """Areas by one spelling: what a spreadsheet made of a code is that code."""
    return np.array([plain_id(text) for text in texts_of(rows["area"]).tolist()], dtype=str)


def is_empty(column: pa.ChunkedArray) -> np.ndarray:
    """Rows without a text."""
    return np.array([not (value or "").strip() for value in column.to_pylist()])


def refuse(path: Path, name: str, column: pa.ChunkedArray, bad: np.ndarray, allowed: str) -> None:
    """Raise where a row is bad, with the first of them."""
    found = np.flatnonzero(bad)
    if len(found):
        row = int(found[0])
        raise RecordsError(
            f"{path}, row {row + 2}, column {name!r}: {column[row].as_py()!r} is not allowed, "
            f"{allowed} ({len(found)} such rows). Correct the rows or leave them out."
        )


def read_numbers(path: Path, rows: pa.Table, name: str) -> np.ndarray:
    """A column of numbers, as people write them where that can be told; NaN where empty."""
    values = np.full(rows.num_rows, np.nan)
    bad = np.zeros(rows.num_rows, dtype=bool)
    for row, value in enumerate(rows[name].to_pylist()):
        if value is None or not value.strip():
            continue
        try:
            values[row] = float(value)
        except ValueError:
            bad[row] = True
    if bad.any():
        texts = rows[name].to_pylist()
        is_whole = name in COUNTS
        # Of another number, 1,840 may be either.
        if is_whole or not parts_thousands([text or "" for text in texts], ","):
            values = people_numbers(texts, is_whole)
            bad &= np.isnan(values)
    refuse(path, name, rows[name], bad, "expected a number (covariate of the area)")
    return values


def read_days(
    path: Path,
    rows: pa.Table,
    names: Sequence[str],
    needed: str,
    day_first: bool | None = None,
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Days since 1970 of columns of times, NaN where empty or absent; and how they were read.

    ``needed`` may not be empty. ``day_first`` is asked for where it is None and no date tells.
    """
    days = {name: np.full(rows.num_rows, np.nan) for name in names}
    there = [name for name in names if name in rows.column_names]
    with connect() as connection:
        connection.register("given", rows.select(there))
        reading = read_dates(
            connection, path.name, there, "SELECT * FROM given", OWN_ZONE, day_first=day_first
        )
        for name in there:
            text = f"trim({identifier(name)})"
            found = connection.sql(
                f"SELECT epoch({reading.timestamp(text)}) / 86400.0 AS day, "
                f"regexp_matches({text}, {literal(p.OFFSET)}) AS has_offset FROM given"
            ).fetchnumpy()
            days[name] = np.ma.filled(np.ma.asarray(found["day"], dtype=np.float64), np.nan)
            empty = is_empty(rows[name])
            bad = np.isnan(days[name]) & (~empty | (name == needed))
            refuse(path, name, rows[name], bad, "expected a time like 2025-03-01 14:30")
            has_offset = np.ma.filled(np.ma.asarray(found["has_offset"], dtype=bool), False)
            if reading.has_offsets:
                bad = ~has_offset & ~empty
                refuse(path, name, rows[name], bad, "other times have a UTC offset and it has none")
    return days, reading.notes
