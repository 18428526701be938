"""What parity costs, over cities nobody looked at before: the figures of `price-of-parity.md`.

    python -m docs.parity_figures FILE [FILE ...]   keep what the study wrote, one city a line

The heavy part runs elsewhere (`python -m parity311.studies.parity.study`); what it wrote is kept
here without the parts that no table shows, and written into the page by `python -m docs.generate`.
The tables by denominators, inspectors and canvass rest on five earlier cities.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from parity311.report import pictures
from parity311.report.pictures import Axis, Estimate, Series
from parity311.resampling import mean_interval

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "parity.json"
EARLIER = ROOT / "docs" / "results" / "parity-inspectors.json"
PICTURE = ROOT / "docs" / "explanation" / "price-of-parity.svg"
OURS = "exposure_rate"
LEARNED, THRESHOLDS = "learned_chosen", "target_thresholds"
TITLES = {
    "balanced": "today's rule",
    "score": "score, no equity",
    "index": "index, no equity",
    "learned": "learned, no equity",
    "dual_threshold": "dual thresholds",
    THRESHOLDS: "thresholds, as validation chose",
    LEARNED: "learned, with prices, as validation chose",
}
LEAST_LEVEL = 18
"""Cities of twenty in which the limit must be kept."""
MARGIN = -0.005
"""By how much correct escalations may lie below those of the chosen thresholds."""
FRONTIER = "learned_priced"
KEPT_FIGURES = (
    "policy", "weight", "seed", "target_gap", "is_online", "pace", "follows", "coverage",
    "visits_per_complaint", "correct_a_year", "gap", "ratio", "limit_used", "price",
    "against_chosen",
)  # fmt: skip
ESTIMATORS = {
    OURS: "corrected (ours)",
    "as_published": "as published",
    "raw": "raw counts",
}


def read(path: Path) -> list[dict[str, Any]]:
    """Studies that are kept, one a domain and city."""
    return json.loads(path.read_text()) if path.exists() else []


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


def over_cities(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean over cities and its 95 % interval; one city alone has none."""
    mean = float(np.mean(values))
    lower, upper = mean_interval(values) or (mean, mean)
    return mean, lower, upper


def judge(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The bars of one domain: cities within the limit, productivity, cities with a wider gap."""
    learned, plain = pick(found, policy=LEARNED), pick(found, policy="learned")
    more = [row["against_chosen"]["value"] for row in learned]
    gaps = [(a["gap"]["value"], b["gap"]["value"]) for a, b in zip(learned, plain, strict=True)]
    level = sum(row["limit_used"] <= 1.0 for row in learned)
    mean, lower, upper = over_cities(more)
    wider = sum(own > other for own, other in gaps)
    return {
        "level": level,
        "n": len(found),
        "more": (mean, lower, upper),
        "wider": wider,
        "is_level": level >= LEAST_LEVEL,
        "is_productive": lower >= MARGIN,
        "is_never_wider": wider == 0,
    }


def turns_back(found: Sequence[dict[str, Any]]) -> list[str]:
    """Steps of the frontier at which more weight widens the gap or costs less, in words.

    Paired by city; a step counts where its 95 % interval leaves no doubt about the sign.
    """
    plain = [row["gap"]["value"] for row in pick(found, policy="learned")]
    steps = [("0", np.array(plain), np.zeros(len(plain)))]
    for weight in sorted({r["weight"] for r in found[0]["policies"] if r["policy"] == FRONTIER}):
        rows = pick(found, policy=FRONTIER, weight=weight)
        gap, price = (np.array([row[name]["value"] for row in rows]) for name in ("gap", "price"))
        steps.append((f"{weight:g}", gap, price))
    told = []
    for (before, gap, price), (after, next_gap, next_price) in pairwise(steps):
        wider, dearer = over_cities(list(next_gap - gap)), over_cities(list(next_price - price))
        if wider[1] > 0.0:
            told.append(f"{100 * wider[0]:.2f} points wider from {before} to {after}")
        if dearer[2] < 0.0:
            told.append(f"{-100 * dearer[0]:.2f} % cheaper from {before} to {after}")
    return told


def _verdict(slug: str, found: Sequence[dict[str, Any]]) -> str:
    """What holds of the learned policy with prices in one domain, in words."""
    bars = judge(found)
    mean, lower, upper = (100 * x for x in bars["more"])
    kept = "holds" if bars["is_productive"] else "is not shown at the lower bound"
    back = turns_back(found)
    frontier = f"turns back (missed): {', '.join(back)}" if back else "never turns back (met)"
    return (
        f"- **{slug}**: within the limit in {bars['level']} of {bars['n']} cities "
        f"({'met' if bars['is_level'] else 'missed'}, bar {LEAST_LEVEL} of 20); a wider gap than "
        f"without equity in {bars['wider']} "
        f"({'met' if bars['is_never_wider'] else 'missed'}); correct escalations against the "
        f"chosen thresholds {mean:+.1f} % [{lower:+.1f}, {upper:+.1f}]: not below by more than "
        f"half a point {kept}; the frontier over the weight of equity {frontier}."
    )


def _headline_table(found: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| policy | coverage | gap | least over most | within the limit | correct escalations "
        "against the chosen thresholds |",
        "| --- | ---: | --- | ---: | ---: | --- |",
    ]
    for name, title in TITLES.items():
        rows = pick(found, policy=name)
        if not rows:
            continue
        lines.append(_row(title, rows))
    return lines


def _row(title: str, rows: Sequence[dict[str, Any]]) -> str:
    cells = [
        title,
        f"{np.mean([np.mean(row['coverage']) for row in rows]):.3f}",
        _interval([row["gap"]["value"] for row in rows]),
        f"{mean_of(rows, 'ratio'):.2f}",
        f"{sum(row['limit_used'] <= 1.0 for row in rows)} of {len(rows)}",
        _interval([row["against_chosen"]["value"] for row in rows], is_share=True),
    ]
    return f"| {' | '.join(cells)} |"


def _interval(values: Sequence[float], *, is_share: bool = False) -> str:
    """Mean over cities with its 95 % interval."""
    mean, lower, upper = over_cities(values)
    if is_share:
        return f"{_percent(mean)} [{100 * lower:+.1f}, {100 * upper:+.1f}]"
    return f"{mean:.3f} [{lower:.3f}, {upper:.3f}]"


def _frontier_table(found: Sequence[dict[str, Any]]) -> list[str]:
    """What smaller weights of equity leave, with the same agent: gap, and what it costs."""
    weights = sorted({row["weight"] for row in found[0]["policies"] if row["policy"] == FRONTIER})
    lines = [
        "| weight of equity | gap | least over most | correct escalations given up against the "
        "same agent without it |",
        "| ---: | --- | ---: | --- |",
    ]
    for weight in weights:
        rows = pick(found, policy=FRONTIER, weight=weight)
        gap, price = ([row[name]["value"] for row in rows] for name in ("gap", "price"))
        cells = [
            f"{weight:g}", _interval(gap), f"{mean_of(rows, 'ratio'):.2f}",
            _interval(price, is_share=True),
        ]  # fmt: skip
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


def _choice_line(found: Sequence[dict[str, Any]], policy: str, title: str) -> str:
    """What validation chose, and in how many cities."""
    chosen = pick(found, policy=policy)
    counts = Counter(name_choice(row) for row in chosen)
    parts = [f"{name} ({n} of {len(chosen)} cities)" for name, n in counts.most_common()]
    return f"For {title} validation chose {', '.join(parts)}."


def draw_gaps(kept: Sequence[dict[str, Any]]) -> str:
    """Gap of every policy by domain, with intervals over cities."""
    series = []
    for name in ("balanced", "learned", THRESHOLDS, LEARNED):
        estimates = []
        for slug in dict.fromkeys(one["domain"] for one in kept):
            rows = pick([one for one in kept if one["domain"] == slug], policy=name)
            mean, lower, upper = over_cities([row["gap"]["value"] for row in rows])
            estimates.append(Estimate(slug, mean, max(lower, 0.0), upper))
        series.append(Series(TITLES[name], estimates))
    return pictures.interval_plot(
        series,
        title="Long-run gap of coverage between income quintiles, mean of twenty cities",
        axis=Axis("gap", includes=(0.0,)),
    )


def _estimator_table(found: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| denominators | error between strata | gap, dual | price, dual | gap, chosen | price, "
        "chosen |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, title in ESTIMATORS.items():
        errors = [max(one["need_ratio"][name]) - min(one["need_ratio"][name]) for one in found]
        cells = [title, f"{100 * np.mean(errors):.0f} %"]
        for policy in ("dual_threshold", THRESHOLDS):
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


def _by_domain(kept: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    slugs = dict.fromkeys(one["domain"] for one in kept)
    return {slug: [one for one in kept if one["domain"] == slug] for slug in slugs}


def parity_block() -> str:
    """Verdicts, the picture, and today's rule beside what validation chose in every domain."""
    kept = read(KEPT)
    if not kept:
        return "No figures are kept yet; `python -m docs.parity_figures FILE` keeps them."
    lines = ["![Gap of coverage by policy and domain](price-of-parity.svg)", ""]
    lines += [_verdict(slug, found) for slug, found in _by_domain(kept).items()]
    return "\n".join(lines)


def parity_tables_block() -> str:
    """The tables of every domain: policies, what validation chose, and the frontier."""
    lines = []
    for slug, found in _by_domain(read(KEPT)).items():
        years, cities = found[0]["config"]["n_years"], sorted(one["city"] for one in found)
        lines += [f"### {slug}", ""]
        lines += [f"{years} test years in each of {cities[0]} to {cities[-1]}.", ""]
        lines += [*_headline_table(found), ""]
        lines += [_choice_line(found, THRESHOLDS, "thresholds")]
        lines += [_choice_line(found, LEARNED, "the learned policy"), "", *_frontier_table(found)]
        lines += [""]
    return "\n".join(lines).rstrip()


def inspectors_block() -> str:
    """What denominators, more inspectors and a canvass change, in five earlier cities."""
    kept, lines = read(EARLIER), []
    for slug in dict.fromkeys(one["domain"] for one in kept):
        found = [one for one in kept if one["domain"] == slug]
        cities = ", ".join(one["city"] for one in found)
        lines += [f"### {slug}, in {cities}", "", *_estimator_table(found), ""]
        lines += [*_capacity_table(found), "", *_canvass_table(found), ""]
    return "\n".join(lines).rstrip()


def main(arguments: Sequence[str]) -> int:
    """Keep what was measured; a city measured again replaces what was kept of it."""
    kept = read(KEPT)
    for name in arguments:
        for line in Path(name).read_text().splitlines():
            one = json.loads(line)
            own = (one["domain"], one["city"])
            kept = [other for other in kept if (other["domain"], other["city"]) != own]
            kept.append(_only_shown(one))
    kept.sort(key=lambda one: (one["domain"], one["city"]))
    rounded = json.loads(json.dumps(kept), parse_float=lambda text: round(float(text), 5))
    KEPT.write_text(json.dumps(rounded, separators=(",", ":")) + "\n")
    PICTURE.write_text(draw_gaps(rounded))
    print(f"{len(kept)} studies kept")
    return 0


def _only_shown(one: dict[str, Any]) -> dict[str, Any]:
    """A study without the figures that no table shows."""
    rows = [{name: row[name] for name in KEPT_FIGURES if name in row} for row in one["policies"]]
    return {
        "domain": one["domain"], "city": one["city"], "config": one["config"],
        "need_ratio": one["need_ratio"], "policies": rows,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
