"""What a policy would really have found on a synthetic city's cases: to hold a backtest against.

A case that was not visited is given the wait of a visited one of its severity code; whether the
incident was then still there and actionable is known to a synthetic city, and that a visit to one
that is gets in and is written up has the rate of the visits that were made. Nothing that trains,
and no estimator, reads this.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from parity311.engines.stream.process import SEVERITY_WEIGHTS
from parity311.evaluation.off_policy.logs import outcomes_by_stratum
from parity311.evaluation.off_policy.records import AgencyLog
from parity311.evaluation.off_policy.visits import LineLog
from parity311.records.cases import service_level
from parity311.records.schema import SEVERITIES
from parity311.records.sql import connect
from parity311.records.store import open_records
from parity311.records.truth import open_truth

N_WAITS = 40
"""Waits that stand for the distribution of a code's."""


def true_recorded_value(
    city: Path, domain: str, log: AgencyLog, escalation: np.ndarray, preference: np.ndarray
) -> dict[str, np.ndarray | float]:
    """Value of a policy, per case, under the truth.

    Parameters
    ----------
    escalation
        (1, E, 1, 2) chances as `escalation_chances` gives them.
    """
    chance = find_chances(city, domain, log)
    visit = escalation[0, :, 0, 1]
    code = log.code
    weight = np.array(SEVERITY_WEIGHTS)[::-1][code]
    action = log.logs.action[0, :, 0]
    attempts = log.logs.outcome[0, :, 0, -1][action == 1]
    gain = preference[0] * weight * chance / log.speed_unit
    gain = gain - preference[1] * attempts.mean() / log.visits_per_found
    by_stratum = outcomes_by_stratum(visit * gain, log.stratum).mean(axis=0)
    return {
        "reward": by_stratum,
        "correct": float((visit * chance).mean()),
        "visits": float(visit.mean() * attempts.mean()),
    }


def find_chances(city: Path, domain: str, log: AgencyLog) -> np.ndarray:
    """Chance (E,) that escalating a case finds a violation within its service level."""
    rows = _read(city, domain, log)
    is_visited = np.isfinite(rows["wait"])
    wanted = rows["level"]
    chance = np.zeros(len(log.code))
    in_time = is_visited & (rows["wait"] <= wanted)
    there = in_time & (rows["lasts"] > rows["wait"]) & (rows["is_actionable"] > 0)
    written = rows["is_found"][there].mean() if there.any() else 0.0
    for code in range(len(SEVERITIES)):
        mine = log.code == code
        waits = rows["wait"][mine & in_time]
        if not mine.any() or not len(waits):
            continue
        typical = np.quantile(waits, (np.arange(N_WAITS) + 0.5) / N_WAITS)
        alive = (rows["lasts"][mine][:, None] > typical).mean(axis=1)
        chance[mine] = alive * rows["is_actionable"][mine] * written
    return chance


def true_findings(city: Path, domain: str, log: LineLog, chances: np.ndarray) -> float:
    """Violations in time that a policy's visits would really find, per visit made.

    `chances` (1, n, 1, 2) are those of `visit_chances`. Whether the incident was there on the
    morning is known; that a visit gets in and writes it up has the rate of the visits made.
    """
    cases = [one.cases for one in log.mornings]
    join = lambda get: np.concatenate([get(one) for one in cases])  # noqa: E731
    ids = join(lambda one: one.complaint_id).astype(str)
    days = np.repeat([one.day for one in log.mornings], [one.n for one in cases])
    records, happened = open_records(city), open_truth(city)
    connection = connect()
    connection.register("wanted", pa.table({"complaint_id": np.unique(ids)}))
    connection.register("incidents", happened.table("incidents", domain))
    connection.register("linked", happened.table("reports", domain))
    connection.register("complaints", records.table("complaints", domain))
    found = connection.sql(f"""
SELECT complaint_id, epoch(natural_end_at) / 86400.0 AS ends, CAST(is_actionable AS INT) AS is_it,
  epoch(c.received_at) / 86400.0 + {service_level("c.severity")} AS until
FROM wanted JOIN complaints c USING (complaint_id) JOIN linked USING (complaint_id)
  JOIN incidents USING (true_incident_id)""").fetchnumpy()
    order = {name: i for i, name in enumerate(found["complaint_id"])}
    rows = np.array([order[name] for name in ids])
    ends, is_it, until = (np.asarray(found[name])[rows] for name in ("ends", "is_it", "until"))
    is_there = (ends > days) & (is_it > 0) & (days <= until)
    went = log.logs.action[0, :, 0] == 1
    found_in_time = np.concatenate([one.is_found for one in log.mornings])
    written = found_in_time[went & is_there].mean() if (went & is_there).any() else 0.0
    return float((chances[0, :, 0, 1] * is_there).sum() * written / went.sum())


def _read(city: Path, domain: str, log: AgencyLog) -> dict[str, np.ndarray]:
    """Wait, service level, days the incident still lasted, actionability and finding of each case.

    Filings have no incident that ends by itself; a defect stays until it is dealt with.
    """
    records = open_records(city)
    connection = connect()
    connection.register("wanted", pa.table({"complaint_id": log.complaint_id}))
    connection.register("complaints", records.table("complaints", domain))
    connection.register("visits", records.table("visits", domain))
    if domain == "boiler":
        connection.register("outcomes", records.table("outcomes", domain))
        truth = """SELECT complaint_id, CAST(COALESCE(defect_found, false) AS INT) AS is_actionable,
          TIMESTAMP '2999-01-01' AS natural_end_at FROM outcomes"""
    else:
        happened = open_truth(city)
        connection.register("incidents", happened.table("incidents", domain))
        connection.register("linked", happened.table("reports", domain))
        truth = """SELECT complaint_id, CAST(is_actionable AS INT) AS is_actionable, natural_end_at
          FROM linked JOIN incidents USING (true_incident_id)"""
    found = connection.sql(f"""
WITH truth AS ({truth}), seen AS (
  SELECT complaint_id, min(v.visited_at) AS first_at,
    max(CAST(v.result = 'violation' AND v.visited_at <= c.received_at
      + {service_level("c.severity")} * INTERVAL 1 DAY AS INT)) AS is_found
  FROM visits v JOIN complaints c USING (complaint_id) GROUP BY 1)
SELECT w.complaint_id, epoch(s.first_at - c.received_at) / 86400.0 AS wait,
  {service_level("c.severity")} AS level,
  epoch(t.natural_end_at - c.received_at) / 86400.0 AS lasts,
  t.is_actionable, COALESCE(s.is_found, 0) AS is_found
FROM wanted w JOIN complaints c USING (complaint_id) LEFT JOIN truth t USING (complaint_id)
  LEFT JOIN seen s USING (complaint_id)""").fetchnumpy()
    order = {name: i for i, name in enumerate(found["complaint_id"])}
    rows = np.array([order[name] for name in log.complaint_id])
    return {
        name: np.ma.filled(np.ma.asarray(values, np.float64), np.nan)[rows]
        for name, values in found.items()
        if name != "complaint_id"
    }
