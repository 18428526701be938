"""A data-quality report of a records folder: what came in, what is usable, what was set aside.

Counts of people's complaints below `MINIMUM_CELL` in a breakdown are suppressed, because the report
is meant to be published.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, LiteralString

import pyarrow.parquet as pq

from parity311.records.schema import TABLES
from parity311.records.sql import identifier, literal
from parity311.records.store import Records

MINIMUM_CELL = 10
"""Smaller counts in a breakdown are not shown."""
UNLIKELY_GAP = 10.0
"""Days without complaints are a gap where this many were to be expected (chance e^-10)."""
OUTLIER_FACTOR = 5.0
"""A day with this many times the median of its month, and 50 complaints more, is an outlier."""
OUTLIER_EXCESS = 50
MOSTLY_NULL = 0.5
MAX_LISTED = 20
MANY_AT_ONCE = 0.05
"""Complaints closed as they came in, from which on closing times are said to be off."""
LATE_DAYS = 365 * 5
"""A closing later than this is more likely a clerical one."""


def check_records(records: Records, *, suppress: bool = True) -> dict[str, Any]:
    """Report on a records folder, synthetic or imported.

    Returns
    -------
    ``sources`` (rows in, kept, quarantined by reason), ``domains`` (a report each), ``coverage``
    (who was located, by stratum), ``repairs``, ``warnings`` (sentences, worst first).

    Examples
    --------
    >>> report = parity311.check_records(records)
    >>> report["kind"], report["domains"]["boiler"]["share_closed"] > 0.9
    ('city', True)
    """
    domains = {domain: check_domain(records, domain) for domain in records.domains}
    sources = [_check_source(source) for source in records.manifest.get("sources", [])]
    coverage = _coverage(records.manifest.get("coverage", []), suppress)
    quarantined = _quarantine_by_domain(records)
    if suppress:
        quarantined = {name: suppress_small(reasons) for name, reasons in quarantined.items()}
        for domain in domains.values():
            for breakdown in ("located_by", "outcomes"):
                domain[breakdown] = suppress_small(domain[breakdown])
    report: dict[str, Any] = {
        "records": str(records.folder),
        "kind": records.manifest["kind"],
        "fingerprint": records.fingerprint,
        "date_from": str(records.window[0]),
        "date_to": str(records.window[1]),
        "sources": sources,
        "domains": domains,
        "quarantined": quarantined,
        "coverage": coverage,
        "out_of_scope": records.manifest.get("out_of_scope", []),
        "notes": records.manifest.get("notes", {}),
        "suppressed_below": MINIMUM_CELL if suppress else None,
    }
    report["warnings"] = _warnings(report)
    return report


def check_domain(records: Records, domain: str) -> dict[str, Any]:
    """Counts, gaps, outliers and usable shares of one domain."""
    columns = records.sql("SELECT * FROM complaints LIMIT 0")
    located = "located_by" if "located_by" in columns.column_names else "'coordinates'"
    at_once = records.closing_is_unknown
    row = records.sql(
        f"""
SELECT count(*) AS complaints, min(c.received_at) AS first, max(c.received_at) AS last,
  count(c.building_id) / count(*) AS share_with_building,
  count(*) FILTER (WHERE o.closed_at IS NOT NULL) / count(*) AS share_closed,
  count(*) FILTER (WHERE {at_once}) / count(*) AS share_closed_at_once,
  count(*) FILTER (WHERE o.disposition_class NOT IN ('pending', 'other')) / count(*)
    AS share_with_outcome,
  count(*) FILTER (WHERE c.incident_id <> c.complaint_id) AS linked_duplicates,
  count(*) FILTER (WHERE c.incident_id IS NULL) / count(*) AS share_without_incident,
  count(*) FILTER (WHERE CAST(c.received_at AS TIME) = TIME '00:00:00') / count(*)
    AS share_at_midnight,
  count(*) FILTER (WHERE t.income_quintile = 0 OR t.geoid IS NULL) / count(*)
    AS share_income_unknown,
  count(*) FILTER (WHERE o.closed_at > c.received_at + INTERVAL {literal(LATE_DAYS)} DAY)
    AS closed_after_five_years,
  count(*) FILTER (WHERE {located} <> 'borough' AND o.closed_at IS NOT NULL
    AND NOT {at_once} AND o.disposition_class NOT IN ('pending', 'other')) / count(*)
    AS share_usable,
  quantile_cont(date_diff('second', c.received_at, o.closed_at) / 86400.0, [0.5, 0.9])
    FILTER (WHERE NOT {at_once}) AS closing_days
FROM complaints c LEFT JOIN outcomes o USING (complaint_id) LEFT JOIN tracts t ON t.geoid = c.tract
WHERE c.domain = $domain""",
        domain=domain,
    ).to_pylist()[0]
    median, slow = row.pop("closing_days") or (None, None)
    days = _days(records, domain)
    return row | {
        "first": str(row["first"]),
        "last": str(row["last"]),
        "closing_days_median": median,
        "closing_days_p90": slow,
        "located_by": _counts(records, domain, located),
        "outcomes": _outcomes(records, domain),
        "gaps": _gaps(days, row["complaints"]),
        "outlier_days": _outliers(days),
        "mostly_null": _mostly_null(records, domain),
    }


def _days(records: Records, domain: str) -> list[dict[str, Any]]:
    """Complaints a day, and the median day of the same month."""
    return records.sql(
        """
SELECT day, n, median(n) OVER (PARTITION BY date_trunc('month', day)) AS usual FROM (
  SELECT CAST(received_at AS DATE) AS day, count(*) AS n FROM complaints
  WHERE domain = $domain GROUP BY 1)
ORDER BY day""",
        domain=domain,
    ).to_pylist()


def _gaps(days: list[dict[str, Any]], complaints: int) -> list[dict[str, Any]]:
    """Spells without a complaint in which `UNLIKELY_GAP` or more were to be expected."""
    if len(days) < 2:
        return []
    per_day = complaints / ((days[-1]["day"] - days[0]["day"]).days + 1)
    gaps = []
    for before, after in pairwise(days):
        empty = (after["day"] - before["day"]).days - 1
        if empty * per_day >= UNLIKELY_GAP:
            gaps.append(
                {"after": str(before["day"]), "before": str(after["day"]), "empty_days": empty}
            )
    return sorted(gaps, key=lambda gap: -gap["empty_days"])[:MAX_LISTED]


def _outliers(days: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [
        {"day": str(day["day"]), "complaints": day["n"], "usual": day["usual"]}
        for day in days
        if day["n"] >= OUTLIER_FACTOR * day["usual"] and day["n"] >= day["usual"] + OUTLIER_EXCESS
    ]
    return sorted(found, key=lambda day: -day["complaints"])[:MAX_LISTED]


def _counts(records: Records, domain: str, expression: LiteralString) -> dict[str, int]:
    rows = records.sql(
        f"SELECT {expression} AS name, count(*) AS n FROM complaints WHERE domain = $domain "
        "GROUP BY 1 ORDER BY 2 DESC, 1",
        domain=domain,
    ).to_pylist()
    return {row["name"]: row["n"] for row in rows}


def _outcomes(records: Records, domain: str) -> dict[str, int]:
    rows = records.sql(
        "SELECT o.disposition_class AS name, count(*) AS n FROM complaints c JOIN outcomes o "
        "USING (complaint_id) WHERE c.domain = $domain GROUP BY 1 ORDER BY 2 DESC, 1",
        domain=domain,
    ).to_pylist()
    return {row["name"]: row["n"] for row in rows}


def _mostly_null(records: Records, domain: str) -> list[str]:
    """Columns that are empty for most complaints."""
    names = [column.name for column in TABLES["complaints"].columns if column.nullable]
    shares = ", ".join(
        f"1 - count({column}) / count(*) AS {column}" for column in map(identifier, names)
    )
    query = f"SELECT {shares} FROM complaints WHERE domain = $domain"
    row = records.sql(query, domain=domain).to_pylist()[0]
    return [name for name in names if row[name] > MOSTLY_NULL]


def _check_source(source: dict[str, Any]) -> dict[str, Any]:
    """Account of one input file: every row is kept, out of scope or quarantined."""
    rows_in = source.get("rows_in")
    found = {
        name: source.get(name)
        for name in (
            "name", "kind", "source", "terms", "retrieved_at", "server_rows", "rows_in", "kept",
            "out_of_scope", "quarantined", "domains", "first_unreadable_line",
        )
    }  # fmt: skip
    if rows_in is not None:
        set_aside = sum(source["quarantined"].values())
        found["unaccounted"] = rows_in - source["kept"] - source["out_of_scope"] - set_aside
        in_scope = rows_in - source["out_of_scope"]
        found["share_kept"] = source["kept"] / in_scope if in_scope else None
    return found


def _quarantine_by_domain(records: Records) -> dict[str, dict[str, int]]:
    """Quarantined rows by the domain their code belongs to, and reason."""
    files = sorted((records.folder / "quarantine").glob("*.parquet"))
    found: dict[str, dict[str, int]] = {}
    for path in files:
        names = [name for name in ("domain", "reason") if name in pq.read_schema(path).names]
        rows = pq.read_table(path, columns=names).group_by(names).aggregate([([], "count_all")])
        for row in rows.sort_by([(name, "ascending") for name in names]).to_pylist():
            reasons = found.setdefault(row.get("domain", path.stem) or "unknown", {})
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + row["count_all"]
    return found


def suppress_small(counts: dict[str, int]) -> dict[str, int | None]:
    """Counts of a breakdown without the small ones.

    Where only one is small, the next smallest goes too: the total would give the one away.
    """
    hidden = {name for name, n in counts.items() if 0 < n < MINIMUM_CELL}
    if len(hidden) == 1 and len(counts) > 1:
        others = [name for name in counts if name not in hidden and counts[name] > 0]
        if others:
            hidden.add(min(others, key=lambda name: counts[name]))
    return {name: None if name in hidden else n for name, n in counts.items()}


def _coverage(rows: list[dict[str, Any]], suppress: bool) -> list[dict[str, Any]]:
    """Share located by stratum; small cells and what would give them away are not shown."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["by"], row["domain"]), []).append(row)
    found = []
    for group in groups.values():
        shown = {row["stratum"]: row["rows"] for row in group}
        if suppress:
            smallest = {row["stratum"]: _smallest(row) for row in group}
            kept = suppress_small(smallest)
            shown = {name: None if kept[name] is None else shown[name] for name in shown}
        for row in group:
            if shown[row["stratum"]] is None:
                hidden = {"rows": None, "located": None, "share": None, "suppressed": True}
                found.append(row | hidden)
            else:
                share = row["located"] / row["rows"] if row["rows"] else None
                found.append(row | {"share": share, "suppressed": False})
    return found


def _smallest(row: dict[str, Any]) -> int:
    """The smallest count a row gives away: its rows, those located, those not."""
    counts = (row["rows"], row["located"], row["rows"] - row["located"])
    return min((n for n in counts if n > 0), default=0)


def _warnings(report: dict[str, Any]) -> list[str]:
    found = []
    for source in report["sources"]:
        if source.get("unaccounted"):
            found.append(f"{source['name']}: {source['unaccounted']} rows are unaccounted for.")
        share = source.get("share_kept")
        if share is not None and share < MOSTLY_NULL:
            found.append(
                f"{source['name']}: only {share:.0%} of the rows in scope were kept; see why under "
                "quarantined."
            )
    for name, domain in report["domains"].items():
        if domain["gaps"]:
            gap = domain["gaps"][0]
            found.append(
                f"{name}: no complaint for {gap['empty_days']} days after {gap['after']}; the "
                "records have a hole there."
            )
        if domain["outlier_days"]:
            day = domain["outlier_days"][0]
            found.append(f"{name}: {day['complaints']} complaints on {day['day']} are unusual.")
        if domain["share_closed_at_once"] > MANY_AT_ONCE:
            found.append(
                f"{name}: {domain['share_closed_at_once']:.0%} of complaints have no closing but "
                "that of their receipt; when they were closed, and when somebody went there, is "
                "not known, and they are in no figure of closing days."
            )
        if domain["share_income_unknown"] > MOSTLY_NULL:
            found.append(
                f"{name}: {domain['share_income_unknown']:.0%} of complaints lie where no income "
                "is known; those cannot be compared by income. Give a table of tracts with it."
            )
        if domain["share_without_incident"] > MOSTLY_NULL:
            found.append(
                f"{name}: duplicates are not marked for {domain['share_without_incident']:.0%} of "
                "complaints: reporting rates cannot be told from those. Link them with `parity311 "
                "records link`, import a source that marks them (in a map: duplicate or parent), "
                "or count complaints as they are (--estimator raw)."
            )
    return found + describe_notes(report["notes"])


_SAID_OF_CLOSINGS = {
    "closed in the future, taken as not closed": "lie in the future",
    "closed before received, taken as not closed": "lie before the complaint was received",
    "closing date unreadable, taken as not closed": "cannot be read as a date",
}
"""Repair of the import -> what is said of such closings."""


def describe_notes(notes: dict[str, Any]) -> list[str]:
    """What the import decided about files that a reader should know, as sentences."""
    found = [f"{entry['file']}: {entry['note']}." for entry in notes.get("dates", [])]
    found += [f"{entry['file']}: {entry['note']}." for entry in notes.get("columns", [])]
    for entry in notes.get("cut off", []):
        found.append(
            f"{entry['file']}: the last line breaks off, so this may be half a download; compare "
            "its number of rows with the source's."
        )
    for entry in notes.get("one page", []):
        of = f" of {entry['total']:,}" if entry["total"] else ""
        found.append(
            f"{entry['file']}: the server says that these are not all of its rows "
            f"({entry['rows']:,}{of}); ask it for the rest, and import all of them together."
            if entry["is_said"]
            else f"{entry['file']} has exactly {entry['rows']:,} rows, as many as a server gives "
            "at once or a spreadsheet holds; compare that with the source's number of rows."
        )
    for entry in notes.get("repeated keys", []):
        found.append(
            f"{entry['file']}: {entry['rows']:,} of {entry['of']:,} rows repeat the key of another "
            "row; of each key the located, then the latest row is kept. If the file has one row a "
            "visit, the earlier visits are not read."
        )
    found += [f"Table of tracts: {said} ({n:,})." for said, n in notes.get("tracts", {}).items()]
    repairs = notes.get("repairs", {})
    for name, said in _SAID_OF_CLOSINGS.items():
        if repairs.get(name, 0):
            found.append(f"{repairs[name]:,} closings {said} and are taken as not closed.")
    for entry in notes.get("closed on one day", []):
        found.append(
            f"{entry['file']}: {entry['rows']:,} of {entry['of']:,} closings are on one day, "
            f"{entry['day']}, as when a batch is closed or a date of export is written; times to "
            "those closings say nothing of when somebody came."
        )
    for entry in notes.get("closed at the moment of receipt", []):
        found.append(
            f"{entry['file']}: {entry['at_once']:,} of {entry['closed']:,} closings are at the "
            "very moment the complaint was received; when those were closed is not known."
        )
    return found
