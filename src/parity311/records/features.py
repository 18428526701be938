"""Features of a complaint as they stood when it came in.

Every feature is a window over what was known strictly before the complaint's own time: reports
received before it, and outcomes closed before it. What was closed later does not exist yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from parity311.errors import InputError
from parity311.records.store import Records

STRICTLY_BEFORE = "INTERVAL 1 MICROSECOND PRECEDING"
"""The cut-off: the last moment a window may look at."""


@dataclass(frozen=True)
class Feature:
    """A running sum over the events of a place, ending at the cut-off."""

    name: str
    event: str
    """What is summed: report, violation, substantive (violation or none found), closing."""
    place: str
    """What the events share: building_id, tract, zip, or domain."""
    window_days: int
    meaning: str


FEATURES: tuple[Feature, ...] = (
    Feature("building_reports_365d", "report", "building_id", 365, "earlier reports there"),
    Feature("building_reports_7d", "report", "building_id", 7, "the same, last week"),
    Feature("building_violations_3y", "violation", "building_id", 1095, "violations known by then"),
    Feature("tract_reports_28d", "report", "tract", 28, "earlier reports, same tract"),
    Feature("tract_violations_3y", "violation", "tract", 1095, "violations known by then"),
    Feature("tract_findings_3y", "substantive", "tract", 1095, "findings known by then"),
    Feature("zip_reports_1d", "report", "zip", 1, "earlier reports, same ZIP, last 24 hours"),
)


def complaint_features(
    records: Records, domain: str, *, before: date | None = None, cut_off: str = STRICTLY_BEFORE
) -> pa.Table:
    """Build the point-in-time features of every complaint of a domain.

    Parameters
    ----------
    records
        A records folder.
    domain
        Slug of the domain.
    before
        Only complaints received, and outcomes closed, before this day; all when not given.
    cut_off
        Upper bound of every window, in SQL; only the test of the cut-off itself changes it.

    Returns
    -------
    Table with complaint_id, received_at, days_since_last_report (null where there is none),
    n_open (reports of the domain not closed at that moment) and one column for each `Feature`,
    ordered by received_at, complaint_id.
    """
    if domain not in records.domains:
        raise InputError(
            f"{records.folder} has no complaints of domain {domain!r}; it has "
            f"{', '.join(records.domains)}."
        )
    return records.sql(features_query(domain, before, cut_off))


def features_query(domain: str, before: date | None, cut_off: str) -> str:
    """The SQL behind `complaint_features`: one pass over a stream of events by place and time."""
    received = f"AND c.received_at < TIMESTAMP '{before}'" if before else ""
    closed = f"AND o.closed_at < TIMESTAMP '{before}'" if before else ""
    windows = ",\n  ".join(_window(feature, cut_off) for feature in FEATURES)
    return f"""
WITH placed AS (
  SELECT c.*, t.zip FROM complaints c LEFT JOIN tracts t ON t.geoid = c.tract
  WHERE c.domain = '{domain}' {received}
), events AS (
  SELECT complaint_id, received_at, received_at AS known_at, building_id, tract, zip,
    1 AS report, 0 AS violation, 0 AS substantive, 0 AS closing
  FROM placed
  UNION ALL
  SELECT NULL, NULL, o.closed_at, c.building_id, c.tract, c.zip, 0,
    CAST(o.disposition_class = 'violation' AS INT),
    CAST(o.disposition_class IN ('violation', 'no_violation') AS INT), 1
  FROM placed c JOIN outcomes o USING (complaint_id)
  WHERE o.closed_at IS NOT NULL {closed}
)
SELECT complaint_id, received_at,
  date_diff('second', max(CASE WHEN report = 1 THEN known_at END) OVER (PARTITION BY building_id
    ORDER BY known_at RANGE BETWEEN UNBOUNDED PRECEDING AND {cut_off}), known_at) / 86400.0
    AS days_since_last_report,
  COALESCE(SUM(report - closing) OVER (ORDER BY known_at
    RANGE BETWEEN UNBOUNDED PRECEDING AND {cut_off}), 0) AS n_open,
  {windows}
FROM events
QUALIFY complaint_id IS NOT NULL
ORDER BY received_at, complaint_id"""


def _window(feature: Feature, cut_off: str) -> str:
    return (
        f"CAST(COALESCE(SUM({feature.event}) OVER (PARTITION BY {feature.place} ORDER BY known_at "
        f"RANGE BETWEEN INTERVAL {feature.window_days} DAY PRECEDING AND {cut_off}), 0) AS INT) "
        f"AS {feature.name}"
    )
