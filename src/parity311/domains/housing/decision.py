"""How an episode starts, and what an hour of serving a category leads to."""

from __future__ import annotations

import numpy as np

from parity311.arrays import jax, jnp, namespace_of, settle
from parity311.domains.housing.observation import look_at
from parity311.domains.housing.state import (
    ACTION_NUMBER,
    CAPACITY_WEEK,
    COST_UNIT,
    N_AGES,
    N_CATEGORIES,
    N_PLACES,
    RETENTION_UNIT,
    SEVERITY_WEIGHTS,
    SHAPE,
    SPEED_UNIT,
    Params,
    State,
)
from parity311.domains.housing.trail import average_trail, follow
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.step import Stepped, count_step, draw_step, pass_step, weigh_cases
from parity311.mdp.contract import N_STRATA, Transition

PRICE_GAIN = 1.0
"""Severity codes that one unit of coverage price is worth in an order of work."""
CANVASS_SHARE = 0.25
"""Share of the hour's visits that a canvass takes."""


def initial_state(key: jax.Array, params: Params) -> State:
    """A recorded backlog after average hours."""
    backlog, row = engine.start(params.backlog, jax.random.uniform(key))
    return settle(State(backlog, average_trail(params.backlog), params.start_seen[row]))


def carry_on(params: Params, state: State) -> State:
    """The next episode where the line and the trail stay as they are."""
    backlog = engine.carry_on(state.backlog)
    return settle(State(backlog, state.trail, look_at(params, backlog, state.trail)))


def choose_visits(
    params: Params,
    backlog: engine.Backlog,
    action: jax.Array,
    prices: jax.Array,
    n_visits: jax.Array,
) -> jax.Array:
    """Cases visited this hour, (72, 64): by code and age in the chosen category, or in all.

    Coverage prices in force shift codes, whichever category is served. Cases that are alike in all
    the order looks at are served in proportion to their number. NumPy or JAX.
    """
    xp = namespace_of(backlog.waiting, action, prices, n_visits)
    is_served = (np.arange(N_CATEGORIES) == action) | (action >= N_CATEGORIES)
    cells = backlog.waiting.reshape(N_CATEGORIES, N_STRATA, -1)
    cells = xp.where(is_served[:, None, None], cells, np.float32(0.0))
    by_stratum = settle(cells.sum(axis=0))
    everybody = by_stratum.sum(axis=0)
    today = engine.take_in_order(everybody, xp.asarray(SHAPE.code_then_age), n_visits)
    share = xp.broadcast_to(today / xp.maximum(everybody, 1e-6), by_stratum.shape)
    groups = by_stratum.reshape(N_STRATA * engine.N_CODES, N_AGES)
    score = 3.0 - xp.arange(engine.N_CODES) + PRICE_GAIN * prices[:, None]
    priced = engine.take_by_group(groups, score.reshape(-1), n_visits).reshape(by_stratum.shape)
    share = xp.where((prices != 0).any(), priced / xp.maximum(by_stratum, 1e-6), share)
    return (cells * xp.minimum(share, 1.0)).reshape(N_PLACES, -1)


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Serve a category for an hour, let it pass, take in what is reported."""
    before = state.backlog
    draws = draw_step(key, N_PLACES, 1)
    capacity = params.visits_per_hour * jnp.asarray(CAPACITY_WEEK)[before.slot]
    capacity = engine.rounded(capacity * (action != ACTION_NUMBER["NO_DISPATCH"]), draws.own[0])
    looked = capacity * CANVASS_SHARE * (action == ACTION_NUMBER["CANVASS"])
    visited = choose_visits(params, before, action, prices, capacity - looked)
    here = jnp.arange(N_PLACES) % N_STRATA == jnp.argmax(prices[: N_STRATA - 1])
    stepped = pass_step(params.backlog, before, visited, draws, SHAPE, (here, looked))
    hours = stepped.visits.sum()
    published = _scale(-burden_of(params, stepped.backlog), hours)
    trail = follow(state.trail, stepped)
    return Transition(
        state=State(stepped.backlog, trail, look_at(params, stepped.backlog, trail)),
        reward=_scale(saved_by(params, before, stepped), hours),
        terminated=jnp.zeros((), bool),
        credit=stepped.correct,
        tally=count_step(stepped, published, hours),
    )


def burden_of(params: Params, backlog: engine.Backlog) -> jax.Array:
    """Severity-weighted days of one hour: cases in line, and dwellings with a violation, (2,)."""
    weights = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)
    cells = backlog.waiting.reshape(N_PLACES, engine.N_CODES, N_AGES)
    lasting = cells @ params.backlog.there * params.backlog.chance + backlog.hidden
    return jnp.stack([cells.sum(axis=(0, 2)) @ weights, lasting.sum(axis=0) @ weights]) / 24.0


def saved_by(params: Params, before: engine.Backlog, stepped: Stepped) -> jax.Array:
    """Severity-weighted days that these visits save to the end of the episode, (2,)."""
    own, service = params.backlog, stepped.service
    ahead, _ = engine.steps_ahead(own, before.n_steps, SHAPE)
    lasting = engine.lasting_steps(own, before.n_steps, SHAPE) / 24.0
    life = engine.life_ahead(own, before.n_steps, SHAPE)
    # A case closed without access leaves its incident to itself; it then ends at its own rate.
    missed = (1.0 - own.access) * (1.0 - own.returns) / jnp.maximum(own.access, 1e-6)
    kept = weigh_cases(service.found, SEVERITY_WEIGHTS, lasting)
    kept += weigh_cases(service.found * missed[:, None], SEVERITY_WEIGHTS, lasting - life)
    kept += weigh_cases(stepped.discovered, SEVERITY_WEIGHTS, life[None])
    return jnp.stack([weigh_cases(service.closed, SEVERITY_WEIGHTS, ahead / 24.0), kept])


def _scale(days: jax.Array, hours: jax.Array) -> jax.Array:
    """Reward vector: speed, -cost, equity, retention (one dwelling behind each incident)."""
    none = jnp.zeros((), jnp.float32)
    return jnp.stack([days[0] / SPEED_UNIT, -hours / COST_UNIT, none, days[1] / RETENTION_UNIT])
