"""Maps of the package on rows in the shape that each city's portal exports today."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from tests.unit.feeds.cities import CENTRES, GEOIDS, shapes, write_csv

from parity311.errors import InputError
from parity311.feeds.citymap import packaged_maps, read_city_map
from parity311.feeds.importing import import_records
from parity311.records.store import open_records

pytestmark = pytest.mark.slow

TRACTS = tuple(geoid.replace("36", "17", 1) for geoid in GEOIDS)
"""The corner's tracts, in another state."""
X, Y = (str(part) for part in CENTRES[GEOIDS[0]])

BOSTON_NEW = {
    "case_id": "BCS-00000001", "open_date": "2026-03-20 13:00:00+00", "case_topic": "Housing",
    "service_name": "Unsatisfactory Living Conditions", "assigned_department": "ISD",
    "assigned_team": "", "case_status": "Closed", "closure_reason": "Case Closed",
    "closure_comments": "", "close_date": "2026-03-23 09:00:00+00", "target_close_date": "",
    "on_time": "ONTIME", "report_source": "Call", "full_address": "1 A St, Boston, MA 02127",
    "street_number": "1", "street_name": "A St", "zip_code": "02127",
    "neighborhood": "South Boston", "longitude": X, "latitude": Y,
}  # fmt: skip
BOSTON_YEARLY = {
    "case_enquiry_id": "101006000001", "open_dt": "2025-03-20 09:00:00", "sla_target_dt": "",
    "closed_dt": "2025-03-23 05:00:00", "on_time": "ONTIME", "case_status": "Closed",
    "closure_reason": "Case Closed", "case_title": "Living", "subject": "Inspectional Services",
    "reason": "Housing", "type": "Unsatisfactory Living Conditions", "queue": "ISD",
    "department": "ISD", "location": "1 A St  South Boston  MA  02127",
    "neighborhood": "South Boston", "location_street_name": "1 A St",
    "location_zipcode": "02127", "latitude": Y, "longitude": X, "source": "Constituent Call",
}  # fmt: skip
SAN_FRANCISCO = {
    "CaseID": "18000001", "Opened": "03/02/2026 09:00:00 AM", "Closed": "03/05/2026 05:00:00 AM",
    "Updated": "03/05/2026 05:00:00 AM", "Status": "Closed", "Status Notes": "Case Resolved",
    "Responsible Agency": "DBI", "Category": "Residential Building Request",
    "Request Type": "mold", "Request Details": "", "Address": "1 A ST, SAN FRANCISCO, CA 94103",
    "Street": "A ST", "Supervisor District": "6", "Neighborhood": "South of Market",
    "Police District": "SOUTHERN", "Latitude": Y, "Longitude": X, "Point": f"({Y}, {X})",
    "Source": "Phone", "Media URL": "",
}  # fmt: skip
SAN_FRANCISCO_API = {
    "service_request_id": "18000001", "requested_datetime": "2026-03-02T09:00:00.000",
    "closed_date": "2026-03-05T05:00:00.000", "status_description": "Closed",
    "status_notes": "Case Resolved", "agency_responsible": "DBI",
    "service_name": "Residential Building Request", "service_subtype": "mold",
    "service_details": "", "address": "1 A ST, SAN FRANCISCO, CA 94103",
    "supervisor_district": "6", "lat": Y, "long": X, "source": "Phone",
}  # fmt: skip
LOS_ANGELES = {
    "CaseNumber": "04342632", "CreatedDate": "03/02/2026 09:00:00 AM", "UpdatedDate": "",
    "ActionTaken": "", "Owner": "LASAN", "RequestType": "Flooding", "Status": "Closed",
    "RequestSource": "Call", "CreatedByUserOrganization": "", "Anonymous": "N", "AssignTo": "",
    "ServiceDate": "", "ClosedDate": "03/05/2026 05:00:00 AM", "ReasonCode": "",
    "ResolutionCode": "", "Address": "1 A ST, 90012", "ZipCode": "90012", "Latitude": Y,
    "Longitude": X, "Location": "", "CD": "1", "NCName": "DOWNTOWN",
}  # fmt: skip
LOS_ANGELES_API = {
    "casenumber": "04342632", "createddate": "2026-03-02T09:00:00.000",
    "closeddate": "2026-03-05T05:00:00.000", "type": "Flooding", "status": "Closed",
    "origin": "Call", "zipcode__c": "90012", "geolocation__latitude__s": Y,
    "geolocation__longitude__s": X, "locator_gis_returned_address": "1 A ST, 90012",
}  # fmt: skip
CHICAGO = {
    "SR_NUMBER": "SR26-00000001", "SR_TYPE": "Building Violation", "SR_SHORT_CODE": "BBA",
    "OWNER_DEPARTMENT": "DOB - Buildings", "STATUS": "Completed", "ORIGIN": "Phone Call",
    "CREATED_DATE": "03/02/2026 09:00:00 AM", "LAST_MODIFIED_DATE": "",
    "CLOSED_DATE": "03/05/2026 05:00:00 AM", "STREET_ADDRESS": "1 W A ST", "ZIP_CODE": "60602",
    "DUPLICATE": "false", "LEGACY_RECORD": "false", "PARENT_SR_NUMBER": "",
    "COMMUNITY_AREA": "32", "WARD": "42", "LATITUDE": Y, "LONGITUDE": X, "LOCATION": "",
}  # fmt: skip

SHAPES = {
    "boston_311, new system": ("boston_311", BOSTON_NEW, "housing"),
    "boston_311, yearly": ("boston_311", BOSTON_YEARLY, "housing"),
    "san_francisco_311, CSV": ("san_francisco_311", SAN_FRANCISCO, "housing"),
    "san_francisco_311, API": ("san_francisco_311", SAN_FRANCISCO_API, "housing"),
    "los_angeles_311, CSV": ("los_angeles_311", LOS_ANGELES, "drainage"),
    "los_angeles_311, API": ("los_angeles_311", LOS_ANGELES_API, "drainage"),
    "chicago_311, CSV": ("chicago_311", CHICAGO, "housing"),
    "chicago_311, API": (
        "chicago_311",
        {name.lower(): value for name, value in CHICAGO.items()},
        "housing",
    ),
}


def write_city(folder: Path, map_name: str) -> list[Path]:
    """The corner's tracts under the names that a map gives."""
    own = read_city_map(Path(map_name))
    outline = folder / "tracts.geojson"
    outline.write_text(json.dumps(shapes(own.boundary_id or "GEOID", TRACTS)))
    values = {"geoid": TRACTS, "population": (3000,) * 4, "households": (1000,) * 4}
    values |= {"median_income": (30_000, 60_000, 90_000, 120_000), "board": (1, 2, 3, 4)}
    values |= {"district": ("North", "North", "South", "South")}
    rows = [
        {columns[0]: values[field][i] for field, columns in own.tracts.items()} for i in range(4)
    ]
    return [write_csv(folder / "tracts.csv", rows), outline]


def test_every_map_of_the_package_is_tried() -> None:
    assert {name for name, _, _ in SHAPES.values()} == set(packaged_maps())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_portals_rows_are_imported(tmp_path: Path, shape: str) -> None:
    map_name, row, domain = SHAPES[shape]
    files = [*write_city(tmp_path, map_name), write_csv(tmp_path / "rows.csv", [row])]
    manifest = import_records(files, tmp_path / "out", city_map=read_city_map(Path(map_name)))
    assert manifest["sources"][-1]["kept"] == 1
    records = open_records(tmp_path / "out")
    (complaint,) = records.table("complaints", domain).to_pylist()
    assert complaint["channel"] == "PHONE"
    assert complaint["received_at"].time().hour == 9
    (outcome,) = records.table("outcomes", domain).to_pylist()
    assert outcome["closed_at"] - complaint["received_at"] == datetime(2026, 3, 5, 5) - datetime(
        2026, 3, 2, 9
    )
    absent = {
        entry["note"].split("gives as ")[1].split(";")[0]
        for entry in manifest["notes"].get("columns", [])
    }
    assert absent <= {"zip", "parent", "building", "channel"}


def test_a_map_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(InputError, match="records map FILE.*boston_311"):
        read_city_map(Path("bostn"))


def test_what_a_map_calls_out_of_scope_is_counted_as_such(tmp_path: Path) -> None:
    rows = [LOS_ANGELES, LOS_ANGELES | {"CaseNumber": "2", "RequestType": "Graffiti Removal"}]
    rows.append(LOS_ANGELES | {"CaseNumber": "3", "RequestType": "Something new"})
    files = [*write_city(tmp_path, "los_angeles_311"), write_csv(tmp_path / "rows.csv", rows)]
    own = read_city_map(Path("los_angeles_311"))
    source = import_records(files, tmp_path / "out", city_map=own)["sources"][-1]
    assert (source["kept"], source["out_of_scope"]) == (1, 1)
    assert source["quarantined"] == {"unknown code": 1}
