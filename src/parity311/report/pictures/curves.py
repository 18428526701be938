"""Lines with bands: time series, learning curves, frontiers; small multiples of profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from parity311.number_text import NumberFormat, format_value
from parity311.report.pictures.axis import (
    Axis,
    Ticks,
    choose_ticks,
    fit_date_ticks,
    fit_ticks,
    is_date,
    to_days,
    write_day,
)
from parity311.report.pictures.data import Line, Panel, Reference
from parity311.report.pictures.frame import (
    MARGIN,
    Frame,
    draw_axis_title,
    draw_empty,
    draw_grid,
    draw_legend,
    draw_notes,
    is_narrow,
    list_missing,
    make_frame,
    place_label,
)
from parity311.report.pictures.style import LABEL_SIZE, TICK_SIZE, WIDE_WIDTH
from parity311.report.pictures.svg import LINE_HEIGHT, Canvas, Look, number, text_width, wrap_text

MAX_DIRECT_LABELS = 7
"""More lines than this are named in a legend instead of at their ends."""
MAX_MARKS = 24
"""Curves with more points carry a mark only at some of them."""
NAME_SHARE = 0.26
"""Share of a wide chart that names at line ends may take before they wrap."""
PANEL_HEIGHT = 88.0
COLUMN_GAP = 18.0


@dataclass(frozen=True)
class Curve:
    """A line in numbers: dates as days, missing ends of bands as NaN."""

    name: str
    look: Look
    x: tuple[float, ...]
    y: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def runs(self) -> list[list[int]]:
        """Return the indices of drawable points, split where one is missing."""
        runs: list[list[int]] = [[]]
        for i, (x, y) in enumerate(zip(self.x, self.y, strict=True)):
            if math.isfinite(x) and math.isfinite(y):
                runs[-1].append(i)
            elif runs[-1]:
                runs.append([])
        return [run for run in runs if run]

    def has_band(self, index: int) -> bool:
        """Whether the band is defined at a point."""
        return math.isfinite(self.lower[index]) and math.isfinite(self.upper[index])


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    x_axis: Axis,
    y_axis: Axis,
    reference: Reference | None = None,
    description: str = "",
    width: float = WIDE_WIDTH,
) -> str:
    """Draw lines with their bands over numbers or dates; a missing value leaves a gap."""
    has_dates = any(is_date(x) for line in lines for x in line.x)
    curves = [_to_curve(line, Look(i), has_dates) for i, line in enumerate(lines)]
    missing = _list_gaps(curves, has_dates, x_axis.number_format)
    if not any(curve.runs() for curve in curves):
        return draw_empty(width, title, missing)
    canvas = Canvas(width)
    narrow = is_narrow(width)
    labels_ends = not narrow and 1 < len(curves) <= MAX_DIRECT_LABELS
    y = MARGIN
    if len(curves) > 1 and not labels_ends:
        y = draw_legend(canvas, y, [curve.name for curve in curves], "line")
    name_width = _name_width(curves, width) if labels_ends else 0.0
    y = draw_axis_title(canvas, MARGIN, y + 12, y_axis.label, width - 2 * MARGIN) + 8
    y_ticks = _vertical_ticks(curves, y_axis, reference, 6 if not narrow else 5)
    left = MARGIN + y_ticks.label_width + 8
    right = width - MARGIN - (name_width + 25 if name_width else 10)
    x_ticks = _horizontal_ticks(curves, x_axis, has_dates, right - left)
    height = 300.0 if not narrow else 210.0
    frame = make_frame(left, y, right, y + height, x_ticks, y_ticks)
    draw_grid(canvas, frame, x_ticks, y_ticks)
    _draw_reference(canvas, frame, reference, curves)
    draw_curves(canvas, frame, curves)
    if labels_ends:
        _draw_names(canvas, frame, curves, name_width)
    end = draw_axis_title(canvas, left, frame.bottom + 37, x_axis.label, right - left)
    end = draw_notes(canvas, max(end, frame.bottom + 24), missing)
    words = description or describe_curves(curves, y_axis)
    return canvas.finish(end + MARGIN, title, " ".join([words, *missing]))


def _to_curve(line: Line, look: Look, has_dates: bool) -> Curve:
    n = len(line.y)
    x = tuple(to_days(v) if has_dates else float(v) for v in line.x)
    if len(x) != n:
        raise ValueError(f"line {line.name!r} has {len(x)} x and {n} y; give one x per y")
    lower, upper = (
        tuple(float(v) for v in ends) if len(ends) == n else (math.nan,) * n
        for ends in (line.lower, line.upper)
    )
    return Curve(line.name, look, x, tuple(float(v) for v in line.y), lower, upper)


def _list_gaps(curves: Sequence[Curve], has_dates: bool, number_format: NumberFormat) -> list[str]:
    items: list[str] = []
    for curve in curves:
        places = [x for x, y in zip(curve.x, curve.y, strict=True) if not math.isfinite(y)]
        if not places and curve.y:
            continue
        shown = [
            write_day(x) if has_dates else format_value(x, number_format)
            for x in places[:3]
            if math.isfinite(x)
        ]
        more = f" and {len(places) - 3:,} more" if len(places) > 3 else ""
        name = curve.name or "values"
        items.append(f"{name} at {', '.join(shown)}{more}" if shown else name)
    return list_missing(items)


def _vertical_ticks(
    curves: Sequence[Curve], axis: Axis, reference: Reference | None, max_ticks: int
) -> Ticks:
    values = [v for curve in curves for run in curve.runs() for i in run for v in _extent(curve, i)]
    if reference is not None:
        values.append(reference.value)
    return choose_ticks(values, axis, max_ticks)


def _extent(curve: Curve, index: int) -> list[float]:
    band = [curve.lower[index], curve.upper[index]] if curve.has_band(index) else []
    return [curve.y[index], *band]


def _horizontal_ticks(curves: Sequence[Curve], axis: Axis, has_dates: bool, length: float) -> Ticks:
    values = [curve.x[i] for curve in curves for run in curve.runs() for i in run]
    return fit_date_ticks(values, length) if has_dates else fit_ticks(values, axis, length)


def draw_curves(canvas: Canvas, frame: Frame, curves: Sequence[Curve], radius: float = 4.0) -> None:
    """Draw all bands first, then lines, then marks."""
    for curve in curves:
        for run in curve.runs():
            _draw_band(canvas, frame, curve, run)
    for curve in curves:
        for run in curve.runs():
            d = " ".join(_place(frame, curve.x[i], curve.y[i]) for i in run)
            if len(run) > 1:
                canvas.path(f"M{d}", f"curve l{curve.look.colour}", curve.look.dash)
    for curve in curves:
        indices = [i for run in curve.runs() for i in run]
        for i in _marked(curve, indices):
            canvas.mark(curve.look, frame.x(curve.x[i]), frame.y(curve.y[i]), radius)


def _place(frame: Frame, x: float, y: float) -> str:
    return f"{number(frame.x(x))} {number(frame.y(y))}"


def _marked(curve: Curve, indices: Sequence[int]) -> list[int]:
    if len(indices) <= MAX_MARKS:
        return list(indices)
    # Staggered by series, so that marks of lines on top of each other do not hide one another.
    step = math.ceil(len(indices) / 8)
    kept = set(indices[(curve.look.index * step // 4) % step :: step])
    alone = {run[0] for run in curve.runs() if len(run) == 1}
    return sorted(kept | alone | {indices[-1]})


def _draw_band(canvas: Canvas, frame: Frame, curve: Curve, run: Sequence[int]) -> None:
    with_band = [i for i in run if curve.has_band(i)]
    if len(run) == 1 and with_band:
        x = frame.x(curve.x[run[0]])
        low, high = frame.y(curve.lower[run[0]]), frame.y(curve.upper[run[0]])
        canvas.line(x, low, x, high, f"interval l{curve.look.colour}")
    elif len(with_band) > 1:
        there = [_place(frame, curve.x[i], curve.upper[i]) for i in with_band]
        back = [_place(frame, curve.x[i], curve.lower[i]) for i in reversed(with_band)]
        canvas.path(f"M{' '.join([*there, *back])}z", f"band f{curve.look.colour}")


def _draw_reference(
    canvas: Canvas, frame: Frame, reference: Reference | None, curves: Sequence[Curve]
) -> None:
    if reference is None:
        return
    y = frame.y(reference.value)
    canvas.line(frame.left, y, frame.right, y, "reference")
    lines = wrap_text(reference.label, TICK_SIZE, frame.right - frame.left - 8)
    # Above the line unless the frame ends there.
    first = y - 6 - (len(lines) - 1) * TICK_SIZE * LINE_HEIGHT
    first = y + 15 if first < frame.top + 10 else first
    width = max(text_width(line, TICK_SIZE) for line in lines)
    free_left = _distance(frame, curves, frame.left + 6, frame.left + 6 + width, first)
    free_right = _distance(frame, curves, frame.right - 6 - width, frame.right - 6, first)
    x, anchor = (frame.left + 6, "start") if free_left >= free_right else (frame.right - 6, "end")
    canvas.lines(x, first, lines, anchor=anchor, style="muted halo", size=TICK_SIZE)


def _distance(frame: Frame, curves: Sequence[Curve], left: float, right: float, y: float) -> float:
    """Return how far, in units, the curves stay from a height between two places."""
    near = (
        abs(frame.y(curve.y[i]) - y)
        for curve in curves
        for run in curve.runs()
        for i in run
        if left - 4 <= frame.x(curve.x[i]) <= right + 4
    )
    return min(near, default=math.inf)


def _name_width(curves: Sequence[Curve], width: float) -> float:
    lines = [
        line for curve in curves for line in wrap_text(curve.name, LABEL_SIZE, NAME_SHARE * width)
    ]
    return max(text_width(line, LABEL_SIZE) for line in lines)


def _draw_names(canvas: Canvas, frame: Frame, curves: Sequence[Curve], name_width: float) -> None:
    """Write each name at the end of its line, moved apart where two would touch."""
    ends = [
        (frame.y(curve.y[curve.runs()[-1][-1]]), frame.x(curve.x[curve.runs()[-1][-1]]), curve)
        for curve in curves
        if curve.runs()
    ]
    ends.sort(key=lambda end: (end[0], end[2].look.index))
    names = [wrap_text(curve.name, LABEL_SIZE, name_width + 1) for _, _, curve in ends]
    heights = [len(lines) * LABEL_SIZE * LINE_HEIGHT + 3 for lines in names]
    centres = spread([end[0] for end in ends], heights, frame.top - 8, frame.bottom + 10)
    for (y, x, curve), lines, centre in zip(ends, names, centres, strict=True):
        start = frame.right + 24
        if abs(centre - y) > 2 or x < frame.right - 2:
            points = f"M{number(x + 6)} {number(y)} {number(start - 15)} {number(centre)}"
            canvas.path(points, f"leader l{curve.look.colour}")
            canvas.mark(curve.look, start - 9, centre, 4)
        first = centre - (len(lines) - 1) * LABEL_SIZE * LINE_HEIGHT / 2 + 4.5
        canvas.lines(start if centre != y else frame.right + 10, first, lines)


def spread(
    centres: Sequence[float], heights: Sequence[float], top: float, bottom: float
) -> list[float]:
    """Move labels, sorted by their centres, apart by as little as keeps them from touching."""
    placed: list[float] = []
    edge = top
    for centre, height in zip(centres, heights, strict=True):
        placed.append(max(centre, edge + height / 2))
        edge = placed[-1] + height / 2
    edge = max(bottom, top + sum(heights))
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], edge - heights[i] / 2)
        edge = placed[i] - heights[i] / 2
    return placed


def describe_curves(curves: Sequence[Curve], axis: Axis) -> str:
    """Say in words where each line starts, ends and peaks."""
    parts = [f"{axis.label or 'Values'}, {len(curves)} line{'s' if len(curves) != 1 else ''}."]
    for curve in curves:
        values = [curve.y[i] for run in curve.runs() for i in run]
        if not values:
            continue
        first, last, low, high = (
            format_value(v, axis.number_format)
            for v in (values[0], values[-1], min(values), max(values))
        )
        name = curve.name or "Values"
        parts.append(f"{name}: from {first} to {last}, lowest {low}, highest {high}.")
    return " ".join(parts)


def profile_grid(
    panels: Sequence[Panel],
    positions: Sequence[str],
    *,
    title: str,
    axis: Axis,
    shares_axis: bool = True,
    description: str = "",
    width: float = WIDE_WIDTH,
) -> str:
    """Draw one small chart per panel; `positions` names the months or hours of its values."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.values))
    curves = [_to_curves(panel, names, len(positions)) for panel in panels]
    missing = _list_panel_gaps(panels, positions)
    drawable = [c for of_panel in curves for c in of_panel if c.runs()]
    if not drawable:
        return draw_empty(width, title, missing)
    canvas = Canvas(width)
    top = draw_legend(canvas, MARGIN, names, "line") if len(names) > 1 else MARGIN
    top = draw_axis_title(canvas, MARGIN, top + 12, axis.label, width - 2 * MARGIN) + 4
    n_columns = min(len(panels), 2 if is_narrow(width) else 3)
    column = (width - 2 * MARGIN + COLUMN_GAP) / n_columns
    shared = _ticks(drawable, axis)
    for start in range(0, len(panels), n_columns):
        row = range(start, min(start + n_columns, len(panels)))
        titles = [
            wrap_text(panels[i].title, LABEL_SIZE, column - COLUMN_GAP, is_bold=True) for i in row
        ]
        head = max(len(lines) for lines in titles) * LABEL_SIZE * LINE_HEIGHT
        for place, i in enumerate(row):
            left = MARGIN + place * column
            canvas.lines(left, top + 12, titles[place], style="ink bold")
            ticks = shared if shares_axis else _ticks(curves[i], axis)
            box = (left, top + head + 8, left + column - COLUMN_GAP)
            _draw_panel(canvas, curves[i], positions, ticks, box)
        top += head + PANEL_HEIGHT + 40
    end = draw_notes(canvas, top - 8, missing)
    words = description or " ".join(
        f"{panel.title}: {describe_curves(c, axis)}"
        for panel, c in zip(panels, curves, strict=True)
    )
    return canvas.finish(end + MARGIN, title, " ".join([words, *missing]))


def _to_curves(panel: Panel, names: Sequence[str], n: int) -> list[Curve]:
    curves: list[Curve] = []
    nothing = (math.nan,) * n
    for i, name in enumerate(names):
        values = tuple(float(v) for v in panel.values.get(name, nothing))
        if len(values) != n:
            raise ValueError(f"panel {panel.title!r} has {len(values)} values for {n} positions")
        curves.append(Curve(name, Look(i), tuple(map(float, range(n))), values, nothing, nothing))
    return curves


def _list_panel_gaps(panels: Sequence[Panel], positions: Sequence[str]) -> list[str]:
    items: list[str] = []
    for panel in panels:
        for name, values in panel.values.items():
            places = [p for p, v in zip(positions, values, strict=False) if not math.isfinite(v)]
            if places:
                several = f", {name}" if len(panel.values) > 1 else ""
                where = "all" if len(places) == len(positions) else ", ".join(places[:4])
                more = f" and {len(places) - 4} more" if 4 < len(places) < len(positions) else ""
                items.append(f"{panel.title}{several} ({where}{more})")
    return list_missing(items)


def _ticks(curves: Sequence[Curve], axis: Axis) -> Ticks:
    values = [c.y[i] for c in curves for run in c.runs() for i in run]
    return choose_ticks(values, axis, 4)


def _draw_panel(
    canvas: Canvas,
    curves: Sequence[Curve],
    positions: Sequence[str],
    y_ticks: Ticks,
    box: tuple[float, float, float],
) -> None:
    outer_left, top, right = box
    left = outer_left + y_ticks.label_width + 6
    last = max(1.0, float(len(positions) - 1))
    inset = 5.0
    frame = make_frame(
        left + inset, top, right - inset, top + PANEL_HEIGHT, Ticks((), (), 0.0, last), y_ticks
    )
    for value, label in zip(y_ticks.positions, y_ticks.labels, strict=True):
        y = frame.y(value)
        canvas.line(left, y, right, y, "grid")
        canvas.text(left - 6, y + 4, label, anchor="end", style="muted", size=TICK_SIZE)
    canvas.line(left, frame.bottom, right, frame.bottom, "axis")
    step = _label_step(positions, (right - left) / max(1, len(positions)))
    for i in range(0, len(positions), step):
        half = text_width(positions[i], TICK_SIZE) / 2
        x = frame.x(float(i))
        if i == 0 or x + half <= right + COLUMN_GAP / 2:
            place_label(canvas, x, frame.bottom + 16, positions[i])
    if any(c.runs() for c in curves):
        draw_curves(canvas, frame, curves, radius=2.6)
    else:
        middle = (left + right) / 2
        canvas.text(
            middle, top + 50, "not available", anchor="middle", style="muted", size=TICK_SIZE
        )


def _label_step(positions: Sequence[str], spacing: float) -> int:
    """Every how many positions a label fits: 1, 2, 3, 4, 6 or 12."""
    widest = max((text_width(p, TICK_SIZE) for p in positions), default=0.0)
    for step in (1, 2, 3, 4, 6, 12):
        if step * spacing >= widest + 8:
            return step
    return max(1, len(positions))
