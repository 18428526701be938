"""The audit as files for a spreadsheet: one CSV of all verdicts, one workbook with every table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from parity311.number_text import is_missing
from parity311.report.sections import Download
from parity311.report.store import RunWriter
from parity311.report.tables import as_cell
from parity311.storage.disk import telling_disk_errors, write_bytes_through

CSV_FILE, BOOK_FILE = "audit.csv", "audit.xlsx"
VERDICT_COLUMNS = {
    "domain": "domain", "setting": "setting", "policy_words": "whose decisions",
    "verdict_words": "verdict", "strata_words": "compared across", "denominator_words": "per",
    "size_words": "how unequal", "rate_words": "mean rate", "worst_words": "who, where it fails",
}  # fmt: skip
"""Columns of the file of verdicts, with their titles."""
Rows = Sequence[Mapping[str, Any]]


def write_files(run: RunWriter, verdicts: Rows, sheets: Mapping[str, Rows]) -> tuple[Download, ...]:
    """Write both beside the page; the workbook only where xlsxwriter is installed."""
    titled = [{title: row[name] for name, title in VERDICT_COLUMNS.items()} for row in verdicts]
    files = [Download("verdicts as CSV", CSV_FILE)]
    with telling_disk_errors(run.path):
        write_bytes_through(run.path / CSV_FILE, _as_csv(titled).encode())
        if find_spec("xlsxwriter") is not None:
            book = _as_workbook({"verdicts": titled, **sheets})
            write_bytes_through(run.path / BOOK_FILE, book)
            files.append(Download("everything as XLSX", BOOK_FILE))
    return tuple(files)


def _as_csv(rows: Rows) -> str:
    text = io.StringIO()
    names = list(VERDICT_COLUMNS.values())
    writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: as_cell(str(value)) for name, value in row.items()})
    return text.getvalue()


def _as_workbook(sheets: Mapping[str, Rows]) -> bytes:
    """One sheet a table; text stays text, and what is not known stays empty."""
    import xlsxwriter

    kept = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    book = xlsxwriter.Workbook(kept, options)
    bold, wrapped = book.add_format({"bold": True}), book.add_format({"text_wrap": True})
    for title, rows in sheets.items():
        sheet = book.add_worksheet(title)
        names = list(dict.fromkeys(name for row in rows for name in row))
        sheet.write_row(0, 0, names, bold)
        for place, row in enumerate(rows, start=1):
            for column, name in enumerate(names):
                value = row.get(name)
                if not is_missing(value):
                    sheet.write(place, column, value, wrapped)
        sheet.freeze_panes(1, 0)
        if names:
            sheet.autofilter(0, 0, len(rows), len(names) - 1)
            sheet.set_column(0, len(names) - 1, 22)
    book.close()
    return kept.getvalue()
