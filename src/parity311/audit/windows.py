"""What the paper's own gate counts: reports, duplicates of a tract-week, service, by four weeks.

The audit itself never reads these; they are kept so that the published rule can be shown beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import LiteralString

import numpy as np
import pyarrow as pa

from parity311.records.cases import reports, service_level
from parity311.records.store import Records

COLUMNS = ("n_complaints", "n_repeats", "n_served", "n_not_due")

_LEVEL = service_level("severity")
IS_DUE = f"received_at + to_seconds(CAST({_LEVEL} * 86400 AS BIGINT)) <= $records_end::TIMESTAMP"
"""SQL of whether a report's service level had passed when the records end."""


def counted_cases(estimand: str) -> LiteralString:
    """SQL of the cases among the reports that count under the estimand."""
    in_time = f"date_diff('second', received_at, v.visited_at) / 86400.0 <= {_LEVEL}"
    condition: dict[str, LiteralString] = {
        "served": f"v.result = 'violation' AND {in_time}",
        "visited": f"v.result <> 'no_access' AND {in_time}",
        "enforced": "v.result = 'violation'",
    }
    return f"""SELECT DISTINCT r.case_id FROM reports r JOIN visits v USING (complaint_id)
  WHERE {condition[estimand]}"""


def _windows_query(estimand: str) -> LiteralString:
    return f"""
WITH reports AS (
  {reports("c.*, date_diff('day', $date_from::TIMESTAMP, received_at) AS day")}
), firsts AS (
  SELECT *, row_number() OVER (PARTITION BY case_id ORDER BY received_at, complaint_id) = 1
      AS is_first,
    row_number() OVER (PARTITION BY case_id, tract, "day" // 7
      ORDER BY received_at, complaint_id) > 1 AS is_repeat, {IS_DUE} AS is_due
  FROM reports
), counted AS (
  {counted_cases(estimand)}
)
SELECT f.tract, f."day" // 28 AS "window",
  count(*) FILTER (WHERE is_due) AS n_complaints,
  count(*) FILTER (WHERE is_due AND is_repeat) AS n_repeats,
  count(*) FILTER (WHERE is_due AND is_first AND c.case_id IS NOT NULL) AS n_served,
  count(*) FILTER (WHERE NOT is_due) AS n_not_due
FROM firsts f LEFT JOIN counted c USING (case_id)
WHERE f.received_at >= $date_from::TIMESTAMP GROUP BY ALL ORDER BY ALL"""


@dataclass(frozen=True)
class Windows:
    """Counts by four weeks and tract, (n_windows, n_tracts) each."""

    n_complaints: np.ndarray
    """Reports received (the paper's C)"""
    n_repeats: np.ndarray
    """Of those, reports of an incident already logged in the same tract-week (D)"""
    n_served: np.ndarray
    """Cases first reported in the window that count under the estimand (n)"""
    n_not_due: np.ndarray
    """Reports left out of all three: their service level had not passed when the records end"""

    @property
    def complete(self) -> np.ndarray:
        """Indices of the windows from which nothing was left out; of all, where there is none."""
        whole = np.flatnonzero(self.n_not_due.sum(axis=1) == 0)
        return whole if len(whole) else np.arange(len(self.n_complaints))


def read_windows(
    records: Records,
    domain: str,
    geoid: np.ndarray,
    *,
    date_from: date,
    date_to: date,
    estimand: str,
) -> Windows:
    """Count the records of a domain by whole windows of four weeks from the first day on."""
    table = records.sql(
        _windows_query(estimand),
        domain=domain,
        date_from=date_from,
        date_to=date_to,
        records_end=records.window[1],
    )
    return windows_from_table(table, geoid, max((date_to - date_from).days // 28, 1))


def windows_from_table(table: pa.Table, geoid: np.ndarray, n_windows: int | None = None) -> Windows:
    """Arrays from a table of tract, window and counts; rows of unknown tracts are left out."""
    index = {name: i for i, name in enumerate(geoid)}
    tract = np.array([index.get(name, -1) for name in table["tract"].to_pylist()], np.int64)
    window = table["window"].to_numpy(zero_copy_only=False).astype(np.int64)
    n_windows = int(window.max(initial=0)) + 1 if n_windows is None else n_windows
    use = (tract >= 0) & (window < n_windows)
    counts = []
    for name in COLUMNS:
        total = np.zeros((n_windows, len(geoid)))
        values = table[name].to_numpy(zero_copy_only=False).astype(np.float64)
        np.add.at(total, (window[use], tract[use]), values[use])
        counts.append(total)
    return Windows(*counts)


def table_from_windows(windows: Windows, geoid: np.ndarray) -> pa.Table:
    """The table `audit_windows` that a run stores."""
    window, tract = np.nonzero(windows.n_complaints + windows.n_not_due)
    columns = {
        "tract": pa.array(geoid[tract].tolist(), pa.string()),
        "window": pa.array(window.astype(np.int64)),
    }
    counts = {name: pa.array(getattr(windows, name)[window, tract]) for name in COLUMNS}
    return pa.table(columns | counts)
