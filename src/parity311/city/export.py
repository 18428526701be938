"""A synthetic city as a portal would publish it: what an agency's analyst would have to start from.

Complaints in the portal's columns, a table and outlines of tracts, and in New York tax lots and
footprints. Whoever imports them again sees what a portal's shape alone loses.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from parity311.city.export_places import building_points, outlines_as_geojson
from parity311.city.export_rows import NEW_YORK, PortalShape, publish_mapped
from parity311.errors import InputError, unknown_name
from parity311.feeds.citymap import CityMap, packaged_maps, read_city_map
from parity311.feeds.tracts import BOROUGH_NAMES, DISTRICT_LETTERS
from parity311.records.store import Records, open_records
from parity311.storage.aside import write_text_aside, writing_aside

COMPLAINTS, TRACTS, OUTLINES = "complaints.csv", "tracts.csv", "tracts.geojson"
LOTS, FOOTPRINTS = "lots.csv", "footprints.csv"
FILES = (COMPLAINTS, TRACTS, OUTLINES, LOTS, FOOTPRINTS)
FREE_FIELDS = ("is_building_wide",)

_ROWS = """
SELECT c.complaint_id, c.domain, c.category, c.severity, c.received_at, c.tract, c.building_id,
  c.channel, t.borough, t.community_board, t.zip, o.closed_at, o.disposition, o.disposition_class,
  v.last_visit_at, c.incident_id
FROM complaints c JOIN tracts t ON t.geoid = c.tract LEFT JOIN outcomes o USING (complaint_id)
LEFT JOIN (SELECT complaint_id, max(visited_at) AS last_visit_at FROM visits GROUP BY 1) v
  USING (complaint_id)
WHERE c.domain = $domain ORDER BY c.received_at, c.complaint_id"""


def portal_shapes() -> tuple[str, ...]:
    """Names of the shapes a city can be exported in."""
    return (*(shape.name for shape in NEW_YORK), *packaged_maps())


def export_city(
    city: str | Path | Records, shape: str, out: Path, domains: Sequence[str] | None = None
) -> dict[str, Any]:
    """Write a synthetic city's files in a portal's shape; how many rows of each domain.

    Nothing that is there already is replaced.
    """
    if shape not in portal_shapes():
        raise unknown_name("shape", shape, portal_shapes())
    records = open_records(city)
    if records.is_real:
        raise InputError(
            f"{records.folder} holds imported records; only a synthetic city is exported."
        )
    for domain in domains or ():
        if domain not in records.domains:
            raise unknown_name("domain of this city", domain, records.domains)
    there = [name for name in FILES if (out / name).exists()]
    if there:
        raise InputError(f"{out / there[0]} is there already; name another folder with --out.")
    own = read_city_map(Path(shape)) if shape in packaged_maps() else None
    portal = _portal(shape, own)
    tracts, buildings = records.table("tracts"), records.table("buildings")
    bins = _building_numbers(buildings)
    points = building_points(tracts, buildings)
    counts: dict[str, int] = {}
    left_out: dict[str, int] = {}
    with writing_aside(out / COMPLAINTS) as path, path.open("w", newline="") as file:
        writer = None
        number = 0
        for domain in domains or records.domains:
            for row in _rows(records, domain, number, bins, points):
                number = row["number"]
                published = portal.publish(row) if row["channel"] != "FILING" else None
                if published is None:
                    left_out[domain] = left_out.get(domain, 0) + 1
                    continue
                if writer is None:
                    writer = csv.DictWriter(file, list(published))
                    writer.writeheader()
                writer.writerow(published)
                counts[domain] = counts.get(domain, 0) + 1
        if writer is None:
            raise InputError(
                f"{portal.title} have no complaint of {', '.join(domains or records.domains)}; "
                "choose other domains or another shape."
            )
    _write_tracts(out, tracts, own)
    if portal.has_lots:
        _write_lots(out, buildings, bins, points)
    return {
        "folder": str(out),
        "shape": shape,
        "rows": counts,
        "left_out": left_out,
        "files": [name for name in FILES if (out / name).is_file()],
    }


def _portal(shape: str, own: CityMap | None) -> PortalShape:
    if own is not None:
        return PortalShape(shape, f"complaints of {own.name}", publish_mapped(own, shape))
    return next(portal for portal in NEW_YORK if portal.name == shape)


def _building_numbers(buildings: pa.Table) -> dict[str, str]:
    """A BIN for every building: borough and a running number."""
    return {
        name: f"{name[0]}{place + 1:06d}"
        for place, name in enumerate(buildings["building_id"].to_pylist())
    }


def _rows(
    records: Records,
    domain: str,
    numbered: int,
    bins: dict[str, str],
    points: dict[str, tuple[float, float]],
) -> Iterator[dict[str, Any]]:
    """Complaints of a domain with what a portal may draw from; numbers go on from ``numbered``."""
    free = _free_fields(records, domain)
    rows = records.sql(_ROWS, domain=domain).to_pylist()
    numbers = {row["complaint_id"]: numbered + place + 1 for place, row in enumerate(rows)}
    kinds = {name: place for place, name in enumerate(sorted({row["category"] for row in rows}))}
    for row in rows:
        building = row["building_id"]
        x, y = points[building or row["tract"]]
        yield {
            **row,
            **{name: free[name].get(row["complaint_id"]) for name in FREE_FIELDS},
            "number": numbers[row["complaint_id"]],
            "parent_number": numbers.get(row["incident_id"], 0),
            "category_place": kinds[row["category"]],
            "bin": bins.get(building, "") if building else "",
            "address": _address(building, row["tract"]),
            "longitude": x,
            "latitude": y,
        }


def _free_fields(records: Records, domain: str) -> dict[str, dict[str, Any]]:
    """Fields that only some domains have, by complaint."""
    table = records.table("complaints", domain)
    ids = table["complaint_id"].to_pylist()
    there = set(table.column_names)
    return {
        name: dict(zip(ids, table[name].to_pylist(), strict=True)) if name in there else {}
        for name in FREE_FIELDS
    }


def _address(building: str | None, tract: str) -> str:
    """House and street of a building: its lot and its block; of none, a corner of the tract."""
    if building is None:
        return f"0 TRACT {tract} CORNER"
    return f"{int(building[6:])} BLOCK {int(building[1:6])} STREET"


def _write_tracts(out: Path, tracts: pa.Table, own: CityMap | None) -> None:
    """The table of tracts, as New York's merged one or under a map's names, and the outlines."""
    rows = tracts.to_pylist()
    if own is None:
        written = [_new_york_tract(row) for row in rows]
    else:
        known = {"district": "borough", "board": "community_board"}
        written = [
            {columns[0]: row[known.get(field, field)] for field, columns in own.tracts.items()}
            for row in rows
        ]
    _write_csv(out / TRACTS, written)
    name = (own.boundary_id if own is not None else None) or "GEOID"
    write_text_aside(out / OUTLINES, json.dumps(outlines_as_geojson(tracts, name)) + "\n")


def _new_york_tract(row: dict[str, Any]) -> dict[str, Any]:
    letters = {digit: letters for letters, digit in DISTRICT_LETTERS.items()}
    digits = {name: digit for digit, name in BOROUGH_NAMES.items()}
    return {
        "GEOID": row["geoid"],
        "BoroName": row["borough"],
        "CDTA2020": f"{letters[digits[row['borough']]]}{row['community_board'] % 100:02d}",
        "pop": row["population"],
        "med_income": row["median_income"],
        "households_2022": row["households"],
        "tract_renter_share": row["share_renter"],
        "tract_pct_black": row["share_black"],
        "tract_pct_hispanic": row["share_hispanic"],
        "tract_pct_asian": row["share_asian"],
        "pct_bachelors_plus_2022": row["share_bachelors"],
        "pct_limited_english_2022": row["share_limited_english"],
        "ag_race_white_nh_pct": row["share_white"],
    }


def _write_lots(
    out: Path, buildings: pa.Table, bins: dict[str, str], points: dict[str, tuple[float, float]]
) -> None:
    """Tax lots with units, year and point, and footprints that tie buildings to them."""
    lots, footprints = [], []
    for row in buildings.to_pylist():
        x, y = points[row["building_id"]]
        lots.append(
            {
                "bbl": row["building_id"],
                "unitsres": row["units"],
                "yearbuilt": row["year_built"],
                "latitude": y,
                "longitude": x,
            }
        )
        footprints.append({"bin": bins[row["building_id"]], "mappluto_bbl": row["building_id"]})
    _write_csv(out / LOTS, lots)
    _write_csv(out / FOOTPRINTS, footprints)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with writing_aside(path) as aside, aside.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
