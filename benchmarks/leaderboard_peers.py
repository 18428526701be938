"""Agents of other libraries as learners of `parity311 leaderboard`, in their own environment.

    make peers PEERS=torch
    cd benchmarks && ../.venvs/torch/bin/parity311 leaderboard --domains snad --seeds 2101-2103 \
        --learner leaderboard_peers:sb3_dqn --folder ../runs/leaderboard --cities ../cities

Each gets the environment of a city's estimated process and gives a function from an observation to
an action; settings are the libraries' own but for the seed and the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

N_STEPS = 64_000
"""As many as ours take: 8,000 updates of eight environments each."""
Decide = Callable[[np.ndarray], int]


def sb3_dqn(environment: Any) -> Decide:
    """Stable-Baselines3's DQN."""
    from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]

    return _decide_with(DQN("MlpPolicy", environment, seed=0).learn(N_STEPS))


def sb3_ppo(environment: Any) -> Decide:
    """Stable-Baselines3's PPO."""
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]

    return _decide_with(PPO("MlpPolicy", environment, seed=0).learn(N_STEPS))


def morl_envelope(environment: Any) -> Decide:
    """morl-baselines' envelope Q-learning, read off at the domain's own preference."""
    import mo_gymnasium
    from morl_baselines.multi_policy.envelope.envelope import (  # pyright: ignore[reportMissingImports]
        Envelope,
    )

    import parity311

    setting = environment.unwrapped.setting
    name = parity311.environment_id(setting.harness.domain.slug, is_vector=True)
    options = {"params": setting.params, "observation_set": setting.harness.observation_set}
    vector = mo_gymnasium.make(name, reward="saved", **options)
    agent = Envelope(vector, log=False, seed=0)
    agent.train(
        N_STEPS, eval_env=mo_gymnasium.make(name, **options), ref_point=np.full(4, -1e6),
        known_pareto_front=None, eval_freq=N_STEPS + 1,
    )  # fmt: skip
    weights = np.asarray(setting.preference)
    return lambda observation: int(agent.eval(observation, weights))


def _decide_with(agent: Any) -> Decide:
    """The greedy action of a trained agent."""
    return lambda observation: int(agent.predict(observation, deterministic=True)[0])
