"""A journal read from a records folder: what had been received, visited and closed by a moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, LiteralString

import numpy as np

from parity311.errors import InputError
from parity311.records.absent import no_such_domain
from parity311.records.cases import KNOWN, STRATUM, cases, column, numbered, reports, to_array
from parity311.records.journal import DAY_SECONDS, UNKNOWN, Area, Journal, day_of
from parity311.records.schema import BOROUGHS, SEVERITIES, TABLES, VISIT_RESULTS
from parity311.records.sql import identifier, literal
from parity311.records.store import Records, table_path

if TYPE_CHECKING:
    import pyarrow as pa


def read_journal(records: Records, domain: str, as_of: datetime) -> Journal:
    """The cases of a domain as the records show them just before a moment."""
    if domain not in records.domains:
        raise no_such_domain(records, domain)
    if as_of.tzinfo is not None:
        raise InputError(
            f"The moment {as_of} names a time zone; records have the city's own time, give that."
        )
    first, last = records.window
    if not first <= as_of.date() <= last:
        raise InputError(
            f"{records.folder} has records from {first} to {last}; {as_of} lies outside, choose a "
            "moment between them."
        )
    fields, found = (_fields(records, name, domain) for name in ("complaints", "outcomes"))
    flags = [name for name, is_flag in fields.items() if is_flag]
    asked = {"domain": domain, "date_to": as_of}
    rows = records.sql(
        _cases_query(flags, "equipment_id" in fields, "defect_found" in found), **asked
    )
    heard = records.sql(_REPORTS, **asked)
    visited = records.sql(_VISITS, **asked)
    building, building_ids = _encoded(rows["building_id"])
    equipment, _ = _encoded(rows["equipment_id"])
    zips, zip_codes = _encoded(rows["zip"])
    tract, tracts = _encoded(rows["tract"])
    category, categories = _encoded(rows["category"])
    areas = _read_areas(records, tracts, zip_codes)
    number = lambda name: column(rows, name, np.int64)  # noqa: E731
    never = lambda name: np.nan_to_num(column(rows, name), nan=np.inf)  # noqa: E731
    place = {name: i for i, name in enumerate(rows["complaint_id"].to_pylist())}
    visit_case = _places(visited["complaint_id"], place)
    # A visit on record under a later report of its case cannot be told apart; it counts nowhere.
    told = visit_case != UNKNOWN
    return Journal(
        domain=domain,
        as_of=day_of(as_of),
        complaint_id=to_array(rows["complaint_id"].combine_chunks()),
        began=column(rows, "began_day"),
        code=number("code"),
        category=category,
        tract=tract,
        stratum=number("stratum"),
        borough=number("borough"),
        board=number("board"),
        zip=zips,
        building=building,
        units=column(rows, "units"),
        n_reports=number("n_reports"),
        last_report=column(rows, "last_day"),
        n_attempts=number("n_attempts"),
        last_visit=column(rows, "visit_day"),
        settled=never("settled_day"),
        closed=never("closed_day"),
        report_at=column(heard, "day"),
        report_case=_places(heard["complaint_id"], place),
        visit_at=column(visited, "day")[told],
        visit_case=visit_case[told],
        visit_result=column(visited, "result", np.int64)[told],
        categories=tuple(str(name) for name in categories),
        tracts=tracts,
        n_tracts=len(areas),
        flags={name: column(rows, name, bool) for name in flags},
        further={
            "equipment": equipment,
            "boilers": column(rows, "boilers"),
            "defect": column(rows, "defect"),
        },
        building_ids=building_ids,
        areas=areas,
    )


def _read_areas(records: Records, tracts: np.ndarray, zips: np.ndarray) -> dict[str, Area]:
    """Every tract of the city, numbered as the cases' are."""
    rows = records.sql(f"""
SELECT t.geoid, {STRATUM} AS stratum, {numbered("t.borough", BOROUGHS, -1)} AS borough,
  COALESCE(t.community_board, 0) AS board, t.zip FROM tracts t""").to_pylist()
    tract_of, zip_of = ({str(name): i for i, name in enumerate(x)} for x in (tracts, zips))
    return {
        row["geoid"]: Area(
            tract_of.get(row["geoid"], UNKNOWN),
            row["stratum"],
            row["borough"],
            row["board"],
            zip_of.get(str(row["zip"]), UNKNOWN),
        )
        for row in rows
    }


_NUMBERED: tuple[LiteralString, ...] = ("building_id", "equipment_id", "zip")
_FIRST: tuple[LiteralString, ...] = (
    "tract", "severity", "category", "stratum", "borough", "board", "units", "boilers", *_NUMBERED
)  # fmt: skip
_VISITED = "visited_at < $date_to::TIMESTAMP"


def _days(moment: LiteralString) -> LiteralString:
    return f"epoch({moment}) / {literal(DAY_SECONDS)}"


def _cases_query(flags: Sequence[str], has_equipment: bool, has_defects: bool) -> LiteralString:
    stated = "".join(f", COALESCE(c.{name}, false) AS {name}" for name in map(identifier, flags))
    equipment = "c.equipment_id" if has_equipment else "CAST(NULL AS VARCHAR)"
    defect = "CAST(o.defect_found AS DOUBLE)" if has_defects else "CAST(NULL AS DOUBLE)"
    columns = f"""c.complaint_id, c.received_at, c.tract, c.severity, c.category, c.building_id,
    {equipment} AS equipment_id, t.zip, {STRATUM} AS stratum,
    {numbered("t.borough", BOROUGHS, -1)} AS borough, COALESCE(t.community_board, 0) AS board,
    COALESCE(b.units, 1) AS units, COALESCE(b.boilers, 0) AS boilers{stated}"""
    joins = """LEFT JOIN tracts t ON t.geoid = c.tract
    LEFT JOIN buildings b ON b.building_id = c.building_id"""
    return f"""
WITH own AS ({reports(columns, joins)}
), cases AS ({cases(*_FIRST, *map(identifier, flags))}
), heard AS (SELECT case_id, max(received_at) AS last_report FROM own GROUP BY 1
), seen AS (
  SELECT complaint_id, count(*) AS n_attempts, max(visited_at) AS last_visit,
    min(visited_at) FILTER (WHERE result <> 'no_access') AS settled
  FROM visits WHERE {_VISITED} GROUP BY 1
)
SELECT k.* EXCLUDE (began), {_days("k.began")} AS began_day,
  {_days("h.last_report")} AS last_day, {numbered("k.severity", SEVERITIES)} AS code,
  COALESCE(s.n_attempts, 0) AS n_attempts, {_days("s.last_visit")} AS visit_day,
  {_days("s.settled")} AS settled_day,
  CASE WHEN o.closed_at < $date_to::TIMESTAMP THEN {_days("o.closed_at")} END AS closed_day,
  CASE WHEN o.closed_at < $date_to::TIMESTAMP THEN {defect} END AS defect
FROM cases k JOIN heard h USING (case_id) LEFT JOIN seen s USING (complaint_id)
  LEFT JOIN outcomes o USING (complaint_id)
ORDER BY k.began, k.complaint_id"""


_REPORTS = f"""
WITH own AS ({reports()}
), cases AS ({cases()})
SELECT k.complaint_id, {_days("own.received_at")} AS day
FROM own JOIN cases k USING (case_id) ORDER BY own.received_at, own.complaint_id"""

_VISITS = f"""
SELECT v.complaint_id, {_days("v.visited_at")} AS day,
  {numbered("v.result", VISIT_RESULTS)} AS result
FROM visits v JOIN complaints c USING (complaint_id)
WHERE {KNOWN} AND v.{_VISITED} ORDER BY v.visited_at, v.complaint_id"""


def _fields(records: Records, name: str, domain: str) -> dict[str, bool]:
    """Columns of its own that a domain has in a table, and whether each says yes or no."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(table_path(records.folder, name, domain))
    own = [column for column in schema.names if column not in TABLES[name].column_names]
    return {column: pa.types.is_boolean(schema.field(column).type) for column in own}


def _encoded(texts: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Position of every text among the different ones, and those; UNKNOWN for none."""
    coded = texts.combine_chunks().dictionary_encode()
    index = np.nan_to_num(to_array(coded.indices), nan=UNKNOWN).astype(np.int64)
    return index, to_array(coded.dictionary)


def _places(names: pa.ChunkedArray, place: dict[str, int]) -> np.ndarray:
    return np.array([place.get(name, UNKNOWN) for name in names.to_pylist()], np.int64)
