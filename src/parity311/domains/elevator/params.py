"""Where the numbers come from: an example by hand, the records, or the truth."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.arrays import jax, jitted, jnp
from parity311.domains.elevator.modes import savings_by_step
from parity311.domains.elevator.observation import look_at
from parity311.domains.elevator.process import PROCESS
from parity311.domains.elevator.state import BOARDS, N_AGES, N_CREWS, NIGHT_CREWS, SHAPE, Params
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.params import example_backlog
from parity311.estimation import backlog as backlog_estimate
from parity311.estimation.backlog_cases import addresses_by_place
from parity311.estimation.backlog_dynamics import true_params
from parity311.records.store import Records, open_records

VISITS_PER_STEP = 6.0
CHANGEOVER_LOST = 1.0 / 6.0
"""Share of the visits a crew loses by changing its board: an assumption that decides much of the
result, so results are shown at 0, 1/6 and 1/3."""

CREW_STEPS_A_WEEK = 5 * 2 * N_CREWS + (42 - 10) * NIGHT_CREWS


@jitted()
def look_at_starts(params: Params) -> jax.Array:
    """What is seen of each start, (S, n_names)."""
    return jax.vmap(lambda start: look_at(params, start))(engine.all_starts(params.backlog))


def make_params(
    backlog: engine.BacklogParams, visits_a_week: float, changeover_lost: float = CHANGEOVER_LOST
) -> Params:
    """Params with so many visits a week, shared out among the crews on duty."""
    staying = visits_a_week / CREW_STEPS_A_WEEK
    waiting = np.asarray(backlog.start_waiting).sum(axis=(1, 2)).mean()
    params = Params(
        backlog=backlog,
        visits=jnp.asarray([staying, staying * (1.0 - changeover_lost)], jnp.float32),
        typical=jnp.float32(max(waiting, 1.0)),
        start_seen=jnp.zeros(0),
        saving=savings_by_step(backlog),
    )
    return params._replace(start_seen=look_at_starts(params))


def scale_capacity(params: Params, factor: float) -> Params:
    """The same boards with so many times the visits of every crew."""
    scaled = params._replace(visits=params.visits * factor)
    return scaled._replace(start_seen=look_at_starts(scaled))


def params_from(backlog: engine.BacklogParams, visits_per_day: float) -> Params:
    """Params with so many visits a day."""
    return make_params(backlog, 7.0 * visits_per_day)


def example(changeover_lost: float = CHANGEOVER_LOST) -> Params:
    """The prototype's office: 17,266 cases a year, 2,080 open over thirty days at the start.

    The boards belong to five strata with equal incidents, of which 35 to 73 % are reported.
    """
    rng = np.random.default_rng(311)
    per_day = 17_266 / 365
    backlog = example_backlog(
        PROCESS,
        SHAPE,
        np.arange(len(BOARDS)) % 5,
        np.exp(0.6 * rng.standard_normal(len(BOARDS))),
        cases_per_day=per_day,
        chance=np.array([0.36, 0.27, 0.19, 0.14]),
        days_waiting=np.append(np.full(N_AGES - 1, 850 / (N_AGES - 1)), 2_080) / per_day,
        access=0.994,
        returns=0.0,
        repeats_per_day=0.0,
        n_addresses=400.0,
    )
    return make_params(backlog, VISITS_PER_STEP * CREW_STEPS_A_WEEK, changeover_lost)


def place_of(located: Any) -> np.ndarray:
    """Number of each one's board; what lies outside them (parks, airports) goes to the first."""
    order = np.argsort(BOARDS)
    place = np.searchsorted(np.array(BOARDS)[order], located.board)
    place = order[np.minimum(place, len(BOARDS) - 1)]
    return np.where(np.array(BOARDS)[place] == located.board, place, 0)


def layout_of(records: Records) -> backlog_estimate.BacklogLayout:
    """How the boards' backlog is laid out in these records."""
    n_addresses = np.ones(len(BOARDS))
    for (board, _, _), n in addresses_by_place(records, "b.elevators > 0").items():
        if board in BOARDS:
            n_addresses[BOARDS.index(board)] += n
    return backlog_estimate.BacklogLayout("elevator", len(BOARDS), place_of, SHAPE, n_addresses)


def truth(city: str | Path, date_from: date) -> Params:
    """The boards as they really were from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    return true_params(records, happened, date_from, layout_of, params_from)
