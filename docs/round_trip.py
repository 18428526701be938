"""Write docs/results/round-trip.md: what each portal's shape loses, and how far estimates move.

    python -m docs.round_trip

A synthetic city is exported as each portal publishes it, imported again, linked where the portal
marks no duplicates, and estimated from. Its own full records are estimated from the same way.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.city.build import build_city
from parity311.city.export import export_city, portal_shapes
from parity311.domains import get_domain
from parity311.errors import InputError, Parity311Error
from parity311.estimation.correction import include
from parity311.feeds.citymap import packaged_maps, read_city_map
from parity311.feeds.importing import import_records
from parity311.records.store import Records, open_records
from parity311.reporting.calibration import calibrate
from parity311.reporting.link_records import link_records

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "round-trip.md"
FIGURES = ROOT / "docs" / "results" / "round-trip.json"
SEED, FIRST, LAST = 7, date(2024, 1, 1), date(2025, 1, 1)
DOMAINS = ("heat", "housing", "elevator", "drainage")
N_KNOWN = 5
"""Income quintiles; the last stratum is unknown."""

_TOLD = """
SELECT count(*) AS rows, count(DISTINCT c.category) AS categories,
  count(*) FILTER (WHERE CAST(c.received_at AS TIME) <> TIME '00:00:00') / count(*) AS with_hour,
  count(*) FILTER (WHERE o.disposition_class NOT IN ('pending', 'other')) / count(*)
    AS with_outcome,
  count(*) FILTER (WHERE c.incident_id <> c.complaint_id) AS repeats,
  count(*) FILTER (WHERE o.first_visit_at IS NOT NULL AND o.first_visit_at < o.closed_at) / count(*)
    AS visit_before_closing
FROM complaints c LEFT JOIN outcomes o USING (complaint_id) WHERE c.domain = $domain"""


def told(records: Records, domain: str) -> dict[str, Any]:
    """What the records say of a domain, in counts and shares."""
    return records.sql(_TOLD, domain=domain).to_pylist()[0]


def estimates(records: Records, domain: str) -> dict[str, Any]:
    """Incidents per 28 days by the usual estimator, or why there are none."""
    try:
        found = calibrate(records, domain)
    except (Parity311Error, np.linalg.LinAlgError) as error:
        return {"error": " ".join(str(error).split())}
    total = found.draws.sum(axis=1)
    value = float(found.denominators.sum())
    lower, upper = include(value, *np.percentile(total, (5, 95)))
    known = found.denominators[:N_KNOWN]
    return {
        "total": value,
        "lower": lower,
        "upper": upper,
        "first_to_last": float(known[0] / known[-1]),
    }


def come_back(city: Path, shape: str, folder: Path) -> dict[str, Any]:
    """One portal: exported, imported, linked; what survived by domain."""
    exported = export_city(city, shape, folder / "files", DOMAINS)
    own = read_city_map(Path(shape)) if shape in packaged_maps() else None
    files = [folder / "files" / name for name in exported["files"]]
    manifest = import_records(files, folder / "records", city_map=own)
    records = open_records(folder / "records")
    rows = []
    links: dict[str, dict[str, Any]] = {}
    try:
        found = link_records(records.folder, folder / "linked", lambda: city)
        links = {one.domain: one.describe() for one in found}
    except InputError:
        pass  # the portal marks every report
    for domain in records.domains:
        link = links.get(domain, {})
        is_linked = link.get("n_linked", 0) > 0
        used = open_records(folder / "linked") if is_linked else records
        rows.append(
            {
                "shape": shape,
                "domain": domain,
                **told(records, domain),
                "linked": link.get("n_linked", 0),
                "quality": link.get("quality"),
                "estimate": estimates(used, domain),
            }
        )
    source = next(one for one in manifest["sources"] if one["name"] == "complaints.csv")
    return {"shape": shape, "kept": source["kept"], "rows_in": source["rows_in"], "domains": rows}


def collect() -> dict[str, Any]:
    """Build the city, estimate from all of it, then from what each portal leaves."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = [get_domain(slug).process for slug in DOMAINS]
        city = folder / f"small-{SEED}"
        build_city(processes, "small", SEED, out=city, date_from=FIRST, date_to=LAST)
        records = open_records(city)
        whole = {
            domain: {**told(records, domain), "estimate": estimates(records, domain)}
            for domain in DOMAINS
        }
        portals = []
        for shape in portal_shapes():
            print(f"{shape} …", flush=True)
            portals.append(come_back(city, shape, folder / shape))
    return {"seed": SEED, "from": str(FIRST), "to": str(LAST), "whole": whole, "portals": portals}


def page(figures: dict[str, Any]) -> str:
    """The page as Markdown."""
    lines = [
        "# A city through each portal and back",
        "",
        "Written by `python -m docs.round_trip`. The small synthetic city of seed "
        f"{figures['seed']} ({figures['from']} to",
        f"{figures['to']}) was exported in each portal's shape (`parity311 city export --as …`),",
        "which takes away what that portal does not publish, imported again, and linked",
        "(`parity311 records link`) where a report was left without a mark. Rows that came back,",
        "of those exported: "
        + ", ".join(
            f"{one['shape']} {one['kept']:,} of {one['rows_in']:,}" for one in figures["portals"]
        )
        + ".",
        "",
        "## What survives",
        "",
        "Repeats: reports that the records tie to an earlier one, by the portal's own marks;",
        "linked: by a rule, with the shares of its repeats that are right and of the marked ones",
        "that it finds in the same city. A visit before the closing is known where inspections are",
        "dated.",
        "",
        "| shape | domain | categories | with hour | with outcome | visit before closing | repeats "
        "| linked |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for domain, row in figures["whole"].items():
        lines.append(_survives("full records", domain, row))
    for portal in figures["portals"]:
        lines += [_survives(row["shape"], row["domain"], row) for row in portal["domains"]]
    lines += [
        "",
        "## How far estimates move",
        "",
        "Incidents per 28 days by `exposure_rate`, with 90 % intervals; moved: the estimate over",
        "that from the full records; Q1 : Q5: incidents of the lowest over those of the highest",
        "income quintile, which is what an audit of equity reads.",
        "",
        "| shape | domain | incidents | moved | covers the full estimate | Q1 : Q5 |",
        "| --- | --- | --- | ---: | --- | ---: |",
    ]
    for domain, row in figures["whole"].items():
        lines.append(_moves("full records", domain, row["estimate"], None))
    for portal in figures["portals"]:
        for row in portal["domains"]:
            whole = figures["whole"][row["domain"]]["estimate"]
            lines.append(_moves(row["shape"], row["domain"], row["estimate"], whole))
    return "\n".join([*lines, *_closing(figures)]) + "\n"


def _survives(shape: str, domain: str, row: dict[str, Any]) -> str:
    quality, linked = row.get("quality"), row.get("linked", 0)
    how = f"{linked:,} ({quality['precision']:.0%}, {quality['recall']:.0%})" if quality else "–"
    return (
        f"| {shape} | {domain} | {row['categories']} | {row['with_hour']:.0%} | "
        f"{row['with_outcome']:.0%} | {row['visit_before_closing']:.0%} | {row['repeats']:,} | "
        f"{how} |"
    )


def _moves(shape: str, domain: str, found: dict[str, Any], whole: dict[str, Any] | None) -> str:
    if "error" in found:
        return f"| {shape} | {domain} | refused: {found['error']} | | | |"
    moved, covers = "", ""
    if whole is not None and "total" in whole:
        moved = f"{found['total'] / whole['total']:.2f}"
        covers = "yes" if found["lower"] <= whole["total"] <= found["upper"] else "no"
    interval = f"{found['total']:,.0f} [{found['lower']:,.0f}, {found['upper']:,.0f}]"
    return (
        f"| {shape} | {domain} | {interval} | {moved} | {covers} | {found['first_to_last']:.2f} |"
    )


def _closing(figures: dict[str, Any]) -> list[str]:
    """What the rows add up to, counted."""
    rows = [row for portal in figures["portals"] for row in portal["domains"]]
    refused = sum("error" in row["estimate"] for row in rows)
    fitted = [row for row in rows if "total" in row["estimate"]]
    whole = {name: row["estimate"] for name, row in figures["whole"].items()}
    compared = [row for row in fitted if "total" in whole[row["domain"]]]
    ratios = [row["estimate"]["total"] / whole[row["domain"]]["total"] for row in compared]
    covers = sum(
        row["estimate"]["lower"] <= whole[row["domain"]]["total"] <= row["estimate"]["upper"]
        for row in compared
    )
    shifts = [
        row["estimate"]["first_to_last"] / whole[row["domain"]]["first_to_last"] for row in compared
    ]
    return [
        "",
        "## What to take from it",
        "",
        f"- Of {len(rows)} pairs of shape and domain, {refused} are refused an estimate, and "
        f"{covers} of the other {len(compared)}",
        "  have an interval that covers the estimate from the full records. Intervals of an",
        "  estimate say how sure it is under its assumptions, not what the portal left out.",
        f"- Totals move by factors from {min(ratios):.2f} to {max(ratios):.2f}; the ratio of the "
        f"quintiles by {min(shifts):.2f} to {max(shifts):.2f}:",
        "  levels from a portal's rows are to be compared within one portal only.",
        "- Rules were measured in the city that they then linked: links of another city's rows may",
        "  be worse than the shares given.",
    ]


def main() -> None:
    """Collect the figures and write the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figures = collect()
    FIGURES.write_text(json.dumps(figures, indent=1, default=str) + "\n")
    PAGE.write_text(page(figures))


if __name__ == "__main__":
    main()
