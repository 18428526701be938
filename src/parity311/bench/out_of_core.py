"""More complaints than memory holds, on one machine: time, memory and disk of four queries.

Made-up complaints in the columns that features and audits read, written as Parquet month by month,
then asked what the whole needs: cells by tract, month and severity, a median by tract (from a
histogram of hours: an exact one has to hold every value), the time since a building's last report,
and a join of complaints with their outcomes. DuckDB works within a limit and spills to disk.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, LiteralString

from parity311.records.sql import Connection, add_view, connect, literal

N_MONTHS = 75
"""As from 2020 to March 2026."""
ROWS_PER_BUILDING = 12
QUERIES: dict[str, LiteralString] = {
    "cells by tract, month and severity": """
        SELECT count(*) FROM (
            SELECT tract, month, severity, count(*) FROM complaints GROUP BY ALL)""",
    "median hours by tract, from a histogram": """
        SELECT count(*) FROM (
            SELECT tract, min(hour) FROM (
                SELECT tract, hour, sum(n) OVER (PARTITION BY tract ORDER BY hour) AS so_far,
                    sum(n) OVER (PARTITION BY tract) AS total
                FROM (SELECT tract, hours // 1 AS hour, count(*) AS n FROM complaints GROUP BY ALL))
            WHERE 2 * so_far >= total GROUP BY tract)""",
    "time since the building's last report": """
        SELECT avg(gap) FROM (
            SELECT received - lag(received) OVER (PARTITION BY building ORDER BY received) AS gap
            FROM complaints)""",
    "join with outcomes": """
        SELECT count(*) FROM complaints JOIN complaints AS outcomes USING (id)""",
}


def bench_out_of_core(rows: int, memory_gb: float = 4.0) -> dict[str, Any]:
    """Write so many complaints and ask them four things within so much memory."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        began = time.monotonic()
        paths = [_write_month(folder, month, rows // N_MONTHS + 1) for month in range(N_MONTHS)]
        found: dict[str, Any] = {
            "rows": N_MONTHS * (rows // N_MONTHS + 1),
            "bytes": sum(path.stat().st_size for path in paths),
            "memory_limit_gb": memory_gb,
            "write_seconds": time.monotonic() - began,
            "queries": [],
        }
        for label, query in QUERIES.items():
            with _open(folder, memory_gb) as connection:
                add_view(connection, "complaints", paths)
                found["queries"].append(_ask(connection, label, query, folder))
    found["peak_memory_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return found


def _open(folder: Path, memory_gb: float) -> Connection:
    connection = connect()
    connection.execute(f"SET memory_limit = {literal(f'{memory_gb:g}GB')}")
    connection.execute(f"SET temp_directory = {literal(str(folder / 'spill'))}")
    connection.execute("SET preserve_insertion_order = false")
    return connection


def _write_month(folder: Path, month: int, rows: int) -> Path:
    """One month of complaints; same month, same rows."""
    path = folder / f"month-{month:03d}.parquet"
    n_buildings = max(rows * N_MONTHS // ROWS_PER_BUILDING, 1)
    with connect() as connection:
        connection.execute(f"""
            COPY (
                SELECT {literal(month * rows)} + i AS id, {literal(month)} AS month,
                    hash(i, {literal(month)}) % 2325 AS tract,
                    hash(i, {literal(month)}, 1) % {literal(n_buildings)} AS building,
                    hash(i, {literal(month)}, 2) % 4 AS severity,
                    {literal(month * 2_592_000)} + i * 2_592_000 // {literal(rows)} AS received,
                    (hash(i, {literal(month)}, 3) % 100000)::DOUBLE / 100 AS hours
                FROM range({literal(rows)}) AS made(i)
            ) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)""")
    return path


def _ask(connection: Connection, label: str, query: LiteralString, folder: Path) -> dict[str, Any]:
    began, cpu_began = time.monotonic(), time.process_time()
    try:
        connection.execute(query).fetchall()
        failed = ""
    except Exception as error:  # what does not fit is a result too
        failed = str(error).splitlines()[0]
    spilled = sum(path.stat().st_size for path in (folder / "spill").glob("*") if path.is_file())
    return {
        "query": label,
        "seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "spilled_bytes_at_end": spilled,
        "failed": failed,
    }
