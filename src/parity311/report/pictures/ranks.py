"""Estimates sorted by value: how far apart are they, beside how sure we are."""

from __future__ import annotations

from collections.abc import Sequence

from parity311.number_text import format_value
from parity311.report.pictures.axis import Axis, Ticks, choose_ticks
from parity311.report.pictures.data import Estimate, Reference, Series
from parity311.report.pictures.frame import (
    MARGIN,
    Frame,
    draw_axis_title,
    draw_grid,
    draw_legend,
    draw_notes,
    is_narrow,
    list_missing,
    make_frame,
)
from parity311.report.pictures.rows import interval_plot
from parity311.report.pictures.style import TICK_SIZE, WIDE_WIDTH
from parity311.report.pictures.svg import LINE_HEIGHT, Canvas, Look, number, wrap_text

MAX_NAMED_ROWS = 40
"""More estimates than this are drawn side by side without their names."""
N_NAMED = 3
"""Highest and lowest named below such a chart."""


def ranked_plot(
    estimates: Sequence[Estimate],
    *,
    title: str,
    axis: Axis,
    reference: Reference | None = None,
    description: str = "",
    width: float = WIDE_WIDTH,
) -> str:
    """Draw estimates from the highest to the lowest with their intervals."""
    known = [e for e in estimates if e.is_available]
    ranked = sorted(known, key=lambda e: (-e.value, e.label))
    missing = [e for e in estimates if not e.is_available]
    if len(ranked) <= MAX_NAMED_ROWS:
        return interval_plot(
            [Series("", [*ranked, *missing])],
            title=title,
            axis=axis,
            reference=reference,
            description=description,
            width=width,
        )
    return _draw_many(ranked, missing, title, axis, reference, description, width)


def _draw_many(
    ranked: Sequence[Estimate],
    missing: Sequence[Estimate],
    title: str,
    axis: Axis,
    reference: Reference | None,
    description: str,
    width: float,
) -> str:
    canvas = Canvas(width)
    kinds = _sort_kinds(ranked, reference)
    counted = [f"{name}: {len(members):,}" for name, members, _ in kinds]
    y = MARGIN
    if reference is not None:
        y = draw_legend(canvas, y, counted, "mark", [look for _, _, look in kinds])
    y = draw_axis_title(canvas, MARGIN, y + 12, axis.label, width - 2 * MARGIN) + 8
    values = [
        v for e in ranked for v in ([e.value, e.lower, e.upper] if e.has_interval else [e.value])
    ]
    if reference is not None:
        values.append(reference.value)
    y_ticks = choose_ticks(values, axis, 6)
    left = MARGIN + y_ticks.label_width + 8
    height = 220.0 if is_narrow(width) else 320.0
    x_ticks = Ticks((), (), 0.0, float(len(ranked) - 1))
    frame = make_frame(left, y, width - MARGIN - 10, y + height, x_ticks, y_ticks)
    draw_grid(canvas, frame, x_ticks, y_ticks)
    for _, members, look in kinds:
        _draw_kind(canvas, frame, members, ranked, look)
    if reference is not None:
        _draw_reference(canvas, frame, reference, axis)
    label = f"{len(ranked):,} estimates, highest first"
    end = draw_axis_title(canvas, left, frame.bottom + 20, label, width - left - MARGIN)
    notes = [*_name_extremes(ranked, axis), *list_missing([e.label for e in missing])]
    end = draw_notes(canvas, end, notes)
    words = [description or f"{axis.label}: {label}.", *counted, *notes]
    return canvas.finish(end + MARGIN, title, " ".join(words))


Kind = tuple[str, list[Estimate], Look]


def _sort_kinds(ranked: Sequence[Estimate], reference: Reference | None) -> list[Kind]:
    """Split estimates by whether their interval lies above, around or below the reference."""
    if reference is None:
        return [("Estimates", list(ranked), Look(0))]
    above = [e for e in ranked if (e.lower if e.has_interval else e.value) > reference.value]
    below = [e for e in ranked if (e.upper if e.has_interval else e.value) < reference.value]
    apart = {id(e) for e in (*above, *below)}
    around = [e for e in ranked if id(e) not in apart]
    kinds = [
        ("Interval above the line", above, Look(1)),
        ("Interval includes the line", around, Look(5)),
        ("Interval below the line", below, Look(0)),
    ]
    return [kind for kind in kinds if kind[1]]


def _draw_kind(
    canvas: Canvas,
    frame: Frame,
    members: Sequence[Estimate],
    ranked: Sequence[Estimate],
    look: Look,
) -> None:
    ranks = {id(e): float(i) for i, e in enumerate(ranked)}
    with_interval = [e for e in members if e.has_interval]
    if with_interval:
        d = "".join(
            f"M{number(frame.x(ranks[id(e)]))} {number(frame.y(e.lower))}"
            f"V{number(frame.y(e.upper))}"
            for e in with_interval
        )
        canvas.path(d, f"hairline l{look.colour}")
    spacing = (frame.right - frame.left) / len(ranked)
    radius = min(3.4, max(1.6, 0.45 * spacing))
    for e in members:
        canvas.mark(look, frame.x(ranks[id(e)]), frame.y(e.value), radius)


def _draw_reference(canvas: Canvas, frame: Frame, reference: Reference, axis: Axis) -> None:
    y = frame.y(reference.value)
    canvas.line(frame.left, y, frame.right, y, "reference")
    text = f"{reference.label}: {format_value(reference.value, axis.number_format)}"
    lines = wrap_text(text, TICK_SIZE, (frame.right - frame.left) * 0.48)
    # Values fall from left to right, so the lower left corner is always free.
    first = min(y + 16, frame.bottom - 6 - (len(lines) - 1) * TICK_SIZE * LINE_HEIGHT)
    canvas.lines(frame.left + 6, first, lines, style="ink halo", size=TICK_SIZE)


def _name_extremes(ranked: Sequence[Estimate], axis: Axis) -> list[str]:
    def name(estimates: Sequence[Estimate]) -> str:
        return "; ".join(
            f"{e.label}, {format_value(e.value, axis.number_format)}" for e in estimates
        )

    return [f"Highest: {name(ranked[:N_NAMED])}.", f"Lowest: {name(ranked[-N_NAMED:][::-1])}."]
