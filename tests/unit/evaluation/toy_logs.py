"""A process of two states and two actions whose values are known exactly, and logs of it."""

from __future__ import annotations

import numpy as np

from parity311.evaluation.off_policy.logs import Logs

REWARD = np.array([[0.0, 1.0], [2.0, -1.0]])
"""by state and action, in the mean"""
STAY = np.array([[0.8, 0.3], [0.4, 0.9]])
"""chance of staying in a state, by state and action"""
BEHAVIOUR = np.array([[0.6, 0.4], [0.5, 0.5]])
TARGET = np.array([[0.3, 0.7], [0.8, 0.2]])
START = 0.5
"""chance of starting in state 1"""


def true_value(policy: np.ndarray, n_steps: int, discount: float = 1.0) -> float:
    """Value of a policy by dynamic programming."""
    value = np.zeros(2)
    for _ in range(n_steps):
        after = STAY * value[:, None] + (1 - STAY) * value[::-1][:, None]
        value = (policy * (REWARD + discount * after)).sum(axis=1)
    return float(START * value[1] + (1 - START) * value[0])


def blur(policy: np.ndarray, noise: float) -> np.ndarray:
    """What a policy does by true state where it sees the other one with chance `noise`."""
    return (1.0 - noise) * policy + noise * policy[::-1]


def write_toy_logs(
    n_logs: int,
    n_episodes: int,
    n_steps: int,
    *,
    behaviour: np.ndarray = BEHAVIOUR,
    seed: int = 0,
    noise: float = 0.0,
) -> Logs:
    """Logs with the propensities they were written with; the outcome once more as its half.

    With `noise`, the chance that the other state is seen, no model of what is seen is right.
    """
    rng = np.random.default_rng(seed)
    shape = (n_logs, n_episodes)
    state = (rng.random(shape) < START).astype(int)
    seen, taken, chance, reward = [], [], [], []
    for _ in range(n_steps):
        look = state
        if noise > 0:
            look = np.where(rng.random(shape) < noise, 1 - state, state)
        action = (rng.random(shape) < behaviour[look, 1]).astype(int)
        seen.append(look)
        taken.append(action)
        chance.append(behaviour[look, action])
        reward.append(REWARD[state, action] + rng.normal(scale=0.5, size=shape))
        moves = rng.random(shape) >= STAY[state, action]
        state = np.where(moves, 1 - state, state)
    stack = lambda x: np.stack(x, axis=-1)  # noqa: E731
    outcome = stack(reward)
    return Logs(
        observation=stack(seen)[..., None].astype(float),
        action=stack(taken),
        propensity=stack(chance),
        outcome=np.stack([outcome, outcome / 2], axis=-1),
        is_live=np.ones((*shape, n_steps), bool),
        outcome_names=("overall", "quintile_1"),
        n_actions=2,
    )


def target_chances(logs: Logs, policy: np.ndarray = TARGET) -> np.ndarray:
    """Chances of a policy at what was seen."""
    return policy[logs.observation[..., 0].astype(int)]
