"""Frontiers of cities nobody looked at before: the figures of `docs/explanation/frontier.md`.

    python -m docs.frontier_figures [DOMAIN ...]       build the cities, learn, play (minutes each)
    python -m docs.frontier_figures --sensitivity DOMAIN    which assumption moves it most
    python -m docs.frontier_figures --out DIR --workers 10  elsewhere: a file for each city
    python -m docs.frontier_figures --gather DIR            keep what came back

Each city is a new seed of the small preset, with strong participation and scarce capacity. The
interval of a figure is over cities: that of one city is over its own training seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from parity311.domains import get_domain
from parity311.errors import Parity311Error
from parity311.evaluation.compare import later_flow
from parity311.evaluation.frontier import play_frontier
from parity311.evaluation.frontier_figures import (
    NOTHING,
    PriceFloor,
    measure_sensitivity,
    price_of_rule,
    summarise_frontier,
)
from parity311.jobs.choose import Workplace
from parity311.mdp.harness import Harness
from parity311.pipelines.frontier import read_world
from parity311.pipelines.run import RunConfig, ensure_city
from parity311.resampling import mean_interval
from parity311.storage.strict_json import to_plain
from parity311.studies.reproduction.side_by_side import Call, run_calls
from parity311.training import train
from parity311.training.frontier import spread_preferences

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "frontier.json"
CITY_SEEDS = (851, 852, 853, 854, 855)
"""Seeds on which nothing was chosen"""
N_PREFERENCES = 128
N_AGENT_SEEDS = 5
N_STEPS = 10_000


def measure_city(slug: str, city_seed: int, cities: Path) -> dict[str, Any]:
    """The frontier of one domain in one city, and today's rule beside it."""
    domain = get_domain(slug)
    config = RunConfig(seed=city_seed)
    records = ensure_city(config, "strong", "scarce", cities, lambda *_: None)
    world = read_world(domain, records)
    harness = Harness(domain)
    menu = spread_preferences(domain.preference, N_PREFERENCES)
    trained = train(domain, world.estimated, "conditioned", menu, range(N_AGENT_SEEDS), N_STEPS)
    frontier = play_frontier(harness, world.estimated, world.scored, menu, trained, seed=city_seed)
    flow = later_flow(harness, world.estimated, world.scored)
    found = summarise_frontier(frontier, PriceFloor(harness, flow))
    today = found["rules"][frontier.today]
    without = [p for p in found["points"] if p["preference"]["equity"] == 0]
    near = min(without, key=lambda p: abs(p["visits"]["value"] - today["visits"]["value"]))
    return {
        "domain": slug,
        "version": domain.version,
        "city_seed": city_seed,
        "n_best": found["n_best"],
        "n_points": len(menu),
        "hypervolume": found["hypervolume"]["value"],
        "additive_epsilon": found["additive_epsilon"]["value"],
        "gap_today": today["gap"]["value"],
        "recall_today": today["recall"]["value"],
        "gap_without_equity": near["gap"]["value"],
        "recall_without_equity": near["recall"]["value"],
        "least_gap": _least_gap(found["price_curve"]),
        "price_curve": found["price_curve"],
        "dual_rule": price_of_rule(frontier),
    }


def _least_gap(curve: list[dict[str, Any]]) -> float | None:
    """Gap of the first level that any preference reaches."""
    return next((row["reached_gap"]["value"] for row in curve if row["reached_gap"]), None)


def keep(found: dict[str, Any], kind: str) -> None:
    """Put one result in its place among those that are kept."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"cities": [], "sensitivity": []}
    same = lambda one: (one["domain"], one["city_seed"]) == (found["domain"], found["city_seed"])  # noqa: E731
    kept[kind] = [one for one in kept[kind] if not same(one)] + [found]
    kept[kind].sort(key=lambda one: (one["domain"], one["city_seed"]))
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


def measure_assumptions(slug: str, city_seed: int, cities: Path) -> dict[str, Any]:
    """Which assumption moves the frontier of one city most."""
    domain = get_domain(slug)
    records = ensure_city(RunConfig(seed=city_seed), "strong", "scarce", cities, lambda *_: None)
    world = read_world(domain, records)
    rows = measure_sensitivity(
        Harness(domain), world.estimated, world.scored, world.others,
        n_seeds=N_AGENT_SEEDS, steps=N_STEPS, seed=city_seed,
    )  # fmt: skip
    return {"domain": slug, "city_seed": city_seed, "rows": rows}


def _write(values: list[float | None], form: str = ".3f") -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    bounds = mean_interval(known)
    text = f"{np.mean(known):{form}}"
    if bounds:
        text += f" ({bounds[0]:{form}} to {bounds[1]:{form}})"
    return text + (f", {len(known)} of {len(values)} cities" if len(known) < len(values) else "")


def frontier_block() -> str:
    """One row a domain, then the price of equity gap by gap."""
    kept = json.loads(KEPT.read_text())["cities"]
    heads = (
        "domain", "cities", "unbeaten", "volume", "ε to cover every rule", "gap today",
        "gap without equity", "least gap reached",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    slugs = list(dict.fromkeys(one["domain"] for one in kept))
    for slug in slugs:
        own = [one for one in kept if one["domain"] == slug]
        each = lambda name, own=own: _write([one[name] for one in own])  # noqa: E731
        best = sum(one["n_best"] for one in own), sum(one["n_points"] for one in own)
        lines.append(
            f"| {slug} | {len(own)} | {best[0]} of {best[1]} | {each('hypervolume')} | "
            f"{each('additive_epsilon')} | {each('gap_today')} | {each('gap_without_equity')} | "
            f"{each('least_gap')} |"
        )
    lines.append("")
    for slug in slugs:
        lines += _curve_lines(slug, [one for one in kept if one["domain"] == slug])
    return "\n".join(lines)


def _curve_lines(slug: str, own: list[dict[str, Any]]) -> list[str]:
    lines = [f"**{slug}**: price of equity at about today's visits", ""]
    lines += ["| gap at most | price, % | floor, % |", "| ---: | ---: | ---: |"]
    for place, row in enumerate(own[0]["price_curve"]):
        rows = [one["price_curve"][place] for one in own]
        prices = [None if r["price"] is None else 100 * r["price"]["value"] for r in rows]
        floors = [None if r["floor"] is None else 100 * r["floor"] for r in rows]
        lines.append(f"| {row['gap']} | {_write(prices, '.1f')} | {_write(floors, '.1f')} |")
    rules = [one["dual_rule"] for one in own if one["dual_rule"]]
    if rules:
        gap = _write([rule["gap"]["value"] for rule in rules])
        price = _write([100 * rule["price"]["value"] for rule in rules], ".1f")
        lines += [
            "",
            f"The dual-threshold rule: gap {gap}, price {price} a visit. Prices in percent.",
        ]
    return [*lines, ""]


def sensitivity_block() -> str:
    """One table a domain, what moves the frontier most first."""
    kept = json.loads(KEPT.read_text())["sensitivity"]
    lines = [] if kept else ["Not measured yet: `python -m docs.frontier_figures --sensitivity`."]
    for found in kept:
        lines += [f"**{found['domain']}**, city {found['city_seed']}", ""]
        lines += ["| assumption | change | moves | volume | price at a gap of 0.05 | least gap |",
                  "| --- | --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
        for row in found["rows"]:
            price = row["price_at_target"]
            said = "out of reach" if price is None else _bounds(price, 100.0, ".1f")
            name = f"*{row['assumption']}*" if row["assumption"] == NOTHING else row["assumption"]
            lines.append(
                f"| {name} | {row['change']} | {100 * row['moves']:.1f} % | "
                f"{_bounds(row['volume_change'], 100.0, '+.1f')} | {said} | "
                f"{_bounds(row['least_gap'], 1.0, '.3f')} |"
            )
        lines.append("")
    return "\n".join(lines)


def _bounds(figure: dict[str, Any], scale: float, form: str) -> str:
    text = f"{scale * figure['value']:{form}}"
    if figure["lower"] is None:
        return text
    return f"{text} ({scale * figure['lower']:{form}} to {scale * figure['upper']:{form}})"


def _measure_apart(slug: str, seed: int, kind: str, out: str | None) -> str:
    """Measure one thing and keep it; where it cannot be, say so and let the others go on."""
    measure = measure_city if kind == "cities" else measure_assumptions
    try:
        found = measure(slug, seed, ROOT / "cities")
    except (Parity311Error, RuntimeError) as error:
        return f"{kind} {slug} {seed} failed: {error}"
    if out is None:
        keep(found, kind)
    else:
        Path(out).mkdir(parents=True, exist_ok=True)
        (Path(out) / f"{kind}-{slug}-{seed}.json").write_text(json.dumps(to_plain(found)) + "\n")
    return f"{kind} {slug} {seed}"


def calls_for(slugs: list[str], kinds: list[str], out: Path | None) -> list[Call]:
    """What is measured: every city, and the assumptions in the first; the longest first."""
    tasks = [(slug, CITY_SEEDS[0], "sensitivity") for slug in slugs if "sensitivity" in kinds]
    tasks += [(slug, seed, "cities") for slug in slugs if "cities" in kinds for seed in CITY_SEEDS]
    return [(_measure_apart, (*task, out)) for task in tasks]


def gather(folder: Path) -> list[str]:
    """Keep what another machine measured; the names of the files."""
    paths = sorted(folder.glob("*-*.json"))
    for path in paths:
        keep(json.loads(path.read_text()), path.name.partition("-")[0])
    return [path.name for path in paths]


def main(arguments: list[str]) -> int:
    """Measure these domains, or boiler and heat; keep each city at once."""
    parser = argparse.ArgumentParser(description="Frontiers of cities nobody looked at before.")
    parser.add_argument("domains", nargs="*", default=["boiler", "heat"])
    parser.add_argument("--sensitivity", action="store_true", help="the assumptions alone")
    parser.add_argument("--both", action="store_true", help="cities and assumptions")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file a result, instead of docs/results")
    parser.add_argument("--gather", type=Path, help="keep what such a folder holds")
    given = parser.parse_args(arguments)
    if given.gather is not None:
        print("\n".join(gather(given.gather)))
        return 0
    kinds = ["sensitivity"] if given.sensitivity else ["cities"]
    kinds = ["cities", "sensitivity"] if given.both else kinds
    if given.out is None and given.workers > 1:
        parser.error("several workers would write one file: give --out, then --gather")
    run_calls(calls_for(given.domains, kinds, given.out), Workplace(n_workers=given.workers), print)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
