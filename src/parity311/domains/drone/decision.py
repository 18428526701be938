"""The boroughs and the drone, and what a deployment leads to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, namespace_of, settle
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.step import (
    count_step,
    draw_step,
    pass_step,
    scale_reward,
    weigh_cases,
)
from parity311.mdp.contract import Transition
from parity311.records.schema import BOROUGHS

DEPOTS = tuple(name.lower().replace(" ", "_") for name in BOROUGHS)
N_DEPOTS = len(DEPOTS)

SHAPE = engine.BacklogShape(steps_per_day=4, bin_steps=4, n_ages=8, max_steps=112, most_arrivals=6)
"""Four deployments a day for four weeks (assumed); ages in days, the last open from a week on; the
busiest borough expects one case of one code between two deployments."""

SEVERITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What one day unresolved weighs by severity code A to D: a norm, stated, not estimated."""
UNITS = (60.0, 1.0)
"""Severity-weighted days that a typical correct escalation saves (two visits of weight 2.5, each
two weeks before the end of the episode), and deployments it takes."""

CHANGEOVER_LOST = 0.25
"""Share of a deployment that is lost by moving the drone to another depot (assumed)."""
SWEEP = 20.0
"""Addresses a drone passes over on the way, for each address it is sent to (assumed: a block)."""
FRESH_DAYS = 28.0
"""Days after which a roof that was flown over may have changed (assumed: a month)."""
TRAIL_FLIGHTS = 12.0
"""Deployments over which trailing statistics forget: three days."""
PRICE_GAIN = 1.0
"""Log worth that one unit of coverage price adds to a deployment."""

ACTION_NAMES = (*DEPOTS, "COVERAGE_PRICED", "NO_FLIGHT")
_PRICED, _NONE = N_DEPOTS, N_DEPOTS + 1


class Params(NamedTuple):
    """The boroughs' backlog and the drone."""

    backlog: engine.BacklogParams
    addresses_per_flight: jax.Array
    """() complaints a deployment can look at where the drone stays"""
    typical: jax.Array
    """() cases waiting at a typical start: the unit of what is observed"""


class State(NamedTuple):
    """The backlog, the drone, and what the last deployments were like."""

    backlog: engine.Backlog
    depot: jax.Array
    """() int32 where the drone is"""
    fresh: jax.Array
    """(5,) share of a borough's addresses not flown over lately: its rate of new addresses"""
    trail: jax.Array
    """(2, 5) flights and finds by borough, forgetting with three days"""


def initial_state(key: jax.Array, params: Params) -> State:
    """A recorded backlog, the drone at any depot, part of each borough flown over."""
    chance = jax.random.uniform(key, (2 + N_DEPOTS,))
    backlog, _ = engine.start(params.backlog, chance[0])
    depot = (chance[1] * N_DEPOTS).astype(jnp.int32)
    trail = jnp.full((2, N_DEPOTS), 1.0 / N_DEPOTS, jnp.float32)
    return settle(State(backlog, depot, 0.5 + 0.5 * chance[2:], trail))


def flight_size(params: Params, state: State) -> jax.Array:
    """Addresses a deployment reaches from each depot, (5,): fewer after moving."""
    xp = namespace_of(state.depot, params.addresses_per_flight)
    stays = xp.arange(N_DEPOTS) == state.depot
    return params.addresses_per_flight * xp.where(stays, 1.0, 1.0 - CHANGEOVER_LOST)


def discovery_rate(params: Params, state: State) -> jax.Array:
    """Hazards nobody reported that a deployment finds per address it is sent to, (5,)."""
    xp = namespace_of(state.backlog.hidden, params.backlog.n_addresses, state.fresh)
    density = state.backlog.hidden.sum(axis=1) / xp.maximum(params.backlog.n_addresses, 1.0)
    return xp.minimum(SWEEP * density * state.fresh, 1.0)


def forecast_savings(params: Params, state: State) -> jax.Array:
    """Severity-weighted days that a deployment from each depot would save, (5,); NumPy or JAX."""
    xp = namespace_of(state.backlog.waiting, params.typical)
    weights = xp.asarray(SEVERITY_WEIGHTS, np.float32)
    ahead, _ = engine.steps_ahead(params.backlog, state.backlog.n_steps, SHAPE)
    life = engine.life_ahead(params.backlog, state.backlog.n_steps, SHAPE)
    worth = weights[:, None] * ahead / SHAPE.steps_per_day
    size = flight_size(params, state)
    cells = state.backlog.waiting
    taken = xp.clip(
        size[:, None] - cells @ engine.comes_first(xp.asarray(SHAPE.code_then_age)), 0.0, cells
    )
    hidden = state.backlog.hidden
    weight = hidden @ weights / xp.maximum(hidden.sum(axis=1), 1e-6)
    return taken @ worth.reshape(-1) + size * discovery_rate(params, state) * weight * life


def choose_depot(params: Params, state: State, action: Any, prices: Any) -> Any:
    """Depot that an action flies from, () int32; where nobody flies, the drone stays.

    Priced dispatch takes the depot whose saving times its strata's coverage price is largest.
    """
    xp = namespace_of(state.backlog.waiting, action, prices)
    price = xp.exp(PRICE_GAIN * engine.place_prices(params.backlog, prices))
    priced = xp.argmax(forecast_savings(params, state) * price)
    depot = xp.where(action == _PRICED, priced, xp.minimum(action, N_DEPOTS - 1))
    return xp.where(action == _NONE, state.depot, depot).astype(np.int32)


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Fly from one depot, let six hours pass, take in what is reported."""
    own, before = params.backlog, state.backlog
    draws = draw_step(key, N_DEPOTS, 1)
    depot = choose_depot(params, state, action, prices)
    flies = (action != _NONE).astype(jnp.float32)
    here = (jnp.arange(N_DEPOTS) == depot).astype(jnp.float32) * flies
    size = engine.rounded(here @ flight_size(params, state), draws.own[0])
    order = jnp.asarray(SHAPE.code_then_age)
    visited = here[:, None] * engine.take_in_order(here @ before.waiting, order, size)
    stepped = pass_step(own, before, visited, draws, SHAPE)
    share = here * size * discovery_rate(params, state)
    share = share / jnp.maximum(before.hidden.sum(axis=1), 1e-6)
    found = jnp.minimum(before.hidden * share[:, None], stepped.backlog.hidden)
    discovered = found.sum(axis=1) @ own.unreported_mix
    # A find that nobody reported is a visit of its own: the drone turns and looks.
    stepped = stepped._replace(
        backlog=stepped.backlog._replace(hidden=stepped.backlog.hidden - found),
        correct=stepped.correct + discovered,
        visits=stepped.visits + discovered,
    )
    flown = jnp.minimum(here * size * SWEEP / jnp.maximum(own.n_addresses, 1.0), 1.0)
    fresh = state.fresh * (1.0 - flown)
    fresh = fresh + (1.0 - fresh) / (FRESH_DAYS * SHAPE.steps_per_day)
    finds = here * (stepped.service.found.sum() + found.sum()) / jnp.maximum(size, 1.0)
    trail = state.trail + (jnp.stack([here, finds]) - state.trail) / TRAIL_FLIGHTS
    ahead, _ = engine.steps_ahead(own, before.n_steps, SHAPE)
    saved = weigh_cases(stepped.service.closed, SEVERITY_WEIGHTS, ahead / SHAPE.steps_per_day)
    life = engine.life_ahead(own, before.n_steps, SHAPE)
    saved += weigh_cases(found, SEVERITY_WEIGHTS, life[None])
    published = scale_reward(-burden_of(stepped.backlog), flies, UNITS)
    return Transition(
        state=State(stepped.backlog, depot, fresh, trail),
        # Retention is zero: a loose facade is over the street, not in a dwelling.
        reward=scale_reward(saved, flies, UNITS),
        terminated=jnp.zeros((), bool),
        credit=stepped.correct,
        tally=count_step(stepped, published, flies),
    )


def burden_of(backlog: engine.Backlog) -> jax.Array:
    """Severity-weighted days of one step: cases in line, and hazards nobody reported."""
    step = jnp.full(1, 1.0 / SHAPE.steps_per_day)
    in_line = weigh_cases(backlog.waiting, SEVERITY_WEIGHTS, jnp.tile(step, SHAPE.n_ages))
    return in_line + weigh_cases(backlog.hidden, SEVERITY_WEIGHTS, step)


def _by_depot(name: str) -> tuple[str, ...]:
    return tuple(f"{name}_{depot}" for depot in DEPOTS)


PUBLISHED_NAMES = (
    *_by_depot("at"),
    *_by_depot("new_address_rate"),
    *_by_depot("trailing_flights"),
    *_by_depot("trailing_finds"),
)
OBSERVATION_NAMES = (
    *PUBLISHED_NAMES,
    *_by_depot("backlog"),
    *_by_depot("open_a"),
    *_by_depot("saving"),
    "time_left",
)


def observe(params: Params, state: State) -> jax.Array:
    """Where the drone is, new addresses and trails; then backlog and forecast by borough.

    NumPy or JAX.
    """
    xp = namespace_of(state.backlog.waiting, params.typical)
    cells = state.backlog.waiting
    scale = N_DEPOTS / params.typical
    saving = forecast_savings(params, state)
    parts = [
        (xp.arange(N_DEPOTS) == state.depot).astype(np.float32),
        state.fresh,
        state.trail[0],
        state.trail[1],
        cells.sum(axis=1) * scale,
        cells[:, : SHAPE.n_ages].sum(axis=1) * scale,
        saving / xp.maximum(saving.max(), 1e-6),
        1.0 - xp.asarray(state.backlog.n_steps)[None] / SHAPE.max_steps,
    ]
    return xp.concatenate(parts).astype(np.float32)
