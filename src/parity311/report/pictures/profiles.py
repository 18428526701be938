"""Small multiples: month and hour profiles side by side on the same axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from parity311.report.pictures.axis import Axis, Ticks, choose_ticks
from parity311.report.pictures.curves import Curve, describe_curves, draw_curves
from parity311.report.pictures.data import Panel
from parity311.report.pictures.frame import (
    MARGIN,
    draw_axis_title,
    draw_empty,
    draw_legend,
    draw_notes,
    is_narrow,
    list_missing,
    make_frame,
    place_label,
)
from parity311.report.pictures.style import LABEL_SIZE, TICK_SIZE, WIDE_WIDTH
from parity311.report.pictures.svg import LINE_HEIGHT, Canvas, Look, text_width, wrap_text

PANEL_HEIGHT = 88.0
COLUMN_GAP = 18.0


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
    missing = _list_gaps(panels, positions)
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


def _list_gaps(panels: Sequence[Panel], positions: Sequence[str]) -> list[str]:
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
