"""How much of a policy's simulated gain arrives in the city: test years of cities nobody had seen.

    python -m docs.city_years                 play what is not kept yet, then write the table
    python -m docs.city_years --part 1/2      play every second city of it; start the other part too

Policies are made from the years before, as `parity311 policies make` and `train` make them, and
play the last year in the place of today's rule (`parity311 evaluate`). Settings were fixed before
any of these cities was built.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.city.ensure import open_or_build
from parity311.domains import get_domain
from parity311.estimation.world import World, make_world
from parity311.mdp.contract import Policy
from parity311.mdp.harness import Harness
from parity311.pipelines.evaluate import FRESH, TODAY, evaluate_policies
from parity311.pipelines.packages import pack_rule
from parity311.pipelines.run import SCENARIOS
from parity311.resampling import mean_interval
from parity311.training import train, with_equity
from parity311.training.saving import PLAN, origin_of, rule_maker, save_policy

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "city-years.json"
SEEDS = tuple(range(1101, 1121))
DOMAINS = ("heat", "elevator", "housing", "crane", "snad")
EQUITY_WEIGHT = 0.5
"""α₃ of the policies with equity, as in `parity311 run`."""
N_STEPS = 8_000
"""Updates of a learned agent, as in `parity311 run`."""
FIGURES = ("coverage", "gap", "recall", "mean_delay_days", "n_visits", "n_correct")
MOSTLY = 0.5
"""Share of cases that today's rule decided in a policy's place from which on nothing is told."""
TITLES = {
    TODAY: "today's rule",
    FRESH: "same codes, freshest first",
    "index": "index",
    "thresholds": "thresholds with coverage price",
    "plan": "plan",
    "dqn": "DQN",
    "dqn_equity": "DQN, paid for coverage",
}


def make_policies(world: World, out: Path) -> dict[Path, Policy]:
    """The policies of a domain, made from what came before the test year: packed, and as played."""
    domain = world.domain
    # The elevator's and housing's own orders of work are among the further actions.
    harness = Harness(domain, action_set="extended" if domain.extended_actions else "published")
    plain = Harness(domain)
    origin = origin_of(world)
    rules = {
        "index": ("index", harness if domain.slug == "elevator" else plain, 0.0),
        "thresholds": ("dual_threshold", harness, EQUITY_WEIGHT),
    }
    if domain.play.solve is not None:
        rules["plan"] = (PLAN, plain, 0.0)
    made: dict[Path, Policy] = {}
    for name, (rule, seen, weight) in rules.items():
        folder = pack_rule(out / name, seen, rule, world.estimated, weight, origin=origin)
        preference = np.asarray(with_equity(domain.preference, weight))
        made[folder] = rule_maker(seen, rule, preference)(world.estimated, seen)
    preferences = [domain.preference, with_equity(domain.preference, EQUITY_WEIGHT)]
    trained = train(
        domain, world.estimated, "dqn", preferences, [0], N_STEPS, action_set=plain.action_set
    )
    for index, name in enumerate(("dqn", "dqn_equity")):
        folder = save_policy(out / name, trained, index, params=world.estimated, origin=origin)
        made[folder] = trained.policy(index)
    return made


def play_domain(slug: str, city: Path) -> list[dict[str, Any]]:
    """Make a domain's policies and let them play the city's own test year."""
    from parity311.records.store import open_records

    world = make_world(get_domain(slug), open_records(city))
    with tempfile.TemporaryDirectory() as folder:
        made = make_policies(world, Path(folder))
        players = {path.name: policy for path, policy in made.items()}
        found = evaluate_policies(
            list(made), city,
            n_replicates=1, players=players, known={slug: world}, progress=lambda *_: None,
        )  # fmt: skip
    rows = found["domains"][0]["policies"]
    return [
        {
            "policy": row["policy"],
            **{name: row[name]["value"] for name in FIGURES},
            "fallback_share": row["fallback_share"],
            "expected": row.get("expected"),
        }
        for row in rows
    ]


def play_cities(seeds: Sequence[int], cities: Path, kept: Path = KEPT) -> None:
    """Play every city that is not kept yet, and keep it at once, a file a city and domain."""
    parts = kept.with_suffix("")
    parts.mkdir(parents=True, exist_ok=True)
    gathered = {row["seed"] for row in read_rows(kept)}
    processes = [get_domain(slug).process for slug in DOMAINS]
    for seed in [seed for seed in seeds if seed not in gathered]:
        for participation, capacity in SCENARIOS:
            path = cities / f"five-{seed}-{participation}-{capacity}"
            for slug in DOMAINS:
                key = {"seed": seed, "domain": slug, "scenario": f"{participation}, {capacity}"}
                part = parts / f"{seed}-{participation}-{slug}.json"
                if part.exists():
                    continue
                open_or_build(
                    path, processes, preset="small", seed=seed,
                    participation=participation, capacity=capacity,
                )  # fmt: skip
                part.write_text(json.dumps({**key, "policies": play_domain(slug, path)}) + "\n")
                print(f"kept {key}", flush=True)


def read_rows(kept: Path = KEPT) -> list[dict[str, Any]]:
    """Rows that are gathered already, one a city, domain and scenario."""
    return json.loads(kept.read_text())["rows"] if kept.exists() else []


def gather(kept: Path = KEPT) -> None:
    """Put the files of all cities that are whole beside those gathered before."""
    parts = [json.loads(part.read_text()) for part in sorted(kept.with_suffix("").glob("*.json"))]
    found = Counter(row["seed"] for row in parts)
    whole = {seed for seed, n in found.items() if n == len(DOMAINS) * len(SCENARIOS)}
    rows = [row for row in read_rows(kept) if row["seed"] not in whole]
    rows += [row for row in parts if row["seed"] in whole]
    versions = {slug: get_domain(slug).version for slug in DOMAINS}
    kept.write_text(json.dumps({"versions": versions, "rows": rows}) + "\n")


def city_years_block(kept: Path = KEPT) -> str:
    """What the cities say, in words and as a table."""
    rows = read_rows(kept)
    if not rows:
        return "Not measured yet: `python -m docs.city_years`."
    lines = [
        "| domain, participation, capacity | policy | coverage | over today's rule | expected | "
        "arrives | gap over today's | visits | not its own |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for slug in DOMAINS:
        for scenario in dict.fromkeys(row["scenario"] for row in rows):
            own = [r for r in rows if r["domain"] == slug and r["scenario"] == scenario]
            lines += [_line(slug, scenario, name, own) for name in TITLES if _has(own, name)]
    seeds = sorted({row["seed"] for row in rows})
    return "\n".join(
        [
            *say_arrival(rows),
            "",
            *lines,
            "",
            f"Preset small, {len(seeds)} cities (seeds {seeds[0]} to {seeds[-1]}), one test year "
            "each; 95 % intervals between cities. *Arrives*: lead in coverage over today's rule in "
            "the city, over the lead in the estimated process; a dash where none was expected. "
            "*Visits*: against those of today's rule. *Not its own*: share of cases that lay "
            "outside what training had seen, so that today's rule decided about them; from "
            f"{MOSTLY:.0%} on a lead is not the policy's, and nothing is told of what arrives.",
            *say_versions(json.loads(kept.read_text()).get("versions", {})),
        ]
    )


def say_versions(played: dict[str, int]) -> list[str]:
    """Domains that were changed since they were played, in a sentence."""
    now = {slug: get_domain(slug).version for slug in played}
    changed = [f"{slug} ({n}, now {now[slug]})" for slug, n in played.items() if n < now[slug]]
    if not changed:
        return []
    return [
        "",
        f"Played with earlier versions of these domains, and not since: {', '.join(changed)}.",
    ]


def _has(rows: Sequence[dict[str, Any]], name: str) -> bool:
    return any(one["policy"] == name for row in rows for one in row["policies"])


def not_its_own(rows: Sequence[dict[str, Any]], name: str) -> float:
    """Share of cases that today's rule decided in a policy's place, over cities."""
    found = [one for row in rows for one in row["policies"] if one["policy"] == name]
    return float(np.mean([one.get("fallback_share", 0.0) for one in found])) if found else 0.0


def leads(rows: Sequence[dict[str, Any]], name: str, figure: str) -> tuple[np.ndarray, np.ndarray]:
    """Lead over today's rule in every city, and the lead that was expected there."""
    found, expected = [], []
    for row in rows:
        of = {one["policy"]: one for one in row["policies"]}
        if name in of:
            found.append(of[name][figure] - of[TODAY][figure])
            believed, base = of[name]["expected"], of[TODAY]["expected"]
            if believed is not None:
                expected.append(believed[figure] - base[figure])
    return np.array(found), np.array(expected)


def _line(slug: str, scenario: str, name: str, rows: Sequence[dict[str, Any]]) -> str:
    coverage = [one["coverage"] for row in rows for one in row["policies"] if one["policy"] == name]
    cells = [f"{slug}, {scenario}", TITLES[name], _between(coverage)]
    if name == TODAY:
        return "| " + " | ".join([*cells, "–", "–", "–", "–", "1", "–"]) + " |"
    lead, expected = leads(rows, name, "coverage")
    gap, _ = leads(rows, name, "gap")
    hoped = f"{expected.mean():+.3f}" if len(expected) else "–"
    others = not_its_own(rows, name)
    arrives = _arrives(lead, expected) if others < MOSTLY else "–"
    cells += [_between(lead), hoped, arrives, _between(gap)]
    cells.append(f"{_mean(rows, name, 'n_visits') / _mean(rows, TODAY, 'n_visits'):.2f}")
    cells.append("–" if name == FRESH else f"{others:.0%}")
    return "| " + " | ".join(cells) + " |"


def _mean(rows: Sequence[dict[str, Any]], name: str, figure: str) -> float:
    """A policy's figure, averaged over cities."""
    return float(
        np.mean([one[figure] for row in rows for one in row["policies"] if one["policy"] == name])
    )


def _arrives(lead: np.ndarray, expected: np.ndarray) -> str:
    """Lead in the city over the lead expected, where at least a hundredth was expected."""
    is_hoped = len(expected) > 0 and expected.mean() >= 0.01
    return f"{lead.mean() / expected.mean():.1f}" if is_hoped else "–"


def _between(values: Sequence[float] | np.ndarray) -> str:
    found = mean_interval(values)
    text = f"{float(np.mean(values)):+.3f}" if np.min(values) < 0 else f"{np.mean(values):.3f}"
    return text if found is None else f"{text} [{found[0]:.3f}, {found[1]:.3f}]"


def say_arrival(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Where a policy leads today's rule in the city, was expected to, and what the gap does.

    A setting counts where the 95 % interval between cities leaves no doubt about the sign, and
    where the policy decided about most cases itself.
    """
    scenarios = dict.fromkeys(row["scenario"] for row in rows)
    lines = []
    others = [name for name in TITLES if name not in (TODAY, FRESH) and _has(rows, name)]
    for name in others:
        hoped: list[str] = []
        left_out: list[str] = []
        sure: dict[str, list[str]] = defaultdict(list)
        for slug, scenario in ((slug, scenario) for slug in DOMAINS for scenario in scenarios):
            own = [r for r in rows if r["domain"] == slug and r["scenario"] == scenario]
            if not _has(own, name):
                continue
            words = f"{slug}, {scenario}"
            if not_its_own(own, name) >= MOSTLY:
                left_out += [words]
                continue
            lead, expected = leads(own, name, "coverage")
            hoped += [words] if len(expected) and expected.mean() > 0 else []
            sure[_sign(lead, "more", "less")] += [words]
            sure[_sign(leads(own, name, "gap")[0], "wider", "narrower")] += [words]
        lines.append(
            f"- **{TITLES[name]}** was expected to cover more than today's rule in {len(hoped)} "
            f"settings; in the city it does in {_list(sure['more'])} and covers less in "
            f"{_list(sure['less'])}. The gap between quintiles is narrower in "
            f"{_list(sure['narrower'])} and wider in {_list(sure['wider'])}."
            + f" Not told, since today's rule decided most cases: {_list(left_out)}."
            * bool(left_out)
        )
    return lines


def _sign(values: np.ndarray, positive: str, negative: str) -> str:
    """Which of the two the mean over cities is, or neither."""
    low, high = mean_interval(values) or (-np.inf, np.inf)
    return positive if low > 0 else negative if high < 0 else "neither"


def _list(words: Sequence[str]) -> str:
    return f"{len(words)} ({'; '.join(words)})" if words else "none"


def main() -> None:
    """Play, gather, and say so."""
    # The same programs for every city: compiled once.
    jax.config.update("jax_compilation_cache_dir", str(ROOT / "runs" / "compiled"))
    number, total = 1, 1
    if "--part" in sys.argv:
        number, total = map(int, sys.argv[sys.argv.index("--part") + 1].split("/"))
    play_cities(SEEDS[number - 1 :: total], ROOT / "cities")
    gather()


if __name__ == "__main__":
    main()
