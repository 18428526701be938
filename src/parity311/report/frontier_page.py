"""The frontier as one page from which a point is chosen: no network, one script, one style."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from parity311.evaluation.frontier_sensitivity import NOTHING
from parity311.evaluation.titles import TODAY, policy_title
from parity311.number_text import format_interval, format_value
from parity311.report.page import embed_svg
from parity311.report.pictures import Axis, Line, line_chart
from parity311.report.pictures.frontier import draw_points
from parity311.report.pictures.style import DARK, LIGHT, picture_css
from parity311.report.store import RunWriter
from parity311.storage.disk import write_bytes_through

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
