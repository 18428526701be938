"""Where a row belongs: its census tract, by the best of what the row carries.

In this order: its coordinates (in a tract's polygon, or nearest within 60 m), the tract's code
where the source gives it, its tax lot (BBL), its building number (BIN), its address, its tax block
if all known lots of it lie in one tract.
Lots, buildings and addresses are known from a crosswalk (PLUTO, footprints), from violations, and
from other rows that have coordinates. How each row was located is kept with it.
"""

from __future__ import annotations

from typing import LiteralString

import pyarrow as pa

from parity311.feeds.boundaries import Boundaries
from parity311.feeds.parsing import COUNTIES
from parity311.records.sql import Connection, literal

METHODS = ("coordinates", "nearest", "code", "lot", "building", "address", "block", "borough")
"""``code``: the source names the tract, or whichever area stands for it.
``borough``: kept without a tract, only where that was asked for."""
COORDINATE_DIGITS = 6
"""Coordinates are compared at 0.1 m."""
POINTS_AT_A_TIME = 1_000_000


def rounded(column: LiteralString) -> LiteralString:
    """SQL: a coordinate as it is compared."""
    return f"round({column}, {literal(COORDINATE_DIGITS)})"


TRACT_DIGITS = 6
"""Digits of a tract within its county."""


def area_code(column: LiteralString) -> LiteralString:
    """SQL: an area's code as it is compared: capitals, no zeros in front."""
    return f"ltrim(upper({column}), '0')"


def name_areas(connection: Connection) -> None:
    """Table area_tracts: code -> tract, from tract_ids: whole codes, and tracts within a county.

    A code without its county counts where no two tracts share it.
    """
    short = area_code(f"right(geoid, {literal(TRACT_DIGITS)})")
    connection.execute(f"""
CREATE OR REPLACE TABLE area_tracts AS
WITH whole AS (SELECT {area_code("geoid")} AS code, geoid AS tract FROM tract_ids)
SELECT code, min(tract) AS tract FROM whole GROUP BY code HAVING count(*) = 1
UNION ALL
SELECT {short}, min(geoid) FROM tract_ids
WHERE regexp_full_match(geoid, '[0-9]{{11}}') AND {short} NOT IN (SELECT code FROM whole)
GROUP BY 1 HAVING count(*) = 1""")


def place_points(
    connection: Connection, boundaries: Boundaries, points_query: LiteralString
) -> None:
    """Table point_tract: distinct (longitude, latitude) -> tract (null: none), is_nearest.

    ``points_query`` gives columns longitude and latitude. Points come in batches, so that memory
    stays bounded.
    """
    connection.execute(f"""
CREATE OR REPLACE TABLE point_tract
  (longitude DOUBLE, latitude DOUBLE, tract VARCHAR, is_nearest BOOLEAN);
CREATE OR REPLACE TEMP TABLE points AS SELECT DISTINCT longitude, latitude
FROM ({points_query}) WHERE longitude IS NOT NULL AND latitude IS NOT NULL""")
    n = connection.execute("SELECT count(*) FROM points").fetchall()[0][0]
    names = pa.array(boundaries.ids.tolist(), pa.string())
    for start in range(0, n, POINTS_AT_A_TIME):
        batch = connection.sql(
            "SELECT * FROM points LIMIT $n OFFSET $start",
            params={"n": POINTS_AT_A_TIME, "start": start},
        ).to_arrow_table()
        longitude, latitude = (
            batch[name].to_numpy(zero_copy_only=False) for name in ("longitude", "latitude")
        )
        index, is_nearest = boundaries.locate(longitude, latitude)
        found = pa.table(
            {
                "longitude": longitude,
                "latitude": latitude,
                "tract": names.take(pa.array(index, mask=index < 0)),
                "is_nearest": is_nearest,
            }
        )
        connection.register("_found", found)
        connection.execute("INSERT INTO point_tract SELECT * FROM _found")
        connection.unregister("_found")
    connection.execute("DROP TABLE points")


def find_places(connection: Connection) -> None:
    """Tables lot_places, building_places, address_places, block_places: id -> tract.

    Only for the ids that rows without a usable point carry. The view ``known_places`` gives what
    is known besides the rows.
    """
    joined = f"""
FROM staged s LEFT JOIN enrichment e ON e.source = s.source AND e.key = s.key
LEFT JOIN point_tract t
  ON t.longitude = {rounded("coalesce(s.longitude, e.longitude)")}
  AND t.latitude = {rounded("coalesce(s.latitude, e.latitude)")}
WHERE s.type_key IS NOT NULL"""
    connection.execute(f"""
CREATE OR REPLACE TEMP VIEW located_ids AS
SELECT s.bbl, s.bin, s.address, t.tract {joined} AND t.tract IS NOT NULL
UNION ALL SELECT bbl, bin, address, tract FROM known_places;
CREATE OR REPLACE TEMP TABLE wanting AS
SELECT DISTINCT coalesce(s.bbl, e.bbl, l.bbl) AS bbl, s.bin, s.address
{joined.replace("WHERE", "LEFT JOIN building_lots l ON l.bin = s.bin WHERE")} AND t.tract IS NULL
""")
    chosen: tuple[tuple[LiteralString, LiteralString], ...] = (
        ("lot_places", "bbl"),
        ("building_places", "bin"),
        ("address_places", "address"),
    )
    for table, column in chosen:
        connection.execute(f"""
CREATE OR REPLACE TABLE {table} AS
SELECT DISTINCT ON (id) id, tract FROM (
  SELECT {column} AS id, tract, count(*) AS n FROM located_ids
  WHERE {column} IN (SELECT {column} FROM wanting WHERE {column} IS NOT NULL) GROUP BY ALL
) ORDER BY id, n DESC, tract""")
    connection.execute("""
CREATE OR REPLACE TABLE block_places AS
SELECT bbl // 10000 AS id, min(tract) AS tract FROM located_ids
WHERE bbl // 10000 IN (SELECT bbl // 10000 FROM wanting WHERE bbl IS NOT NULL)
GROUP BY id HAVING count(DISTINCT tract) = 1;
DROP TABLE wanting""")


def lot_tract(column: LiteralString) -> LiteralString:
    """SQL: the GEOID of PLUTO's borough digit and six-digit tract (``bct2020``)."""
    digits = f"CAST(CAST(TRY_CAST({column} AS DOUBLE) AS BIGINT) AS VARCHAR)"
    counties = " ".join(
        f"WHEN {literal(str(digit))} THEN {literal(code)}" for digit, code in COUNTIES.items()
    )
    return (
        f"CASE WHEN regexp_full_match({digits}, '[1-5][0-9]{{6}}') "
        f"THEN '36' || (CASE {digits}[1] {counties} END) || substr({digits}, 2) END"
    )
