"""The canonical tables: every column with its type, range and meaning.

One place says what a records folder holds; validation, the reader's error messages and the
documentation derive from it. Fields known only after the decision live in ``outcomes`` and
``visits``, never among a complaint's features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

TIMESTAMP = "timestamp[us]"
"""Naive New York time, as the city publishes it."""
TEXTS = "list<string>"


@dataclass(frozen=True)
class ColumnSpec:
    """One column: its Arrow type by name, whether it may be null, what values are allowed."""

    name: str
    type_name: str
    meaning: str
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] | None = None
    allowed_where: tuple[str, tuple[str, ...]] | None = None
    """(other column, beginnings): the allowed values bind only rows where that column starts so."""

    @property
    def type(self) -> pa.DataType:
        """Its Arrow type."""
        import pyarrow as pa

        if self.type_name == TEXTS:
            return pa.list_(pa.string())
        return pa.type_for_alias(self.type_name)


@dataclass(frozen=True)
class Table:
    """One canonical table; ``by_domain`` tables have one file a domain."""

    name: str
    key: str
    columns: tuple[ColumnSpec, ...]
    by_domain: bool = False
    free_fields: bool = False
    """Whether a domain may add columns of its own."""
    time_order: tuple[tuple[str, str], ...] = ()
    """Pairs (earlier, later) of timestamps of one row."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns every such table has."""
        return tuple(column.name for column in self.columns)


def _share(name: str, meaning: str) -> ColumnSpec:
    return ColumnSpec(name, "float64", meaning, nullable=True, minimum=0.0, maximum=1.0)


TRACTS = Table(
    "tracts",
    key="geoid",
    columns=(
        ColumnSpec("geoid", "string", "state 2 + county 3 + tract 6 digits"),
        ColumnSpec(
            "borough",
            "string",
            "borough name; in another city its side or district",
            allowed=BOROUGHS,
            allowed_where=("geoid", NYC_COUNTIES),
        ),
        ColumnSpec("community_board", "int32", "borough digit × 100 + board", minimum=0),
        ColumnSpec("zip", "string", "postal code most of the tract lies in", nullable=True),
        ColumnSpec("longitude", "float64", "degrees, tract centre", minimum=-180, maximum=180),
        ColumnSpec("latitude", "float64", "degrees, tract centre", minimum=-90, maximum=90),
        ColumnSpec("neighbours", TEXTS, "geoids of adjacent tracts"),
        ColumnSpec("population", "int32", "residents", minimum=0),
        ColumnSpec("households", "int32", "occupied dwellings", minimum=0),
        ColumnSpec("median_income", "float64", "dollars a year", nullable=True, minimum=0),
        ColumnSpec(
            "income_quintile", "int8", "1 lowest … 5; 0 not published", minimum=0, maximum=5
        ),
        _share("share_white", "White, not Hispanic"),
        _share("share_black", "Black, not Hispanic"),
        _share("share_hispanic", "Hispanic of any race"),
        _share("share_asian", "Asian, not Hispanic"),
        _share("share_renter", "renter-occupied dwellings"),
        _share("share_bachelors", "adults with a bachelor's degree or more"),
        _share("share_limited_english", "households with limited English"),
        ColumnSpec("median_year_built", "int32", "year", nullable=True, minimum=1700, maximum=2100),
    ),
)

BUILDINGS = Table(
    "buildings",
    key="building_id",
    columns=(
        ColumnSpec("building_id", "string", "BIN or BBL"),
        ColumnSpec("tract", "string", "geoid"),
        ColumnSpec("units", "int32", "dwelling units", minimum=0),
        ColumnSpec("year_built", "int32", "year", nullable=True, minimum=1600, maximum=2100),
        ColumnSpec("boilers", "int16", "registered boilers", minimum=0),
        ColumnSpec("elevators", "int16", "registered elevators", minimum=0),
    ),
)

COMPLAINTS = Table(
    "complaints",
    key="complaint_id",
    by_domain=True,
    free_fields=True,
    columns=(
        ColumnSpec("complaint_id", "string", "one report by one person (or one filing)"),
        ColumnSpec("incident_id", "string", "case the agency linked it to", nullable=True),
        ColumnSpec("domain", "string", "slug of the domain"),
        ColumnSpec("category", "string", "complaint code of the source"),
        ColumnSpec("severity", "string", "priority code", allowed=SEVERITIES),
        ColumnSpec("received_at", TIMESTAMP, "when it was received"),
        ColumnSpec("tract", "string", "geoid"),
        ColumnSpec("building_id", "string", "BIN or BBL", nullable=True),
        ColumnSpec("channel", "string", "how it came in", allowed=CHANNELS),
        ColumnSpec("language", "string", "ISO 639-1 code, or 'other'", nullable=True),
    ),
)

OUTCOMES = Table(
    "outcomes",
    key="complaint_id",
    by_domain=True,
    free_fields=True,
    time_order=(("first_visit_at", "closed_at"),),
    columns=(
        ColumnSpec("complaint_id", "string", "the complaint"),
        ColumnSpec("closed_at", TIMESTAMP, "when it was closed", nullable=True),
        ColumnSpec("disposition", "string", "closing code of the source", nullable=True),
        ColumnSpec("disposition_class", "string", "its class", allowed=DISPOSITION_CLASSES),
        ColumnSpec("first_visit_at", TIMESTAMP, "first visit to its case", nullable=True),
        ColumnSpec("n_visits", "int16", "visits to its case", minimum=0),
    ),
)

VISITS = Table(
    "visits",
    key="visit_id",
    by_domain=True,
    columns=(
        ColumnSpec("visit_id", "string", "one visit"),
        ColumnSpec("complaint_id", "string", "first complaint of the case visited"),
        ColumnSpec("visited_at", TIMESTAMP, "when"),
        ColumnSpec("attempt", "int16", "1 for the first visit to the case", minimum=1),
        ColumnSpec("result", "string", "what was found", allowed=VISIT_RESULTS),
        ColumnSpec(
            "propensity",
            "float64",
            "chance the logging rule had of choosing this case that day",
            nullable=True,
            minimum=0.0,
            maximum=1.0,
        ),
        ColumnSpec("n_waiting", "int32", "cases waiting that day", nullable=True, minimum=0),
        ColumnSpec("n_slots", "int32", "visits that day", nullable=True, minimum=0),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table for table in (TRACTS, BUILDINGS, COMPLAINTS, OUTCOMES, VISITS)
}
