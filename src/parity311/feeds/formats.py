"""The files that can be imported: which columns each has, under any of its published headers.

A file is recognised by its header, not by its name. Headers are compared without case, spaces and
punctuation, so that ``Complaint Type`` (CSV export), ``complaint_type`` (API) and ``ComplaintType``
are one name; the renamed ones of December 2025 are listed as aliases. Columns that name a person
are in none of these lists: they are never read.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from parity311.errors import RecordsError
from parity311.feeds.packing import (
    PLAIN,
    Packing,
    find_packing,
    portal_columns,
    read_head,
)

DELIMITERS = (",", ";", "\t", "|")


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


@dataclass(frozen=True)
class FileLayout:
    """How one file is to be read."""

    kind: str
    path: Path
    columns: Mapping[str, str]
    """API name -> name in the file."""
    header: tuple[str, ...] = ()
    delimiter: str = ","
    is_json: bool = False
    wanted: tuple[str, ...] = ()
    """Columns to read, where the format is a city's own."""
    packing: Packing = PLAIN
    unpacked: Path | None = None
    """Where its plain text lies, once it was unpacked."""

    @property
    def text_path(self) -> Path:
        """The file that the readers read."""
        return self.unpacked or self.path


def recognise(path: Path, own_formats: Sequence[Format] = ()) -> FileLayout:
    """Find out what a file holds from its first bytes; say what is wrong if it is nothing known.

    ``own_formats`` are those of another city's map; with them, New York's are not tried.
    """
    if not path.is_file():
        raise RecordsError(f"There is no file {path}; check the path.")
    if path.stat().st_size == 0:
        raise RecordsError(f"{path} is empty; download or export it again.")
    packing = find_packing(path)
    head = read_head(path, packing)
    formats = own_formats or TABLE_FORMATS
    if not head.strip():
        raise RecordsError(f"{path} is empty; download or export it again.")
    if packing.has_portal_rows:
        layout = _choose(path, portal_columns(path, packing), formats, delimiter=",")
    elif head.lstrip()[:1] in "[{":
        layout = _recognise_json(path, head, formats)
    else:
        layout = _recognise_csv(path, head, formats)
    return replace(layout, packing=packing)


LONGEST_HEADER = 100_000
"""Characters of a first line that may be a header: real ones have a few thousand."""


def split_header(head: str, delimiter: str) -> list[str]:
    """The names in the first line of a file."""
    return next(csv.reader([head.splitlines()[0]], delimiter=delimiter), [])


def unique_names(header: Iterable[str]) -> list[str]:
    """Names by which columns can be told apart: numbered where there is none, never twice."""
    names: list[str] = []
    for place, given in enumerate(header, 1):
        name = given if given.strip() else f"column_{place}"
        while name.lower() in (other.lower() for other in names):
            name += "_"
        names.append(name)
    return names


def check_first_line(path: Path, head: str) -> None:
    """Refuse a first line that is no header: endless, or broken within a name."""
    first = head.splitlines()[0]
    if len(first) > LONGEST_HEADER:
        raise RecordsError(
            f"{path} has a first line of more than {LONGEST_HEADER:,} characters, which is no "
            "header; give a CSV or JSON export."
        )
    if first.count('"') % 2:
        raise RecordsError(
            f"{path} has a line break or a lone quotation mark in a column name; rename that "
            "column in the first line."
        )


def _recognise_csv(path: Path, head: str, formats: Sequence[Format]) -> FileLayout:
    check_first_line(path, head)
    found = [
        layout
        for delimiter in DELIMITERS
        if (layout := _match(path, split_header(head, delimiter), formats, delimiter)) is not None
    ]
    if not found:
        # The separator that gives most columns is the file's.
        headers = [split_header(head, delimiter) for delimiter in DELIMITERS]
        raise _unknown_header(path, max(headers, key=len), formats)
    return max(found, key=lambda layout: len(layout.columns))


def _match(
    path: Path, header: list[str], formats: Sequence[Format], delimiter: str, is_json: bool = False
) -> FileLayout | None:
    """The format whose required columns are all there, the one with most columns; or none."""
    best: FileLayout | None = None
    for known in formats:
        columns = known.match(header)
        if all(name in columns for name in known.required) and (
            best is None or len(columns) > len(best.columns)
        ):
            wanted = known.columns if known not in TABLE_FORMATS else ()
            best = FileLayout(known.kind, path, columns, tuple(header), delimiter, is_json, wanted)
    return best


def _choose(
    path: Path, header: list[str], formats: Sequence[Format], delimiter: str, is_json: bool = False
) -> FileLayout:
    found = _match(path, header, formats, delimiter, is_json)
    if found is None:
        raise _unknown_header(path, header, formats)
    return found


def _recognise_json(path: Path, head: str, formats: Sequence[Format]) -> FileLayout:
    if '"FeatureCollection"' in head[:2000]:
        kind = "districts" if '"BoroCD"' in head or '"boro_cd"' in head else "boundaries"
        return FileLayout(kind, path, {}, is_json=True)
    names = _json_names(path, head)
    if "errorCode" in names:
        raise RecordsError(
            f"{path} is an error the server answered with, not rows: "
            f"{str(json.loads(head).get('message', ''))[:120]!r}. Fetch it again."
        )
    if '"fieldName"' in head:
        return FileLayout("metadata", path, {}, is_json=True)
    if names and names[0] == "NAME":
        return FileLayout("acs_answer", path, {}, tuple(names), is_json=True)
    return _choose(path, names, formats, ",", is_json=True)


def _json_names(path: Path, head: str) -> list[str]:
    """Names of the fields of the first rows; the API leaves out fields that are null."""
    decoder = json.JSONDecoder()
    names: dict[str, None] = {}
    at = head.find("[") + 1
    if head.lstrip().startswith("[["):
        try:
            return [str(name) for name in decoder.raw_decode(head, at)[0]]
        except (ValueError, RecursionError) as error:
            raise RecordsError(
                f"{path} starts like an answer of the Census and cannot be read; fetch it again."
            ) from error
    if head.lstrip().startswith("{"):
        at = 0
    while True:
        while at < len(head) and head[at] in " \r\n\t,":
            at += 1
        try:
            row, at = decoder.raw_decode(head, at)
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict):
            break
        names |= dict.fromkeys(row)
    if not names:
        raise RecordsError(
            f"{path} starts like JSON but holds no rows; download it again, or give a CSV export."
        )
    return list(names)


def _unknown_header(path: Path, header: list[str], formats: Sequence[Format]) -> RecordsError:
    """Name the kind it comes closest to and what that one lacks.

    A file is close to a kind if it has half of what that must have: coordinates alone make no tax
    lots of another city's complaints. With a map there is one kind of complaints to be close to.
    """
    shown = ", ".join(unique_names(header)[:8]) + (" …" if len(header) > 8 else "")
    nearest, found = None, {}
    for known in formats:
        columns = known.match(header)
        required = sum(name in columns for name in known.required)
        is_close = 2 * required >= len(known.required) or known.by_alias_only
        if is_close and len(columns) >= 2 and len(columns) > len(found):
            nearest, found = known, columns
    if nearest is None:
        kinds = ", ".join(known.title for known in formats)
        return RecordsError(
            f"{path} is none of the files that can be imported ({kinds}); its header is: {shown}. "
            "Describe its columns in a TOML file and pass it with --map."
        )
    missing = next(name for name in nearest.required if name not in found)
    if nearest.by_alias_only:
        given = next(alias for alias, name in nearest.aliases.items() if name == missing)
        near = get_close_matches(given, header, n=1, cutoff=0.5)
        hint = f" Perhaps {near[0]!r} is it." if near else ""
        return RecordsError(
            f"{path} looks like {nearest.title} but has no column {given!r}, which the map gives "
            f"as {missing}; its header is: {shown}.{hint} Correct the map, or export the column."
        )
    near = get_close_matches(missing, header, n=1, cutoff=0.5)
    hint = f" Perhaps {near[0]!r} is it: rename it, or map it with --map." if near else ""
    return RecordsError(
        f"{path} looks like {nearest.title} but has no column {missing!r}; its header is: {shown}."
        f"{hint or ' Export it again with all columns, or map it with --map.'}"
    )
