"""Designs of service levels as a page: the frontier, today's point, choices, what residents get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parity311.report.levels_page import page_name
from parity311.report.pictures import Axis, Line, Point, line_chart, scatter_plot
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.store import RunWriter

TITLES = {
    "promise": "all requests and incidents, spread between districts",
    "strata": "all requests and incidents, spread between income groups",
    "literature": "as published: the visited by their median, the others at 100 days",
}
PROMISE_COLUMNS = (
    Column("category", "category", number_format="text"),
    Column("district", "district", number_format="text"),
    Column("code", "code", number_format="text"),
    Column("days", "days", number_format="integer", reason="reason"),
    Column("clock", "days of the code", number_format="integer"),
    Column("verdict", "the code's days", number_format="text"),
    Column("visited", "visited at all", number_format="percent"),
    Column("words", "for residents", number_format="text"),
    Column("reason", "note", number_format="text"),
)


def write_design_page(run: RunWriter, found: Mapping[str, Any]) -> Report:
    """Store tables and pictures of a design and return the report that shows them."""
    run.add_table("points", [_flat(point) for point in found["points"]])
    run.add_table("cells", found["cells"])
    sections = [_frontier(run, found), _who(found), _agreement(run, found), _search(run, found)]
    sections += [_promises(run, found, name) for name in found["chosen"]]
    return Report(
        title=f"Service levels that could be kept: {found['domain'].replace('_', ' ')}",
        summary=_summary(found),
        figures=tuple(_figure(found, name) for name in found["chosen"]),
        sections=(*sections, _method(found)),
    )


def _flat(point: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in point.items():
        if isinstance(value, Mapping):
            row |= {name if k == "value" else f"{name}_{k}": v for k, v in value.items()}
        else:
            row[name] = value
    return row


def _change(figure: Mapping[str, float]) -> str:
    return f"{100 * (figure['value'] - 1):+.0f} %"


def _summary(found: Mapping[str, Any]) -> tuple[str, ...]:
    lines = []
    for name in found["chosen"]:
        cost, inequity = found["relative"][name]
        lines.append(
            f"**{name.capitalize()}**: cost {_change(cost)}, inequity {_change(inequity)} against "
            f"today's rule on {found['later_years']} years drawn from {found['later_from']} on, "
            f"which nobody optimised on; better in both in {found['beats_today'][name]:.0%}."
        )
    least = min(found["points"][place]["least_visited"] for place in found["chosen"].values())
    lines.append(
        f"Every choice visits at least {least:.0%} of each category in each district in those "
        f"years (floor {found['floor']:.0%}); today's rule as simulated "
        f"{found['points'][0]['least_visited']:.0%}, as recorded "
        f"{found['history']['least_visited']:.0%}."
    )
    told = found["history"]
    lines.append(
        f"Today's rule as simulated costs {told['simulated_cost_a_request']:,.0f} weighted days a "
        f"request on the past years, with an inequity of {told['simulated_inequity']:,.0f}; waits "
        f"on record, scored alike, {told['cost_a_request']:,.0f} and {told['inequity']:,.0f}. "
        f"Shares visited within some days lie {100 * told['waits_apart']:.0f} points apart in the "
        f"mean, with reviews every {told['review_every']:.0f} days."
    )
    was = found["as_it_was"]
    held = "; ".join(
        f"{name}: cost {100 * (cost - 1):+.0f} %, inequity {100 * (inequity - 1):+.0f} %"
        for name, (cost, inequity) in was["of_record"].items()
    )
    lines.append(
        f"Against what is on record for {was['requests']:,} requests of the later year as it was: "
        f"{held}. What today's rule shows there is the error of the simulation."
    )
    return tuple(lines)


def _figure(found: Mapping[str, Any], name: str) -> KeyFigure:
    cost, inequity = found["relative"][name]
    return KeyFigure(
        f"{name}: inequity against today's rule",
        inequity["value"],
        interval=(inequity["lower"], inequity["upper"]),
        note=f"cost {_change(cost)}",
        number_format="percent",
        tone="good" if found["beats_today"][name] >= 0.95 else "unsure",
    )


def _frontier(run: RunWriter, found: Mapping[str, Any]) -> Section:
    kind = found["losses"]
    points = []
    for number, point in enumerate(found["points"]):
        cost, inequity = point[f"{kind}_cost"], point[f"{kind}_inequity"]
        named = bool(point["name"])
        points.append(
            Point(
                point["name"] or f"design {number}", cost["value"], inequity["value"],
                group="rule" if point["is_rule"] else "chosen" if named else "found",
                y_lower=inequity["lower"] if named else float("nan"),
                y_upper=inequity["upper"] if named else float("nan"),
                x_lower=cost["lower"] if named else float("nan"),
                x_upper=cost["upper"] if named else float("nan"),
                is_labelled=named,
            )
        )  # fmt: skip
    title = "Cost and inequity of designs on later years"
    run.draw(
        "frontier", scatter_plot, points, title=title, x_axis=Axis("cost, weighted days"),
        y_axis=Axis("inequity, weighted days"), frontier=("lower", "lower"),
    )  # fmt: skip
    columns = (
        Column("name", "design", number_format="text"),
        Column(f"{kind}_cost", "cost", lower=f"{kind}_cost_lower", upper=f"{kind}_cost_upper"),
        Column(f"{kind}_inequity", "inequity", lower=f"{kind}_inequity_lower",
               upper=f"{kind}_inequity_upper"),
        Column(f"{kind}_never_share", "of the cost, never visited", number_format="percent"),
        Column("least_visited", "visited in the worst cell", number_format="percent"),
        Column("literature_cost", "cost as published"),
        Column("literature_inequity", "inequity as published"),
    )  # fmt: skip
    picture = Picture(
        "frontier",
        caption="Down and to the left is better. Bars: the middle 90 % of the years drawn.",
        alt=f"{len(points)} designs; the table has every figure.",
        table=TableView("points", columns, caption="All designs, on later years"),
        title=title,
    )
    return Section(
        heading="The frontier",
        text=(f"Losses: {TITLES[kind]}.",),
        pictures=(picture,),
        notes=("Later years: the last on record, and years drawn from its weeks.",),
    )


def _who(found: Mapping[str, Any]) -> Section:
    columns = (
        Column("category", "category", number_format="text"),
        Column("district", "district", number_format="text"),
        Column("n", "requests a year", number_format="integer"),
        Column("today", "visited today", number_format="percent"),
        *(Column(name, name, number_format="percent") for name in found["chosen"]),
    )
    return Section(
        heading="Who is visited",
        text=("A design may look quick because it leaves people out; here is who is visited.",),
        tables=(TableView("cells", columns, caption="Visited share of all requests, by cell"),),
    )


def _agreement(run: RunWriter, found: Mapping[str, Any]) -> Section:
    agreement = found["agreement"]
    rows = [
        {"designs": "all", "correlation": agreement["all"]},
        {"designs": "that visit every cell", "correlation": agreement["visited"]},
    ]
    run.add_table("agreement", rows)
    return Section(
        heading="When the two ways of counting disagree",
        text=(
            "The published loss counts the visited by their median and every other request alike; "
            "ours counts every request until its visit. They part where a design leaves a cell "
            f"nearly unvisited: {agreement['n_poor']} of {len(found['points'])} designs here.",
        ),
        tables=(TableView("agreement", caption="Rank correlation of both costs over designs"),),
    )


def _search(run: RunWriter, found: Mapping[str, Any]) -> Section:
    search = found["search"]
    first, second = search["hypervolume"], search["second_hypervolume"]
    step = search["evaluations"] / max(len(first) - 1, 1)
    spacing = search["second_evaluations"] / max(len(second), 1)
    lines = [
        Line("NSGA-II", [step * i for i in range(len(first))], first),
        Line("differential evolution", [spacing * (i + 1) for i in range(len(second))], second),
    ]
    title = "Share of the box that the designs found so far beat"
    run.draw(
        "search", line_chart, lines, title=title, x_axis=Axis("designs tried"),
        y_axis=Axis("hypervolume", "percent"),
    )  # fmt: skip
    rows = [
        {"optimiser": name, "designs_tried": n, "hypervolume": history[-1]}
        for name, n, history in (
            ("NSGA-II", search["evaluations"], first),
            ("differential evolution, five weights", search["second_evaluations"], second),
        )
    ]
    run.add_table("search", rows)
    half = first[len(first) // 2]
    return Section(
        heading="How far the search got",
        text=(
            f"NSGA-II reached {first[-1]:.1%} of the box after {search['evaluations']:,} designs, "
            f"{half / max(first[-1], 1e-12):.1%} of that with the first half; a second optimiser "
            f"reached {second[-1]:.1%} with {search['second_evaluations']:,}.",
        ),
        pictures=(
            Picture("search", caption="A curve that is flat at its end has little left to find.",
                    alt="Two rising curves.", table=TableView("search"), title=title),
        ),
    )  # fmt: skip


def _promises(run: RunWriter, found: Mapping[str, Any], name: str) -> Section:
    table = page_name("promises", name)
    run.add_table(table, found["promises"][name])
    kept = [row for row in found["promises"][name] if row["days"] is not None]
    return Section(
        heading=f"What {name} could promise",
        text=(
            f"{len(kept)} of {len(found['promises'][name])} cells can be promised a visit for "
            f"{found['share']:.0%} of all requests.",
        ),
        tables=(TableView(table, PROMISE_COLUMNS, caption="Promises, with what residents read"),),
    )


def _method(found: Mapping[str, Any]) -> Section:
    return Section(
        heading="How this was computed",
        text=(
            "Requests of each recorded day wait in cells of district and category. A day's visits "
            "(as many as were made) are split by the design, nearly first come first served within "
            "a cell; a review now and then drops a share of those who wait.",
            f"Incidents nobody reported count as never visited: {found['need']}.",
        ),
        notes=(
            "Weights are assigned by severity code (A 10, B 8, C 6, D 4), not measured.",
            "The simulation knows no lead time, no access and no distance: read differences, not "
            "levels, and check a choice with `sla promise` in the city before it is published.",
        ),
    )
