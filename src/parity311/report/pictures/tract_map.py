"""A map of small cells at their longitude and latitude, in a few classes from low to high.

Classes differ in lightness and in size, so that they print in grey and read without colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parity311.number_text import format_interval, format_value
from parity311.report.pictures.axis import Axis
from parity311.report.pictures.data import Cell
from parity311.report.pictures.frame import MARGIN, draw_empty, draw_notes, is_narrow
from parity311.report.pictures.style import LABEL_SIZE, N_CLASSES, TICK_SIZE, WIDE_WIDTH
from parity311.report.pictures.svg import Canvas, text_width, wrap_text

SIGNED_SIZES = (1.0, 0.85, 0.5, 0.85, 1.0)
"""Size by class where values have a sign: the larger the change, the larger the mark."""
CLASS_SIZES = (0.62, 0.72, 0.82, 0.91, 1.0)
"""Size of a cell by class, as a share of the largest."""
MISSING_SIZE = 0.62
WIDE_HEIGHT = 520.0
NARROW_HEIGHT = 340.0
LEGEND_WIDTH = 200.0
RADIUS_RANGE = (1.7, 9.0)
"""Units; smaller cells cannot be seen, larger ones hide how coarse the map is."""


@dataclass(frozen=True)
class _Class:
    """One class of values with the indices of its cells; index 0 is `not available`."""

    index: int
    label: str
    members: tuple[int, ...]
    is_signed: bool = False
    """Whether classes run from less over about the same to more."""

    @property
    def style(self) -> str:
        return f"cell {'c' if self.is_signed and self.index else 'm'}{self.index}"

    def draw(self, x: float, y: float, radius: float) -> str:
        """The mark of a cell: without colour, less points down and more points up."""
        if self.index == 0:
            return _hexagon(x, y, radius * MISSING_SIZE)
        if not self.is_signed:
            return _hexagon(x, y, radius * CLASS_SIZES[self.index - 1])
        size = radius * SIGNED_SIZES[self.index - 1]
        middle = 1 + N_CLASSES // 2
        if self.index == middle:
            return _hexagon(x, y, size)
        return _triangle(x, y, size if self.index > middle else -size)


def tract_map(
    cells: Sequence[Cell],
    *,
    title: str,
    axis: Axis,
    breaks: Sequence[float] = (),
    noun: str = "tracts",
    description: str = "",
    is_signed: bool = False,
    width: float = WIDE_WIDTH,
) -> str:
    """Draw one cell per place; `breaks` are the inner class limits, quintiles where not given.

    `is_signed` draws changes: classes about zero, in two colours and two shapes.
    """
    placed = [c for c in cells if math.isfinite(c.longitude) and math.isfinite(c.latitude)]
    lost = len(cells) - len(placed)
    notes = [f"Not available: {_count(lost, noun)} without a position."] if lost else []
    if not placed:
        return draw_empty(width, title, notes)
    canvas = Canvas(width)
    narrow = is_narrow(width)
    values = [c.value for c in placed]
    if is_signed:
        classes = _classify_signed(values, axis, noun)
    else:
        classes = _classify(values, breaks, axis, noun)
    area = width - 2 * MARGIN - (0 if narrow else LEGEND_WIDTH)
    x, y, bottom = _project(placed, area, NARROW_HEIGHT if narrow else WIDE_HEIGHT)
    radius = _radius(x, y)
    for one in classes:
        d = "".join(one.draw(x[i], y[i], radius) for i in one.members)
        if d:
            canvas.path(d, one.style)
    _draw_group_names(canvas, placed, x, y, area)
    top = bottom + 16 if narrow else MARGIN + 8
    legend_end = _draw_legend(
        canvas, classes, axis, MARGIN if narrow else width - LEGEND_WIDTH, top
    )
    end = draw_notes(canvas, max(bottom, legend_end), notes)
    words = description or f"Map of {len(placed):,} {noun}: {axis.label}."
    counts = "; ".join(one.label for one in classes)
    return canvas.finish(end + MARGIN, title, " ".join([words, f"Classes: {counts}.", *notes]))


def _classify(
    values: Sequence[float], breaks: Sequence[float], axis: Axis, noun: str
) -> list[_Class]:
    array = np.asarray(values, dtype=float)
    is_known = np.isfinite(array)
    known = array[is_known]
    classes: list[_Class] = []
    if known.size:
        limits = _inner_limits(known, breaks)
        which = np.searchsorted(limits, array, side="right")
        indices = _spread_classes(len(limits) + 1)
        edges = [float(known.min()), *limits, float(known.max())]
        for k, index in enumerate(indices):
            members = np.flatnonzero(is_known & (which == k))
            text = _range_text(edges[k], edges[k + 1], axis)
            label = f"{text}: {_count(len(members), noun)}"
            classes.append(_Class(index, label, tuple(members.tolist())))
    if not is_known.all():
        absent = tuple(np.flatnonzero(~is_known).tolist())
        classes.append(_Class(0, f"not available: {_count(len(absent), noun)}", absent))
    return classes


def _classify_signed(values: Sequence[float], axis: Axis, noun: str) -> list[_Class]:
    """Five classes about zero: a tenth of the largest change is about the same, half is much."""
    array = np.asarray(values, dtype=float)
    is_known = np.isfinite(array)
    largest = float(np.abs(array[is_known]).max()) if is_known.any() else 0.0
    classes: list[_Class] = []
    if is_known.any():
        limits = np.array([-0.5, -0.1, 0.1, 0.5]) * largest
        which = np.searchsorted(limits, array, side="right") if largest else np.full(len(array), 2)
        for k in range(N_CLASSES):
            members = np.flatnonzero(is_known & (which == k))
            if len(members):
                edges = float(array[members].min()), float(array[members].max())
                label = f"{_range_text(*edges, axis)}: {_count(len(members), noun)}"
                classes.append(_Class(k + 1, label, tuple(members.tolist()), is_signed=True))
    if not is_known.all():
        absent = tuple(np.flatnonzero(~is_known).tolist())
        classes.append(_Class(0, f"not available: {_count(len(absent), noun)}", absent))
    return classes


def _inner_limits(known: np.ndarray, breaks: Sequence[float]) -> list[float]:
    if breaks:
        return sorted(float(b) for b in breaks)[: N_CLASSES - 1]
    quantiles = np.quantile(known, np.arange(1, N_CLASSES) / N_CLASSES)
    limits: list[float] = []
    below = float(known.min())
    for limit in np.unique(quantiles).tolist():
        # A limit that no value lies under would make an empty class.
        if np.any((known >= below) & (known < limit)) and np.any(known >= limit):
            limits.append(limit)
            below = limit
    return limits


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun.removesuffix('s') if n == 1 else noun}"


def _spread_classes(n: int) -> list[int]:
    """Indices of n classes out of five; few classes still span the scale."""
    if n == 1:
        return [3]
    return [1 + round(k * (N_CLASSES - 1) / (n - 1)) for k in range(n)]


def _range_text(low: float, high: float, axis: Axis) -> str:
    if low == high:
        return format_value(low, axis.number_format)
    return format_interval(low, high, axis.number_format)


def _project(
    cells: Sequence[Cell], width: float, max_height: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return units of every cell and the lower edge; equal distances look equal at mid-latitude."""
    longitude = np.asarray([c.longitude for c in cells], dtype=float)
    latitude = np.asarray([c.latitude for c in cells], dtype=float)
    east = longitude * math.cos(math.radians(float(latitude.mean())))
    margin = RADIUS_RANGE[1] + 2
    span_x, span_y = float(np.ptp(east)), float(np.ptp(latitude))
    room_x, room_y = width - 2 * margin, max_height - 2 * margin
    scale = min(
        room_x / span_x if span_x > 0 else math.inf, room_y / span_y if span_y > 0 else math.inf
    )
    scale = 1.0 if math.isinf(scale) else scale
    left = MARGIN + margin + (room_x - scale * span_x) / 2
    x = left + (east - east.min()) * scale
    y = MARGIN + margin + (latitude.max() - latitude) * scale
    return x, y, MARGIN + 2 * margin + scale * span_y


def _radius(x: np.ndarray, y: np.ndarray) -> float:
    """Half the usual distance of a cell to its nearest neighbour, a little more."""
    low, high = RADIUS_RANGE
    if len(x) < 2:
        return high
    sample = slice(None, None, max(1, len(x) // 300))
    squared = (x[sample, None] - x) ** 2 + (y[sample, None] - y) ** 2
    nearest = np.sqrt(np.partition(squared, 1, axis=1)[:, 1])
    return float(np.clip(0.62 * np.median(nearest), low, high))


def _hexagon(x: float, y: float, radius: float) -> str:
    half, side = 0.5 * radius, math.sqrt(0.75) * radius
    steps = ((side, half), (0, radius), (-side, half), (-side, -half), (0, -radius))
    path = "l".join(f"{dx:.1f} {dy:.1f}" for dx, dy in steps)
    return f"M{x:.1f} {y - radius:.1f}l{path}z"


def _triangle(x: float, y: float, size: float) -> str:
    """A triangle that points up, or down where the size is negative."""
    side = math.sqrt(0.75) * abs(size)
    return f"M{x:.1f} {y - size:.1f}l{side:.1f} {1.5 * size:.1f}l{-2 * side:.1f} 0z"


def _draw_group_names(
    canvas: Canvas, cells: Sequence[Cell], x: np.ndarray, y: np.ndarray, right: float
) -> None:
    groups = list(dict.fromkeys(c.group for c in cells if c.group))
    taken: list[tuple[float, float, float]] = []
    for group in groups:
        members = [i for i, c in enumerate(cells) if c.group == group]
        half = text_width(group, LABEL_SIZE, is_bold=True) / 2
        centre = min(max(float(np.median(x[members])), half + MARGIN), right - half)
        middle = max(float(np.median(y[members])), 20.0)
        while any(abs(middle - b) < 18 and abs(centre - a) < half + h for a, b, h in taken):
            middle += 6
        taken.append((centre, middle, half))
        canvas.text(centre, middle, group, anchor="middle", style="ink bold halo")


def _draw_legend(
    canvas: Canvas, classes: Sequence[_Class], axis: Axis, x: float, y: float
) -> float:
    lines = wrap_text(axis.label, LABEL_SIZE, canvas.width - x - MARGIN, is_bold=True)
    y = canvas.lines(x, y + 6, lines, style="ink bold") + 6
    for one in classes:
        y += 22
        canvas.path(one.draw(x + 9, y - 4.5, 9), one.style)
        text = wrap_text(one.label, TICK_SIZE, canvas.width - x - 26 - MARGIN)
        y = canvas.lines(x + 26, y, text, size=TICK_SIZE)
    return y + 8
