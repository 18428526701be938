"""A frontier: many preferences, what each leads to, and how much of the space they dominate.

Every preference is played in the same process with its coverage prices adapting; what counts is
speed, cost and the coverage gap in the long run. The conditioned agent (`agents.conditioned`) gives
a point for any preference without training it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from parity311.agents.conditioned import network_for
from parity311.agents.dqn import action_margin, decide_greedily
from parity311.mdp.contract import EQUITY, N_KNOWN_STRATA, Policy
from parity311.mdp.equity import coverage_gap
from parity311.mdp.harness import Harness
from parity311.training.loop import Trained, make_world

OBJECTIVES = ("speed", "cost", "coverage_gap")
"""What a point of the frontier is made of; each oriented so that more is better (minus the gap)."""

EQUITY_WEIGHTS = (0.0, 0.2, 0.4, 0.6)
"""α₃ of the paper's 128 boiler settings"""
MISS_RATIOS = (5.0, 10.0, 15.0, 20.0, 26.0, 30.0, 40.0, 50.0)
"""Cost of a defect missed over that of a visit for nothing, in the paper's 128 settings"""
VISIT_FACTORS = (0.5, 1.0, 1.5, 2.0)
"""Factors on the cost of a visit, in the paper's 128 settings"""


def trade_off_grid(preference: Sequence[float], trade_offs: Sequence[float]) -> np.ndarray:
    """Preferences (n × 4, 4): speed against cost by each factor, and each weight of equity.

    A factor multiplies speed's (and retention's) share against that of cost, from the preference
    that stands for today.
    """
    today = np.asarray(preference, np.float64)
    rows = []
    for factor, equity in product(trade_offs, EQUITY_WEIGHTS):
        one = today * np.array([factor, 1.0, 0.0, factor])
        one *= (1.0 - equity) / one.sum()
        one[EQUITY] = equity
        rows.append(one)
    return np.asarray(rows, np.float32)


def spread_preferences(preference: Sequence[float], n: int) -> np.ndarray:
    """About n preferences: trade-offs from a quarter to four times today's, by weight of equity."""
    n_trade_offs = max(n // len(EQUITY_WEIGHTS), 1)
    return trade_off_grid(preference, np.geomspace(0.25, 4.0, n_trade_offs).tolist())[:n]


def boiler_settings() -> np.ndarray:
    """The paper's 128 reward settings of the boiler domain as preferences (128, 4).

    A miss ratio and a visit factor only change what a defect is worth against a visit, and that is
    what speed's weight against cost's says: (catch + ratio × waste) / (catch + miss) : factor.
    """
    from parity311.domains import boiler

    unit = boiler.CATCH_DOLLARS + boiler.MISS_DOLLARS
    worth = [(boiler.CATCH_DOLLARS + ratio * boiler.WASTE_DOLLARS) / unit for ratio in MISS_RATIOS]
    trade_offs = [value / factor for value, factor in product(worth, VISIT_FACTORS)]
    return trade_off_grid(boiler.DOMAIN.preference, trade_offs)


def corners_of(preferences: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """The most and least of speed against cost, with the least and most equity: the hull's ends."""
    rest = preferences / np.maximum(1.0 - preferences[:, [EQUITY]], 1e-9)
    found = []
    for weight in (preferences[:, EQUITY].min(), preferences[:, EQUITY].max()):
        for place in (rest[:, 1].argmin(), rest[:, 1].argmax()):
            one = rest[place] * (1.0 - weight)
            one[EQUITY] = weight
            found.append(tuple(float(x) for x in one))
    return tuple(dict.fromkeys(found))


def read_off(trained: Trained, index: int, preferences: np.ndarray) -> Trained:
    """Plain policies for these preferences from one conditioned agent, none of them trained."""
    networks = [network_for(trained.weights(index), one) for one in preferences]
    policies = {
        name: np.stack([np.asarray(network[name]) for network in networks]) for name in networks[0]
    }
    return Trained(
        agent=trained.agent._replace(decide=decide_greedily, margin=action_margin),
        harness=trained.harness,
        policies=policies,
        preferences=np.asarray(preferences, np.float32),
        seeds=np.full(len(preferences), trained.seeds[index]),
        prices=np.repeat(trained.prices[index][None], len(preferences), axis=0),
        curve=trained.curve,
    )


def score_trained(
    trained: Trained, params: Any, *, n_steps: int = 4000, n_environments: int = 4, seed: int = 0
) -> np.ndarray:
    """Objectives (agents, 3) of every agent, played after prices had as long to settle."""
    policies = jax.tree.map(jnp.asarray, trained.policies)
    return _score(
        trained.harness, params, trained.preferences, Partial(trained.agent.decide), policies,
        n_steps, n_environments, seed,
    )  # fmt: skip


def score_rules(
    harness: Harness,
    params: Any,
    rules: Mapping[str, Policy],
    *,
    n_steps: int = 4000,
    n_environments: int = 4,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Objectives (3,) of rules of thumb, with prices adapting for those that look at them."""
    preference = np.array([[0.4, 0.4, 0.2, 0.0]], np.float32)
    found = {}
    for name, rule in rules.items():
        lifted = jax.tree.map(lambda x: jnp.asarray(x)[None], rule)
        points = _score(
            harness, params, preference, Partial(_follow), lifted, n_steps, n_environments, seed
        )
        found[name] = points[0]
    return found


def _follow(rule: Policy, key: jax.Array, observation: jax.Array) -> jax.Array:
    return rule(key, observation)


def _score(
    harness: Harness,
    params: Any,
    preferences: np.ndarray,
    decide: Any,
    policies: Any,
    n_steps: int,
    n_environments: int,
    seed: int,
) -> np.ndarray:
    world = make_world(harness, params, preferences, {})
    # The same episodes for everybody: differences are not luck.
    keys = jax.random.split(jax.random.key(seed), n_environments)
    reward, correct, need = _play(harness, world, decide, policies, keys, n_steps)
    coverage = np.asarray(correct) / np.maximum(np.asarray(need), 1e-9)
    gap = np.asarray(coverage_gap(jnp.asarray(coverage[:, :N_KNOWN_STRATA])))
    return np.column_stack([np.asarray(reward)[:, :2], -gap])


@partial(jax.jit, static_argnames=("harness", "n_steps"))
def _play(
    harness: Harness, world: Any, decide: Any, policies: Any, keys: jax.Array, n_steps: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Mean published reward (agents, 4), correct and actionable (agents, 6), after settling."""

    def one(equity: Any, policy: Any, key: jax.Array) -> Any:
        key_start, key_settle, key_count = jax.random.split(key, 3)

        def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
            running, observation, totals = carry
            key_decide, key_step = jax.random.split(key)
            action = decide(policy, key_decide, observation)
            moved = harness.step(key_step, world.params, equity, running, action)
            tally = moved.tally
            seen = (tally.published_reward, tally.correct, tally.actionable)
            totals = jax.tree.map(jnp.add, totals, seen)
            return (moved.running, moved.observation, totals), None

        start = harness.reset(key_start, world.params, equity)
        none = (jnp.zeros(4), jnp.zeros(6), jnp.zeros(6))
        settled, _ = jax.lax.scan(step, (*start, none), jax.random.split(key_settle, n_steps))
        counted, _ = jax.lax.scan(step, (*settled[:2], none), jax.random.split(key_count, n_steps))
        return counted[2]

    over_agents = jax.vmap(one, in_axes=(0, 0, None))
    totals = jax.vmap(over_agents, in_axes=(None, None, 0), out_axes=1)
    reward, correct, need = totals(world.equity, policies, keys)
    return reward.mean(axis=1) / n_steps, correct.sum(axis=1), need.sum(axis=1)


def hypervolume(points: np.ndarray, reference: np.ndarray) -> float:
    """Volume between a reference (3,) and points (n, 3), more being better in every coordinate.

    Slices along the last coordinate, each an area under a staircase: exact, and quick for some
    hundred points.
    """
    above = points[(points > reference).all(axis=1)] - reference
    if len(above) == 0:
        return 0.0
    above = above[np.argsort(-above[:, 2])]
    heights = np.append(above[:, 2], 0.0)
    total = 0.0
    for n in range(1, len(above) + 1):
        depth = heights[n - 1] - heights[n]
        if depth > 0:
            total += depth * _area(above[:n, :2])
    return float(total)


def _area(points: np.ndarray) -> float:
    """Area of the union of boxes from the origin to points (n, 2)."""
    ordered = points[np.argsort(-points[:, 0])]
    best = np.maximum.accumulate(ordered[:, 1])
    widths = ordered[:, 0] - np.append(ordered[1:, 0], 0.0)
    return float((widths * best).sum())


def additive_epsilon(points: np.ndarray, others: np.ndarray) -> float:
    """Least amount that, added to every coordinate of `points`, makes them cover `others`."""
    short = (others[:, None, :] - points[None, :, :]).max(axis=2)
    return float(short.min(axis=1).max())
