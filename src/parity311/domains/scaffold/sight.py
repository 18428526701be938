"""Sites on record as a policy sees them."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.arrays import in_numpy
from parity311.domains.scaffold.sites import HOURS
from parity311.domains.scaffold.state import MAX_STEPS, State
from parity311.records.journal import Cases, Journal
from parity311.records.past import GroupedTimes

WEEK_DAYS = 7.0
NEVER_HOURS = 3 * 168.0
"""Hours since the last closing at a site that never had one: what is seen ends there."""


def see(params: Any, journal: Journal, cases: Cases, ahead: np.ndarray) -> State:
    """The site of each case at this hour: its reports, the area's, and the clock.

    What its inspector has time for and what was ordered is not on record: one visit, and nothing.
    """
    del params, ahead
    unseen: Any = None
    at = np.full(cases.n, journal.as_of)
    heard = journal.report_case >= 0
    times, of_case = journal.report_at[heard], journal.report_case[heard]
    moment = journal.moment
    hours = (journal.as_of - cases.began) * HOURS
    return in_numpy(
        State,
        problem=unseen,
        code=cases.code,
        stratum=cases.stratum,
        n_created=(cases.last_report >= at - 1.0 / HOURS).astype(np.float64),
        n_open=cases.n_reports.astype(np.float64),
        recurrent=fading_count(journal.building[of_case], times, cases.building, at, WEEK_DAYS),
        zip_freq=fading_count(journal.zip[of_case], times, cases.zip, at, 1.0),
        since_resolution=hours_since_closing(journal, cases),
        since_report=hours,
        is_counted=unseen,
        order=np.zeros(cases.n, np.int64),
        tokens=np.ones(cases.n),
        hour=np.full(cases.n, moment.weekday() * 24 + moment.hour),
        n_steps=np.clip(hours, 0, MAX_STEPS - 1).astype(np.int64),
        is_new=unseen,
    )


def fading_count(
    group: np.ndarray, time: np.ndarray, of: np.ndarray, at: np.ndarray, days: float
) -> np.ndarray:
    """Reports of each one's group, (n,), each forgotten with a time constant of so many days."""
    first = float(at[0]) if len(at) else 0.0
    order = GroupedTimes.of(group, time)
    # Weights are relative to the moment, which all share: older reports only vanish.
    weight = np.exp(np.maximum((order.time - first) / days, -60.0))
    summed = np.append(0.0, np.cumsum(weight))
    none = np.full(len(of), -np.inf)
    return summed[order.n_before(of, at)] - summed[order.n_before(of, none)]


def hours_since_closing(journal: Journal, cases: Cases) -> np.ndarray:
    """Hours since a case at the same building was last closed, (n,)."""
    closed = np.flatnonzero(np.isfinite(journal.closed))
    order = GroupedTimes.of(journal.building[closed], journal.closed[closed])
    at = np.full(cases.n, journal.as_of)
    place = order.n_before(cases.building, at) - 1
    last = np.maximum(place, 0)
    if not len(closed):
        return np.full(cases.n, NEVER_HOURS)
    is_same = (place >= 0) & (order.group[last] == cases.building) & (cases.building >= 0)
    return np.where(is_same, (at - order.time[last]) * HOURS, NEVER_HOURS)
