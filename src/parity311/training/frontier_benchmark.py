"""One conditioned network against agents trained one by one, on the 128 boiler settings."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from parity311.domains.boiler import DOMAIN
from parity311.mdp.harness import Harness
from parity311.training import N_ENVIRONMENTS, train
from parity311.training.frontier import (
    additive_epsilon,
    boiler_settings,
    corners_of,
    hypervolume,
    read_off,
    score_rules,
    score_trained,
)
from parity311.training.loop import Trained

CHUNK = 32
"""Separately trained agents side by side."""


def bench_frontier(n_steps: int = 10_000, n_seeds: int = 3) -> dict[str, Any]:
    """Time and hypervolume of both ways to a frontier, with intervals over seeds.

    The reference point is the componentwise worst of the domain's rules, played the same way.
    """
    preferences, params = boiler_settings(), DOMAIN.play.example()
    harness = Harness(DOMAIN)
    rules = {name: make(params, harness) for name, make in DOMAIN.heuristics.items()}
    points = score_rules(harness, params, rules)
    reference = np.min(list(points.values()), axis=0)
    one_s, separate_s, ratios, epsilons = [], [], [], []
    volumes: dict[str, list[float]] = {"conditioned": [], "separate": []}
    for seed in range(n_seeds):
        began = time.perf_counter()
        conditioned = train_conditioned(params, preferences, n_steps, seed)
        one_s.append(time.perf_counter() - began)
        began = time.perf_counter()
        separate = train_separately(params, preferences, n_steps, seed)
        separate_s.append(time.perf_counter() - began)
        # Both are played with the same episodes.
        mine = score_trained(read_off(conditioned, 0, preferences), params, seed=seed)
        theirs = np.concatenate([score_trained(part, params, seed=seed) for part in separate])
        volumes["conditioned"].append(hypervolume(mine, reference))
        volumes["separate"].append(hypervolume(theirs, reference))
        ratios.append(volumes["conditioned"][-1] / volumes["separate"][-1])
        epsilons.append(additive_epsilon(mine, theirs))
    return {
        "settings": len(preferences),
        "updates": n_steps,
        "seeds": n_seeds,
        "reference": reference.tolist(),
        "hypervolume": volumes,
        "hypervolume_ratio": float(np.mean(ratios)),
        "hypervolume_ratio_interval": _interval(ratios),
        "additive_epsilon": float(np.mean(epsilons)),
        "additive_epsilon_interval": _interval(epsilons),
        "conditioned_s": one_s,
        "separate_s": separate_s,
    }


def train_conditioned(params: Any, preferences: np.ndarray, n_steps: int, seed: int) -> Trained:
    """One network for the hull of these preferences."""
    return train(
        DOMAIN,
        params,
        "conditioned",
        # Only so that prices are visible: the agent draws its own preferences.
        [preferences.mean(axis=0)],
        [seed],
        n_steps,
        settings={"corners": corners_of(preferences)},
        n_environments=N_ENVIRONMENTS,
    )


def train_separately(
    params: Any, preferences: np.ndarray, n_steps: int, seed: int
) -> list[Trained]:
    """An agent for each preference, in chunks."""
    return [
        train(DOMAIN, params, "dqn", preferences[at : at + CHUNK], [seed], n_steps)
        for at in range(0, len(preferences), CHUNK)
    ]


def _interval(values: list[float]) -> list[float] | None:
    """95 % interval of the mean over seeds (Student's t); none for a single seed."""
    if len(values) < 2:
        return None
    # Quantiles of t at 0.975 for 1 to 9 degrees of freedom.
    t = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)[min(len(values), 10) - 2]
    half = t * float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return [float(np.mean(values) - half), float(np.mean(values) + half)]
