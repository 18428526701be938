"""What parity costs, over cities nobody looked at before: the figures of `price-of-parity.md`.

    python -m docs.parity_figures FILE [FILE ...]   keep what `parity_study` wrote, one city a line

The heavy part runs elsewhere (`python -m parity311.studies.parity.study`); what it wrote is kept
here without the parts that no table shows, and written into the page by `python -m docs.generate`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "parity.json"
LARGEST_GAP, ABOVE_FLOOR, AGAINST_DUAL = 0.05, 0.015, 0.005
"""The bar: upper bound of the gap; price less its floor; upper bound of the price less the dual
rule's."""
OURS = "exposure_rate"
TITLES = {
    "balanced": "today's rule",
    "score": "score, no equity",
    "index": "index, no equity",
    "dual_threshold": "dual thresholds",
    "static_thresholds": "static thresholds",
    "target_thresholds": "thresholds, as validation chose",
    "dqn": "DQN, no equity",
    "dqn_equity": "DQN with coverage price",
}
PRICED = ("dual_threshold", "static_thresholds", "target_thresholds", "dqn_equity")
UNCROSSED = (
    "The floor of these figures was chosen and measured on the same years, before halves were "
    "kept apart: it is too low, and what a policy lies above it too much."
)
SHORT = (
    "These figures were chosen before validation played whole years: on a quarter of a year, with "
    "a promised upper bound of 0.05, among fixed prices and dual thresholds alone."
)
ESTIMATORS = {
    OURS: "corrected (ours)",
    "as_published": "as published",
    "raw": "raw counts",
}


def is_met(row: dict[str, Any]) -> dict[str, bool]:
    """Which parts of the bar one policy in one city meets."""
    return {
        "gap": row["gap"]["upper"] <= LARGEST_GAP,
        "floor": row["above_floor"]["value"] <= ABOVE_FLOOR,
        "dual": row["against_dual"]["upper"] <= AGAINST_DUAL,
    }


def pick(found: Sequence[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    """Rows of all cities that agree with what is wanted; the first of each city."""
    rows = []
    for one in found:
        own = [r for r in one["policies"] if all(r[name] == wanted[name] for name in wanted)]
        rows += own[:1]
    return rows


def mean_of(rows: Sequence[dict[str, Any]], name: str, part: str = "value") -> float:
    """Mean of a figure over cities."""
    return float(np.mean([row[name][part] for row in rows]))


def _policy_table(found: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| policy | gap (largest upper bound) | noise floor | price | floor at that gap | above the"
        " floor | price less dual's (largest upper bound) | cities that meet gap / floor / dual |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for name, title in TITLES.items():
        rows = pick(found, policy=name, estimator=OURS, capacity=1.0)
        if not rows:
            continue
        gap = f"{mean_of(rows, 'gap'):.3f} ({max(r['gap']['upper'] for r in rows):.3f})"
        cells = [title, gap, f"{mean_of(rows, 'gap', 'noise_floor'):.3f}"]
        if name in PRICED:
            worst = max(row["against_dual"]["upper"] for row in rows)
            met = [is_met(row) for row in rows]
            cells += [
                _percent(mean_of(rows, "price")),
                _percent(mean_of(rows, "floor")),
                _percent(mean_of(rows, "above_floor")),
                f"{_percent(mean_of(rows, 'against_dual'))} ({_percent(worst)})",
                " / ".join(f"{sum(m[part] for m in met)}" for part in ("gap", "floor", "dual"))
                + f" of {len(rows)}",
            ]
        else:
            cells += ["–"] * 5
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def name_choice(row: dict[str, Any]) -> str:
    """What validation chose, in words."""
    if not row["is_online"]:
        return f"fixed prices at a target gap of {row['target_gap']:g}"
    if not row.get("follows"):
        return "dual thresholds"
    factor, days = row["pace"]
    pace = f"posted every {days:g} days" if days else f"at {factor:g} × the usual step"
    return f"prices that follow complaints, {pace}"


def _choice_line(found: Sequence[dict[str, Any]]) -> str:
    """What validation chose, and in how many cities."""
    chosen = pick(found, policy="target_thresholds", estimator=OURS, capacity=1.0)
    counts = Counter(name_choice(row) for row in chosen)
    parts = [f"{name} ({n} of {len(chosen)} cities)" for name, n in counts.most_common()]
    return f"Validation chose {', '.join(parts)}."


def _estimator_table(found: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| denominators | error between strata | gap, dual | price, dual | gap, chosen | price, "
        "chosen |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, title in ESTIMATORS.items():
        errors = [max(one["need_ratio"][name]) - min(one["need_ratio"][name]) for one in found]
        cells = [title, f"{100 * np.mean(errors):.0f} %"]
        for policy in ("dual_threshold", "target_thresholds"):
            rows = pick(found, policy=policy, estimator=name, capacity=1.0)
            cells += [f"{mean_of(rows, 'gap'):.3f}", _percent(mean_of(rows, "price"))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _capacity_table(found: Sequence[dict[str, Any]]) -> list[str]:
    factors = sorted({row["capacity"] for one in found for row in one["policies"]})
    lines = [
        "| inspectors | visits per complaint | coverage without | gap without | gap, dual | price, "
        "dual | floor at that gap | floor at 0.02 |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for factor in factors:
        plain = pick(found, policy="score", estimator=OURS, capacity=factor)
        dual = pick(found, policy="dual_threshold", estimator=OURS, capacity=factor)
        at_two = [
            corner["price"]
            for one in found
            for curve in one["floor"]
            if curve["capacity"] == factor
            for corner in curve["corners"]
            if corner["gap"] == 0.02
        ]
        cells = [
            f"× {factor:g}",
            f"{np.mean([row['visits_per_complaint'] for row in plain]):.2f}",
            f"{np.mean([np.mean(row['coverage']) for row in plain]):.3f}",
            f"{mean_of(plain, 'gap'):.3f}",
            f"{mean_of(dual, 'gap'):.3f}",
            _percent(mean_of(dual, "price")),
            _percent(mean_of(dual, "floor")),
            _percent(float(np.mean(at_two))) if at_two else "not reached",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _canvass_table(found: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| inspectors | steps with a canvass | coverage of the worst served | gap | price | least "
        "reported |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    first = [{"capacity": 1.0, **row} for row in found[0]["canvass"]]
    for place in sorted(range(len(first)), key=lambda i: first[i]["capacity"]):
        share = first[place]["share"]
        rows = [one["canvass"][place] for one in found]
        cells = [
            f"× {first[place]['capacity']:g}",
            "no equity, none" if share is None else f"{100 * share:.0f} %",
            f"{mean_of(rows, 'worst_coverage'):.3f}",
            f"{mean_of(rows, 'gap'):.3f}",
            _percent(mean_of(rows, "price")),
            f"{np.mean([row['least_reported'] for row in rows]):.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"


def parity_block() -> str:
    """All tables, domain by domain."""
    if not KEPT.exists():
        return "No figures are kept yet; `python -m docs.parity_figures FILE` keeps them."
    kept = json.loads(KEPT.read_text())
    lines = []
    for slug in dict.fromkeys(one["domain"] for one in kept):
        found = [one for one in kept if one["domain"] == slug]
        years = found[0]["config"]["n_years"]
        cities = ", ".join(one["city"] for one in found)
        lines += [f"### {slug}", "", f"{years} test years in each of {cities}.", ""]
        lines += [*_policy_table(found), "", _choice_line(found), ""]
        if not all("floor_years" in one for one in found):
            lines += [UNCROSSED, ""]
        if not all("validation_days" in one for one in found):
            lines += [SHORT, ""]
        lines += [*_estimator_table(found), ""]
        lines += [*_capacity_table(found), ""]
        if found[0]["canvass"]:
            lines += [*_canvass_table(found), ""]
    return "\n".join(lines).rstrip()


def main(arguments: Sequence[str]) -> int:
    """Keep what was measured; a city measured again replaces what was kept of it."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else []
    for name in arguments:
        for line in Path(name).read_text().splitlines():
            one = json.loads(line)
            own = (one["domain"], one["city"])
            kept = [other for other in kept if (other["domain"], other["city"]) != own]
            kept.append(one)
    kept.sort(key=lambda one: (one["domain"], one["city"]))
    rounded = json.loads(json.dumps(kept), parse_float=lambda text: round(float(text), 5))
    KEPT.write_text(json.dumps(rounded, separators=(",", ":")) + "\n")
    print(f"{len(kept)} studies kept")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
