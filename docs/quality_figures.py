"""What agents reach, domain by domain: the figures of `docs/explanation/what-agents-reach.md`.

    python -m docs.quality_figures FOLDER   keep the report of a folder that was measured
    python -m docs.quality_figures          draw the picture of what is kept

Settings that the folder does not hold stay as they were kept; each names its cities.

The folder is what `parity311 bench quality --folder FOLDER` leaves (hours on two cores; the second
stage also runs on a machine where nothing is installed, see `benchmarks/quality_sweep.py`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity311.studies.quality.settings import OLDER, SHARE_BAR

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "quality.json"
NOT_MEASURED = "Not measured yet: run `parity311 bench quality --folder FOLDER`, then `python -m "
NOT_MEASURED += "docs.quality_figures FOLDER`."
PICTURE = ROOT / "docs" / "explanation" / "what-agents-reach.svg"
HEADLINE_CITIES = 20
"""Cities that a headline takes."""
ENDS = ("value", "lower", "upper")
RIVALS_BEFORE = ("electrical_revisit", "ert")
"""Settings of reports that do not say it whose best known had rivals trained in the truth."""
CHANGEOVERS = {"0": "_0", "1/6": "", "1/3": "_1_3"}
"""Share of a period lost by changing the board, and what the settings' names end with."""


def show(figure: dict[str, float] | None, factor: float = 1.0, digits: int = 2) -> str:
    """A figure with its interval where there is one; a dash where there is no figure."""
    if figure is None:
        return "–"
    shown = f"{factor * figure['value']:.{digits}f}"
    if figure["lower"] is None:
        return shown
    return f"{shown} [{factor * figure['lower']:.{digits}f}, {factor * figure['upper']:.{digits}f}]"


def quality_block(kept: Path = KEPT) -> str:
    """Verdicts, and what stands behind them."""
    if not kept.exists():
        return NOT_MEASURED
    rows = json.loads(kept.read_text())["settings"]
    folds = [
        ("Every setting: bar, best agent, share of the way, verdict", verdict_table),
        ("How long incidents last: estimated, and true", lifetime_table),
        ("What the estimate loses, by swapping in the truth", swap_table),
        ("What older records change", older_table),
        ("Boiler: what anybody could learn", learnable_table),
        ("Elevator: what a changeover costs", changeover_table),
    ]
    parts = [headline(rows), *(fold(title, write(rows)) for title, write in folds)]
    return "\n\n".join(part for part in parts if part)


def reached_block(kept: Path = KEPT) -> str:
    """Every agent beside the others, by setting."""
    return agent_table(json.loads(kept.read_text())["settings"]) if kept.exists() else NOT_MEASURED


def fold(title: str, text: str) -> str:
    """A table behind a line that opens it; nothing where there is none."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>" if text else ""


def is_headline(row: dict[str, Any]) -> bool:
    """Whether a setting was measured in as many cities as a headline takes."""
    return row["is_binding"] and len(row["cities"]) >= HEADLINE_CITIES


def headline(rows: list[dict[str, Any]]) -> str:
    """What was measured in enough cities, in sentences made from the figures."""
    told = [row for row in rows if is_headline(row)]
    if not told:
        return f"No setting was measured in {HEADLINE_CITIES} cities yet."

    def name(row: dict[str, Any]) -> str:
        share = row.get("share_of_learnable") or row["share_of_way"]
        return f"{row['setting'].replace('_', ' ')} ({100 * share['lower']:.1f} %)"

    met = [name(row) for row in told if row["verdict"] == "met"]
    missed = [name(row) for row in told if row["verdict"] != "met"]
    others = [row["setting"] for row in rows if row["is_binding"] and not is_headline(row)]
    lines = [
        f"In {HEADLINE_CITIES} cities that nobody had looked at, lower bounds between cities: "
        f"{', '.join(met) or 'none'} reach their bar"
        + (f"; **{', '.join(missed)} do not**." if missed else ".")
    ]
    lines += [
        f"The others ({', '.join(others)}) were measured in ten cities or fewer: no headline, and "
        "their rows say what is withdrawn."
    ] * bool(others)
    return "\n".join(lines)


def draw_shares(kept: Path = KEPT) -> str:
    """Share of the way of the settings that were measured in enough cities."""
    from parity311.report import pictures
    from parity311.report.pictures import Axis, Estimate, Reference

    rows = [
        row
        for row in json.loads(kept.read_text())["settings"]
        if is_headline(row) and row["bar"] in ("share", "learnable")
    ]
    estimates = [
        Estimate(row["setting"].replace("_", " "), *(share[end] for end in ENDS))
        for row in rows
        for share in [row.get("share_of_learnable") or row["share_of_way"]]
    ]
    return pictures.ranked_plot(
        estimates,
        title="Share of the way from today's rule to the ceiling or the best known",
        axis=Axis("share of the way", "percent", includes=(0.8, 1.0)),
        reference=Reference(0.9, "asked of the lower end"),
    )


def share_cell(row: dict[str, Any]) -> str:
    """Share of the way, and of which way: to a proven ceiling or to the best known."""
    if not row["has_head_room"]:
        return "no head-room"
    told = show(row["share_of_way"], 100.0, 1)
    if row.get("share_of_learnable"):
        learnable = show(row["share_of_learnable"], 100.0, 1)
        return f"{told} to the ceiling, {learnable} to what can be learned"
    if row["ceiling"] == "exact":
        return f"{told} to the ceiling"
    end = "the best known" if had_rivals(row) else "the best rule known"
    share = row["share_of_way"]
    over = max(share["value"], share["upper"] or 0.0) > 1.0
    return f"{told} to {end}" + (" (no bound: agents may pass it)" if over else "")


def had_rivals(row: dict[str, Any]) -> bool:
    """Whether agents trained in the truth competed for the best known of a setting."""
    told = row.get("trained_in_truth")
    return row["setting"] in RIVALS_BEFORE if told is None else told


def verdict_table(rows: list[dict[str, Any]]) -> str:
    """One line a setting that is held against a bar."""
    lines = [
        "| setting | cities | bar | best agent | share of the way, % | optimum of the estimate, % "
        "| gain on today's rule, % | against the best rule | regret | verdict |",
        "| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        if not row["is_binding"]:
            continue
        cells = [
            row["setting"],
            str(len(row["cities"])),
            row["says"],
            ", ".join(sorted(set(row["best_agent"].values()))),
            share_cell(row),
            show(row["share_of_way_of_estimated_optimum"], 100.0, 1),
            show(row["gain_on_today"], 100.0),
            f"{show(row['difference_to_best_rule'], digits=3)} ({row['best_rule']})",
            f"{show(row['regret'], digits=3)} ({row['ceiling']})",
            f"**{row['verdict']}**",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    most = max(rows, key=lambda row: len(row["cities"]))
    fewer = [
        f"{row['setting']} in {', '.join(str(seed) for seed in row['cities'])}"
        for row in rows
        if row["is_binding"] and row["cities"] != most["cities"]
    ]
    agents = most["agents_per_city"]
    by_agents: dict[int, list[str]] = {}
    for row in rows:
        if row["is_binding"] and row["agents_per_city"] != agents:
            by_agents.setdefault(row["agents_per_city"], []).append(row["setting"])
    others = [f"{n} in {', '.join(names)}" for n, names in by_agents.items()]
    lines += [
        "",
        f"Preset small, cities {', '.join(str(seed) for seed in most['cities'])}"
        + (f" ({'; '.join(fewer)})" if fewer else "")
        + f", {agents} agents in each"
        + (f" ({'; '.join(others)})" if others else "")
        + ", and at least "
        f"{min(row['episodes_per_city'] for row in rows)} paired episodes that nothing was chosen "
        "on. Rewards are published ones an episode. Intervals are 95 % between cities (Student's "
        "t). A figure without one is of a measurement that kept no figures by city: its verdict is "
        "withdrawn until it is measured again.",
    ]
    return "\n".join(lines)


def spread(values: Sequence[float], factor: float = 1.0) -> str:
    """The middle of the cities, and the least and the most of them."""
    least, middle, most = (factor * float(x) for x in np.quantile(values, (0.0, 0.5, 1.0)))
    return f"{middle:.0f} ({least:.0f} to {most:.0f})"


def lifetime_table(rows: list[dict[str, Any]]) -> str:
    """What is estimated of how long incidents last, and the share reached, over the cities."""
    lines = [
        "| setting, middle city (least to most) | incidents last, days: estimated | true | "
        "share of the way, % |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        shares = row["share_by_city"] or {}
        own = [seed for seed in row["lifetime_days"] if seed in shares]
        if own:
            estimated, true = (
                spread([row["lifetime_days"][seed][kind] for seed in own])
                for kind in ("estimated", "true")
            )
            reached = spread([shares[seed] for seed in own], 100.0)
            lines.append(f"| {row['setting']} | {estimated} | {true} | {reached} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def swap_table(rows: list[dict[str, Any]]) -> str:
    """What the estimate loses by each group of its numbers, and what an assumption changes."""
    shown = [row for row in rows if row.get("share_of_way_changed")]
    if not shown:
        return ""
    lines = [
        "| optimum of the estimate, share of the way, % | "
        + " | ".join(row["setting"] for row in shown)
        + " |",
        "| --- |" + " ---: |" * len(shown),
    ]
    cells = [show(row["share_of_way_of_estimated_optimum"], 100.0, 1) for row in shown]
    lines.append(f"| as estimated | {' | '.join(cells)} |")
    for name in shown[0]["share_of_way_changed"]:
        cells = [show(row["share_of_way_changed"].get(name), 100.0, 1) for row in shown]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def older_table(rows: list[dict[str, Any]]) -> str:
    """The plan learned from two years of records, and from eight, in other cities."""
    by_name = {row["setting"]: row for row in rows}
    lines = [
        "| setting | learned from | cities | incidents last, days: estimated, middle city (least "
        "to most) | true | the plan's share of the way, % | at least 90 %, lower bound |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name in [one for one in by_name if f"{one}_{OLDER}" in by_name]:
        for years, row in (("2 years", by_name[name]), ("8 years", by_name[f"{name}_{OLDER}"])):
            days = row["lifetime_days"].values()
            estimated, true = (
                spread([one[kind] for one in days]) for kind in ("estimated", "true")
            )
            share = row["agents"]["plan"]["share_of_way"]
            lower = share["lower"]
            met = "too few cities" if lower is None else "yes" if lower >= SHARE_BAR else "no"
            lines.append(
                f"| {name} | {years} | {len(row['cities'])} | {estimated} | {true} | "
                f"{show(share, 100.0, 1)} | {met} |"
            )
    if len(lines) == 2:
        return ""
    seeds = sorted(
        {seed for name, row in by_name.items() if OLDER in name for seed in row["cities"]}
    )
    lines += ["", f"Eight years: cities {', '.join(map(str, seeds))}, looked at once. No headline."]
    return "\n".join(lines)


def learnable_table(rows: list[dict[str, Any]]) -> str:
    """What could be learned at all, where the ceiling is a table's own Bayes rule."""
    lines = [
        "| setting, middle city (least to most) | reached by a rule that knows the truth of half "
        "the year, % | best agent, % |",
        "| --- | ---: | ---: |",
    ]
    for row in rows:
        shares = row["share_by_city"] or {}
        known = {
            seed: share
            for seed, share in row.get("learnable_share", {}).items()
            if share is not None and seed in shares
        }
        if known:
            could = spread(list(known.values()), 100.0)
            reached = spread([shares[seed] for seed in known], 100.0)
            lines.append(f"| {row['setting']} | {could} | {reached} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def changeover_table(rows: list[dict[str, Any]]) -> str:
    """The elevator at three losses on the way: best agent and travel-aware index."""
    by_name = {row["setting"]: row for row in rows}
    lines = [
        "| actions | lost on the way | best agent against BALANCED, % | travel-aware index, % |",
        "| --- | --- | ---: | ---: |",
    ]
    for actions, stem in (("published four", "elevator"), ("extended", "elevator_extended")):
        for lost, end in CHANGEOVERS.items():
            row = by_name.get(stem + end)
            if row is None:
                continue
            index = row["rules"]["index"]["gain_on_today"]
            lines.append(
                f"| {actions} | {lost} | {show(row['gain_on_today'], 100.0)} | "
                f"{show(index, 100.0)} |"
            )
    return "\n".join(lines) if len(lines) > 2 else ""


def agent_table(rows: list[dict[str, Any]]) -> str:
    """Every recipe of every setting: `dqn` and `hdqn` have the paper's hyper-parameters."""
    lines = ["| setting | share of the way (gain on today's rule), % |", "| --- | --- |"]
    for row in rows:
        agents = [
            f"{name} {show(agent['share_of_way'], 100.0, 1)} "
            f"({show(agent['gain_on_today'], 100.0)})"
            for name, agent in row["agents"].items()
        ]
        lines.append(f"| {row['setting']} | {'; '.join(agents)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Keep the report of a measured folder, in place of what was kept of its settings."""
    from parity311.studies.quality.jobs import prepared_seeds
    from parity311.studies.quality.report import report
    from parity311.studies.quality.settings import SETTINGS

    if not arguments:
        PICTURE.write_text(draw_shares())
        return 0
    folder = Path(arguments[0])
    found = report(folder, list(SETTINGS), prepared_seeds(folder))["settings"]
    kept = json.loads(KEPT.read_text())["settings"] if KEPT.exists() else []
    rows = {row["setting"]: row for row in [*kept, *found]}
    ordered = [rows[name] for name in SETTINGS if name in rows]
    KEPT.write_text(json.dumps({"settings": ordered}, indent=1) + "\n")
    PICTURE.write_text(draw_shares())
    print(quality_block())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
