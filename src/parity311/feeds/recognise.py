"""What a file holds, found out from its first bytes and its header; and why it was taken for that.

Whoever gives the file may say otherwise: its kind, or the sheet of a workbook.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from parity311.errors import InputError, RecordsError, unknown_name
from parity311.feeds.formats import TABLE_FORMATS, Format
from parity311.feeds.packing import (
    PLAIN,
    Packing,
    columns_within,
    find_packing,
    read_head,
)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""What may stand between two values, and its name."""
SHAPE_KINDS = ("boundaries", "districts")
"""What a GeoJSON file may be."""
OTHER_TITLES = {
    "boundaries": "tract boundaries",
    "districts": "district boundaries",
    "metadata": "a portal's description of a dataset",
    "acs_answer": "an answer of the Census",
}
"""Kinds that are known by more than a header."""


@dataclass(frozen=True)
class FileLayout:
    """How one file is to be read."""

    kind: str
    path: Path
    columns: Mapping[str, str]
    """API name -> name in the file."""
    header: tuple[str, ...] = ()
    delimiter: str = ","
    titles: int = 0
    """Lines above the header: titles of a report, or a spreadsheet's `sep=;`."""
    escape: str = '"'
    """What stands before a quotation mark within a quoted value: another, or a backslash."""
    is_json: bool = False
    wanted: tuple[str, ...] = ()
    """Columns to read, where the format is a city's own."""
    packing: Packing = PLAIN
    unpacked: Path | None = None
    """Where its plain text lies, once it was unpacked."""
    title: str = ""
    """What a file of this kind is called."""
    required: tuple[str, ...] = ()
    """Columns by which it was told."""
    is_said: bool = False
    """Whether its kind is what the user said, not what its header told."""

    @property
    def text_path(self) -> Path:
        """The file that the readers read."""
        return self.unpacked or self.path

    def describe(self) -> str:
        """What the file was read as, and why, in words."""
        title = self.title or OTHER_TITLES.get(self.kind, self.kind)
        if self.is_said:
            why = "as was said"
        elif self.required:
            named = ", ".join(self.columns[name] for name in self.required)
            why = (
                f"since it has {named}; {len(self.columns)} of {len(self.header)} columns are read"
            )
        else:
            why = "by its content"
        how = self.describe_shape()
        return f"{title}, {why}" + (f" ({how})" if how else "")

    def describe_shape(self) -> str:
        """How the file is packed and its values are separated, in words."""
        marks = f"separated by {DELIMITERS[self.delimiter]}"
        is_text = not self.is_json and not self.packing.has_rows_within and not self.packing.sheet
        marks += f", header in line {self.titles + 1}" if self.titles else ""
        shape = "JSON" if self.is_json else marks if is_text else ""
        return ", ".join(filter(None, (self.packing.describe(), shape)))

    def with_text(self, path: Path) -> FileLayout:
        """The same file, once its plain text lies somewhere."""
        return replace(self, unpacked=path)


def recognise(
    path: Path, own_formats: Sequence[Format] = (), *, kind: str = "", sheet: str = ""
) -> FileLayout:
    """Find out what a file holds from its first bytes; say what is wrong if it is nothing known.

    ``own_formats`` are those of another city's map; with them, New York's are not tried. ``kind``
    and ``sheet`` are what the user says the file is, and which sheet of it is meant.
    """
    if not path.is_file():
        raise RecordsError(f"There is no file {path}; check the path.")
    if path.stat().st_size == 0:
        raise RecordsError(f"{path} is empty; download or export it again.")
    packing = find_packing(path, sheet)
    head = read_head(path, packing)
    formats = own_formats or TABLE_FORMATS
    if not head.strip():
        raise RecordsError(f"{path} is empty; download or export it again.")
    if kind:
        known = {one.kind: one for one in formats}
        if kind not in known and kind not in SHAPE_KINDS:
            raise unknown_name("kind of file", kind, (*known, *SHAPE_KINDS))
        formats = (known[kind],) if kind in known else ()
    if packing.has_rows_within:
        layout = _choose(path, columns_within(path, packing), formats, delimiter=",")
    elif head.lstrip()[:1] in "[{":
        layout = _recognise_json(path, head, formats, kind)
    elif kind in SHAPE_KINDS:
        raise InputError(f"{path} was said to be {OTHER_TITLES[kind]}, and is not GeoJSON.")
    else:
        layout = _recognise_csv(path, head, formats)
    return replace(layout, packing=packing, is_said=bool(kind))


def look_at(path: Path, *, sheet: str = "") -> FileLayout:
    """How to read a table of any kind, every column under its own name."""
    if not path.is_file():
        raise RecordsError(f"There is no file {path}; check the path.")
    packing = find_packing(path, sheet)
    head = read_head(path, packing)
    if not head.strip():
        raise RecordsError(f"{path} is empty; download or export it again.")
    delimiter, is_json, titles = ",", False, 0
    if packing.has_rows_within:
        header = columns_within(path, packing)
    elif head.lstrip()[:1] in "[{":
        header, is_json = _json_names(path, head), True
    else:
        headers = {mark: find_header(path, head, mark) for mark in DELIMITERS}
        delimiter = max(headers, key=lambda mark: len(headers[mark][1]))
        titles, header = headers[delimiter]
    names = tuple(unique_names(header))
    escape = '"' if is_json or packing.has_rows_within else find_escape(head, delimiter)
    return FileLayout(
        "unknown", path, dict(zip(names, names, strict=True)), names, delimiter, titles, escape,
        is_json=is_json, wanted=names, packing=packing,
    )  # fmt: skip


LONGEST_HEADER = 100_000
"""Characters of a first line that may be a header: real ones have a few thousand."""


LOOKED_AT_FOR_ESCAPE = 2_000
"""Lines by which it is told how quotation marks are written within values."""
LOOKED_AT = 50
"""Lines of a file among which its header is looked for."""
WIDE = 0.6
"""Share of the widest line's values that a header has at least, as in a workbook's sheet."""
NO_NAME = re.compile(r"[-+]?[0-9]+([.,:/-][0-9]+)*([ T].*)?")
"""A number, a date or a time, which names no column."""


def find_header(path: Path, head: str, delimiter: str) -> tuple[int, list[str]]:
    """How many lines stand above a file's header, and the names in it.

    Reports have titles above their table, and spreadsheets write `sep=;`: the header is the first
    line that is nearly as wide as any and holds names alone; the first line where none is.
    """
    lines = head.splitlines()[:LOOKED_AT]
    rows = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    seen: list[tuple[int, list[str]]] = []
    try:
        ends = 0
        for cells in rows:
            seen.append((ends, [cell.strip() for cell in cells]))
            ends = rows.line_num
    except csv.Error:  # A value longer than any name.
        pass
    filled = [sum(bool(cell) for cell in cells) for _, cells in seen]
    widest = max(filled, default=0)
    titles = next(
        (
            above
            for (above, cells), n in zip(seen, filled, strict=True)
            if n >= 2 and n >= WIDE * widest and not any(NO_NAME.fullmatch(cell) for cell in cells)
        ),
        0,
    )
    check_first_line(path, lines[titles])
    return titles, next(csv.reader([lines[titles]], delimiter=delimiter), [])


def find_escape(head: str, delimiter: str) -> str:
    """A backslash where it stands before quotation marks, as databases write; else the mark."""
    if '\\"' not in head:
        return '"'
    lines = head.splitlines(keepends=True)[:LOOKED_AT_FOR_ESCAPE]

    def widths(**how: Any) -> set[int]:
        try:
            return {len(row) for row in csv.reader(lines, delimiter=delimiter, **how) if row}
        except csv.Error:
            return set()

    doubled, escaped = widths(), widths(doublequote=False, escapechar="\\")
    return "\\" if escaped and (not doubled or len(escaped) < len(doubled)) else '"'


def unique_names(header: Iterable[str]) -> list[str]:
    """Names by which columns can be told apart: numbered where there is none, never twice."""
    names: list[str] = []
    for place, given in enumerate(header, 1):
        name = given if given.strip() else f"column_{place}"
        while name.lower() in (other.lower() for other in names):
            name += "_"
        names.append(name)
    return names


def check_first_line(path: Path, first: str) -> None:
    """Refuse a line that is no header: endless, or broken within a name."""
    if len(first) > LONGEST_HEADER:
        raise RecordsError(
            f"{path} has a first line of more than {LONGEST_HEADER:,} characters, which is no "
            "header; give a CSV or JSON export."
        )
    if first.count('"') % 2:
        raise RecordsError(
            f"{path} has a line break or a lone quotation mark in a column name; rename that "
            "column in the first line."
        )


def _recognise_csv(path: Path, head: str, formats: Sequence[Format]) -> FileLayout:
    headers = {delimiter: find_header(path, head, delimiter) for delimiter in DELIMITERS}
    found = [
        replace(layout, titles=titles, escape=find_escape(head, delimiter))
        for delimiter, (titles, header) in headers.items()
        if (layout := _match(path, header, formats, delimiter)) is not None
    ]
    if not found:
        # The separator that gives most columns is the file's.
        header = max((header for _, header in headers.values()), key=len)
        raise _unknown_header(path, header, formats)
    return max(found, key=lambda layout: len(layout.columns))


def _match(
    path: Path, header: list[str], formats: Sequence[Format], delimiter: str, is_json: bool = False
) -> FileLayout | None:
    """The format whose required columns are all there, the one with most columns; or none."""
    best: FileLayout | None = None
    for known in formats:
        columns = known.match(header)
        if all(name in columns for name in known.required) and (
            best is None or len(columns) > len(best.columns)
        ):
            wanted = known.columns if known not in TABLE_FORMATS else ()
            best = FileLayout(
                known.kind,
                path,
                columns,
                tuple(header),
                delimiter,
                is_json=is_json,
                wanted=wanted,
                title=known.title,
                required=known.required,
            )
    return best


def _choose(
    path: Path, header: list[str], formats: Sequence[Format], delimiter: str, is_json: bool = False
) -> FileLayout:
    found = _match(path, header, formats, delimiter, is_json)
    if found is None:
        raise _unknown_header(path, header, formats)
    return found


def _recognise_json(path: Path, head: str, formats: Sequence[Format], said: str) -> FileLayout:
    if '"Topology"' in head[:2000]:
        raise RecordsError(f"{path} is TopoJSON; export the outlines as GeoJSON.")
    if '"FeatureCollection"' in head[:2000]:
        kind = "districts" if '"BoroCD"' in head or '"boro_cd"' in head else "boundaries"
        return FileLayout(said if said in SHAPE_KINDS else kind, path, {}, is_json=True)
    names = _json_names(path, head)
    if "errorCode" in names:
        raise RecordsError(
            f"{path} is an error the server answered with, not rows: "
            f"{str(json.loads(head).get('message', ''))[:120]!r}. Fetch it again."
        )
    if '"fieldName"' in head:
        return FileLayout("metadata", path, {}, is_json=True)
    if names and names[0] == "NAME":
        return FileLayout("acs_answer", path, {}, tuple(names), is_json=True)
    return _choose(path, names, formats, ",", is_json=True)


def _json_names(path: Path, head: str) -> list[str]:
    """Names of the fields of the first rows; the API leaves out fields that are null."""
    decoder = json.JSONDecoder()
    names: dict[str, None] = {}
    at = head.find("[") + 1
    if head.lstrip().startswith("[["):
        try:
            return [str(name) for name in decoder.raw_decode(head, at)[0]]
        except (ValueError, RecursionError) as error:
            raise RecordsError(
                f"{path} starts like an answer of the Census and cannot be read; fetch it again."
            ) from error
    if head.lstrip().startswith("{"):
        at = 0
    while True:
        while at < len(head) and head[at] in " \r\n\t,":
            at += 1
        try:
            row, at = decoder.raw_decode(head, at)
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict):
            break
        names |= dict.fromkeys(row)
    if not names:
        raise RecordsError(
            f"{path} starts like JSON but holds no rows; download it again, or give a CSV export."
        )
    return list(names)


def _unknown_header(path: Path, header: list[str], formats: Sequence[Format]) -> RecordsError:
    """Name the kind it comes closest to and what that one lacks.

    A file is close to a kind if it has half of what that must have: coordinates alone make no tax
    lots of another city's complaints. With a map there is one kind of complaints to be close to.
    """
    shown = ", ".join(unique_names(header)[:8]) + (" …" if len(header) > 8 else "")
    nearest, found = None, {}
    for known in formats:
        columns = known.match(header)
        required = sum(name in columns for name in known.required)
        is_close = 2 * required >= len(known.required) or known.by_alias_only
        if is_close and len(columns) >= 2 and len(columns) > len(found):
            nearest, found = known, columns
    if nearest is None:
        kinds = ", ".join(known.title for known in formats)
        return RecordsError(
            f"{path} is none of the files that can be imported ({kinds}); its header is: {shown}. "
            "Describe its columns in a TOML file and pass it with --map."
        )
    missing = next(name for name in nearest.required if name not in found)
    if nearest.by_alias_only:
        given = next(alias for alias, name in nearest.aliases.items() if name == missing)
        near = get_close_matches(given, header, n=1, cutoff=0.5)
        hint = f" Perhaps {near[0]!r} is it." if near else ""
        return RecordsError(
            f"{path} looks like {nearest.title} but has no column {given!r}, which the map gives "
            f"as {missing}; its header is: {shown}.{hint} Correct the map, or export the column."
        )
    near = get_close_matches(missing, header, n=1, cutoff=0.5)
    hint = f" Perhaps {near[0]!r} is it: rename it, or map it with --map." if near else ""
    return RecordsError(
        f"{path} looks like {nearest.title} but has no column {missing!r}; its header is: {shown}."
        f"{hint or ' Export it again with all columns, or map it with --map.'}"
    )
