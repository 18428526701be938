"""Two records folders side by side: what one says of a domain, and whether the other agrees.

Meant for real records beside a synthetic city. Shares come with Wilson intervals and quantiles with
order-statistic intervals of the first folder; the second agrees where its figure lies inside, or
within the tolerance. Rows of a sample are no census: a difference may be the sample's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from parity311.errors import InputError
from parity311.records.schema import BOROUGHS, DISPOSITION_CLASSES
from parity311.records.sql import identifier, literal
from parity311.records.store import Records

Z = 1.959964
"""Normal quantile of two-sided 95 % intervals."""
SHARE_TOLERANCE = 0.02
"""Two points: the tolerance of shares in the synthetic city's own calibration."""
QUANTILE_TOLERANCE = 0.15
"""15 %: that of quantiles."""
QUANTILES = (0.25, 0.5, 0.75, 0.9)
FEWEST_ROWS = 30
"""With fewer rows behind a figure nothing is said about agreement."""


@dataclass(frozen=True)
class Compared:
    """One figure of both folders."""

    domain: str
    figure: str
    value: float
    lower: float
    upper: float
    n: int
    other: float
    other_n: int
    agrees: bool | None
    """None where too few rows are behind the figure."""


def compare_records(
    records: Records, other: Records, domains: tuple[str, ...] | None = None
) -> list[dict[str, Any]]:
    """Compare the domains that both folders have (or those given)."""
    shared = tuple(name for name in records.domains if name in other.domains)
    chosen = domains or shared
    for name in chosen:
        if name not in shared:
            raise InputError(
                f"Domain {name!r} is not in both folders; both have {', '.join(shared) or 'none'}."
            )
    return [asdict(row) for name in chosen for row in compare_domain(records, other, name)]


def compare_domain(records: Records, other: Records, domain: str) -> list[Compared]:
    """Every figure of one domain that both folders can give."""
    rows = []
    theirs = {name: (k, n) for name, k, n in _shares(other, domain)}
    for name, k, n in _shares(records, domain):
        other_k, other_n = theirs.get(name, (0, 0))
        if n and other_n:
            lower, upper = wilson(k, n)
            rows.append(_share_row(domain, name, k, n, lower, upper, other_k, other_n))
    days, other_days = _closing_days(records, domain), _closing_days(other, domain)
    if len(days) and len(other_days):
        rows += [_quantile_row(domain, q, days, other_days) for q in QUANTILES]
    return rows


def wilson(k: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    share = k / n
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return float(min(max(centre - half, 0.0), share)), float(max(min(centre + half, 1.0), share))


def _share_row(
    domain: str, name: str, k: int, n: int, lower: float, upper: float, other_k: int, other_n: int
) -> Compared:
    value, other = k / n, other_k / other_n
    agrees = None
    if n >= FEWEST_ROWS and other_n >= FEWEST_ROWS:
        agrees = lower <= other <= upper or abs(value - other) <= SHARE_TOLERANCE
    return Compared(domain, name, value, lower, upper, n, other, other_n, agrees)


def _quantile_row(domain: str, q: float, days: np.ndarray, other_days: np.ndarray) -> Compared:
    n = len(days)
    value, other = float(np.quantile(days, q)), float(np.quantile(other_days, q))
    low, high = binom.ppf([0.025, 0.975], n, q).astype(int)
    lower, upper = float(days[max(low - 1, 0)]), float(days[min(high, n - 1)])
    agrees = None
    if n >= FEWEST_ROWS and len(other_days) >= FEWEST_ROWS:
        agrees = lower <= other <= upper or abs(value - other) <= QUANTILE_TOLERANCE * value
    name = f"closing days, {q:.0%} quantile"
    return Compared(domain, name, value, lower, upper, n, other, len(other_days), agrees)


def _closing_days(records: Records, domain: str) -> np.ndarray:
    """Sorted days from report to closing of what was closed at a known time, no duplicates."""
    rows = records.sql(
        f"""
SELECT date_diff('second', c.received_at, o.closed_at) / 86400.0 AS days
FROM complaints c JOIN outcomes o USING (complaint_id)
WHERE c.domain = $domain AND o.closed_at IS NOT NULL AND o.disposition_class <> 'duplicate'
  AND NOT {records.closing_is_unknown}
ORDER BY days""",
        domain=domain,
    )
    return rows["days"].to_numpy(zero_copy_only=False).astype(np.float64)


def _shares(records: Records, domain: str) -> list[tuple[str, int, int]]:
    """(figure, count, out of) of every share, in a fixed order."""
    columns = records.sql("SELECT * FROM complaints LIMIT 0")
    classes = ", ".join(
        f"count(*) FILTER (WHERE o.disposition_class = {literal(name)}) "
        f"AS {identifier(f'outcome {name}')}"
        for name in DISPOSITION_CLASSES
        if name not in ("pending", "other")
    )
    boroughs = ", ".join(
        f"count(*) FILTER (WHERE t.borough = {literal(name)}) AS {identifier(f'borough {name}')}"
        for name in BOROUGHS
    )
    quintiles = ", ".join(
        f"count(*) FILTER (WHERE t.income_quintile = {literal(k)}) "
        f"AS {identifier(f'income quintile {k}')}"
        for k in range(1, 6)
    )
    wide = "is_building_wide" if "is_building_wide" in columns.column_names else "NULL::BOOLEAN"
    row = records.sql(
        f"""
SELECT {classes}, {boroughs}, {quintiles},
  count(*) FILTER (WHERE {wide}) AS "building-wide", count({wide}) AS n_wide,
  count(*) FILTER (WHERE hour(c.received_at) BETWEEN 8 AND 17 AND {_TIMED}) AS "received 8 to 18 h",
  count(*) FILTER (WHERE {_TIMED}) AS n_timed,
  count(*) FILTER (WHERE o.disposition_class NOT IN ('pending', 'other')) AS n_outcome,
  count(t.borough) AS n_borough, count(*) FILTER (WHERE t.income_quintile > 0) AS n_quintile
FROM complaints c LEFT JOIN outcomes o USING (complaint_id) LEFT JOIN tracts t ON t.geoid = c.tract
WHERE c.domain = $domain""",
        domain=domain,
    ).to_pylist()[0]
    totals = {
        "outcome": row["n_outcome"],
        "borough": row["n_borough"],
        "income": row["n_quintile"],
        "building-wide": row["n_wide"],
        "received": row["n_timed"],
    }
    return [
        (name, int(k), int(totals[name.split(" ")[0]]))
        for name, k in row.items()
        if not name.startswith("n_")
    ]


_TIMED = "CAST(c.received_at AS TIME) <> TIME '00:00:00'"
"""A report at midnight sharp has, as a rule, only a date."""
