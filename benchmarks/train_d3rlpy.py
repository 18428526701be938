"""Let d3rlpy's DiscreteCQL learn from exported decisions, unmodified, and say what it reached.

    .venvs/d3rlpy/bin/python benchmarks/train_d3rlpy.py [--updates 300] [--json]

A rule with a little randomness decides, its decisions become an `MDPDataset`, and what was learned
from them alone plays fresh episodes beside the rule and a random policy. Needs `make peers`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from parity311.adapters.datasets import log_decisions, to_mdp_dataset
from parity311.adapters.setting import make_setting
from parity311.mdp.harness import Playable

DOMAINS = ("boiler", "snad")
HORIZON = 100
N_EPISODES = 64
EPSILON = 0.3
"""Random share of the logged actions: enough that both good and bad ones are on record."""

Decide = Callable[[np.ndarray], np.ndarray]
"""observations (n, n_features) -> actions (n,)"""


def reward_per_step(setting: Playable, decide: Decide, seed: int = 99) -> float:
    """Mean weighted reward of a policy over fresh episodes."""
    harness, params, equity = setting.harness, setting.params, setting.equity
    keys = jax.random.split(jax.random.key(seed), N_EPISODES)
    running, seen = jax.vmap(harness.reset, in_axes=(0, None, None))(keys, params, equity)
    step = jax.jit(jax.vmap(harness.step, in_axes=(0, None, None, 0, 0)))
    total = 0.0
    for number in range(HORIZON):
        own = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
        actions = np.asarray(decide(np.asarray(seen)), np.int32)
        moved = step(own, params, equity, running, actions)
        running, seen = moved.running, moved.observation
        total += float((np.asarray(moved.reward) @ setting.preference).mean())
    return total / HORIZON


def train_cql(slug: str, n_updates: int) -> dict[str, Any]:
    """DiscreteCQL with its own defaults but for a larger learning rate, on so many updates."""
    import d3rlpy  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    # Networks this small lose more by sharing out their work than they gain.
    torch.set_num_threads(1)
    d3rlpy.seed(0)
    setting = make_setting(slug, max_steps=HORIZON)
    rule = setting.harness.domain.heuristics["balanced"](setting.params, setting.harness)
    logged = log_decisions(setting, rule, n_episodes=N_EPISODES, epsilon=EPSILON)
    dataset = to_mdp_dataset(logged, setting.preference.tolist())
    agent = d3rlpy.algos.DiscreteCQLConfig(learning_rate=1e-3, batch_size=64).create(device=False)
    began = time.perf_counter()
    agent.fit(
        dataset,
        n_steps=n_updates,
        n_steps_per_epoch=n_updates,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    seconds = time.perf_counter() - began
    rng = np.random.default_rng(0)
    n_actions = setting.harness.n_actions
    ruled = jax.jit(jax.vmap(rule, in_axes=(None, 0)))
    return {
        "library": "d3rlpy",
        "algorithm": "DiscreteCQL",
        "domain": slug,
        "decisions": int(dataset.transition_count),
        "episodes": len(dataset.episodes),
        "updates": n_updates,
        "updates_per_s": n_updates / seconds,
        "reward_per_step": reward_per_step(setting, agent.predict),
        "rule_reward_per_step": reward_per_step(setting, lambda x: ruled(jax.random.key(0), x)),
        "random_reward_per_step": reward_per_step(
            setting, lambda x: rng.integers(n_actions, size=len(x))
        ),
    }


def main() -> None:
    """Train on every domain and print one row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for slug in DOMAINS:
        row = train_cql(slug, given.updates)
        text = json.dumps(row) if given.json else " · ".join(f"{k} {v}" for k, v in row.items())
        print(text, flush=True)


if __name__ == "__main__":
    main()
