"""One step of a backlog: visits made, cases closed, time passed, reports taken in, all counted."""

from __future__ import annotations

from typing import NamedTuple

from parity311.arrays import jax, jnp, settle
from parity311.engines.backlog import process as engine
from parity311.mdp.contract import N_STRATA, Tally

MOST_REPEATS = 4
"""Further reports that one place can receive in a step."""


class BacklogDraws(NamedTuple):
    """Every random number of a step, uniform, drawn in one block."""

    arrivals: jax.Array
    """(P, 4)"""
    repeats: jax.Array
    """(P,)"""
    access: jax.Array
    """()"""
    own: jax.Array
    """(n,) for the domain itself"""


def draw_step(key: jax.Array, n_places: int, n_own: int) -> BacklogDraws:
    """Draw a step's random numbers."""
    n_cells = n_places * engine.N_CODES
    block = settle(jax.random.uniform(key, (n_cells + n_places + 1 + n_own,)))
    return BacklogDraws(
        arrivals=block[:n_cells].reshape(n_places, engine.N_CODES),
        repeats=block[n_cells : n_cells + n_places],
        access=block[n_cells + n_places],
        own=block[n_cells + n_places + 1 :],
    )


class Stepped(NamedTuple):
    """What a step led to."""

    backlog: engine.Backlog
    service: engine.BacklogService
    discovered: jax.Array
    """(P, 4) actionable incidents found where nobody called"""
    correct: jax.Array
    """(6,) all correct escalations"""
    visits: jax.Array
    """(6,)"""
    n_new: jax.Array
    n_repeats: jax.Array
    began: engine.Beginning
    outcomes: jax.Array
    """(5,)"""


def pass_step(
    params: engine.BacklogParams,
    before: engine.Backlog,
    visited: jax.Array,
    draws: BacklogDraws,
    shape: engine.BacklogShape,
    canvassed: tuple[jax.Array, jax.Array] | None = None,
) -> Stepped:
    """Make the visits (P, 4 A), let the step pass, take in what is reported.

    `canvassed` are the places looked at where nobody called, (P,) bool, and the visits there.
    """
    # The barriers keep the compiler from computing a stage again for everything that reads it.
    backlog, service = engine.serve(params, before, settle(visited), draws.access, shape)
    discovered, looked = jnp.zeros_like(backlog.hidden), jnp.zeros(N_STRATA)
    if canvassed is not None:
        backlog, discovered, looked = engine.canvass(params, backlog, *canvassed)
    rates = engine.arrival_rates(params, backlog, shape)
    arrived = engine.poisson(draws.arrivals, rates, shape.most_arrivals)
    per_step = params.repeats_per_day / shape.steps_per_day
    repeats = engine.poisson(draws.repeats, backlog.waiting.sum(axis=1) * per_step, MOST_REPEATS)
    # The low digits of a number say nothing about its size: they serve as another one.
    again = draws.arrivals * 4096.0 % 1.0
    backlog, put_away = engine.grow_older(params, backlog, again, shape)
    backlog = settle(engine.take_in(backlog, arrived))
    closed_too = jnp.stack([put_away.sum(), repeats.sum()])
    return Stepped(
        backlog=backlog,
        service=service,
        discovered=discovered,
        correct=service.correct + discovered.sum(axis=1) @ params.unreported_mix,
        visits=service.visited.sum(axis=1) @ params.mix + looked,
        n_new=arrived.sum(),
        n_repeats=repeats.sum(),
        began=engine.count_beginning(params, before, arrived, repeats, shape),
        outcomes=service.outcomes.at[engine.NOT_VISITED :].add(closed_too),
    )


def count_step(stepped: Stepped, published_reward: jax.Array, hours: jax.Array) -> Tally:
    """The tally of a step."""
    return Tally(
        published_reward=published_reward,
        correct=stepped.correct,
        counted=stepped.correct,
        actionable=stepped.began.actionable,
        incidents=stepped.began.incidents,
        reported_actionable=stepped.began.reported_actionable,
        complaints=stepped.began.complaints,
        visits=stepped.visits,
        hours=hours,
        outcomes=stepped.outcomes,
    )


def weigh_cases(cases: jax.Array, weights: tuple[float, ...], days: jax.Array) -> jax.Array:
    """Severity-weighted days of cases (P, 4 A) that take so many days by age (A,)."""
    by_code = cases.sum(axis=0).reshape(engine.N_CODES, -1) @ days
    return by_code @ jnp.asarray(weights, jnp.float32)


def scale_reward(days: jax.Array, hours: jax.Array, units: tuple[float, float]) -> jax.Array:
    """Reward vector of a domain without retention: speed and cost in their units."""
    none = jnp.zeros((), jnp.float32)
    return jnp.stack([days / units[0], -hours / units[1], none, none])
