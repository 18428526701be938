"""How a site comes up, and what an hour leads to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp
from parity311.domains.scaffold.sites import HOURS
from parity311.domains.scaffold.state import (
    BATCH,
    DELAY,
    ESCALATE,
    HARMLESS,
    HAZARD,
    IGNORE,
    INSPECT_NOW,
    MAX_STEPS,
    MOST_TOKENS,
    NO_ACCESS,
    NO_VIOLATION,
    NONE,
    NOT_VISITED,
    OUTCOME_NAMES,
    VIOLATION,
    Params,
    State,
    is_office_hour,
)
from parity311.engines.backlog import process as engine
from parity311.engines.trips import SHARED_TIME
from parity311.mdp.contract import N_STRATA, Tally, Transition
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES

BATCH_HOUR = 8
"""Joint trips leave at 8 h, on weekdays."""
ESCALATION_COST = 3.0
"""Time an escalation takes: two officers, off schedule (assumed)."""
ESCALATED_ACCESS = 0.98
"""Chance that an escalation gets in: a stop-work order needs no appointment (assumed)."""

SEVERITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What one day of a hazard weighs by severity code A to D: a norm, stated, not estimated."""
SPEED_UNIT = 9.0
"""Severity-weighted days a typical correct escalation avoids: weight 1.8 for five days."""
COST_UNIT = 3.0
"""Visits that a typical correct escalation takes."""
LEVELS_HOURS = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES], np.float32) * HOURS


def initial_state(key: jax.Array, params: Params) -> State:
    """A site with its first complaint, which came in within the hour."""
    draws = jax.random.uniform(key, (5,))
    cell = jnp.minimum((params.cases < draws[0]).sum(), N_STRATA * engine.N_CODES - 1)
    stratum, code = cell // engine.N_CODES, cell % engine.N_CODES
    is_hazard = draws[1] < params.chance[stratum, code]
    zero, one = jnp.float32(0.0), jnp.float32(1.0)
    return State(
        problem=jnp.where(is_hazard, HAZARD, HARMLESS).astype(jnp.int32),
        code=code.astype(jnp.int32),
        stratum=stratum.astype(jnp.int32),
        n_created=one,
        n_open=one,
        recurrent=one,
        zip_freq=1.0 + 24.0 * params.zip_rate[stratum] * -jnp.log(jnp.maximum(draws[2], 1e-6)),
        since_resolution=-7 * 24 * jnp.log(jnp.maximum(draws[3], 1e-6)),
        since_report=zero,
        is_counted=jnp.zeros((), bool),
        order=jnp.int32(0),
        tokens=one,
        hour=(draws[4] * 168).astype(jnp.int32),
        n_steps=jnp.int32(0),
        is_new=jnp.ones((), bool),
    )


class Visit(NamedTuple):
    """What one hour's visit did, () each."""

    happens: jax.Array
    cost: jax.Array
    found: jax.Array
    """a hazard, for the first time or not"""
    is_correct: jax.Array
    """for the first time, within its service level"""
    closes: jax.Array
    outcome: jax.Array


def visit_site(params: Params, state: State, action: jax.Array, chance: jax.Array) -> Visit:
    """Send whoever was ordered and has time; an escalation goes at once."""
    order = jnp.where(action == INSPECT_NOW, 1, jnp.where(action == BATCH, 2, state.order))
    escalates = (action == ESCALATE) & (state.n_open > 0)
    works = is_office_hour(state.hour) & (state.n_open > 0)
    goes = works & (order == 1) & (state.tokens >= 1.0)
    joins = works & (order == 2) & (state.hour % 24 == BATCH_HOUR) & (state.tokens >= SHARED_TIME)
    happens = escalates | goes | joins
    cost = jnp.where(escalates, ESCALATION_COST, jnp.where(goes, 1.0, SHARED_TIME))
    access = jnp.where(escalates, ESCALATED_ACCESS, params.access[state.stratum])
    gets_in = chance < access
    found = happens & gets_in & (state.problem == HAZARD)
    in_time = state.since_report <= jnp.asarray(LEVELS_HOURS)[state.code]
    outcome = jnp.where(found, VIOLATION, jnp.where(gets_in, NO_VIOLATION, NO_ACCESS))
    return Visit(
        happens=happens,
        cost=jnp.where(happens, cost, 0.0),
        found=found,
        is_correct=found & in_time & ~state.is_counted,
        closes=happens & gets_in,
        outcome=outcome,
    )


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Do one thing about the site, let an hour pass, take in what is reported."""
    del prices
    draws = jax.random.uniform(key, (8,))
    stratum = state.stratum
    visit = visit_site(params, state, action, draws[0])
    ignores = (action == IGNORE) & ~visit.happens
    closes = visit.closes | ignores
    n_closed = jnp.where(closes, state.n_open, 0.0)
    problem = jnp.where(visit.found, NONE, state.problem)
    # What is left to itself ends some day; a site that had one incident has another some day.
    ends = (problem != NONE) & (draws[1] < 1.0 / params.lifetime_hours)
    begins = (problem == NONE) & (draws[1] < params.incident_rate)
    worsens = (problem == HAZARD) & (draws[2] < params.worsening)
    code = jnp.where(worsens, jnp.maximum(state.code - 1, 0), state.code)
    likely = params.chance[stratum, state.code]
    fresh = jnp.where(draws[3] < likely, HAZARD, HARMLESS)
    problem = jnp.where(ends, NONE, jnp.where(begins, fresh, problem)).astype(jnp.int32)
    created = ((problem != NONE) & (draws[4] < params.report_rate[stratum])).astype(jnp.float32)
    n_open = state.n_open - n_closed + created
    near = engine.poisson(draws[5], params.zip_rate[stratum], 3)
    # A delay, an answer or a joint trip ends the order; a visit without access keeps it.
    order = jnp.where(action == INSPECT_NOW, 1, jnp.where(action == BATCH, 2, state.order))
    order = jnp.where(closes | (action == DELAY), 0, order).astype(jnp.int32)
    used = jnp.where(action == ESCALATE, 0.0, visit.cost)
    refill = params.visits_per_hour * jnp.where(is_office_hour(state.hour), 168.0 / 45.0, 0.0)
    moved = State(
        problem=problem,
        code=code.astype(jnp.int32),
        stratum=stratum,
        n_created=created,
        n_open=n_open,
        recurrent=state.recurrent * np.float32(np.exp(-1 / 168)) + created,
        zip_freq=state.zip_freq * np.float32(np.exp(-1 / 24)) + near + created,
        since_resolution=jnp.where(closes, 0.0, state.since_resolution + 1.0),
        since_report=jnp.where(begins | (n_open == 0), 0.0, state.since_report + 1.0),
        is_counted=jnp.where(begins, False, state.is_counted | visit.found),
        order=order,
        tokens=jnp.minimum(state.tokens - used + refill, MOST_TOKENS),
        hour=(state.hour + 1) % 168,
        n_steps=state.n_steps + 1,
        is_new=jnp.zeros((), bool),
    )
    return Transition(
        state=moved,
        reward=_reward_of(params, state, visit),
        terminated=jnp.zeros((), bool),
        credit=_here(stratum, visit.is_correct),
        tally=_count(params, state, moved, visit, n_closed, begins, created),
    )


def _here(stratum: jax.Array, value: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(N_STRATA) == stratum, value, 0).astype(jnp.float32)


def _reward_of(params: Params, state: State, visit: Visit) -> jax.Array:
    """What the visit saved: severity-weighted days to the end of the week, less its time."""
    left = jnp.maximum(MAX_STEPS - state.n_steps, 0).astype(jnp.float32)
    life = params.lifetime_hours
    hours = life * (1.0 - jnp.exp(-left / life))
    weight = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)[state.code]
    return _scale(jnp.where(visit.found, weight * hours / HOURS, 0.0), visit.cost)


def _count(
    params: Params,
    before: State,
    after: State,
    visit: Visit,
    n_closed: jax.Array,
    begins: jax.Array,
    created: jax.Array,
) -> Tally:
    """The hour's counts; the site's first complaint counts with its first hour."""
    stratum = before.stratum
    burden = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)[after.code] / HOURS
    burden = jnp.where(after.problem == HAZARD, burden, 0.0)
    was_there = before.is_new & (before.problem == HAZARD)
    hazards = was_there.astype(jnp.float32) + (begins & (after.problem == HAZARD))
    incidents = before.is_new.astype(jnp.float32) + begins
    correct = _here(stratum, visit.is_correct)
    outcome = jnp.where(visit.closes, visit.outcome, NOT_VISITED)
    return Tally(
        published_reward=_scale(-burden, visit.cost),
        correct=correct,
        counted=correct,
        actionable=_here(stratum, hazards * (1.0 + params.unreported[stratum])),
        incidents=_here(stratum, incidents * (1.0 + params.hidden_incidents[stratum])),
        reported_actionable=_here(stratum, hazards),
        complaints=_here(stratum, created + before.is_new),
        visits=_here(stratum, visit.happens),
        hours=visit.cost,
        outcomes=jnp.where(jnp.arange(len(OUTCOME_NAMES)) == outcome, n_closed, 0.0),
    )


def _scale(days: jax.Array, hours: jax.Array) -> jax.Array:
    """Reward vector; retention is zero: a scaffold stands on the street, not in a dwelling."""
    none = jnp.zeros((), jnp.float32)
    return jnp.stack([days / SPEED_UNIT, -hours / COST_UNIT, none, none])
