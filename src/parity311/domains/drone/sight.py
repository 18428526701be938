"""The boroughs' line on record as a policy sees it, and the order a deployment works it in."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.arrays import in_numpy
from parity311.domains.drone.decision import (
    ACTION_NAMES,
    N_DEPOTS,
    SHAPE,
    TRAIL_FLIGHTS,
    State,
    choose_depot,
    observe,
)
from parity311.estimation.backlog_view import cells_of, keep_backlog, oldest_first, see_backlog
from parity311.mdp.contract import Sight
from parity311.records.journal import Cases, Journal
from parity311.records.schema import VISIT_RESULTS

USUAL_FRESH = 0.75
"""Share of a borough's addresses not flown over lately, which no record tells: its mean at the
start of an episode."""


def borough_of(cases: Cases) -> np.ndarray:
    """Borough of each case; what lies in none counts with the first."""
    return np.maximum(cases.borough, 0)


def see(params: Any, journal: Journal, cases: Cases, ahead: np.ndarray) -> State:
    """The line of the boroughs; flights and finds are those of the visits on record."""
    del ahead
    borough = np.maximum(journal.borough[journal.visit_case], 0)
    days = TRAIL_FLIGHTS / SHAPE.steps_per_day
    weight = np.exp((journal.visit_at - journal.as_of) / days)
    found = journal.visit_result == VISIT_RESULTS.index("violation")
    flights = np.bincount(borough, weight, N_DEPOTS)
    finds = np.bincount(borough, weight * found, N_DEPOTS)
    total = max(float(flights.sum()), 1e-6)
    return in_numpy(
        State,
        backlog=see_backlog(SHAPE, params.backlog, journal, cases, borough_of(cases)),
        depot=np.int32(borough[-1] if len(borough) else 0),
        fresh=np.full(N_DEPOTS, USUAL_FRESH, np.float32),
        trail=np.stack([flights, finds]).astype(np.float32) / np.float32(total),
    )


def rank(
    params: Any, view: State, action: int, prices: np.ndarray, journal: Journal, cases: Cases
) -> np.ndarray:
    """By code and age in the borough that is flown over."""
    if ACTION_NAMES[action] == "NO_FLIGHT":
        return np.full(cases.n, -np.inf)
    depot = choose_depot(params, view, np.int32(action), prices)
    score = SHAPE.code_then_age[cells_of(SHAPE, journal, cases)].astype(np.float64)
    return oldest_first(np.where(borough_of(cases) == depot, score, -np.inf), cases)


SIGHT = Sight(keep=keep_backlog, see=see, show=observe, rank=rank, day_shares=(0.25,) * 4)
