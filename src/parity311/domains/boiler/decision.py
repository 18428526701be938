"""A table of filings, and what inspecting or deferring one leads to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, namespace_of
from parity311.engines import heuristics
from parity311.mdp.contract import N_STRATA, Tally, Transition

CATCH_DOLLARS = 1069.0
WASTE_DOLLARS = 71.0
MISS_DOLLARS = 1845.0
"""Value of a defect caught, cost of a visit for nothing and of a defect missed: with miss = 26 ×
waste the two columns of the paper's table solve to these (the paper gives no dollar values)."""

RISK_LEVELS = 8
RISK_STEP = 0.02
"""Width of a level of neighborhood_risk; the last is open. Fine enough to lose nothing that a
trailing rate of some hundred filings knows, coarse enough to make the ceiling exact."""
COUNT_LEVELS = 4
"""Levels of boiler_count_norm: 1, 2, 3, and 4 or more boilers in the building."""

OBSERVATION_NAMES = (
    "is_recurrent",
    "is_high_pressure",
    "neighborhood_risk",
    "is_internal",
    "has_lff_45",
    "has_lff_180",
    "boiler_count_norm",
)
LEAK_FREE_NAMES = tuple(name for name in OBSERVATION_NAMES if not name.startswith("has_lff"))
"""The late fees are known only after the inspection they are meant to predict."""

MAX_STEPS = 1000
"""Filings in an episode; steps are independent, so the number only sets the noise of a score."""


class Params(NamedTuple):
    """A table of filings to draw from, with what each is worth."""

    features: jax.Array
    """(n, 7) the published features, discretised"""
    stratum: jax.Array
    """(n,) int32"""
    is_defective: jax.Array
    """(n,) float32: the label on record, or the true chance of a defect"""
    chance: jax.Array
    """(n,) float32: chance of a defect given the features; what coverage is counted in, because
    prices that follow some hundred labels a stratum chase their noise"""
    units: jax.Array
    """(n,) dwelling units behind the boiler, over their mean"""
    n_rows: jax.Array
    """() int32 rows in use; the rest pads the table to a power of two"""
    filed_share: jax.Array
    """(6,) share of defective boiler-years that were filed at all"""
    filings_per_day: jax.Array
    catch_dollars: jax.Array
    waste_dollars: jax.Array
    miss_dollars: jax.Array
    visit_price_dollars: jax.Array
    """Shadow price of a visit where visits are scarce: part of what trains, not of the score"""
    capacity_share: jax.Array
    """() visits per filing that the inspectors can make"""


class State(NamedTuple):
    """Row of the filing in hand."""

    row: jax.Array


def initial_state(key: jax.Array, params: Params) -> State:
    """A filing drawn from the table."""
    return State(jax.random.randint(key, (), 0, params.n_rows))


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Inspect (1) or defer (0) the filing in hand, and draw the next."""
    del prices
    is_visit = (action == 1).astype(jnp.float32)
    is_defective = params.is_defective[state.row]
    stratum = params.stratum[state.row]
    here = (jnp.arange(N_STRATA) == stratum).astype(jnp.float32)
    caught = is_visit * is_defective
    expected = here * is_visit * params.chance[state.row]
    missed = (1.0 - is_visit) * is_defective
    wasted = is_visit * (1.0 - is_defective)
    unit = params.catch_dollars + params.miss_dollars
    speed = (params.catch_dollars * caught - params.miss_dollars * missed) / unit
    waste = params.waste_dollars * wasted / unit
    shadow = params.visit_price_dollars * is_visit / unit
    retention = caught * params.units[state.row]
    none = jnp.zeros(())
    need = here * is_defective / jnp.maximum(params.filed_share, 1e-6)
    tally = Tally(
        published_reward=jnp.stack([speed, -waste, none, retention]),
        correct=here * caught,
        counted=expected,
        actionable=need,
        incidents=need,
        reported_actionable=here * is_defective,
        complaints=here,
        visits=here * is_visit,
        hours=is_visit,
        outcomes=jnp.stack([caught, wasted, missed, 1.0 - caught - wasted - missed]),
    )
    return Transition(
        state=State(jax.random.randint(key, (), 0, params.n_rows)),
        reward=jnp.stack([speed, -waste - shadow, none, retention]),
        terminated=jnp.zeros((), bool),
        credit=expected,
        tally=tally,
    )


def show(params: Params, features: jax.Array) -> jax.Array:
    """The seven published features (..., 7) of a filing: all there is to see."""
    del params
    return features


def observe(params: Params, state: State) -> jax.Array:
    """What is shown of the filing in hand."""
    return show(params, params.features[state.row])


def current_stratum(params: Params, state: State) -> jax.Array:
    """Stratum of the filing in hand."""
    return params.stratum[state.row]


def need_per_step(params: Params) -> jax.Array:
    """Defective boiler-years per filing, filed or not, by stratum (6,)."""
    return _per_filing(params, params.chance)


def incidents_per_step(params: Params) -> jax.Array:
    """Boiler-years per filing, filed or not, defective or not, by stratum (6,).

    The paper divides by its records; with what was never filed added, these are boilers.
    """
    return _per_filing(params, namespace_of(params.chance).ones_like(params.chance))


def _per_filing(params: Params, weight: jax.Array) -> jax.Array:
    """Weights (rows,) per filing, by stratum (6,), with what was never filed added."""
    xp = namespace_of(params.stratum, weight, params.n_rows)
    in_use = (xp.arange(params.stratum.shape[0]) < params.n_rows).astype(np.float32)
    groups = (params.stratum[:, None] == xp.arange(N_STRATA)).astype(np.float32)
    total = (weight * in_use) @ groups
    return total / params.n_rows / xp.maximum(params.filed_share, 1e-6)


def n_waiting(state: State) -> jax.Array:
    """Nobody waits: a filing is dealt with in its own step."""
    return jnp.zeros_like(state.row)


def steps_per_day(params: Params) -> jax.Array:
    """Filings in a day."""
    return params.filings_per_day


def cases(params: Params) -> heuristics.CaseTable:
    """Every filing of the table: steps are independent, so ceilings can be computed from it."""
    n = int(params.n_rows)
    return heuristics.CaseTable(
        features=np.asarray(params.features[:n]),
        levels=(2, 2, RISK_LEVELS, 2, 2, 2, COUNT_LEVELS),
        stratum=np.asarray(params.stratum[:n]),
        is_actionable=np.asarray(params.is_defective[:n]),
        capacity_share=float(params.capacity_share),
        reported_share=np.asarray(params.filed_share),
    )
