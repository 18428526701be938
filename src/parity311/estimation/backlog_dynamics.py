"""The functions of a domain whose state is a backlog, from what is its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np

from parity311.arrays import jax, jnp
from parity311.engines.backlog.process import (
    BacklogParams,
    BacklogShape,
    incidents_by_stratum,
    need_by_stratum,
)
from parity311.estimation.backlog import BacklogLayout, estimate_backlog, true_backlog
from parity311.mdp.contract import NOBODY, Dynamics
from parity311.records.store import Records

LayoutOf = Callable[[Records], BacklogLayout]
"""records -> how the domain lays out its backlog in them"""
Maker = Callable[[BacklogParams, float], Any]
"""(backlog, visits a day) -> the domain's params"""


def backlog_dynamics(
    shape: BacklogShape, *, layout_of: LayoutOf, make_params: Maker, **own: Any
) -> Dynamics:
    """Put a backlog domain's functions together; `own` are the fields of `Dynamics` it declares.

    Its params and its state have the backlog as their field `backlog`; nobody in particular is in
    hand, since a step decides about the whole line.
    """

    def estimate(records: Records, calibration: Any, date_to: date) -> Any:
        layout = layout_of(records)
        return make_params(*estimate_backlog(records, calibration, date_to, layout))

    def need_per_step(params: Any) -> jax.Array:
        return need_by_stratum(params.backlog) / shape.steps_per_day

    return Dynamics(
        current_stratum=lambda params, state: jnp.int32(NOBODY),
        need_per_step=need_per_step,
        incidents_per_step=lambda params: (
            incidents_by_stratum(params.backlog) / shape.steps_per_day
        ),
        steps_per_day=lambda params: np.float32(shape.steps_per_day),
        estimate=estimate,
        n_waiting=lambda state: state.backlog.waiting.sum(),
        **own,
    )


def true_params(
    records: Records, happened: Any, date_from: date, layout_of: LayoutOf, make_params: Maker
) -> Any:
    """A backlog domain's params as they were; `happened` is the opened truth of a city."""
    return make_params(*true_backlog(records, happened, date_from, layout_of(records)))
