"""Recommendations as a file: for a spreadsheet, or for another system."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity311.errors import InputError
from parity311.storage.aside import write_bytes_aside, write_text_aside
from parity311.storage.disk import telling_disk_errors

if TYPE_CHECKING:
    from parity311.serving.recommend import Recommendations

ENDINGS = (".csv", ".xlsx", ".json")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Texts that a spreadsheet would run as a formula begin so."""


def check_ending(path: Path) -> None:
    """Refuse a file nobody knows how to write, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(
            f"{path.name} was given to write to; its name has to end in {', '.join(ENDINGS)}."
        )
    if path.suffix.lower() == ".xlsx" and find_spec("xlsxwriter") is None:
        raise InputError(
            "Writing .xlsx takes xlsxwriter; install it with `pip install 'parity311[sheets]'`, or "
            "write .csv, which every spreadsheet opens."
        )


def write_recommendations(path: Path, found: Recommendations) -> Path:
    """Write all recommendations and the summary, in one step for whoever reads the file."""
    check_ending(path)
    rows, summary = found.rows(), found.summary()
    with telling_disk_errors(path, InputError):
        if path.suffix.lower() == ".json":
            text = json.dumps({"summary": summary, "recommendations": rows}, indent=1) + "\n"
            write_text_aside(path, text)
        elif path.suffix.lower() == ".csv":
            write_text_aside(path, _as_csv(rows))
        else:
            write_bytes_aside(path, _as_workbook(rows, summary))
    return path


def _as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _harmless(value) for name, value in row.items()})
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """A text that a spreadsheet takes as text."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return "'" + value
    return value


def _as_workbook(rows: list[dict[str, Any]], summary: dict[str, Any]) -> bytes:
    import xlsxwriter

    kept = io.BytesIO()
    book = xlsxwriter.Workbook(kept, {"in_memory": True, "strings_to_formulas": False})
    bold = book.add_format({"bold": True})
    sheet = book.add_worksheet("recommendations")
    sheet.write_row(0, 0, list(rows[0]), bold)
    for number, row in enumerate(rows, start=1):
        sheet.write_row(number, 0, list(row.values()))
    sheet.freeze_panes(1, 2)
    sheet.autofilter(0, 0, len(rows), len(rows[0]) - 1)
    about = book.add_worksheet("summary")
    place = 0
    for name, value in summary.items():
        if not isinstance(value, list | dict):
            about.write_row(place, 0, [name, value])
            place += 1
    for row in summary["by_stratum"]:
        about.write_row(place, 0, [str(value) for pair in row.items() for value in pair])
        place += 1
    for text, count in summary["fallbacks"].items():
        about.write_row(place, 0, ["fallback", text, count])
        place += 1
    book.close()
    return kept.getvalue()
