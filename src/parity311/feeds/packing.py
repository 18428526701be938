"""How a file is packed: a workbook, zipped, gzipped, in UTF-16, or a data portal's `rows.json`.

The readers take plain text in UTF-8, gzipped or not. Everything else is unpacked into such a file
first, as a stream.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any, cast

from parity311.errors import RecordsError
from parity311.feeds.workbooks import Sheet, find_sheet, write_sheet

HEAD_BYTES = 1 << 20
"""How much of a file is read to recognise it."""
CHUNK_CHARACTERS = 1 << 20
LONGEST_VALUE, LONGEST_GAP = 1 << 24, 1 << 10
"""Characters that one value of a portal's rows.json may take, and what stands between two."""
UTF_8, WINDOWS = "utf-8-sig", "cp1252"
HEAD_ROWS = 200
"""How many rows of a workbook's sheet are read to recognise it."""
OLD_WORKBOOK = b"\xd0\xcf\x11\xe0"
"""How a workbook of before 2007 (.xls) starts."""
NO_TABLES: tuple[tuple[tuple[bytes, ...], str, str], ...] = (
    ((b"%PDF",), "a PDF", "ask for the table that it was printed from, as CSV (UTF-8)"),
    ((b"PAR1",), "Parquet", "save it as CSV (UTF-8)"),
    ((b"SQLite format 3",), "a database", "export its table as CSV (UTF-8)"),
    ((b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"),
     "an archive of a kind that is not read", "unpack it"),
    ((b"\x89PNG", b"\xff\xd8\xff"), "a picture", "ask for the table as CSV (UTF-8)"),
    ((b"{\\rtf",), "a text document", "save its table as CSV (UTF-8)"),
)  # fmt: skip
"""First bytes of files that are no tables, what they are, and what to do."""
PAGE_TITLE = re.compile(r"<title[^>]*>\s*([^<]{1,80})", re.IGNORECASE)
FEW_LETTERS = 3
"""Letters that are no UTF-8 from which on a file is taken for Windows-1252; fewer are damage."""
NOT_ASCII = re.compile(rb"[\x80-\xff]")
TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".json", ".geojson", ".jsonl", ".ndjson")
"""How names of tables in a zip end; portals put texts and lists of the columns beside them."""
BESIDE = re.compile(r"(?i)read.?me|dictionary|metadata|codebook|licen[cs]e|data.?package|schema")
"""Names of files that portals put beside a table."""
SEPARATOR, END = re.compile(r"\s*,?\s*(?=\[)"), re.compile(r"\s*\]")
PORTAL_START = re.compile(r'\s*\{\s*"meta"\s*:\s*(?=\{)')
PORTAL_ROWS = re.compile(r'\s*,\s*"data"\s*:\s*\[')
ANSWER_ROWS = re.compile(
    r'"(features|records|results|items|value|rows|requests|service_requests|data)"\s*:\s*\['
    r"\s*(?=[\[{])"
)
"""Lists under which servers put the rows of an answer: CKAN, ArcGIS, OData, Open311 in wrappers."""
ANSWER_NAMES = re.compile(r'"(fields|columns)"\s*:\s*(?=\[)')
SHAPE = re.compile(r'"type"\s*:\s*"(Multi)?(Point|LineString|Polygon)"')
WEB_MERCATOR = re.compile(
    r'"(latestW|w)kid"\s*:\s*(102100|102113|3857|900913)\b|EPSG:{1,2}(3857|900913)\b'
)
"""How an answer says that its points are metres on the maps of the web."""
EARTH_RADIUS = 6378137.0
"""Metres, as those maps take it."""
NEXT = re.compile(r"\s*,?\s*(?=[\[{])")
SAYS_MORE = re.compile(
    r'"exceededTransferLimit"\s*:\s*true|"(?:@odata\.nextLink|odata\.nextLink)"\s*:\s*"[^"]'
)
TOTAL = re.compile(r'"total"\s*:\s*([0-9]+)')
ENDS = 1 << 16
"""Bytes at both ends of an answer in which the server may say that there are more rows."""


@dataclass(frozen=True)
class Packing:
    """What stands between a file and its text."""

    member: str = ""
    """Name of the one file in a zip that is read."""
    beside: tuple[str, ...] = ()
    """Other files in the zip, which hold no table."""
    is_gzip: bool = False
    encoding: str = UTF_8
    has_portal_rows: bool = False
    """Whether it is a portal's rows.json: columns under "meta", rows as lists under "data"."""
    rows_under: str = ""
    """Name of the list that holds the rows of a server's answer, or of a GeoJSON of points."""
    is_web_mercator: bool = False
    """Whether points are metres of the maps of the web, which are turned to degrees."""
    has_old_ends: bool = False
    """Whether lines end as on old Macs, by a carriage return alone."""
    is_plain: bool = True
    """Whether the readers can take it as it is."""
    sheet: Sheet | None = None
    """The sheet of a workbook that is read."""

    def describe(self) -> str:
        """How the file is packed, in words; empty where it is plain text."""
        parts = []
        if self.sheet is not None:
            return self.sheet.describe()
        if self.member:
            others = f", not read: {', '.join(self.beside)}" if self.beside else ""
            parts.append(f"{self.member!r} in a zip{others}")
        if self.is_gzip:
            parts.append("gzipped")
        if self.encoding != UTF_8:
            parts.append({WINDOWS: "Windows-1252"}.get(self.encoding, "UTF-16"))
        if self.has_portal_rows:
            parts.append("a portal's rows.json")
        if self.rows_under == "features":
            turned = ", turned from Web Mercator to degrees" if self.is_web_mercator else ""
            parts.append(f"points of GeoJSON or ArcGIS{turned}")
        elif self.rows_under:
            parts.append(f"a server's answer, rows under {self.rows_under!r}")
        return ", ".join(parts)

    @property
    def has_rows_within(self) -> bool:
        """Whether the rows lie within a JSON answer, and are written as CSV to be read."""
        return self.has_portal_rows or bool(self.rows_under)


PLAIN = Packing()


def find_packing(path: Path, sheet: str = "") -> Packing:
    """Find out how a file is packed from its first bytes, whatever its name says.

    ``sheet`` is the one of a workbook, or the file of a zip, that was asked for; the first with a
    table, or the only one, if empty.
    """
    try:
        with path.open("rb") as file:
            first = file.read(4)
        names = _members(path) if first == b"PK\x03\x04" else []
        if first == OLD_WORKBOOK or _is_workbook(names):
            return Packing(is_plain=False, sheet=find_sheet(path, sheet))
        member = _only_member(path, names, sheet) if names else ""
        is_gzip = first[:2] == b"\x1f\x8b"
        beside = tuple(name for name in names if name != member)
        packing = Packing(member, beside, is_gzip)
        with open_bytes(path, packing) as file:
            data = file.read(HEAD_BYTES)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error
    encoding = find_encoding(data)
    start = data[:4096].decode(encoding, errors="replace")
    _refuse_no_table(path, data, start)
    has_portal_rows = PORTAL_START.match(start) is not None
    text = data.decode(encoding, errors="replace")
    rows_under = "" if has_portal_rows else _find_rows(text)
    is_turned = rows_under == "features" and WEB_MERCATOR.search(text[:ENDS]) is not None
    has_old_ends = "\r" in text and "\n" not in text
    is_plain = encoding == UTF_8 and not member and not has_portal_rows and not rows_under
    is_plain &= is_gzip == (path.suffix == ".gz") and not has_old_ends
    return Packing(
        member, beside, is_gzip, encoding, has_portal_rows, rows_under, is_turned, has_old_ends,
        is_plain,
    )  # fmt: skip


def _find_rows(head: str) -> str:
    """Name of the list that holds the rows of a server's answer; empty where rows stand alone."""
    start = head.lstrip()
    found = ANSWER_ROWS.search(start) if start[:1] == "{" else None
    if found is None:
        return ""
    try:
        end = json.JSONDecoder().raw_decode(start)[1]
        if start[end:].strip():
            return ""  # One object a line.
    except (ValueError, RecursionError):
        pass  # An object that is longer than what was read.
    if found[1] == "features" and '"attributes"' not in start:
        shape = SHAPE.search(start)
        return found[1] if shape is not None and shape[2] == "Point" else ""
    return found[1]


def _refuse_no_table(path: Path, data: bytes, start: str) -> None:
    """Say what a file is that holds no table, whatever its name says."""
    for marks, kind, cure in NO_TABLES:
        if data.startswith(marks):
            raise RecordsError(f"{path} is {kind}, not a table; {cure}, and give that.")
    if data.startswith(b"PK\x03\x04"):
        raise RecordsError(f"{path} holds a workbook or another zip; unpack it, and give that.")
    text = start.lstrip().lower()
    if text.startswith(("<!doctype html", "<html")) or ("<html" in text and text[:1] == "<"):
        title = PAGE_TITLE.search(start)
        said = f", titled {title[1].strip()!r}" if title else ""
        raise RecordsError(
            f"{path} is a web page{said}, not a table: servers send one instead of rows where a "
            "download fails. Download it again; if a spreadsheet shows a table, save it as CSV."
        )
    if text.startswith(("<?xml", "<kml", "<rss")):
        raise RecordsError(
            f"{path} is XML, not a table; export it as CSV or JSON (outlines: as GeoJSON)."
        )


def find_encoding(data: bytes) -> str:
    """UTF-16 by its mark or its zero bytes, Windows-1252 where no letter is UTF-8; else UTF-8."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    halves = data[0:200:2], data[1:200:2]
    zeros = [half.count(0) / max(len(half), 1) for half in halves]
    if max(zeros) > 0.5 > 2 * min(zeros):
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    has_utf_8 = not data.decode("utf-8", errors="ignore").isascii()
    # Names of columns are not damaged.
    in_header = NOT_ASCII.search(data.lstrip().split(b"\n", 1)[0])
    if not has_utf_8 and (in_header or len(NOT_ASCII.findall(data)) >= FEW_LETTERS):
        return WINDOWS
    return UTF_8


def _members(path: Path) -> list[str]:
    """Names of the files in a zip, without folders and what a Mac adds."""
    with zipfile.ZipFile(path) as packed:
        return [
            name
            for name in packed.namelist()
            if not name.endswith("/") and not name.startswith("__MACOSX/")
        ]


def _is_workbook(names: list[str]) -> bool:
    """Whether these are the parts of a workbook: Excel's, or an open document's."""
    is_open_document = "mimetype" in names and "content.xml" in names
    return "xl/workbook.xml" in names or "xl/workbook.bin" in names or is_open_document


def _only_member(path: Path, names: list[str], asked: str) -> str:
    """The one table in a zip, or that asked for; an error that says what else it is, if none."""
    if asked in names:
        return asked
    if "[Content_Types].xml" in names:
        raise RecordsError(f"{path} is a document, not a table; save its table as CSV (UTF-8).")
    if any(name.lower().endswith(".shp") for name in names):
        raise RecordsError(
            f"{path} holds a shapefile; export it as GeoJSON in longitude and latitude instead."
        )
    if len(names) == 1:
        return names[0]
    tables = [
        name for name in names if name.lower().endswith(TABLE_ENDINGS) and not BESIDE.search(name)
    ]
    if len(tables) != 1:
        shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
        raise RecordsError(
            f"{path} holds {len(names)} files ({shown}), and one is read; name it with --sheet, or "
            "unpack it and give those that are meant (files of the same columns can be given "
            "together)."
        )
    return tables[0]


@contextmanager
def open_bytes(path: Path, packing: Packing) -> Iterator[IO[bytes]]:
    """The bytes of a file, out of its zip or gzip."""
    if packing.member:
        with zipfile.ZipFile(path) as packed, packed.open(packing.member) as file:
            yield file
    elif packing.is_gzip:
        with gzip.open(path, "rb") as file:
            yield cast(IO[bytes], file)
    else:
        with path.open("rb") as file:
            yield file


@contextmanager
def _open_text(path: Path, packing: Packing) -> Iterator[IO[str]]:
    with (
        open_bytes(path, packing) as file,
        TextIOWrapper(
            file, packing.encoding, errors="replace", newline=None if packing.has_old_ends else ""
        ) as text,
    ):
        yield text


def read_head(path: Path, packing: Packing) -> str:
    """The first megabyte of a file, or the first rows of a sheet, as text."""
    if packing.sheet is not None:
        rows = StringIO(newline="")
        write_sheet(path, packing.sheet, rows, HEAD_ROWS)
        return rows.getvalue()
    try:
        with open_bytes(path, packing) as file:
            data = file.read(HEAD_BYTES)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error
    text = data.decode(packing.encoding, errors="replace")
    return text.replace("\r", "\n") if packing.has_old_ends else text


def unpack(path: Path, packing: Packing, out: Path) -> Path:
    """Write the text of a file as plain UTF-8, sheets and rows.json as CSV; give the file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if packing.sheet is not None:
        with out.open("w", encoding="utf-8", newline="") as plain:
            write_sheet(path, packing.sheet, plain)
        return out
    try:
        with (
            _open_text(path, packing) as text,
            out.open("w", encoding="utf-8", newline="") as plain,
        ):
            if packing.has_portal_rows:
                _write_portal_rows(path, text, plain)
            elif packing.rows_under:
                _write_answer(path, packing, text, plain)
            else:
                shutil.copyfileobj(text, plain, CHUNK_CHARACTERS)
    except (
        EOFError,
        RuntimeError,
        zipfile.BadZipFile,
        gzip.BadGzipFile,
        ValueError,
        RecursionError,
    ) as error:
        raise _unreadable(path, error) from error
    return out


def _unreadable(path: Path, error: Exception) -> RecordsError:
    return RecordsError(f"{path} cannot be read ({error}); download it again.")


def columns_within(path: Path, packing: Packing) -> list[str]:
    """Names of the columns of rows that lie within a JSON answer, as they are written as CSV."""
    with _open_text(path, packing) as text:
        if packing.has_portal_rows:
            return _read_columns(path, _Stream(text))
        names = dict.fromkeys(name for row in _answer_rows(path, packing, text) for name in row)
    if not names:
        raise RecordsError(f"{path} lists no rows under {packing.rows_under!r}; export it again.")
    return list(names)


class _Stream:
    """Text read piece by piece, and JSON values decoded from it."""

    def __init__(self, text: IO[str]) -> None:
        self.text = text
        self.held, self.at = "", 0
        self.decoder = json.JSONDecoder()

    def more(self) -> bool:
        """Read another piece; whether there was one."""
        piece = self.text.read(CHUNK_CHARACTERS)
        self.held, self.at = self.held[self.at :] + piece, 0
        return bool(piece)

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Pass over what the pattern matches; whether it did."""
        while (found := pattern.match(self.held, self.at)) is None:
            if len(self.held) - self.at > LONGEST_GAP or not self.more():
                return False
        self.at = found.end()
        return True

    def find(self, pattern: re.Pattern[str]) -> str:
        """Pass over everything up to what the pattern finds, and that; what stood before it."""
        while (found := pattern.search(self.held, self.at)) is None:
            if not self.more():
                return ""
        before, self.at = self.held[self.at : found.start()], found.end()
        return before

    def value(self) -> Any:
        """The next JSON value."""
        while True:
            try:
                found, self.at = self.decoder.raw_decode(self.held, self.at)
            except ValueError:
                if len(self.held) - self.at > LONGEST_VALUE or not self.more():
                    raise
                continue
            return found


def _read_columns(path: Path, stream: _Stream) -> list[str]:
    stream.skip(PORTAL_START)
    try:
        columns = stream.value()["view"]["columns"]
        return [str(column.get("fieldName") or column["name"]) for column in columns]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordsError(
            f"{path} starts like a portal's rows.json but lists no columns; download it again, or "
            "give a CSV export."
        ) from error


def _write_portal_rows(path: Path, text: IO[str], plain: IO[str]) -> None:
    """Write the rows under "data" as CSV, one at a time."""
    stream = _Stream(text)
    writer = csv.writer(plain)
    columns = _read_columns(path, stream)
    writer.writerow(columns)
    if not stream.skip(PORTAL_ROWS):
        raise RecordsError(f"{path} lists columns but no rows; download it again.")
    while stream.skip(SEPARATOR):
        row = stream.value()
        if len(row) != len(columns):
            raise RecordsError(
                f"{path} has a row of {len(row)} values under {len(columns)} columns; download it "
                "again, or give a CSV export."
            )
        writer.writerow([_as_text(value) for value in row])
    if not stream.skip(END):
        raise RecordsError(f"{path} was cut off in the middle of its rows; download it again.")


def _answer_rows(path: Path, packing: Packing, text: IO[str]) -> Iterator[dict[str, Any]]:
    """Rows of a server's answer, one at a time, by the names of their fields."""
    stream = _Stream(text)
    before = stream.find(ANSWER_ROWS)
    named = ANSWER_NAMES.search(before)
    names: list[str] = []
    try:
        if named is not None:
            fields = json.JSONDecoder().raw_decode(before, named.end())[0]
            names = [
                one if isinstance(one, str) else str(one.get("id") or one.get("name"))
                for one in fields
            ]
        while stream.skip(NEXT):
            yield _as_row(stream.value(), names, packing.is_web_mercator)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordsError(
            f"{path} cannot be read to its end as rows under {packing.rows_under!r}; it may have "
            "been cut off: download it again."
        ) from error
    if not stream.skip(END):
        raise RecordsError(f"{path} was cut off in the middle of its rows; download it again.")


def _as_row(value: Any, names: list[str], is_web_mercator: bool) -> dict[str, Any]:
    """One row: a list under names, an object, or a point with its properties."""
    if isinstance(value, list):
        return {
            names[place] if place < len(names) else f"column_{place + 1}": one
            for place, one in enumerate(value)
        }
    geometry = value.get("geometry")
    inside = value.get("attributes", value.get("properties"))
    if not isinstance(inside, dict):
        return value
    row: dict[str, Any] = dict(inside)
    point: tuple[Any, Any] = (None, None)
    if isinstance(geometry, dict):
        coordinates = geometry.get("coordinates")
        if geometry.get("type") == "Point" and isinstance(coordinates, list):
            x, y, *_ = [*coordinates, None, None]
            point = x, y
        elif "x" in geometry:
            point = geometry.get("x"), geometry.get("y")
    if is_web_mercator:
        point = _as_degrees(*point)
    there = {"".join(filter(str.isalnum, name.lower())) for name in row}
    own = ("geometry_x", "geometry_y") if {"longitude", "latitude"} & there else (
        "longitude", "latitude")  # fmt: skip
    return row | dict(zip(own, point, strict=True))


def _as_degrees(x: Any, y: Any) -> tuple[float, float] | tuple[None, None]:
    """Longitude and latitude of a point of Web Mercator; none where it is none."""
    if not isinstance(x, int | float) or not isinstance(y, int | float):
        return None, None
    north = 2.0 * math.atan(math.exp(y / EARTH_RADIUS)) - math.pi / 2.0
    return round(math.degrees(x / EARTH_RADIUS), 7), round(math.degrees(north), 7)


def _write_answer(path: Path, packing: Packing, text: IO[str], plain: IO[str]) -> None:
    """Write the rows of a server's answer as CSV, one at a time."""
    names = columns_within(path, packing)
    writer = csv.writer(plain)
    writer.writerow(names)
    for row in _answer_rows(path, packing, text):
        writer.writerow([_as_text(row.get(name)) for name in names])


def says_more(path: Path, packing: Packing) -> tuple[bool, int]:
    """Whether a server's answer says that there are more rows than it gave; their number, or 0."""
    with open_bytes(path, packing) as file:
        ends = file.read(ENDS)
        if not packing.member and not packing.is_gzip:
            file.seek(max(path.stat().st_size - ENDS, 0))
            ends += file.read()
    text = ends.decode(packing.encoding, errors="replace")
    totals = TOTAL.findall(text) if packing.rows_under == "records" else []
    return SAYS_MORE.search(text) is not None, int(totals[-1]) if totals else 0


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
