"""Axes: round ticks for numbers and dates, and scales from values to units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np

from parity311.number_text import NumberFormat, label_ticks
from parity311.report.pictures.style import TICK_SIZE
from parity311.report.pictures.svg import text_width

_MANTISSAS = ((1, 0), (2, 0), (25, -1), (5, 0), (10, 0))
"""Round steps 1, 2, 2.5, 5 and 10 as integer times a power of ten, so that ticks are exact."""
LARGEST = 1e300
"""Values beyond are drawn at this limit: their differences would overflow."""
RELATIVE_SPAN = 1e-9
"""A narrower span than this share of the values cannot be told apart on an axis."""
HARDLY = 0.4
"""Share of a step below which reaching into it does not call for the whole step."""
EPOCH = date(1970, 1, 1)
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
_DAY_STEPS = (1, 2, 7, 14)


@dataclass(frozen=True)
class Axis:
    """What an axis shows and how its numbers are written."""

    label: str = ""
    number_format: NumberFormat = "number"
    includes: tuple[float, ...] = ()
    """Values that must lie on the axis, for instance zero."""


@dataclass(frozen=True)
class Ticks:
    """Tick positions in values, their labels, and the ends of the axis."""

    positions: tuple[float, ...]
    labels: tuple[str, ...]
    lower: float
    upper: float

    @property
    def label_width(self) -> float:
        """Width of the widest label in units."""
        return max((text_width(label, TICK_SIZE) for label in self.labels), default=0.0)

    @property
    def smallest_step(self) -> float:
        """Least distance of two ticks, in values; infinite for a single one."""
        return min((b - a for a, b in pairwise(self.positions)), default=math.inf)


@dataclass(frozen=True)
class Scale:
    """A straight map from values to units."""

    lower: float
    upper: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the unit at which a value is drawn, inside the axis."""
        clamped = min(max(value, self.lower), self.upper)
        share = (clamped / 2 - self.lower / 2) / (self.upper / 2 - self.lower / 2)
        return self.start + share * (self.end - self.start)


def choose_ticks(values: Iterable[float], axis: Axis, max_ticks: int = 6) -> Ticks:
    """Return round ticks and the ends of an axis that enclose all finite values."""
    finite = [_clamp(v) for v in (*values, *axis.includes) if math.isfinite(v)]
    lower, upper = _widen(min(finite, default=0.0), max(finite, default=1.0))
    positions, start, end = _trim(round_ticks(lower, upper, max_ticks), lower, upper)
    labels = tuple(label_ticks(positions, axis.number_format))
    return Ticks(positions, labels, start, end)


def _trim(
    positions: tuple[float, ...], lower: float, upper: float
) -> tuple[tuple[float, ...], float, float]:
    """Cut an outer step that the values hardly reach into; the axis then ends between ticks."""
    step = positions[1] - positions[0]
    start, end = min(positions[0], lower), max(positions[-1], upper)
    if len(positions) > 3 and 0 < positions[1] - lower < HARDLY * step:
        positions, start = positions[1:], lower - 0.05 * step
    if len(positions) > 3 and 0 < upper - positions[-2] < HARDLY * step:
        positions, end = positions[:-1], upper + 0.05 * step
    return positions, start, end


def fit_ticks(values: Iterable[float], axis: Axis, length: float, gap: float = 14.0) -> Ticks:
    """Return as many round ticks as fit along a horizontal axis without touching labels."""
    known = list(values)
    for max_ticks in range(max(3, min(8, int(length // 45))), 2, -1):
        ticks = choose_ticks(known, axis, max_ticks)
        # Labels at the ends may move inwards by about half their width.
        needed = ticks.label_width + max(gap, ticks.label_width / 2 - 8)
        if length * ticks.smallest_step / (ticks.upper - ticks.lower) >= needed:
            return ticks
    ticks = choose_ticks(known, axis, 3)
    # Not even three labels fit: keep the ends' labels only.
    labels = tuple(
        label if i in (0, len(ticks.labels) - 1) else "" for i, label in enumerate(ticks.labels)
    )
    return Ticks(ticks.positions, labels, ticks.lower, ticks.upper)


def round_ticks(lower: float, upper: float, max_ticks: int) -> tuple[float, ...]:
    """Return at most `max_ticks` (at least 3) multiples of a round step that enclose a span."""
    span = upper - lower
    exponent = math.floor(math.log10(span / (max_ticks - 1)))
    for power in range(exponent, exponent + 3):
        for mantissa, shift in _MANTISSAS:
            first = math.floor(_steps(lower, mantissa, power + shift) + 1e-9)
            last = math.ceil(_steps(upper, mantissa, power + shift) - 1e-9)
            if last - first + 1 <= max_ticks:
                indices = range(first, max(last, first + 1) + 1)
                return tuple(_multiple(i, mantissa, power + shift) for i in indices)
    raise AssertionError("a step of a thousand times the span always fits")


def _steps(value: float, mantissa: int, power: int) -> float:
    return value / mantissa / 10.0**power


def _multiple(index: int, mantissa: int, power: int) -> float:
    # Integer arithmetic rounds once, so that three steps of 0.1 are 0.3.
    whole = index * mantissa
    return float(whole * 10**power) if power >= 0 else whole / 10**-power


def _clamp(value: float) -> float:
    return min(max(float(value), -LARGEST), LARGEST)


def _widen(lower: float, upper: float) -> tuple[float, float]:
    magnitude = max(abs(lower), abs(upper))
    if magnitude < 1 / LARGEST:
        return 0.0, 1.0
    if upper - lower > RELATIVE_SPAN * magnitude:
        return lower, upper
    return lower - 0.05 * magnitude, upper + 0.05 * magnitude


def is_date(value: Any) -> bool:
    """Whether a value is a date or a time."""
    return isinstance(value, date | np.datetime64)


def to_days(value: Any) -> float:
    """Return a date or time as days since 1970; NaN where there is none."""
    if value is None:
        return math.nan
    if isinstance(value, np.datetime64):
        microseconds = value.astype("datetime64[us]")
        return math.nan if np.isnat(value) else float(microseconds.astype(np.int64)) / 86_400e6
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (moment - datetime(1970, 1, 1)) / timedelta(days=1)
    return float((value - EPOCH).days)


def write_day(days: float) -> str:
    """Write days since 1970 as a date."""
    return (EPOCH + timedelta(days=math.floor(days))).isoformat()


def fit_date_ticks(days: Sequence[float], length: float, gap: float = 14.0) -> Ticks:
    """Return ticks at the first of round months, or at round days, that fit along an axis."""
    finite = [d for d in days if math.isfinite(d)]
    lower, upper = min(finite, default=0.0), max(finite, default=365.0)
    if upper - lower < 1:
        lower, upper = lower - 1, upper + 1
    for positions, labels in _date_candidates(lower, upper):
        ticks = Ticks(tuple(positions), tuple(labels), lower, upper)
        if length * ticks.smallest_step / (upper - lower) >= ticks.label_width + gap:
            return ticks
    return Ticks((lower,), (write_day(lower),), lower, upper)


def _date_candidates(lower: float, upper: float) -> Iterable[tuple[list[float], list[str]]]:
    if upper - lower <= 70:
        for step in _DAY_STEPS:
            first = math.ceil(lower)
            positions = [float(d) for d in range(first, math.floor(upper) + 1, step)]
            yield positions, [f"{EPOCH + timedelta(days=d):%-d %b %Y}" for d in positions]
    for step in _MONTH_STEPS:
        starts = _month_starts(lower, upper, step)
        if starts:
            pattern = "%Y" if step >= 12 else "%b %Y"
            positions = [float((start - EPOCH).days) for start in starts]
            yield positions, [start.strftime(pattern) for start in starts]


def _month_starts(lower: float, upper: float, step: int) -> list[date]:
    first = EPOCH + timedelta(days=math.ceil(lower))
    last = EPOCH + timedelta(days=math.floor(upper))
    months = range(first.year * 12 // step * step, last.year * 12 + 12, step)
    starts = [date(month // 12, month % 12 + 1, 1) for month in months if month >= 12]
    return [start for start in starts if first <= start <= last]
