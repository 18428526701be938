"""The canonical tables: every column with its type, range and meaning.

One place says what a records folder holds; validation, the reader's error messages and the
documentation derive from it. Fields known only after the decision live in ``outcomes`` and
``visits``, never among a complaint's features.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

FORMAT_VERSION = 2
"""Rises whenever a folder written by an older version can no longer be read."""

BOROUGHS = ("Bronx", "Brooklyn", "Manhattan", "Queens", "Staten Island")
NYC_COUNTIES = ("36005", "36047", "36061", "36081", "36085")
"""First five digits of a tract in New York City: state and county."""
SEVERITIES = ("A", "B", "C", "D")
CHANNELS = ("PHONE", "ONLINE", "MOBILE", "OTHER", "FILING", "UNKNOWN")
"""How a complaint came in. OTHER: the agency found it itself; FILING: an owner's mandatory filing;
UNKNOWN: the source does not say."""
DISPOSITION_CLASSES = (
    "violation",
    "no_violation",
    "no_access",
    "referral",
    "duplicate",
    "pending",
    "other",
)
VISIT_RESULTS = ("violation", "no_violation", "no_access")

SERVICE_LEVEL_DAYS = {"A": 1.0, "B": 40.0, "C": 60.0, "D": 90.0}
"""Days within which a visit counts as service, by severity code (NYC Comptroller MD19-122A; C and
D are the agency's internal goals)."""

TIMESTAMP = pa.timestamp("us")
"""Naive New York time, as the city publishes it."""


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, whether it may be null, and what values are allowed."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] | None = None
    allowed_where: tuple[str, tuple[str, ...]] | None = None
    """(other column, beginnings): the allowed values bind only rows where that column starts so."""


@dataclass(frozen=True)
class Table:
    """One canonical table; ``by_domain`` tables have one file a domain."""

    name: str
    key: str
    columns: tuple[Column, ...]
    by_domain: bool = False
    free_fields: bool = False
    """Whether a domain may add columns of its own."""
    time_order: tuple[tuple[str, str], ...] = ()
    """Pairs (earlier, later) of timestamps of one row."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns every such table has."""
        return tuple(column.name for column in self.columns)


def _share(name: str, meaning: str) -> Column:
    return Column(name, pa.float64(), meaning, nullable=True, minimum=0.0, maximum=1.0)


TRACTS = Table(
    "tracts",
    key="geoid",
    columns=(
        Column("geoid", pa.string(), "state 2 + county 3 + tract 6 digits"),
        Column(
            "borough",
            pa.string(),
            "borough name; in another city its side or district",
            allowed=BOROUGHS,
            allowed_where=("geoid", NYC_COUNTIES),
        ),
        Column("community_board", pa.int32(), "borough digit × 100 + board", minimum=0),
        Column("zip", pa.string(), "postal code most of the tract lies in", nullable=True),
        Column("longitude", pa.float64(), "degrees, tract centre", minimum=-180, maximum=180),
        Column("latitude", pa.float64(), "degrees, tract centre", minimum=-90, maximum=90),
        Column("neighbours", pa.list_(pa.string()), "geoids of adjacent tracts"),
        Column("population", pa.int32(), "residents", minimum=0),
        Column("households", pa.int32(), "occupied dwellings", minimum=0),
        Column("median_income", pa.float64(), "dollars a year", nullable=True, minimum=0),
        Column("income_quintile", pa.int8(), "1 lowest … 5; 0 not published", minimum=0, maximum=5),
        _share("share_white", "White, not Hispanic"),
        _share("share_black", "Black, not Hispanic"),
        _share("share_hispanic", "Hispanic of any race"),
        _share("share_asian", "Asian, not Hispanic"),
        _share("share_renter", "renter-occupied dwellings"),
        _share("share_bachelors", "adults with a bachelor's degree or more"),
        _share("share_limited_english", "households with limited English"),
        Column("median_year_built", pa.int32(), "year", nullable=True, minimum=1700, maximum=2100),
    ),
)

BUILDINGS = Table(
    "buildings",
    key="building_id",
    columns=(
        Column("building_id", pa.string(), "BIN or BBL"),
        Column("tract", pa.string(), "geoid"),
        Column("units", pa.int32(), "dwelling units", minimum=0),
        Column("year_built", pa.int32(), "year", nullable=True, minimum=1600, maximum=2100),
        Column("boilers", pa.int16(), "registered boilers", minimum=0),
        Column("elevators", pa.int16(), "registered elevators", minimum=0),
    ),
)

COMPLAINTS = Table(
    "complaints",
    key="complaint_id",
    by_domain=True,
    free_fields=True,
    columns=(
        Column("complaint_id", pa.string(), "one report by one person (or one filing)"),
        Column("incident_id", pa.string(), "case the agency linked it to", nullable=True),
        Column("domain", pa.string(), "slug of the domain"),
        Column("category", pa.string(), "complaint code of the source"),
        Column("severity", pa.string(), "priority code", allowed=SEVERITIES),
        Column("received_at", TIMESTAMP, "when it was received"),
        Column("tract", pa.string(), "geoid"),
        Column("building_id", pa.string(), "BIN or BBL", nullable=True),
        Column("channel", pa.string(), "how it came in", allowed=CHANNELS),
        Column("language", pa.string(), "ISO 639-1 code, or 'other'", nullable=True),
    ),
)

OUTCOMES = Table(
    "outcomes",
    key="complaint_id",
    by_domain=True,
    free_fields=True,
    time_order=(("first_visit_at", "closed_at"),),
    columns=(
        Column("complaint_id", pa.string(), "the complaint"),
        Column("closed_at", TIMESTAMP, "when it was closed", nullable=True),
        Column("disposition", pa.string(), "closing code of the source", nullable=True),
        Column("disposition_class", pa.string(), "its class", allowed=DISPOSITION_CLASSES),
        Column("first_visit_at", TIMESTAMP, "first visit to its case", nullable=True),
        Column("n_visits", pa.int16(), "visits to its case", minimum=0),
    ),
)

VISITS = Table(
    "visits",
    key="visit_id",
    by_domain=True,
    columns=(
        Column("visit_id", pa.string(), "one visit"),
        Column("complaint_id", pa.string(), "first complaint of the case visited"),
        Column("visited_at", TIMESTAMP, "when"),
        Column("attempt", pa.int16(), "1 for the first visit to the case", minimum=1),
        Column("result", pa.string(), "what was found", allowed=VISIT_RESULTS),
        Column(
            "propensity",
            pa.float64(),
            "chance the logging rule had of choosing this case that day",
            nullable=True,
            minimum=0.0,
            maximum=1.0,
        ),
        Column("n_waiting", pa.int32(), "cases waiting that day", nullable=True, minimum=0),
        Column("n_slots", pa.int32(), "visits that day", nullable=True, minimum=0),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table for table in (TRACTS, BUILDINGS, COMPLAINTS, OUTCOMES, VISITS)
}
