"""The plain data that charts take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAN = math.nan


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; NaN where undefined, with the reason."""

    label: str
    value: float
    lower: float = NAN
    upper: float = NAN
    reason: str = ""
    """Why the value is not available."""

    @property
    def is_available(self) -> bool:
        """Whether the value can be drawn."""
        return math.isfinite(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval can be drawn."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)


@dataclass(frozen=True)
class Series:
    """Estimates that share a name, a mark and a colour."""

    name: str
    estimates: Sequence[Estimate]


@dataclass(frozen=True)
class Reference:
    """A value to compare with, drawn as a dashed line."""

    value: float
    label: str


@dataclass(frozen=True)
class Line:
    """A curve with an optional band; x is numbers or dates, in drawing order."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    lower: Sequence[float] = ()
    upper: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """One of several small charts: a title and one value per position for each named series."""

    title: str
    values: dict[str, Sequence[float]]


@dataclass(frozen=True)
class Point:
    """A labelled point; points with the same group share a mark and a colour."""

    label: str
    x: float
    y: float
    group: str = ""
    y_lower: float = NAN
    y_upper: float = NAN
    is_labelled: bool = True
    """Whether the label is drawn; among many points, label those that matter."""
    x_lower: float = NAN
    x_upper: float = NAN

    @property
    def is_available(self) -> bool:
        """Whether both coordinates can be drawn."""
        return math.isfinite(self.x) and math.isfinite(self.y)

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the vertical interval can be drawn."""
        return math.isfinite(self.y_lower) and math.isfinite(self.y_upper)

    @property
    def has_level_interval(self) -> bool:
        """Whether both ends of the horizontal interval can be drawn."""
        return math.isfinite(self.x_lower) and math.isfinite(self.x_upper)


@dataclass(frozen=True)
class Cell:
    """A place on the map with its value; `group` names the area it belongs to."""

    longitude: float
    latitude: float
    value: float
    group: str = ""
