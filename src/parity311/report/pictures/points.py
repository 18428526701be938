"""Labelled points: achieved against target, gap against reward with the non-dominated line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from parity311.number_text import format_value
from parity311.report.pictures.axis import Axis, choose_ticks, fit_ticks
from parity311.report.pictures.data import Point
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
)
from parity311.report.pictures.style import TICK_SIZE, WIDE_WIDTH
from parity311.report.pictures.svg import Canvas, Look, number, text_width

MARK_RADIUS = 5.0
Box = tuple[float, float, float, float]
"""left, top, right, bottom in units."""


@dataclass
class _Room:
    """Where labels may go: inside the picture, clear of marks and of each other."""

    bounds: Box
    taken: list[Box] = field(default_factory=list)

    def place(
        self, x: float, y: float, text: str, above: float = 0.0, below: float = 0.0
    ) -> tuple[float, float, str] | None:
        """Return the free place (x, baseline, anchor) nearest to a mark, or None.

        `above` and `below` say how far the mark's interval reaches.
        """
        width = text_width(text, TICK_SIZE)
        for dx, dy, anchor in (*_BESIDE, *_around(above, below)):
            start = {"start": 0.0, "middle": -width / 2, "end": -width}[anchor] + x + dx
            box = (start, y + dy - TICK_SIZE * 0.82, start + width, y + dy + TICK_SIZE * 0.28)
            if self._is_free(box):
                self.taken.append(box)
                return x + dx, y + dy, anchor
        return None

    def _is_free(self, box: Box) -> bool:
        left, top, right, bottom = self.bounds
        if box[0] < left or box[1] < top or box[2] > right or box[3] > bottom:
            return False
        return not any(_touch(box, other) for other in self.taken)


_BESIDE = (
    (9.0, 4.0, "start"),
    (-9.0, 4.0, "end"),
    (7.0, -6.0, "start"),
    (7.0, 14.0, "start"),
    (-7.0, -6.0, "end"),
    (-7.0, 14.0, "end"),
)


def _around(above: float, below: float) -> list[tuple[float, float, str]]:
    """Return offsets above and below a mark with its interval, near ones first."""
    up, down = -max(9.0, above + 6), max(18.0, below + 14)
    rows = (up, down, up - 13, down + 13)
    return [
        (dx, dy, anchor)
        for dy in rows
        for dx, anchor in ((0.0, "middle"), (-8.0, "start"), (8.0, "end"))
    ]


def scatter_plot(
    points: Sequence[Point],
    *,
    title: str,
    x_axis: Axis,
    y_axis: Axis,
    frontier: tuple[str, str] | None = None,
    equality_label: str = "",
    description: str = "",
    width: float = WIDE_WIDTH,
) -> str:
    """Draw labelled points.

    `frontier` names the better direction of x and of y, for instance ("lower", "higher"), and draws
    the line of points that no other point beats in both. `equality_label` names and draws the line
    x = y. Labels without room become numbers with a key below the chart.
    """
    shown = [p for p in points if p.is_available]
    missing = list_missing([p.label for p in points if not p.is_available])
    if not shown:
        return draw_empty(width, title, missing)
    canvas = Canvas(width)
    groups = list(dict.fromkeys(p.group for p in points))
    y = draw_legend(canvas, MARGIN, groups, "mark") if len(groups) > 1 else MARGIN
    y = draw_axis_title(canvas, MARGIN, y + 12, y_axis.label, width - 2 * MARGIN) + 8
    frame = _draw_scatter_frame(canvas, shown, x_axis, y_axis, equality_label, y)
    room = _Room((frame.left + 2, frame.top - 6, canvas.width - MARGIN, frame.bottom - 3))
    best = find_frontier(shown, frontier) if frontier else []
    if frontier and len(best) > 1:
        room.taken += _draw_frontier(canvas, frame, best, frontier)
    for point in shown:
        room.taken += _draw_point(canvas, frame, point, Look(groups.index(point.group)))
    if equality_label:
        room.taken += _draw_equality(canvas, frame, equality_label, room)
    key = _draw_labels(canvas, frame, [p for p in shown if p.is_labelled], room)
    end = draw_axis_title(
        canvas, frame.left, frame.bottom + 37, x_axis.label, width - frame.left - MARGIN
    )
    notes = (
        ["Dashed line: points that no other point beats in both directions."]
        if len(best) > 1
        else []
    )
    end = draw_notes(canvas, max(end, frame.bottom + 24), [*key, *notes, *missing])
    words = description or _describe(shown, x_axis, y_axis, best)
    return canvas.finish(end + MARGIN, title, " ".join([words, *missing]))


def find_frontier(points: Sequence[Point], better: tuple[str, str]) -> list[Point]:
    """Return the points no other point beats in both directions, sorted by x."""
    sign_x, sign_y = (1.0 if direction == "higher" else -1.0 for direction in better)

    def is_beaten(point: Point) -> bool:
        return any(
            sign_x * other.x >= sign_x * point.x
            and sign_y * other.y >= sign_y * point.y
            and (other.x != point.x or other.y != point.y)
            for other in points
        )

    return sorted((p for p in points if not is_beaten(p)), key=lambda p: (p.x, p.y))


def _draw_scatter_frame(
    canvas: Canvas,
    points: Sequence[Point],
    x_axis: Axis,
    y_axis: Axis,
    equality_label: str,
    top: float,
) -> Frame:
    x_values = [v for p in points for v in _level_extent(p)]
    y_values = [v for p in points for v in _extent(p)]
    if equality_label:  # equal scales, else the line x = y means nothing to the eye
        x_values = y_values = [*x_values, *y_values]
    narrow = is_narrow(canvas.width)
    y_ticks = choose_ticks(y_values, y_axis, 6)
    left = MARGIN + y_ticks.label_width + 8
    right = canvas.width - MARGIN - 10
    x_ticks = fit_ticks(x_values, x_axis, right - left)
    frame = make_frame(left, top, right, top + (250.0 if narrow else 360.0), x_ticks, y_ticks)
    draw_grid(canvas, frame, x_ticks, y_ticks)
    return frame


def _extent(point: Point) -> list[float]:
    return [point.y, *([point.y_lower, point.y_upper] if point.has_interval else [])]


def _level_extent(point: Point) -> list[float]:
    return [point.x, *([point.x_lower, point.x_upper] if point.has_level_interval else [])]


def _draw_equality(canvas: Canvas, frame: Frame, label: str, room: _Room) -> list[Box]:
    """Draw the line x = y and its name at the free place nearest to its upper end."""
    low = max(frame.x.lower, frame.y.lower)
    high = min(frame.x.upper, frame.y.upper)
    ends = (frame.x(low), frame.y(low)), (frame.x(high), frame.y(high))
    (x1, y1), (x2, y2) = ends
    canvas.line(x1, y1, x2, y2, "reference")
    steps = [(x1 + k * (x2 - x1) / 30, y1 + k * (y2 - y1) / 30) for k in range(31)]
    line = [(x - 2, y - 2, x + 2, y + 2) for x, y in steps]
    for x, y in reversed(steps[3:]):
        trial = _Room(room.bounds, [*room.taken, *line])
        place = trial.place(x, y, label)
        if place is not None:
            px, py, anchor = place
            canvas.text(px, py, label, anchor=anchor, style="muted halo", size=TICK_SIZE)
            return trial.taken[len(room.taken) :]
    return line


def _draw_frontier(
    canvas: Canvas, frame: Frame, best: Sequence[Point], better: tuple[str, str]
) -> list[Box]:
    """Draw steps: between two points only the worse of both is known to be within reach."""
    x, y = frame.x(best[0].x), frame.y(best[0].y)
    d = f"M{number(x)} {number(y)}"
    boxes: list[Box] = []
    for point in best[1:]:
        new_x, new_y = frame.x(point.x), frame.y(point.y)
        corner = (new_x, y) if better[0] == "lower" else (x, new_y)
        d += f"L{number(corner[0])} {number(corner[1])} {number(new_x)} {number(new_y)}"
        boxes += [_span(x, y, *corner), _span(*corner, new_x, new_y)]
        x, y = new_x, new_y
    canvas.path(d, "curve l5", "5 4")
    return boxes


def _draw_point(canvas: Canvas, frame: Frame, point: Point, look: Look) -> list[Box]:
    x, y = frame.x(point.x), frame.y(point.y)
    r = MARK_RADIUS + 1
    boxes: list[Box] = [(x - r, y - r, x + r, y + r)]
    if point.has_interval:
        low, high = frame.y(point.y_lower), frame.y(point.y_upper)
        canvas.line(x, low, x, high, f"interval l{look.colour}")
        boxes.append(_span(x, low, x, high))
    if point.has_level_interval:
        low, high = frame.x(point.x_lower), frame.x(point.x_upper)
        canvas.line(low, y, high, y, f"interval l{look.colour}")
        boxes.append(_span(low, y, high, y))
    canvas.mark(look, x, y, MARK_RADIUS)
    return boxes


def _span(x1: float, y1: float, x2: float, y2: float) -> Box:
    return min(x1, x2) - 2, min(y1, y2) - 2, max(x1, x2) + 2, max(y1, y2) + 2


def _draw_labels(canvas: Canvas, frame: Frame, points: Sequence[Point], room: _Room) -> list[str]:
    """Write labels where there is room; return the key of those that became numbers."""
    keyed: list[str] = []
    crowded: list[str] = []
    for point in points:
        x, y = frame.x(point.x), frame.y(point.y)
        above = y - frame.y(point.y_upper) if point.has_interval else 0.0
        below = frame.y(point.y_lower) - y if point.has_interval else 0.0
        place = room.place(x, y, point.label, above, below)
        text = point.label
        if place is None:
            text = str(len(keyed) + 1)
            place = room.place(x, y, text, above, below)
            (keyed if place else crowded).append(point.label)
        if place is not None:
            px, py, anchor = place
            canvas.text(px, py, text, anchor=anchor, style="ink halo", size=TICK_SIZE)
    notes: list[str] = []
    if keyed:
        # A no-break space keeps a number with the first word of its name.
        key = "; ".join(f"{i}\u00a0{name}" for i, name in enumerate(keyed, start=1))
        notes.append(f"Numbers: {key}.")
    if crowded:
        notes.append(f"Without a label, for want of room: {'; '.join(crowded)}.")
    return notes


def _touch(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _describe(points: Sequence[Point], x_axis: Axis, y_axis: Axis, best: Sequence[Point]) -> str:
    listed = "; ".join(
        f"{p.label}: {format_value(p.x, x_axis.number_format)}, "
        f"{format_value(p.y, y_axis.number_format)}"
        for p in points[:15]
    )
    more = f"; and {len(points) - 15} more" if len(points) > 15 else ""
    names = ", ".join(p.label for p in best)
    tail = f" Not beaten by another point: {names}." if best else ""
    return f"{x_axis.label} against {y_axis.label}. {listed}{more}.{tail}"
