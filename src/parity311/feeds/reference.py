"""Published aggregates, code lists and metadata: kept beside the records, compared, never rows.

HPD violations: what inspectors wrote, kept beside the complaints, never among their features.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, LiteralString

from parity311.feeds import parsing as p
from parity311.feeds.codes import read_codes
from parity311.feeds.formats import REFERENCE_FORMATS
from parity311.feeds.locate import rounded
from parity311.feeds.quarantine import write_set_aside
from parity311.feeds.staging import rows_of, take_unreadable
from parity311.feeds.work import ImportWork
from parity311.feeds.write import copy_sorted
from parity311.records.sql import identifier, literal, parquet

HEAT_SECTIONS = "27-20(2[8-9]|3[0-3])"
"""Sections of the housing code on heat and hot water, as notices cite them."""


def import_violations(work: ImportWork) -> dict[str, dict[str, Any]]:
    """Write violations.parquet and quarantine what cannot be used; give the account by file.

    Leaves table ``violations`` for the outcomes. Needs ``point_tract`` and ``building_lots``.
    """
    groups = work.of_kind("hpd_violations")
    if not groups:
        return {}
    parts: list[LiteralString] = [
        f"SELECT *, {literal(number)} AS file FROM ({rows_of(group.layouts)})"
        for number, group in enumerate(groups)
    ]
    inspected = p.timestamp("inspectiondate")
    work.connection.execute(f"""
CREATE OR REPLACE TEMP TABLE violation_rows AS
WITH raw AS ({" UNION ALL BY NAME ".join(parts)}), typed AS (
  SELECT file, {p.trimmed("violationid")} AS violation_id, {p.bbl("bbl")} AS bbl,
    {p.bin_number("bin")} AS bin, upper(trim(class)) AS class, {inspected} AS inspected_at,
    {p.timestamp("novissueddate")} AS issued_at, {p.trimmed("currentstatus")} AS status,
    regexp_matches(novdescription, {literal(HEAT_SECTIONS)}) AS is_heat,
    {rounded("TRY_CAST(longitude AS DOUBLE)")} AS longitude,
    {rounded("TRY_CAST(latitude AS DOUBLE)")} AS latitude FROM raw
), placed AS (
  SELECT t.*, CAST(coalesce(t.bbl, l.bbl, t.bin) AS VARCHAR) AS building_id, pt.tract,
    row_number() OVER (PARTITION BY violation_id ORDER BY inspected_at DESC NULLS LAST, file) AS n
  FROM typed t LEFT JOIN building_lots l ON l.bin = t.bin
  LEFT JOIN point_tract pt ON pt.longitude = t.longitude AND pt.latitude = t.latitude
)
SELECT *, CASE WHEN violation_id IS NULL THEN 'no key'
    WHEN inspected_at IS NULL OR inspected_at < TIMESTAMP '1960-01-01'
      THEN 'inspection date unreadable'
    WHEN class NOT IN ('A', 'B', 'C', 'I') OR class IS NULL THEN 'unknown code'
    WHEN n > 1 THEN 'repeated key'
    WHEN building_id IS NULL THEN 'no location'
    WHEN tract IS NULL THEN 'location not found' END AS reason
FROM placed""")
    take_unreadable(work.connection)
    copy_sorted(
        work.connection,
        """SELECT violation_id, building_id, tract, class, is_heat, inspected_at, issued_at, status
FROM violation_rows WHERE reason IS NULL ORDER BY inspected_at, violation_id""",
        work.aside / "violations.parquet",
    )
    write_set_aside(
        work,
        """SELECT file, violation_id AS key, reason, class, inspected_at, bbl, bin, longitude,
latitude FROM violation_rows WHERE reason IS NOT NULL ORDER BY file, violation_id""",
        "hpd_violations",
    )
    work.connection.execute("""
CREATE OR REPLACE TABLE violations AS
SELECT building_id, is_heat, inspected_at FROM violation_rows WHERE reason IS NULL""")
    return _account(work, [group.name for group in groups])


def _account(work: ImportWork, names: list[str]) -> dict[str, dict[str, Any]]:
    rows = work.connection.execute(
        "SELECT file, reason, count(*) FROM violation_rows GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    account: dict[str, dict[str, Any]] = {
        name: {"rows_in": 0, "kept": 0, "out_of_scope": 0, "quarantined": {}} for name in names
    }
    for file, reason, n in rows:
        entry = account[names[file]]
        entry["rows_in"] += n
        if reason is None:
            entry["kept"] += n
        else:
            entry["quarantined"][reason] = n
    return account


def import_references(work: ImportWork) -> dict[str, dict[str, Any]]:
    """Write reference/<kind>.parquet for every aggregate or code list; give the account by file."""
    account: dict[str, dict[str, Any]] = {}
    for group in work.of_kind(*(known.kind for known in REFERENCE_FORMATS)):
        path = work.aside / "reference" / f"{group.kind.removeprefix('reference_')}.parquet"
        known = next(known for known in REFERENCE_FORMATS if known.kind == group.kind)
        chosen = ", ".join(
            f"TRY_CAST({identifier(column)} AS DOUBLE) AS {identifier(column)}"
            if column in known.numbers
            else identifier(column)
            for column in known.columns
        )
        copy_sorted(work.connection, f"SELECT {chosen} FROM ({rows_of(group.layouts)})", path)
        n = work.connection.execute(f"SELECT count(*) FROM {parquet([path])}").fetchall()[0][0]
        account[group.name] = _entry(n, take_unreadable(work.connection))
        account[group.name]["differs"] = _compare_codes(work, group.kind, path)
    account |= _import_address_years(work)
    for group in work.of_kind("lots", "footprints"):
        n = work.connection.execute(f"SELECT count(*) FROM ({rows_of(group.layouts)})").fetchall()[
            0
        ][0]
        account[group.name] = _entry(n, take_unreadable(work.connection))
    return account


def _import_address_years(work: ImportWork) -> dict[str, dict[str, Any]]:
    """Write reference/heat_by_tract.parquet and heat_per_address.parquet: counts, no address.

    The first has complaints and complaining addresses by tract and year, the second how many
    addresses had how many complaints in a year.
    """
    account: dict[str, dict[str, Any]] = {}
    for number, group in enumerate(work.of_kind("address_years")):
        work.connection.execute(f"""
CREATE OR REPLACE TEMP TABLE address_years AS
SELECT trim(GEOID) AS tract, TRY_CAST(year AS INTEGER) AS year,
  TRY_CAST(num_complaints AS INTEGER) AS complaints,
  CASE WHEN year IS NULL OR complaints IS NULL THEN 'count unreadable'
    WHEN tract IS NULL OR tract NOT IN (SELECT geoid FROM tract_ids) THEN 'location not found' END
    AS reason
FROM ({rows_of(group.layouts)})""")
        lost = take_unreadable(work.connection)
        name = "heat_by_tract.parquet" if number == 0 else f"heat_by_tract_{number + 1}.parquet"
        copy_sorted(
            work.connection,
            """SELECT tract, year, sum(complaints)::INTEGER AS complaints, count(*) AS addresses
FROM address_years WHERE reason IS NULL GROUP BY ALL ORDER BY ALL""",
            work.aside / "reference" / name,
        )
        copy_sorted(
            work.connection,
            """SELECT year, complaints, count(*) AS addresses FROM address_years
WHERE reason IS NULL GROUP BY ALL ORDER BY ALL""",
            work.aside / "reference" / name.replace("by_tract", "per_address"),
        )
        rows = work.connection.execute(
            "SELECT reason, count(*) FROM address_years GROUP BY 1 ORDER BY 1"
        ).fetchall()
        entry = _entry(sum(n for reason, n in rows if reason is None), lost)
        for reason, n in rows:
            if reason is not None:
                entry["quarantined"][reason] = n
                entry["rows_in"] += n
        account[group.name] = entry
    return account


def _entry(n: int, lost: list[Any]) -> dict[str, Any]:
    quarantined = {entry.reason: entry.lines for entry in lost}
    return {
        "rows_in": n + sum(quarantined.values()),
        "kept": n,
        "out_of_scope": 0,
        "quarantined": quarantined,
    }


def _compare_codes(work: ImportWork, kind: str, path: Path) -> list[str]:
    """Codes of a published list that our tables lack."""
    name = kind.removeprefix("reference_")
    if name not in ("dob_categories", "dob_dispositions"):
        return []
    have = set(read_codes(name)["code"].to_pylist())
    rows = work.connection.execute(f"SELECT code FROM {parquet([path])} ORDER BY 1").fetchall()
    return [code for (code,) in rows if code not in have]
