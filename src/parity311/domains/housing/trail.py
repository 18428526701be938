"""What the last hours of a backlog were like, and the calendar: what a forecaster looks at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, namespace_of, side_by_side
from parity311.engines.backlog.process import N_CODES, Backlog, BacklogParams
from parity311.engines.backlog.step import Stepped


class Trail(NamedTuple):
    """What the last hours were like."""

    arrivals: jax.Array
    """(24,) cases by hour, the latest first"""
    week_mean: jax.Array
    """() cases an hour, forgetting with a week"""
    recurrence: jax.Array
    """() share of further reports among complaints, forgetting with a day"""
    close_days: jax.Array
    """() age of cases when closed, forgetting with a day of visits"""


def average_trail(params: BacklogParams) -> Trail:
    """The trail of hours that all brought as much as usual."""
    usual = params.cases_per_day.sum() / 24.0
    return Trail(jnp.full(24, usual), usual, jnp.float32(0.0), jnp.float32(7.0))


def follow(trail: Trail, stepped: Stepped) -> Trail:
    """The trail an hour later."""
    n_new, n_repeats = stepped.n_new, stepped.n_repeats
    by_age = stepped.service.closed.sum(axis=0).reshape(N_CODES, -1).sum(axis=0)
    n_closed = by_age.sum()
    age = by_age @ np.arange(by_age.shape[0], dtype=np.float32) / jnp.maximum(n_closed, 1e-6)
    ratio = n_repeats / jnp.maximum(n_new + n_repeats, 1.0)
    return Trail(
        arrivals=jnp.concatenate([n_new[None], trail.arrivals[:-1]]),
        week_mean=trail.week_mean + (n_new - trail.week_mean) / 168.0,
        recurrence=trail.recurrence + (ratio - trail.recurrence) / 24.0,
        close_days=trail.close_days + jnp.where(n_closed > 0, age - trail.close_days, 0.0) / 10.0,
    )


TRAIL_NAMES = (
    "close_time", "lag_1h", "lag_2h", "lag_3h", "lag_24h", "rolling_mean_24h", "rolling_mean_168h",
    "recurrence_ratio", "hour_sin", "hour_cos", "is_weekend", "month_sin", "month_cos",
)  # fmt: skip


def look_back(params: BacklogParams, backlog: Backlog, trail: Trail, n_ages: int) -> jax.Array:
    """Values of `TRAIL_NAMES` (13,): counts in usual hours, closing times in the largest age."""
    usual = params.cases_per_day.sum() / 24.0
    hour = 2.0 * np.pi * (backlog.slot % 24) / 24.0
    month = 2.0 * np.pi * backlog.month / 12.0
    xp = namespace_of(usual, trail.arrivals, trail.close_days)
    lags = side_by_side(*(trail.arrivals[i] for i in (0, 1, 2, 23)))
    means = side_by_side(trail.arrivals.mean(), trail.week_mean)
    calendar = side_by_side(
        trail.recurrence,
        xp.sin(hour),
        xp.cos(hour),
        backlog.slot >= 120,
        xp.sin(month),
        xp.cos(month),
    )
    counts = xp.concatenate([lags, means]) / usual
    return xp.concatenate([xp.asarray(trail.close_days)[None] / n_ages, counts, calendar])
