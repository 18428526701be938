"""How the modes of the equity term behave in a real domain: the figures of `equity-term.md`.

    python -m docs.equity_term boiler elevator   train every mode in these domains (minutes each)

The process is the domain's example, in which five strata with equal need report 35 to 73 % of it.
Gaps are of correct escalations per actionable incident; the price is correct escalations given up
against the same agent without an equity term. Where a domain's steps are single cases, policies
are held to the same number of visits; in a queue the inspectors do that.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from parity311.agents import agent_config, make_agent
from parity311.domains import get_domain
from parity311.engines.heuristics import Threshold
from parity311.evaluation.rollout import Contender, Episodes, evaluate
from parity311.mdp.contract import EQUITY, N_KNOWN_STRATA, Domain
from parity311.mdp.equity import MODES
from parity311.mdp.harness import Harness
from parity311.training import with_equity
from parity311.training.loop import Trained, train_agents

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results" / "equity-term.json"
WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8)
SEEDS = (1, 2, 3)
N_STEPS = 12_000
N_EPISODES = 8
WINDOWS = 2.0
"""Rolling windows an evaluation of independent cases lasts, so that counters have settled."""
N_HALVINGS = 14
"""Bisection steps: thresholds to 1e-4, finer than any margin that matters."""
DISCOUNTS = {"dual": None, "per_step": None, "potential": 0.9, "windowed": 0.9}
"""γ by mode; None: the domain's own. A window's disparity is only felt by looking ahead."""


def train_mode(domain: Domain, mode: str) -> Trained:
    """Train agents of every weight and seed with one mode of the equity term."""
    params = domain.play.example()
    harness = Harness(domain, equity_mode=mode, action_set="extended")
    settings = {"epsilon_steps": N_STEPS // 2, "anneal_steps": N_STEPS}
    settings |= domain.agent_settings.get("dqn", {})
    if DISCOUNTS[mode] is not None:
        settings["discount"] = DISCOUNTS[mode]
    agent = make_agent("dqn", agent_config("dqn", settings))
    options = {"discount": max(float(settings.get("discount", 0.9)), 0.0)}
    preferences = [with_equity(domain.preference, weight) for weight in WEIGHTS]
    return train_agents(
        harness, params, agent, preferences, SEEDS, N_STEPS, n_environments=8,
        equity_options=options,
    )  # fmt: skip


def contenders_of(trained: Trained) -> list[Contender]:
    """Every agent as a policy; with two actions on single cases as a margin with a threshold."""
    found = []
    for index in range(trained.n_agents):
        weight = float(trained.preferences[index, EQUITY])
        if trained.harness.domain.play.cases is None:
            policy: Any = trained.policy(index)
        else:
            margin = Partial(trained.agent.margin, trained.weights(index))
            policy = Threshold(margin, jnp.float32(0.0), jnp.float32(0.5))
        prices = trained.prices[index] if weight > 0 else None
        found.append(Contender(f"{weight:.1f}", policy, prices, is_priced=weight > 0))
    return found


def play(harness: Harness, contenders: list[Contender]) -> Episodes:
    """Long episodes of every policy, the same for all."""
    params = harness.domain.play.example()
    keys = jax.random.split(jax.random.key(17), N_EPISODES)
    return evaluate(harness, params, contenders, keys)


def visit_shares(episodes: Episodes) -> np.ndarray:
    """Visits per complaint of every policy."""
    visits, complaints = (
        np.asarray(values).sum(axis=(1, 2))
        for values in (episodes.tally.visits, episodes.tally.complaints)
    )
    return visits / np.maximum(complaints, 1e-9)


def hold_to_visits(harness: Harness, contenders: list[Contender], share: float) -> list[Contender]:
    """Thresholds under which every policy makes the same visits, by bisection on what it does."""
    # Margins are differences of rewards in units of one correct escalation, hence within one.
    low, high = np.full(len(contenders), -1.0), np.full(len(contenders), 1.0)
    held = contenders
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        held = [
            replace(one, policy=replace(one.policy, threshold=jnp.float32(m)))  # type: ignore[type-var]
            for one, m in zip(contenders, middle, strict=True)
        ]
        is_too_many = visit_shares(play(harness, held)) > share
        low, high = np.where(is_too_many, middle, low), np.where(is_too_many, high, middle)
    return held


def measure_mode(domain: Domain, mode: str) -> list[dict[str, Any]]:
    """Visits as learned, then gap and price at equal visits, by weight; (seeds,) each."""
    trained = train_mode(domain, mode)
    contenders = contenders_of(trained)
    params = domain.play.example()
    harness = trained.harness
    if domain.play.cases is not None:
        n_steps = int(WINDOWS * 28 * float(domain.play.steps_per_day(params)))
        harness = replace(harness, max_steps=n_steps)
    free = play(harness, contenders)
    learned = visit_shares(free)
    if domain.play.cases is not None:
        share = float(domain.play.cases(params).capacity_share)
        free = play(harness, hold_to_visits(harness, contenders, share))
    held_visits = visit_shares(free)
    correct, need = (
        np.asarray(values).sum(axis=1)[:, :N_KNOWN_STRATA]
        for values in (free.tally.correct, free.tally.actionable)
    )
    coverage = correct / np.maximum(need, 1e-9)
    gap = coverage.max(axis=1) - coverage.min(axis=1)
    total = correct.sum(axis=1).reshape(len(WEIGHTS), len(SEEDS))
    rows = []
    for place, weight in enumerate(WEIGHTS):
        own = slice(place * len(SEEDS), (place + 1) * len(SEEDS))
        rows.append(
            {
                "domain": domain.slug,
                "mode": mode,
                "weight": weight,
                "visits_as_learned": learned[own].tolist(),
                "visits": held_visits[own].tolist(),
                "gap": gap[own].tolist(),
                "price": (1.0 - total[place] / total[0]).tolist(),
                "lowest_to_highest": coverage[own].mean(axis=0).tolist(),
            }
        )
    return rows


def measure_domains(slugs: list[str]) -> None:
    """Measure every mode in these domains, keeping each result at once."""
    rows = json.loads(KEPT.read_text())["rows"] if KEPT.exists() else []
    for slug in slugs:
        domain = get_domain(slug)
        for mode in MODES:
            rows = [row for row in rows if (row["domain"], row["mode"]) != (slug, mode)]
            rows += measure_mode(domain, mode)
            KEPT.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
            print(f"kept {slug} {mode}", flush=True)


def _cell(row: dict[str, Any]) -> str:
    gap, price = np.asarray(row["gap"]), np.asarray(row["price"])
    visits = np.mean(row["visits_as_learned"])
    return (
        f"{gap.mean():.3f} ({gap.min():.3f}–{gap.max():.3f}) / {price.mean():.1%}, "
        f"visits {visits:.0%}"
    )


def equity_block() -> str:
    """One table a domain: modes by weight, gap (lowest to highest seed) / price, visits."""
    rows = json.loads(KEPT.read_text())["rows"]
    lines = []
    for slug in dict.fromkeys(row["domain"] for row in rows):
        lines += [f"**{slug}**", "", "| mode | " + " | ".join(f"α₃ = {w}" for w in WEIGHTS) + " |"]
        lines.append("| --- |" + " --- |" * len(WEIGHTS))
        for mode in MODES:
            own = [row for row in rows if row["domain"] == slug and row["mode"] == mode]
            if own:
                lines.append(f"| {mode} | " + " | ".join(map(_cell, own)) + " |")
        lines.append("")
    lines.append(
        f"{len(SEEDS)} seeds; gap as mean (lowest–highest seed), price of equity, visits per "
        "complaint as learned, before policies are held to the same visits."
    )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Measure, and print the tables."""
    measure_domains(arguments)
    print(equity_block())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
