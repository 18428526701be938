"""How much each feature weighs in a trained policy, by seed and test episode.

Shapley values of the action scores (exact where features are few, by permutations beyond), on
observations the policy met in the true process; a feature's weight is the mean size of its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.errors import EstimationError
from parity311.explain.estimators import permutation_shapley
from parity311.explain.exact import exact_shapley
from parity311.explain.policy import MAX_EXACT_FEATURES
from parity311.pipelines.keep_policies import N_WATCHED, network_of, watch_complaints
from parity311.training.loop import Trained

ROWS_PER_EPISODE = 4
N_BACKGROUND = 16
N_PERMUTATIONS = 3
"""Explained observations, what they are compared with, and walks beyond the exact limit: each seed
and episode is a sample of its own, so few of each suffice."""


@dataclass(frozen=True)
class Weights:
    """Weights of features."""

    names: tuple[str, ...]
    values: np.ndarray
    """(seeds, episodes, features) mean size of the Shapley values"""
    seen: np.ndarray
    """(seeds, features) mean of the observations themselves"""

    def mean_of(self, names: tuple[str, ...]) -> np.ndarray:
        """Mean weight of these features, (seeds, episodes)."""
        return self.values[..., [self.names.index(name) for name in names]].mean(axis=-1)


def weigh_features(trained: Trained, params: Any, seed: int) -> Weights:
    """Explain the first preference's agents, one a seed."""
    n_seeds = len(set(trained.seeds.tolist()))
    found, means = [], []
    for index in range(n_seeds):
        network = network_of(trained.weights(index))
        if network is None:
            raise EstimationError(
                f"Agent {trained.agent.name!r} is no network; explain dqn or reinforce."
            )
        seen, coverage = watch_complaints(trained, index, params, seed + index)
        rows = np.column_stack([seen.features[:, trained.harness.columns], coverage])
        chosen = _choose(len(rows), seed + index)
        values = _attribute(network, rows[chosen.ravel()], rows, seed)
        found.append(values.reshape(N_WATCHED, ROWS_PER_EPISODE, -1).mean(axis=1))
        means.append(rows.mean(axis=0))
    return Weights(trained.harness.observation_names, np.stack(found), np.stack(means))


def _choose(n_rows: int, seed: int) -> np.ndarray:
    """Some rows of every episode, (episodes, rows)."""
    per_episode = n_rows // N_WATCHED
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, per_episode, (N_WATCHED, ROWS_PER_EPISODE))
    return drawn + per_episode * np.arange(N_WATCHED)[:, None]


def _attribute(
    network: dict[str, np.ndarray], chosen: np.ndarray, rows: np.ndarray, seed: int
) -> np.ndarray:
    """Size of every feature's values, averaged over actions, (rows, features)."""
    rng = np.random.default_rng(seed)
    background = rows[rng.choice(len(rows), N_BACKGROUND, replace=False)]
    if rows.shape[1] <= MAX_EXACT_FEATURES:
        found = exact_shapley(network, chosen, background)
    else:
        found = permutation_shapley(
            network, chosen, background, n_permutations=N_PERMUTATIONS, seed=seed
        )
    return np.abs(found.centred().values).mean(axis=2)
