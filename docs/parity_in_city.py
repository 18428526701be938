"""The learned policy with settled prices in the city itself, beside the process it is praised in.

    python -m docs.parity_in_city heat,elevator       play the cities that are not kept yet
    python -m docs.parity_in_city heat --cities 3     so many more of them at most

One city and domain at a time, each kept as soon as it is played (docs/results/parity-in-city.json);
`python -m docs.generate` writes the page and README from what is kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from docs.parity_figures import LEAST_LEVEL, MARGIN, ROOT, over_cities
from parity311.city.ensure import open_or_build
from parity311.domains import get_domain
from parity311.pipelines.evaluate import FRESH, TODAY
from parity311.studies.parity.long_run import limit_used

KEPT = ROOT / "docs" / "results" / "parity-in-city.json"
SEEDS = tuple(range(1701, 1721))
DOMAINS = ("heat", "elevator", "housing")
SCENARIO = ("strong", "scarce")
LEARNED, PLAIN, DUAL = "learned_priced", "learned", "dual_threshold"
TITLES = {
    TODAY: "today's rule",
    FRESH: "same codes, freshest first",
    PLAIN: "learned, no equity",
    DUAL: "thresholds with prices",
    LEARNED: "learned, with prices",
}
IN_PROCESS = {TODAY: "balanced", PLAIN: PLAIN, DUAL: DUAL, LEARNED: LEARNED}
"""What a policy of the city is called in the process; the freshest first is not played there."""
FEWEST = 3
"""Cities from which on a mean over them is told."""


def read_kept(kept: Path = KEPT) -> list[dict[str, Any]]:
    """Played cities, one entry a domain and city."""
    return json.loads(kept.read_text()) if kept.exists() else []


def play_cities(
    domains: Sequence[str], n_cities: int, cities: Path, kept: Path = KEPT
) -> list[dict[str, Any]]:
    """Play up to so many cities that are not kept yet, and keep each at once."""
    from parity311.studies.parity.in_city import PlayConfig, play_in_city

    processes = [get_domain(slug).process for slug in DOMAINS]
    participation, capacity = SCENARIO
    for slug in domains:
        there = {one["city"] for one in read_kept(kept) if one["domain"] == slug}
        left = [seed for seed in SEEDS if f"small-{seed}" not in there]
        for seed in left[:n_cities]:
            path = cities / f"parity-{seed}-{participation}-{capacity}"
            open_or_build(
                path, processes, preset="small", seed=seed,
                participation=participation, capacity=capacity,
            )  # fmt: skip
            found = play_in_city(slug, path, PlayConfig())
            keep([*read_kept(kept), found], kept)
            print(f"kept {slug} in small-{seed}", flush=True)
    return read_kept(kept)


def keep(rows: Sequence[dict[str, Any]], kept: Path = KEPT) -> None:
    """Keep played cities, figures to five digits."""
    known = sorted(rows, key=lambda one: (one["domain"], one["city"]))
    short = json.loads(json.dumps(known), parse_float=lambda text: round(float(text), 5))
    kept.write_text(json.dumps(short, separators=(",", ":")) + "\n")


def of_domain(slug: str, kept: Path = KEPT) -> list[dict[str, Any]]:
    """Played cities of a domain."""
    return [one for one in read_kept(kept) if one["domain"] == slug]


def pairs(found: Sequence[dict[str, Any]], policy: str, figure: str, where: str) -> np.ndarray:
    """A figure of a policy less that of today's rule, city by city, in one of the two truths."""
    own, today = (policy, TODAY) if where == "in_city" else (IN_PROCESS[policy], IN_PROCESS[TODAY])
    return np.array([one[where][own][figure] - one[where][today][figure] for one in found])


def parity_in_city_block(kept: Path = KEPT) -> str:
    """Both scores of every policy and their difference, in words and as a table."""
    lines, tables = [], []
    for slug in DOMAINS:
        found = of_domain(slug, kept)
        if len(found) < FEWEST:
            lines.append(f"- **{slug}**: played in {len(found)} cities, too few to tell.")
            continue
        lines.append(say_domain(slug, found))
        tables += [*table_of(slug, found), ""]
    if not tables:
        return "Not measured yet: `python -m docs.parity_in_city`."
    seeds = sorted({one["city"] for one in read_kept(kept)})
    years = read_kept(kept)[0]["config"]["n_years"]
    process = sorted({one["config"]["n_process_years"] for one in read_kept(kept)})
    return "\n".join(
        [
            *lines,
            "",
            "<details markdown>",
            "<summary>Both scores of every policy</summary>",
            "",
            *tables,
            f"Cities {seeds[0]} to {seeds[-1]}, strong participation, scarce capacity: "
            f"{years} test years in the city, {' or '.join(map(str, process))} in the "
            "process; 95 % intervals between cities. *Richest less poorest*: coverage of the fifth "
            "quintile less that of the first, which few counts do not push up as they do the gap. "
            "*Noise*: the gap of equal coverage, from counts as few.",
            "",
            "</details>",
        ]
    )


def say_domain(slug: str, found: Sequence[dict[str, Any]]) -> str:
    """What the learned policy with prices does in the city, beside the process, in words."""
    there, here = (pairs(found, LEARNED, "gap", where) for where in ("process", "in_city"))
    cover = pairs(found, LEARNED, "overall", "in_city")
    today, learned = (
        np.mean([one["in_city"][n]["ratio"] for one in found]) for n in (TODAY, LEARNED)
    )
    wider = pairs(found, LEARNED, "gap", "in_city") > pairs(found, PLAIN, "gap", "in_city")
    narrower = int((here < 0.0).sum())
    within = [is_within(found, name) for name in (TODAY, LEARNED, DUAL)]
    is_level = within[1] >= LEAST_LEVEL / len(SEEDS) * len(found)
    more = over_cities(list(lead_in_finds(found)))
    kept = "holds" if more[1] >= MARGIN else "is not shown at the lower bound"
    return (
        f"- **{slug}**, {len(found)} cities: against today's rule the gap changes by "
        f"{_points(there)} points in the process and by {_points(here)} in the city "
        f"(difference {_points(here - there)}), narrower in {narrower} of {len(found)} cities; "
        f"coverage in the city changes by {_points(cover)} points. There the least served quintile "
        f"gets {today:.2f} of what the best served gets under today's rule, {learned:.2f} under "
        f"the learned one; the audit's limit is kept in {within[0]} and in {within[1]} of "
        f"{len(found)} cities ({'met' if is_level else 'missed'}, bar {LEAST_LEVEL} of "
        f"{len(SEEDS)}), by the thresholds with prices in {within[2]}; a wider gap "
        f"than without equity in {wider.sum()} ({'missed' if wider.any() else 'met'}); correct "
        f"escalations against the thresholds with prices {_percent(more)}: not below by more than "
        f"half a point {kept}; its gap less theirs "
        f"{_points(here - pairs(found, DUAL, 'gap', 'in_city'))} points."
    )


def lead_in_finds(found: Sequence[dict[str, Any]]) -> np.ndarray:
    """Correct escalations over those of the thresholds with prices, as a share, city by city."""
    own, other = (
        np.array([one["in_city"][name]["correct_a_year"] for one in found])
        for name in (LEARNED, DUAL)
    )
    return own / other - 1.0


def is_within(found: Sequence[dict[str, Any]], policy: str) -> int:
    """Cities in which a policy keeps the audit's limit, chance and all."""
    used = [limit_used(np.array(one["in_city"][policy]["coverage"])) for one in found]
    return int(sum(one <= 1.0 for one in used))


def table_of(slug: str, found: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of a domain: coverage, gap, ratio and visits in the city, the gap in the process."""
    lines = [
        f"| {slug} | coverage | gap | noise | richest less poorest | least over most | visits | "
        "gap in the process | coverage in the process |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, title in TITLES.items():
        rows = [one["in_city"][name] for one in found]
        today = [one["in_city"][TODAY]["visits_a_year"] for one in found]
        visits = np.mean([row["visits_a_year"] for row in rows]) / np.mean(today)
        cells = [title, *(_between([row[key] for row in rows]) for key in ("overall", "gap"))]
        cells += [f"{np.mean([row['noise'] for row in rows]):.3f}"]
        cells += [_between([row[key] for row in rows]) for key in ("outer", "ratio")]
        cells += [f"{visits:.2f}"]
        for key in ("gap", "overall"):
            there = IN_PROCESS.get(name)
            values = [one["process"][there][key] for one in found] if there else []
            cells.append(_between(values) if values else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _points(values: np.ndarray) -> str:
    """Mean over cities and interval, in points of a hundred."""
    mean, low, high = (100 * end for end in over_cities(list(values)))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def _percent(ends: tuple[float, float, float]) -> str:
    mean, low, high = (100 * end for end in ends)
    return f"{mean:+.1f} % [{low:+.1f}, {high:+.1f}]"


def _between(values: Sequence[float]) -> str:
    mean, low, high = over_cities(values)
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def main(arguments: Sequence[str]) -> int:
    """Play what was asked for."""
    # The same programs for every city: compiled once.
    jax.config.update("jax_compilation_cache_dir", str(ROOT / "runs" / "compiled"))
    n_cities = len(SEEDS)
    if "--cities" in arguments:
        n_cities = int(arguments[list(arguments).index("--cities") + 1])
    domains = arguments[0].split(",") if arguments else DOMAINS
    play_cities(domains, n_cities, ROOT / "cities")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
