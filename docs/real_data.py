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

from parity311.audit.assess import assess_domain, verdict_row
from parity311.audit.cells import read_inputs
from parity311.audit.spec import AuditSpec
from parity311.domains import get_domain
from parity311.errors import Parity311Error
from parity311.feeds.importing import import_records
from parity311.records.compare import compare_records
from parity311.records.quality import check_records
from parity311.records.store import Records, open_records
from parity311.reporting.areas import areas_from_records
from parity311.reporting.calibration import calibrate
from parity311.reporting.estimate import ESTIMATORS, estimate
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
COMPARED = ("heat", "housing")
"""Domains with enough real rows at hand to say something."""


def heat_by_quintile(records: Records) -> list[dict[str, Any]]:
    """Heat complaints per 1,000 renter households, 2020-22, every address of the city."""
    path = records.folder / "reference" / "heat_by_tract.parquet"
    return records.sql(f"""
SELECT t.income_quintile AS quintile, sum(h.n) AS complaints,
  1000 * sum(h.n) / sum(t.households * t.share_renter) AS rate
FROM tracts t LEFT JOIN (SELECT tract, sum(complaints) AS n FROM '{path}' GROUP BY 1) h
ON h.tract = t.geoid WHERE t.households * t.share_renter > 0 GROUP BY 1 ORDER BY 1""").to_pylist()


def city_heat_by_quintile(city: Records) -> list[dict[str, Any]]:
    """The same of a synthetic city, scaled to three years."""
    days = (city.window[1] - city.window[0]).days
    return city.sql(f"""
SELECT t.income_quintile AS quintile,
  1000 * sum(c.n) * {3 * 365.25 / days} / sum(t.households * t.share_renter) AS rate
FROM tracts t LEFT JOIN (SELECT tract, count(*) AS n FROM complaints WHERE domain = 'heat'
  GROUP BY 1) c ON c.tract = t.geoid GROUP BY 1 ORDER BY 1""").to_pylist()


def reporting(records: Records, domain: str) -> list[dict[str, Any]]:
    """Estimated incidents by income quintile under every estimator, or why there are none."""
    areas = areas_from_records(records)
    table = reports_from_records(records, domain, areas)
    strata = stratify(areas)
    rows = []
    for name in ESTIMATORS:
        row: dict[str, Any] = {"estimator": name, "reported_incidents": table.n_incidents}
        try:
            found = estimate(table, areas, estimator=name)
            totals = total_by_stratum(found, strata, np.random.default_rng(0))
            per_stratum = totals.estimate.sum(axis=0)
            row |= dict(zip(strata.names, (float(x) for x in per_stratum), strict=True))
        except (Parity311Error, np.linalg.LinAlgError) as error:
            row["error"] = " ".join(str(error).split())
        rows.append(row)
    return rows


def heat_params(records: Records) -> dict[str, Any]:
    """Params of the heat office as the records give them, complaints taken as incidents."""
    try:
        given = calibrate(records, "heat", estimator="raw")
        params = get_domain("heat").estimate(records, given, records.window[1])
    except Parity311Error as error:
        return {"error": " ".join(str(error).split())}
    actionable = np.asarray(params.kind_shares) @ np.asarray(params.actionable)
    return {
        "access": np.asarray(params.office.access).tolist(),
        "actionable": actionable.tolist(),
        "lead_days": np.asarray(params.office.lead).tolist(),
    }


def audit(records: Records, domain: str) -> dict[str, Any]:
    """Who was served, as recorded, by income quintile; and the verdicts."""
    first, last = records.window
    found = assess_domain(read_inputs(records, domain, date_from=first, date_to=last), AuditSpec())
    income = [rate for rate in found.rates if rate.denominator == "complaints"][:6]
    return {
        "verdicts": [verdict_row(verdict) for verdict in found.verdicts],
        "rates": [{"stratum": rate.stratum, "rate": rate.rate} for rate in income],
    }


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
            "compared": compare_records(records, made, COMPARED),
            "reporting": reporting(records, "heat"),
            "params": heat_params(records),
            "city_params": heat_params(made),
            "audit": {domain: audit(records, domain) for domain in COMPARED},
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


def _reporting_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["", "## Incidents behind the heat complaints, by income quintile", ""]
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
    lines.append("Complaints are taken as incidents here, since no reporting rate could be fitted.")
    lines += [
        "",
        "| income quintile | chance to get in, real | synthetic | actionable, real | synthetic |",
    ]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for k in range(5):
        cells = (real["access"][k], made["access"][k], real["actionable"][k], made["actionable"][k])
        lines.append(f"| {k + 1} | " + " | ".join(f"{x:.2f}" for x in cells) + " |")
    return lines


def _audit_lines(audits: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["", "## Audit of what was recorded", ""]
    lines += ["| domain | denominator | verdict | why |", "| --- | --- | --- | --- |"]
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
        "- Borough and quintile shares of the sampled rows reflect which repositories the rows",
        "  come from; closing times before 2024 are slower than the city is calibrated to.",
        "- Duplicates are linked only where both complaints are in the sample, so reporting rates",
        "  cannot be learned from it; where an estimator says so above, that is the answer.",
        "- Nothing here says how many incidents nobody reported, nor what the equity gaps are: the",
        "  audit finds the evidence insufficient. A fetch of the full data sets is needed.",
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
