"""Write docs/results/real-data.md: what real rows say, beside a synthetic city.

    python -m docs.real_data --data ../shared/data --city cities/small-7-measured-calibrated

The rows themselves are never committed; the page and its figures are.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from docs.real_files import describe_files, read_kept
from parity311.audit.assess import assess_domain, verdict_row
from parity311.audit.cells import read_inputs
from parity311.audit.spec import AuditSpec
from parity311.domains import get_domain
from parity311.errors import Parity311Error
from parity311.feeds.importing import import_records
from parity311.records.compare import compare_records, wilson
from parity311.records.quality import check_records
from parity311.records.store import Records, open_records
from parity311.reporting.areas import areas_from_records
from parity311.reporting.calibration import calibrate
from parity311.reporting.estimate import ESTIMATORS, estimate
from parity311.reporting.lifetimes import exponential
from parity311.reporting.strata import stratify, total_by_stratum
from parity311.reporting.table import reports_from_records

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "real-data.md"
FIGURES = ROOT / "docs" / "results" / "real-data.json"
FILES = (
    "nyc_tracts/nyc_tract2020_acs_merged.csv",
    "nyc_tracts/nyc_tracts_2020_simplified.geojson",
    "nyc_tracts/community_districts.geojson",
    "sr311/rows_normalised.csv",
    "sr311/export_2025-07_old_headers.csv",
    "sr311/export_2026_new.csv",
    "sr311/rows_jl.csv",
    "sr311/soda_rows.json",
    "sr311/events_by_bbl.csv.gz",
    "dob/dob_complaints_100.csv",
    "dob/soda_eabe-havv.json",
    "hpd/complaints_and_problems_10.csv",
    "hpd/violations_100.csv",
    "boiler/soda_52dp-yji6.json",
    "heat/address_year_2020_2022_with_tract.csv.gz",
)
SELECTED = "sr311/events_by_bbl.csv.gz"
"""Events of lots chosen because they have few: accounted for, not compared."""
ACCOUNT = ("name", "rows_in", "kept", "out_of_scope", "quarantined")
LIFETIME = exponential(3.7)
"""Law of how long a heat incident lasts, assumed (closing times of 2025: half within 1.9 days): the
sample links too few duplicates to estimate one."""
OUTCOMES = ("violation", "no_violation", "no_access", "duplicate")
SMALLEST_CELL = 10
"""Counts below it are not published."""
COMPARED = ("heat", "housing")
"""Domains with enough real rows at hand to say something."""


def heat_by_quintile(records: Records) -> list[dict[str, Any]]:
    """Heat complaints per 1,000 renter households, 2020-22, every address of the city."""
    return records.sql("""
SELECT t.income_quintile AS quintile, sum(h.n) AS complaints,
  1000 * sum(h.n) / sum(t.households * t.share_renter) AS rate
FROM tracts t LEFT JOIN (
  SELECT tract, sum(complaints) AS n FROM reference_heat_by_tract GROUP BY 1) h
ON h.tract = t.geoid WHERE t.households * t.share_renter > 0 GROUP BY 1 ORDER BY 1""").to_pylist()


def city_heat_by_quintile(city: Records) -> list[dict[str, Any]]:
    """The same of a synthetic city, scaled to three years."""
    days = (city.window[1] - city.window[0]).days
    return city.sql(
        """
SELECT t.income_quintile AS quintile,
  1000 * sum(c.n) * $three_years / sum(t.households * t.share_renter) AS rate
FROM tracts t LEFT JOIN (SELECT tract, count(*) AS n FROM complaints WHERE domain = 'heat'
  GROUP BY 1) c ON c.tract = t.geoid GROUP BY 1 ORDER BY 1""",
        three_years=3 * 365.25 / days,
    ).to_pylist()


def address_years(records: Records) -> dict[str, Any]:
    """How often an address complains in a year, over all that did: every address of the city."""
    query = "SELECT complaints AS n, addresses AS weight FROM reference_heat_per_address"
    counts = records.sql(query)
    rows = records.sql("""
SELECT t.income_quintile AS quintile, sum(h.complaints) / sum(h.addresses) AS mean
FROM reference_heat_by_tract h JOIN tracts t ON t.geoid = h.tract GROUP BY 1 ORDER BY 1""")
    return {**_concentration(counts), "mean_by_quintile": rows.to_pylist()}


def city_address_years(city: Records) -> dict[str, Any]:
    """The same of a synthetic city, where a building stands for an address."""
    per_building = """
SELECT c.building_id, year(c.received_at) AS year, any_value(t.income_quintile) AS quintile,
  count(*) AS n FROM complaints c JOIN tracts t ON t.geoid = c.tract
WHERE c.domain = 'heat' AND c.building_id IS NOT NULL GROUP BY 1, 2"""
    counts = city.sql(f"SELECT n, count(*) AS weight FROM ({per_building}) GROUP BY 1 ORDER BY 1")
    rows = city.sql(f"SELECT quintile, avg(n) AS mean FROM ({per_building}) GROUP BY 1 ORDER BY 1")
    return {**_concentration(counts), "mean_by_quintile": rows.to_pylist()}


def _concentration(counts: Any) -> dict[str, float]:
    """Quantiles of complaints an address-year, and the share of the busiest ones."""
    order = np.argsort(counts["n"].to_numpy())
    n = counts["n"].to_numpy().astype(np.float64)[order]
    weight = counts["weight"].to_numpy().astype(np.float64)[order]
    below = np.cumsum(weight) / weight.sum()
    found = {
        f"p{int(100 * q)}": float(n[np.searchsorted(below, q)]) for q in (0.5, 0.75, 0.9, 0.99)
    }
    busiest = np.cumsum((n * weight)[::-1]) / (n * weight).sum()
    rank = np.cumsum(weight[::-1]) / weight.sum()
    found |= {f"top_{int(100 * q)}": float(np.interp(q, rank, busiest)) for q in (0.01, 0.1)}
    return {"address_years": float(weight.sum()), "mean": float((n * weight).sum() / weight.sum()),
            **found}  # fmt: skip


def recorded_by_quintile(records: Records, domain: str) -> list[dict[str, Any]]:
    """What was recorded of complaints by income quintile: share of each outcome with its interval.

    Shares are of complaints with an outcome; cells under ten are not shown.
    """
    rows = records.sql(
        """
SELECT t.income_quintile AS quintile, o.disposition_class AS outcome, count(*) AS n
FROM complaints c JOIN outcomes o USING (complaint_id) JOIN tracts t ON t.geoid = c.tract
WHERE c.domain = $domain AND o.disposition_class NOT IN ('pending', 'other')
GROUP BY 1, 2 ORDER BY 1, 2""",
        domain=domain,
    ).to_pylist()
    found = []
    for quintile in sorted({row["quintile"] for row in rows}):
        mine = {row["outcome"]: row["n"] for row in rows if row["quintile"] == quintile}
        total = sum(mine.values())
        entry: dict[str, Any] = {
            "quintile": quintile,
            "n": total if total >= SMALLEST_CELL else None,
        }
        for outcome in OUTCOMES:
            k = mine.get(outcome, 0)
            is_small = total < SMALLEST_CELL or 0 < k < SMALLEST_CELL
            entry[outcome] = None if is_small else (k / total, *wilson(k, total))
        found.append(entry)
    return found


def reporting(records: Records, domain: str) -> list[dict[str, Any]]:
    """Estimated incidents by income quintile under every estimator, or why there are none."""
    areas = areas_from_records(records)
    table = reports_from_records(records, domain, areas)
    strata = stratify(areas)
    rows = []
    for name in ESTIMATORS:
        row: dict[str, Any] = {"estimator": name, "reported_incidents": table.n_incidents}
        try:
            found = estimate(table, areas, estimator=name, lifetime=LIFETIME)
            totals = total_by_stratum(found, strata, np.random.default_rng(0))
            per_stratum = totals.estimate.sum(axis=0)
            row |= dict(zip(strata.names, (float(x) for x in per_stratum), strict=True))
        except Parity311Error as error:
            row["error"] = " ".join(str(error).split())
        rows.append(row)
    return rows


def heat_params(records: Records) -> dict[str, Any]:
    """Params of the heat office as the records give them, by the best estimator that works."""
    error = ""
    for name in ("exposure_rate", "raw"):
        try:
            given = calibrate(records, "heat", estimator=name, lifetime=LIFETIME)
            params = get_domain("heat").estimate(records, given, records.window[1])
        except Parity311Error as failed:
            error = " ".join(str(failed).split())
            continue
        actionable = np.asarray(params.kind_shares) @ np.asarray(params.actionable)
        reported = given.reported / np.maximum(given.denominators, 1e-9)
        return {
            "estimator": name,
            "reported_share": np.clip(reported, 0, 1).tolist(),
            "access": np.asarray(params.office.access).tolist(),
            "actionable": actionable.tolist(),
            "lead_days": np.asarray(params.office.lead).tolist(),
        }
    return {"error": error}


def audit(records: Records, domain: str) -> dict[str, Any]:
    """Who was served, as recorded, by income quintile; and the verdicts."""
    first, last = records.window
    # A sample of rows has no rate per dwelling: that would measure which rows were sampled.
    spec = AuditSpec(denominators=("complaints", "incidents"))
    found = assess_domain(read_inputs(records, domain, date_from=first, date_to=last), spec)
    income = [rate for rate in found.rates if rate.denominator == "complaints"][:6]
    names = ("stratum", "served", "out_of", "rate", "lower", "upper", "note")
    return {
        "verdicts": [verdict_row(verdict) for verdict in found.verdicts],
        "rates": [_unless_small({n: getattr(rate, n) for n in names}) for rate in income],
    }


def _unless_small(row: dict[str, Any]) -> dict[str, Any]:
    """A rate without its count, and without its point, where the count is small."""
    if row["served"] is not None and 0 < row["served"] < SMALLEST_CELL:
        return {**row, "served": None, "rate": None, "note": f"under {SMALLEST_CELL} served"}
    return row


def collect(data: Path, city: Path) -> dict[str, Any]:
    """Everything the page shows."""
    with tempfile.TemporaryDirectory() as name:
        import_records([data / file for file in FILES], Path(name) / "all")
        report = check_records(open_records(Path(name) / "all"))
        chosen = [data / file for file in FILES if file != SELECTED]
        import_records(chosen, Path(name) / "records")
        records, made = open_records(Path(name) / "records"), open_records(city)
        return {
            "city": {name: made.manifest.get(name) for name in ("preset", "seed", "scenario")},
            "sources": [
                {key: source[key] for key in ACCOUNT}
                for source in report["sources"]
                if source["rows_in"] is not None
            ],
            "coverage": [row for row in report["coverage"] if row["domain"] in COMPARED],
            "heat_by_quintile": heat_by_quintile(records),
            "city_heat_by_quintile": city_heat_by_quintile(made),
            "address_years": address_years(records),
            "city_address_years": city_address_years(made),
            "recorded": {domain: recorded_by_quintile(records, domain) for domain in COMPARED},
            "compared": compare_records(records, made, COMPARED),
            "reporting": reporting(records, "heat"),
            "params": heat_params(records),
            "city_params": heat_params(made),
            "audit": {domain: audit(records, domain) for domain in COMPARED},
            "files": read_kept(),
        }


def page(figures: dict[str, Any]) -> str:
    """The page as Markdown."""
    lines = [
        "# Real rows beside the synthetic city",
        "",
        "Written by `python -m docs.real_data`. The rows are small public samples of New York's",
        "records (see the accounts below), not a census: a difference may be the sample's. What",
        "they can and cannot confirm stands at the end.",
        "",
        "## Every row accounted for",
        "",
        "| file | rows in | kept | out of scope | quarantined |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for source in figures["sources"]:
        reasons = ", ".join(f"{why} {n:,}" for why, n in source["quarantined"].items()) or "–"
        lines.append(
            f"| {source['name']} | {source['rows_in']:,} | {source['kept']:,} | "
            f"{source['out_of_scope']:,} | {reasons} |"
        )
    lines += _quintile_lines(figures)
    lines += _address_lines(figures["address_years"], figures["city_address_years"])
    lines += _recorded_lines(figures["recorded"])
    lines += ["", "## Figures of both, with 95 % intervals of the real ones", ""]
    lines.append("| domain | figure | real | n | synthetic | |")
    lines.append("| --- | --- | ---: | ---: | ---: | --- |")
    for row in figures["compared"]:
        said = {True: "agrees", False: "differs", None: "too few rows"}[row["agrees"]]
        lines.append(
            f"| {row['domain']} | {row['figure']} | {row['value']:.3f} [{row['lower']:.3f}, "
            f"{row['upper']:.3f}] | {row['n']:,} | {row['other']:.3f} | {said} |"
        )
    lines += _reporting_lines(figures["reporting"])
    lines += _params_lines(figures["params"], figures["city_params"])
    lines += _audit_lines(figures["audit"])
    lines += describe_files(figures["files"])
    lines += _closing_lines(figures)
    return "\n".join(lines) + "\n"


def _quintile_lines(figures: dict[str, Any]) -> list[str]:
    """Rates by quintile, and relative to the city's, because volumes grew between the years."""
    lines = ["", "## Heat complaints per 1,000 renter households and three years", ""]
    lines.append("| income quintile | real, 2020-22 | over its mean | synthetic | over its mean |")
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    made = {row["quintile"]: row["rate"] for row in figures["city_heat_by_quintile"]}
    real = {row["quintile"]: row["rate"] for row in figures["heat_by_quintile"]}
    means = [sum(rates[k] for k in range(1, 6)) / 5 for rates in (real, made)]
    for quintile, rate in real.items():
        label = quintile or "not published"
        other = made.get(quintile, float("nan"))
        lines.append(
            f"| {label} | {rate:.0f} | {rate / means[0]:.2f} | {other:.0f} | "
            f"{other / means[1]:.2f} |"
        )
    return lines


def _address_lines(real: dict[str, Any], made: dict[str, Any]) -> list[str]:
    """How unevenly addresses complain, real beside synthetic."""
    lines = ["", "## Complaints of an address in a year, of addresses that complained", ""]
    lines.append(
        f"{real['address_years']:,.0f} address-years of 2020-22; in the synthetic city a building "
        "stands for an address."
    )
    lines += ["", "| figure | real | synthetic |", "| --- | ---: | ---: |"]
    for title, name in (
        ("mean", "mean"), ("median", "p50"), ("three quarters have at most", "p75"),
        ("nine tenths have at most", "p90"), ("99 of 100 have at most", "p99"),
    ):  # fmt: skip
        lines.append(f"| {title} | {real[name]:.1f} | {made[name]:.1f} |")
    for title, name in (("busiest 1 % make", "top_1"), ("busiest 10 % make", "top_10")):
        lines.append(f"| {title} | {real[name]:.0%} | {made[name]:.0%} |")
    other = {row["quintile"]: row["mean"] for row in made["mean_by_quintile"]}
    for row in real["mean_by_quintile"]:
        label = row["quintile"] or "not published"
        synthetic = other.get(row["quintile"], float("nan"))
        lines.append(f"| mean, income quintile {label} | {row['mean']:.1f} | {synthetic:.1f} |")
    return lines


def _recorded_lines(recorded: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Outcomes by income quintile, as recorded; without any claim about why."""
    lines = ["", "## What was recorded, by income quintile", ""]
    lines.append("Shares of complaints with an outcome, with 95 % intervals of independent rows.")
    lines += [
        "",
        "| domain | quintile | n | violation | no violation | no access | duplicate |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for domain, rows in recorded.items():
        for row in rows:
            label = str(row["quintile"] or "not published")
            if row["n"] is None:
                lines.append(f"| {domain} | {label} | under 10 | | | | |")
                continue
            cells = " | ".join(
                f"{row[name][0]:.2f} [{row[name][1]:.2f}, {row[name][2]:.2f}]"
                if row[name]
                else "under 10"
                for name in OUTCOMES
            )
            lines.append(f"| {domain} | {label} | {row['n']:,} | {cells} |")
    return lines


def _reporting_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["", "## Incidents behind the heat complaints, by income quintile", ""]
    lines += [LIFETIME.describe(), ""]
    lines.append("| estimator | Q1 | Q2 | Q3 | Q4 | Q5 |")
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['estimator']} | {row['error']} | | | | |")
        else:
            cells = " | ".join(f"{row[str(k)]:,.0f}" for k in range(1, 6))
            lines.append(f"| {row['estimator']} | {cells} |")
    return lines


def _params_lines(real: dict[str, Any], made: dict[str, Any]) -> list[str]:
    lines = ["", "## Estimated parameters of the heat office", ""]
    if "error" in real or "error" in made:
        return [*lines, str(real.get("error") or made.get("error"))]
    words = {
        "raw": "complaints are taken as incidents, since no reporting rate could be fitted",
        "exposure_rate": "incidents by the exposure rate, under the assumed lifetime",
    }
    lines.append(f"Real: {words[real['estimator']]}. Synthetic: {words[made['estimator']]}.")
    if real["estimator"] != "raw":
        lines.append(
            "The sample lacks most repeats of its complaints, so its reported share is far too low."
        )
    lines += [
        "",
        "| income quintile | reported share, real | synthetic | chance to get in, real | synthetic "
        "| actionable, real | synthetic |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for k in range(5):
        cells = [
            f"{part[name][k]:.2f}"
            for name in ("reported_share", "access", "actionable")
            for part in (real, made)
        ]
        lines.append(f"| {k + 1} | " + " | ".join(cells) + " |")
    return lines


def _audit_lines(audits: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["", "## Audit of what was recorded", ""]
    lines += [
        "Served is a violation found within the service level; rates per complaint, with intervals",
        "over tracts.",
        "",
        "| domain | stratum | served | complaints | rate |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for domain, found in audits.items():
        for row in found["rates"]:
            if row["out_of"] is None:
                lines.append(f"| {domain} | {row['stratum']} | | | {row['note']} |")
                continue
            interval = f"[{row['lower']:.3f}, {row['upper']:.3f}]"
            served = f"under {SMALLEST_CELL}" if row["served"] is None else f"{row['served']:,.0f}"
            rate = "" if row["rate"] is None else f"{row['rate']:.3f} "
            cells = f"{served} | {row['out_of']:,.0f} | {rate}{interval}"
            lines.append(f"| {domain} | {row['stratum']} | {cells} |")
    lines += ["", "| domain | denominator | verdict | why |", "| --- | --- | --- | --- |"]
    for domain, found in audits.items():
        for row in found["verdicts"]:
            cells = (domain, row["denominator"], row["verdict"], row["reason"])
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _closing_lines(figures: dict[str, Any]) -> list[str]:
    agree = [row for row in figures["compared"] if row["agrees"]]
    differ = [row for row in figures["compared"] if row["agrees"] is False]
    named = "; ".join(f"{row['domain']}: {row['figure']}" for row in agree)
    return [
        "",
        "## What this confirms, and what it does not",
        "",
        f"- {len(agree)} of {len(agree) + len(differ)} figures agree ({named}).",
        "- The heat rates by income quintile come from all 628,917 complaints of three years and",
        "  are no sample: they are the firm part of this page. The city's years are later, so its",
        "  level is higher; the profile over quintiles is what can be compared.",
        *_address_words(figures),
        "- Borough and quintile shares of the sampled rows reflect which repositories the rows",
        "  come from; closing times before 2024 are slower than the city is calibrated to.",
        "- Duplicates are linked only where both complaints are in the sample, so reporting rates",
        "  cannot be learned from it: where an estimator fails above, that is the answer; where it",
        "  does not, ten to a hundred incidents behind each complaint say that repeats are",
        "  missing.",
        "- Nothing here says how many incidents nobody reported, nor what the equity gaps are: the",
        f"  audit says {_verdict_words(figures)}. A fetch of the full data sets is needed.",
    ]


def _verdict_words(figures: dict[str, Any]) -> str:
    verdicts = [row["verdict"] for found in figures["audit"].values() for row in found["verdicts"]]
    return ", ".join(f"{verdicts.count(v)} times {v}" for v in dict.fromkeys(verdicts))


def _address_words(figures: dict[str, Any]) -> list[str]:
    """How complaints concentrate on addresses: every address of three years, so no sample."""
    real, made = figures["address_years"], figures["city_address_years"]
    tail = "longer" if made["p99"] > real["p99"] else "shorter"
    shares = [f"{real[name]:.0%} (synthetic: {made[name]:.0%})" for name in ("top_10", "top_1")]
    return [
        "- The same file shows how complaints concentrate. The busiest 10 % of the addresses that",
        f"  complain make {shares[0]} of all heat complaints, the busiest 1 %",
        f"  {shares[1]}; the median one complains {real['p50']:.0f} times a year "
        f"({made['p50']:.0f}). The synthetic tail is {tail}:",
        f"  one of 100 has {made['p99']:.0f} or more ({real['p99']:.0f}).",
    ]


def main() -> None:
    """Collect the figures and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--city", type=Path, required=True)
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figures = collect(given.data, given.city)
    FIGURES.write_text(json.dumps(figures, indent=1, default=str) + "\n")
    PAGE.write_text(page(figures))


if __name__ == "__main__":
    main()
