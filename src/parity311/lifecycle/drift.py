"""What moved since a policy was made: features, arrivals, outcomes and how people report.

The last four weeks beside the year before the policy decided. A mixture is compared by the
population stability index Σ (p − q) log(p / q), of which a quarter is commonly called a shift; a
rate or a share by its ratio. Seasons move both: a shift is a question, not a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, LiteralString

import numpy as np

from parity311.records.store import Records

RECENT_DAYS = 28
SHIFTED = 0.25
"""Index from which a mixture counts as shifted."""
MOVED = 1.5
"""Ratio, either way, from which a rate or a share counts as moved."""
FEWEST = 30
"""Events on either side below which nothing is said."""
MIXTURES = {
    "severity": "severity codes of complaints",
    "category": "kinds of complaints",
    "channel": "how complaints come in",
    "language": "languages of complaints",
    "stratum": "income quintiles that complain",
}

_COMPLAINTS: LiteralString = """
SELECT CAST(c.received_at AS DATE) AS day, c.severity, c.category, COALESCE(c.channel, '') AS
  channel, COALESCE(c.language, '') AS language, COALESCE(t.income_quintile, 0) AS stratum,
  count(*) AS n, count(DISTINCT COALESCE(c.incident_id, c.complaint_id)) AS cases
FROM complaints c LEFT JOIN tracts t ON t.geoid = c.tract
WHERE c.domain = $domain AND c.received_at >= $date_from::TIMESTAMP
  AND c.received_at < $date_to::TIMESTAMP GROUP BY ALL"""
_VISITS: LiteralString = """
SELECT CAST(v.visited_at AS DATE) AS day, count(*) AS n,
  count(*) FILTER (WHERE v.result = 'violation') AS found,
  count(*) FILTER (WHERE v.result <> 'no_access') AS accessed
FROM visits v JOIN complaints c USING (complaint_id)
WHERE c.domain = $domain AND v.visited_at >= $date_from::TIMESTAMP
  AND v.visited_at < $date_to::TIMESTAMP GROUP BY ALL"""


@dataclass(frozen=True)
class DriftRow:
    """One thing that may have moved."""

    what: str
    measure: str
    """`index` of a mixture, or `ratio` of a rate or share"""
    value: float | None
    before: float | None
    now: float | None
    is_moved: bool
    note: str = ""


def find_drift(records: Records, domain: str, since: date, until: date) -> list[DriftRow]:
    """Compare the last four weeks before ``until`` with the year before ``since``."""
    recent = max(until - timedelta(days=RECENT_DAYS), since)
    first = max(records.window[0], since - timedelta(days=365))
    spans = ((first, since), (recent, until))
    calls = [_read(records, _COMPLAINTS, domain, *span) for span in spans]
    visits = [_read(records, _VISITS, domain, *span) for span in spans]
    n_days = [max((end - start).days, 1) for start, end in spans]
    totals = [float(np.sum(one["n"])) for one in calls]
    per_day = [n / d for n, d in zip(totals, n_days, strict=True)]
    cases = [max(float(np.sum(one["cases"])), 1.0) for one in calls]
    repeats = [n / d for n, d in zip(totals, cases, strict=True)]
    seen = [float(np.sum(one["accessed"])) for one in visits]
    found = [float(np.sum(one["found"])) for one in visits]
    made = [float(np.sum(one["n"])) for one in visits]
    shares = [k / max(n, 1.0) for k, n in zip(found, seen, strict=True)]
    got_in = [k / max(n, 1.0) for k, n in zip(seen, made, strict=True)]
    sent = [k / max(n, 1.0) for k, n in zip(made, totals, strict=True)]
    rows = [
        _ratio("complaints a day", per_day, totals),
        _ratio("reports a case and day: how readily people report", repeats, totals),
        _ratio("visits for each complaint: whether anybody comes", sent, totals),
        _ratio("share of visits that find a violation", shares, seen),
        _ratio("share of visits that get in", got_in, made),
    ]
    return rows + [_mixture(name, words, *calls) for name, words in MIXTURES.items()]


def _read(
    records: Records, query: LiteralString, domain: str, date_from: date, date_to: date
) -> dict[str, list[Any]]:
    return records.sql(query, domain=domain, date_from=date_from, date_to=date_to).to_pydict()


def _ratio(what: str, values: list[float], counts: list[float]) -> DriftRow:
    before, now = values
    if min(counts) < FEWEST or before <= 0:
        return DriftRow(what, "ratio", None, None, None, False, "too few events to say")
    value = now / before
    return DriftRow(what, "ratio", value, before, now, not 1 / MOVED <= value <= MOVED)


def _mixture(
    name: str, words: str, before: dict[str, list[Any]], now: dict[str, list[Any]]
) -> DriftRow:
    counts: list[dict[Any, float]] = []
    for part in (before, now):
        found: dict[Any, float] = {}
        for value, n in zip(part[name], part["n"], strict=True):
            found[value] = found.get(value, 0.0) + n
        counts.append(found)
    totals = [sum(one.values()) for one in counts]
    if min(totals) < FEWEST:
        return DriftRow(words, "index", None, None, None, False, "too few events to say")
    names = sorted({*counts[0], *counts[1]}, key=str)
    # Half an event keeps what is new, or gone, finite.
    p, q = (
        (np.array([one.get(value, 0.0) for value in names]) + 0.5) / (total + 0.5 * len(names))
        for one, total in zip(counts, totals, strict=True)
    )
    index = float(((q - p) * np.log(q / p)).sum())
    return DriftRow(words, "index", index, None, None, index > SHIFTED)
