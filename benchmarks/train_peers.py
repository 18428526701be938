"""Let other libraries' learners train on the adapters, unmodified, and say what they reached.

    .venvs/torch/bin/python benchmarks/train_peers.py [--steps 5000] [--json]

stable-baselines3's DQN learns the scalar environments, morl-baselines' multi-policy Q-learning the
vector one (on rounded observations, because it is tabular). Needs `make peers`.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import gymnasium
import numpy as np

import parity311  # makes the environments known
from parity311.environments import environment_id

SCALAR_DOMAINS = ("boiler", "heat", "snad")
VECTOR_DOMAINS = ("boiler", "snad", "crane")
WEIGHTS = (0.5, 0.5, 0.0, 0.0)


def mean_return(environment: gymnasium.Env, decide: Any, n_steps: int = 2000) -> float:
    """Mean reward a step of a policy over fresh episodes."""
    observation, _ = environment.reset(seed=99)
    total = 0.0
    for _ in range(n_steps):
        observation, reward, terminated, truncated, _ = environment.step(decide(observation))
        total += float(np.dot(np.atleast_1d(reward), WEIGHTS[: np.size(reward)]))
        if terminated or truncated:
            observation, _ = environment.reset()
    return total / n_steps


def train_sb3(slug: str, n_steps: int) -> dict[str, Any]:
    """stable-baselines3's DQN with its own defaults."""
    from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]

    environment = gymnasium.make(environment_id(slug), reward="saved")
    agent = DQN("MlpPolicy", environment, learning_starts=500, seed=0, device="cpu")
    began = time.perf_counter()
    agent.learn(n_steps)
    seconds = time.perf_counter() - began
    fresh = gymnasium.make(environment_id(slug), reward="saved")
    rng = np.random.default_rng(0)
    return {
        "library": "stable-baselines3",
        "algorithm": "DQN",
        "environment": environment_id(slug),
        "steps": n_steps,
        "steps_per_s": n_steps / seconds,
        "reward_per_step": mean_return(
            fresh, lambda seen: int(agent.predict(seen, deterministic=True)[0])
        ),
        "random_reward_per_step": mean_return(
            fresh, lambda seen: int(rng.integers(fresh.action_space.n))
        ),
    }


def train_morl(slug: str, n_steps: int) -> dict[str, Any]:
    """morl-baselines' multi-policy multi-objective Q-learning."""
    import mo_gymnasium
    from morl_baselines.multi_policy.multi_policy_moqlearning.mp_mo_q_learning import (  # pyright: ignore[reportMissingImports]
        MPMOQLearning,
    )

    name = environment_id(slug, is_vector=True)
    environment = gymnasium.wrappers.TransformObservation(
        mo_gymnasium.make(name, reward="saved"), lambda seen: np.round(seen, 1), None
    )
    agent = MPMOQLearning(environment, log=False, weight_selection_algo="random", seed=0)
    began = time.perf_counter()
    agent.train(
        total_timesteps=n_steps,
        timesteps_per_iteration=max(n_steps // 4, 1),
        eval_env=environment,
        ref_point=np.full(4, -1000.0),
        num_eval_episodes_for_front=1,
    )
    return {
        "library": "morl-baselines",
        "algorithm": "MPMOQLearning",
        "environment": name,
        "steps": n_steps,
        "steps_per_s": n_steps / (time.perf_counter() - began),
        "n_policies": len(agent.policies),
    }


def main() -> None:
    """Train everything and print one row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    assert parity311.adapters is not None
    work = [(train_sb3, slug) for slug in SCALAR_DOMAINS]
    work += [(train_morl, slug) for slug in VECTOR_DOMAINS]
    for train, slug in work:
        row = train(slug, given.steps)
        text = json.dumps(row) if given.json else " · ".join(f"{k} {v}" for k, v in row.items())
        print(text, flush=True)


if __name__ == "__main__":
    main()
