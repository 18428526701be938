"""The modes: what a visit is worth under each, and where it sends the crews."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.arrays import jax, jnp, namespace_of
from parity311.domains.elevator.crews import Orders
from parity311.domains.elevator.state import (
    BOARDS,
    N_AGES,
    N_CREWS,
    SEVERITY_WEIGHTS,
    SHAPE,
    Params,
    State,
    n_on_duty,
)
from parity311.engines.backlog import process as engine

MOST_AT_BOARD = 4
DAY_BONUS = 0.05
"""What INDEX_TAIL adds for a case in its last days before the thirtieth, in units of the largest
saving (the prototype's bonus near day 30)."""
PRICE_GAIN = 1.0
"""Log worth that one unit of coverage price adds to a load."""

MODES = (
    "TAIL", "EMERG", "ACTIONABLE", "BALANCED",
    "INDEX", "INDEX_NEAR", "INDEX_TAIL", "BALANCED_NEAR", "COVERAGE_PRICED", "CANVASS",
    "UNIFORM", "RANDOM_BOARDS", "NO_DISPATCH",
)  # fmt: skip
"""The paper's four, then ours. NEAR minds the way: a place is judged by the visits that are left
after going there. Every mode weighs boards by the coverage price of who lives there, where coverage
has a weight; where it has none, COVERAGE_PRICED is INDEX_NEAR. CANVASS sends the first crew where
the price is highest."""
N_PUBLISHED = 4
MODE_NUMBER = {name: number for number, name in enumerate(MODES)}
MINDS_THE_WAY = np.array([name in MODES[5:10] for name in MODES])
FORECAST_MODES = MODES[:5]
"""Modes whose saving is forecast: one for each order in which cases are served."""


def _worth_tables() -> np.ndarray:
    """Worth of a visit by mode and cell, (13, 64); the index modes replace theirs at each step."""
    code = np.repeat(np.arange(engine.N_CODES), N_AGES)
    age = np.tile(np.arange(N_AGES), engine.N_CODES) / (N_AGES - 1)
    balanced = (3 - code + age) / 4.0
    tail = 0.9 * age + 0.1 * (3 - code) / 3.0
    tables = {
        "TAIL": np.where(age == 1.0, tail, 0.4 * tail),
        "EMERG": np.array(SEVERITY_WEIGHTS)[code] / SEVERITY_WEIGHTS[0] * (0.99 + 0.01 * age),
        "BALANCED": balanced,
        "BALANCED_NEAR": balanced,
        "UNIFORM": age,
        "RANDOM_BOARDS": balanced,
    }
    none = np.zeros(engine.N_CODES * N_AGES)
    return np.stack([tables.get(name, none) for name in MODES]).astype(np.float32)


WORTH = _worth_tables()


def canvasses(state: State, action: jax.Array) -> jax.Array:
    """Whether the first crew looks where nobody called: only while all crews are there."""
    return (action == MODE_NUMBER["CANVASS"]) & (n_on_duty(state.backlog.slot) == N_CREWS)


def saving_of_visits(params: Params, n_steps: jax.Array) -> jax.Array:
    """Points of A30 + 2 S to the end of the episode that closing a case saves, (64,)."""
    return params.saving[n_steps]


def savings_by_step(backlog: engine.BacklogParams) -> jax.Array:
    """The same for every number of steps taken, (1 + steps, 64)."""
    ahead, late = jax.vmap(lambda n_steps: engine.steps_ahead(backlog, n_steps, SHAPE))(
        jnp.arange(SHAPE.max_steps + 1)
    )
    weights = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)[:, None]
    saved = 2.0 * weights * ahead[:, None] + late[:, None]
    return saved.reshape(SHAPE.max_steps + 1, -1)


def worth_by_mode(params: Params, saving: jax.Array) -> dict[str, jax.Array]:
    """Worth of a visit by cell between 0 and 1, (64,) for each mode."""
    xp = namespace_of(saving, params.backlog.chance)
    index = saving / xp.maximum(saving.max(), 1e-6)
    nearly = (np.tile(np.arange(N_AGES), engine.N_CODES) == N_AGES - 2).astype(np.float32)
    code = params.backlog.chance.mean(axis=0)[:, None] * params.backlog.there
    rows = {name: xp.asarray(WORTH[number]) for number, name in enumerate(MODES)}
    rows["ACTIONABLE"] = code.reshape(-1) / xp.maximum(code.max(), 1e-6)
    rows["INDEX_TAIL"] = (index + DAY_BONUS * nearly) / (1 + DAY_BONUS)
    return {**rows, **dict.fromkeys(("INDEX", "INDEX_NEAR", "COVERAGE_PRICED", "CANVASS"), index)}


def judge_visits(params: Params, n_steps: Any, action: Any, prices: Any) -> tuple[Any, Any]:
    """Worth of a visit to each cell (64,) under a mode, and the factor of each board (59,).

    NumPy or JAX.
    """
    saving = saving_of_visits(params, n_steps)
    xp = namespace_of(saving, action, prices)
    worth = xp.stack(list(worth_by_mode(params, saving).values()))[action]
    price = engine.place_prices(params.backlog, prices)
    enforcement = params.backlog.chance.mean(axis=1)
    factor = xp.where(action == MODE_NUMBER["ACTIONABLE"], enforcement, 1.0)
    return worth, factor * xp.exp(PRICE_GAIN * price)


def make_orders(
    params: Params, state: State, action: jax.Array, prices: jax.Array, chance: jax.Array
) -> Orders:
    """Orders of one mode; `chance` (13,) is uniform: random boards, and whole visits."""
    worth, factor = judge_visits(params, state.backlog.n_steps, action, prices)
    crew = jnp.arange(N_CREWS)
    works = (crew < n_on_duty(state.backlog.slot)) & (action != MODE_NUMBER["NO_DISPATCH"])
    works &= ~canvasses(state, action) | (crew > 0)
    visits = engine.rounded(params.visits, chance[:N_CREWS, None]) * works[:, None]
    # A mode that does not mind the way judges every board by a crew that is already there.
    load = jnp.where(jnp.asarray(MINDS_THE_WAY)[action], params.visits, params.visits[0])
    in_turn = (state.backlog.n_steps * N_CREWS + crew) % len(BOARDS)
    at_random = (chance[N_CREWS : 2 * N_CREWS] * len(BOARDS)).astype(jnp.int32)
    fixed = jnp.where(action == MODE_NUMBER["UNIFORM"], in_turn, -1)
    fixed = jnp.where(action == MODE_NUMBER["RANDOM_BOARDS"], at_random, fixed)
    return Orders(worth, factor, visits, load, fixed, MOST_AT_BOARD)
