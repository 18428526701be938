"""Every rule of every domain beside its ceiling: the figures of `docs/reference/ceilings.md`.

    python -m docs.ceilings [DOMAIN ...]   play them on each domain's example (minutes)

Rules are made from the very process they are played in, so nothing is lost to estimation: what is
left is what the rule itself gives away. Rewards are published rewards under the domain's own
preference, on paired episodes; the error is that of the difference to the ceiling. Where the
ceiling is only the best known, the rules are among those that were searched.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.domains import all_domains, get_domain
from parity311.evaluation.compare import best_contender, is_exact, later_flow, rule_contenders
from parity311.evaluation.rollout import evaluate
from parity311.mdp.contract import Domain
from parity311.mdp.harness import Harness

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "ceilings.json"
N_EPISODES = 64


def measure_domain(domain: Domain) -> dict[str, Any]:
    """Reward of every rule less the ceiling's, with its standard error."""
    params = domain.play.example()
    harness = Harness(domain)
    preference = np.asarray(domain.preference)
    flow = later_flow(harness, params, params)
    key_search, key_score = jax.random.split(jax.random.key(41))
    best = best_contender(harness, flow, params, jax.random.split(key_search, 8), preference)
    contenders = [*rule_contenders(harness, params), best]
    episodes = evaluate(harness, params, contenders, jax.random.split(key_score, N_EPISODES))
    reward = np.asarray(episodes.tally.published_reward, np.float64) @ preference
    rows = []
    for place, one in enumerate(contenders):
        behind = reward[place] - reward[-1]
        rows.append(
            {
                "policy": one.name,
                "reward": float(reward[place].mean()),
                "difference": float(behind.mean()),
                "error": float(behind.std(ddof=1) / np.sqrt(N_EPISODES)),
            }
        )
    return {
        "domain": domain.slug,
        "version": domain.version,
        "ceiling": domain.ceiling,
        "is_exact": is_exact(harness),
        "rows": rows,
    }


def who_beats(found: dict[str, Any]) -> list[str]:
    """Rules that beat the ceiling by more than two standard errors: there should be none."""
    is_bound = {row["policy"] for row in found["rows"]}
    if found["domain"] == "boiler":
        # More visits than there are inspectors: not held to capacity, by design.
        is_bound.discard("always")
    return [
        row["policy"]
        for row in found["rows"]
        if row["policy"] in is_bound and row["difference"] > 2.0 * row["error"] + 1e-9
    ]


def say_above(found: dict[str, Any]) -> list[str]:
    """A word where anything stands above the end of the way, and an empty line."""
    above = [row for row in found["rows"] if row["difference"] > 0.0]
    if not above:
        return []
    names = ", ".join(f"`{row['policy']}`" for row in above)
    if found["domain"] == "boiler":
        why = "more visits than there are inspectors, which the ceiling is held to"
    elif all(row["difference"] <= 2.0 * row["error"] for row in above):
        why = "by less than two standard errors, and no bound is claimed"
    else:
        why = "beyond two standard errors: what is called best known is not the best"
    return [f"Above it: {names} ({why}).", ""]


def ceilings_block() -> str:
    """One table a domain, best first."""
    lines = []
    for found in json.loads(KEPT.read_text()):
        name = "ceiling" if found["is_exact"] else "best known"
        told = found["ceiling"].removeprefix(f"{name}: ").removeprefix("exact: ")
        lines += [f"## {found['domain']}", "", f"{name.capitalize()}: {told}.", ""]
        lines += [f"| policy | reward an episode | against the {name} |", "| --- | ---: | ---: |"]
        for row in sorted(found["rows"], key=lambda row: -row["reward"]):
            gap = f"{row['difference']:+.3f} ± {2 * row['error']:.3f}"
            lines.append(f"| {row['policy']} | {row['reward']:.3f} | {gap} |")
        lines += ["", *say_above(found)]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Measure these domains, or all; keep each at once."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else []
    for slug in arguments or list(all_domains()):
        found = measure_domain(get_domain(slug))
        kept = [one for one in kept if one["domain"] != slug] + [found]
        kept.sort(key=lambda one: one["domain"])
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        print(slug, found["is_exact"], "beaten by", who_beats(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
