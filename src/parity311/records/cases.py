"""What a case is on record, as pieces of SQL: the reports the agency linked to one incident.

Every piece is point-in-time: what was received, visited or closed on or after ``$date_to`` is not
read. In all of them `c` is a complaint and `t` its tract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, LiteralString

import numpy as np

from parity311.errors import EstimationError
from parity311.records.schema import SERVICE_LEVEL_DAYS
from parity311.records.sql import Value, branches, literal
from parity311.records.store import Records

if TYPE_CHECKING:
    import pyarrow as pa

CASE_ID = "COALESCE(c.incident_id, c.complaint_id)"
"""The case of a complaint: a report that was linked to no other is a case of its own."""

STRATUM = "CASE WHEN t.income_quintile BETWEEN 1 AND 5 THEN t.income_quintile - 1 ELSE 5 END"
"""The stratum of a tract: income quintiles from 0 on, then tracts without a published income."""

CUT_OFF = "INTERVAL 1 MICROSECOND PRECEDING"
"""The last moment a trailing window may look at."""

KNOWN = "c.domain = $domain AND c.received_at < $date_to::TIMESTAMP"
"""Reports of a domain that came before the last day."""

FIRST_VISITS = """
  SELECT complaint_id, min(visited_at) AS visited_at, arg_min(result, visited_at) AS result
  FROM visits WHERE visited_at < $date_to::TIMESTAMP GROUP BY complaint_id"""
"""First visit to every complaint, and what it brought."""

LAST_HEARD = """
  SELECT k.case_id, max(own.received_at) AS last_heard
  FROM cases k JOIN first_visits v USING (complaint_id) JOIN own ON own.case_id = k.case_id
  WHERE own.received_at < v.visited_at GROUP BY k.case_id"""
"""Latest report of every visited case before its first visit; over the tables named in it."""

FEWEST_CASES = 200
"""Cases below which a queue or a backlog cannot be estimated (assumed: fifty for each severity
code, three for each kind of complaint)."""


def reports(columns: LiteralString = "c.*", joins: LiteralString = "") -> LiteralString:
    """SQL of a domain's reports before the last day, each with its case."""
    return f"SELECT {columns}, {CASE_ID} AS case_id FROM complaints c {joins} WHERE {KNOWN}"


def cases(*columns: LiteralString) -> LiteralString:
    """SQL of the cases among the reports `own`, with these columns of the first report.

    Add HAVING to leave out the cases that began before a day.
    """
    chosen = "".join(f", arg_min({name}, received_at) AS {name}" for name in columns)
    return f"""
  SELECT case_id, min(received_at) AS began, count(*) AS n_reports,
    arg_min(complaint_id, received_at) AS complaint_id{chosen}
  FROM own GROUP BY case_id"""


def numbered(
    column: LiteralString,
    values: Iterable[str] | Mapping[str, float],
    otherwise: Value | None = None,
) -> LiteralString:
    """SQL of a text as a number: its place among the values, or what the mapping says."""
    rest = "" if otherwise is None else f"ELSE {literal(otherwise)} "
    return f"(CASE {column} {branches(values)} {rest}END)"


def service_level(column: LiteralString) -> LiteralString:
    """SQL of the days within which a visit to a case of this severity counts."""
    return numbered(column, SERVICE_LEVEL_DAYS)


def column(rows: pa.Table, name: str, kind: type = np.float64) -> np.ndarray:
    """One column as an array; nulls become NaN."""
    return to_array(rows[name].combine_chunks()).astype(kind)


def to_array(values: pa.Array) -> np.ndarray:
    """What pyarrow's `to_numpy` gives, which imports pandas (a quarter of a second) to give it."""
    import pyarrow as pa

    if pa.types.is_string(values.type):
        return np.array(values.to_pylist(), object)
    if pa.types.is_boolean(values.type) and not values.null_count:
        return to_array(values.cast(pa.uint8())).astype(bool)
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if not is_number or not len(values):
        return values.to_numpy(zero_copy_only=False)
    kind = np.dtype(values.type.to_pandas_dtype())
    found = np.frombuffer(values.buffers()[1], kind)[values.offset :][: len(values)]
    return np.where(to_array(values.is_null()), np.nan, found) if values.null_count else found


def check_enough(
    records: Records,
    domain: str,
    n: int,
    dates: tuple[date, date],
    fewest: int = FEWEST_CASES,
    what: str = "cases of",
) -> None:
    """Refuse an estimate from too few rows."""
    if n < fewest:
        raise EstimationError(
            f"{records.folder} has {n} {what} {domain!r} from {dates[0]} to {dates[1]}; at least "
            f"{fewest} are needed, give more months."
        )


def count_visits(records: Records, domain: str, date_from: date, date_to: date) -> int:
    """Visits made to a domain's complaints in [date_from, date_to)."""
    found = records.sql(
        """
SELECT count(*) AS n FROM visits v JOIN complaints c USING (complaint_id)
WHERE c.domain = $domain AND v.visited_at >= $date_from::TIMESTAMP
  AND v.visited_at < $date_to::TIMESTAMP""",
        domain=domain,
        date_from=date_from,
        date_to=date_to,
    )
    return int(found["n"][0].as_py())
