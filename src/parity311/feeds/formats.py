"""The files that can be imported: which columns each has, under any of its published headers.

A file is recognised by its header, not by its name. Headers are compared without case, spaces and
punctuation, so that ``Complaint Type`` (CSV export), ``complaint_type`` (API) and ``ComplaintType``
are one name; the renamed ones of December 2025 are listed as aliases. Columns that name a person
are in none of these lists: they are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Format:
    """One kind of file: the API names of the columns that are read."""

    kind: str
    title: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    """Columns of a published aggregate that are numbers."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other spelling (compared like a header) -> API name."""
    by_alias_only: bool = False
    """Whether a header counts only under its alias, as in another city's map."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, if it is there."""
        return (*self.required, *self.optional)

    def match(self, header: Iterable[str]) -> dict[str, str]:
        """API name -> name in this file, for the columns that are there."""
        wanted = {} if self.by_alias_only else {squash(name): name for name in self.columns}
        wanted |= {squash(alias): name for alias, name in self.aliases.items()}
        found: dict[str, str] = {}
        for given in header:
            name = wanted.get(squash(given))
            if name is not None and name not in found:
                found[name] = given
        return found


def squash(name: str) -> str:
    """A header without case, spaces and punctuation."""
    return "".join(character for character in name.lower() if character.isalnum())


SR311 = Format(
    "sr311",
    "311 service requests",
    required=("created_date", "agency", "complaint_type"),
    optional=(
        "unique_key",
        "closed_date",
        "descriptor",
        "incident_zip",
        "incident_address",
        "status",
        "resolution_description",
        "resolution_action_updated_date",
        "community_board",
        "bbl",
        "borough",
        "latitude",
        "longitude",
        "open_data_channel_type",
    ),
    aliases={
        "Problem (formerly Complaint Type)": "complaint_type",
        "Problem Detail (formerly Descriptor)": "descriptor",
    },
)

DOB = Format(
    "dob",
    "DOB complaints received",
    required=("complaint_number", "date_entered", "complaint_category", "bin"),
    optional=(
        "status",
        "house_number",
        "house_street",
        "zip_code",
        "community_board",
        "unit",
        "disposition_date",
        "disposition_code",
        "inspection_date",
        "dobrundate",
    ),
)

BOILER = Format(
    "boiler",
    "DOB NOW safety boiler filings",
    required=("tracking_number", "boiler_id", "inspection_date", "defects_exist", "bin_number"),
    optional=(
        "report_type",
        "pressure_type",
        "inspection_type",
        "lff_45_days",
        "lff_180_days",
        "report_status",
    ),
)

HPD_PROBLEMS = Format(
    "hpd_problems",
    "HPD complaints and problems",
    required=("received_date", "problem_id", "complaint_id", "major_category"),
    optional=(
        "building_id",
        "borough",
        "house_number",
        "street_name",
        "post_code",
        "community_board",
        "unit_type",
        "type",
        "minor_category",
        "problem_code",
        "problem_status",
        "problem_status_date",
        "status_description",
        "problem_duplicate_flag",
        "complaint_anonymous_flag",
        "unique_key",
        "latitude",
        "longitude",
        "bin",
        "bbl",
    ),
)

HPD_VIOLATIONS = Format(
    "hpd_violations",
    "HPD violations",
    required=("violationid", "class", "inspectiondate", "novdescription"),
    optional=(
        "buildingid",
        "boroid",
        "postcode",
        "novissueddate",
        "currentstatus",
        "violationstatus",
        "latitude",
        "longitude",
        "bin",
        "bbl",
    ),
    aliases={"zip": "postcode"},
)

LOTS = Format(
    "lots",
    "tax lots (PLUTO)",
    required=("bbl", "unitsres"),
    optional=("yearbuilt", "bct2020", "latitude", "longitude"),
)

FOOTPRINTS = Format(
    "footprints",
    "building footprints",
    required=("bin", "mappluto_bbl"),
    optional=("base_bbl",),
    aliases={"mpluto_bbl": "mappluto_bbl"},
)

TRACT_TABLE = Format(
    "tract_table",
    "tracts with ACS figures",
    required=("GEOID", "BoroName", "CDTA2020", "pop", "med_income"),
    optional=(
        "households_2022",
        "tract_renter_share",
        "tract_pct_black",
        "tract_pct_hispanic",
        "tract_pct_asian",
        "pct_bachelors_plus_2022",
        "pct_limited_english_2022",
        "ag_race_white_nh_pct",
    ),
)

ACS_TABLE = Format(
    "acs_table",
    "ACS figures by tract with missing-value codes",
    required=("GEOID", "TOTAL_POP", "MEDIAN_INCOME", "HH_TOTAL"),
    optional=("PCT_RENTERS", "PCT_BACHELORS_PLUS", "PCT_LIMITED_ENGLISH"),
)

ADDRESS_YEARS = Format(
    "address_years",
    "heat complaints by address and year",
    required=("year", "borough", "incident_address", "num_complaints", "GEOID"),
    optional=("zip", "lat", "long"),
)


def _reference(name: str, title: str, texts: tuple[str, ...], numbers: tuple[str, ...]) -> Format:
    return Format(f"reference_{name}", title, required=(*texts, *numbers), numbers=numbers)


REFERENCE_FORMATS = (
    _reference("dob_categories", "list of DOB categories", ("code", "priority_rev2018"), ()),
    _reference("dob_dispositions", "list of DOB dispositions", ("code", "outcome_class"), ()),
    _reference("dob_outcomes", "DOB outcome shares", ("outc",), ("n", "share")),
    _reference(
        "dob_category_outcomes",
        "DOB outcomes by category",
        ("code",),
        ("n", "viol", "noviol", "noacc"),
    ),
    _reference("dob_months", "DOB complaints by month", ("ym",), ("n",)),
    _reference("dob_boroughs", "DOB complaints by borough", ("borough",), ("compl", "units")),
    _reference(
        "dob_properties",
        "DOB complaints by kind of property",
        ("group",),
        ("n_properties", "any_complaint", "no_access_share"),
    ),
    _reference(
        "sr311_volumes", "311 volumes by year", ("Agency", "Complaint Type"), ("Year", "Count")
    ),
    _reference(
        "sr311_closing_days",
        "311 closing days by year",
        ("Agency", "Complaint Type"),
        ("Year", "Days to Close"),
    ),
    _reference(
        "resolution_texts",
        "list of HPD resolution texts",
        ("res_desc_recode", "resolution_description"),
        (),
    ),
)
"""Published aggregates and code lists: kept beside the records to compare with."""

COMPLAINT_FORMATS = (SR311, DOB, BOILER, HPD_PROBLEMS)
"""Files whose rows become complaints."""
TABLE_FORMATS = (
    *COMPLAINT_FORMATS,
    HPD_VIOLATIONS,
    LOTS,
    FOOTPRINTS,
    TRACT_TABLE,
    ACS_TABLE,
    ADDRESS_YEARS,
    *REFERENCE_FORMATS,
)
