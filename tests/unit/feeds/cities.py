"""A made-up corner of the city: four square tracts, and rows in the shape of each source."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

GEOIDS = ("36005000100", "36005000200", "36061000300", "36061000400")
WEST, SOUTH, SIDE = -73.95, 40.80, 0.01
CENTRES = {
    geoid: (WEST + SIDE * (i % 2 + 0.5), SOUTH + SIDE * (i // 2 + 0.5))
    for i, geoid in enumerate(GEOIDS)
}
"""Longitude and latitude of each tract's centre; the Bronx below, Manhattan above."""


def square(i: int, side: float = SIDE) -> list[list[float]]:
    x, y = WEST + side * (i % 2), SOUTH + side * (i // 2)
    return [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]


def shapes(name: str = "GEOID", ids: tuple[str, ...] = GEOIDS) -> dict[str, Any]:
    """GeoJSON of the four squares."""
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {name: id_},
                "geometry": {"type": "Polygon", "coordinates": [square(i)]},
            }
            for i, id_ in enumerate(ids)
        ],
    }


def write_tracts(folder: Path) -> list[Path]:
    """Figures (one income not published) and boundaries."""
    figures = folder / "acs.csv"
    lines = ["GEOID,TOTAL_POP,MEDIAN_INCOME,HH_TOTAL,PCT_RENTERS"]
    for i, geoid in enumerate(GEOIDS):
        income = -666666666 if i == 3 else 40_000 * (i + 1)
        lines.append(f"{geoid},3000,{income},1000,0.5")
    figures.write_text("\n".join(lines) + "\n")
    outline = folder / "tracts.geojson"
    outline.write_text(json.dumps(shapes()))
    return [figures, outline]


def sr311_row(key: int, **changes: Any) -> dict[str, Any]:
    """One heat complaint in the first tract, closed two days later without a violation."""
    x, y = CENTRES[GEOIDS[0]]
    row = {
        "unique_key": str(50_000_000 + key),
        "created_date": "2024-01-10T09:30:00.000",
        "closed_date": "2024-01-12T10:00:00.000",
        "agency": "HPD",
        "complaint_type": "HEAT/HOT WATER",
        "descriptor": "ENTIRE BUILDING",
        "incident_zip": "10451",
        "incident_address": f"{key} GRAND CONCOURSE",
        "status": "Closed",
        "resolution_description": (
            "The Department of Housing Preservation and Development inspected the following "
            "conditions. No violations were issued. The complaint has been closed."
        ),
        "community_board": "04 BRONX",
        "bbl": f"20245{key:05d}"[:10],
        "borough": "BRONX",
        "latitude": str(y),
        "longitude": str(x),
        "open_data_channel_type": "PHONE",
    }
    return row | changes


def dob_row(number: int, **changes: Any) -> dict[str, Any]:
    """One elevator complaint in the Bronx with a summons."""
    row = {
        "complaint_number": str(number),
        "status": "CLOSED",
        "date_entered": "01/10/2024",
        "house_number": "12          ",
        "house_street": "GRAND   CONCOURSE        ",
        "zip_code": "10451",
        "bin": "2000012",
        "community_board": "204",
        "complaint_category": "6S",
        "unit": "ELEVR",
        "disposition_date": "01/20/2024",
        "disposition_code": "A8",
        "inspection_date": "01/18/2024",
        "dobrundate": "20240201000000",
    }
    return row | changes


def hpd_row(number: int, **changes: Any) -> dict[str, Any]:
    """One building-wide heat problem."""
    x, y = CENTRES[GEOIDS[0]]
    row = {
        "received_date": "01/10/2024",
        "problem_id": str(number),
        "complaint_id": "900",
        "building_id": "77",
        "borough": "BRONX",
        "house_number": "12",
        "street_name": "GRAND CONCOURSE",
        "post_code": "10451",
        "community_board": "4",
        "unit_type": "BUILDING-WIDE",
        "type": "EMERGENCY",
        "major_category": "HEAT/HOT WATER",
        "minor_category": "ENTIRE BUILDING",
        "problem_code": "NO HEAT",
        "problem_status": "CLOSE",
        "problem_status_date": "01/12/2024",
        "status_description": "The conditions were inspected. Violations were issued.",
        "problem_duplicate_flag": "N",
        "complaint_anonymous_flag": "N",
        "unique_key": "50000001",
        "latitude": str(y),
        "longitude": str(x),
        "bin": "2000012",
        "bbl": "2024500012",
    }
    return row | changes


def boiler_row(number: int, **changes: Any) -> dict[str, Any]:
    """One boiler filing, with the names the dataset publishes."""
    row = {
        "tracking_number": f"2024-{number}Y0001-1",
        "boiler_id": f"{number}Y0001",
        "report_type": "Initial",
        "applicantfirst_name": "APPLICANTNAME",
        "owner_first_name": "OWNERNAME",
        "owner_last_name": "OWNERSURNAME",
        "pressure_type": "High Pressure",
        "inspection_type": "Internal",
        "inspection_date": "03/05/2024 00:00:00",
        "defects_exist": "Yes",
        "lff_45_days": "250",
        "lff_180_days": "0",
        "report_status": "Accepted",
        "bin_number": "2000012",
    }
    return row | changes


OLD_HEADERS = {
    "unique_key": "Unique Key", "created_date": "Created Date", "closed_date": "Closed Date",
    "agency": "Agency", "complaint_type": "Complaint Type", "descriptor": "Descriptor",
    "incident_zip": "Incident Zip", "incident_address": "Incident Address", "status": "Status",
    "resolution_description": "Resolution Description", "community_board": "Community Board",
    "bbl": "BBL", "borough": "Borough", "latitude": "Latitude", "longitude": "Longitude",
    "open_data_channel_type": "Open Data Channel Type",
}  # fmt: skip
"""Headers of the CSV export until 2025."""
DECEMBER_2025_HEADERS = OLD_HEADERS | {
    "complaint_type": "Problem (formerly Complaint Type)",
    "descriptor": "Problem Detail (formerly Descriptor)",
}
EARLY_HEADERS = {
    name: header
    for name, header in OLD_HEADERS.items()
    if name not in ("bbl", "open_data_channel_type")
} | {"school": "School Name"}
"""About 2018: no BBL, no channel, school columns."""


def write_csv(
    path: Path,
    rows: list[dict[str, Any]],
    headers: dict[str, str] | None = None,
    delimiter: str = ",",
) -> Path:
    """Write rows as CSV under API names, or under other headers."""
    names = list(headers) if headers else list(dict.fromkeys(n for row in rows for n in row))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow([headers[name] if headers else name for name in names])
        for row in rows:
            writer.writerow([row.get(name, "") for name in names])
    return path
