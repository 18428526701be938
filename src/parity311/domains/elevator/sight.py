"""The boards' line on record as a policy sees it, and the order a mode works it in."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.domains.elevator.modes import MODE_NUMBER, judge_visits
from parity311.domains.elevator.observation import look_at
from parity311.domains.elevator.params import place_of
from parity311.domains.elevator.state import N_CREWS, NIGHT_CREWS, SHAPE
from parity311.engines.backlog.process import Backlog
from parity311.estimation.backlog_view import cells_of, keep_backlog, oldest_first, see_backlog
from parity311.mdp.contract import Sight
from parity311.records.journal import Cases, Journal


def see(params: Any, journal: Journal, cases: Cases, ahead: np.ndarray) -> Backlog:
    """The line of the whole city by board."""
    del ahead
    return see_backlog(SHAPE, params.backlog, journal, cases, place_of(cases))


def rank(
    params: Any, view: Backlog, action: int, prices: np.ndarray, journal: Journal, cases: Cases
) -> np.ndarray:
    """Worth of a visit under the mode times its board's factor; crews' ways are left to them."""
    if action == MODE_NUMBER["NO_DISPATCH"]:
        return np.full(cases.n, -np.inf)
    worth, factor = judge_visits(params, view.n_steps, np.int32(action), prices)
    score = worth[cells_of(SHAPE, journal, cases)] * factor[place_of(cases)]
    return oldest_first(score, cases)


_CREWS = np.array([NIGHT_CREWS, NIGHT_CREWS, N_CREWS, N_CREWS, NIGHT_CREWS, NIGHT_CREWS])
SIGHT = Sight(
    keep=keep_backlog,
    see=see,
    show=look_at,
    rank=rank,
    unserved=("CANVASS",),
    shows_in_visits=True,
    day_shares=tuple((_CREWS / _CREWS.sum()).tolist()),
)
