"""How fast 311 exports become records and features, beside pandas.

The rows are generated in the shape of the city's CSV export (44 columns, its date format, texts of
real length), every one of a type some domain decides about, on a made-up grid of tracts. Generating
them is not measured.

The same point-in-time features are built with pandas as a pandas user would, with
``groupby(...).rolling``; pandas is in the ``dev`` extra.

Out of core: more complaints than memory holds, on one machine. Made-up complaints in the columns
that features and audits read are written month by month, then asked what the whole needs: cells by
tract, month and severity, a median by tract (from a histogram of hours, and exactly, for which
every value is held), the time since a building's last report, and a join of complaints with their
outcomes. DuckDB works within a limit and spills to disk; each query has a process of its own, so
that its memory is its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, LiteralString

import numpy as np

from parity311.errors import InputError, RecordsError
from parity311.records.features import FEATURES
from parity311.records.sql import Connection, add_view, connect, identifier, literal
from parity311.records.store import Records


def build_with_pandas(records: Records, domain: str) -> Any:
    """A data frame with the columns and rows of `parity311.records.features.complaint_features`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError(
            "The comparison needs pandas; install it with `pip install 'parity311[dev]'`."
        ) from error
    complaints = records.table("complaints", domain).to_pandas()
    outcomes = records.table("outcomes", domain).to_pandas()
    zips = records.table("tracts", columns=["geoid", "zip"]).to_pandas()
    placed = complaints.merge(zips, left_on="tract", right_on="geoid", how="left")
    events = _events(pd, placed, outcomes)
    out = events.loc[events["report"] == 1, ["complaint_id", "known_at"]].copy()
    out["days_since_last_report"] = _days_since_last(pd, events)
    out["n_open"] = _open_before(events)
    for feature in FEATURES:
        out[feature.name] = _rolling(pd, events, feature.event, feature.place, feature.window_days)
    out = out.rename(columns={"known_at": "received_at"})
    return out.sort_values(["received_at", "complaint_id"]).reset_index(drop=True)


def _events(pd: Any, placed: Any, outcomes: Any) -> Any:
    """One row a report and one a closing, in order of time; index 0 … n - 1."""
    columns = ["complaint_id", "known_at", "building_id", "tract", "zip"]
    reports = placed.rename(columns={"received_at": "known_at"})[columns].copy()
    reports = reports.assign(report=1, violation=0, substantive=0, closing=0)
    closed = outcomes.loc[outcomes["closed_at"].notna(), ["complaint_id", "closed_at"]]
    kinds = outcomes.set_index("complaint_id")["disposition_class"]
    closings = closed.merge(placed[["complaint_id", *columns[2:]]], on="complaint_id")
    kind = closings["complaint_id"].map(kinds)
    closings = closings.rename(columns={"closed_at": "known_at"}).assign(
        complaint_id=None,
        report=0,
        violation=(kind == "violation").astype(int),
        substantive=kind.isin(["violation", "no_violation"]).astype(int),
        closing=1,
    )
    events = pd.concat([reports, closings], ignore_index=True)
    return events.sort_values("known_at", kind="stable").reset_index(drop=True)


def _rolling(pd: Any, events: Any, event: str, place: str, days: int) -> Any:
    """Sum over [t - days, t) within a place, back in the order of the events.

    pandas leaves out the row itself, not other rows of the same second.
    """
    ordered = events[["known_at", place, event]].sort_values([place, "known_at"], kind="stable")
    grouped = ordered.groupby(place, dropna=False, sort=False)
    sums = grouped.rolling(f"{days}D", on="known_at", closed="left")[event].sum()
    return pd.Series(sums.fillna(0).to_numpy().astype(int), index=ordered.index)


def _open_before(events: Any) -> Any:
    change = (events["report"] - events["closing"]).groupby(events["known_at"]).sum()
    before = change.cumsum().shift(fill_value=0)
    return events["known_at"].map(before)


def _days_since_last(pd: Any, events: Any) -> Any:
    reports = events.loc[events["report"] == 1, ["known_at", "building_id"]]
    earlier = reports.drop_duplicates().assign(last=lambda frame: frame["known_at"])
    found = pd.merge_asof(
        reports.reset_index(), earlier, on="known_at", by="building_id", allow_exact_matches=False
    ).set_index("index")
    return (found["known_at"] - found["last"]).dt.total_seconds() / 86400


ROWS_PER_BUILDING = 12
"""Complaints per building over the years of the file (HPD and DOB, 2020-26, roughly)."""
PANDAS_ROWS = 300_000
"""Rows on which both sides build the same features for the ratio; pandas takes minutes beyond."""
MAX_DIFFERING = 0.001
"""Share of values that may differ: pandas counts other rows of the same second, which come at the
same moment and are not known before."""
HEADER = (
    "Unique Key,Created Date,Closed Date,Agency,Agency Name,Complaint Type,Descriptor,"
    "Location Type,Incident Zip,Incident Address,Street Name,Cross Street 1,Cross Street 2,"
    "Intersection Street 1,Intersection Street 2,Address Type,City,Landmark,Facility Type,Status,"
    "Due Date,Resolution Description,Resolution Action Updated Date,Community Board,BBL,Borough,"
    "X Coordinate (State Plane),Y Coordinate (State Plane),Open Data Channel Type,"
    "Park Facility Name,Park Borough,Vehicle Type,Taxi Company Borough,Taxi Pick Up Location,"
    "Bridge Highway Name,Bridge Highway Direction,Road Ramp,Bridge Highway Segment,Latitude,"
    "Longitude,Location"
)


def write_grid(folder: Path, side: int = 48) -> tuple[Path, Path]:
    """ACS figures and boundaries of side × side made-up tracts that cover the city's box."""
    rng = np.random.default_rng(0)
    west, south, east, north = -74.25, 40.50, -73.70, 40.91
    dx, dy = (east - west) / side, (north - south) / side
    features, lines = [], ["GEOID,TOTAL_POP,MEDIAN_INCOME,HH_TOTAL"]
    for i in range(side):
        for j in range(side):
            geoid = f"36061{i * side + j:06d}"
            x, y = west + i * dx, south + j * dy
            ring = [[x, y], [x + dx, y], [x + dx, y + dy], [x, y + dy], [x, y]]
            features.append(
                {
                    "type": "Feature",
                    "properties": {"GEOID": geoid},
                    "geometry": {"type": "Polygon", "coordinates": [ring]},
                }
            )
            lines.append(f"{geoid},3500,{rng.integers(20_000, 200_000)},1400")
    figures, outline = folder / "acs.csv", folder / "tracts.geojson"
    figures.write_text("\n".join(lines) + "\n")
    outline.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return figures, outline


def write_rows(path: Path, rows: int, seed: int = 7) -> None:
    """Write a CSV in the shape of the 311 export; same seed, same rows."""
    buildings = max(rows // ROWS_PER_BUILDING, 1)
    with connect() as connection:
        connection.execute("SELECT setseed($seed)", {"seed": (seed % 1000) / 1000})
        connection.execute("SET memory_limit = '2GB'")
        connection.execute("""
CREATE TABLE kinds AS SELECT row_number() OVER () - 1 AS k, * FROM (VALUES
  ('HPD', 'Department of Housing Preservation and Development', 'HEAT/HOT WATER',
    'ENTIRE BUILDING'),
  ('HPD', 'Department of Housing Preservation and Development', 'HEAT/HOT WATER',
    'APARTMENT ONLY'),
  ('HPD', 'Department of Housing Preservation and Development', 'HEAT/HOT WATER',
    'ENTIRE BUILDING'),
  ('HPD', 'Department of Housing Preservation and Development', 'UNSANITARY CONDITION', 'PESTS'),
  ('HPD', 'Department of Housing Preservation and Development', 'PLUMBING', 'BASIN/SINK'),
  ('HPD', 'Department of Housing Preservation and Development', 'PAINT/PLASTER', 'WALL'),
  ('HPD', 'Department of Housing Preservation and Development', 'WATER LEAK', 'HEAVY FLOW'),
  ('HPD', 'Department of Housing Preservation and Development', 'DOOR/WINDOW', 'DOOR'),
  ('DOB', 'Department of Buildings', 'General Construction/Plumbing', 'Building Permit - None'),
  ('DOB', 'Department of Buildings', 'Elevator',
    'Elevator - Single Device On Property/No Alternate Service')
) AS t(agency, agency_name, type, descriptor)""")
        connection.execute("""
CREATE TABLE texts AS SELECT row_number() OVER () - 1 AS k, * FROM (VALUES
  ('The Department of Housing Preservation and Development inspected the following conditions. '
    || 'No violations were issued. The complaint has been closed.'),
  ('The Department of Housing Preservation and Development inspected the following conditions. '
    || 'Violations were issued. Information about specific violations is available at '
    || 'www.nyc.gov/hpd.'),
  ('The Department of Housing Preservation and Development was not able to gain access to inspect '
    || 'the following conditions. The complaint has been closed. If the condition still exists, '
    || 'please file a new complaint.'),
  ('The complaint you filed is a duplicate of a condition already reported by another tenant for a '
    || 'building-wide condition. The original complaint is still open.')) AS t(text)""")
        connection.execute(f"""
CREATE TABLE houses AS SELECT b, -74.249 + 0.548 * random() AS x, 40.501 + 0.408 * random() AS y,
  1000000000 + 10000 + b AS bbl, 10001 + b % 200 AS zip FROM range({literal(buildings)}) AS r(b)""")
        names = ", ".join(identifier(column) for column in HEADER.split(","))
        connection.execute(f"""
COPY (
  SELECT * FROM (SELECT 30000000 + i, strftime(made, '%m/%d/%Y %I:%M:%S %p'),
    strftime(made + INTERVAL (60 + CAST(1e6 * random() AS INT)) SECOND, '%m/%d/%Y %I:%M:%S %p'),
    kinds.agency, kinds.agency_name, kinds.type, kinds.descriptor, 'RESIDENTIAL BUILDING', zip,
    (b % 900 + 1) || ' MAIN STREET ' || b % 5000, 'MAIN STREET ' || b % 5000,
    'FIRST AVENUE', 'SECOND AVENUE', NULL, NULL, 'ADDRESS', 'NEW YORK', NULL, 'N/A', 'Closed',
    NULL, texts.text, strftime(made + INTERVAL 2 DAY, '%m/%d/%Y %I:%M:%S %p'), '09 MANHATTAN',
    bbl, 'MANHATTAN', 990000 + b % 9999, 190000 + b % 9999, 'PHONE', 'Unspecified', 'MANHATTAN',
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, y, x, '(' || y || ', ' || x || ')'
  FROM (
    SELECT i, TIMESTAMP '2020-01-01'
        + INTERVAL (CAST(2e8 * i / {literal(rows)} AS BIGINT)) SECOND AS made,
      CAST(floor({literal(buildings)} * pow(random(), 2)) AS BIGINT) AS house,
      i % 10 AS kind, CAST(floor(4 * random()) AS INT) AS answer
    FROM range({literal(rows)}) AS r(i)
  ) JOIN houses ON b = house JOIN kinds ON kinds.k = kind JOIN texts ON texts.k = answer
  ) AS t({names})
) TO {literal(path)} (FORMAT csv, HEADER true)""")


def measure_import(rows_file: Path, figures: Path, outline: Path, out: Path) -> dict[str, Any]:
    """Import, and build the features of every domain, in this process."""
    from parity311.feeds.importing import import_records
    from parity311.records.features import complaint_features
    from parity311.records.store import open_records

    begun = time.perf_counter()
    import_records([figures, outline, rows_file], out)
    imported = time.perf_counter()
    records = open_records(out)
    n_features = 0
    for domain in records.domains:
        n_features += complaint_features(records, domain).num_rows
    ended = time.perf_counter()
    return {
        "features": n_features,
        "import_seconds": imported - begun,
        "feature_seconds": ended - imported,
        "cpu_seconds": time.process_time(),
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2,
    }


def compare_with_pandas(rows_file: Path, figures: Path, outline: Path, out: Path) -> float:
    """Seconds pandas needs for the features of every domain, over ours; the features are equal."""
    from parity311.feeds.importing import import_records
    from parity311.records.features import FEATURES, complaint_features
    from parity311.records.store import open_records

    import_records([figures, outline, rows_file], out)
    records = open_records(out)
    ours = theirs = 0.0
    names = ["complaint_id", "n_open", *(feature.name for feature in FEATURES)]
    for domain in records.domains:
        begun = time.perf_counter()
        table = complaint_features(records, domain)
        ours += time.perf_counter() - begun
        begun = time.perf_counter()
        frame = build_with_pandas(records, domain)
        theirs += time.perf_counter() - begun
        for name in names:
            differ = sum(a != b for a, b in zip(table[name].to_pylist(), frame[name], strict=True))
            if differ > MAX_DIFFERING * len(frame):
                raise RecordsError(
                    f"pandas and DuckDB disagree on {name} of {domain}: the comparison is void."
                )
    return theirs / ours


def bench_records(rows: int, *, pandas_rows: int = PANDAS_ROWS) -> dict[str, Any]:
    """Import generated 311 rows and build their features; compare the features with pandas.

    Returns
    -------
    ``rows``, ``seconds`` (import and features), ``peak_gb`` of a process that does nothing else,
    ``ratio_vs_pandas`` (features only, on ``pandas_rows`` rows; null without pandas), the parts.
    """
    with TemporaryDirectory(prefix="parity311-bench-") as name:
        folder = Path(name)
        figures, outline = write_grid(folder)
        big = folder / "rows.csv"
        write_rows(big, rows)
        # What else runs on the machine changes the wall clock, so it belongs to the result.
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        measured = _in_own_process("measure_import", big, figures, outline, folder / "records")
        csv_gb = big.stat().st_size / 1e9
        big.unlink()
        small = folder / "few.csv"
        write_rows(small, min(rows, pandas_rows))
        ratio = None
        if find_spec("pandas") is not None:
            ratio = _in_own_process(
                "compare_with_pandas", small, figures, outline, folder / "compared"
            )
    return {
        "rows": rows,
        "seconds": measured["import_seconds"] + measured["feature_seconds"],
        "peak_gb": measured["peak_gb"],
        "ratio_vs_pandas": ratio,
        "pandas_rows": min(rows, pandas_rows),
        "csv_gb": csv_gb,
        "features": measured["features"],
        "import_seconds": measured["import_seconds"],
        "feature_seconds": measured["feature_seconds"],
        "cpu_seconds": measured["cpu_seconds"],
        "load_average": load,
    }


def _in_own_process(function: str, *paths: Path) -> Any:
    """Run a function of this module in a fresh process: its memory is that of the work alone."""
    code = (
        "import json, sys; from pathlib import Path; from parity311.bench import records as b; "
        f"print(json.dumps(b.{function}(*map(Path, sys.argv[1:]))))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=False
    )
    if finished.returncode:
        raise RecordsError(
            f"The benchmark failed: {finished.stderr.strip().splitlines()[-1][:300]}"
        )
    return json.loads(finished.stdout.strip().splitlines()[-1])


N_MONTHS = 75
"""As from 2020 to March 2026."""
QUERIES: dict[str, LiteralString] = {
    "cells by tract, month and severity": """
        SELECT sum(n * hours) FROM (
            SELECT tract, month, severity, count(*) AS n, avg(hours) AS hours
            FROM complaints GROUP BY ALL)""",
    "median hours by tract, from a histogram": """
        SELECT sum(median) FROM (
            SELECT tract, min(hour) AS median FROM (
                SELECT tract, hour, sum(n) OVER (PARTITION BY tract ORDER BY hour) AS so_far,
                    sum(n) OVER (PARTITION BY tract) AS total
                FROM (
                    SELECT tract, hours::INTEGER AS hour, count(*) AS n
                    FROM complaints GROUP BY ALL))
            WHERE 2 * so_far >= total GROUP BY tract)""",
    "exact median hours by tract": """
        SELECT sum(middle) FROM (
            SELECT tract, median(hours) AS middle FROM complaints GROUP BY tract)""",
    "time since the building's last report, in every row": """
        SELECT sum(gap * (severity + 1) + id % 2 + tract + hours) FROM (
            SELECT *, received - lag(received) OVER (PARTITION BY building ORDER BY received, id)
                AS gap
            FROM complaints)""",
    "join of every row with its outcome": """
        SELECT sum(outcomes.hours * (complaints.severity + 1)
            + complaints.received % 7 + complaints.building % 5 + complaints.tract)
        FROM complaints JOIN complaints AS outcomes ON outcomes.id = complaints.id""",
}
"""Each takes all of its columns along: a sum that needs them keeps DuckDB from leaving them out."""


def bench_out_of_core(rows: int, memory_gb: float = 4.0) -> dict[str, Any]:
    """Write so many complaints and ask all queries within so much memory."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        began, cpu_began = time.monotonic(), time.process_time()
        paths = write_months(folder, rows)
        found: dict[str, Any] = {
            "rows": N_MONTHS * (rows // N_MONTHS + 1),
            "bytes": sum(path.stat().st_size for path in paths),
            "memory_limit_gb": memory_gb,
            "cores": os.cpu_count(),
            "write_seconds": time.monotonic() - began,
            "write_cpu_seconds": time.process_time() - cpu_began,
            "queries": [],
        }
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
            for label in QUERIES:
                found["queries"].append(pool.submit(ask, label, folder, memory_gb).result())
    return found


def _open(folder: Path, memory_gb: float) -> Connection:
    connection = connect()
    connection.execute(f"SET memory_limit = {literal(f'{memory_gb:g}GB')}")
    connection.execute(f"SET temp_directory = {literal(str(folder / 'spill'))}")
    connection.execute("SET preserve_insertion_order = false")
    return connection


def write_months(folder: Path, rows: int) -> list[Path]:
    """At least so many complaints, a file a month."""
    return [_write_month(folder, month, rows // N_MONTHS + 1) for month in range(N_MONTHS)]


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


def ask(label: str, folder: Path, memory_gb: float) -> dict[str, Any]:
    """Ask one query in this process; what does not fit is a result too."""
    began, cpu_began = time.monotonic(), time.process_time()
    answer, failed = None, ""
    spill = folder / "spill"
    with _open(folder, memory_gb) as connection, _watching(spill) as most:
        add_view(connection, "complaints", sorted(folder.glob("month-*.parquet")))
        try:
            answer = connection.execute(QUERIES[label]).fetchall()[0][0]
        except Exception as error:
            failed = str(error).splitlines()[0]
    return {
        "query": label,
        "answer": answer,
        "failed": failed,
        "seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2,
        "spilled_bytes": most[0],
    }


@contextmanager
def _watching(spill: Path) -> Iterator[list[int]]:
    """The most bytes that a folder holds meanwhile, looked at five times a second."""
    most, is_over = [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.2):
            sizes = [_size(path) for path in spill.glob("*")]
            most[0] = max(most[0], sum(sizes))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        is_over.set()
        watcher.join()


def _size(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except OSError:  # removed meanwhile
        return 0
