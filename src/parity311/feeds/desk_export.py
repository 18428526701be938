"""A desk's export put onto the records it was opened on: the records as they stand now.

What was on record when the desk opened stays; what came in, what inspectors found and how cases
ended since then comes from the desk. So a policy is retrained, and an audit made, on what happened.
What staff decided lies beside the tables (`decisions.parquet` is not one of them): it is a label,
not an outcome, and nothing that reads records takes it for one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import pyarrow as pa

from parity311.errors import InputError, RecordsError
from parity311.records.schema import TABLES
from parity311.records.sql import Connection, connect, identifier, literal, parquet
from parity311.records.store import (
    Records,
    open_records,
    table_path,
    write_manifest,
    write_table,
    writing_records,
)

DESK_EXPORT = "desk export"
EXPORT_VERSION = 1
MANIFEST, CASE_LINKS = "desk.json", "merged.csv"
TOLD: tuple[LiteralString, ...] = ("complaints", "visits", "closings", "merged")
LARGEST_MEMBER = 8 << 30
"""Bytes of one table of an export, unpacked."""


def is_desk_export(path: Path) -> bool:
    """Whether a file is what `parity311 desk-export` writes."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return MANIFEST in file.namelist()


def import_desk_export(
    base: Path, export: Path, out: Path, *, overwrite: bool = False
) -> dict[str, Any]:
    """Write the records as they stand after the desk; their manifest."""
    records = open_records(base)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        told = _unpack(export, scratch)
        absent = [one for one in told["domains"] if one not in records.domains]
        if absent:
            raise InputError(
                f"{export} is of a desk for {', '.join(told['domains'])}; {base} has no "
                f"{', '.join(absent)}. Give the records that the desk was opened on."
            )
        with writing_records(out, "import", overwrite=overwrite) as aside:
            for table in ("tracts", "buildings"):
                shutil.copyfile(table_path(base, table), table_path(aside, table))
            sources = []
            for domain in told["domains"]:
                n = _write_domain(records, domain, told, scratch, aside)
                sources.append({"domain": domain, "complaints": n})
            details = _details(records, told, export, sources)
            return write_manifest(aside, "import", details)


def _unpack(export: Path, scratch: Path) -> dict[str, Any]:
    """The export's tables as files, each as its manifest says; the manifest."""
    try:
        with zipfile.ZipFile(export) as file:
            told = json.loads(file.read(MANIFEST))
            if told["kind"] != DESK_EXPORT or told["export_version"] != EXPORT_VERSION:
                raise RecordsError(
                    f"{export} is a {told['kind']} of version {told['export_version']}; this "
                    f"version reads {EXPORT_VERSION}. Export it again with this version."
                )
            for name, entry in told["files"].items():
                if Path(name).name != name or file.getinfo(name).file_size > LARGEST_MEMBER:
                    raise KeyError(name)
                data = file.read(name)
                if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                    raise RecordsError(
                        f"{name} in {export} was changed since it was exported; export it again."
                    )
                (scratch / name).write_bytes(data)
    except (KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise RecordsError(
            f"{export} is no whole export of a desk ({type(error).__name__}: {error}); export it "
            "again."
        ) from error
    return told


def _details(
    records: Records, told: Mapping[str, Any], export: Path, sources: list[dict[str, Any]]
) -> dict[str, Any]:
    until = datetime.fromisoformat(told["until"])
    is_midnight = until.time() == datetime.min.time()
    last = until.date() if is_midnight else until.date() + timedelta(days=1)
    return {
        "date_from": records.manifest["date_from"],
        "date_to": last.isoformat(),
        "sources": [
            {"name": export.name, "read_as": "what a desk took in", "rows_in": None, **one}
            for one in sources
        ],
        "domains": {one["domain"]: {"complaints": one["complaints"]} for one in sources},
        "notes": [],
        "coverage": [],
        "desk": {"opened_at": told["opened_at"], "until": told["until"], "log": told["log"]},
        "base": {"fingerprint": records.fingerprint, "kind": records.manifest["kind"]},
    }


_CASES = """
CREATE TABLE {name} AS
SELECT * FROM read_csv({path}, header = true, all_varchar = true, nullstr = '')"""
_COMPLAINTS = """
CREATE TABLE all_complaints AS
SELECT {columns} FROM base_complaints WHERE received_at < {opened}
UNION ALL BY NAME
SELECT {own} FROM new_complaints n
WHERE n.domain = {domain} AND n.is_new = 'true'
  AND n.complaint_id NOT IN (
    SELECT complaint_id FROM base_complaints WHERE received_at < {opened})"""
_LINKED = """
UPDATE all_complaints SET incident_id = f.to_case FROM (
  SELECT COALESCE(x.incident_id, x.complaint_id) AS from_case,
    COALESCE(y.incident_id, y.complaint_id) AS to_case
  FROM merged m JOIN all_complaints x ON x.complaint_id = m.complaint_id
    JOIN all_complaints y ON y.complaint_id = m.duplicate_of) f
WHERE COALESCE(all_complaints.incident_id, all_complaints.complaint_id) = f.from_case"""
_VISITS = """
CREATE TABLE all_visits AS
SELECT visit_id, complaint_id, visited_at, attempt, result, propensity, n_waiting, n_slots
FROM base_visits WHERE visited_at < {opened}
UNION ALL
SELECT visit_id, complaint_id, visited_at::TIMESTAMP, attempt::SMALLINT, result,
  propensity::DOUBLE, n_waiting::DOUBLE::INTEGER, n_slots::DOUBLE::INTEGER
FROM new_visits
WHERE complaint_id IN (SELECT complaint_id FROM all_complaints)
  AND visit_id NOT IN (SELECT visit_id FROM base_visits WHERE visited_at < {opened})"""
_OUTCOMES = """
CREATE TABLE all_outcomes AS
WITH own AS (
    SELECT complaint_id, received_at, first_value(complaint_id) OVER (
      PARTITION BY COALESCE(incident_id, complaint_id) ORDER BY received_at, complaint_id
    ) AS first_id
    FROM all_complaints),
  seen AS (
    SELECT own.first_id, min(visited_at) AS first_visit_at, count(*) AS n_visits
    FROM all_visits JOIN own USING (complaint_id) GROUP BY 1),
  codes AS (
    SELECT mode(disposition) FILTER (WHERE disposition_class = 'duplicate') AS of_duplicates,
      mode(disposition) FILTER (WHERE disposition_class = 'pending') AS of_waiting
    FROM base_outcomes),
  ends AS (
    SELECT own.complaint_id AS first_id,
      COALESCE(c.closed_at::TIMESTAMP, b.closed_at) AS closed_at,
      COALESCE(c.disposition, b.disposition_class, 'pending') AS class,
      CASE WHEN c.complaint_id IS NOT NULL THEN c.code
        WHEN b.complaint_id IS NOT NULL THEN b.disposition
        ELSE (SELECT of_waiting FROM codes) END AS code
    FROM own
    LEFT JOIN new_closings c ON c.complaint_id = own.complaint_id
    LEFT JOIN base_outcomes b ON b.complaint_id = own.complaint_id AND b.closed_at < {opened}
    WHERE own.complaint_id = own.first_id)
SELECT own.complaint_id,
  CASE WHEN e.closed_at IS NULL THEN NULL ELSE greatest(e.closed_at, own.received_at) END
    AS closed_at,
  CASE WHEN own.complaint_id = own.first_id THEN e.code
    ELSE (SELECT of_duplicates FROM codes) END AS disposition,
  CASE WHEN own.complaint_id = own.first_id THEN e.class ELSE 'duplicate' END
    AS disposition_class,
  s.first_visit_at, COALESCE(s.n_visits, 0)::SMALLINT AS n_visits
FROM own JOIN ends e USING (first_id) LEFT JOIN seen s USING (first_id)"""
_ORDER: dict[LiteralString, LiteralString] = {
    "complaints": "received_at, complaint_id",
    "outcomes": "complaint_id",
    "visits": "visited_at, visit_id",
}


def _write_domain(
    records: Records, domain: str, told: Mapping[str, Any], scratch: Path, aside: Path
) -> int:
    """The tables of one domain; how many complaints."""
    opened = f"TIMESTAMP {literal(str(told['opened_at']).replace('T', ' '))}"
    with connect() as connection:
        for name in ("complaints", "visits", "closings", "merged"):
            table = name if name == "merged" else f"new_{name}"
            connection.execute(
                _CASES.format(name=table, path=literal(str(scratch / f"{name}.csv")))
            )
        shapes = {}
        for name in _ORDER:
            path = table_path(records.folder, name, domain)
            records.check_unchanged(path)
            connection.execute(f"CREATE VIEW base_{name} AS SELECT * FROM {parquet([path])}")
            shapes[name] = records.table(name, domain).schema
        columns = ", ".join(identifier(one.name) for one in shapes["complaints"])
        own = ", ".join(_own_column(one) for one in shapes["complaints"])
        given: dict[str, LiteralString] = {
            "opened": opened,
            "domain": literal(domain),
            "columns": columns,
            "own": own,
        }
        for query in (_COMPLAINTS, _LINKED, _VISITS, _OUTCOMES):
            connection.execute(query.format(**given))
        for name, order in _ORDER.items():
            write_table(aside, name, _take(connection, name, order, shapes[name]), domain)
        row = connection.execute("SELECT count(*) FROM all_complaints").fetchone()
    return int(row[0]) if row else 0


def _take(
    connection: Connection, name: LiteralString, order: LiteralString, shape: pa.Schema
) -> pa.Table:
    """One table in the shape that the records had."""
    names = [one.name for one in shape]
    found = connection.sql(f"SELECT * FROM all_{name} ORDER BY {order}").to_arrow_table()
    missing = [one for one in names if one not in found.column_names]
    for one in missing:
        found = found.append_column(one, pa.nulls(found.num_rows, shape.field(one).type))
    return found.select(names).cast(shape)


def _own_column(field: pa.Field) -> LiteralString:
    """How a column of the records is read from the desk's table."""
    name = identifier(field.name)
    if field.name in TABLES["complaints"].column_names:
        kind = "::TIMESTAMP" if pa.types.is_timestamp(field.type) else ""
        return f"n.{name}{kind} AS {name}"
    kind = (
        "BOOLEAN"
        if pa.types.is_boolean(field.type)
        else ("DOUBLE" if pa.types.is_floating(field.type) else "VARCHAR")
    )
    told = f"json_extract_string(n.free_fields, {literal('$.' + field.name)})"
    return f"TRY_CAST({told} AS {kind}) AS {name}"
