"""What is known about lots, buildings and addresses besides the complaints, and the tracts."""

from __future__ import annotations

from typing import LiteralString

import pyarrow as pa
import pyarrow.compute as pc

from parity311.feeds import parsing as p
from parity311.feeds.boundaries import Boundaries, read_boundaries
from parity311.feeds.locate import find_places, lot_tract, place_points, rounded
from parity311.feeds.staging import rows_of, take_unreadable
from parity311.feeds.tracts import BOROUGH_NAMES, build_tracts, read_tract_figures
from parity311.feeds.work import FIGURE_KINDS, PLACE_KINDS, ImportWork
from parity311.records.schema import TABLES
from parity311.records.sql import parquet


def read_tracts(work: ImportWork) -> tuple[Boundaries, pa.Table]:
    """Boundaries of the tracts that have figures, and the tracts table, still without ZIP codes."""
    kind = next(kind for kind in FIGURE_KINDS if work.of_kind(kind))
    layouts = [layout for group in work.of_kind(kind) for layout in group.layouts]
    boundaries = read_boundaries(
        work.of_kind("boundaries")[0].layouts[0].text_path,
        work.city_map.boundary_id if work.city_map else None,
    )
    districts = work.of_kind("districts")
    if work.city_map is not None and kind == "mapped_tracts":
        figures = work.city_map.read_figures(layouts[0])
    else:
        figures = read_tract_figures(layouts)
    tracts = build_tracts(
        figures,
        boundaries,
        read_boundaries(districts[0].layouts[0].text_path) if districts else None,
    )
    work.notes["tracts"] = dict(figures.notes)
    return boundaries.only(set(figures.geoid)), tracts


def read_places(work: ImportWork, boundaries: Boundaries) -> None:
    """Tables known_rows, lot_details, building_lots and tract_ids from the files that have them."""
    connection = work.connection
    connection.execute("""
CREATE TABLE known_rows (bbl BIGINT, bin BIGINT, address VARCHAR, tract VARCHAR,
  longitude DOUBLE, latitude DOUBLE);
CREATE TABLE lot_details (bbl BIGINT, units INTEGER, year_built INTEGER);
CREATE TABLE building_lots (bin BIGINT, bbl BIGINT)""")
    connection.register("_ids", pa.table({"geoid": pa.array(boundaries.ids.tolist())}))
    connection.execute("CREATE TABLE tract_ids AS SELECT geoid FROM _ids")
    connection.unregister("_ids")
    for group in work.of_kind(*PLACE_KINDS):
        query = known_places_query(group.kind, rows_of(group.layouts))
        connection.execute(f"INSERT INTO known_rows {query}")
        work.unreadable[group.name] = take_unreadable(connection)
    for group in work.of_kind("lots"):
        connection.execute(f"""
INSERT INTO lot_details SELECT DISTINCT ON (1) {p.bbl("bbl")} AS lot,
  TRY_CAST(unitsres AS DOUBLE)::INTEGER, nullif(TRY_CAST(yearbuilt AS DOUBLE)::INTEGER, 0)
FROM ({rows_of(group.layouts)}) WHERE lot IS NOT NULL ORDER BY 1""")
        take_unreadable(connection)
    for group in work.of_kind("footprints"):
        lot = f"coalesce({p.bbl('mappluto_bbl')}, {p.bbl('base_bbl')})"
        connection.execute(f"""
INSERT INTO building_lots SELECT {p.bin_number("bin")}, {lot} FROM ({rows_of(group.layouts)})""")
        work.unreadable[group.name] = take_unreadable(connection)
    # Rows of HPD carry both numbers of a building.
    connection.execute("""
INSERT INTO building_lots SELECT bin, bbl FROM staged WHERE source = 'hpd_problems'
UNION ALL SELECT bin, bbl FROM known_rows;
CREATE OR REPLACE TABLE building_lots AS
SELECT bin, mode(bbl ORDER BY bbl) AS bbl FROM building_lots
WHERE bin IS NOT NULL AND bbl IS NOT NULL GROUP BY bin""")


def known_places_query(kind: str, rows: LiteralString) -> LiteralString:
    """SQL: bbl, bin, address, tract, longitude, latitude of a file that is no complaint."""
    point = "TRY_CAST(longitude AS DOUBLE), TRY_CAST(latitude AS DOUBLE)"
    if kind == "lots":
        return f"SELECT {p.bbl('bbl')}, NULL, NULL, {lot_tract('bct2020')}, {point} FROM ({rows})"
    if kind == "address_years":
        address = p.address(f"({p.borough_digit('borough')})", p.spelled("incident_address"))
        return f"SELECT NULL, NULL, {address}, trim(GEOID), NULL, NULL FROM ({rows})"
    return f"SELECT {p.bbl('bbl')}, {p.bin_number('bin')}, NULL, NULL, {point} FROM ({rows})"


def locate_rows(work: ImportWork, boundaries: Boundaries) -> None:
    """Tables point_tract and places: everything by which a row can be located."""
    point = f"SELECT {rounded('longitude')} AS longitude, {rounded('latitude')} AS latitude FROM"
    place_points(
        work.connection,
        boundaries,
        f"{point} staged WHERE type_key IS NOT NULL "
        f"UNION ALL {point} known_rows WHERE tract IS NULL",
    )
    work.connection.execute(f"""
CREATE OR REPLACE TEMP VIEW known_places AS
SELECT k.bbl, k.bin, k.address, coalesce(k.tract, t.tract) AS tract FROM known_rows k
LEFT JOIN point_tract t ON t.longitude = {rounded("k.longitude")}
  AND t.latitude = {rounded("k.latitude")}
WHERE coalesce(k.tract, t.tract) IN (SELECT geoid FROM tract_ids)""")
    find_places(work.connection)


def fill_tracts(work: ImportWork, tracts: pa.Table) -> pa.Table:
    """Give each tract the ZIP code most of its complaints have.

    Where rows without a tract are kept, a place for those of each borough is added.
    """
    placed = parquet(work.placed.glob("*/*.parquet"))
    common = work.connection.sql(f"""
SELECT tract, printf('%05d', mode(zip ORDER BY zip)) AS zip
FROM {placed}
WHERE tract IS NOT NULL AND zip IS NOT NULL AND reason IS NULL AND located_by <> 'borough'
GROUP BY tract
""").to_arrow_table()
    zips = dict(zip(common["tract"].to_pylist(), common["zip"].to_pylist(), strict=True))
    geoids = tracts["geoid"].to_pylist()
    at = tracts.column_names.index("zip")
    filled = tracts.set_column(at, "zip", pa.array([zips.get(g) for g in geoids], pa.string()))
    if not work.options.keep_unlocated:
        return filled
    used = (
        work.connection.sql(f"""
SELECT DISTINCT tract FROM {placed}
WHERE located_by = 'borough' AND reason IS NULL AND tract IS NOT NULL
  AND domain <> 'out_of_scope' ORDER BY tract
""")
        .to_arrow_table()["tract"]
        .to_pylist()
    )
    return pa.concat_tables([filled, _unlocated_tracts(used, filled)])


def _unlocated_tracts(geoids: list[str], tracts: pa.Table) -> pa.Table:
    """A row for each borough's unlocated complaints: nobody lives there, income unknown."""
    digit = {county: number for number, county in p.COUNTIES.items()}
    rows = []
    for geoid in geoids:
        borough = BOROUGH_NAMES[digit[geoid[2:5]]]
        inside = tracts.filter(pc.equal(tracts["borough"], borough))  # pyright: ignore[reportAttributeAccessIssue]
        centre = {
            name: pc.mean(inside[name]).as_py() if len(inside) else 0.0  # pyright: ignore[reportAttributeAccessIssue]
            for name in ("longitude", "latitude")
        }
        rows.append(
            {
                "geoid": geoid,
                "borough": borough,
                "community_board": digit[geoid[2:5]] * 100,
                "neighbours": [],
                "population": 0,
                "households": 0,
                "income_quintile": 0,
                **centre,
            }
        )
    fields = [pa.field(column.name, column.type) for column in TABLES["tracts"].columns]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))
