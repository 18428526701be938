"""Rows that an import set aside: where each was, why, and what it said.

The rows are kept as Parquet, which the records check, and once more as CSV that Excel opens.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import LiteralString

from parity311.feeds import judge
from parity311.feeds.work import ImportWork
from parity311.feeds.write import copy_sorted
from parity311.records.sql import identifier, literal, parquet

UNREADABLE = "unreadable.csv"
"""Lines that are no rows, of which nobody knows the domain."""
EXCEL_UTF_8 = "utf-8-sig"
"""UTF-8 with the mark without which Excel takes it for something else."""
FORMULA = r"^[=+@\t-]"
"""How a text starts that a spreadsheet would compute."""


def quarantined(work: ImportWork) -> LiteralString:
    """SQL: the complaints that were set aside."""
    paths = list((work.placed / f"domain={judge.QUARANTINE}").glob("*.parquet"))
    if not paths:
        return "(SELECT 'none' AS reason, '' AS received_text WHERE false)"
    return parquet(paths)


def write_quarantine(work: ImportWork) -> None:
    """Write quarantine/SOURCE for complaints set aside, unreadable.csv for lines that are no rows.

    The second is always there, with its header alone where every line could be read.
    """
    names = " ".join(
        f"WHEN {literal(number)} THEN {literal(group.name)}"
        for number, group in enumerate(work.complaint_groups)
    )
    if (work.placed / f"domain={judge.QUARANTINE}").is_dir():
        for source in work.sources:
            write_set_aside(
                work,
                f"""
SELECT CASE file {names} END AS file, row, key, reason, code_domain AS domain, kind AS code,
  received_text, received_at, borough, zip, longitude, latitude, bbl, bin, community_board,
  severity, channel, closed_at, visited_at, disposition_class
FROM {quarantined(work)} WHERE source = {literal(source)} ORDER BY file, row""",
                source,
            )
    path = _place(work, UNREADABLE)
    with path.open("w", encoding=EXCEL_UTF_8, newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "line", "reason"])
        for name, lost in work.unreadable.items():
            for entry in lost:
                writer.writerows([name, number, entry.reason] for number in entry.numbers)


def write_set_aside(work: ImportWork, query: LiteralString, name: str) -> None:
    """Write the rows of a query to quarantine/NAME, as Parquet and for a spreadsheet, if any."""
    path = _place(work, f"{name}.parquet")
    copy_sorted(work.connection, query, path)
    rows = parquet([path])
    if work.connection.execute(f"SELECT count(*) FROM {rows}").fetchall()[0][0] == 0:
        path.unlink()
        return
    texts = work.connection.execute(
        f"SELECT column_name FROM (DESCRIBE SELECT * FROM {rows}) WHERE column_type = 'VARCHAR'"
    ).fetchall()
    names: list[LiteralString] = [identifier(name) for (name,) in texts]
    harmless = ", ".join(f"{_harmless(name)} AS {name}" for name in names)
    plain = path.with_suffix(".plain")
    work.connection.execute(
        f"COPY (SELECT * REPLACE ({harmless}) FROM {rows}) TO {literal(plain)} "
        "(FORMAT csv, HEADER true)"
    )
    with plain.open("rb") as source, path.with_suffix(".csv").open("wb") as out:
        out.write("\ufeff".encode())
        shutil.copyfileobj(source, out)
    plain.unlink()


def _harmless(column: LiteralString) -> LiteralString:
    """SQL: a text that no spreadsheet takes for a formula."""
    marked = f"chr(39) || {column}"
    return f"CASE WHEN regexp_matches({column}, {literal(FORMULA)}) THEN {marked} ELSE {column} END"


def _place(work: ImportWork, name: str) -> Path:
    path = work.aside / "quarantine" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def keep_quarantine(work: ImportWork) -> Path | None:
    """Copy what was set aside to a folder of its own beside the one that was not written."""
    made = work.aside / "quarantine"
    if work.out is None or not made.is_dir():
        return None
    for number in range(1, 1000):
        place = work.out.with_name(f"{work.out.name}-quarantine{'' if number == 1 else -number}")
        try:
            place.mkdir(parents=True)
        except FileExistsError:
            continue
        for path in made.iterdir():
            shutil.copy(path, place)
        return place
    return None
