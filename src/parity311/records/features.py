"""Features of a complaint as they stood when it came in.

Every feature is a window over what was known strictly before the complaint's own time: reports
received before it, and outcomes closed before it. What was closed later does not exist yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import LiteralString

import pyarrow as pa

from parity311.records.absent import no_such_domain
from parity311.records.sql import identifier, literal
from parity311.records.store import Records

STRICTLY_BEFORE = "INTERVAL 1 MICROSECOND PRECEDING"
"""The cut-off: the last moment a window may look at."""


@dataclass(frozen=True)
class Feature:
    """A running sum over the events of a place, ending at the cut-off."""

    name: str
    event: str
    """What is summed: report, violation, substantive (violation or none found)."""
    place: str
    """What the events share: building_id, tract or zip."""
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
    records: Records,
    domain: str,
    *,
    before: date | None = None,
    cut_off: LiteralString = STRICTLY_BEFORE,
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
        raise no_such_domain(records, domain)
    query = features_query(is_cut=before is not None, cut_off=cut_off)
    return records.sql(query, domain=domain, **({"before": before} if before else {}))


def features_query(*, is_cut: bool, cut_off: LiteralString) -> LiteralString:
    """The SQL behind `complaint_features`: windows over three streams of events.

    Reports look back on reports; on findings (closings with or without a violation); and on the
    queue, which is carried over from day to day so that each day is a window of its own.
    """
    received = "AND c.received_at < $before::TIMESTAMP" if is_cut else ""
    closed = "AND o.closed_at < $before::TIMESTAMP" if is_cut else ""

    def windows(*events: str) -> LiteralString:
        chosen = (feature for feature in FEATURES if feature.event in events)
        return ",\n    ".join(_window(feature, cut_off) for feature in chosen)

    return f"""
WITH placed AS (
  SELECT c.complaint_id, c.received_at AS known_at, c.building_id, c.tract, t.zip
  FROM complaints c LEFT JOIN tracts t ON t.geoid = c.tract
  WHERE c.domain = $domain {received}
), closings AS (
  SELECT o.closed_at AS known_at, c.building_id, c.tract, c.zip, o.disposition_class AS class
  FROM placed c JOIN outcomes o USING (complaint_id)
  WHERE o.closed_at IS NOT NULL {closed}
), reports AS (
  SELECT complaint_id, known_at,
    date_diff('second', max(known_at) OVER (PARTITION BY building_id ORDER BY known_at
      RANGE BETWEEN UNBOUNDED PRECEDING AND {cut_off}), known_at) / 86400.0
      AS days_since_last_report,
    {windows("report")}
  FROM placed
), found AS (
  SELECT complaint_id, known_at, building_id, tract, zip, 0 AS violation, 0 AS substantive
  FROM placed
  UNION ALL
  SELECT NULL, known_at, building_id, tract, zip, CAST(class = 'violation' AS INT), 1
  FROM closings WHERE class IN ('violation', 'no_violation')
), findings AS (
  SELECT complaint_id,
    {windows("violation", "substantive")}
  FROM found QUALIFY complaint_id IS NOT NULL
), flow AS (
  SELECT complaint_id, known_at, CAST(known_at AS DATE) AS day, 1 AS change FROM placed
  UNION ALL SELECT NULL, known_at, CAST(known_at AS DATE), -1 FROM closings
), days AS (
  SELECT day, SUM(change) OVER (ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    AS carried
  FROM (SELECT day, SUM(change) AS change FROM flow GROUP BY day)
), queue AS (
  SELECT complaint_id, day, COALESCE(SUM(change) OVER (PARTITION BY day ORDER BY known_at
    RANGE BETWEEN UNBOUNDED PRECEDING AND {cut_off}), 0) AS today
  FROM flow QUALIFY complaint_id IS NOT NULL
)
SELECT complaint_id, known_at AS received_at, days_since_last_report,
  CAST(COALESCE(carried, 0) + today AS BIGINT) AS n_open,
  {", ".join(identifier(feature.name) for feature in FEATURES)}
FROM reports JOIN findings USING (complaint_id) JOIN queue USING (complaint_id)
JOIN days USING (day)
ORDER BY received_at, complaint_id"""


def _window(feature: Feature, cut_off: LiteralString) -> LiteralString:
    # Every row of the stream of reports is one report.
    summed = "COUNT(*)" if feature.event == "report" else f"SUM({identifier(feature.event)})"
    return (
        f"CAST(COALESCE({summed} OVER (PARTITION BY {identifier(feature.place)} ORDER BY known_at "
        f"RANGE BETWEEN INTERVAL {literal(feature.window_days)} DAY PRECEDING AND {cut_off}), 0) "
        f"AS INT) AS {identifier(feature.name)}"
    )
