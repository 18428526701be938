"""HPD violations: what inspectors wrote, kept beside the complaints, never among their features."""

from __future__ import annotations

from typing import Any, LiteralString

from parity311.feeds import parsing as p
from parity311.feeds.locate import rounded
from parity311.feeds.staging import rows_of, take_unreadable
from parity311.feeds.work import ImportWork
from parity311.feeds.write import copy_sorted
from parity311.records.sql import literal

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
    copy_sorted(
        work.connection,
        """SELECT file, violation_id AS key, reason, class, inspected_at, bbl, bin, longitude,
latitude FROM violation_rows WHERE reason IS NOT NULL ORDER BY file, violation_id""",
        work.aside / "quarantine" / "hpd_violations.parquet",
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
