"""Who reports how readily, what intake knows, and what filings show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from parity311.city.measures import City, Measures

_ROWS_FOR_AUC = 60_000


def measure_reporting(city: City) -> Measures:
    """Figures of reporting (from the truth), intake and filings."""
    found: Measures = {}
    if city.has("heat"):
        found |= _heat_reporting(city) | _intake(city)
    if city.has("boiler"):
        found |= _filings(city)
    return found


def _heat_reporting(city: City) -> Measures:
    per_case = city.rows("""
SELECT count(*) / count(DISTINCT incident_id) FROM complaints WHERE domain = 'heat'""")[0][0]
    found = {"reporting/per_case": per_case, "reporting/sd": _tract_sd(city)}
    ratio = city.rows("""
SELECT exp(sum(log_rate * households) FILTER (income_quintile = 5)
    / sum(households) FILTER (income_quintile = 5)
  - sum(log_rate * households) FILTER (income_quintile = 1)
    / sum(households) FILTER (income_quintile = 1))
FROM (SELECT tract, ln(true_rate_per_day) AS log_rate FROM true_reporting
  WHERE domain = 'heat') JOIN tracts ON geoid = tract""")[0][0]
    found["reporting/ratio"] = ratio
    return found


def _tract_sd(city: City) -> float:
    """Sd of log reporting rate between tracts, from reports after the first while unvisited.

    Moment estimator of the between-tract variance that takes out everything within tracts:
    (Σ over tracts of (Σ d)² − Σ d²) / (the same of the expected counts), d = reports less expected.
    """
    first, last = city.records.window
    rows = city.columns(
        """
WITH exposed AS (
  SELECT true_incident_id, tract, first_reported_at AS began,
    least(natural_end_at, COALESCE(first_visit_at, natural_end_at), $last::TIMESTAMP) AS ended
  FROM true_heat_incidents WHERE first_reported_at >= $first::TIMESTAMP)
SELECT exposed.tract, epoch(ended - began) / 86400.0 AS days,
  count(*) FILTER (c.received_at > began AND c.received_at < ended) AS further
FROM exposed JOIN true_heat_reports USING (true_incident_id)
JOIN complaints c USING (complaint_id) GROUP BY true_incident_id, exposed.tract, began, ended
HAVING ended > began""",
        first=first,
        last=last,
    )
    days, further = rows["days"].astype(np.float64), rows["further"].astype(np.float64)
    _, tract = np.unique(rows["tract"], return_inverse=True)
    expected = further.sum() / days.sum() * days
    beyond = further - expected
    between = np.bincount(tract, beyond) ** 2 - np.bincount(tract, beyond**2)
    scale = np.bincount(tract, expected) ** 2 - np.bincount(tract, expected**2)
    return float(np.sqrt(np.log1p(max(between.sum() / scale.sum(), 0.0))))


def _intake(city: City) -> Measures:
    wide = city.rows("""
SELECT avg(is_building_wide::INT) FROM complaints WHERE domain = 'heat'""")[0][0]
    rows = city.columns("""
SELECT c.severity, c.is_building_wide, c.is_no_heat, i.is_actionable, c.n_before
FROM (SELECT *, row_number() OVER (PARTITION BY building_id ORDER BY received_at) - 1 AS n_before
  FROM complaints WHERE domain = 'heat') c
JOIN true_heat_reports USING (complaint_id)
JOIN true_heat_incidents i USING (true_incident_id)
WHERE c.incident_id = c.complaint_id ORDER BY c.complaint_id""")
    step = max(len(rows["severity"]) // _ROWS_FOR_AUC, 1)
    rows = {name: values[::step] for name, values in rows.items()}
    features = np.column_stack(
        [rows["severity"] == code for code in ("A", "B", "C")]
        + [rows["is_building_wide"], rows["is_no_heat"], np.log1p(rows["n_before"])]
    ).astype(np.float64)
    auc = cross_auc(features, rows["is_actionable"].astype(np.bool_))
    return {"intake/building_wide": wide, "intake/auc": auc}


def cross_auc(features: NDArray[np.float64], label: NDArray[np.bool_]) -> float:
    """AUC of a logistic fit to even rows on odd rows."""
    design = np.column_stack([np.ones(len(features)), features])
    weights = np.zeros(design.shape[1])
    train, target = design[::2], label[::2].astype(np.float64)
    for _ in range(12):
        chance = 1.0 / (1.0 + np.exp(-train @ weights))
        curvature = train.T @ (train * (chance * (1.0 - chance))[:, None])
        ridge = 1e-6 * np.eye(len(weights)) * len(train)
        weights = weights + np.linalg.solve(curvature + ridge, train.T @ (target - chance))
    ranks, positive = rankdata(design[1::2] @ weights), label[1::2]
    n_positive, n_negative = positive.sum(), (~positive).sum()
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    above = ranks[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * n_negative))


def _filings(city: City) -> Measures:
    found: Measures = {}
    for year, count in city.rows("""
SELECT year(received_at), count(*) FROM complaints WHERE domain = 'boiler' GROUP BY ALL"""):
        found[f"filings/{year}"] = count / city.scale
    first, last = city.records.manifest["filings_from"], city.records.window[1].isoformat()
    if (first, last) == ("2017-01-01", "2026-04-01"):
        query = "SELECT count(*) FROM complaints WHERE domain = 'boiler'"
        found["filings/all"] = city.rows(query)[0][0] / city.scale
    found["filings/defect"] = city.rows("""
SELECT avg(defect_found::INT) FROM outcomes JOIN complaints USING (complaint_id)
WHERE domain = 'boiler'""")[0][0]
    for years, share in city.rows("""
SELECT year - before AS years, avg(defect::INT) FROM (
  SELECT equipment_id, year(received_at) AS year, defect_found AS defect,
    max(CASE WHEN defect_found THEN year(received_at) END) OVER (PARTITION BY equipment_id
      ORDER BY received_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM complaints JOIN outcomes USING (complaint_id) WHERE domain = 'boiler')
WHERE before IS NOT NULL GROUP BY ALL HAVING count(*) >= 200"""):
        found[f"filings/after/{years}"] = share
    return found
