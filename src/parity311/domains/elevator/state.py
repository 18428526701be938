"""The boards, the crews, and what a step changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, namespace_of
from parity311.engines.backlog import process as engine

BOARDS = tuple(
    100 * borough + board
    for borough, n_boards in enumerate((12, 12, 18, 14, 3), start=1)
    for board in range(1, n_boards + 1)
)
"""The 59 community boards: borough digit × 100 + board, Manhattan first."""

SHAPE = engine.BacklogShape(
    steps_per_day=6, bin_steps=12, n_ages=16, max_steps=168, most_arrivals=5
)
"""Four weeks of four-hour steps (the paper); ages in sixteen bins of two days, the last open over
thirty days; the busiest board expects a quarter of a case of one code in a step."""
N_AGES = SHAPE.n_ages

SEVERITY_WEIGHTS = (2.0, 0.6, 0.25, 0.05)
"""Weight of an open case of code A to D in S, the severity-weighted backlog (prototype)."""

N_CREWS = 6
NIGHT_CREWS = 2
"""Inspectors on weekdays from 8 to 16 h, and at all other times (prototype)."""


class Params(NamedTuple):
    """The boards' backlog and the crews."""

    backlog: engine.BacklogParams
    visits: jax.Array
    """(2,) visits of a crew in four hours where it stays, and after moving"""
    typical: jax.Array
    """() cases waiting at a typical start: the unit of what is observed"""
    start_seen: jax.Array
    """(S, n_names) what is seen of each start"""
    saving: jax.Array
    """(1 + steps, 64) points of A30 + 2 S to the end of the episode that closing a case saves, by
    steps taken: kept, because an order compares every cell with every other"""


class State(NamedTuple):
    """The backlog, where the crews are, and what a policy sees of it."""

    backlog: engine.Backlog
    crews: jax.Array
    """(6,) int32 number of the board each crew is in"""
    seen: jax.Array
    """(n_names,) kept, because a step's observation is read more often than it changes"""


def n_on_duty(slot: jax.Array) -> jax.Array:
    """Crews at work in a step of the week: all from 8 to 16 h on weekdays."""
    is_day = (slot < 30) & ((slot % 6 == 2) | (slot % 6 == 3))
    return namespace_of(slot).where(is_day, N_CREWS, NIGHT_CREWS)


def measure(backlog: engine.Backlog) -> tuple[jax.Array, jax.Array]:
    """A30 (open over thirty days) and S (severity-weighted backlog), () each."""
    by_cell = backlog.waiting.sum(axis=0).reshape(engine.N_CODES, N_AGES)
    severe = by_cell.sum(axis=1) @ namespace_of(by_cell).asarray(SEVERITY_WEIGHTS, np.float32)
    return by_cell[:, -1].sum(), severe
