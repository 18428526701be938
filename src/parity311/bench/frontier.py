"""One conditioned network against agents trained one by one, on the 128 boiler settings.

Beside them stands stable-baselines3's DQN for ONE setting, with the same network and number of
updates: what the whole frontier may take at most.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from parity311.bench.training import run_peer
from parity311.domains.boiler import DOMAIN
from parity311.mdp.harness import Harness
from parity311.resampling import mean_interval
from parity311.training import agent_for, train
from parity311.training.frontier import (
    additive_epsilon,
    boiler_settings,
    corners_of,
    find_nondominated,
    hypervolume,
    score_rules,
    score_trained,
)
from parity311.training.loop import Trained
from parity311.training.sweep import CPU_CHUNK

SETTLING_STEPS = 6000
"""Filings in which prices settle before any is counted, and as many are counted"""


def bench_frontier(
    n_steps: int = 10_000, n_seeds: int = 3, params_file: Path | None = None
) -> dict[str, Any]:
    """Time and hypervolume of both ways to a frontier, with intervals over seeds.

    The reference point is the componentwise worst of the domain's rules, played the same way.
    The conditioned network's seconds include compiling; stable-baselines3's do not.
    """
    # The same network and look ahead as the agents it stands beside.
    same = {name: DOMAIN.agent_settings["dqn"][name] for name in ("hidden", "discount")}
    peer = run_peer("sb3", n_steps, same)
    preferences, params = boiler_settings(), read_boiler(params_file)
    seeds = list(range(n_seeds))
    conditioned, one_s = [], []
    # It is asked for these settings and no others.
    covered = {"corners": corners_of(preferences)}
    for seed in seeds:
        began = time.perf_counter()
        conditioned.append(
            train(DOMAIN, params, "conditioned", preferences, [seed], n_steps, settings=covered)
        )
        one_s.append(time.perf_counter() - began)
    began = time.perf_counter()
    separate = train_separately(preferences, n_steps, seeds, params_file)
    separate_s = time.perf_counter() - began
    found = compare_frontiers(params, conditioned, separate)
    peer_s = n_steps / peer["steps_per_s"] if "steps_per_s" in peer else None
    return {
        "settings": len(preferences),
        "updates": n_steps,
        "seeds": n_seeds,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        **found,
        "conditioned_s": one_s,
        "separate_s_per_seed": separate_s / n_seeds,
        "one_sb3_agent_s": peer_s,
        "sb3": peer,
        # Compiling included: that is what somebody waits for.
        "time_ratio_to_one_sb3_agent": one_s[0] / peer_s if peer_s else None,
        "time_ratio_once_compiled": min(one_s) / peer_s if peer_s else None,
    }


def compare_frontiers(
    params: Any, conditioned: list[Trained], separate: list[Trained]
) -> dict[str, Any]:
    """Hypervolumes and additive ε of both, seed by seed, on the same episodes."""
    harness = Harness(DOMAIN)
    rules = {name: make(params, harness) for name, make in DOMAIN.heuristics.items()}
    by_rule = score_rules(harness, params, rules, n_steps=SETTLING_STEPS)
    reference = np.min(list(by_rule.values()), axis=0)
    volumes: dict[str, list[float]] = {"conditioned": [], "separate": []}
    epsilons, n_best = [], []
    for seed, (one, other) in enumerate(zip(conditioned, separate, strict=True)):
        mine, theirs = (
            score_trained(part, params, n_steps=SETTLING_STEPS, seed=seed) for part in (one, other)
        )
        volumes["conditioned"].append(hypervolume(mine, reference))
        volumes["separate"].append(hypervolume(theirs, reference))
        epsilons.append(additive_epsilon(mine, theirs))
        n_best.append(int(find_nondominated(mine).sum()))
    ratios = np.divide(volumes["conditioned"], volumes["separate"])
    return {
        "reference": reference.tolist(),
        "rules": {name: point.tolist() for name, point in by_rule.items()},
        "hypervolume": volumes,
        "hypervolume_ratios": ratios.tolist(),
        "hypervolume_ratio": float(ratios.mean()),
        "hypervolume_ratio_interval": mean_interval(ratios),
        "additive_epsilon": float(np.mean(epsilons)),
        "additive_epsilon_interval": mean_interval(epsilons),
        "nondominated": n_best,
    }


def read_boiler(params_file: Path | None) -> Any:
    """Params of the boiler domain from a file, or its example."""
    from parity311.estimation.params_file import read_params

    example = DOMAIN.play.example()
    return example if params_file is None else read_params(params_file, example)


def train_separately(
    preferences: np.ndarray, n_steps: int, seeds: list[int], params_file: Path | None = None
) -> list[Trained]:
    """An agent for each preference and seed, one process a core; one `Trained` a seed."""
    jobs = [
        (preferences[at : at + CPU_CHUNK], n_steps, seed, params_file)
        for seed in seeds
        for at in range(0, len(preferences), CPU_CHUNK)
    ]
    # Spawned, because a forked JAX hangs; each takes one core.
    context = multiprocessing.get_context("spawn")
    os.environ.setdefault("NPROC", "1")
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=context) as pool:
        parts = list(pool.map(_train_part, jobs))
    n_parts = len(parts) // len(seeds)
    found = []
    for place, seed in enumerate(seeds):
        own = parts[place * n_parts : (place + 1) * n_parts]
        found.append(_join(own, preferences, seed, n_steps))
    return found


def _train_part(job: tuple[np.ndarray, int, int, Path | None]) -> Any:
    """Policies (with the agent axis) of one chunk; runs in a process of its own."""
    preferences, n_steps, seed, params_file = job
    return train(DOMAIN, read_boiler(params_file), "dqn", preferences, [seed], n_steps).policies


def _join(parts: list[Any], preferences: np.ndarray, seed: int, n_steps: int) -> Trained:
    harness = Harness(DOMAIN)
    return Trained(
        agent=agent_for(harness, "dqn", n_steps),
        harness=harness,
        policies=jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts),
        preferences=preferences,
        seeds=np.full(len(preferences), seed),
        prices=np.zeros((len(preferences), 6)),
        curve=[],
    )
