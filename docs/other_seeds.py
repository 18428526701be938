"""Results over cities of other seeds: the figures of the README, with intervals between cities.

    python -m docs.other_seeds                 continue where it stopped, then write the table
    python -m docs.other_seeds --from-scratch  forget what is kept first

Settings were fixed before any of these cities was built. Every city is a new draw of tracts,
buildings, incidents and reports, so the interval over cities covers what the intervals over the
episodes of one city leave out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.domains import get_domain
from parity311.estimation.world import make_world
from parity311.evaluation.compare import compare_policies
from parity311.evaluation.titles import policy_title
from parity311.pipelines.run import SCENARIOS, RunConfig, ensure_city
from parity311.records.store import Records
from parity311.resampling import mean_interval
from parity311.training import train, with_equity

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "other-seeds.json"
SEEDS = tuple(range(1001, 1021))
TRAINING = 3
"""Rises when every trained agent changes; rows of an earlier one are said to be so."""
DOMAINS = ("boiler", "heat")
FIGURES = ("reward", "recall", "precision", "coverage_gap", "share_of_way", "price_of_equity")
AGENT = RunConfig().agent
"""The agent of `parity311 run`."""


def paid(agent: str) -> tuple[str, str]:
    """Policies that are paid for coverage: a learned one, and a rule with the same prices."""
    return f"{agent}_equity_0.50", "dual_threshold"


def score_domain(slug: str, records: Records, config: RunConfig) -> list[dict[str, Any]]:
    """Estimate, train and compare one domain on the last year of a city."""
    domain = get_domain(slug)
    world = make_world(domain, records)
    plain = domain.preference
    seeds = [config.seed + number for number in range(config.n_agent_seeds)]
    preferences = [plain, with_equity(plain, config.equity_weight)]
    trained = train(domain, world.estimated, AGENT, preferences, seeds, config.n_steps)
    n_episodes = config.n_episodes if domain.play.cases is None else config.n_independent_episodes
    found = compare_policies(
        trained.harness,
        world.estimated,
        world.true,
        [trained],
        n_episodes=n_episodes,
        key=jax.random.key(config.seed),
        preference=plain,
    )
    return [{"policy": row["policy"], **{name: row.get(name) for name in FIGURES}} for row in found]


def score_seeds(cities: Path, kept: Path = KEPT) -> None:
    """Score every city that is not kept yet, and keep it at once."""
    versions = {slug: get_domain(slug).version for slug in DOMAINS}
    stored = json.loads(kept.read_text()) if kept.exists() else {}
    about = {"versions": versions, "training": TRAINING, "agent": AGENT}
    rows = stored["rows"] if about.items() <= stored.items() else []
    for seed in SEEDS:
        config = RunConfig(seed=seed)
        for participation, capacity in SCENARIOS:
            records = ensure_city(config, participation, capacity, cities, lambda *_: None)
            for slug in DOMAINS:
                key = {"seed": seed, "domain": slug, "scenario": f"{participation}, {capacity}"}
                if any(key.items() <= row.items() for row in rows):
                    continue
                rows.append({**key, "policies": score_domain(slug, records, config)})
                kept.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
                print(f"kept {key}", flush=True)


def between_cities(values: list[float]) -> str:
    """Mean over cities with its t interval."""
    found = [value for value in values if value is not None and np.isfinite(value)]
    ends = mean_interval(found)
    return "–" if ends is None else f"{np.mean(found):.3f} [{ends[0]:.3f}, {ends[1]:.3f}]"


def policy_values(rows: list[dict[str, Any]], policy: str, name: str) -> list[float]:
    """A figure of one policy in every city that has it."""
    found = []
    for row in rows:
        for one in row["policies"]:
            figure = one.get(name)
            if one["policy"] == policy and figure is not None:
                found.append(figure["value"] if isinstance(figure, dict) else figure)
    return found


OUTDATED = (
    " Rows of DQN were learned before agents drew from streams of their own, and wait to be "
    "measured again in 20 cities (`python -m docs.other_seeds`)."
)


def changes(rows: list[dict[str, Any]], policy: str, name: str) -> list[float]:
    """A policy's figure less today's rule's, city by city."""
    today = np.array(policy_values(rows, "balanced", name))
    return list(np.array(policy_values(rows, policy, name)) - today)


def how_it_moved(values: list[float]) -> str:
    """Which way a difference over cities goes, as far as its interval tells."""
    ends = mean_interval(values)
    if ends is None or ends[0] <= 0.0 <= ends[1]:
        return "no measurable change"
    return "more" if ends[0] > 0.0 else "less"


def verdict_lines(kept: list[dict[str, Any]], agent: str) -> list[str]:
    """What came out, a sentence for each policy that is paid for coverage, from the intervals."""
    words = {"less": "narrows", "more": "widens", "no measurable change": "leaves"}
    found = {"more": "more found", "less": "less found", "no measurable change": "as much found"}
    lines = []
    for policy in paid(agent):
        said: dict[str, list[str]] = {}
        for slug in DOMAINS:
            for scenario in SCENARIOS:
                rows = own_rows(kept, slug, scenario)
                gap = how_it_moved(changes(rows, policy, "coverage_gap"))
                recall = how_it_moved(changes(rows, policy, "recall"))
                said.setdefault(gap, []).append(f"{slug}, {', '.join(scenario)}: {found[recall]}")
        parts = [
            f"{words[gap]} it in {len(where)} of {len(DOMAINS) * len(SCENARIOS)} settings "
            f"({'; '.join(where)})"
            for gap, where in said.items()
        ]
        title = policy_title(policy)
        lines.append(f"- **{title}**, against today's rule's gap: {', '.join(parts)}.")
    return lines


def own_rows(
    rows: list[dict[str, Any]], slug: str, scenario: tuple[str, str]
) -> list[dict[str, Any]]:
    """Cities of one domain and scenario."""
    return [r for r in rows if r["domain"] == slug and r["scenario"] == ", ".join(scenario)]


def seeds_block(kept: Path = KEPT) -> str:
    """What came out in a sentence a policy, then every setting with intervals over cities."""
    stored = json.loads(kept.read_text())
    rows, agent = stored["rows"], stored.get("agent", "dqn")
    learned, rule = paid(agent)
    lines = [
        *verdict_lines(rows, agent),
        "",
        "| domain, participation, capacity | policy | recall | coverage gap | against today's |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for slug in DOMAINS:
        for participation, capacity in SCENARIOS:
            scenario = f"{participation}, {capacity}"
            own = own_rows(rows, slug, (participation, capacity))
            for policy in ("balanced", rule, agent, learned):
                gaps = policy_values(own, policy, "coverage_gap")
                moved = changes(own, policy, "coverage_gap")
                change = "–" if policy == "balanced" else between_cities(moved)
                cells = (between_cities(policy_values(own, policy, "recall")), between_cities(gaps))
                lines.append(
                    f"| {slug}, {scenario} | {policy_title(policy)} | {' | '.join(cells)} | "
                    f"{change} |"
                )
    seeds = sorted({row["seed"] for row in rows})
    lines += [
        "",
        f"Preset small, {len(seeds)} cities (seeds {seeds[0]} to {seeds[-1]}; see "
        "docs/reference/seeds.md), two agents in each; 95 % intervals between cities."
        + ("" if stored.get("training") == TRAINING else OUTDATED),
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Score what is missing, and print the table."""
    if "--from-scratch" in arguments:
        KEPT.unlink(missing_ok=True)
    score_seeds(ROOT / "cities")
    print(seeds_block())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
