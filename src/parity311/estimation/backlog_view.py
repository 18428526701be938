"""A line of cases on record as a backlog's policies see it, and where each case stands in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.arrays import in_numpy
from parity311.engines.backlog.process import N_CODES, Backlog, BacklogShape
from parity311.records.journal import Cases, Journal


def see_backlog(
    shape: BacklogShape, params: Any, journal: Journal, cases: Cases, place: np.ndarray
) -> Backlog:
    """The line of an office: cases by place (n,), code and age; no episode ends in service.

    What nobody reported is taken at what the params expect of it.
    """
    n_places = params.cases_per_day.shape[0]
    n_cells = N_CODES * shape.n_ages
    flat = place * n_cells + cells_of(shape, journal, cases)
    waiting = np.bincount(flat, minlength=n_places * n_cells).reshape(n_places, n_cells)
    return in_numpy(
        Backlog,
        waiting=waiting.astype(np.float32),
        hidden=np.asarray(params.unreported_per_day * params.lifetime_days, np.float32),
        n_steps=np.int32(0),
        slot=np.int32(slot_of_week(shape, journal)),
        month=np.int32(journal.moment.month - 1),
        stock=np.zeros((2, 6), np.float32),
    )


def keep_backlog(params: Any) -> Any:
    """A backlog domain's params without the starts that only episodes need."""
    fields = {name: np.zeros(0, np.float32) for name in params._fields if name == "start_seen"}
    own = params.backlog._replace(start_waiting=np.zeros((0, 1, 1), np.float32))
    return params._replace(backlog=own, **fields)


def cells_of(shape: BacklogShape, journal: Journal, cases: Cases) -> np.ndarray:
    """Cell of each case: code × ages + age, (n,)."""
    age = np.clip((journal.as_of - cases.began) / shape.bin_days, 0, shape.n_ages - 1)
    return cases.code * shape.n_ages + age.astype(np.int64)


def slot_of_week(shape: BacklogShape, journal: Journal) -> int:
    """Step of the week, from Monday 0 h."""
    moment = journal.moment
    hours = moment.weekday() * 24 + moment.hour + moment.minute / 60
    return int(hours * shape.steps_per_day / 24)


def oldest_first(score: np.ndarray, cases: Cases) -> np.ndarray:
    """Priority (n,) that serves the highest score first, and the oldest among equals."""
    order = np.lexsort((cases.began, -score))
    priority = np.empty(len(order))
    priority[order] = -np.arange(len(order), dtype=np.float64)
    return np.where(np.isneginf(score), -np.inf, priority)


def n_recent(times: np.ndarray, journal: Journal, days: float) -> int:
    """How many of these moments, in order of time, lie in the last days."""
    return int(len(times) - np.searchsorted(times, journal.as_of - days))


def fading_sum(times: np.ndarray, as_of: float, days: float, values: Any = 1.0) -> float:
    """Sum of values at these moments, each forgotten with a time constant of so many days."""
    return float((np.exp((times - as_of) / days) * values).sum())
