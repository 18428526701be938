"""A built city opened for measuring: its records, its truth, and what scales it.

How many complaints, what became of them, and how long it took.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray

from parity311.records.sql import Connection, Value, branches, literal, literals
from parity311.records.store import Records, open_records
from parity311.records.truth import Truth, open_truth

_GROUPS = {
    "building_use": ("45", "73", "31", "35", "49", "55"),
    "construction": ("05", "7J", "83", "04", "65", "86", "91", "37", "09"),
}
"""Codes behind 311's types Building/Use and General Construction/Plumbing (assigned by meaning)."""

_CASE_CODES = ("45", "05", "6S", "7J", "6M", "30", "58", "23", "04", "8A", "7G")


def measure_service(city: City) -> Measures:
    """Volumes, outcomes, access, closing days and calendar profiles."""
    found: Measures = {}
    for part in (_volumes, _outcomes, _categories, _access, _closing, _profiles, _visits):
        found.update(part(city))
    return found


def _volumes(city: City) -> Measures:
    found: Measures = {}
    query = "SELECT domain, year(received_at), sum(weight) / $scale FROM reported GROUP BY ALL"
    counts = city.rows(query, scale=city.scale)
    by_year = {(domain, year): count for domain, year, count in counts}
    for (domain, year), count in by_year.items():
        if year in city.years:
            found[f"volume/{domain}/{year}"] = count
    if city.has(*BUILDINGS_DEPARTMENT):
        for year in city.years:
            found[f"volume/dob/{year}"] = sum(
                by_year.get((domain, year), 0.0) for domain in BUILDINGS_DEPARTMENT
            )
    if city.has("elevator") and set(range(2020, 2026)) <= set(city.years):
        found["volume/elevator/2020-2025"] = sum(
            found[f"volume/elevator/{year}"] for year in range(2020, 2026)
        )
        boards = (
            "SELECT count(DISTINCT community_board) FROM reported r JOIN tracts ON geoid = tract"
        )
        found["volume/boards"] = city.rows(f"{boards} WHERE domain = 'elevator'")[0][0]
    for code in ("23", "30", "45"):
        query = "SELECT sum(weight) FROM reported WHERE category = $code AND is_dob"
        total = city.rows(query, code=code)[0][0]
        if total:
            found[f"volume/category/{code}"] = total / city.scale / city.n_years
    return found | _recent_volumes(city)


def _recent_volumes(city: City) -> Measures:
    """Volumes of periods that are no calendar year."""
    found: Measures = {}
    first, last = city.records.window
    year_before = last - timedelta(days=365)
    if city.has("heat") and last.year >= 2026 and first <= year_before:
        query = "SELECT count(*) FROM reported WHERE domain = 'heat'"
        query += " AND received_at >= $year_before"
        recent = city.rows(query, year_before=year_before)[0][0]
        found["volume/heat/last"] = recent / city.scale
    if 2020 in city.years:
        query = "SELECT sum(weight) FROM reported WHERE is_dob AND category = '2N'"
        covid = city.rows(f"{query} AND year(received_at) = 2020")[0][0]
        found["volume/covid"] = (covid or 0.0) / city.scale
    if city.has("snad") and first.year <= 2024 and last.isoformat() >= "2026-04-01":
        query = (
            "SELECT sum(weight) FROM reported WHERE domain = 'snad' "
            "AND received_at BETWEEN '2024-01-01' AND '2026-04-01'"
        )
        found["volume/snad/2024-2026q1"] = city.rows(query)[0][0] / city.scale
    return found


def _outcomes(city: City) -> Measures:
    found: Measures = {}
    for domain in ("heat", "housing"):
        if not city.has(domain):
            continue
        counts = dict(
            city.rows(
                "SELECT class, count(*) FROM reported WHERE domain = $domain GROUP BY ALL",
                domain=domain,
            )
        )
        closed = sum(count for name, count in counts.items() if name != "pending")
        for name, count in counts.items():
            found[f"outcome/{domain}/{name}"] = count / closed
    if city.has("heat"):
        closed = city.rows("""
SELECT avg((disposition = 'HPD-RESTORED')::INT) FROM reported
WHERE domain = 'heat' AND class <> 'pending'""")
        found["outcome/heat/restored"] = closed[0][0]
        inherited = city.rows("""
SELECT avg((o.disposition_class = 'violation')::INT) FROM complaints c
JOIN outcomes o ON o.complaint_id = c.incident_id WHERE c.domain = 'heat'""")
        found["outcome/heat/inherited"] = inherited[0][0]
    if city.has(*BUILDINGS_DEPARTMENT):
        found |= _department_outcomes(city)
    return found


def _department_outcomes(city: City) -> Measures:
    counts = dict(city.rows("SELECT class, sum(weight) FROM reported WHERE is_dob GROUP BY ALL"))
    total = sum(counts.values())
    found = {f"outcome/dob/{name}": count / total for name, count in counts.items()}
    found["outcome/dob/referral or duplicate"] = (
        counts.get("referral", 0.0) + counts.get("duplicate", 0.0)
    ) / total
    shares = city.rows("""
SELECT sum(weight) FILTER (channel = 'OTHER') / sum(weight),
  sum(weight) FILTER (disposition = 'A8') / sum(weight) FILTER (class = 'violation')
FROM reported WHERE is_dob""")[0]
    found["outcome/dob/agency"], found["outcome/dob/A8"] = shares
    return found


_SEEN = "count(*) FILTER (class IN ('violation', 'no_violation'))"
_ATTENDED = "count(*) FILTER (class IN ('violation', 'no_violation', 'no_access'))"
_VIOLATIONS = "count(*) FILTER (class = 'violation')"
_NO_ACCESS = "count(*) FILTER (class = 'no_access')"


def _categories(city: City) -> Measures:
    found: Measures = {}
    for code, name, share in city.rows(f"""
SELECT category, class, count(*) / sum(count(*)) OVER (PARTITION BY category)
FROM reported WHERE is_dob AND class <> 'pending' AND category IN ({literals(_CASE_CODES)})
GROUP BY 1, 2"""):
        found[f"category/{code}/{name}"] = share
    for code in _CASE_CODES:
        if f"category/{code}/no_violation" in found:
            found.setdefault(f"category/{code}/no_access", 0.0)
    for domain, violation, no_access in city.rows(f"""
SELECT domain, {_VIOLATIONS} / {_SEEN}, {_NO_ACCESS} / {_ATTENDED}
FROM reported WHERE is_dob GROUP BY ALL"""):
        found[f"unit/{domain}/violation"] = violation
        found[f"unit/{domain}/no_access"] = no_access
    return found


def _access(city: City) -> Measures:
    if not city.has(*BUILDINGS_DEPARTMENT):
        return {}
    attended = "sum(weight) FILTER (class IN ('violation', 'no_violation', 'no_access'))"
    share = f"sum(weight) FILTER (class = 'no_access') / {attended}"
    query = f"SELECT borough, {share} FROM reported WHERE is_dob GROUP BY ALL"
    found = {f"access/{borough}": value for borough, value in city.rows(query)}
    found["access/renter"] = city.rows(f"""
SELECT corr(share, share_renter) FROM (
  SELECT tract, COALESCE({share}, 0) AS share FROM reported WHERE is_dob GROUP BY ALL
  HAVING count(*) >= 30) JOIN tracts ON geoid = tract""")[0][0]
    return found


def _closing(city: City) -> Measures:
    found: Measures = {}
    groups: dict[str, LiteralString]
    groups = {"heat": "domain = 'heat'", "elevator": "domain = 'elevator'"}
    groups |= {"scaffold": "domain = 'scaffold'", "ert": "domain = 'ert'"}
    for name, codes in _GROUPS.items():
        groups[name] = f"domain = 'complaint_triage' AND category IN ({literals(codes)})"
    for name in ("UNSANITARY CONDITION", "PLUMBING"):
        groups[name] = f"domain = 'housing' AND category = {literal(name)}"
    for name, condition in groups.items():
        quantiles, mean = city.rows(f"""
SELECT quantile_cont(closing_days, [0.25, 0.5, 0.75, 0.9]),
  avg(closing_days) FILTER (year(received_at) = 2020)
FROM reported WHERE closed_at IS NOT NULL AND {condition}""")[0]
        if quantiles is not None:
            for label, value in zip(("p25", "p50", "p75", "p90"), quantiles, strict=True):
                found[f"closing/{name}/{label}"] = value
        if mean is not None and 2020 in city.years:
            found[f"mean_2020/{name}"] = mean
    return found


def _profiles(city: City) -> Measures:
    found: Measures = {}
    if city.has("heat"):
        for part, name in (("hour", "hour"), ("isodow", "weekday")):
            query = """
SELECT date_part($part, received_at), count(*) / sum(count(*)) OVER () FROM reported
WHERE domain = 'heat' GROUP BY 1"""
            for value, share in city.rows(query, part=part):
                found[f"{name}/heat/{value}"] = share
    # Months compare only over whole years; those of 2020 were not as others.
    groups: dict[str, tuple[LiteralString, list[int]]]
    groups = {"heat": ("domain = 'heat'", list(city.years))}
    if city.has(*BUILDINGS_DEPARTMENT):
        groups["dob"] = ("is_dob", [year for year in city.years if year > 2020])
    for name, (condition, years) in groups.items():
        if not years:
            continue
        query = f"""
SELECT month(received_at), sum(weight) / sum(sum(weight)) OVER () FROM reported
WHERE {condition} AND year(received_at) BETWEEN $first AND $last GROUP BY 1"""
        for value, share in city.rows(query, first=years[0], last=years[-1]):
            found[f"month/{name}/{value}"] = share
    return found


def _visits(city: City) -> Measures:
    """Visits per complaint, over domains that residents report to."""
    n_visits = city.rows("""
SELECT count(*) FROM visits v JOIN complaints c USING (complaint_id)
WHERE c.channel <> 'FILING'""")[0][0]
    n_complaints = city.rows("SELECT count(*) FROM complaints WHERE channel <> 'FILING'")[0][0]
    return {"service/visits": n_visits / n_complaints} if n_complaints else {}


Measures = dict[str, float]
"""Figures of a city by key; a figure it does not have is left out."""

BUILDINGS_DEPARTMENT = (
    "complaint_triage",
    "crane",
    "drainage",
    "drone",
    "electrical_revisit",
    "elevator",
    "ert",
    "scaffold",
    "snad",
)
"""Domains whose complaints together are those of the Department of Buildings."""

TRUTH_VIEWS = {
    "true_reporting": "reporting.parquet",
    "true_heat_incidents": "incidents/heat.parquet",
    "true_heat_reports": "reports/heat.parquet",
}
"""Tables of the truth that figures of reporting are measured from, by the name of their view."""


@dataclass(frozen=True)
class City:
    """A synthetic city on disk."""

    records: Records
    truth: Truth

    @property
    def participation(self) -> str:
        """Scenario of participation."""
        return self.records.manifest["participation"]

    @property
    def capacity(self) -> str:
        """Scenario of capacity."""
        return self.records.manifest["capacity"]

    @property
    def scale(self) -> float:
        """Size against the whole of New York."""
        return self.records.manifest["scale"]

    @property
    def enlarged(self) -> dict[str, float]:
        """Factors on the volume of domains too rare for a city of this size."""
        return self.records.manifest["enlarged"]

    @property
    def years(self) -> range:
        """Calendar years wholly within the period."""
        first, last = self.records.window
        begin = first.year if first == date(first.year, 1, 1) else first.year + 1
        return range(begin, last.year)

    @property
    def n_years(self) -> float:
        """Length of the period."""
        first, last = self.records.window
        return (last - first).days / 365.25

    @cached_property
    def connection(self) -> Connection:
        """The records' views, `TRUTH_VIEWS`, and `reported`: one row a complaint with its outcome.

        Its ``weight`` undoes the enlargement of rare domains.
        """
        truth = {name: self.truth.folder / path for name, path in TRUTH_VIEWS.items()}
        connection = self.records.connect({k: path for k, path in truth.items() if path.is_file()})
        enlarged = branches(self.enlarged)
        weight = f"1e0 / CASE c.domain {enlarged} ELSE 1e0 END" if enlarged else "1e0"
        connection.execute(f"""
CREATE OR REPLACE TEMP VIEW reported AS
SELECT c.domain, c.category, c.received_at, c.tract, c.building_id, c.channel, o.disposition,
  o.disposition_class AS class, o.closed_at, t.borough,
  epoch(o.closed_at - c.received_at) / 86400.0 AS closing_days,
  c.domain IN ({literals(BUILDINGS_DEPARTMENT)}) AS is_dob, {weight} AS weight
FROM complaints c JOIN outcomes o USING (complaint_id) JOIN tracts t ON t.geoid = c.tract""")
        return connection

    def rows(self, query: LiteralString, **parameters: Value) -> list[tuple[Any, ...]]:
        """Rows of a query over the views."""
        return self.connection.sql(query, params=parameters).fetchall()

    def columns(self, query: LiteralString, **parameters: Value) -> dict[str, NDArray]:
        """Columns of a query as arrays."""
        return {
            name: np.asarray(values)
            for name, values in self.connection.sql(query, params=parameters).fetchnumpy().items()
        }

    def has(self, *domains: str) -> bool:
        """Whether the records hold these domains."""
        return set(domains) <= set(self.records.domains)


def open_city(path: Path) -> City:
    """Open a synthetic city; records without truth are refused."""
    return City(open_records(path), open_truth(path))
