"""Write docs/explanation/under-reporting.md and its pictures, from figures that commands printed.

    python -m docs.under_reporting validate --city DIR       score the estimators on a city again
    python -m docs.under_reporting spatial --storm DIR       fit the flood reports again
    python -m docs.under_reporting bench                     time the default estimator again
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
from parity311.report.pictures import Axis, Line, Reference, Series

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "explanation" / "under-reporting.md"
PICTURES = ROOT / "docs" / "explanation" / "under-reporting"
KEPT = ("validate", "spatial", "bench")
SHOWN = ("exposure_rate", "zero_truncated", "as_published", "raw")
"""Estimators of the first picture; the table has all."""
GROUPS = ((0.43, 1.29), (1.0, 3.0))
"""Reports per incident of a group that reports little and one that reports three times as often."""
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


def draw_inversion() -> str:
    """P(reported) and ρ̂ over the mean number of reports of an incident."""
    rate = np.linspace(0.1, 3.0, 30)
    x = tuple(float(value) for value in rate)
    return pictures.line_chart(
        [
            Line("truly reported", x, tuple(float(v) for v in -np.expm1(-rate))),
            Line("1 − D/C", x, tuple(float(v) for v in published_share(rate))),
        ],
        title="The published share falls where the true one rises",
        x_axis=Axis("reports per incident, on average"),
        y_axis=Axis("share of incidents reported", "percent", includes=(0.0, 1.0)),
    )


def rows_of(scenario: str) -> list[dict[str, Any]]:
    """Scores of one scenario."""
    return [row for row in kept("validate")["estimators"] if row["scenario"] == scenario]


def told(row: dict[str, Any]) -> str:
    """How an estimator knows the lifetime."""
    if row["inspections"]:
        return f"estimated, {row['inspections']:.0%} of tracts inspected"
    return "not used" if row["lifetime"] == "none" else row["lifetime"]


def draw_bias() -> str:
    """Error of the estimators by income quintile."""
    chosen = [
        row for row in rows_of("city") if row["estimator"] in SHOWN and told(row) in WITHOUT_TRUTH
    ]
    series = [
        Series(
            row["estimator"],
            [
                pictures.Estimate(f"quintile {place + 1}", bias, low - 1.0, high - 1.0)
                for place, (bias, (low, high)) in enumerate(
                    zip(row["bias_by_quintile"], row["interval_by_quintile"], strict=True)
                )
            ],
        )
        for row in chosen
    ]
    return pictures.interval_plot(
        series,
        title="Error of estimated incidents by income quintile (1 is the poorest)",
        axis=Axis("error", "percent", includes=(0.0,)),
        reference=Reference(0.0, "the truth"),
    )


WITHOUT_TRUTH = ("not used", "estimated")
"""What an agency has: no lifetime, or one estimated from its reports."""


def draw_band() -> str:
    """The default estimate with its sensitivity band, over the truth."""
    row = next(row for row in rows_of("city") if row["band_by_quintile"])
    estimates = [
        pictures.Estimate(f"quintile {place + 1}", 1.0 + bias, low, high)
        for place, (bias, (low, high)) in enumerate(
            zip(row["bias_by_quintile"], row["band_by_quintile"], strict=True)
        )
    ]
    return pictures.interval_plot(
        [Series("exposure_rate", estimates)],
        title="Half to double the lifetime: how far the estimate moves",
        axis=Axis("estimated over true incidents", includes=(1.0,)),
        reference=Reference(1.0, "the truth"),
    )


def draw_storm() -> str:
    """Area under the curve of the spatial model and its baselines."""
    estimates = [
        pictures.Estimate(row["score"], row["auc"], row["auc_lower"], row["auc_upper"])
        for row in kept("spatial")["scores"]
    ]
    return pictures.ranked_plot(
        estimates,
        title="Later flood reports foretold from the first hours",
        axis=Axis("area under the curve", includes=(0.5,)),
        reference=Reference(0.5, "chance"),
    )


DRAWN = {
    "inversion": draw_inversion,
    "bias": draw_bias,
    "band": draw_band,
    "storm": draw_storm,
}


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


def duplicates_table() -> list[str]:
    """Precision and recall of every link rule."""
    lines = ["| rule | precision | recall |", "| --- | ---: | ---: |"]
    for row in kept("validate")["duplicate_detection"]:
        rule = row["rule"]
        words = "the agency's own marks"
        if rule:
            words = f"same building, within {rule['max_days']:g} days"
            words += ", same problem" if rule["same_problem"] else ", any problem"
            words += ", while the first is open" if rule["until_closed"] else ""
        lines.append(f"| {words} | {row['precision']:.2f} | {row['recall']:.2f} |")
    return lines


def bench_table() -> list[str]:
    """Seconds by number of incidents."""
    found = kept("bench")
    lines = [
        "| reporting between incidents | lifetime | reported incidents | seconds | processor |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['scenario'].replace('_', '-')} | {row['lifetime']} "
        f"| {row['n_reported_incidents']:,} | {row['seconds']:.1f} "
        f"| {row['processor_seconds']:.1f} |"
        for row in found["runs"]
    ]
    growth = ", ".join(
        f"{name.replace('_', '-')} {value:.2f}" for name, value in found["growth"].items()
    )
    return [
        *lines,
        "",
        f"Measured on {found['n_processors']} processors at a load of {found['load_average']} "
        f"when it ended. Processor time grows with the number of incidents to the power of "
        f"{growth} (1 is linear).",
    ]


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


def render() -> str:
    """The page."""
    template = (PAGE.parent / "under-reporting" / "page.txt").read_text()
    validate, storm = kept("validate"), kept("spatial")
    spatial = next(row for row in storm["scores"] if row["score"] == "spatial")
    label = next(row for row in storm["scores"] if row["score"] == "label_propagation")
    parts: dict[str, list[str]] = {
        "inversion_picture": picture("inversion", "True share reported against 1 − D/C"),
        "inversion_table": inversion_table(),
        "inversion_words": inversion_words(),
        "bias_picture": picture("bias", "Error by income quintile for four estimators"),
        "city_table": bias_table("city"),
        "band_picture": picture("band", "Sensitivity band of the default estimate"),
        "bars": bars_block(),
        "duplicates_table": duplicates_table(),
        "storm_picture": picture("storm", "Area under the curve by score"),
        "bench_table": bench_table(),
        "city": [
            f"City `{validate['city']}`, domain {validate['domain']}: "
            f"{validate['n_true_incidents']:,} incidents happened and {validate['n_cases']:,} "
            "cases were opened."
        ],
        "storm": [
            f"AUC {spatial['auc']:.3f} (90 % interval {spatial['auc_lower']:.3f} to "
            f"{spatial['auc_upper']:.3f}), label propagation {label['auc']:.3f}; "
            f"{storm['convergence']['verdict']} {storm['not_identified']}"
        ],
    }
    for name, meaning in validate["scenarios"].items():
        if name != "city":
            parts[f"{name}_table"] = [f"**{name}**: {meaning}.", "", *bias_table(name)]
    for name, lines in parts.items():
        template = template.replace(f"[[{name}]]", "\n".join(lines).strip())
    return template


def write() -> None:
    """Write the pictures and the page."""
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(draw())
    PAGE.write_text(render())


def main() -> None:
    """Run the commands asked for, then write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("again", nargs="*", choices=[[], *KEPT])
    parser.add_argument("--city", type=Path)
    parser.add_argument("--storm", type=Path)
    given = parser.parse_args()
    for name in given.again:
        if name == "validate":
            keep(name, "reporting", "validate", "--city", str(given.city))
        elif name == "spatial":
            tracts, edges = (str(given.storm / file) for file in STORM_FILES)
            keep(name, "reporting", "spatial", "--tracts", tracts, "--edges", edges)
        else:
            keep(name, "bench", "reporting")
    write()


if __name__ == "__main__":
    main()
