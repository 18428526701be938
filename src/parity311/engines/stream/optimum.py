"""The optimum of a stream of complaints by value iteration over its whole state.

A state is the complaint's kind, the season, the queue's length, whether the crew is busy, and what
is open at each place; values are arrays with these axes. Nothing is discretised: the queue's
content only waits, and what a visit is worth is settled when it is ordered. One thing is averaged,
since no policy sees it: the stratum of a complaint, which matters through access alone; for a
complaint that comes back it is taken at its place's mean.

The long-run average of the reward is maximised (relative value iteration), because credit falls
due at the order and the time limit is not part of the process.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jitted, jnp
from parity311.engines.stream.process import (
    CREW,
    MAX_VISITS,
    N_LEVELS,
    N_SEASONS,
    PUT_OFF,
    QUEUE_SLOTS,
    ROUND,
    SEASON_DAYS,
    SEVERITY_WEIGHTS,
    StreamParams,
    StreamShape,
    left_open,
    waiting_factors,
)
from parity311.engines.stream.rules import Reading, StreamLayout
from parity311.engines.stream.worth import check_params
from parity311.engines.table.policy import TablePolicy
from parity311.errors import EstimationError
from parity311.mdp.contract import N_STRATA, Policy
from parity311.mdp.harness import Harness

TOLERANCE = 1e-4
"""Largest span of a sweep's change at which the average reward counts as found, in reward units."""

MAX_SWEEPS = 3_000
N_IMPROVEMENTS = 2
"""Rounds in which a policy that does not see the whole state is improved."""

NEVER = -1e6
"""Reward of a crew that an office does not have; finite, since states are pushed through it."""

N_OCCUPANCY = 80
"""Steps after which the states a policy visits count as settled."""


class Tables(NamedTuple):
    """A stream's process as the arrays a sweep needs."""

    rewards: jax.Array
    """(3, kinds, seasons, queue): of putting off, the best round and the best crew action"""
    arrivals: jax.Array
    """(kinds, seasons) shares of what comes in"""
    comes_back: jax.Array
    """(places,)"""
    grown: jax.Array
    """(places, levels) what a return costs, by place and level"""
    ends: jax.Array
    """(seasons,) chance that something open ends within a step"""
    moves_on: jax.Array
    """(seasons,) chance that the next step is in the next season"""
    left_open: jax.Array
    """(kinds,) chance that a visit leaves it open"""
    visits: jax.Array
    """(MAX_VISITS + 1,) chances of so many visits of the round"""
    crew_freed: jax.Array


class Choices(NamedTuple):
    """Which action of the domain stands for putting off, the round and the crew, by kind."""

    action: np.ndarray
    """(3, kinds)"""
    resource: np.ndarray
    """(n_actions,) what each action uses"""
    behind: np.ndarray
    """(n_actions, kinds) reward that an action lacks to the one that stands for its resource; -inf
    where another always does"""


def tabulate(
    shape: StreamShape, params: StreamParams, preference: np.ndarray
) -> tuple[Tables, Choices]:
    """Arrays of the process under one preference; the equity weight is left out."""
    check_params(shape, params)
    weight = np.asarray(SEVERITY_WEIGHTS)[shape.kinds[:, 1]]
    chance, units = np.asarray(params.kinds, np.float64).T
    cells = np.asarray(params.cells)
    counts = np.stack(
        [np.bincount(row, minlength=shape.n_kinds * N_STRATA) for row in cells], axis=1
    ).reshape(shape.n_kinds, N_STRATA, N_SEASONS)
    access = _mean_access(shape, counts, np.asarray(params.access, np.float64))
    life = float(params.lifetime_days)
    worth = preference[0] / float(params.speed_unit) + preference[3] * units / float(
        params.keep_unit
    )
    rewards, choices = _order_rewards(
        shape, params, preference, weight * chance * life, worth, access
    )
    grown = _grown(shape, weight * chance * life, worth)
    days = np.asarray(params.days_per_step, np.float64)
    visits = float(params.visits_per_step)
    least = int(np.floor(visits))
    law = np.zeros(MAX_VISITS + 1)
    law[min(least, MAX_VISITS)] += 1.0 - (visits - least)
    law[min(least + 1, MAX_VISITS)] += visits - least
    numbers = (
        rewards,
        counts.sum(axis=1) / cells.shape[1],
        params.comes_back,
        grown,
        1.0 - np.exp(-days / life),
        days / SEASON_DAYS,
        np.asarray(left_open(params, jnp.asarray(chance), jnp.asarray(access))),
        law,
        params.crew_per_step,
    )
    return Tables(*(jnp.asarray(x, jnp.float32) for x in numbers)), choices


def _mean_access(shape: StreamShape, counts: np.ndarray, access: np.ndarray) -> np.ndarray:
    """Mean access of each kind (n_kinds,); the place's where the kind does not occur."""
    by_kind = counts.sum(axis=2).astype(np.float64)
    place = shape.kinds[:, 0]
    by_place = np.stack([by_kind[place == n].sum(axis=0) for n in range(shape.n_places)])[place]
    # Recurrent kinds are mostly returns, whose strata are those of the whole place.
    mixed = by_kind + 1e-3 * by_place + 1e-9
    return (mixed @ access) / mixed.sum(axis=1)


def _order_rewards(
    shape: StreamShape,
    params: StreamParams,
    preference: np.ndarray,
    burden: np.ndarray,
    worth: np.ndarray,
    access: np.ndarray,
) -> tuple[np.ndarray, Choices]:
    """Best reward of each resource (3, kinds, seasons, queue) and the action that brings it."""
    table = params.actions
    resource = np.asarray(table.resource)
    effect = np.asarray(table.effect, np.float64)[:, shape.kinds[:, 1]]
    chance = np.asarray(params.kinds, np.float64)[:, 0]
    hours = np.asarray(table.hours, np.float64)[:, None] + np.asarray(
        table.wasted_hours, np.float64
    )[:, None] * (1.0 - chance)
    gain = burden * access * float(params.written_share) * worth * effect
    cost = preference[1] * hours / float(params.cost_unit)
    waiting = np.asarray(waiting_factors(params), np.float64)
    waiting = np.concatenate([waiting, np.zeros((N_SEASONS, 1))], axis=1)
    shape_of = (3, shape.n_kinds, N_SEASONS, QUEUE_SLOTS + 1)
    rewards, action = np.zeros(shape_of), np.zeros((3, shape.n_kinds), np.int64)
    first = {kind: int(np.argmax(resource == kind)) for kind in (PUT_OFF, ROUND, CREW)}
    round_action = first[ROUND]
    rewards[ROUND] = gain[round_action][:, None, None] * waiting - cost[round_action][:, None, None]
    action[PUT_OFF], action[ROUND] = first[PUT_OFF], round_action
    behind = np.full((len(resource), shape.n_kinds), -np.inf)
    behind[[first[PUT_OFF], round_action]] = 0.0
    crew = np.flatnonzero(resource == CREW)
    if not len(crew):
        rewards[CREW], action[CREW] = NEVER, round_action
        return rewards, Choices(action, resource, behind)
    best = np.argmax(gain[crew] - cost[crew], axis=0)
    action[CREW] = crew[best]
    most = (gain[crew] - cost[crew]).max(axis=0)
    rewards[CREW] = most[:, None, None]
    behind[crew] = gain[crew] - cost[crew] - most
    return rewards, Choices(action, resource, behind)


def _grown(shape: StreamShape, burden: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """What a return costs beyond what was charged when it began, (places, levels)."""
    top = shape.n_histories - 1
    grown = np.zeros((shape.n_places, N_LEVELS))
    for place in range(shape.n_places):
        for level in range(1, N_LEVELS):
            kind = int(shape.kind(np.int64(place), np.int64(level), np.int64(top)))  # type: ignore[arg-type]
            harm = burden[kind] - burden[kind - shape.n_histories]
            grown[place, level] = max(harm, 0.0) * worth[kind]
    return grown


def _along(x: jax.Array, low: int, high: int, axis: int) -> jax.Array:
    """Part of an axis. Slices, not gathers: their transposes are fast, too."""
    return jax.lax.slice_in_dim(x, low, high, axis=axis)


def _raise_to(x: jax.Array, low: int, axis: int) -> jax.Array:
    """Entry max(i, low) in place of entry i along an axis."""
    size = x.shape[axis]
    return jnp.concatenate(
        [_along(x, low, low + 1, axis)] * low + [_along(x, low, size, axis)], axis
    )


def _spread(values: jax.Array, like: jax.Array, axis: int = 0) -> jax.Array:
    """A vector along one axis of another array, for broadcasting."""
    return values.reshape([-1 if i == axis else 1 for i in range(like.ndim)])


N_FIXED = 3
"""Axes before those of what is open: seasons, queue, crew."""


def _next_from(
    shape: StreamShape, tables: Tables, values: jax.Array, place: int
) -> tuple[jax.Array, jax.Array]:
    """What one place adds to the expected value of the next complaint, axes as in `look_ahead`.

    `values` are those of the kinds of this place. First as if everything were new, then what
    returns change about it, which is nothing where nothing is open.
    """
    axis, per_place = N_FIXED + place, N_LEVELS * shape.n_histories
    arrivals = tables.arrivals[place * per_place : (place + 1) * per_place]
    about_new = jnp.einsum("ks,ks...->s...", arrivals, values)
    recurrent = values.reshape(N_LEVELS, shape.n_histories, *values.shape[1:])[1:, -1]
    taken_up = jnp.moveaxis(_along(recurrent, 0, 1, 1 + axis).squeeze(1 + axis), 0, axis)
    taken_up = taken_up - _spread(tables.grown[place, 1:], taken_up, axis)
    change = _spread(arrivals.sum(axis=0), taken_up) * taken_up
    change = change - _along(about_new, 1, N_LEVELS, axis)
    nothing_open = 0.0 * _along(about_new, 0, 1, axis)
    return about_new, tables.comes_back[place] * jnp.concatenate([nothing_open, change], axis)


def look_ahead(shape: StreamShape, tables: Tables, values: jax.Array) -> jax.Array:
    """Expected value once the office has acted, (seasons, queue, crew, open …).

    `values` are (kinds, seasons, queue, crew, open …).
    """
    sizes = [N_LEVELS * shape.n_histories] * shape.n_places
    # One split, not many slices: its transpose, which pushes states forward, is one copy.
    expected = jnp.zeros((), jnp.float32)
    for place, own in enumerate(jax.lax.split(values, sizes, axis=0)):
        expected = expected + sum(_next_from(shape, tables, own, place))
    moved = _spread(tables.moves_on, expected)
    expected = (1.0 - moved) * expected + moved * jnp.roll(expected, -1, axis=0)
    ends = _spread(tables.ends, expected)
    for place in range(shape.n_places):
        expected = (1.0 - ends) * expected + ends * _along(expected, 0, 1, N_FIXED + place)
    freed, axis = tables.crew_freed, N_FIXED - 1
    free, busy = _along(expected, 0, 1, axis), _along(expected, 1, 2, axis)
    expected = jnp.concatenate([free, freed * free + (1.0 - freed) * busy], axis)
    total = tables.visits[0] * expected
    for m in range(1, MAX_VISITS + 1):
        first = [_along(expected, 0, 1, 1)] * m
        served = jnp.concatenate([*first, _along(expected, 0, QUEUE_SLOTS + 1 - m, 1)], axis=1)
        total += tables.visits[m] * served
    return total


@jitted("shape")
def order_values(shape: StreamShape, tables: Tables, values: jax.Array) -> jax.Array:
    """Value of putting off, of the round and of the crew in every state, (3, *values.shape)."""
    ahead = look_ahead(shape, tables, values)
    left = _after_put_off(shape, ahead)
    own = tables.rewards.reshape(tables.rewards.shape + (1,) * (values.ndim - N_FIXED))
    put_off = own[PUT_OFF] + left
    stays = _spread(tables.left_open, values)
    visited = (1.0 - stays) * ahead[None] + stays * left
    last = _along(visited, QUEUE_SLOTS, QUEUE_SLOTS + 1, 2)
    joined = jnp.concatenate([_along(visited, 1, QUEUE_SLOTS + 1, 2), last], axis=2)
    fits = _spread(jnp.arange(QUEUE_SLOTS + 1) < QUEUE_SLOTS, values, axis=2)
    by_round = jnp.where(fits, own[ROUND] + joined, put_off)
    busy = _along(visited, 1, 2, N_FIXED)
    is_free = _spread(jnp.arange(2) == 0, values, axis=3)
    by_crew = jnp.where(is_free, own[CREW] + busy, by_round)
    return jnp.stack([put_off, by_round, by_crew])


def _after_put_off(shape: StreamShape, ahead: jax.Array) -> jax.Array:
    """Value ahead of every kind if it is put off: the gravest at its place is what stays open."""
    found = [
        _raise_to(ahead, min(level + 1, N_LEVELS - 1), N_FIXED + place)
        for place in range(shape.n_places)
        for level in range(N_LEVELS)
    ]
    every = jnp.stack(found)[:, None]
    wide = jnp.broadcast_to(every, (every.shape[0], shape.n_histories, *ahead.shape))
    return wide.reshape(shape.n_kinds, *ahead.shape)


def follow(values: jax.Array, choice: jax.Array) -> jax.Array:
    """Of the values of three resources (3, …), the chosen one's; choice has the other axes."""
    return jnp.where(choice == PUT_OFF, values[0], jnp.where(choice == ROUND, values[1], values[2]))


class Swept(NamedTuple):
    """What a sweep, or many of them, leave."""

    values: jax.Array
    """relative values, (kinds, seasons, queue, crew, open …)"""
    gain: jax.Array
    """() reward per step: by how much the sweep raised all values"""
    span: jax.Array
    """() by how much more it raised some than others; zero once settled"""


@jitted("shape")
def _sweep(
    shape: StreamShape, tables: Tables, values: jax.Array, choice: jax.Array | None
) -> Swept:
    """One sweep."""
    orders = order_values(shape, tables, values)
    new = orders.max(axis=0) if choice is None else follow(orders, choice)
    low, high = (new - values).min(), (new - values).max()
    return Swept(new - new.ravel()[0], (low + high) / 2.0, high - low)


def state_sizes(shape: StreamShape) -> tuple[int, ...]:
    """Sizes of the axes of values: kinds, seasons, queue, crew, then what is open by place."""
    return (shape.n_kinds, N_SEASONS, QUEUE_SLOTS + 1, 2) + (N_LEVELS,) * shape.n_places


def iterate(shape: StreamShape, tables: Tables, choice: jax.Array | None = None) -> Swept:
    """Values and reward per step of the optimum, or of a policy given by what it chooses."""
    swept = Swept(jnp.zeros(state_sizes(shape), jnp.float32), jnp.zeros(()), jnp.zeros(()))
    for _ in range(MAX_SWEEPS):
        swept = _sweep(shape, tables, swept.values, choice)
        if float(swept.span) < TOLERANCE:
            return swept
    raise EstimationError(
        f"Value iteration has not settled after {MAX_SWEEPS} sweeps (span "
        f"{float(swept.span):.2g}); check that every chance in the params is between 0 and 1."
    )


@jitted("shape")
def occupancy(shape: StreamShape, tables: Tables, choice: jax.Array) -> jax.Array:
    """How often each state occurs under a policy in the long run: the sweep's transpose."""
    flow = tables._replace(rewards=0.0 * tables.rewards, grown=0.0 * tables.grown)
    sizes = state_sizes(shape)
    push = jax.linear_transpose(
        lambda values: follow(order_values(shape, flow, values), choice),
        jax.ShapeDtypeStruct(sizes, jnp.float32),
    )
    start = jnp.full(sizes, 1.0 / np.prod(sizes), jnp.float32)
    return jax.lax.fori_loop(0, N_OCCUPANCY, lambda _, share: push(share)[0], start)


def solve_stream(
    layout: StreamLayout,
    params: StreamParams,
    harness: Harness,
    preference: np.ndarray,
    *,
    keep_values: bool = False,
) -> Policy:
    """The best policy on what the harness shows.

    With the whole state in view it is the optimum. Without, actions are valued by the mean over
    the states that look alike, as often as the policy itself meets them, and improved in rounds;
    the best round is returned, which no theorem calls the optimum. `keep_values` keeps the value of
    every action in every cell, two bytes each: 5 MB for the smallest of our offices, 38 MB for the
    largest.
    """
    shape = layout.shape
    tables, choices = tabulate(shape, params, np.asarray(preference, np.float64))
    axes = [_axis_reading(layout, axis) for axis in range(3 + 3 + shape.n_places)]
    seen = [all(name in harness.observation_names for name in one.factors) for one in axes]
    orders = order_values(shape, tables, iterate(shape, tables).values)
    choice = jnp.argmax(orders, axis=0)
    if not all(seen):
        choice, orders = improve_blind(shape, tables, orders, choice, seen)
    chosen = np.asarray(choice)
    policy = _as_policy(layout, harness, choices, chosen, axes, seen)
    if not keep_values:
        return policy
    return policy._replace(
        values=_cell_values(shape, harness, choices, np.asarray(orders), policy.actions, seen)
    )


def _cell_values(
    shape: StreamShape,
    harness: Harness,
    choices: Choices,
    orders: np.ndarray,
    actions: jax.Array,
    seen: list[bool],
) -> np.ndarray:
    """Value of every action in every cell less that of the chosen one, (n_cells, n_actions)."""
    sizes = (shape.n_places, N_LEVELS, shape.n_histories, *orders.shape[2:])
    view = tuple(slice(None) if one else slice(1) for one in seen)
    chosen = np.asarray(actions, np.int64)
    values = np.full((len(chosen), harness.n_actions), -np.inf, np.float32)
    is_free = (np.arange(2) == 0).reshape((2,) + (1,) * (orders.ndim - 5))
    for action, resource in enumerate(choices.resource[: harness.n_actions]):
        behind = choices.behind[action].reshape((-1,) + (1,) * (orders.ndim - 2))
        # A crew that is busy leaves the case to the round, whatever it would have done.
        less = np.where(is_free | np.isinf(behind), behind, 0.0)
        worth = orders[resource] + less.astype(np.float32)
        values[:, action] = worth.reshape(sizes)[view].ravel()
    cells = np.arange(len(chosen))
    values -= values[cells, chosen][:, None]
    values = np.minimum(values, 0.0)
    values[cells, chosen] = 0.0
    return values.astype(np.float16)


def _axis_reading(layout: StreamLayout, axis: int) -> Reading:
    """How the level along one axis (place, level, history, season, queue, crew, open …) is read."""
    further = (
        Reading({layout.season: float(N_SEASONS - 1)}),
        Reading({layout.backlog: float(QUEUE_SLOTS)}),
        Reading({layout.crew: -1.0}, offset=1.0),
        *(Reading({name: float(N_LEVELS - 1)}) for name in layout.opens),
    )
    return (*layout.readings, *further)[axis]


def improve_blind(
    shape: StreamShape, tables: Tables, orders: jax.Array, choice: jax.Array, seen: list[bool]
) -> tuple[jax.Array, jax.Array]:
    """Improve a policy that sees only some axes, starting from the optimum's values.

    Returns the best round's choice, and the mean values (3, …) of what looks alike it goes by.
    """
    parts = (shape.n_places, N_LEVELS, shape.n_histories)
    apart = (*parts, *state_sizes(shape)[1:])
    hidden = tuple(axis for axis, is_seen in enumerate(seen) if not is_seen)
    found: list[tuple[float, jax.Array, jax.Array]] = []
    for _ in range(N_IMPROVEMENTS):
        weight = occupancy(shape, tables, choice).reshape(apart) + 1e-12
        total = weight.sum(axis=hidden, keepdims=True)
        mean = [(weight * x.reshape(apart)).sum(axis=hidden, keepdims=True) for x in orders]
        means = jnp.stack(mean) / total
        best = jnp.broadcast_to(jnp.argmax(means, axis=0), apart)
        choice = best.reshape(state_sizes(shape))
        swept = iterate(shape, tables, choice)
        found.append((float(swept.gain), choice, means))
        orders = order_values(shape, tables, swept.values)
    _, choice, means = max(found, key=lambda one: one[0])
    return choice, jnp.broadcast_to(means, (3, *apart)).reshape((3, *state_sizes(shape)))


def _as_policy(
    layout: StreamLayout,
    harness: Harness,
    choices: Choices,
    choice: np.ndarray,
    axes: list[Reading],
    seen: list[bool],
) -> TablePolicy:
    shape, names = layout.shape, harness.observation_names
    kinds = np.arange(shape.n_kinds).reshape((-1,) + (1,) * (choice.ndim - 1))
    actions = choices.action[choice, kinds]
    sizes = (shape.n_places, N_LEVELS, shape.n_histories, *choice.shape[1:])
    # Along an axis that is not seen every entry is the same: the first stands for all.
    view = actions.reshape(sizes)[tuple(slice(None) if one else slice(1) for one in seen)]
    factors, strides, offset = np.ones(harness.n_features), np.zeros(harness.n_features), 0.0
    stride = 1
    for axis in reversed(range(len(sizes))):
        if seen[axis]:
            for name, factor in axes[axis].factors.items():
                column = names.index(name)
                factors[column] = abs(factor)
                strides[column] += stride * np.sign(factor)
            offset += stride * axes[axis].offset
            stride *= sizes[axis]
    return TablePolicy(
        jnp.asarray(factors, jnp.float32),
        jnp.asarray(strides, jnp.int32),
        jnp.int32(offset),
        jnp.asarray(view.ravel(), jnp.int8),
    )
