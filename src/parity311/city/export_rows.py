"""Rows of a synthetic city as each portal would publish them, and with nothing it would not.

New York's 311 says in words what became of a request; DOB publishes the latest disposition alone;
HPD a flag for duplicates and a status text; other cities that a request was closed. Case numbers,
single visits, severity codes and languages are in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from parity311.feeds.citymap import CityMap
from parity311.feeds.codes import read_codes
from parity311.feeds.tracts import BOROUGH_NAMES

Row = Mapping[str, Any]
"""A complaint with its outcome and its place, as `export.py` reads it."""
Published = dict[str, str]
"""What a portal shows of it, by the portal's column."""
CSV_TIME = "%m/%d/%Y %I:%M:%S %p"
CSV_DAY = "%m/%d/%Y"
DAY_ONLY = "%m/%d/%Y 12:00:00 AM"
HEAT = "HEAT/HOT WATER"
UTC_MAPS = ("boston_311",)
"""Maps of portals that publish times in UTC with an offset."""


@dataclass(frozen=True)
class PortalShape:
    """One portal's file of complaints."""

    name: str
    title: str
    publish: Callable[[Row], Published | None]
    """None where the portal has no such complaint."""
    has_lots: bool = False
    """Whether the portal publishes tax lots and footprints that rows are located by."""


def _text(moment: datetime | None, layout: str) -> str:
    return "" if moment is None else moment.strftime(layout)


@cache
def _rows_of(table: str) -> list[dict[str, str]]:
    return read_codes(table).to_pylist()


@cache
def _request_type(domain: str, category: str) -> dict[str, str] | None:
    """Agency, type and descriptor of a 311 request; of heat any, since 311 has one type for it."""
    rows = [row for row in _rows_of("sr311_types") if row["domain"] == domain]
    exact = [row for row in rows if row["category"] == category]
    if not exact and domain != "heat":
        return None
    return (exact or rows)[0]


@cache
def _closing_words(agency: str, disposition: str | None, outcome: str) -> str:
    """What 311 says of a disposition; of one it has no words for, those of its class."""
    rows = [row for row in _rows_of("resolution_texts") if row["agency"] == agency]
    fits = [row for row in rows if row["disposition"] == disposition]
    fits = fits or [row for row in rows if row["disposition_class"] == outcome]
    if not fits:
        return ""
    return f"The Department {fits[0]['phrase'].replace('%', ' ').strip()} .".replace("  ", " ")


def publish_nyc_311(row: Row) -> Published | None:
    """One request of New York's 311, under the headers of December 2025."""
    kind = _request_type(row["domain"], row["category"])
    if kind is None:
        return None
    is_heat, is_dob = row["domain"] == "heat", kind["agency"] == "DOB"
    detail = kind["descriptor"].replace("%", " ").strip() or "Other"
    if is_heat:
        detail = "ENTIRE BUILDING" if row["is_building_wide"] else "APARTMENT ONLY"
    closed = row["closed_at"]
    return {
        "Unique Key": str(row["number"] + 60_000_000),
        "Created Date": _text(row["received_at"], CSV_TIME),
        "Closed Date": _text(closed, DAY_ONLY if is_dob else CSV_TIME),
        "Agency": kind["agency"],
        "Problem (formerly Complaint Type)": kind["complaint_type"],
        "Problem Detail (formerly Descriptor)": detail,
        "Incident Zip": row["zip"] or "",
        "Incident Address": row["address"],
        "Status": "Open" if closed is None else "Closed",
        "Resolution Description": _closing_words(
            kind["agency"], row["disposition"], row["disposition_class"]
        ),
        "Community Board": f"{row['community_board'] % 100:02d} {row['borough'].upper()}",
        "BBL": row["building_id"] or "",
        "Borough": row["borough"].upper(),
        "Latitude": str(row["latitude"]),
        "Longitude": str(row["longitude"]),
        "Open Data Channel Type": row["channel"],
    }


@cache
def _dob_codes() -> dict[str, str]:
    return {row["code"]: row["domain"] for row in _rows_of("dob_categories")}


def publish_nyc_dob(row: Row) -> Published | None:
    """One complaint as DOB publishes it: days without hours, the latest disposition, no point."""
    if row["category"] not in _dob_codes():
        return None
    is_closed = row["closed_at"] is not None
    house, _, street = row["address"].partition(" ")
    return {
        "Complaint Number": f"{_digit(row['borough'])}{row['number'] % 1_000_000:06d}",
        "Status": "CLOSED" if is_closed else "ACTIVE",
        "Date Entered": _text(row["received_at"], CSV_DAY),
        "House Number": f"{house:<12}",
        "ZIP Code": row["zip"] or "",
        "House Street": f"{street:<32}",
        "BIN": row["bin"],
        "Community Board": str(row["community_board"]),
        "Special District": "",
        "Complaint Category": row["category"],
        "Unit": "",
        "Disposition Date": _text(row["closed_at"], CSV_DAY),
        "Disposition Code": (row["disposition"] or "") if is_closed else "",
        "Inspection Date": _text(row["last_visit_at"], CSV_DAY),
        "DOBRunDate": "",
    }


@cache
def _problem_type(severity: str) -> str:
    rows = _rows_of("hpd_problem_types")
    return next(row["type"] for row in rows if row["severity"] == severity)


def publish_nyc_hpd(row: Row) -> Published | None:
    """One problem as HPD publishes it: a day, a flag for duplicates, a status text."""
    if row["domain"] not in ("heat", "housing"):
        return None
    is_heat, is_closed = row["domain"] == "heat", row["closed_at"] is not None
    house, _, street = row["address"].partition(" ")
    return {
        "Received Date": _text(row["received_at"], CSV_DAY),
        "Problem ID": str(row["number"] + 20_000_000),
        "Complaint ID": str(row["number"] + 10_000_000),
        "Borough": row["borough"].upper(),
        "House Number": house,
        "Street Name": street,
        "Post Code": row["zip"] or "",
        "Community Board": str(row["community_board"] % 100),
        "Unit Type": "BUILDING-WIDE" if row["is_building_wide"] else "APARTMENT",
        "Type": _problem_type(row["severity"]),
        "Major Category": HEAT if is_heat else row["category"],
        "Minor Category": "",
        "Problem Code": row["category"] if is_heat else "",
        "Problem Status": "CLOSE" if is_closed else "OPEN",
        "Problem Status Date": _text(row["closed_at"] or row["received_at"], CSV_DAY),
        "Status Description": _closing_words("HPD", row["disposition"], row["disposition_class"]),
        "Problem Duplicate Flag": "Y" if row["disposition_class"] == "duplicate" else "N",
        "Complaint Anonymous Flag": "N",
        "Unique Key": "",
        "Latitude": str(row["latitude"]),
        "Longitude": str(row["longitude"]),
        "BIN": row["bin"],
        "BBL": row["building_id"] or "",
    }


def _digit(borough: str) -> int:
    return next(digit for digit, name in BOROUGH_NAMES.items() if name == borough)


def publish_mapped(own: CityMap, name: str) -> Callable[[Row], Published | None]:
    """How a portal with a map publishes a complaint: the map's columns, the newest of each."""
    kinds: dict[str, list[str]] = {}
    for category, entry in own.categories.items():
        kinds.setdefault(entry["domain"], []).append(category)
    statuses = {entry["class"]: status for status, entry in reversed(list(own.outcomes.items()))}
    channels = {channel: word for word, channel in reversed(list(own.channels.items()))}

    def time(moment: datetime | None) -> str:
        if moment is None:
            return ""
        if name not in UTC_MAPS:
            return moment.strftime(CSV_TIME)
        local = moment.replace(tzinfo=ZoneInfo(own.time_zone or "UTC"))
        return local.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S+00")

    def publish(row: Row) -> Published | None:
        if row["domain"] not in kinds:
            return None
        names = kinds[row["domain"]]
        is_closed = row["closed_at"] is not None
        is_duplicate = row["disposition_class"] == "duplicate"
        wanted = row["disposition_class"] if is_closed else "pending"
        values = {
            "key": f"SR{row['number']:08d}",
            "received_at": time(row["received_at"]),
            "category": names[row["category_place"] % len(names)],
            "closed_at": time(row["closed_at"]),
            "status": statuses.get(wanted, statuses.get("other", "")),
            "longitude": str(row["longitude"]),
            "latitude": str(row["latitude"]),
            "zip": row["zip"] or "",
            "building": row["address"],
            "channel": channels.get(row["channel"], ""),
            "duplicate": own.duplicate_values[0] if is_duplicate else "false",
            "parent": f"SR{row['parent_number']:08d}" if is_duplicate else "",
        }
        return {columns[0]: values[field] for field, columns in own.complaints.items()}

    return publish


NEW_YORK = (
    PortalShape("nyc_311", "New York's 311 requests", publish_nyc_311, has_lots=True),
    PortalShape("nyc_dob", "DOB complaints received", publish_nyc_dob, has_lots=True),
    PortalShape("nyc_hpd", "HPD complaints and problems", publish_nyc_hpd, has_lots=True),
)
