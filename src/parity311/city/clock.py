"""The generator's clock: days since a Monday as floats, months, weeks, and the weather.

Arrays of times are float64 days since `EPOCH` (naive New York time, no daylight saving); they
become timestamps only when a table is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from parity311.city.randomness import named_generator

EPOCH = date(2001, 1, 1)
"""A Monday, before any record."""

_MICROSECONDS_PER_DAY = 86_400_000_000
_WEATHER_START = date(2006, 1, 1)
_NORMAL_F = 56.0
_NORMAL_COSINE_F = -22.6
_NORMAL_SINE_F = -9.9
_ANOMALY_SD_F = 8.5
_ANOMALY_CORRELATION = 0.67
"""Yearly cosine and AR(1) of New York's daily mean temperature, °F, fitted to the 243 days of
October 2017 to May 2018 (austensen/heatseek-blogs)."""


def day_number(day: date) -> int:
    """Days from `EPOCH` to midnight of this day."""
    return (day - EPOCH).days


def to_date(number: int) -> date:
    """The date of a day number."""
    return EPOCH + timedelta(days=int(number))


def to_timestamps(days: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Timestamps in microseconds, cut to whole seconds; NaN and infinity become NaT."""
    known = np.isfinite(days)
    seconds = np.floor(np.where(known, days, 0.0) * 86_400.0).astype(np.int64)
    stamps = np.datetime64(EPOCH, "us") + (seconds * 1_000_000).astype("timedelta64[us]")
    stamps[~known] = np.datetime64("NaT")
    return stamps


def months_between(first: date, last: date) -> list[tuple[int, int]]:
    """Calendar months (year, month) touched by the days first … last (exclusive)."""
    months = []
    year, month = first.year, first.month
    while date(year, month, 1) < last:
        months.append((year, month))
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    return months


def month_bounds(year: int, month: int) -> tuple[int, int]:
    """Day numbers of a month's first day and of the day after its last."""
    following = date(year + 1, 1, 1) if month == 12 else date(year, month + 1, 1)
    return day_number(date(year, month, 1)), day_number(following)


@dataclass(frozen=True)
class WeekClock:
    """Operational time: runs fast in the hours in which people report, slowly in the others.

    It gains 7 units a week, so a rate per day keeps its meaning over whole weeks.
    """

    cumulative: NDArray[np.float64]
    """(169,) operational time at each full hour of a week, from 0 to 7."""

    @classmethod
    def from_shares(cls, hours: tuple[float, ...], weekdays: tuple[float, ...]) -> WeekClock:
        """Build it from the shares of 24 hours and of 7 weekdays, Monday first."""
        shares = np.outer(weekdays, hours).ravel()
        return cls(np.concatenate([[0.0], np.cumsum(shares / shares.sum())]) * 7.0)

    def to_operational(self, days: NDArray[np.float64]) -> NDArray[np.float64]:
        """Operational time of clock times."""
        week = np.floor(days / 7.0)
        hours = (days - 7.0 * week) * 24.0
        return 7.0 * week + np.interp(hours, np.arange(169.0), self.cumulative)

    def to_clock(self, operational: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clock time of operational times; the inverse of `to_operational`."""
        week = np.floor(operational / 7.0)
        hours = np.interp(operational - 7.0 * week, self.cumulative, np.arange(169.0))
        return 7.0 * week + hours / 24.0


@dataclass(frozen=True)
class Weather:
    """Daily mean temperature, °F, and what is normal for the day."""

    first_day: int
    temperature_f: NDArray[np.float64]
    normal_f: NDArray[np.float64]

    def on(self, day: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Temperature on day numbers."""
        return self.temperature_f[np.asarray(day) - self.first_day]


def draw_weather(seed: int, last: date) -> Weather:
    """Draw the weather from 2006 to a last day; a later last day only appends to it."""
    first, n_days = day_number(_WEATHER_START), max((last - _WEATHER_START).days + 1, 1)
    angle = 2.0 * np.pi * (np.arange(n_days) + 1.0) / 365.25
    normal = _NORMAL_F + _NORMAL_COSINE_F * np.cos(angle) + _NORMAL_SINE_F * np.sin(angle)
    shocks = named_generator(seed, "weather").standard_normal(n_days)
    anomaly = np.empty(n_days)
    anomaly[0] = shocks[0]
    innovation = np.sqrt(1.0 - _ANOMALY_CORRELATION**2)
    for day in range(1, n_days):
        anomaly[day] = _ANOMALY_CORRELATION * anomaly[day - 1] + innovation * shocks[day]
    return Weather(first, normal + _ANOMALY_SD_F * anomaly, normal)
