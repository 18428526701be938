"""From any file to one shape: staged rows, typed, still unjudged.

One SQL query per format turns the text columns of a file into the columns of `STAGED`, and DuckDB
streams it into Parquet, whatever the size of the file. Lines that cannot be read at all are kept
apart with their line number and the parser's reason.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import duckdb

from parity311.errors import RecordsError
from parity311.feeds import parsing as p
from parity311.feeds.formats import TABLE_FORMATS
from parity311.feeds.recognise import FileLayout, unique_names
from parity311.records.sql import Connection, files, identifier, literal, literals

STAGED: dict[str, LiteralString] = {
    "key": "VARCHAR",
    "agency": "VARCHAR",
    "kind": "VARCHAR",
    "detail": "VARCHAR",
    "type_key": "UBIGINT",
    "received_at": "TIMESTAMP",
    "received_text": "VARCHAR",
    "closed_at": "TIMESTAMP",
    "is_closing_unreadable": "BOOLEAN",
    "visited_at": "TIMESTAMP",
    "outcome": "VARCHAR",
    "outcome_key": "UBIGINT",
    "is_closed": "BOOLEAN",
    "borough": "INTEGER",
    "community_board": "INTEGER",
    "zip": "INTEGER",
    "area": "VARCHAR",
    "address": "VARCHAR",
    "longitude": "DOUBLE",
    "latitude": "DOUBLE",
    "bbl": "BIGINT",
    "bin": "BIGINT",
    "building": "VARCHAR",
    "channel": "VARCHAR",
    "is_duplicate": "BOOLEAN",
    "parent_key": "VARCHAR",
    "service_request": "VARCHAR",
    "updated_at": "TIMESTAMP",
    "severity_key": "VARCHAR",
    "is_building_wide": "BOOLEAN",
    "is_public_area": "BOOLEAN",
    "is_anonymous": "BOOLEAN",
    "equipment_id": "VARCHAR",
    "is_high_pressure": "BOOLEAN",
    "is_internal": "BOOLEAN",
    "defect_found": "BOOLEAN",
    "lff_45": "BOOLEAN",
    "lff_180": "BOOLEAN",
}
"""Columns of a staged row. ``type_key`` stands for agency, kind and detail, ``outcome_key`` for
agency and outcome: rows are joined by these numbers, and the texts are looked at once per distinct
value. ``type_key`` is null where no domain decides about the row. ``updated_at`` decides which of
two rows with one key is the later. ``area`` is the code of the row's tract, where its source gives
one."""

MOST_LISTED_LINES = 10_000
"""Unreadable lines of a file that are listed for each reason; all of them are counted."""

Clock = Callable[[LiteralString], LiteralString]
"""SQL of the text of a date -> SQL of the time, by the city's clock."""

IN_SCOPE_AGENCIES = ("HPD", "DOB")
"""Agencies of 311 whose types the code tables know; rows of others are counted, not kept."""


@dataclass(frozen=True)
class Unreadable:
    """Lines of a file that are no rows."""

    reason: str
    lines: int
    first_line: int
    numbers: tuple[int, ...] = ()
    """Line numbers, of so many as are listed. Not the text: it may name a person."""


def rows_of(layouts: Sequence[FileLayout]) -> LiteralString:
    """SQL that reads files of one header as text under their API names; absent columns are null."""
    first = layouts[0]
    paths = files(layout.text_path for layout in layouts)
    wanted = (
        first.wanted or next(known for known in TABLE_FORMATS if known.kind == first.kind).columns
    )
    # A page of JSON rows lacks a field that is null on all of them.
    found = {name: given for layout in reversed(layouts) for name, given in layout.columns.items()}
    chosen = ", ".join(
        f"{identifier(found[column])} AS {identifier(column)}"
        if column in found
        else f"CAST(NULL AS VARCHAR) AS {identifier(column)}"
        for column in wanted
    )
    if first.is_json:
        fields = _struct({found[column]: "VARCHAR" for column in wanted if column in found})
        source = f"read_json({paths}, columns = {fields}, maximum_object_size = 67108864)"
    else:
        nothing = NOTHING if first.wanted else ()
        source = read_csv(paths, first.header, first.delimiter, first.titles, nothing, first.escape)
    return f"SELECT {chosen} FROM {source}"


NOTHING = ("", "NULL", "null", "(null)", "\\N", "N/A", "#N/A", "NaN", "nan", "None", "<NA>")
"""What systems of unknown cities write where there is nothing; as an address it joins strangers."""


def read_csv(
    paths: LiteralString,
    header: Sequence[str],
    delimiter: str,
    titles: int = 0,
    nothing: Sequence[str] = (),
    escape: str = '"',
) -> LiteralString:
    """SQL of a CSV reader that takes every column as text and keeps unreadable lines apart.

    ``titles`` lines stand above the header; texts like ``nothing`` are null; ``escape`` stands
    before a quotation mark within a value.
    """
    columns = dict.fromkeys(unique_names(header), "VARCHAR")
    words = [one for one in nothing if escape not in one]  # The reader refuses both at once.
    return (
        f"read_csv({paths}, auto_detect = false, header = true, delim = {literal(delimiter)}, "
        f"quote = '\"', escape = {literal(escape)}, skip = {literal(titles)}, "
        f"columns = {_struct(columns)}, "
        f"nullstr = [{literals(words or ('',))}], ignore_errors = true, "
        "store_rejects = true, max_line_size = 16777216)"
    )


def _struct(fields: Mapping[str, str]) -> LiteralString:
    return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in fields.items()) + "}"


def stage_query(layouts: Sequence[FileLayout], time: Clock = p.timestamp) -> LiteralString:
    """SQL of the staged rows of files of one header; ``time`` reads their dates."""
    return STAGE_QUERIES[layouts[0].kind](rows_of(layouts), time)


def write_stage(
    connection: Connection, query: LiteralString, out: Path, path: Path
) -> list[Unreadable]:
    """Run a staging query into Parquet and collect what the parser could not read."""
    try:
        connection.execute(f"COPY ({query}) TO {literal(out)} (FORMAT parquet, COMPRESSION snappy)")
    except duckdb.InvalidInputException as error:
        raise cannot_read(path, error) from error
    return take_unreadable(connection)


LONGEST_TAIL = 1 << 16
"""Bytes at the end of a file in which its last line is looked for."""


def breaks_off(layout: FileLayout) -> bool:
    """Whether the last line of a plain CSV ends within its row, as half a download does."""
    path = layout.text_path
    if layout.is_json or path.suffix == ".gz":
        return False
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - LONGEST_TAIL, 0))
        last = file.read().rpartition(b"\n")[2].decode("utf-8", errors="replace")
    try:
        cells = next(csv.reader([last], delimiter=layout.delimiter), [])
    except csv.Error:  # A lone carriage return, or a value without end.
        return False
    return 0 < len(cells) < len(layout.header)


def cannot_read(path: Path, error: duckdb.Error) -> RecordsError:
    """What the parser says, in one line, and what to do."""
    first = str(error).splitlines()[0]
    return RecordsError(
        f"{path} cannot be read ({first}); it may have been cut off: download it again."
    )


def take_unreadable(connection: Connection) -> list[Unreadable]:
    """Lines the CSV parser refused since last asked, by its reason; forgets them."""
    tables = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'reject_errors'"
    ).fetchall()
    if tables[0][0] == 0:
        return []
    rows = connection.execute(
        # With CRLF the parser gives the line with the break before it.
        "SELECT CAST(error_type AS VARCHAR), sum(1 + length(text) - length(replace(text, chr(10), "
        "''))), min(line), list_sort(list(line))[:$most] FROM (SELECT DISTINCT ON (line) *, "
        "trim(csv_line, chr(13) || chr(10)) AS text FROM reject_errors) GROUP BY 1 ORDER BY 1",
        {"most": MOST_LISTED_LINES},
    ).fetchall()
    connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
    return [
        Unreadable(
            f"unreadable line: {reason.lower()}",
            int(lines),
            first,
            tuple(int(number) for number in numbers),
        )
        for reason, lines, first, numbers in rows
    ]


def staged(columns: Mapping[str, LiteralString], source: LiteralString) -> LiteralString:
    """A SELECT of every staged column, null where the format has none."""
    derived: dict[str, LiteralString] = {
        "type_key": "CASE WHEN kind IS NOT NULL THEN hash(agency, kind, detail) END",
        "outcome_key": "CASE WHEN outcome IS NOT NULL THEN hash(agency, outcome) END",
    }
    unknown = set(columns) - set(STAGED)
    if unknown:
        raise KeyError(f"not staged columns: {sorted(unknown)}")
    chosen = ",\n  ".join(
        f"CAST({columns.get(column, 'NULL')} AS {kind}) AS {identifier(column)}"
        for column, kind in STAGED.items()
        if column not in derived
    )
    keys = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in derived.items())
    return f"SELECT *, {keys} FROM (\nSELECT {chosen}\nFROM ({source}) AS raw)"


def stage_sr311(source: LiteralString, time: Clock = p.timestamp) -> LiteralString:
    """311 rows. Rows of agencies without a domain keep only what is needed to count them."""
    nothing = literal("|".join(("", *NOTHING, "")))
    inner = f"""
SELECT {p.trimmed("unique_key")} AS raw_key, created_date, complaint_type, descriptor,
  resolution_description, status, bbl AS raw_bbl, incident_zip, closed_date,
  upper(trim(agency)) AS office, upper(trim(agency)) IN ({literals(IN_SCOPE_AGENCIES)}) AS in_scope,
  {time("created_date")} AS created, {time("closed_date")} AS closed,
  {time("resolution_action_updated_date")} AS updated,
  {p.borough_digit("borough")} AS borough_number, {p.board_311("community_board")} AS board,
  {p.zip_code("incident_zip")} AS zip_number, {p.whole_number("bbl")} AS lot,
  {p.spelled("incident_address")} AS street, {p.degrees("longitude")} AS x,
  {p.degrees("latitude")} AS y, upper(trim(open_data_channel_type)) AS via
FROM ({source})"""
    borough = (
        "coalesce(borough_number, CASE WHEN lot BETWEEN 1e9 AND 6e9 THEN lot // 1000000000 END)"
    )
    key = "raw_key"
    if 'CAST(NULL AS VARCHAR) AS "unique_key"' in source:
        # Exports without the key get one from the row's content; no two events are merged.
        content = "concat_ws('|', created_date, office, complaint_type, descriptor, raw_bbl)"
        key = f"md5({content}) || '-' || row_number() OVER (PARTITION BY {content})"
    columns: dict[str, LiteralString] = {
        "key": key,
        "agency": "office",
        "kind": "CASE WHEN in_scope THEN upper(replace(trim(complaint_type), '_', ' ')) END",
        "detail": "CASE WHEN in_scope THEN coalesce(trim(descriptor), '') END",
        "received_at": "created",
        "received_text": "CASE WHEN created IS NULL THEN left(created_date, 40) END",
        "closed_at": p.known("closed"),
        "is_closing_unreadable": (
            "CASE WHEN closed IS NULL AND closed_date IS NOT NULL "
            # Neither IN nor a list: DuckDB joins those, and rows lose their place in the file.
            f"THEN NOT contains({nothing}, '|' || trim(closed_date) || '|') END"
        ),
        "outcome": "CASE WHEN in_scope THEN resolution_description END",
        "is_closed": "upper(trim(status)) = 'CLOSED'",
        "borough": borough,
        "community_board": "board",
        "zip": "zip_number",
        "address": f"CASE WHEN in_scope THEN {p.address(borough, 'street')} END",
        "longitude": "CASE WHEN in_scope THEN x END",
        "latitude": "CASE WHEN in_scope THEN y END",
        "bbl": p.valid_bbl("lot"),
        "channel": p.channel("via"),
        "updated_at": "greatest(updated, closed)",
        "is_building_wide": "upper(trim(descriptor)) = 'ENTIRE BUILDING'",
    }
    return staged(columns, inner)


def stage_dob(source: LiteralString, time: Clock = p.timestamp) -> LiteralString:
    """DOB complaints: text dates without a time of day, BIN and address, no coordinates."""
    inner = f"""
SELECT *, {time("date_entered")} AS entered, {time("disposition_date")} AS disposed,
  {time("inspection_date")} AS inspected, {time("dobrundate")} AS run,
  TRY_CAST(trim(complaint_number)[1] AS INTEGER) AS digit, {p.whole_number("bin")} AS number,
  {p.spelled("concat_ws(' ', trim(house_number), trim(house_street))")} AS street
FROM ({source})"""
    borough = "CASE WHEN digit BETWEEN 1 AND 5 THEN digit END"
    columns: dict[str, LiteralString] = {
        "key": p.trimmed("complaint_number"),
        "agency": "'DOB'",
        "kind": f"coalesce(upper({p.trimmed('complaint_category')}), '')",
        "detail": "''",
        "received_at": "entered",
        "received_text": "CASE WHEN entered IS NULL THEN left(date_entered, 40) END",
        "closed_at": f"CASE WHEN upper(trim(status)) = 'CLOSED' THEN {p.known('disposed')} END",
        "visited_at": p.known("inspected"),
        "outcome": f"upper({p.trimmed('disposition_code')})",
        "is_closed": "upper(trim(status)) = 'CLOSED'",
        "borough": borough,
        "community_board": "TRY_CAST(trim(community_board) AS INTEGER)",
        "zip": p.zip_code("zip_code"),
        "address": p.address(f"({borough})", "street"),
        "bin": p.valid_bin("number"),
        "channel": "'UNKNOWN'",
        "updated_at": "greatest(run, disposed)",
    }
    return staged(columns, inner)


def stage_boiler(source: LiteralString, time: Clock = p.timestamp) -> LiteralString:
    """Boiler filings: one row a boiler-year; late fees and defects are outcomes, not features."""
    inner = f"""
SELECT *, {time("inspection_date")} AS inspected, {p.whole_number("bin_number")} AS number
FROM ({source})"""

    def is_charged(column: LiteralString) -> LiteralString:
        return f"coalesce(TRY_CAST(replace({column}, '$', '') AS DOUBLE), 0) > 0"

    columns: dict[str, LiteralString] = {
        "key": p.trimmed("tracking_number"),
        "agency": "'DOB'",
        "kind": "'FILING'",
        "detail": "''",
        "received_at": "inspected",
        "received_text": "CASE WHEN inspected IS NULL THEN left(inspection_date, 40) END",
        # What the inspection found is known when the report is due, 14 days after it.
        "closed_at": "inspected + INTERVAL 14 DAY",
        "outcome": p.trimmed("report_status"),
        "is_closed": "true",
        "borough": f"({p.valid_bin('number')}) // 1000000",
        "bin": p.valid_bin("number"),
        "channel": "'FILING'",
        "updated_at": "inspected",
        "equipment_id": p.trimmed("boiler_id"),
        "is_high_pressure": "upper(trim(pressure_type)) LIKE 'HIGH%'",
        "is_internal": "coalesce(upper(trim(inspection_type)) = 'INTERNAL', false)",
        "defect_found": (
            "CASE upper(trim(defects_exist)) WHEN 'YES' THEN true WHEN 'NO' THEN false END"
        ),
        "lff_45": is_charged("lff_45_days"),
        "lff_180": is_charged("lff_180_days"),
    }
    return staged(columns, inner)


def stage_hpd_problems(source: LiteralString, time: Clock = p.timestamp) -> LiteralString:
    """HPD problems: one row a problem, as 311 has one request a problem; a call may have several.

    The detail is the heat code where there is one (NO HEAT …).
    """
    inner = f"""
SELECT *, {time("received_date")} AS received, {time("problem_status_date")} AS dated,
  {p.borough_digit("borough")} AS digit, upper(trim(major_category)) AS major,
  {p.whole_number("bbl")} AS lot, {p.whole_number("bin")} AS number,
  {p.spelled("concat_ws(' ', trim(house_number), trim(street_name))")} AS street
FROM ({source})"""
    columns: dict[str, LiteralString] = {
        "key": p.trimmed("problem_id"),
        "agency": "'HPD'",
        "kind": "coalesce(major, '')",
        "detail": (
            "CASE WHEN major IN ('HEAT/HOT WATER', 'HEATING') "
            "THEN coalesce(upper(trim(problem_code)), '') ELSE '' END"
        ),
        "received_at": "received",
        "received_text": "CASE WHEN received IS NULL THEN left(received_date, 40) END",
        "closed_at": (
            f"CASE WHEN upper(trim(problem_status)) LIKE 'CLOSE%' THEN {p.known('dated')} END"
        ),
        "outcome": "status_description",
        "is_closed": "upper(trim(problem_status)) LIKE 'CLOSE%'",
        "borough": "digit",
        "community_board": "digit * 100 + TRY_CAST(community_board AS INTEGER)",
        "zip": p.zip_code("post_code"),
        "address": p.address("digit", "street"),
        "longitude": p.degrees("longitude"),
        "latitude": p.degrees("latitude"),
        "bbl": p.valid_bbl("lot"),
        "bin": p.valid_bin("number"),
        "channel": "'UNKNOWN'",
        "is_duplicate": "upper(trim(problem_duplicate_flag)) = 'Y'",
        "service_request": p.trimmed("unique_key"),
        "updated_at": p.known("dated"),
        "severity_key": "upper(trim(type))",
        "is_building_wide": "upper(trim(unit_type)) = 'BUILDING-WIDE'",
        "is_public_area": "upper(trim(unit_type)) IN ('PUBLIC AREA', 'PUBLIC PARTS')",
        "is_anonymous": "upper(trim(complaint_anonymous_flag)) = 'Y'",
    }
    return staged(columns, inner)


STAGE_QUERIES = {
    "sr311": stage_sr311,
    "dob": stage_dob,
    "boiler": stage_boiler,
    "hpd_problems": stage_hpd_problems,
}
