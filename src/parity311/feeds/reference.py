"""Published aggregates, code lists and metadata: kept beside the records, compared, never rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parity311.feeds.codes import read_codes
from parity311.feeds.formats import REFERENCE_FORMATS
from parity311.feeds.staging import rows_of, take_unreadable
from parity311.feeds.work import ImportWork
from parity311.feeds.write import copy_sorted
from parity311.records.sql import identifier, parquet


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
