"""Cases of a stream on record, as its policies see them: NumPy alone, for one case or a queue."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from parity311.arrays import in_numpy
from parity311.engines.stream.process import QUEUE_SLOTS, StreamState
from parity311.estimation.stream_book import (
    HISTORY_DAYS,
    CaseFacts,
    StreamOffice,
    kinds_of,
    season_of,
)
from parity311.estimation.stream_dynamics import COVERAGE_PRICED
from parity311.mdp.contract import Sight
from parity311.records.journal import Cases, Journal


def stream_sight(office: StreamOffice, show: Any) -> Sight:
    """How an office's cases are seen; `show` is the domain's `observe`."""
    return Sight(
        see=partial(see_stream, office),
        show=show,
        lasts=lambda params, journal, cases: still_there(params.lifetime_days, journal, cases),
        room=partial(room_for, office),
        unserved=(COVERAGE_PRICED.name,),
    )


def still_there(lifetime_days: Any, journal: Journal, cases: Cases) -> np.ndarray:
    """Chance that an incident of so many days' mean life outlasted the silence since its report."""
    silent = np.maximum(journal.as_of - cases.last_report, 0.0)
    return np.exp(-silent / max(float(lifetime_days), 1e-3))


def see_stream(
    office: StreamOffice, params: Any, journal: Journal, cases: Cases, ahead: np.ndarray
) -> StreamState:
    """The cases, each in hand with so many ordered before it.

    Whether the quick crew is out and what was put off is not on record: it is taken as there, and
    nothing as open.
    """
    del params
    n = cases.n
    unseen: Any = None
    return in_numpy(
        StreamState,
        kind=kinds_of(office, read_facts(journal, cases), cases.code),
        stratum=cases.stratum,
        season=np.full(n, season_of(journal.moment)),
        n_queued=queued_at_office(office, journal, ahead),
        is_crew_busy=np.zeros(n, bool),
        open_level=np.zeros((n, office.shape.n_places), np.int64),
        open_stratum=unseen,
        queue=unseen,
    )


def room_for(office: StreamOffice, params: Any, journal: Journal) -> float:
    """Cases in the city's line that fill the round of every office."""
    del params
    return QUEUE_SLOTS * max(office.days_per_complaint * journal.new_per_day, 1.0)


def queued_at_office(office: StreamOffice, journal: Journal, ahead: np.ndarray) -> np.ndarray:
    """Cases in the round of one office, (n,), of so many in the whole city."""
    in_line = np.rint(ahead * QUEUE_SLOTS / room_for(office, None, journal))
    return np.clip(in_line, 0, QUEUE_SLOTS).astype(np.int64)


def read_facts(journal: Journal, cases: Cases) -> CaseFacts:
    """What the kinds of these cases are told by, as of the first report of each."""
    usual = np.maximum(journal.n_in_city(cases, HISTORY_DAYS) / max(journal.n_tracts, 1), 1e-9)
    return CaseFacts(
        borough=cases.borough,
        board=cases.board,
        category=np.append(np.array(cases.categories, object), "")[cases.category],
        gap_days=journal.days_since_last(cases),
        near_ratio=journal.n_near(cases, HISTORY_DAYS) / usual,
    )
