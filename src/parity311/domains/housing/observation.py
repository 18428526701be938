"""What a policy sees: the backlog by category, the last hours, forecasts."""

from __future__ import annotations

import numpy as np

from parity311.arrays import jax, namespace_of, settle
from parity311.domains.housing.state import (
    CAPACITY_WEEK,
    CATEGORIES,
    N_AGES,
    N_CATEGORIES,
    PREFERENCE,
    RETENTION_UNIT,
    SEVERITY_WEIGHTS,
    SHAPE,
    SPEED_UNIT,
    Params,
    State,
)
from parity311.domains.housing.trail import TRAIL_NAMES, Trail, look_back
from parity311.engines.backlog import process as engine
from parity311.mdp.contract import N_STRATA

BACKLOG_NAMES = tuple(f"backlog_{name}" for name in CATEGORIES)
URGENT_NAMES = tuple(f"urgent_{name}" for name in CATEGORIES)
SAVING_NAMES = tuple(f"saving_{name}" for name in CATEGORIES)
OBSERVATION_NAMES = BACKLOG_NAMES + TRAIL_NAMES + URGENT_NAMES + SAVING_NAMES + ("time_left",)


def observe(params: Params, state: State) -> jax.Array:
    """What is seen of the backlog and the trail."""
    del params
    return state.seen


def look_at(params: Params, backlog: engine.Backlog, trail: Trail) -> jax.Array:
    """Backlog by category, the trail and the calendar; then codes A and B, and savings.

    NumPy or JAX; of the backlog only who waits and the clock are read.
    """
    xp = namespace_of(backlog.waiting, params.typical)
    cells = backlog.waiting.reshape(N_CATEGORIES, N_STRATA, -1).sum(axis=1)
    cells = settle(cells)
    parts = [
        cells.sum(axis=1) / params.typical * N_CATEGORIES,
        look_back(params.backlog, backlog, trail, N_AGES),
        cells[:, : 2 * N_AGES].sum(axis=1) / params.typical * N_CATEGORIES,
        forecast_savings(params, backlog, cells),
        1.0 - xp.asarray(backlog.n_steps)[None] / SHAPE.max_steps,
    ]
    return xp.concatenate(parts).astype(np.float32)


def forecast_savings(params: Params, backlog: engine.Backlog, cells: jax.Array) -> jax.Array:
    """What an average hour's visits to each category would save, the best has 1, (12,).

    `cells` (12, 64) are the cases of all strata; speed and retention count as the agency weighs
    them today.
    """
    xp = namespace_of(cells, params.typical)
    ahead, _ = engine.steps_ahead(params.backlog, backlog.n_steps, SHAPE)
    life = engine.life_ahead(params.backlog, backlog.n_steps, SHAPE)
    weights = xp.asarray(SEVERITY_WEIGHTS, np.float32)
    speed = (weights[:, None] * ahead).reshape(-1) / 24.0 / SPEED_UNIT * PREFERENCE[0]
    chance = params.backlog.chance.reshape(N_CATEGORIES, N_STRATA, engine.N_CODES).mean(axis=1)
    access = params.backlog.access.reshape(N_CATEGORIES, N_STRATA).mean(axis=1)
    likely = (chance * weights * access[:, None])[:, :, None] * params.backlog.there
    likely = likely.reshape(N_CATEGORIES, -1)
    n_visits = params.visits_per_hour * CAPACITY_WEEK.max()
    taken = xp.clip(
        n_visits - cells @ engine.comes_first(xp.asarray(SHAPE.code_then_age)), 0.0, cells
    )
    kept = _sum_products(taken, likely) * life / RETENTION_UNIT * PREFERENCE[3]
    saved = taken @ speed + kept
    return saved / xp.maximum(saved.max(), 1e-6)


def _sum_products(taken: jax.Array, likely: jax.Array) -> jax.Array:
    """Products of two (12, 64) summed row by row, (12,)."""
    if namespace_of(taken, likely) is np:
        return (taken * likely).sum(axis=1)
    # As one operation: as a sum the compiler would compute `likely` for every office.
    return jax.lax.dot_general(taken, likely, (((1,), (1,)), ((0,), (0,))))
