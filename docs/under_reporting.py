"""Write docs/explanation/under-reporting.md and its pictures, from figures that commands printed.

    python -m docs.under_reporting validate --city DIR       score the estimators on a city again
    python -m docs.under_reporting spatial --storm DIR       fit the flood reports again
    python -m docs.under_reporting bench                     time the default estimator again
    python -m docs.under_reporting worlds --runs DIR         gather the study of many worlds
    python -m docs.under_reporting                           write the page from what was kept

The flood reports are rows of ../shared/data/flood_reports; they are never committed, the figures
are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from parity311.report import pictures
from parity311.report.pictures import Axis, Reference, Series

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "explanation" / "under-reporting.md"
PICTURES = ROOT / "docs" / "explanation" / "under-reporting"
KEPT = ("validate", "spatial", "bench")
GROUPS = ((0.43, 1.29), (1.0, 3.0))
"""Reports per incident of a group that reports little and one that reports three times as often."""
WORLD_DOMAINS = ("heat", "elevator", "housing")
WORLD_SEEDS = range(1201, 1221)
"""Cities of the study of worlds."""
RATIO_BAR = 0.10
"""Error that is asked of the ratio of the outer quintiles."""
STORM_FILES = ("henri_tracts.csv", "tract_rook_edges.csv")


def kept(name: str) -> dict[str, Any]:
    """What a command printed when it was last run."""
    return json.loads((RESULTS / f"under-reporting-{name}.json").read_text())


def keep(name: str, *arguments: str) -> None:
    """Run a command and keep the figures it prints, without the paths of the machine."""
    code = "from parity311.cli import main; main()"
    with tempfile.TemporaryDirectory() as runs:
        given = arguments if name == "bench" else (*arguments, "--runs", runs)
        found = subprocess.run(
            [sys.executable, "-c", code, *given, "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    figures = {key: value for key, value in json.loads(found.stdout).items() if key != "report"}
    if "city" in figures:
        figures["city"] = Path(figures["city"]).name
    text = json.dumps(figures, indent=1, sort_keys=True)
    (RESULTS / f"under-reporting-{name}.json").write_text(text + "\n")


def published_share(rate: np.ndarray) -> np.ndarray:
    """What ρ̂ = 1 − D/C tends to, for Poisson reports with this mean: R/C."""
    return -np.expm1(-rate) / rate


def rows_of(scenario: str) -> list[dict[str, Any]]:
    """Scores of one scenario."""
    return [row for row in kept("validate")["estimators"] if row["scenario"] == scenario]


def told(row: dict[str, Any]) -> str:
    """How an estimator knows the lifetime."""
    if row["inspections"]:
        return f"estimated, {row['inspections']:.0%} of tracts inspected"
    return "not used" if row["lifetime"] == "none" else row["lifetime"]


def draw_worlds() -> str:
    """Error of the worst quintile in every world, from reports alone and with inspections."""
    series = []
    for inspections, name in ((0.0, "reports alone"), (0.05, "5 % of tracts inspected")):
        estimates = []
        for domain, found in kept("worlds").items():
            for row in found["rows"]:
                if row["inspections"] == inspections and "bias" in row:
                    place = int(np.argmax(np.abs(row["bias"])))
                    ends = row["bias_interval"][place]
                    label = f"{domain}, {row['world'].replace('_', ' ')}"
                    estimates.append(pictures.Estimate(label, row["bias"][place], *ends))
        series.append(Series(name, estimates))
    return pictures.interval_plot(
        series,
        title="Mean error of the quintile that is furthest off, by domain and world",
        axis=Axis("error of the number of incidents", "percent", includes=(0.0,)),
        reference=Reference(0.0, "the truth"),
    )


DRAWN = {"worlds": draw_worlds}
"""The page's one picture."""


def bias_table(scenario: str) -> list[str]:
    """Error by quintile of every estimator in one scenario."""
    lines = [
        "| estimator | lifetime | 1 | 2 | 3 | 4 | 5 | ratio 1/5 | share low | coverage |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows_of(scenario):
        errors = [*row["bias_by_quintile"], row["ratio_error"]]
        cells = " | ".join(f"{value:+.1%}" for value in errors)
        share = f"{row['low_share_at_parity']:.3f} (true {row['true_low_share']:.3f})"
        lines.append(
            f"| `{row['estimator']}` | {told(row)} | {cells} | {share} | {row['coverage']:.2f} |"
        )
    return lines


def inversion_table() -> list[str]:
    """Two groups with equal need, one reporting three times as often."""
    lines = [
        "| reports per incident, low and high | Î/I low | Î/I high | share the low group gets |",
        "| --- | ---: | ---: | ---: |",
    ]
    for low, high in GROUPS:
        need = [rate / published_share(np.array(rate)) for rate in (low, high)]
        share = need[0] / (need[0] + need[1])
        lines.append(f"| {low}, {high} | {need[0]:.2f} | {need[1]:.2f} | {share:.2f} |")
    return lines


def inversion_words() -> list[str]:
    """What the table means for an equity term, in a sentence."""
    low, high = GROUPS[0]
    need = [rate / float(published_share(np.array(rate))) for rate in (low, high)]
    return [
        f"An equity term built on these numbers would call {need[0] / sum(need):.2f} of the "
        "service an equal share for half of the need. Raw complaint counts, without any "
        f"correction, would say {low / (low + high):.2f}: the correction makes it worse."
    ]


def duplicates_words() -> list[str]:
    """How well reports are linked by rule."""
    rules = [row for row in kept("validate")["duplicate_detection"] if row["rule"]]
    best = max(rules, key=lambda row: row["precision"])
    return [
        f"rules that link reports reach a precision of {best['precision']:.2f} at a recall of "
        f"{best['recall']:.2f}; estimates from linked reports deserve less trust."
    ]


def bench_words() -> list[str]:
    """Seconds and growth with the number of incidents."""
    found = kept("bench")
    most = max(found["runs"], key=lambda row: row["n_reported_incidents"])
    slow = max(found["runs"], key=lambda row: row["processor_seconds"])
    growth = ", ".join(
        f"{name.replace('_', '-')} {value:.2f}" for name, value in found["growth"].items()
    )
    return [
        f"{most['n_reported_incidents']:,} reported incidents, even rates: "
        f"{most['processor_seconds']:.1f} processor seconds; "
        f"{slow['n_reported_incidents']:,} with heavy-tailed rates: "
        f"{slow['processor_seconds']:.1f}. Processor time grows with the number of incidents to "
        f"the power of {growth} (1 is linear). Measured on {found['n_processors']} processors at a "
        f"load of {found['load_average']}."
    ]


def worlds_words() -> list[str]:
    """What the study of worlds found, in three sentences."""
    bars = [bar | {"domain": domain} for domain, f in kept("worlds").items() for bar in f["bars"]]
    rows = [row for found in kept("worlds").values() for row in found["rows"] if "bias" in row]
    told = {
        share: max(
            (abs(one), abs(row["ratio"]))
            for row in rows
            if row["inspections"] == share
            for one in row["bias"]
        )
        for share in (0.0, 0.05)
    }
    n_cities = min(len(found["seeds"]) for found in kept("worlds").values())
    missed = [bar for bar in bars if not bar["holds"]]
    lines = [
        f"In {len({row['world'] for row in rows})} kinds of city, {n_cities} of each that nobody "
        "had looked at, "
        f"counts from reports alone are off by up to {told[0.0][0]:.0%} in a quintile on average. "
        f"With 5 % of the tracts inspected at random the worst is {told[0.05][0]:.0%}. "
        f"Asked were errors of at most 10 % by quintile and in the ratio of the outer ones, and 90 "
        f"% intervals that hold in 85 % of cities: {len(bars) - len(missed)} of {len(bars)} hold."
    ]
    told_missed = "; ".join(
        f"{bar['domain']}, {bar['world'].replace('_', ' ')}: {bar['asked']} "
        + ("none" if bar["value"] is None else f"{bar['value']:.2f}")
        for bar in missed
    )
    return lines + ([f"\nMissed: {told_missed}."] if missed else [])


def comparison_words() -> list[str]:
    """How far off the ratio of the outer quintiles is from reports alone, domain by domain."""
    told = []
    for domain, found in kept("worlds").items():
        rows = [row for row in found["rows"] if not row["inspections"] and "ratio" in row]
        usual = next(row for row in rows if row["world"] == "default")
        worst = max(rows, key=lambda row: abs(row["ratio"]))
        n_near = sum(abs(row["ratio"]) <= RATIO_BAR for row in rows)
        told.append(
            f"{domain} {usual['ratio']:+.0%} where assumptions hold, at worst "
            f"{worst['ratio']:+.0%} ({worst['world'].replace('_', ' ')}), within "
            f"{RATIO_BAR:.0%} in {n_near} of {len(rows)} worlds"
        )
    return [f"{'; '.join(told)}."]


def worlds_table() -> list[str]:
    """Mean errors with tracts inspected, world by world; reports alone by their worst quintile."""
    lines = [
        "| domain | world | reports alone, worst | reports alone, 1/5 | 1 | 2 | 3 | 4 | 5 | 1/5 "
        "| held |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for domain, found in kept("worlds").items():
        alone = {row["world"]: row for row in found["rows"] if not row["inspections"]}
        for row in found["rows"]:
            if not row["inspections"] or "bias" not in row:
                continue
            other = alone[row["world"]]
            worst, ratio = (
                (f"{max(other['bias'], key=abs):+.0%}", f"{other['ratio']:+.0%}")
                if "bias" in other
                else ("refused", "–")
            )
            cells = " | ".join(f"{value:+.1%}" for value in (*row["bias"], row["ratio"]))
            lines.append(
                f"| {domain} | {row['world']} | {worst} | {ratio} | {cells} | {row['held']:.0%} |"
            )
    return lines


def keep_worlds(runs: Path) -> None:
    """Gather the cities of the study in a folder, those seeds of which every world is there."""
    from parity311.city.departures import WORLDS
    from parity311.studies.worlds import try_worlds

    found = {}
    for domain in WORLD_DOMAINS:
        seeds = [
            seed
            for seed in WORLD_SEEDS
            if all((runs / "worlds" / f"{domain}-{name}-{seed}.json").exists() for name in WORLDS)
        ]
        if seeds:
            found[domain] = try_worlds(
                domain, seeds, runs / "worlds", worlds=list(WORLDS), progress=lambda *_: None
            )
    if not found:
        raise SystemExit(f"{runs / 'worlds'} holds no seed of {WORLD_SEEDS} with every world.")
    text = json.dumps(found, indent=1)
    (RESULTS / "under-reporting-worlds.json").write_text(text + "\n")


def bars_block() -> list[str]:
    """How many of the things asked of the default estimator hold, and which do not."""
    bars = kept("validate")["bars"]
    missed = [bar for bar in bars if not bar["holds"]]
    lines = [
        f"Asked of the default estimator, over all scenarios: {len(bars)} things (error of every "
        "quintile within 5 % where the lifetime is known or 5 % of tracts were inspected, the "
        "ratio of the outer quintiles within 5 % with inspections, coverage of 0.85 to 0.95, a "
        f"sensitivity band that holds the truth). {len(bars) - len(missed)} hold."
    ]
    lines += [
        f"- Missed: {bar['scenario']}, {bar['lifetime']}: {bar['asked']}, "
        + ("none." if bar["value"] is None else f"{bar['value']:.3f}.")
        for bar in missed
    ]
    return lines


def picture(name: str, caption: str) -> list[str]:
    """A picture with its caption."""
    return [f"![{caption}](under-reporting/{name}.svg)", ""]


def fields_words(storm: dict[str, Any]) -> str:
    """How the field that ranks areas was chosen, and what each would have given."""
    if not storm.get("fields"):
        return ""
    by_name = {row["score"]: row["auc"] for row in storm["scores"]}
    given = ", ".join(
        f"{row['field']} {by_name[row['field'] + '_field']:.3f}" for row in storm["fields"]
    )
    return f" {storm['choice']} On later reports, which chose nothing, their AUC is: {given}."


def render() -> str:
    """The page."""
    template = (PAGE.parent / "under-reporting" / "page.txt").read_text()
    validate, storm = kept("validate"), kept("spatial")
    spatial = next(row for row in storm["scores"] if row["score"] == "spatial")
    label = next(row for row in storm["scores"] if row["score"] == "label_propagation")
    parts: dict[str, list[str]] = {
        "main_picture": picture(next(iter(DRAWN)), "Error of the number of incidents"),
        "worlds_words": worlds_words(),
        "worlds_table": worlds_table(),
        "comparison_words": comparison_words(),
        "inversion_table": inversion_table(),
        "inversion_words": inversion_words(),
        "city_table": bias_table("city"),
        "bars": bars_block(),
        "duplicates_words": duplicates_words(),
        "bench_words": bench_words(),
        "city": [
            f"City `{validate['city']}`, domain {validate['domain']}: "
            f"{validate['n_true_incidents']:,} incidents happened and {validate['n_cases']:,} "
            "cases were opened."
        ],
        "storm": [
            f"AUC {spatial['auc']:.3f} (90 % interval {spatial['auc_lower']:.3f} to "
            f"{spatial['auc_upper']:.3f}), label propagation {label['auc']:.3f}; "
            f"{storm['convergence']['verdict']} {storm['not_identified']}{fields_words(storm)}"
        ],
    }
    for name, lines in parts.items():
        template = template.replace(f"[[{name}]]", "\n".join(lines).strip())
    return template


def write() -> None:
    """Write the pictures and the page."""
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    for name, draw in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(draw())
    PAGE.write_text(render())


def main() -> None:
    """Run the commands asked for, then write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("again", nargs="*", choices=[[], *KEPT, "worlds"])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--city", type=Path)
    parser.add_argument("--storm", type=Path)
    given = parser.parse_args()
    for name in given.again:
        if name == "validate":
            keep(name, "reporting", "validate", "--city", str(given.city))
        elif name == "worlds":
            keep_worlds(given.runs)
        elif name == "spatial":
            tracts, edges = (str(given.storm / file) for file in STORM_FILES)
            keep(name, "reporting", "spatial", "--tracts", tracts, "--edges", edges)
        else:
            keep(name, "bench", "reporting")
    write()


if __name__ == "__main__":
    main()
