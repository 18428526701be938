"""Where a row belongs: its census tract, by the best of what the row carries.

In this order: its coordinates (in a tract's polygon, or nearest within 60 m), its tax lot (BBL),
its building number (BIN), its address, its tax block if all known lots of it lie in one tract. Lots,
buildings and addresses are known from a crosswalk (PLUTO, footprints), from violations, and from
other rows that have coordinates. How each row was located is kept with it.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from parity311.feeds.boundaries import Boundaries
from parity311.feeds.parsing import COUNTIES

METHODS = ("coordinates", "nearest", "lot", "building", "address", "block", "borough")
"""``borough``: kept without a tract, only where that was asked for."""
COORDINATE_DIGITS = 6
"""Coordinates are compared at 0.1 m."""
POINTS_AT_A_TIME = 2_000_000


def place_points(
    connection: duckdb.DuckDBPyConnection, boundaries: Boundaries, points_query: str
) -> None:
    """Table point_tract: distinct (longitude, latitude) -> tract, is_nearest.

    ``points_query`` gives columns longitude and latitude. Bounded memory: points come in batches.
    """
    connection.execute(
        "CREATE OR REPLACE TABLE point_tract "
        "(longitude DOUBLE, latitude DOUBLE, tract VARCHAR, is_nearest BOOLEAN)"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE points AS SELECT DISTINCT longitude, latitude "
        f"FROM ({points_query}) WHERE longitude IS NOT NULL AND latitude IS NOT NULL"
    )
    ids = boundaries.ids.astype(object)
    reader = connection.sql("FROM points").to_arrow_reader(POINTS_AT_A_TIME)
    batches = []
    for batch in reader:
        longitude = batch["longitude"].to_numpy(zero_copy_only=False)
        latitude = batch["latitude"].to_numpy(zero_copy_only=False)
        index, is_nearest = boundaries.locate(longitude, latitude)
        tract = pa.array([None if i < 0 else ids[i] for i in index], pa.string())
        batches.append(
            pa.table(
                {
                    "longitude": longitude,
                    "latitude": latitude,
                    "tract": tract,
                    "is_nearest": is_nearest,
                }
            )
        )
    if batches:
        found = pa.concat_tables(batches)
        connection.register("_found", found)
        connection.execute("INSERT INTO point_tract SELECT * FROM _found")
        connection.unregister("_found")
    connection.execute("DROP TABLE points")


def rounded(column: str) -> str:
    """SQL: a coordinate as it is compared."""
    return f"round({column}, {COORDINATE_DIGITS})"


def make_places(connection: duckdb.DuckDBPyConnection) -> None:
    """Table places: (kind, id) -> tract, for the ids that rows without a usable point carry.

    Reads the views ``located_ids`` (bbl, bin, address, tract: everything that has a tract) and
    ``wanting`` (bbl, bin, address: rows without one), and the table ``building_lots`` (bin -> bbl).
    """
    connection.execute("""
CREATE OR REPLACE TEMP TABLE needed AS
SELECT DISTINCT 'lot' AS kind, bbl AS id FROM wanting WHERE bbl IS NOT NULL
UNION ALL SELECT DISTINCT 'building', bin FROM wanting WHERE bin IS NOT NULL
UNION ALL SELECT DISTINCT 'address', address FROM wanting WHERE address IS NOT NULL
UNION ALL SELECT DISTINCT 'block', substr(bbl, 1, 6) FROM wanting WHERE bbl IS NOT NULL
""")
    connection.execute("""
INSERT INTO needed SELECT DISTINCT 'lot', l.bbl
FROM building_lots l JOIN needed n ON n.kind = 'building' AND n.id = l.bin
""")
    connection.execute("""
CREATE OR REPLACE TABLE places AS
WITH seen AS (
  SELECT 'lot' AS kind, bbl AS id, tract FROM located_ids WHERE bbl IS NOT NULL
  UNION ALL SELECT 'building', bin, tract FROM located_ids WHERE bin IS NOT NULL
  UNION ALL SELECT 'address', address, tract FROM located_ids WHERE address IS NOT NULL
), counted AS (
  SELECT kind, id, tract, count(*) AS n FROM seen SEMI JOIN needed USING (kind, id) GROUP BY ALL
), blocks AS (
  SELECT 'block' AS kind, substr(bbl, 1, 6) AS id, min(tract) AS tract FROM located_ids
  WHERE bbl IS NOT NULL AND substr(bbl, 1, 6) IN (SELECT id FROM needed WHERE kind = 'block')
  GROUP BY 2 HAVING count(DISTINCT tract) = 1
)
SELECT DISTINCT ON (kind, id) kind, id, tract FROM counted ORDER BY kind, id, n DESC, tract
""")
    connection.execute("""
INSERT INTO places
SELECT 'block', substr(bbl, 1, 6), min(tract) FROM located_ids
WHERE bbl IS NOT NULL AND substr(bbl, 1, 6) IN (SELECT id FROM needed WHERE kind = 'block')
GROUP BY 2 HAVING count(DISTINCT tract) = 1
""")
    connection.execute("""
INSERT INTO places
SELECT 'building', l.bin, any_value(p.tract) FROM building_lots l
JOIN places p ON p.kind = 'lot' AND p.id = l.bbl
ANTI JOIN (SELECT id FROM places WHERE kind = 'building') known ON known.id = l.bin
GROUP BY l.bin
""")
    connection.execute("DROP TABLE needed")


def lot_tract(column: str) -> str:
    """SQL: the GEOID of PLUTO's borough digit and six-digit tract (``bct2020``)."""
    digits = f"regexp_replace(trim({column}), '\\.0+$', '')"
    counties = " ".join(f"WHEN '{digit}' THEN '{code}'" for digit, code in COUNTIES.items())
    return (
        f"CASE WHEN regexp_full_match({digits}, '[1-5][0-9]{{6}}') "
        f"THEN '36' || (CASE {digits}[1] {counties} END) || substr({digits}, 2) END"
    )
