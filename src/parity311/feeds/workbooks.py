"""Workbooks (.xlsx, .xls, .ods): one sheet as the rows of a table, dates as dates.

Excel keeps a time as a number and the cell's format says that it is one; the reader turns such
cells to ISO. Agencies write titles above their tables: the header is the first row that is nearly
as wide as the rows below it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from parity311.errors import InputError, RecordsError, unknown_name

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

LOOKED_AT = 50
"""Rows of a sheet that are looked at to find its header."""
WIDE = 0.6
"""Share of the widest row's cells that a header fills at least."""


@dataclass(frozen=True)
class Sheet:
    """One sheet of a workbook and where its table starts."""

    name: str
    header_row: int
    """Number of the row that names the columns, from 0."""
    others: tuple[str, ...] = ()
    """Sheets that are not read."""
    more: tuple[tuple[str, int], ...] = ()
    """Further sheets with the very same columns, as of other years, and where their rows start."""

    def describe(self) -> str:
        """Which part of the workbook is read, in words."""
        beside = f"; not read: {', '.join(self.others)}" if self.others else ""
        same = ", ".join(repr(name) for name, _ in self.more)
        added = f", and below it {same} with the same columns" if same else ""
        return f"sheet {self.name!r}, header in row {self.header_row + 1}{added}{beside}"


def find_sheet(path: Path, asked: str = "") -> Sheet:
    """The sheet that was asked for, else the first that holds a table."""
    with _open(path) as book:
        names = list(book.sheet_names)
        if asked and asked not in names:
            raise unknown_name(f"sheet of {path.name}", asked, names)
        for name in [asked] if asked else names:
            header, row = _find_header(book, name)
            if row is not None:
                same = [] if asked else _sheets_alike(book, names[names.index(name) + 1 :], header)
                read = {name, *(other for other, _ in same)}
                others = tuple(other for other in names if other not in read)
                return Sheet(name, row, others, tuple(same))
    where = f"sheet {asked!r} of {path}" if asked else str(path)
    raise RecordsError(
        f"There is no table in {where}: a row of column names, and rows below it. Give another "
        "sheet, or save the table as CSV and give that."
    )


def _find_header(book: CalamineWorkbook, name: str) -> tuple[list[str], int | None]:
    """The names of a sheet's columns, and in which row they stand; None where it has no table."""
    rows = list(islice(_rows(book, name), LOOKED_AT))
    row = _header_row(rows)
    return ([_as_text(value) for value in rows[row]] if row is not None else []), row


def _sheets_alike(
    book: CalamineWorkbook, names: list[str], header: list[str]
) -> list[tuple[str, int]]:
    """Sheets with the very same columns, and the row of their header."""
    found = [(name, *_find_header(book, name)) for name in names]
    return [(name, row) for name, other, row in found if row is not None and other == header]


def write_sheet(path: Path, sheet: Sheet, out: IO[str], limit: int | None = None) -> None:
    """Write a sheet as CSV from its header on; no more than ``limit`` rows where that is given."""
    writer = csv.writer(out)
    with _open(path) as book:
        parts = [
            islice(_rows(book, sheet.name), sheet.header_row, None),
            *(islice(_rows(book, name), row + 1, None) for name, row in sheet.more),
        ]
        for row in islice(chain.from_iterable(parts), limit):
            texts = [_as_text(value) for value in row]
            if any(texts):
                writer.writerow(texts)


@contextmanager
def _open(path: Path) -> Iterator[CalamineWorkbook]:
    if find_spec("python_calamine") is None:
        raise InputError(
            f"{path} is a workbook, and reading one takes python-calamine; install it with `pip "
            "install 'parity311[sheets]'`, or save the sheet as CSV (UTF-8) and give that."
        )
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError

    try:
        book = CalamineWorkbook.from_path(path)
        try:
            yield book
        finally:
            book.close()
    except PasswordError as error:
        raise RecordsError(
            f"{path} is locked by a password; save it without one, or as CSV."
        ) from error
    except (CalamineError, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RecordsError(
            f"{path} cannot be read as a workbook ({first}); download it again, or save it as CSV."
        ) from error


def _rows(book: CalamineWorkbook, name: str) -> Iterator[list[Any]]:
    """Rows of a sheet, from its first row on."""
    yield from book.get_sheet_by_name(name).iter_rows()


def _header_row(rows: list[list[Any]]) -> int | None:
    """The first row that is nearly as wide as any, with text in its cells and a row below it."""
    filled = [sum(_as_text(value) != "" for value in row) for row in rows]
    widest = max(filled, default=0)
    for number, n in enumerate(filled):
        is_text = all(isinstance(value, str) for value in rows[number] if _as_text(value))
        if n >= 2 and n >= WIDE * widest and is_text and any(filled[number + 1 :]):
            return number
    return None


def _as_text(value: Any) -> str:
    """A cell as the readers take it: ISO dates, whole numbers without a point."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value).strip()
