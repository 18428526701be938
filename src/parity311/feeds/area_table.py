"""Where an import's rows could be placed, by what, and what can be done where tracts cannot be had.

Rows without a tract often carry a ZIP code or a community board. A table by such areas, in the
shape that `parity311 audit TABLE.csv` takes, keeps them in the count.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import pyarrow as pa

from parity311.errors import InputError, RecordsError
from parity311.feeds.judge import LOCATION_REASONS
from parity311.records.cases import service_level
from parity311.records.schema import SEVERITIES
from parity311.records.sql import connect, identifier, literals, parquet
from parity311.records.store import Records
from parity311.records.strata import income_quintiles
from parity311.storage.aside import writing_aside

ZIP, BOARD = "zip", "community_board"
AREAS = {ZIP: "ZIP code", BOARD: "community board"}
"""Areas that rows are counted by where tracts cannot be had."""
HEADER = (
    "area", "received_at", "served", "closed_at", "domain", "severity", "channel",
    "income_quintile", "households",
)  # fmt: skip
UNPLACED = "borough"
"""How a row was located that was kept without a tract."""


def check_imported(records: Records) -> None:
    """Refuse a folder whose rows nobody had to place."""
    if not records.is_real:
        raise InputError(
            f"{records.folder} is a synthetic city, where every row has its tract; name imported "
            "records."
        )
    columns = records.sql("SELECT * FROM complaints LIMIT 0").column_names
    if "row_zip" not in columns:
        raise RecordsError(
            f"{records.folder} was imported by an earlier version, which kept no ZIP code of a "
            "row; import the exports again."
        )


def explain_places(records: Records) -> list[dict[str, Any]]:
    """By domain: rows by what placed them, rows lost by reason, and what the lost ones carry."""
    check_imported(records)
    placed = records.sql("""
SELECT domain, located_by, count(*) AS n FROM complaints GROUP BY ALL ORDER BY n DESC""")
    found: dict[str, dict[str, Any]] = {
        domain: {"domain": domain, "placed_by": {}, "lost": {}, "lost_carry": {}}
        for domain in records.domains
    }
    for row in placed.to_pylist():
        found[row["domain"]]["placed_by"][row["located_by"]] = row["n"]
    lost = _lost(records)
    for row in lost.to_pylist():
        known = {"domain": row["domain"], "placed_by": {}, "lost": {}, "lost_carry": {}}
        entry = found.setdefault(row["domain"], known)
        entry["lost"][row["reason"]] = entry["lost"].get(row["reason"], 0) + row["n"]
        for name in ("zip", "community_board", "bbl", "bin", "point"):
            entry["lost_carry"][name] = entry["lost_carry"].get(name, 0) + row[name]
    for entry in found.values():
        by_borough = entry["placed_by"].get(UNPLACED, 0)
        entry["rows"] = sum(entry["placed_by"].values()) + sum(entry["lost"].values())
        entry["n_placed"] = sum(entry["placed_by"].values()) - by_borough
        entry["advice"] = _advice(entry)
    return list(found.values())


def _lost(records: Records) -> pa.Table:
    """Rows set aside for their place alone, counted by domain, reason and what they carry."""
    with connect() as connection:
        return connection.sql(f"""
SELECT domain, reason, count(*) AS n, count(zip) AS zip, count(community_board) AS community_board,
  count(bbl) AS bbl, count(bin) AS bin, count(longitude) AS point
FROM ({_set_aside(records)}) GROUP BY ALL ORDER BY ALL""").to_arrow_table()


def _set_aside(records: Records) -> LiteralString:
    """SQL: rows of the quarantine that only lack a place."""
    names = ("domain", "reason", "zip", "community_board", "bbl", "bin", "longitude", "severity",
             "channel", "received_at", "closed_at", "visited_at", "disposition_class")  # fmt: skip
    kept = [records.folder / name for name in records.manifest["files"]]
    files = [
        path for path in kept if path.parent.name == "quarantine" and path.stem in _WITH_PLACES
    ]
    chosen = ", ".join(identifier(name) for name in names)
    if not files:
        empty = ", ".join(f"CAST(NULL AS VARCHAR) AS {identifier(name)}" for name in names)
        return f"SELECT {empty} WHERE false"
    for path in files:
        records.check_unchanged(path)
    return f"SELECT {chosen} FROM {parquet(files)} WHERE reason IN ({literals(LOCATION_REASONS)})"


_WITH_PLACES = ("sr311", "dob", "boiler", "hpd_problems", "mapped")
"""Quarantines of complaints; those of violations and references hold other rows."""


def _advice(entry: dict[str, Any]) -> str:
    """What would place the rows that are lost, by what most of them carry."""
    n = sum(entry["lost"].values()) + entry["placed_by"].get(UNPLACED, 0)
    if not n:
        return ""
    carry = entry["lost_carry"]
    best = ZIP if carry.get(ZIP, 0) >= carry.get(BOARD, 0) else BOARD
    if carry.get("bbl", 0) + carry.get("bin", 0) > carry.get("point", 0):
        return (
            "give tax lots (PLUTO) and building footprints with the exports, which `parity311 "
            f"fetch nyc` brings; without them count by area (--by {best})"
        )
    if carry.get("point", 0) * 2 > n:
        return "the points lie outside the boundaries given: give those of the whole city"
    return f"count by area instead (--by {best})"


def write_area_table(records: Records, by: str, out: Path) -> dict[str, Any]:
    """Write one row a complaint by ZIP code or community board, placed in a tract or not.

    Served is what the audit of records counts: a violation found within the service level of the
    complaint's severity. An area's income is the household-weighted mean of its tracts' medians.
    """
    if by not in AREAS:
        raise InputError(f"--by {by} was given; allowed are {', '.join(AREAS)}.")
    check_imported(records)
    if out.exists():
        raise InputError(f"{out} is there already; name another file, or move it away.")
    areas = _areas(records, by)
    rows = _rows(records, by)
    lost = 0
    with writing_aside(out) as aside, aside.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for row in rows.to_pylist():
            quintile, households = areas.get(row["area"], (0, 0))
            lost += row["area"] is None
            writer.writerow(
                [
                    row["area"] or "",
                    row["received_at"].isoformat(" "),
                    row["served"] or "",
                    row["closed_at"].isoformat(" ") if row["closed_at"] else "",
                    row["domain"],
                    row["severity"],
                    row["channel"],
                    quintile,
                    households,
                ]
            )
    return {
        "table": str(out),
        "by": by,
        "rows": rows.num_rows,
        "areas": len({area for area in rows["area"].to_pylist() if area}),
        "without_area": lost,
        "without_tract": int(sum(rows["is_lost"].to_pylist())),
    }


def _rows(records: Records, by: str) -> pa.Table:
    """Every complaint in scope, kept or set aside for its place, with its area."""
    own: LiteralString = "row_zip" if by == ZIP else "CAST(row_board AS VARCHAR)"
    of_tract: LiteralString = "t.zip" if by == ZIP else "CAST(t.community_board AS VARCHAR)"
    aside: LiteralString = (
        "printf('%05d', CAST(zip AS INTEGER))"
        if by == ZIP
        else "CAST(CAST(community_board AS INTEGER) AS VARCHAR)"
    )
    kept = records.sql(f"""
SELECT coalesce({own}, CASE WHEN c.located_by <> 'borough' THEN {of_tract} END) AS area,
  c.received_at, o.closed_at, c.domain, c.severity, c.channel, c.located_by = 'borough' AS is_lost,
  o.disposition_class, coalesce(o.first_visit_at, o.closed_at) AS seen_at
FROM complaints c LEFT JOIN outcomes o USING (complaint_id) JOIN tracts t ON t.geoid = c.tract""")
    first, last = records.window
    with connect() as connection:
        connection.register("kept", kept)
        return connection.sql(
            f"""
WITH rows AS (
  SELECT * FROM kept UNION ALL BY NAME
  SELECT CASE WHEN {aside} <> '00000' THEN {aside} END AS area, received_at, closed_at, domain,
    severity, channel, true AS is_lost, disposition_class,
    coalesce(visited_at, closed_at) AS seen_at
  FROM ({_set_aside(records)})
  WHERE received_at >= $first::TIMESTAMP AND received_at < $last::TIMESTAMP
)
SELECT *, CASE WHEN disposition_class = 'violation'
      AND seen_at <= received_at + to_seconds(86400 * {service_level("severity")}) THEN 'yes'
    WHEN received_at + to_seconds(86400 * {service_level("severity")}) <= $last::TIMESTAMP
      THEN 'no' END AS served
FROM rows WHERE severity IN ({literals(SEVERITIES)}) ORDER BY received_at, area, domain""",
            params={"first": str(first), "last": str(last)},
        ).to_arrow_table()


def _areas(records: Records, by: str) -> dict[str, tuple[int, int]]:
    """Income quintile and households of every area that tracts lie in."""
    tracts = records.table("tracts")
    names = tracts[by].to_pylist()
    totals: dict[str, list[float]] = {}
    columns = (tracts["median_income"].to_pylist(), tracts["households"].to_pylist())
    for name, income, households in zip(names, *columns, strict=True):
        entry = totals.setdefault(str(name), [0.0, 0.0, 0.0])
        entry[2] += households
        if income is not None:
            entry[0] += income * households
            entry[1] += households
    found = sorted(totals)
    incomes = np.array([_mean(totals[name]) for name in found])
    quintiles = income_quintiles(incomes, np.array([totals[name][2] for name in found]))
    return {
        name: (int(quintile), int(totals[name][2]))
        for name, quintile in zip(found, quintiles, strict=True)
    }


def _mean(entry: list[float]) -> float:
    return entry[0] / entry[1] if entry[1] else float("nan")
