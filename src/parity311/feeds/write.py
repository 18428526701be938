"""From judged rows to the canonical tables of one domain, streamed by DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString

from parity311.records.schema import VISIT_RESULTS
from parity311.records.sql import Connection, identifier, literal, literals, parquet
from parity311.records.store import table_path

ID_PREFIXES = {"sr311": "SR", "dob": "DOB", "boiler": "BLR", "hpd_problems": "HPD"}
"""Prefix of a complaint's id by source, so that keys of two sources never meet."""
LINK_DAYS = 365
"""A duplicate is linked to the latest earlier original of its building that was still open, no
older than this: the slowest tenth of DOB cases takes about 220 days."""
COMPLAINT_FIELDS: dict[str, dict[str, LiteralString]] = {
    "heat": {
        "is_building_wide": "is_building_wide",
        "is_no_heat": "CASE WHEN category LIKE 'NO HEAT%' THEN true "
        "WHEN category = 'NO HOT WATER' THEN false END",
        "is_anonymous": "is_anonymous",
    },
    "housing": {
        "is_building_wide": "is_building_wide",
        "is_emergency": "CASE WHEN source = 'hpd_problems' THEN severity IN ('A', 'B') END",
        "is_public_area": "is_public_area",
        "is_anonymous": "is_anonymous",
    },
    "boiler": {
        "equipment_id": "equipment_id",
        "is_high_pressure": "is_high_pressure",
        "is_internal": "is_internal",
    },
    "elevator": {
        "has_no_other_device": "category = '6S'",
        "is_agency_initiated": "is_agency_initiated",
    },
}
"""Free fields of a complaint, known at intake, by domain; null where the source does not say."""
DEFAULT_FIELDS: dict[str, LiteralString] = {"is_agency_initiated": "is_agency_initiated"}
OUTCOME_FIELDS = {"boiler": ("defect_found", "lff_45", "lff_180")}
VIOLATION_DAYS = 30
"""A violation of the same building this long after a complaint is counted with its outcome."""


def copy_sorted(connection: Connection, query: LiteralString, path: Path) -> None:
    """Write a query to Parquet the one way that gives the same bytes for the same rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection.execute(f"COPY ({query}) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)")


def complaint_id(source: LiteralString = "source", key: LiteralString = "key") -> LiteralString:
    """SQL: the canonical id of a complaint."""
    prefixes = " ".join(
        f"WHEN {literal(name)} THEN {literal(f'{prefix}-')}" for name, prefix in ID_PREFIXES.items()
    )
    return f"(CASE {source} {prefixes} ELSE '' END) || {key}"


def write_domain(
    connection: Connection,
    placed: Path,
    out: Path,
    domain: str,
    *,
    has_violations: bool,
) -> dict[str, int]:
    """Write complaints, outcomes and visits of one domain; give counts for the manifest."""
    source = parquet((placed / f"domain={domain}").glob("*.parquet"))
    connection.execute(f"""
CREATE OR REPLACE TEMP VIEW kept AS
SELECT *, {complaint_id()} AS complaint_id,
  coalesce(building, CAST(coalesce(bbl, bin) AS VARCHAR)) AS building_id FROM {source}
""")
    n_marked = connection.execute("SELECT count(*) FROM kept WHERE is_marked_duplicate").fetchall()[
        0
    ][0]
    _link(connection, has_duplicates=n_marked > 0)
    chosen = COMPLAINT_FIELDS.get(domain, DEFAULT_FIELDS)
    fields = "".join(f", {expression} AS {identifier(name)}" for name, expression in chosen.items())
    copy_sorted(
        connection,
        f"""
SELECT complaint_id, incident_id, {literal(domain)} AS domain, category, severity, received_at,
  tract, building_id, channel, CAST(NULL AS VARCHAR) AS language, located_by,
  printf('%05d', zip) AS row_zip, CAST(community_board AS INTEGER) AS row_board{fields}
FROM linked ORDER BY received_at, complaint_id""",
        table_path(out, "complaints", domain),
    )
    connection.execute(f"CREATE OR REPLACE TEMP VIEW visited AS {visited_query(has_violations)}")
    extra = "".join(f", {identifier(field)}" for field in OUTCOME_FIELDS.get(domain, ()))
    later = ", n_violations_30d" if has_violations else ""
    copy_sorted(
        connection,
        f"""
SELECT complaint_id, CASE WHEN first_visit_at > closed_at THEN first_visit_at ELSE closed_at END
    AS closed_at, disposition, disposition_class, first_visit_at, n_visits, is_prior_enforcement,
  visit_is_closing, closing_is_unknown{extra}{later}
FROM visited ORDER BY received_at, complaint_id""",
        table_path(out, "outcomes", domain),
    )
    copy_sorted(
        connection,
        f"""
SELECT complaint_id || '-V' AS visit_id, complaint_id, last_visit_at AS visited_at,
  n_visits AS attempt, disposition_class AS result, CAST(NULL AS DOUBLE) AS propensity,
  CAST(NULL AS INTEGER) AS n_waiting, CAST(NULL AS INTEGER) AS n_slots
FROM visited WHERE n_visits > 0 AND last_visit_at IS NOT NULL
  AND disposition_class IN ({literals(VISIT_RESULTS)})
ORDER BY visited_at, complaint_id""",
        table_path(out, "visits", domain),
    )
    linked = connection.execute(
        "SELECT count(*) FROM linked WHERE incident_id <> complaint_id"
    ).fetchall()[0][0]
    return {"marked_duplicates": int(n_marked), "linked_duplicates": int(linked)}


def _link(connection: Connection, *, has_duplicates: bool) -> None:
    """View linked: kept rows with incident_id, where their source marks duplicates.

    A marked duplicate gets the id of the original its source names, else of the latest earlier
    original of its building that was still open; an original gets its own; where the source says
    neither, and where no original is found, there is none.
    """
    if not has_duplicates:
        connection.execute("""
CREATE OR REPLACE TEMP VIEW linked AS SELECT *,
  CASE WHEN NOT is_marked_duplicate THEN complaint_id END AS incident_id FROM kept""")
        return
    connection.execute(f"""
CREATE OR REPLACE TEMP VIEW linked AS
WITH earlier AS (
  SELECT *, last_value(CASE WHEN NOT coalesce(is_marked_duplicate, false)
      THEN {{'id': complaint_id, 'at': received_at, 'closed_at': closed_at}} END IGNORE NULLS)
    OVER (PARTITION BY building_id ORDER BY received_at, complaint_id
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS original
  FROM kept
)
SELECT * EXCLUDE (original),
  CASE WHEN NOT is_marked_duplicate THEN complaint_id
    WHEN parent_key IS NOT NULL THEN {complaint_id(key="parent_key")}
    WHEN is_marked_duplicate AND building_id IS NOT NULL
      AND received_at - original.at <= INTERVAL {literal(LINK_DAYS)} DAY
      AND (original.closed_at IS NULL OR original.closed_at >= CAST(received_at AS DATE))
    THEN original.id END AS incident_id
FROM earlier""")


def visited_query(has_violations: bool) -> LiteralString:
    """SQL: kept rows with their visits; a visit dated by the closing says so.

    Where the closing is the moment of receipt, nobody knows when the visit was.
    """
    violations = f"""
  LEFT JOIN (
    SELECT k.complaint_id, count(*) AS n FROM kept k JOIN violations v
    ON v.building_id = k.building_id AND v.is_heat = (k.code_domain = 'heat')
    AND v.inspected_at >= CAST(k.received_at AS DATE)
    AND v.inspected_at < k.received_at + INTERVAL {literal(VIOLATION_DAYS)} DAY
    WHERE k.code_domain IN ('heat', 'housing') GROUP BY 1
  ) later USING (complaint_id)"""
    count = ", CAST(coalesce(later.n, 0) AS INTEGER) AS n_violations_30d"
    return f"""
SELECT *, CASE WHEN n_visits = 1 THEN last_visit_at END AS first_visit_at FROM (
  SELECT k.*, CAST(coalesce(k.coded_visits, 0) AS SMALLINT) AS n_visits,
    CASE WHEN k.coded_visits > 0 THEN coalesce(k.visited_at,
      CASE WHEN k.source <> 'dob' AND NOT k.closing_is_unknown THEN k.closed_at END) END
      AS last_visit_at,
    coalesce(k.coded_visits > 0 AND k.visited_at IS NULL AND NOT k.closing_is_unknown, false)
      AS visit_is_closing
    {count if has_violations else ""}
  FROM kept k {violations if has_violations else ""}
)"""


def write_buildings(connection: Connection, out: Path) -> None:
    """Write the buildings that complaints name; units are 0 where no lot file gives them."""
    complaints = parquet((out / "complaints").glob("*.parquet"))
    columns = connection.sql(f"SELECT * FROM {complaints} LIMIT 0").columns
    boilers = "count(DISTINCT equipment_id)" if "equipment_id" in columns else "0"
    copy_sorted(
        connection,
        f"""
SELECT c.building_id, c.tract, CAST(coalesce(l.units, 0) AS INTEGER) AS units,
  CAST(l.year_built AS INTEGER) AS year_built, CAST(c.boilers AS SMALLINT) AS boilers,
  CAST(0 AS SMALLINT) AS elevators
FROM (SELECT building_id, mode(tract ORDER BY tract) AS tract, {boilers} AS boilers
  FROM {complaints} WHERE building_id IS NOT NULL GROUP BY building_id) c
LEFT JOIN lot_details l ON CAST(l.bbl AS VARCHAR) = c.building_id
ORDER BY c.building_id""",
        table_path(out, "buildings"),
    )
