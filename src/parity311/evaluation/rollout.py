"""Play many policies through the same episodes, in one program."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.errors import InputError
from parity311.mdp.contract import N_STRATA, Policy, Tally
from parity311.mdp.equity import EquityParams
from parity311.mdp.harness import Harness, Running

CHUNK = 8
"""Episodes played by one program at a time."""
N_THREADS = 2
"""Programs that run at once: the project's figures are for two cores."""


@dataclass(frozen=True)
class Contender:
    """A policy with the coverage prices it works under.

    Examples
    --------
    >>> learned = parity311.Contender("learned", trained.policy(0))
    >>> learned.is_priced  # it learned without a weight on equity
    False
    """

    name: str
    policy: Policy
    prices: np.ndarray | None = None
    """(6,) prices to start from; zero if not given"""
    is_priced: bool = False
    """whether it sees its coverage feature"""
    price_step: float | None = None
    """η of its prices; the domain's if not given, 0 keeps them fixed"""


class Episodes(NamedTuple):
    """Totals of every episode, with axes (policies, episodes)."""

    tally: Tally
    reward: jax.Array
    """(policies, episodes, 4) sum of what the actions saved, equity included; not a number where
    it was not asked for"""
    mean_prices: jax.Array
    """(policies, episodes, 6) coverage prices averaged over the second half"""
    earned: jax.Array
    """(policies, episodes) what the equity term pays for correct escalations when they are made"""
    n_steps: int


def evaluate(
    harness: Harness,
    params: Any,
    contenders: Sequence[Contender],
    keys: jax.Array,
    *,
    equity: EquityParams | None = None,
    n_steps: int | None = None,
    n_warm: int = 0,
    chunk: int = CHUNK,
    with_saved: bool = True,
) -> Episodes:
    """Play one episode per key with every policy; the same keys, hence paired.

    Parameters
    ----------
    params
        The process to play in.
    equity
        Denominators and steps of the coverage prices, as the agency estimated them; from `params`
        if not given.
    n_steps
        Steps to play; one episode if not given. Beyond it episodes follow each other, and
        coverage prices outlive them.
    n_warm
        Steps played before any is counted.
    chunk
        Episodes one program plays at a time.
    with_saved
        Whether to add up what the actions saved, which agents learn from and no figure is made of.
        In a queue it takes nearly half of the time.

    Examples
    --------
    >>> keys = jax.random.split(jax.random.key(3), 2)
    >>> rule = boiler.heuristics["balanced"](params, harness)
    >>> today = parity311.Contender("today's rule", rule)
    >>> played = parity311.evaluate(harness, params, [today], keys)
    >>> played.tally.published_reward.shape  # policies, episodes, components
    (1, 2, 4)
    """
    if not contenders:
        raise InputError("There is no policy to evaluate; give at least one.")
    base = equity or harness.equity_params(params)
    batch = jax.tree.map(lambda x: np.broadcast_to(x, (len(contenders), *np.shape(x))), base)
    return _evaluate(
        harness, params, batch, contenders, keys, n_steps, n_warm, chunk, False, with_saved
    )


def evaluate_each(
    harness: Harness,
    contenders: Sequence[Contender],
    params: Sequence[Any],
    equity: Sequence[EquityParams],
    keys: jax.Array,
    *,
    n_steps: int | None = None,
    n_warm: int = 0,
    chunk: int = CHUNK,
    with_saved: bool = True,
) -> Episodes:
    """Play every policy in a process of its own, (policies) params and equity; else `evaluate`.

    The processes must have arrays of the same shapes: the same domain, estimated alike.
    """
    if not contenders:
        raise InputError("There is no policy to evaluate; give at least one.")
    stack = lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves])  # noqa: E731
    own, batch = jax.tree.map(stack, *params), jax.tree.map(stack, *equity)
    return _evaluate(
        harness, own, batch, contenders, keys, n_steps, n_warm, chunk, True, with_saved
    )


def _evaluate(
    harness: Harness,
    params: Any,
    equity: EquityParams,
    contenders: Sequence[Contender],
    keys: jax.Array,
    n_steps: int | None,
    n_warm: int,
    chunk: int,
    is_own: bool,
    with_saved: bool,
) -> Episodes:
    """Play all; `equity` has the policy axis, and so have params where they are each one's own."""
    batch = _batch_equity(equity, contenders)
    prices = np.stack(
        [np.zeros(N_STRATA) if one.prices is None else one.prices for one in contenders]
    )
    groups, order = _group([one.policy for one in contenders])
    # In NumPy: for JAX every shape would be a program of its own to compile.
    take = lambda x: np.asarray(x)[np.array(order)]  # noqa: E731
    arguments = (jax.tree.map(take, batch), groups, take(prices.astype(np.float32)))
    process = jax.tree.map(take, params) if is_own else params
    # One program uses one core, so pieces run side by side; equal pieces share one program.
    n_parts = len(keys) // chunk if len(keys) % chunk == 0 else 1
    length = n_steps or harness.horizon
    how = {"n_steps": length, "n_warm": n_warm, "is_own": is_own, "with_saved": with_saved}
    play = partial(_play, **how)

    kind = jax.random.key_impl(keys)

    def play_part(part: np.ndarray) -> Any:
        own = jax.random.wrap_key_data(jnp.asarray(part), impl=kind)
        return jax.block_until_ready(play(harness, process, *arguments, own))

    first, *rest = np.split(np.asarray(jax.random.key_data(keys)), n_parts)
    # The first compiles the program alone: two that need it at once would both compile it.
    parts = [play_part(first)]
    with ThreadPoolExecutor(N_THREADS) as pool:
        parts += pool.map(play_part, rest)
    back = np.argsort(order)
    totals = jax.tree.map(lambda *x: np.concatenate(x, axis=1)[back], *parts)
    tally, reward, prices_seen, earned = totals
    return Episodes(tally, reward, prices_seen, earned, length)


def _batch_equity(equity: EquityParams, contenders: Sequence[Contender]) -> EquityParams:
    own = np.asarray(equity.step_size)
    steps = [
        float(own[place]) if one.price_step is None else one.price_step
        for place, one in enumerate(contenders)
    ]
    return equity._replace(
        is_visible=np.asarray([one.is_priced for one in contenders], np.float32),
        step_size=np.asarray(steps, np.float32),
    )


def _group(policies: Sequence[Policy]) -> tuple[tuple[Any, ...], list[int]]:
    """Stack policies of the same form, so that one call serves them all; and their order."""
    members: dict[Any, list[int]] = {}
    for index, policy in enumerate(policies):
        leaves, form = jax.tree.flatten(policy)
        signature = (form, tuple((np.shape(x), jnp.result_type(x)) for x in leaves))
        members.setdefault(signature, []).append(index)
    groups = tuple(
        jax.tree.map(_stack, *(policies[i] for i in indices)) for indices in members.values()
    )
    return groups, [index for indices in members.values() for index in indices]


def _stack(*leaves: Any) -> Any:
    """Leaves with an axis more; keys are JAX's own and have no form in NumPy."""
    is_key = jnp.issubdtype(jnp.result_type(leaves[0]), jax.dtypes.extended)
    return (jnp if is_key else np).stack(leaves)


def split_episode(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Keys of an episode's start and of its steps, into which a step folds its number.

    The adapters use the same, so that an episode of theirs is one of an evaluation's.
    """
    key_start, key_steps, _ = jax.random.split(key, 3)
    return key_start, key_steps


class Carry(NamedTuple):
    """What a step hands to the next, (policies, episodes, ...) each: totals so far."""

    running: Running
    observation: jax.Array
    tally: Tally
    reward: jax.Array
    prices: jax.Array
    earned: jax.Array


@partial(jax.jit, static_argnames=("harness", "n_steps", "n_warm", "is_own", "with_saved"))
def _play(
    harness: Harness,
    params: Any,
    equity: EquityParams,
    groups: tuple[Any, ...],
    prices: jax.Array,
    keys: jax.Array,
    *,
    n_steps: int,
    n_warm: int,
    is_own: bool,
    with_saved: bool,
) -> tuple[Tally, jax.Array, jax.Array, jax.Array]:
    """Run all policies (leading axis) through all episodes (second axis)."""
    sizes = [jax.tree.leaves(group)[0].shape[0] for group in groups]
    bounds = np.cumsum([0, *sizes])

    def decide(key: jax.Array, observation: jax.Array) -> jax.Array:
        """Actions (policies, episodes); every policy has the same random numbers."""
        episode_keys = jax.random.split(key, keys.shape[0])
        call_one = jax.vmap(lambda policy, k, seen: policy(k, seen), in_axes=(None, 0, 0))
        call_all = jax.vmap(call_one, in_axes=(0, None, 0))
        parts = [
            call_all(group, episode_keys, observation[low:high])
            for group, low, high in zip(groups, bounds[:-1], bounds[1:], strict=True)
        ]
        return jnp.concatenate(parts)

    reset = jax.vmap(harness.reset, in_axes=(0, None, None, None))
    process = 0 if is_own else None
    reset = jax.vmap(reset, in_axes=(None, process, 0, 0))
    step = jax.vmap(harness.step, in_axes=(0, None, None, 0, 0))
    step = jax.vmap(step, in_axes=(None, process, 0, 0, 0))
    starts, steps = jax.vmap(split_episode)(keys)
    key_decisions = jax.random.split(keys[0], 3)[2]
    running, observation = reset(starts, params, equity, prices)
    shape = jax.eval_shape(step, steps, params, equity, running, jnp.zeros(
        observation.shape[:2], jnp.int32))  # fmt: skip
    zeros = lambda tree: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tree)  # noqa: E731
    earn = jax.vmap(jax.vmap(harness.earn, in_axes=(None, 0, 0)))
    nothing = jnp.zeros(observation.shape[:2])
    start = Carry(
        running,
        observation,
        zeros(shape.tally),
        zeros(shape.reward),
        prices_of(running) * 0,
        nothing,
    )

    def body(carry: Carry, index: jax.Array) -> tuple[Carry, None]:
        fold = lambda key: jax.random.fold_in(key, index)  # noqa: E731
        action = decide(fold(key_decisions), carry.observation)
        moved = step(jax.vmap(fold)(steps), params, equity, carry.running, action)
        is_counted = index >= n_warm
        add = lambda total, new: total + jnp.where(is_counted, new, 0)  # noqa: E731
        is_late = (index >= n_warm + n_steps // 2).astype(jnp.float32)
        earned = earn(equity, carry.running.equity, moved.tally)
        return Carry(
            moved.running,
            moved.observation,
            jax.tree.map(add, carry.tally, moved.tally),
            # What nobody reads is not computed: the compiler leaves out all that leads to it.
            add(carry.reward, moved.reward) if with_saved else carry.reward,
            carry.prices + is_late * prices_of(moved.running),
            add(carry.earned, earned),
        ), None

    ended, _ = jax.lax.scan(body, start, jnp.arange(n_warm + n_steps))
    n_late = n_steps - n_steps // 2
    reward = ended.reward if with_saved else jnp.full_like(ended.reward, jnp.nan)
    return ended.tally, reward, ended.prices / n_late, ended.earned


def prices_of(running: Any) -> jax.Array:
    """Coverage prices of running episodes."""
    return running.equity.prices
