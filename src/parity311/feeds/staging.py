"""From any file to one shape: staged rows, typed, still unjudged.

One SQL query per format turns the text columns of a file into the columns of `STAGED`, and DuckDB
streams it into Parquet, whatever the size of the file. Lines that cannot be read at all are kept
apart with their line number and the parser's reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from parity311.errors import RecordsError
from parity311.feeds import parsing as p
from parity311.feeds.formats import TABLE_FORMATS, Layout

STAGED: dict[str, str] = {
    "key": "VARCHAR",
    "type_key": "VARCHAR",
    "received_at": "TIMESTAMP",
    "received_text": "VARCHAR",
    "closed_at": "TIMESTAMP",
    "visited_at": "TIMESTAMP",
    "outcome_key": "VARCHAR",
    "is_closed": "BOOLEAN",
    "borough": "INTEGER",
    "community_board": "INTEGER",
    "zip": "VARCHAR",
    "address": "VARCHAR",
    "longitude": "DOUBLE",
    "latitude": "DOUBLE",
    "bbl": "VARCHAR",
    "bin": "VARCHAR",
    "channel": "VARCHAR",
    "is_duplicate": "BOOLEAN",
    "parent_key": "VARCHAR",
    "service_request": "VARCHAR",
    "updated_at": "TIMESTAMP",
    "severity_key": "VARCHAR",
    "is_building_wide": "BOOLEAN",
    "is_anonymous": "BOOLEAN",
    "equipment_id": "VARCHAR",
    "is_high_pressure": "BOOLEAN",
    "is_internal": "BOOLEAN",
    "defect_found": "BOOLEAN",
    "lff_45": "BOOLEAN",
    "lff_180": "BOOLEAN",
}
"""Columns of a staged row. ``type_key`` and ``outcome_key`` are looked up in the code tables, once
per distinct value; ``updated_at`` decides which of two rows with one key is the later."""

IN_SCOPE_AGENCIES = ("HPD", "DOB")
"""Agencies of 311 whose types the code tables know; rows of others are counted, not kept."""


@dataclass(frozen=True)
class Unreadable:
    """Lines of a file that are no rows."""

    reason: str
    lines: int
    first_line: int


def rows_of(layouts: Sequence[Layout]) -> str:
    """SQL that reads files of one header as text under their API names; absent columns are null."""
    first = layouts[0]
    paths = ", ".join(p.quoted(str(layout.path)) for layout in layouts)
    wanted = next(known for known in TABLE_FORMATS if known.kind == first.kind).columns
    chosen = ", ".join(
        f"{p.name(first.columns[column])} AS {p.name(column)}"
        if column in first.columns
        else f"CAST(NULL AS VARCHAR) AS {p.name(column)}"
        for column in wanted
    )
    if first.is_json:
        fields = _struct({first.columns[c]: "VARCHAR" for c in wanted if c in first.columns})
        source = f"read_json([{paths}], columns = {fields}, maximum_object_size = 67108864)"
    else:
        source = read_csv(paths, first.header, first.delimiter)
    return f"SELECT {chosen} FROM {source}"


def read_csv(paths: str, header: Sequence[str], delimiter: str) -> str:
    """SQL of a CSV reader that takes every column as text and keeps unreadable lines apart."""
    unique: dict[str, str] = {}
    for column in header:
        label = column
        while label in unique:
            label += "_"
        unique[label] = "VARCHAR"
    return (
        f"read_csv([{paths}], auto_detect = false, header = true, delim = {p.quoted(delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {_struct(unique)}, ignore_errors = true, "
        "store_rejects = true, max_line_size = 16777216)"
    )


def _struct(fields: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{p.quoted(k)}: {p.quoted(v)}" for k, v in fields.items()) + "}"


def stage_file(
    connection: duckdb.DuckDBPyConnection, layouts: Sequence[Layout], out: Path
) -> list[Unreadable]:
    """Write the staged rows of files of one header to ``out``; give the lines that are no rows."""
    query = STAGE_QUERIES[layouts[0].kind](rows_of(layouts))
    return write_stage(connection, query, out, layouts[0].path)


def write_stage(
    connection: duckdb.DuckDBPyConnection, query: str, out: Path, path: Path
) -> list[Unreadable]:
    """Run a staging query into Parquet and collect what the parser could not read."""
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        connection.execute(
            f"COPY ({query}) TO {p.quoted(str(out))} (FORMAT parquet, COMPRESSION snappy)"
        )
    except duckdb.InvalidInputException as error:
        first = str(error).splitlines()[0]
        raise RecordsError(
            f"{path} cannot be read ({first}); it may have been cut off: download it again."
        ) from error
    return take_unreadable(connection)


def take_unreadable(connection: duckdb.DuckDBPyConnection) -> list[Unreadable]:
    """Lines the CSV parser refused since last asked, by its reason; forgets them."""
    tables = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'reject_errors'"
    ).fetchall()
    if tables[0][0] == 0:
        return []
    rows = connection.execute(
        "SELECT CAST(error_type AS VARCHAR), "
        "sum(1 + length(rtrim(csv_line, chr(10))) - length(replace(rtrim(csv_line, chr(10)), "
        "chr(10), ''))), min(line) FROM (SELECT DISTINCT ON (line) * FROM reject_errors) "
        "GROUP BY 1 ORDER BY 1"
    ).fetchall()
    connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
    return [Unreadable(f"unreadable line: {row[0].lower()}", int(row[1]), row[2]) for row in rows]


def _staged(columns: Mapping[str, str], source: str) -> str:
    """A SELECT of every staged column, null where the format has none."""
    unknown = set(columns) - set(STAGED)
    if unknown:
        raise KeyError(f"not staged columns: {sorted(unknown)}")
    chosen = ",\n  ".join(
        f"CAST({columns.get(column, 'NULL')} AS {kind}) AS {column}"
        for column, kind in STAGED.items()
    )
    return f"SELECT {chosen}\nFROM ({source}) AS raw"


def stage_sr311(source: str) -> str:
    """311 rows. Rows of agencies without a domain keep only what is needed to count them."""
    agencies = ", ".join(p.quoted(agency) for agency in IN_SCOPE_AGENCIES)
    scope = f"upper(trim(agency)) IN ({agencies})"

    def in_scope(expression: str) -> str:
        return f"CASE WHEN {scope} THEN {expression} END"

    borough = f"coalesce({p.borough_digit('borough')}, TRY_CAST({p.bbl('bbl')}[1] AS INTEGER))"
    received = p.timestamp("created_date")
    # Exports without the key get one from the row's content, so that no two events are merged.
    content = "concat_ws('|', created_date, agency, complaint_type, descriptor, bbl, incident_zip)"
    number = f"row_number() OVER (PARTITION BY {content})"
    key = f"CASE WHEN raw_key IS NOT NULL THEN raw_key ELSE md5({content}) || '-' || {number} END"
    columns = {
        "key": "key",
        "type_key": in_scope(
            "upper(trim(agency)) || '|' || upper(replace(trim(complaint_type), '_', ' ')) || '|' "
            "|| coalesce(trim(descriptor), '')"
        ),
        "received_at": received,
        "received_text": f"CASE WHEN ({received}) IS NULL THEN left(created_date, 40) END",
        "closed_at": in_scope(p.known_timestamp("closed_date")),
        "outcome_key": in_scope(
            "upper(trim(agency)) || '|' || lower(trim(resolution_description))"
        ),
        "is_closed": "upper(trim(status)) = 'CLOSED'",
        "borough": borough,
        "community_board": in_scope(p.board_311("community_board")),
        "zip": in_scope(p.zip_code("incident_zip")),
        "address": in_scope(p.address(borough, "incident_address")),
        "longitude": in_scope("TRY_CAST(longitude AS DOUBLE)"),
        "latitude": in_scope("TRY_CAST(latitude AS DOUBLE)"),
        "bbl": in_scope(p.bbl("bbl")),
        "channel": p.channel("open_data_channel_type"),
        "service_request": "key",
        "updated_at": in_scope(
            f"greatest({p.known_timestamp('resolution_action_updated_date')}, "
            f"{p.known_timestamp('closed_date')})"
        ),
        "is_building_wide": in_scope("upper(trim(descriptor)) = 'ENTIRE BUILDING'"),
    }
    keyed = f"SELECT *, {p.trimmed('unique_key')} AS raw_key FROM ({source})"
    if "CAST(NULL AS VARCHAR) AS \"unique_key\"" in source:
        keyed = f"SELECT *, {key} AS key FROM ({keyed})"
    else:
        keyed = f"SELECT *, raw_key AS key FROM ({keyed})"
    return _staged(columns, keyed)


def stage_dob(source: str) -> str:
    """DOB complaints: text dates without a time of day, BIN and address, no coordinates."""
    borough = "TRY_CAST(trim(complaint_number)[1] AS INTEGER)"
    columns = {
        "key": p.trimmed("complaint_number"),
        "type_key": f"upper({p.trimmed('complaint_category')})",
        "received_at": p.timestamp("date_entered"),
        "received_text": f"CASE WHEN ({p.timestamp('date_entered')}) IS NULL THEN date_entered END",
        "closed_at": (
            f"CASE WHEN upper(trim(status)) = 'CLOSED' THEN "
            f"{p.known_timestamp('disposition_date')} END"
        ),
        "visited_at": p.known_timestamp("inspection_date"),
        "outcome_key": f"upper({p.trimmed('disposition_code')})",
        "is_closed": "upper(trim(status)) = 'CLOSED'",
        "borough": f"CASE WHEN {borough} BETWEEN 1 AND 5 THEN {borough} END",
        "community_board": "TRY_CAST(trim(community_board) AS INTEGER)",
        "zip": p.zip_code("zip_code"),
        "address": p.address(borough, "house_number", "house_street"),
        "bin": p.bin_number("bin"),
        "channel": "'OTHER'",
        "updated_at": (
            f"greatest({p.timestamp('dobrundate')}, {p.known_timestamp('disposition_date')})"
        ),
    }
    return _staged(columns, source)


def stage_boiler(source: str) -> str:
    """Boiler filings: one row a boiler-year; late fees and defects are outcomes, not features."""
    received = p.timestamp("inspection_date")
    borough = f"TRY_CAST({p.bin_number('bin_number')}[1] AS INTEGER)"

    def is_charged(column: str) -> str:
        return f"coalesce(TRY_CAST(replace({column}, '$', '') AS DOUBLE), 0) > 0"

    columns = {
        "key": p.trimmed("tracking_number"),
        "type_key": "'FILING'",
        "received_at": received,
        "received_text": f"CASE WHEN ({received}) IS NULL THEN inspection_date END",
        "outcome_key": p.trimmed("report_status"),
        "is_closed": "true",
        "borough": borough,
        "bin": p.bin_number("bin_number"),
        "channel": "'FILING'",
        "updated_at": received,
        "equipment_id": p.trimmed("boiler_id"),
        "is_high_pressure": "upper(trim(pressure_type)) LIKE 'HIGH%'",
        "is_internal": "coalesce(upper(trim(inspection_type)) = 'INTERNAL', false)",
        "defect_found": (
            "CASE upper(trim(defects_exist)) WHEN 'YES' THEN true WHEN 'NO' THEN false END"
        ),
        "lff_45": is_charged("lff_45_days"),
        "lff_180": is_charged("lff_180_days"),
    }
    return _staged(columns, source)


def stage_hpd_problems(source: str) -> str:
    """HPD problems: one row a problem, as 311 has one request a problem; a call may have several.

    The kind of problem is the heat code where there is one (NO HEAT …), else the major category.
    """
    received = p.timestamp("received_date")
    borough = p.borough_digit("borough")
    major = "upper(trim(major_category))"
    columns = {
        "key": p.trimmed("problem_id"),
        "type_key": (
            f"'HPD|' || {major} || '|' || CASE WHEN {major} IN ('HEAT/HOT WATER', 'HEATING') "
            "THEN coalesce(upper(trim(problem_code)), '') ELSE '' END"
        ),
        "received_at": received,
        "received_text": f"CASE WHEN ({received}) IS NULL THEN received_date END",
        "closed_at": (
            "CASE WHEN upper(trim(problem_status)) LIKE 'CLOSE%' THEN "
            f"{p.known_timestamp('problem_status_date')} END"
        ),
        "outcome_key": "'HPD|' || lower(trim(status_description))",
        "is_closed": "upper(trim(problem_status)) LIKE 'CLOSE%'",
        "borough": borough,
        "community_board": f"({borough}) * 100 + TRY_CAST(community_board AS INTEGER)",
        "zip": p.zip_code("post_code"),
        "address": p.address(borough, "house_number", "street_name"),
        "longitude": "TRY_CAST(longitude AS DOUBLE)",
        "latitude": "TRY_CAST(latitude AS DOUBLE)",
        "bbl": p.bbl("bbl"),
        "bin": p.bin_number("bin"),
        "channel": "'OTHER'",
        "is_duplicate": "upper(trim(problem_duplicate_flag)) = 'Y'",
        "service_request": p.trimmed("unique_key"),
        "updated_at": p.known_timestamp("problem_status_date"),
        "severity_key": "upper(trim(type))",
        "is_building_wide": "upper(trim(unit_type)) = 'BUILDING-WIDE'",
        "is_anonymous": "upper(trim(complaint_anonymous_flag)) = 'Y'",
    }
    return _staged(columns, source)


STAGE_QUERIES = {
    "sr311": stage_sr311,
    "dob": stage_dob,
    "boiler": stage_boiler,
    "hpd_problems": stage_hpd_problems,
}
