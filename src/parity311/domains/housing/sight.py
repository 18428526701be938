"""The line of categories on record as a policy sees it, and the order an action works it in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import in_numpy
from parity311.domains.housing.decision import PRICE_GAIN
from parity311.domains.housing.observation import look_at
from parity311.domains.housing.state import ACTION_NUMBER, CODES, N_CATEGORIES, SHAPE
from parity311.domains.housing.trail import Trail
from parity311.engines.backlog.process import Backlog
from parity311.estimation.backlog_view import (
    cells_of,
    fading_sum,
    keep_backlog,
    n_recent,
    oldest_first,
    see_backlog,
)
from parity311.mdp.contract import N_STRATA, Sight
from parity311.records.journal import Cases, Journal

HOUR_DAYS = 1.0 / 24.0
NUMBER = {code: number for number, code in enumerate(CODES)}


class HousingView(NamedTuple):
    """The line and the trail of the last hours."""

    backlog: Backlog
    trail: Trail


def see(params: Any, journal: Journal, cases: Cases, ahead: np.ndarray) -> HousingView:
    """The line of the whole city by category and stratum, and what the last hours brought."""
    del ahead
    place = category_of(cases) * N_STRATA + cases.stratum
    return HousingView(
        see_backlog(SHAPE, params.backlog, journal, cases, place), look_at_hours(journal)
    )


def category_of(cases: Cases) -> np.ndarray:
    """Number of each case's category; a code not listed counts as general."""
    return cases.number_categories(NUMBER, NUMBER["GENERAL"])


def look_at_hours(journal: Journal) -> Trail:
    """The trail as the records tell it: new cases by hour, further reports, ages at the visit."""
    now, began = journal.as_of, journal.began
    edges = now - HOUR_DAYS * np.arange(25)
    arrivals = -np.diff(np.searchsorted(began, edges)).astype(np.float32)
    n_new = fading_sum(began[-n_recent(began, journal, 7.0) :], now, 1.0)
    heard = journal.report_at
    n_heard = fading_sum(heard[-n_recent(heard, journal, 7.0) :], now, 1.0)
    visited = journal.visit_at[-50:]
    ages = np.minimum(visited - began[journal.visit_case[-50:]], SHAPE.n_ages - 1)
    return in_numpy(
        Trail,
        arrivals=arrivals,
        week_mean=np.float32(n_recent(began, journal, 7.0) / 168.0),
        recurrence=np.float32(1.0 - n_new / max(n_heard, 1e-6)),
        close_days=np.float32(ages.mean() if len(ages) else 7.0),
    )


def show(params: Any, view: HousingView) -> np.ndarray:
    """What is seen of them."""
    return np.asarray(look_at(params, view.backlog, view.trail))


def rank(
    params: Any, view: HousingView, action: int, prices: np.ndarray, journal: Journal, cases: Cases
) -> np.ndarray:
    """By code and age in the chosen category, or in all; with prices, by code plus the price."""
    del params, view
    if action == ACTION_NUMBER["NO_DISPATCH"]:
        return np.full(cases.n, -np.inf)
    if np.any(prices):
        score = 3.0 - cases.code + PRICE_GAIN * np.asarray(prices, np.float64)[cases.stratum]
    else:
        score = SHAPE.code_then_age[cells_of(SHAPE, journal, cases)].astype(np.float64)
    is_served = (action >= N_CATEGORIES) | (category_of(cases) == action)
    return oldest_first(np.where(is_served, score, -np.inf), cases)


SIGHT = Sight(
    keep=keep_backlog, see=see, show=show, rank=rank, unserved=("CANVASS",), day_shares=(0.1,) * 10
)
"""Ten working hours, each with its decision."""
