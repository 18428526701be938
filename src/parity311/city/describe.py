"""Measure a synthetic city and set its figures beside those of New York's records.

Who reports how readily, what intake knows, and what filings show.

Where complaints come from: boroughs, quintiles, tracts, and the same buildings again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from parity311.city.measures import BUILDINGS_DEPARTMENT, City, Measures, measure_service, open_city
from parity311.city.targets import Target, all_targets

_LEAST_RENTERS = 100
"""Renter households below which a tract's rate is too noisy to correlate."""
_QUIET = 8.0
"""Heat complaints a year up to which a building counts as quiet: 50 in six years, as in the
source's lots."""
_YEARS_FOR_NONE = 6.0
"""Years of records that the source of buildings without complaints covers, nearly."""
_UNIT_CLASSES = ((2, 5), (6, 19), (20, 49), (50, 100_000))


def measure_addresses(city: City) -> Measures:
    """Figures by borough, quintile, tract and building."""
    found = _boroughs(city) | _department_tracts(city)
    if city.has("heat") and len(city.years) >= 3:
        found |= _quintiles(city) | _address_years(city) | _buildings(city)
    return found


def _boroughs(city: City) -> Measures:
    found: Measures = {}
    groups: dict[str, LiteralString] = {"heat": "domain = 'heat'", "dob": "is_dob"}
    for name, condition in groups.items():
        if name == "dob" and not city.has(*BUILDINGS_DEPARTMENT):
            continue
        for borough, share in city.rows(f"""
SELECT borough, sum(weight) / sum(sum(weight)) OVER () FROM reported WHERE {condition}
GROUP BY 1"""):
            found[f"borough/{name}/{borough}"] = share
    return found


def _quintiles(city: City) -> Measures:
    """Heat complaints per renter household over the first three years, by income quintile."""
    first = city.years[0]
    columns = city.columns(
        """
SELECT t.*, COALESCE(n, 0) AS n FROM (
  SELECT geoid, income_quintile, households * COALESCE(share_renter, 0) AS renters, median_income,
    share_black, share_hispanic, share_asian, share_bachelors, share_limited_english FROM tracts) t
LEFT JOIN (SELECT tract, count(*) AS n FROM reported
  WHERE domain = 'heat' AND year(received_at) BETWEEN $first AND $first + 2 GROUP BY ALL) r
ON r.tract = t.geoid ORDER BY geoid""",
        first=first,
    )
    found: Measures = {}
    # Growth since 2020-22 would hide the gradient; only the whole period has its level.
    if first == 2020:
        for quintile in range(1, 6):
            inside = columns["income_quintile"] == quintile
            rate = columns["n"][inside].sum() / columns["renters"][inside].sum()
            found[f"quintile/heat/{quintile}"] = 1000.0 * float(rate)
    for name in (
        "median_income", "share_black", "share_hispanic", "share_asian", "share_bachelors",
        "share_limited_english",
    ):  # fmt: skip
        values = np.ma.filled(np.ma.asarray(columns[name], dtype=np.float64), np.nan)
        usable = (columns["renters"] >= _LEAST_RENTERS) & np.isfinite(values)
        rate = columns["n"][usable] / columns["renters"][usable]
        found[f"correlation/heat/{name}"] = float(spearmanr(rate, values[usable]).statistic)  # pyright: ignore[reportAttributeAccessIssue]
    return found


def _department_tracts(city: City) -> Measures:
    if not city.has(*BUILDINGS_DEPARTMENT):
        return {}
    low, high = city.rows("""
SELECT quantile_cont(rate, 0.1), quantile_cont(rate, 0.9) FROM (
  SELECT b.tract, COALESCE(n, 0) / b.units AS rate FROM (
    SELECT tract, sum(units) AS units FROM buildings GROUP BY ALL HAVING sum(units) >= 100) b
  LEFT JOIN (SELECT tract, sum(weight) AS n FROM reported WHERE is_dob GROUP BY ALL) r
  USING (tract))""")[0]
    found = {"tract_ratio/dob": high / low if low else float("nan")}
    if not city.enlarged and city.n_years > _YEARS_FOR_NONE:
        found["buildings/dob/any"] = city.rows("""
SELECT avg((building_id IN (SELECT DISTINCT building_id FROM reported WHERE is_dob))::INT)
FROM buildings WHERE units >= 1""")[0][0]
    return found


def _address_years(city: City) -> Measures:
    """Heat complaints per building and year, over the first three years."""
    first = city.years[0]
    columns = city.columns(
        """
SELECT building_id, year(received_at) AS year, count(*) AS n FROM reported
WHERE domain = 'heat' AND year(received_at) BETWEEN $first AND $first + 2 GROUP BY ALL""",
        first=first,
    )
    counts = np.sort(columns["n"].astype(np.float64))[::-1]
    n, total = len(counts), counts.sum()
    found = {
        "address/top1": counts[: n // 100].sum() / total,
        "address/top10": counts[: n // 10].sum() / total,
        "address/gini": gini(counts),
    }
    # Levels have grown since; only the source's own years compare.
    if first == 2020:
        found["address/count"] = n / city.scale
        for quantile in (50, 75, 90, 95, 99):
            found[f"address/p{quantile}"] = float(np.percentile(counts, quantile))
    _, n_years = np.unique(columns["building_id"], return_counts=True)
    found["address/one_year"] = float((n_years == 1).mean())
    return {name: float(value) for name, value in found.items()}


def gini(counts: NDArray[np.float64]) -> float:
    """Gini coefficient of positive counts."""
    ordered = np.sort(counts)
    n = len(ordered)
    ranks = np.arange(1, n + 1)
    return float(2.0 * (ranks @ ordered) / (n * ordered.sum()) - (n + 1) / n)


def _buildings(city: City) -> Measures:
    """Buildings without complaints, and complaints that follow one another."""
    found: Measures = {}
    reports = city.columns("""
SELECT b.rowid AS building, b.units, epoch(r.received_at) / 86400.0 AS day
FROM reported r JOIN (SELECT *, row_number() OVER (ORDER BY building_id) AS rowid FROM buildings) b
USING (building_id) WHERE r.domain = 'heat' ORDER BY building, day""")
    building, day = reports["building"].astype(np.int64), reports["day"].astype(np.float64)
    if city.n_years > _YEARS_FOR_NONE:
        for least, most in (_UNIT_CLASSES[0], _UNIT_CLASSES[-1]):
            found[f"address/none/{least}"] = (
                1.0
                - city.rows(
                    """
SELECT avg((building_id IN (SELECT DISTINCT building_id FROM reported WHERE domain = 'heat'))::INT)
FROM buildings WHERE units BETWEEN $least AND $most""",
                    least=least,
                    most=most,
                )[0][0]
            )
    _, which, counts = np.unique(building, return_inverse=True, return_counts=True)
    quiet = counts[which] <= _QUIET * city.n_years
    gap = np.where(np.diff(building, prepend=-1) == 0, np.diff(day, prepend=-np.inf), np.inf)
    for days in (1, 7, 14):
        found[f"repeat/{days}"] = float((gap[quiet] <= days).mean())
    return found | _before_violations(city, building, day)


def _before_violations(
    city: City, building: NDArray[np.int64], day: NDArray[np.float64]
) -> Measures:
    """Complaints of a building in the two weeks before a violation was written there."""
    visits = city.columns("""
SELECT b.rowid AS building, b.units, epoch(v.visited_at) / 86400.0 AS day
FROM visits v JOIN complaints c USING (complaint_id)
JOIN (SELECT *, row_number() OVER (ORDER BY building_id) AS rowid FROM buildings) b
USING (building_id)
WHERE c.domain = 'heat' AND v.result = 'violation'""")
    start = day.min() - 1000.0
    # One sortable number per complaint: building first, then time.
    key = building * 1e5 + (day - start)
    at = visits["building"].astype(np.float64) * 1e5 + (visits["day"] - start)
    n_before = np.searchsorted(key, at) - np.searchsorted(key, at - 14.0)
    found: Measures = {}
    for least, most in _UNIT_CLASSES:
        inside = (visits["units"] >= least) & (visits["units"] <= most)
        if inside.any():
            found[f"before/{least}/median"] = float(np.median(n_before[inside]))
            found[f"before/{least}/repeated"] = float((n_before[inside] >= 2).mean())
    return found


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


NOT_APPLICABLE = "not meant to be reached in this scenario"
NOT_MEASURED = "not in these records"

_MEASURES: tuple[Callable[[City], Measures], ...] = (
    measure_service,
    measure_addresses,
    measure_reporting,
)


def describe_city(path: str | Path) -> dict[str, Any]:
    """Return the city's fingerprint and its calibration: every target with what was achieved.

    ``ok`` is None, with a ``note``, where a figure is not in the records (another period, a city
    too small) or is not meant to be reached in the city's scenario.
    """
    city = open_city(Path(path))
    found: Measures = {}
    for measure in _MEASURES:
        found.update(measure(city))
    rows = [_row(target, found.get(target.measure), city) for target in all_targets()]
    judged = [row for row in rows if row["ok"] is not None]
    return {
        "fingerprint": city.records.fingerprint,
        "calibration": rows,
        "n_ok": sum(row["ok"] for row in judged),
        "n_judged": len(judged),
    }


def _row(target: Target, achieved: float | None, city: City) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": target.name,
        "target": float(target.value),
        "achieved": None if achieved is None or not np.isfinite(achieved) else float(achieved),
        "tolerance": target.tolerance,
        "ok": None,
        "source": target.source,
        "kind": target.kind,
    }
    if not target.holds_for(city.participation, city.capacity):
        row["note"] = NOT_APPLICABLE
    elif row["achieved"] is None:
        row["note"] = NOT_MEASURED
    else:
        row["ok"] = bool(target.low <= row["achieved"] <= target.high)
    return row
