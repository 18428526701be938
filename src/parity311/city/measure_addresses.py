"""Where complaints come from: boroughs, quintiles, tracts, and the same buildings again."""

from __future__ import annotations

from typing import LiteralString

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from parity311.city.measures import BUILDINGS_DEPARTMENT, City, Measures

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
        found[f"correlation/heat/{name}"] = float(spearmanr(rate, values[usable]).statistic)
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
