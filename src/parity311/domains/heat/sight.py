"""Complaints on record as the office's policies see them."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.arrays import in_numpy
from parity311.domains.heat.decision import COMPLAINT_KINDS, HeatView
from parity311.estimation.stream_view import still_there
from parity311.records.journal import Cases, Journal

MOST_WEEKS = 3.0
"""Weeks of visits beyond which a longer line looks the same to a policy."""


def see(params: Any, journal: Journal, cases: Cases, ahead: np.ndarray) -> HeatView:
    """The cases, each in hand with so many ordered before it.

    The records carry no weather: it is taken as normal. The line is counted in the city's visits a
    day, of which the office makes its share.
    """
    moment = journal.moment
    month = moment.month - 1
    share = float(params.office.capacity[month]) / max(journal.visits_per_day(), 1e-6)
    level = np.searchsorted(COMPLAINT_KINDS.units_edges, cases.units, side="right")
    parts = [cases.flags[name].astype(np.int64) for name in COMPLAINT_KINDS.flags]
    kind = np.ravel_multi_index([*parts, level, cases.code], COMPLAINT_KINDS.levels)
    n = cases.n
    since = (moment - moment.replace(month=1, day=1, hour=0, minute=0, second=0)).total_seconds()
    return in_numpy(
        HeatView,
        kind=kind,
        n_reports=cases.n_reports,
        queued=ahead * share,
        day_of_year=np.full(n, since / 86_400.0),
        month=np.full(n, month),
        warmth=np.zeros(n),
        is_there=np.ones(n, bool),
    )


def lasts(params: Any, journal: Journal, cases: Cases) -> np.ndarray:
    """Chance that the heat is still off."""
    return still_there(params.office.lifetime[1], journal, cases)


def room(params: Any, journal: Journal) -> float:
    """Cases in the city's line that the office was trained with at most: three weeks of visits."""
    del params
    return MOST_WEEKS * 7.0 * journal.visits_per_day()
