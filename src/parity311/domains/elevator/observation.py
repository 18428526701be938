"""What a policy sees: the backlog in sum, the clock, forecasts, the boards one by one."""

from __future__ import annotations

import numpy as np

from parity311.arrays import jax, namespace_of, settle, side_by_side
from parity311.domains.elevator.modes import FORECAST_MODES, saving_of_visits, worth_by_mode
from parity311.domains.elevator.process import PROCESS
from parity311.domains.elevator.state import (
    BOARDS,
    N_AGES,
    N_CREWS,
    SEVERITY_WEIGHTS,
    SHAPE,
    Params,
    State,
    measure,
    n_on_duty,
)
from parity311.engines.backlog import process as engine

SUMMARY_NAMES = (
    "backlog", "tail_pressure", "near_30_days", "open_a", "severity", "mean_age",
    "time_left", "crews_on_duty", "is_daytime", "is_weekend",
)  # fmt: skip
SAVING_NAMES = tuple(f"saving_{name.lower()}" for name in FORECAST_MODES)
TAIL_NAMES = tuple(f"tail_pressure_{board}" for board in BOARDS)
RATE_NAMES = tuple(f"enforcement_rate_{board}" for board in BOARDS)

CODE_SHARES = PROCESS.hazard.code_shares
MEAN_WEIGHT = float(np.dot(CODE_SHARES, SEVERITY_WEIGHTS))
NEAR_SHARE = 0.1
"""Usual share of code A, usual weight of a case, and share of the cases a few days from the
thirtieth: they bring what is observed to the order of 1."""


def observe(params: Params, state: State) -> jax.Array:
    """What is seen of the backlog."""
    del params
    return state.seen


def look_at(params: Params, backlog: engine.Backlog) -> jax.Array:
    """The backlog in sum, the clock, each order's forecast, then the boards one by one.

    NumPy or JAX; of the backlog only who waits and the clock are read.
    """
    xp = namespace_of(backlog.waiting, params.typical)
    cells = backlog.waiting.reshape(len(BOARDS), engine.N_CODES, N_AGES)
    by_cell = settle(cells.sum(axis=0))
    by_age = by_cell.sum(axis=0)
    total = by_age.sum()
    late, severe = measure(backlog)
    part = backlog.slot % 6
    summary = side_by_side(
        total / params.typical,
        late / params.typical,
        by_age[N_AGES - 4 : N_AGES - 1].sum() / params.typical / NEAR_SHARE,
        by_cell[0].sum() / params.typical / CODE_SHARES[0],
        severe / params.typical / MEAN_WEIGHT,
        (by_age @ np.arange(N_AGES, dtype=np.float32)) / xp.maximum(total, 1.0) / N_AGES,
        1.0 - backlog.n_steps / SHAPE.max_steps,
        n_on_duty(backlog.slot) / N_CREWS,
        (part == 2) | (part == 3),
        backlog.slot >= 30,
    )
    savings = forecast_savings(params, backlog, by_cell.reshape(-1))
    tail = cells[:, :, -1].sum(axis=1) / params.typical * len(BOARDS)
    rates = params.backlog.chance.mean(axis=1)
    return xp.concatenate([summary, savings, tail, rates]).astype(np.float32)


def forecast_savings(params: Params, backlog: engine.Backlog, cells: jax.Array) -> jax.Array:
    """What the crews on duty would save if boards did not matter, by order of service, (5,).

    `cells` (64,) are the cases of all boards; the order that saves most has 1.
    """
    saving = saving_of_visits(params, backlog.n_steps)
    n_visits = n_on_duty(backlog.slot) * params.visits[1]
    worth = worth_by_mode(params, saving)
    saved = [engine.take_in_order(cells, worth[name], n_visits) @ saving for name in FORECAST_MODES]
    xp = namespace_of(*saved)
    return xp.stack(saved) / xp.maximum(xp.stack(saved).max(), 1e-6)
