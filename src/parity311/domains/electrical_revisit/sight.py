"""Visits without access on record as a policy sees them."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.arrays import in_numpy
from parity311.domains.electrical_revisit.estimate import (
    AGE_EDGES_DAYS,
    DENIAL_EDGES,
    DENIAL_PRIOR,
    N_AGES,
)
from parity311.domains.electrical_revisit.revisits import NEVER, Calendar, State
from parity311.engines.stream.process import N_LEVELS, QUEUE_SLOTS
from parity311.estimation.stream_book import HISTORY_DAYS, StreamOffice, season_of
from parity311.estimation.stream_view import queued_at_office
from parity311.records.journal import Cases, Journal
from parity311.records.past import count_past
from parity311.records.schema import VISIT_RESULTS

USUAL_DENIAL = 0.3
"""Share of first visits without access where none is on record."""


def see(
    office: StreamOffice, params: Any, journal: Journal, cases: Cases, ahead: np.ndarray
) -> State:
    """The cases as of the visit at which nobody opened, each with so many revisits booked.

    When each of those is due is not on record: they are taken to fall due one by one, at the pace
    at which the office makes revisits.
    """
    at = cases.last_visit
    denial, past = read_doors(journal, cases, at)
    age = np.searchsorted(AGE_EDGES_DAYS, at - cases.began, side="right")
    level = N_LEVELS - 1 - cases.code
    kind = (denial * N_LEVELS + level) * office.shape.n_histories + past * N_AGES + age
    booked = queued_at_office(office, journal, ahead)
    pace = office.days_per_complaint / max(float(params.stream.visits_per_step), 1e-3)
    due = np.where(
        np.arange(QUEUE_SLOTS) < booked[:, None], pace * (1.0 + np.arange(QUEUE_SLOTS)), NEVER
    )
    unseen: Any = None
    return in_numpy(
        State,
        kind=kind,
        stratum=cases.stratum,
        season=np.full(cases.n, season_of(journal.moment)),
        n_booked=booked,
        open_level=np.zeros((cases.n, office.shape.n_places), np.int64),
        open_stratum=unseen,
        calendar=in_numpy(Calendar, due, *(unseen,) * 6),
    )


def read_doors(journal: Journal, cases: Cases, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Level of the board's denial rate, and the property's past, as of these moments, (n,) each.

    Counted are first visits; the past is 0 for no case, 1 for a case, 2 where nobody opened.
    """
    _, first = np.unique(journal.visit_case, return_index=True)
    case, time = journal.visit_case[first], journal.visit_at[first]
    denied = (journal.visit_result[first] == VISIT_RESULTS.index("no_access")).astype(np.float64)
    count = lambda group: count_past(group[case], time, denied)  # noqa: E731
    n_board, denied_board = count(journal.board)(cases.board, at, HISTORY_DAYS)
    everywhere = count(np.zeros(journal.n, np.int64))
    n_city, denied_city = everywhere(np.zeros(cases.n, np.int64), at, HISTORY_DAYS)
    usual = np.where(n_city > 0, denied_city / np.maximum(n_city, 1), USUAL_DENIAL)
    rate = (denied_board + DENIAL_PRIOR * usual) / (n_board + DENIAL_PRIOR)
    denial = np.searchsorted(DENIAL_EDGES, rate / np.maximum(usual, 1e-6), side="right")
    n_building, denied_building = count(journal.building)(cases.building, at, np.inf)
    past = np.where(denied_building > 0, 2, np.where(n_building > 0, 1, 0))
    return denial, past
