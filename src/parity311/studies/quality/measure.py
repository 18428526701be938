"""How good a learned policy is: learned in the estimated process, scored under the truth.

A part is what one process measures on its own: a domain's rules and its ceiling in one city, or one
recipe trained there. Every part plays the same episodes (their keys depend on the city alone), so
parts that were measured apart are paired. Choices (which snapshot of a training, which recipe) are
made on other episodes, in the estimated process: no policy is chosen on what it is scored on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.engines.heuristics import CaseTable, Threshold
from parity311.evaluation.ceiling import learnable_share
from parity311.evaluation.compare import (
    TODAY,
    agent_contenders,
    best_contender,
    hold_contender,
    is_exact,
    later_flow,
    rule_contenders,
)
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.harness import Harness
from parity311.studies.quality.settings import (
    N_SELECTING,
    N_SNAPSHOTS,
    SWAPS,
    WRITTEN_SHARES,
    QualitySetting,
    Recipe,
)
from parity311.training import train
from parity311.training.loop import Trained

CEILING = "ceiling"
BELIEVED = "optimum_of_estimated"
"""The best policy of the estimated process: what is left once the agent loses nothing."""


class Ground(NamedTuple):
    """Where a setting is learned and scored, in one city."""

    setting: QualitySetting
    harness: Harness
    estimated: Any
    true: Any
    city_seed: int

    @property
    def preference(self) -> np.ndarray:
        """Weights of the reward."""
        return np.asarray(self.harness.domain.preference)

    def keys(self, purpose: str, n: int) -> jax.Array:
        """Keys of the episodes for one purpose; the same in every part."""
        number = ("score", "validate", "select", "search").index(purpose)
        return jax.random.split(jax.random.fold_in(jax.random.key(self.city_seed), number), n)

    def flow(self, is_true: bool) -> CaseTable | None:
        """Cases that capacity binds on, where steps are independent."""
        return later_flow(self.harness, self.estimated, self.true if is_true else self.estimated)


def rewards_of(
    ground: Ground, contenders: Sequence[Contender], purpose: str, n: int, *, is_true: bool
) -> np.ndarray:
    """Published reward of every policy in every episode, (policies, n)."""
    flow = ground.flow(is_true)
    held = [hold_contender(ground.harness, flow, one) for one in contenders]
    params = ground.true if is_true else ground.estimated
    played = evaluate(ground.harness, params, held, ground.keys(purpose, n), with_saved=False)
    return np.asarray(played.tally.published_reward, np.float64) @ ground.preference


def measure_rules(ground: Ground) -> dict[str, Any]:
    """The domain's rules, the best of the estimated process, and the ceiling."""
    harness, preference = ground.harness, ground.preference
    keys = ground.keys("search", N_SELECTING)
    contenders = rule_contenders(harness, ground.estimated)
    believed = best_contender(harness, ground.flow(False), ground.estimated, keys, preference)
    best = best_contender(harness, ground.flow(True), ground.true, keys, preference)
    contenders += [replace(believed, name=BELIEVED), replace(best, name=CEILING)]
    return {
        "is_exact": is_exact(harness),
        "learnable_share": _learnable(ground, contenders),
        "policies": describe(ground, contenders, [None] * len(contenders), selects=True),
    }


def _learnable(ground: Ground, contenders: Sequence[Contender]) -> float | None:
    """Share of the way that could be learned at all, where cases are independent of each other."""
    flow = ground.flow(True)
    today = next(one.policy for one in contenders if one.name == TODAY)
    if flow is None or not isinstance(today, Threshold):
        return None
    return learnable_share(flow, ground.harness, today)


def measure_swaps(ground: Ground) -> dict[str, Any]:
    """The optimum of the estimate with something about it changed.

    One group of its numbers replaced by the true ones: what it gains is what the estimate loses by
    that group. Or another share assumed of what inspectors write up, which records hardly tell.
    """
    estimated = ground.estimated
    changed = {
        f"with the truth about {name}": estimated._replace(
            **{field: getattr(ground.true, field) for field in fields}
        )
        for name, fields in SWAPS.items()
    }
    for name, share in WRITTEN_SHARES.items():
        chance = jnp.clip(estimated.kinds[:, 0] * estimated.written_share / share, 0.0, 0.95)
        changed[name] = estimated._replace(
            kinds=estimated.kinds.at[:, 0].set(chance), written_share=jnp.float32(share)
        )
    keys = ground.keys("search", N_SELECTING)
    contenders = [
        replace(
            best_contender(ground.harness, ground.flow(False), params, keys, ground.preference),
            name=name,
        )
        for name, params in changed.items()
    ]
    return {"policies": describe(ground, contenders, [None] * len(contenders), selects=False)}


def measure_recipe(
    ground: Ground, recipe: Recipe, seeds: Sequence[int], *, in_truth: bool = False
) -> dict[str, Any]:
    """Train a recipe with every seed, choose each one's snapshot, and score it.

    With `in_truth` it learns, and chooses, in the true process: no competitor, but a ceiling where
    none can be computed.
    """
    harness = ground.harness
    trained = train(
        harness.domain,
        ground.true if in_truth else ground.estimated,
        recipe.agent,
        ground.preference[None],
        list(seeds),
        recipe.steps,
        observation_set=harness.observation_set,
        action_set=harness.action_set,
        n_environments=recipe.n_environments,
        settings=recipe.settings,
        n_snapshots=N_SNAPSHOTS,
    )
    chosen, validation = choose_snapshots(ground, trained, is_true=in_truth)
    contenders = agent_contenders(harness, [trained.at_snapshots(chosen.tolist())])
    policies = describe(ground, contenders, list(seeds), selects=in_truth)
    for place, one in enumerate(policies):
        one |= {"snapshot": int(chosen[place]), "validation": float(validation[place])}
    return {"policies": policies, "curve": [float(x["reward"].mean()) for x in trained.curve]}


def choose_snapshots(
    ground: Ground, trained: Trained, *, is_true: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Every agent's best snapshot (agents,) on the validating episodes, and its mean reward."""
    found = []
    for policies in trained.snapshots or [trained.policies]:
        contenders = agent_contenders(ground.harness, [replace(trained, policies=policies)])
        rewards = rewards_of(
            ground, contenders, "validate", ground.setting.n_validating, is_true=is_true
        )
        found.append(rewards.mean(axis=1))
    means = np.stack(found)
    return means.argmax(axis=0), means.max(axis=0)


def describe(
    ground: Ground, contenders: Sequence[Contender], seeds: Sequence[int | None], *, selects: bool
) -> list[dict[str, Any]]:
    """What is kept of scored policies; with `selects` also a trial under the truth.

    The trial is what a ceiling is chosen by where none can be computed.
    """
    scored = rewards_of(ground, contenders, "score", ground.setting.n_scored, is_true=True)
    trial = np.full(len(contenders), np.nan)
    if selects:
        trial = rewards_of(ground, contenders, "select", N_SELECTING, is_true=True).mean(axis=1)
    return [
        {
            "policy": one.name,
            "seed": seeds[place],
            "trial": float(trial[place]) if selects else None,
            "rewards": [float(f"{x:.7g}") for x in scored[place]],
        }
        for place, one in enumerate(contenders)
    ]
