"""The frontier as a picture whose marks can be chosen, with a mouse or a keyboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from parity311.evaluation.titles import policy_title
from parity311.number_text import format_value
from parity311.report.pictures.axis import Axis, choose_ticks, fit_ticks
from parity311.report.pictures.frame import (
    MARGIN,
    Frame,
    draw_axis_title,
    draw_grid,
    draw_legend,
    draw_notes,
    make_frame,
)
from parity311.report.pictures.style import TICK_SIZE
from parity311.report.pictures.svg import Canvas, Look, text_width

WIDTH = 560.0
HEIGHT = 360.0
RADIUS = 5.0
BANDS = ("no weight on equity", "α₃ up to 0.1", "α₃ above 0.1", "rule of thumb")
ROOM = 0.3
"""Share of the points' range around it in which a rule is drawn"""
RULE = 3
"""Place of the rules among the bands"""


def draw_points(
    points: Sequence[Mapping[str, Any]],
    rules: Sequence[Mapping[str, Any]],
    *,
    x: tuple[str, Axis],
    y: tuple[str, Axis],
    title: str,
    today: str,
) -> str:
    """One mark a point, each a link to its row; `x` and `y` name a figure and its axis."""
    canvas = Canvas(WIDTH)
    top = draw_legend(canvas, MARGIN, BANDS, "mark")
    top = draw_axis_title(canvas, MARGIN, top + 12, y[1].label, WIDTH - 2 * MARGIN) + 8
    inside, outside = split_rules(points, rules, (x[0], y[0]))
    everybody = [*points, *inside]
    y_ticks = choose_ticks([one[y[0]]["value"] for one in everybody], y[1])
    left, right = MARGIN + y_ticks.label_width + 8, WIDTH - MARGIN - 10
    x_ticks = fit_ticks([one[x[0]]["value"] for one in everybody], x[1], right - left)
    frame = make_frame(left, top, right, top + HEIGHT, x_ticks, y_ticks)
    draw_grid(canvas, frame, x_ticks, y_ticks)
    # What nothing beats comes last, so that it lies on top.
    for point in sorted(points, key=lambda one: one["is_best"]):
        _draw_choice(canvas, frame, point, x[0], y[0])
    _draw_rules(canvas, frame, inside, x[0], y[0], today)
    end = draw_axis_title(canvas, left, frame.bottom + 37, x[1].label, WIDTH - left - MARGIN)
    if outside:
        names = ", ".join(
            f"{rule['name']} ({format_value(rule[x[0]]['value'], x[1].number_format)}; "
            f"{format_value(rule[y[0]]['value'], y[1].number_format)})"
            for rule in outside
        )
        end = draw_notes(canvas, end, [f"Outside the picture: {names}."])
    words = f"{len(points)} preferences and {len(rules)} rules; the table below has every figure."
    return canvas.finish(end + MARGIN, title, words)


def split_rules(
    points: Sequence[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]], names: tuple[str, str]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Rules that lie near the points, and those so far off that they would press them together."""

    def is_near(rule: Mapping[str, Any]) -> bool:
        for name in names:
            values = [point[name]["value"] for point in points]
            room = ROOM * (max(values) - min(values))
            if not min(values) - room <= rule[name]["value"] <= max(values) + room:
                return False
        return True

    return [rule for rule in rules if is_near(rule)], [rule for rule in rules if not is_near(rule)]


def band_of(point: Mapping[str, Any]) -> int:
    """Which mark a point has, by its weight on equity."""
    weight = point["preference"]["equity"]
    return 0 if weight == 0 else 1 if weight <= 0.1 else 2


def describe_point(point: Mapping[str, Any]) -> str:
    """A point in a line, for who hovers over it or hears it."""
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in point["preference"].items())
    said = (
        f"Point {point['place']} ({weights}): gap {format_value(point['gap']['value'], decimals=3)}"
        f", recall {format_value(point['recall']['value'], 'percent')}, visits "
        f"{format_value(point['visits']['value'], 'percent')}"
    )
    if point["price"]["value"] is not None:
        said += f", price {format_value(point['price']['value'], 'percent')}"
    return said + (", beaten by nothing" if point["is_best"] else "")


def _draw_choice(canvas: Canvas, frame: Frame, point: Mapping[str, Any], x: str, y: str) -> None:
    inner = Canvas(WIDTH)
    place = frame.x(point[x]["value"]), frame.y(point[y]["value"])
    band = band_of(point)
    style = f"mark f{band} l{band}" + ("" if point["is_best"] else " beaten")
    if point["is_knee"]:
        inner.element("circle", class_="hollow ink-line", cx=place[0], cy=place[1], r=RADIUS + 4.5)
    if band == 0:
        inner.element("circle", class_=style, cx=place[0], cy=place[1], r=RADIUS)
    elif band == 1:
        size = 1.76 * RADIUS
        inner.rect(place[0] - size / 2, place[1] - size / 2, size, size, style)
    else:
        a, b, h = place[0], place[1], RADIUS
        inner.path(f"M{a:.2f} {b - 1.15 * h:.2f}L{a + 1.08 * h:.2f} {b + 0.78 * h:.2f}"
                   f"L{a - 1.08 * h:.2f} {b + 0.78 * h:.2f}z", style)  # fmt: skip
    said = describe_point(point)
    content = f"<title>{escape(said)}</title>" + "".join(inner.parts)
    canvas.element(
        "a", content, href=f"#point-{point['place']}", data_mark=str(point["place"]),
        aria_label=said,
    )  # fmt: skip


def _draw_rules(
    canvas: Canvas, frame: Frame, rules: Sequence[Mapping[str, Any]], x: str, y: str, today: str
) -> None:
    """Marks of the rules, with their names where they do not touch."""
    taken: list[tuple[float, float, float]] = []
    for rule in rules:
        left, top = frame.x(rule[x]["value"]), frame.y(rule[y]["value"])
        canvas.mark(Look(RULE), left, top, RADIUS + (2 if rule["name"] == today else 0))
        name = policy_title(rule["name"])
        width = text_width(name, TICK_SIZE)
        fits = left + 9 + width < frame.right
        start = left + 9 if fits else left - 9 - width
        baseline = top + 4
        while any(
            abs(baseline - other) < 12 and start < end and begin < start + width
            for begin, end, other in taken
        ):
            baseline += 12
        taken.append((start, start + width, baseline))
        canvas.text(start, baseline, name, style="ink halo", size=TICK_SIZE)
