"""What an audit counts: cases by tract, month, severity, channel and language.

Cells are read from records, or from the table `audit_cells` of a run, so that an audit can be
repeated from the run alone.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date
from typing import LiteralString

import numpy as np
import pyarrow as pa

from parity311.audit.spec import ESTIMANDS
from parity311.audit.strata import AuditPlaces, places_from_tables
from parity311.audit.windows import IS_DUE, Windows, counted_cases, read_windows
from parity311.errors import EstimationError, InputError, RunError, unknown_name
from parity311.records.cases import reports
from parity311.records.schema import SEVERITIES
from parity311.records.sql import identifier
from parity311.records.store import Records

COUNTS = ("n_complaints", "n_cases", "n_served", "n_accessed", "n_found", "n_located")
MOSTLY_UNDATED = 0.5
"""Share of violations without a day from which on nothing is said of who was served in time."""
LOST = -1
"""Index of a tract that is not in the tracts table: such cases are counted as lost in the join."""


@dataclass(frozen=True)
class AuditCells:
    """Counts in long form, arrays of length n_cells."""

    tract: np.ndarray
    """Index into the places; `LOST` where a case's tract is not among them."""
    month: np.ndarray
    """Months since the first one."""
    severity: np.ndarray
    """Index into A … D."""
    channel: np.ndarray
    language: np.ndarray
    n_complaints: np.ndarray
    """Reports received, duplicates included, by their own place and code."""
    n_cases: np.ndarray
    """Cases first reported, by the first report's place and code."""
    n_served: np.ndarray
    """Cases that count under the estimand."""
    n_accessed: np.ndarray
    """Cases where somebody got in, at any time."""
    n_found: np.ndarray
    """Of those, cases where a violation was found."""
    n_located: np.ndarray
    """Cases joined to a building."""

    @property
    def n_months(self) -> int:
        """Number of months."""
        return int(self.month.max()) + 1 if len(self.month) else 0

    def take(self, rows: np.ndarray) -> AuditCells:
        """The cells of these rows."""
        return AuditCells(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class AuditInputs:
    """Everything the audit of one domain under one policy needs."""

    domain: str
    policy: str
    """Whose decisions these are; `recorded` for what the records say happened."""
    places: AuditPlaces
    cells: AuditCells
    incident_draws: np.ndarray | None
    """(D, n_tracts) joint draws of estimated incidents over the same days; None without them."""
    date_from: date
    date_to: date
    n_not_due: int = 0
    """Cases left out because their service level had not passed when the records end."""
    setting: str = ""
    """Which city or records these are, where a run holds several."""
    windows: Windows | None = None
    """What the paper's own gate counts; None where it was not kept."""


def read_inputs(
    records: Records,
    domain: str,
    *,
    date_from: date,
    date_to: date,
    incident_draws: np.ndarray | None = None,
    estimand: str = "served",
    policy: str = "recorded",
    setting: str = "",
) -> AuditInputs:
    """Count what the records say of one domain between two days.

    A case whose service level ends after the records do is left out, served or not, and counted;
    estimated incidents are scaled by the share of cases that are due. ``incident_draws`` is
    (any, n_tracts) in the order of the tracts table.
    """
    counted = [name for name in ESTIMANDS if name != "as_given"]
    if estimand not in counted:
        raise unknown_name("estimand of records", estimand, counted)
    if domain not in records.domains:
        raise unknown_name("domain", domain, records.domains)
    if date_to <= date_from:
        raise InputError(f"The audit runs from {date_from} to {date_to}; the second must be later.")
    places = read_places(records)
    table = records.sql(
        _cells_query(estimand),
        domain=domain,
        date_from=date_from,
        date_to=date_to,
        records_end=records.window[1],
    )
    if table.num_rows == 0:
        raise EstimationError(
            f"No complaints of {domain!r} were received from {date_from} to {date_to}; choose "
            f"dates within {records.window[0]} to {records.window[1]}."
        )
    is_due = table["is_due"].to_numpy(zero_copy_only=False).astype(bool)
    cells = cells_from_table(table, places)
    n_all, n_due = cells.n_cases.sum(), cells.n_cases[is_due].sum()
    draws = None
    if incident_draws is not None:
        if incident_draws.ndim != 2 or incident_draws.shape[1] != places.n_tracts:
            raise InputError(
                f"The draws of estimated incidents have shape {incident_draws.shape}; they need "
                f"one column for each of the {places.n_tracts} tracts."
            )
        draws = np.asarray(incident_draws, dtype=float) * (n_due / n_all if n_all else 1.0)
    due, n_not_due = cells.take(is_due), int(n_all - n_due)
    windows = read_windows(
        records, domain, places.geoid, date_from=date_from, date_to=date_to, estimand=estimand
    )
    return AuditInputs(
        domain, policy, places, due, draws, date_from, date_to, n_not_due, setting, windows
    )


def count_undated(records: Records, domain: str, date_from: date, date_to: date) -> int:
    """Violations found on a day that imported records do not tell: nobody knows if it was in time.

    Where those are most of all that were found, a share served in time would be the records' gap,
    not the agency's: that is an error.
    """
    if not records.is_real:
        return 0
    row = records.sql(
        """
SELECT count(*) AS n, count(*) FILTER (WHERE v.complaint_id IS NULL) AS undated
FROM complaints c JOIN outcomes o USING (complaint_id)
  LEFT JOIN (SELECT DISTINCT complaint_id FROM visits) v USING (complaint_id)
WHERE c.domain = $domain AND o.disposition_class = 'violation'
  AND c.received_at >= $date_from::TIMESTAMP AND c.received_at < $date_to::TIMESTAMP""",
        domain=domain,
        date_from=date_from,
        date_to=date_to,
    ).to_pylist()[0]
    n, undated = int(row["n"]), int(row["undated"])
    if undated > MOSTLY_UNDATED * n:
        raise EstimationError(
            f"On which day inspectors found a violation is not known for {undated:,} of {n:,} of "
            f"{domain!r}, so nobody can say who was served in time; give days of inspections or of "
            "closings, or audit a table with a column 'served' (`parity311 audit TABLE.csv`)."
        )
    return undated


def read_places(records: Records) -> AuditPlaces:
    """Read the tracts of a records folder with their dwellings.

    Where the records know no dwellings of buildings at all (an import without a lot file), the
    occupied dwellings that the Census counts stand for them.
    """
    units = records.sql("SELECT tract, sum(units)::DOUBLE AS units FROM buildings GROUP BY tract")
    dwellings = dict(zip(units["tract"].to_pylist(), units["units"].to_pylist(), strict=True))
    tracts = records.table("tracts")
    if not any(dwellings.values()):
        households = (float(n or 0) for n in tracts["households"].to_pylist())
        dwellings = dict(zip(tracts["geoid"].to_pylist(), households, strict=True))
    return places_from_tables(tracts, dwellings)


def cells_from_table(table: pa.Table, places: AuditPlaces) -> AuditCells:
    """Turn a table of counts (from SQL, or `audit_cells` of a run) into arrays."""
    missing = [
        name
        for name in ("tract", "month", "severity", "channel", "language", *COUNTS)
        if name not in table.column_names
    ]
    if missing:
        raise RunError(
            f"The table of audit cells lacks {', '.join(missing)}; make the run again with this "
            "version."
        )
    index = {name: i for i, name in enumerate(places.geoid)}
    severity = {code: i for i, code in enumerate(SEVERITIES)}

    def floats(name: str) -> np.ndarray:
        return table[name].cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)

    def texts(name: str) -> np.ndarray:
        return np.asarray(table[name].to_pylist(), dtype=object)

    return AuditCells(
        tract=np.array([index.get(name, LOST) for name in table["tract"].to_pylist()], np.int64),
        month=floats("month").astype(np.int64),
        severity=np.array([severity[code] for code in table["severity"].to_pylist()], np.int64),
        channel=texts("channel"),
        language=texts("language"),
        **{name: floats(name) for name in COUNTS},
    )


def table_from_cells(cells: AuditCells, places: AuditPlaces) -> pa.Table:
    """The table `audit_cells` that a run stores."""
    geoid = np.array([*places.geoid, None], dtype=object)  # index LOST picks the last entry
    columns = {
        "tract": pa.array(geoid[cells.tract].tolist(), pa.string()),
        "month": pa.array(cells.month),
        "severity": pa.array(np.array(SEVERITIES, object)[cells.severity].tolist(), pa.string()),
        "channel": pa.array(cells.channel.tolist(), pa.string()),
        "language": pa.array(cells.language.tolist(), pa.string()),
    }
    return pa.table({**columns, **{name: pa.array(getattr(cells, name)) for name in COUNTS}})


def _cells_query(estimand: str) -> LiteralString:
    """SQL: one row a tract, month, severity, channel, language and whether the cases are due."""
    return f"""
WITH reports AS (
  {reports(f"c.*, date_diff('month', $date_from::DATE, received_at) AS month, {IS_DUE} AS is_due")}
), firsts AS (
  SELECT * FROM reports
  QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY received_at, complaint_id) = 1
), seen AS (
  SELECT r.case_id, bool_or(v.result <> 'no_access') AS accessed,
    bool_or(v.result = 'violation') AS found
  FROM visits v JOIN reports r USING (complaint_id) GROUP BY r.case_id
), counted AS (
  {counted_cases(estimand)}
), cases AS (
  SELECT f.*, (c.case_id IS NOT NULL)::INT AS served, COALESCE(s.accessed, false)::INT AS accessed,
    COALESCE(s.found, false)::INT AS found, (f.building_id IS NOT NULL)::INT AS located
  FROM firsts f LEFT JOIN counted c USING (case_id) LEFT JOIN seen s USING (case_id)
), counts AS (
  SELECT tract, "month", severity, channel, language, is_due, 1 AS n_complaints, 0 AS n_cases,
    0 AS n_served, 0 AS n_accessed, 0 AS n_found, 0 AS n_located
  FROM reports WHERE received_at >= $date_from::TIMESTAMP
  UNION ALL
  SELECT tract, "month", severity, channel, language, is_due, 0, 1, served, accessed, found, located
  FROM cases WHERE received_at >= $date_from::TIMESTAMP
)
SELECT tract, "month", severity, channel, language, is_due,
  {", ".join(f"sum({name})::DOUBLE AS {name}" for name in map(identifier, COUNTS))}
FROM counts GROUP BY ALL ORDER BY ALL"""
