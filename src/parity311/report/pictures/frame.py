"""What charts with two axes share: legend, frame, notes, the empty picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parity311.report.pictures.axis import Scale, Ticks
from parity311.report.pictures.style import LABEL_SIZE, NARROW_BELOW, TICK_SIZE
from parity311.report.pictures.svg import LINE_HEIGHT, Canvas, Look, text_width, wrap_text

MARGIN = 6.0
"""Units kept free along the edges of a picture."""
SAMPLE_WIDTH = 30.0
"""Length of the line sample, or twice the room of a mark, before a name in a legend."""
NOT_AVAILABLE = "Not available"
MAX_LISTED = 6
"""Missing items named one by one; the rest are counted."""


def is_narrow(width: float) -> bool:
    """Whether a chart of this width is drawn for a phone."""
    return width < NARROW_BELOW


@dataclass(frozen=True)
class Frame:
    """The plotting area of a chart with two axes, in units."""

    left: float
    top: float
    right: float
    bottom: float
    x: Scale
    y: Scale


def make_frame(
    left: float, top: float, right: float, bottom: float, x_ticks: Ticks, y_ticks: Ticks
) -> Frame:
    """Return a frame whose scales span its ticks."""
    x = Scale(x_ticks.lower, x_ticks.upper, left, right)
    y = Scale(y_ticks.lower, y_ticks.upper, bottom, top)
    return Frame(left, top, right, bottom, x, y)


def draw_grid(canvas: Canvas, frame: Frame, x_ticks: Ticks, y_ticks: Ticks) -> None:
    """Draw horizontal grid lines with their labels, the baseline and the horizontal ticks."""
    for value, label in zip(y_ticks.positions, y_ticks.labels, strict=True):
        y = frame.y(value)
        canvas.line(frame.left, y, frame.right, y, "grid")
        style = "muted"
        canvas.text(frame.left - 8, y + 4, label, anchor="end", style=style, size=TICK_SIZE)
    canvas.line(frame.left, frame.bottom, frame.right, frame.bottom, "axis")
    for value, label in zip(x_ticks.positions, x_ticks.labels, strict=True):
        x = frame.x(value)
        canvas.line(x, frame.bottom, x, frame.bottom + 5, "axis")
        place_label(canvas, x, frame.bottom + 18, label)


def place_label(canvas: Canvas, x: float, y: float, label: str, style: str = "muted") -> None:
    """Write a short label centred on x, moved inwards where it would leave the picture."""
    half = text_width(label, TICK_SIZE) / 2
    inside = min(max(x, half + 1), canvas.width - half - 1)
    canvas.text(inside, y, label, anchor="middle", style=style, size=TICK_SIZE)


def draw_axis_title(
    canvas: Canvas, x: float, y: float, label: str, max_width: float, anchor: str = "start"
) -> float:
    """Write what an axis shows, wrapped; return the y below it."""
    if not label:
        return y
    lines = wrap_text(label, TICK_SIZE, max_width)
    return canvas.lines(x, y, lines, anchor=anchor, size=TICK_SIZE) + 8


def draw_legend(
    canvas: Canvas, y: float, names: Sequence[str], kind: str, looks: Sequence[Look] = ()
) -> float:
    """Draw names with a sample (`mark`, `line` or `bar`), wrapped; return the y below."""
    x, top = MARGIN, y
    size = LABEL_SIZE
    for i, name in enumerate(names):
        look = looks[i] if looks else Look(i)
        sample = SAMPLE_WIDTH if kind == "line" else 18.0
        lines = wrap_text(name, size, canvas.width - 2 * MARGIN - sample)
        width = sample + max(text_width(line, size) for line in lines)
        if x > MARGIN and x + width > canvas.width - MARGIN:
            x, top = MARGIN, top + 21
        _draw_sample(canvas, look, kind, x, top + 8)
        canvas.lines(x + sample, top + 12.5, lines)
        if len(lines) > 1:
            x, top = MARGIN, top + 21 + (len(lines) - 1) * size * LINE_HEIGHT
        else:
            x += width + 18
    return top + 26 if x > MARGIN else top + 5


def _draw_sample(canvas: Canvas, look: Look, kind: str, x: float, y: float) -> None:
    if kind == "bar":
        canvas.hatched(look, x, y - 6, 13, 12)
        return
    if kind == "line":
        canvas.line(x, y, x + 24, y, f"curve l{look.colour}", look.dash)
        canvas.mark(look, x + 12, y, 4.2)
        return
    canvas.mark(look, x + 6, y)


def draw_notes(canvas: Canvas, y: float, notes: Sequence[str]) -> float:
    """Write notes below a chart, wrapped; y is the end of the chart, the new end is returned."""
    for note in notes:
        lines = wrap_text(note, TICK_SIZE, canvas.width - 2 * MARGIN)
        y = canvas.lines(MARGIN, y + 16, lines, style="muted", size=TICK_SIZE) + 2
    return y


def list_missing(items: Sequence[str]) -> list[str]:
    """Return the note that names what is not available, or nothing."""
    if not items:
        return []
    more = f" and {len(items) - MAX_LISTED:,} more" if len(items) > MAX_LISTED else ""
    return [f"{NOT_AVAILABLE}: {'; '.join(items[:MAX_LISTED])}{more}."]


def draw_empty(width: float, title: str, notes: Sequence[str]) -> str:
    """Return a picture that says that there is nothing to draw."""
    canvas = Canvas(width)
    canvas.rect(MARGIN, MARGIN, canvas.width - 2 * MARGIN, 70, "stripe")
    canvas.text(canvas.width / 2, 46, "No data to draw.", anchor="middle", style="muted")
    end = draw_notes(canvas, 80, notes)
    return canvas.finish(end + MARGIN, title, " ".join(["No data to draw.", *notes]))
