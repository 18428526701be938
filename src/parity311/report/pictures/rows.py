"""Charts with one row per label: intervals and bars, drawn sideways so that any label fits.

Estimates sorted by value: how far apart are they, beside how sure we are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parity311.number_text import format_interval, format_value
from parity311.report.pictures.axis import Axis, Scale, Ticks, choose_ticks, fit_ticks
from parity311.report.pictures.data import Estimate, Reference, Series
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


LABEL_SHARE = 0.34
"""Share of a wide chart that labels may take before they wrap."""
SERIES_STEP = 17.0
"""Units between two series of the same row."""


@dataclass(frozen=True)
class _Row:
    label: str
    cells: tuple[Estimate | None, ...]
    """One estimate per series; None where a series has no such label."""


@dataclass(frozen=True)
class _Layout:
    """Columns of a row chart, in units; in a narrow one labels stand above the plot."""

    label_lines: tuple[tuple[str, ...], ...]
    value_texts: tuple[str, ...]
    left: float
    right: float
    ticks: Ticks
    is_narrow: bool


def interval_plot(
    series: Sequence[Series],
    *,
    title: str,
    axis: Axis,
    reference: Reference | None = None,
    description: str = "",
    width: float = WIDE_WIDTH,
) -> str:
    """Draw a dot with its interval for every label and series."""
    return _row_chart(series, title, axis, reference, description, width, _draw_interval, "mark")


def bar_chart(
    series: Sequence[Series],
    *,
    title: str,
    axis: Axis,
    reference: Reference | None = None,
    description: str = "",
    width: float = WIDE_WIDTH,
) -> str:
    """Draw a bar from zero with its interval for every label and series."""
    from_zero = Axis(axis.label, axis.number_format, (*axis.includes, 0.0))
    return _row_chart(series, title, from_zero, reference, description, width, _draw_bar, "bar")


def _row_chart(
    series: Sequence[Series],
    title: str,
    axis: Axis,
    reference: Reference | None,
    description: str,
    width: float,
    draw: Callable[[Canvas, Scale, Look, Estimate, float], None],
    sample: str,
) -> str:
    rows = _collect_rows(series)
    missing = [_name_missing(s, e, len(series) > 1) for s, e in _missing(series)]
    if not any(e.is_available for s in series for e in s.estimates):
        return draw_empty(width, title, list_missing(missing))
    canvas = Canvas(width)
    layout = _plan(rows, series, axis, reference, width)
    scale = Scale(layout.ticks.lower, layout.ticks.upper, layout.left, layout.right)
    y = draw_legend(canvas, MARGIN, [s.name for s in series], sample) if len(series) > 1 else MARGIN
    top = _draw_reference_label(canvas, scale, reference, y)
    heights = [_row_height(layout, i, len(series)) for i in range(len(rows))]
    bottom = top + sum(heights)
    _draw_tick_labels(canvas, scale, layout.ticks, bottom)
    if not layout.is_narrow:
        _draw_tick_lines(canvas, scale, layout.ticks, reference, top, bottom)
    for i, row in enumerate(rows):
        if layout.is_narrow:  # the lines keep clear of the label above the row's plot
            end = top + heights[i]
            begin = end - len(series) * SERIES_STEP - 7
            _draw_tick_lines(canvas, scale, layout.ticks, reference, begin, end)
        _draw_row(canvas, layout, scale, row, i, top, heights[i], draw)
        top += heights[i]
    end = draw_axis_title(
        canvas, layout.left, bottom + 36, axis.label, width - layout.left - MARGIN
    )
    # Missing values are named in their own row; only the words of the description list them again.
    end = draw_notes(canvas, max(end, bottom + 24), [])
    words = description or _describe(rows, series, axis, reference)
    return canvas.finish(end + MARGIN, title, " ".join([words, *list_missing(missing)]))


def _collect_rows(series: Sequence[Series]) -> list[_Row]:
    labels = list(dict.fromkeys(e.label for s in series for e in s.estimates))
    by_label = [{e.label: e for e in s.estimates} for s in series]
    return [_Row(label, tuple(known.get(label) for known in by_label)) for label in labels]


def _missing(series: Sequence[Series]) -> list[tuple[Series, Estimate]]:
    return [(s, e) for s in series for e in s.estimates if not e.is_available]


def _name_missing(series: Series, estimate: Estimate, has_several: bool) -> str:
    name = f"{estimate.label}, {series.name}" if has_several else estimate.label
    return f"{name} ({estimate.reason})" if estimate.reason else name


def _plan(
    rows: Sequence[_Row],
    series: Sequence[Series],
    axis: Axis,
    reference: Reference | None,
    width: float,
) -> _Layout:
    narrow = is_narrow(width)
    values = [v for s in series for e in s.estimates if e.is_available for v in _extent(e)]
    if reference is not None:
        values.append(reference.value)
    texts = tuple(_value_text(row.cells[0], axis) if len(series) == 1 else "" for row in rows)
    value_width = max(text_width(text, TICK_SIZE) for text in texts)
    label_width = width - 2 * MARGIN if narrow else LABEL_SHARE * width
    lines = tuple(tuple(wrap_text(row.label, LABEL_SIZE, label_width)) for row in rows)
    widest = max(text_width(line, LABEL_SIZE) for label in lines for line in label)
    left = MARGIN if narrow else MARGIN + widest + 14
    right = width - MARGIN if narrow else width - MARGIN - (value_width + 12 if value_width else 0)
    ticks = fit_ticks(values, axis, right - left - 20)
    half = text_width(ticks.labels[-1], TICK_SIZE) / 2
    left += text_width(ticks.labels[0], TICK_SIZE) / 2 if narrow else 8
    right = min(right - 8, width - MARGIN - half)
    return _Layout(lines, texts, left, right, ticks, narrow)


def _extent(estimate: Estimate) -> list[float]:
    ends = [estimate.lower, estimate.upper] if estimate.has_interval else []
    return [estimate.value, *ends]


def _value_text(estimate: Estimate | None, axis: Axis) -> str:
    if estimate is None or not estimate.is_available:
        return ""
    value = format_value(estimate.value, axis.number_format)
    interval = format_interval(estimate.lower, estimate.upper, axis.number_format)
    return f"{value} ({interval})" if interval else value


def _row_height(layout: _Layout, index: int, n_series: int) -> float:
    label_height = len(layout.label_lines[index]) * LABEL_SIZE * LINE_HEIGHT
    plot_height = n_series * SERIES_STEP
    if not layout.is_narrow:
        return max(label_height, plot_height) + 13
    return label_height + (_value_needs_line(layout, index) * 16) + plot_height + 14


def _value_needs_line(layout: _Layout, index: int) -> bool:
    """Whether, in a narrow chart, the value text does not fit beside the label's last line."""
    text = layout.value_texts[index]
    if not text:
        return False
    used = text_width(layout.label_lines[index][-1], LABEL_SIZE) + text_width(text, TICK_SIZE)
    return used + 16 > layout.right - MARGIN + 8


def _draw_reference_label(
    canvas: Canvas, scale: Scale, reference: Reference | None, y: float
) -> float:
    if reference is None:
        return y + 4
    x = scale(reference.value)
    lines = wrap_text(reference.label, TICK_SIZE, 0.6 * canvas.width)
    half = max(text_width(line, TICK_SIZE) for line in lines) / 2
    inside = min(max(x, half + MARGIN), canvas.width - half - MARGIN)
    last = canvas.lines(inside, y + 12, lines, anchor="middle", style="muted", size=TICK_SIZE)
    return last + 7


def _draw_tick_labels(canvas: Canvas, scale: Scale, ticks: Ticks, bottom: float) -> None:
    canvas.line(scale.start, bottom, scale.end, bottom, "axis")
    for value, label in zip(ticks.positions, ticks.labels, strict=True):
        if label:
            place_label(canvas, scale(value), bottom + 17, label)


def _draw_tick_lines(
    canvas: Canvas,
    scale: Scale,
    ticks: Ticks,
    reference: Reference | None,
    top: float,
    bottom: float,
) -> None:
    for value in ticks.positions:
        style = "axis" if value == 0 and ticks.lower < 0 else "grid"
        canvas.line(scale(value), top, scale(value), bottom, style)
    if reference is not None:
        canvas.line(scale(reference.value), top, scale(reference.value), bottom, "reference")


def _draw_row(
    canvas: Canvas,
    layout: _Layout,
    scale: Scale,
    row: _Row,
    index: int,
    top: float,
    height: float,
    draw: Callable[[Canvas, Scale, Look, Estimate, float], None],
) -> None:
    lines, value = layout.label_lines[index], layout.value_texts[index]
    plot_height = len(row.cells) * SERIES_STEP
    if layout.is_narrow:
        last = canvas.lines(MARGIN, top + 15, lines)
        if value:
            y = last + 16 * _value_needs_line(layout, index)
            end = canvas.width - MARGIN
            canvas.text(end, y, value, anchor="end", style="muted", size=TICK_SIZE)
        middle = top + height - plot_height / 2 - 5
    else:
        middle = top + height / 2
        first = middle - (len(lines) - 1) * LABEL_SIZE * LINE_HEIGHT / 2 + 4.5
        canvas.lines(layout.left - 16, first, lines, anchor="end")
        if value:
            end = canvas.width - MARGIN
            canvas.text(end, middle + 4, value, anchor="end", style="muted", size=TICK_SIZE)
    for i, estimate in enumerate(row.cells):
        y = middle + (i - (len(row.cells) - 1) / 2) * SERIES_STEP
        if estimate is None:
            continue
        if estimate.is_available:
            draw(canvas, scale, Look(i), estimate, y)
        else:
            _draw_missing(canvas, layout, Look(i), estimate, y, len(row.cells) > 1)


def _draw_missing(
    canvas: Canvas, layout: _Layout, look: Look, estimate: Estimate, y: float, with_mark: bool
) -> None:
    room = canvas.width - MARGIN - layout.left - 20
    text = f"not available: {estimate.reason}" if estimate.reason else "not available"
    first, *rest = wrap_text(text, TICK_SIZE, room)
    x = layout.left + 6
    if with_mark:
        canvas.mark(look, x + 5, y, 4)
        x += 14
    # One line per series: a longer reason is cut here and stands in full in the description.
    canvas.text(x, y + 4, f"{first} …" if rest else first, style="muted halo", size=TICK_SIZE)


def _draw_interval(canvas: Canvas, scale: Scale, look: Look, estimate: Estimate, y: float) -> None:
    if estimate.has_interval:
        low, high = scale(estimate.lower), scale(estimate.upper)
        canvas.line(low, y, high, y, f"interval l{look.colour}")
        for x in (low, high):
            canvas.line(x, y - 3.5, x, y + 3.5, f"interval l{look.colour}")
    canvas.mark(look, scale(estimate.value), y)


def _draw_bar(canvas: Canvas, scale: Scale, look: Look, estimate: Estimate, y: float) -> None:
    zero, end = scale(0.0), scale(estimate.value)
    canvas.hatched(look, min(zero, end), y - 6.5, abs(end - zero), 13)
    if estimate.has_interval:
        low, high = scale(estimate.lower), scale(estimate.upper)
        d = f"M{low:.1f} {y - 3.5:.1f}v7m0-3.5H{high:.1f}m0-3.5v7"
        # A paper-coloured edge keeps the interval visible over its own bar.
        canvas.path(d, "whisker-edge")
        canvas.path(d, "whisker")


def _describe(
    rows: Sequence[_Row], series: Sequence[Series], axis: Axis, reference: Reference | None
) -> str:
    parts = [f"{axis.label or 'Values'} for {len(rows)} rows."]
    for i, one in enumerate(series):
        known = [e for row in rows if (e := row.cells[i]) is not None and e.is_available]
        listed = "; ".join(f"{e.label}: {_value_text(e, axis)}" for e in known[:12])
        more = f"; and {len(known) - 12} more" if len(known) > 12 else ""
        name = f"{one.name}: " if len(series) > 1 else ""
        parts.append(f"{name}{listed}{more}.")
    if reference is not None:
        value = format_value(reference.value, axis.number_format)
        parts.append(f"Reference line, {reference.label}: {value}.")
    return " ".join(parts)
