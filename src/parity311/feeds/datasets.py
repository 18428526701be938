"""The published datasets: which columns are asked for, by which date, for which domains.

Columns that name a person are not among those asked for, so they are never downloaded; a dataset
that has any is refused for whole-file download.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from parity311.errors import unknown_name
from parity311.feeds import formats as f
from parity311.feeds.codes import known_domains, read_codes
from parity311.records.sql import literal, literals

NYC_PORTAL = "https://data.cityofnewyork.us"
NYC_TERMS = "NYC Open Data, no restriction on use, provided as is (opendata.cityofnewyork.us)"
CENSUS_TERMS = "US Census Bureau, public domain; not endorsed or certified by the Census Bureau"
SPLIT_OF_311 = date(2020, 1, 1)
"""Since December 2025 requests before this day are a dataset of their own."""


@dataclass(frozen=True)
class Dataset:
    """One dataset of a Socrata portal."""

    name: str
    id: str
    title: str
    columns: tuple[str, ...]
    required: tuple[str, ...]
    date_column: str | None = None
    date_is_text: bool = False
    """Whether dates are text (MM/DD/YYYY), on which the server cannot compare ranges."""
    names_people: bool = False
    """Whether it has columns that name a person (never asked for)."""
    is_geographic: bool = False
    """Whether it is fetched as GeoJSON."""

    def where(self, since: date, until: date, filter_sql: str | None = None) -> str | None:
        """SoQL condition: received from ``since`` on; for text dates one pattern a year."""
        parts = []
        if self.date_column and self.date_is_text:
            years = " OR ".join(
                f"{self.date_column} like '%/{year}%'" for year in range(since.year, until.year + 1)
            )
            parts.append(f"({years})")
        elif self.date_column:
            parts.append(f"{self.date_column} >= '{since}T00:00:00'")
        if filter_sql:
            parts.append(f"({filter_sql})")
        return " AND ".join(parts) or None


def _dataset(name: str, id_: str, known: f.Format, **details) -> Dataset:
    return Dataset(name, id_, known.title, known.columns, known.required, **details)


SR311_NEW = _dataset("sr311", "erm2-nwe9", f.SR311, date_column="created_date")
SR311_OLD = _dataset("sr311_2010_2019", "76ig-c548", f.SR311, date_column="created_date")
DOB = _dataset("dob", "eabe-havv", f.DOB, date_column="date_entered", date_is_text=True)
BOILER = _dataset(
    "boiler",
    "52dp-yji6",
    f.BOILER,
    date_column="inspection_date",
    date_is_text=True,
    names_people=True,
)
HPD_PROBLEMS = _dataset("hpd_problems", "ygpa-z7cr", f.HPD_PROBLEMS, date_column="received_date")
HPD_VIOLATIONS = _dataset(
    "hpd_violations", "wvxf-dwi5", f.HPD_VIOLATIONS, date_column="inspectiondate"
)
LOTS = _dataset("lots", "64uk-42ks", f.LOTS, names_people=True)
FOOTPRINTS = _dataset("footprints", "5zhs-2jue", f.FOOTPRINTS)
TRACTS = Dataset(
    "tract_boundaries", "63ge-mke6", "2020 census tracts", ("geoid",), ("geoid",),
    is_geographic=True,
)  # fmt: skip
DISTRICTS = Dataset(
    "districts", "5crt-au7u", "community districts", ("boro_cd",), ("boro_cd",), is_geographic=True
)
ALL = (
    SR311_NEW, SR311_OLD, DOB, BOILER, HPD_PROBLEMS, HPD_VIOLATIONS, LOTS, FOOTPRINTS, TRACTS,
    DISTRICTS,
)  # fmt: skip
"""Every dataset that can be fetched."""


@dataclass(frozen=True)
class Request:
    """One dataset to fetch and the condition on its rows."""

    dataset: Dataset
    where: str | None


def plan_requests(domains: Sequence[str], since: date, until: date) -> list[Request]:
    """Datasets these domains need, each with the condition that leaves out what they do not."""
    for domain in domains:
        if domain not in known_domains():
            raise unknown_name("domain", domain, known_domains())
    asked = set(domains)
    requests: list[Request] = []
    types = _request_types(asked)
    if types:
        requests.append(Request(SR311_NEW, SR311_NEW.where(since, until, types)))
        if since < SPLIT_OF_311:
            requests.append(Request(SR311_OLD, SR311_OLD.where(since, until, types)))
    if asked & {"heat", "housing"}:
        only = "major_category in ('HEAT/HOT WATER', 'HEATING')" if "housing" not in asked else None
        requests.append(Request(HPD_PROBLEMS, HPD_PROBLEMS.where(since, until, only)))
        requests.append(Request(HPD_VIOLATIONS, HPD_VIOLATIONS.where(since, until)))
    codes = _codes("dob_categories", "code", asked)
    if codes:
        only = f"complaint_category in ({literals(codes)})"
        requests.append(Request(DOB, DOB.where(since, until, only)))
    if "boiler" in asked:
        requests.append(Request(BOILER, BOILER.where(since, until)))
    if codes or "boiler" in asked:
        requests.append(Request(FOOTPRINTS, None))
    requests += [Request(LOTS, None), Request(TRACTS, None), Request(DISTRICTS, None)]
    return requests


def _request_types(domains: set[str]) -> str | None:
    """SoQL condition on 311 rows: agency and type together, because types differ by case only."""
    table = read_codes("sr311_types")
    wanted: dict[str, list[str]] = {}
    for row in table.to_pylist():
        if row["domain"] in domains and row["complaint_type"] not in wanted.get(row["agency"], []):
            wanted.setdefault(row["agency"], []).append(row["complaint_type"])
    parts = []
    for agency, types in sorted(wanted.items()):
        parts.append(f"(agency = {literal(agency)} AND complaint_type in ({literals(types)}))")
    return " OR ".join(parts) or None


def _codes(table: str, column: str, domains: set[str]) -> list[str]:
    return [row[column] for row in read_codes(table).to_pylist() if row["domain"] in domains]
