"""The frontier as one page from which a point is chosen: no network, one script, one style.

The frontier as a picture whose marks can be chosen, with a mouse or a keyboard.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any
from xml.sax.saxutils import escape

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from parity311.evaluation.frontier_figures import NOTHING
from parity311.evaluation.titles import TODAY, policy_title
from parity311.number_text import format_interval, format_value
from parity311.report.page import embed_svg
from parity311.report.pictures import Line, line_chart
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
from parity311.report.pictures.style import DARK, LIGHT, TICK_SIZE, picture_css
from parity311.report.pictures.svg import Canvas, Look, text_width
from parity311.report.store import RunWriter
from parity311.storage.disk import write_bytes_through

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


PAGE = "frontier.html"
COLUMNS = (
    "point", "α speed", "α cost", "α equity", "α retention", "speed", "cost", "gap", "recall",
    "visits per complaint", "price of equity", "floor of the price",
)  # fmt: skip


def write_page(run: RunWriter, found: Mapping[str, Any]) -> None:
    """Draw the pictures, keep them in the run, and write the page beside its figures."""
    charts = {
        "frontier_recall": _scatter(found, "gap", "recall"),
        "frontier_speed": _scatter(found, "visits", "speed"),
        "price_curve": _price_chart(found),
    }
    for name, svg in charts.items():
        run.add_picture(name, svg)
    page = render(found, charts)
    write_bytes_through(run.path / PAGE, page.encode())


def render(found: Mapping[str, Any], charts: Mapping[str, str]) -> str:
    """The whole page as HTML."""
    environment = _environment()
    css = environment.get_template("report.css.j2").render(light=LIGHT, dark=DARK)
    css += picture_css() + files("parity311.report").joinpath("templates/frontier.css").read_text()
    script = files("parity311.report").joinpath("templates/frontier.js").read_text()
    captions = {
        "frontier_recall": "Up and to the left is better: more found, smaller gap.",
        "frontier_speed": "Up and to the left is better: more speed, fewer visits.",
    }
    titles = {"frontier_recall": "Recall against gap", "frontier_speed": "Speed against visits"}
    return environment.get_template("frontier.html.j2").render(
        found=found,
        title=found["domain"].replace("_", " ").capitalize(),
        summary=summarise_in_words(found),
        setting=_say_setting(found),
        warning=_say_correction(found),
        coverage="estimated" if found.get("is_real") else "true",
        css=Markup(css),
        script=Markup(script),
        style_hash=_digest(css),
        script_hash=_digest(script),
        columns=COLUMNS,
        pictures=[
            {"title": titles[name], "svg": embed_svg(charts[name], f"{name}_", ""),
             "caption": caption}
            for name, caption in captions.items()
        ],
        curve=embed_svg(charts["price_curve"], "price_curve_", ""),
        most_gap=_round_up(max(point["gap"]["value"] for point in found["points"])),
        most_visits=_round_up(max(point["visits"]["value"] for point in found["points"])),
        price_words=_price_words(found),
        sensitivity_words=_sensitivity_words(found),
        nothing=NOTHING,
    )  # fmt: skip


def _round_up(value: float) -> float:
    """The next thousandth: the end of a slider that hides nothing."""
    return math.ceil(1000 * value) / 1000


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("parity311.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["written"] = format_value
    environment.filters["policy_title"] = policy_title
    environment.filters["bounds"] = lambda figure, number_format, decimals: format_interval(
        figure["lower"], figure["upper"], number_format, decimals
    )
    return environment


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


AXES = {
    "gap": Axis("coverage gap between income quintiles, per incident"),
    "recall": Axis("recall: correct escalations per reported actionable incident", "percent"),
    "visits": Axis("visits per complaint", "percent"),
    "speed": Axis("speed: published reward a step"),
}


def _say_setting(found: Mapping[str, Any]) -> str:
    """Which process the points were scored in; only a synthetic city has a true one."""
    scored = (
        "scored in the process as all records give it, which nobody knows to be the true one"
        if found.get("is_real")
        else "scored in what really happens from then on"
    )
    return (
        f"{found['setting'].capitalize()}; learned before {found['test_from']}, {scored}. "
        f"{found['seeds']} seeds, agent {found['agent']}."
    )


def is_known(found: Mapping[str, Any]) -> bool:
    """Whether gaps may stand as figures: on real records they divide by an estimate."""
    return not (found.get("is_real") and found.get("correction", {}).get("is_wide"))


def _say_correction(found: Mapping[str, Any]) -> str:
    """On real records, which estimate coverage rests on, what failed, and how well it is known."""
    correction = found.get("correction")
    if not found.get("is_real") or correction is None:
        return ""
    words = [f"Incidents by estimator {correction['estimator']}."]
    if correction["estimator"] == "raw":
        words = ["Complaints stand for incidents (raw): what nobody reported is not counted."]
    words += [
        f"{name} could not be fitted: {reason}"
        for name, reason in correction["failed_estimators"].items()
    ]
    if not is_known(found):
        factor = correction["incidents_known_within"]
        within = "not bounded" if factor is None else f"known only within a factor of {factor:.0f}"
        words.append(f"Their number is {within}: read gaps as an order of points, not as figures.")
    return " ".join(words)


def _scatter(found: Mapping[str, Any], x: str, y: str) -> str:
    return draw_points(
        found["points"], found["rules"], x=(x, AXES[x]), y=(y, AXES[y]),
        title=f"{AXES[y].label}, against {AXES[x].label}", today=TODAY,
    )  # fmt: skip


def _price_chart(found: Mapping[str, Any]) -> str:
    rows = [row for row in found["price_curve"] if (row["price"] or {}).get("value") is not None]
    nothing = float("nan")
    lines = [
        Line(
            "learned",
            [row["gap"] for row in rows],
            [row["price"]["value"] for row in rows],
            [nothing if row["price"]["lower"] is None else row["price"]["lower"] for row in rows],
            [nothing if row["price"]["upper"] is None else row["price"]["upper"] for row in rows],
        )
    ]
    floors = [row for row in found["price_curve"] if row["floor"] is not None]
    if floors:
        lines.append(Line("floor", [r["gap"] for r in floors], [r["floor"] for r in floors]))
    return line_chart(
        lines,
        title="Price of equity against the largest gap allowed",
        x_axis=Axis("coverage gap at most"),
        y_axis=Axis("correct escalations given up at equal visits", "percent", includes=(0.0,)),
    )


def _say(figure: Mapping[str, Any] | None, number_format: Any = "percent") -> str:
    if figure is None or figure["value"] is None:
        return "out of reach"
    text = format_value(figure["value"], number_format)
    bounds = format_interval(figure["lower"], figure["upper"], number_format)
    return f"{text} ({bounds})" if bounds else text


def summarise_in_words(found: Mapping[str, Any]) -> list[str]:
    """What was found, first sentence first."""
    today = next(rule for rule in found["rules"] if rule["name"] == TODAY)
    knee = found["points"][found["knee"]]
    gaps = [
        f", gap {_say(one['gap'], 'number')}" if is_known(found) else "" for one in (today, knee)
    ]
    return [
        f"{found['n_best']} of {len(found['points'])} preferences are beaten by nothing in speed, "
        f"cost and gap together. They dominate {_say(found['hypervolume'])} of the box between the "
        "worst rule and the best of everything.",
        f"Today's rule: recall {_say(today['recall'])}{gaps[0]}, visits for "
        f"{_say(today['visits'])} of complaints. The point nearest to the best of everything is "
        f"number {found['knee']}: recall {_say(knee['recall'])}{gaps[1]}, visits for "
        f"{_say(knee['visits'])} of complaints.",
        f"To cover every rule in every objective, {_say(found['additive_epsilon'], 'number')} of "
        "the box would have to be added to the menu (additive ε; below zero there is room to "
        "spare).",
    ]


def _price_words(found: Mapping[str, Any]) -> str:
    floor = found["floor_at_target"]
    visits = f"At about today's visits ({found['n_near_today']} preferences)"
    if not found.get("has_near_today", True):
        visits = "No preference makes about as many visits as today's rule; among all "
        visits += f"{found['n_near_today']}"
    words = (
        f"{visits}, a gap of at most 0.05 costs {_say(found['price_at_target'])} of correct "
        "escalations"
    )
    words += f"; the floor is {format_value(floor, 'percent')}." if floor is not None else "."
    rule = found.get("dual_rule")
    if rule is not None:
        words += (
            f" The dual-threshold rule, which learns nothing, has a gap of "
            f"{_say(rule['gap'], 'number')} at a price of {_say(rule['price'])} a visit."
        )
    return words


def _sensitivity_words(found: Mapping[str, Any]) -> str:
    if not found["sensitivity"]:
        return ""
    nothing = next(row for row in found["sensitivity"] if row["assumption"] == NOTHING)
    return (
        f"What moves it most: {found['most_moving']}. With nothing changed but the seed of "
        f"training, it moves by {format_value(nothing['moves'], 'percent')}: less than that says "
        "nothing."
    )
