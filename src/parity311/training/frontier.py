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

from parity311.errors import InputError
from parity311.mdp.contract import EQUITY, N_KNOWN_STRATA, Domain, Policy
from parity311.mdp.equity import coverage_gap
from parity311.mdp.harness import Harness
from parity311.training.loop import Trained, make_task, train_agents

OBJECTIVES = ("speed", "cost", "coverage_gap")
"""What a point of the frontier is made of; each oriented so that more is better (minus the gap)."""

EQUITY_WEIGHTS = (0.0, 0.2, 0.4, 0.6)
"""α₃ of the paper's 128 boiler settings"""
MISS_RATIOS = (5.0, 10.0, 15.0, 20.0, 26.0, 30.0, 40.0, 50.0)
"""Cost of a defect missed over that of a visit for nothing, in the paper's 128 settings"""
VISIT_FACTORS = (0.5, 1.0, 1.5, 2.0)
"""Factors on the cost of a visit, in the paper's 128 settings"""
MENU_EQUITY_WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6)
"""α₃ of a menu of at least 32 preferences. A coverage price is an integral with a cap, so it closes
most of a gap at a small weight already: between none and a fifth lies most of the curve."""
MENU_REACH = 4.0
"""A menu's trade-offs reach from a quarter to four times today's"""
HULL_REACH = 10.0
"""The conditioned agent covers trade-offs to twice beyond every menu, the paper's included (0.24 to
3.2 times today's), so that a constant can be halved or doubled without training again."""
HULL_EQUITY_WEIGHT = 0.75
"""… and α₃ as far as twice the largest of a menu goes, on the simplex"""
SETTLING_FACTOR = 30.0
"""By how much coverage prices move faster at the start of a play, so that they settle in it: where
visits are scarce a stratum's shortfall is some thousandths a step, and prices would take years."""
COST_WHERE_FREE = 0.1
"""Weight of cost from which a menu starts where today's preference gives it none"""


def trade_off_grid(
    preference: Sequence[float],
    trade_offs: Sequence[float],
    equity_weights: Sequence[float] = EQUITY_WEIGHTS,
) -> np.ndarray:
    """Preferences (trade-offs × weights, 4): speed against cost by each factor, and each α₃.

    A factor multiplies speed's (and retention's) share against that of cost, from the preference
    that stands for today.
    """
    today = np.asarray(preference, np.float64)
    if today[1] == 0.0:
        today = today * (1.0 - COST_WHERE_FREE) + np.array([0.0, COST_WHERE_FREE, 0.0, 0.0])
    rows = []
    for factor, equity in product(trade_offs, equity_weights):
        one = today * np.array([factor, 1.0, 0.0, factor])
        one *= (1.0 - equity) / one.sum()
        one[EQUITY] = equity
        rows.append(one)
    return np.asarray(rows, np.float32)


def spread_preferences(preference: Sequence[float], n: int) -> np.ndarray:
    """At most n preferences: trade-offs from a quarter to four times today's, by weight of equity.

    Today's own trade-off is among them.
    """
    weights = MENU_EQUITY_WEIGHTS if n >= 32 else EQUITY_WEIGHTS[:n]
    factors = np.geomspace(1 / MENU_REACH, MENU_REACH, max(n // len(weights), 1))
    factors[np.abs(np.log(factors)).argmin()] = 1.0
    return trade_off_grid(preference, factors.tolist(), weights)[:n]


def hull_of(domain: Domain) -> tuple[tuple[float, ...], ...]:
    """Corners between which one network covers a domain's preferences where nobody says which."""
    reach = (1 / HULL_REACH, HULL_REACH)
    return corners_of(trade_off_grid(domain.preference, reach, (0.0, HULL_EQUITY_WEIGHT)))


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


def cover(
    domain: Domain, preferences: Sequence[Sequence[float]] | np.ndarray
) -> tuple[tuple[float, ...], ...]:
    """The domain's corners, and with them any preference that does not lie between them."""
    corners = hull_of(domain)
    beyond = [
        tuple(float(weight) for weight in one)
        for one in preferences
        if not _lies_between(np.asarray(corners), np.asarray(one, np.float64))
    ]
    return tuple(dict.fromkeys([*corners, *beyond]))


def _lies_between(corners: np.ndarray, preference: np.ndarray) -> bool:
    """Whether a preference is a trade-off and a weight of equity between those of the corners."""
    equity = preference[EQUITY]
    if equity > corners[:, EQUITY].max() + 1e-6:
        return False
    without = corners[corners[:, EQUITY] == corners[:, EQUITY].min()]
    low, high = without[without[:, 1].argmin()], without[without[:, 1].argmax()]
    rest = preference * (np.arange(len(preference)) != EQUITY) / max(1.0 - equity, 1e-9)
    share = (rest[1] - low[1]) / max(high[1] - low[1], 1e-9)
    nearest = low + np.clip(share, 0.0, 1.0) * (high - low)
    return bool(np.abs(rest - nearest).max() < 1e-3)


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


def train_menu(
    harness: Harness,
    params: Any,
    agent: Any,
    preferences: Sequence[Sequence[float]] | np.ndarray,
    seeds: Sequence[int],
    steps: int,
    **options: Any,
) -> Trained:
    """One conditioned network a seed, read off at every preference; options as `train_agents`.

    What it gives has the order of `train_agents`: every preference with each seed.
    """
    trained = train_conditioned(harness, params, agent, seeds, steps, **options)
    return read_off_all(trained, np.asarray(preferences, np.float32))


def train_conditioned(
    harness: Harness, params: Any, agent: Any, seeds: Sequence[int], steps: int, **options: Any
) -> Trained:
    """Conditioned networks, one a seed, to be read off; options as `train_agents`."""
    # The middle of what it covers, so that prices are visible: it draws its own preferences.
    middle = np.mean(agent.config.corners, axis=0)
    return train_agents(harness, params, agent, [middle], seeds, steps, **options)


def read_off_all(trained: Trained, preferences: np.ndarray) -> Trained:
    """Plain policies for these preferences from every conditioned agent, none of them trained.

    Preference-major: all seeds of the first preference come first.
    """
    n_seeds = trained.n_agents
    read_off = trained.agent.read_off
    assert read_off is not None
    found = [
        read_off(trained.weights(index), one) for one in preferences for index in range(n_seeds)
    ]
    policies = jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *found)
    return Trained(
        agent=trained.agent,
        harness=trained.harness,
        policies=policies,
        preferences=np.repeat(np.asarray(preferences, np.float32), n_seeds, axis=0),
        seeds=np.tile(trained.seeds, len(preferences)),
        prices=np.tile(trained.prices, (len(preferences), 1)),
        curve=trained.curve,
        is_whole=trained.is_whole,
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
    # Each by its number, so that one program plays them all.
    preferences = np.tile(np.array([[0.4, 0.4, 0.2, 0.0]], np.float32), (len(rules), 1))
    points = _score(
        harness, params, preferences, Partial(_follow, tuple(rules.values())),
        jnp.arange(len(rules)), n_steps, n_environments, seed,
    )  # fmt: skip
    return dict(zip(rules, points, strict=True))


def _follow(
    rules: tuple[Policy, ...], number: jax.Array, key: jax.Array, observation: jax.Array
) -> jax.Array:
    choices = [partial(rule, key) for rule in rules]
    return jax.lax.switch(number, choices, observation).astype(jnp.int32)


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
    task = make_task(harness, params, preferences, {})
    # The same episodes for everybody: differences are not luck.
    keys = jax.random.split(jax.random.key(seed), n_environments)
    reward, correct, need = _play(harness, task, decide, policies, keys, n_steps)
    coverage = np.asarray(correct) / np.maximum(np.asarray(need), 1e-9)
    gap = np.asarray(coverage_gap(jnp.asarray(coverage[:, :N_KNOWN_STRATA])))
    return np.column_stack([np.asarray(reward)[:, :2], -gap])


@partial(jax.jit, static_argnames=("harness", "n_steps"))
def _play(
    harness: Harness, task: Any, decide: Any, policies: Any, keys: jax.Array, n_steps: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Mean published reward (agents, 4), correct and actionable (agents, 6), after settling."""

    def one(equity: Any, policy: Any, key: jax.Array) -> Any:
        key_start, key_settle, key_count = jax.random.split(key, 3)

        def step(carry: Any, given: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
            running, observation, totals = carry
            key, factor = given
            key_decide, key_step = jax.random.split(key)
            action = decide(policy, key_decide, observation)
            faster = equity._replace(step_size=factor * equity.step_size)
            moved = harness.step(key_step, task.params, faster, running, action)
            tally = moved.tally
            seen = (tally.published_reward, tally.correct, tally.actionable)
            totals = jax.tree.map(jnp.add, totals, seen)
            return (moved.running, moved.observation, totals), None

        start = harness.reset(key_start, task.params, equity)
        none = (jnp.zeros(4), jnp.zeros(6), jnp.zeros(6))
        # Prices move fast at first, then ever slower, and at their own pace while it counts.
        keys = jax.random.split(key_settle, n_steps), jax.random.split(key_count, n_steps)
        falling = jnp.geomspace(SETTLING_FACTOR, 1.0, n_steps)
        settled, _ = jax.lax.scan(step, (*start, none), (keys[0], falling))
        counted, _ = jax.lax.scan(step, (*settled[:2], none), (keys[1], jnp.ones(n_steps)))
        return counted[2]

    over_agents = jax.vmap(one, in_axes=(0, 0, None))
    totals = jax.vmap(over_agents, in_axes=(None, None, 0), out_axes=1)
    reward, correct, need = totals(task.equity, policies, keys)
    return reward.mean(axis=1) / n_steps, correct.sum(axis=1), need.sum(axis=1)


def hypervolume(points: np.ndarray, reference: np.ndarray) -> float:
    """Volume between a reference (k,) and points (n, k), more being better in every coordinate."""
    above = points[(points > reference).all(axis=1)]
    if len(above) == 0:
        return 0.0
    return float(load_moocore().hypervolume(above, ref=reference, maximise=True))


def additive_epsilon(points: np.ndarray, others: np.ndarray) -> float:
    """Least amount that, added to every coordinate of `points`, makes them cover `others`."""
    return float(load_moocore().epsilon_additive(points, ref=others, maximise=True))


def find_nondominated(points: np.ndarray) -> np.ndarray:
    """Which points (n, k) no other beats, (n,) bool; of equal ones the first."""
    return np.asarray(load_moocore().is_nondominated(points, maximise=True))


def load_moocore() -> Any:
    """The library that measures frontiers, or an error that says how to get it."""
    try:
        import moocore
    except ImportError as error:
        raise InputError(
            "Measuring a frontier needs moocore, which is not installed; install it with "
            "`pip install 'parity311[frontier]'`."
        ) from error
    return moocore
