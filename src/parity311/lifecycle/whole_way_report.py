"""The report of the whole way: what a newcomer reads first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parity311.mdp.contract import N_KNOWN_STRATA, STRATUM_NAMES
from parity311.runs.pictures import (
    Axis,
    Estimate,
    Line,
    Point,
    Reference,
    Series,
    interval_plot,
    line_chart,
    scatter_plot,
)
from parity311.runs.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.runs.store import RunWriter

if TYPE_CHECKING:
    from parity311.lifecycle.whole_way import DomainResult

QUINTILES = ("Q1, lowest income", "Q2", "Q3", "Q4", "Q5, highest income")
TODAY = "balanced"
POLICY_TITLES = {
    "balanced": "today's rule",
    "dual_threshold": "threshold with coverage price",
    "static_thresholds": "threshold for each quintile",
    "ceiling": "ceiling (exact)",
    "best_known": "best known",
    "score": "score, no equity",
}


def policy_title(name: str) -> str:
    """A policy's name for a page."""
    if name.startswith("dqn_equity_"):
        return "DQN, paid for coverage"
    return POLICY_TITLES.get(name, {"dqn": "DQN"}.get(name, name.replace("_", " ")))


SYNTHETIC = (
    "A small synthetic city, taken the whole way: complaints were corrected for under-reporting, "
    "policies were learned from what the agency can see, and scored on a later year under what "
    "really happened."
)
REAL = (
    "Real records, taken the whole way: policies were learned from the earlier complaints and "
    "scored in the process as all records give it. There is no truth beside real records: what "
    "nobody reported, and what would have been found where nobody looked, stays unknown, and no "
    "figure here says how a policy would do in the field."
)


def write_report(run: RunWriter, results: Sequence[DomainResult], *, is_real: bool = False) -> None:
    """Store tables and pictures of every domain and say what the page shows."""
    sections = [_section(run, result) for result in results]
    figures = [_gap_figure(result, name) for result in results for name in _told(result)]
    run.set_report(
        Report(
            title="Who is served, and what learning changes",
            summary=(
                REAL if is_real else SYNTHETIC,
                "**Coverage** is the share of actionable incidents, reported or not, that a visit "
                "found in time. The **gap** is the difference between the best and the worst "
                "served income quintile.",
            ),
            figures=tuple(figures),
            sections=tuple(sections),
        )
    )


def _told(result: DomainResult) -> list[str]:
    """Policies whose gap stands at the top: today's rule and the one paid for coverage."""
    if result.domain.slug != "heat":
        return []
    names = [row["policy"] for row in result.policies]
    return [name for name in names if name == TODAY or name.startswith("dqn_equity_")]


def _row(result: DomainResult, policy: str) -> dict[str, Any]:
    return next(row for row in result.policies if row["policy"] == policy)


def _gap_figure(result: DomainResult, policy: str) -> KeyFigure:
    gap = _row(result, policy)["coverage_gap"]
    return KeyFigure(
        f"gap in {result.domain.slug}, {policy_title(policy)}",
        gap["value"],
        (gap["lower"], gap["upper"]),
        note=f"{result.participation} participation, {result.capacity} capacity; 95 %",
        number_format="points",
    )


def _section(run: RunWriter, result: DomainResult) -> Section:
    run.add_table(f"policies-{result.name}", [_flat(row) for row in result.policies])
    pictures = (
        _coverage_picture(run, result),
        _frontier_picture(run, result),
        _correction_picture(run, result),
        _curve_picture(run, result),
    )
    return Section(
        heading=f"{result.domain.title}: {result.participation} participation, "
        f"{result.capacity} capacity",
        text=(_finding(result),),
        pictures=pictures,
        tables=(_policy_table(result), _audit_table(run, result)),
        notes=(
            f"Decision: {result.domain.decision} Not for: {result.domain.not_for}",
            f"Correction: {result.assumptions}",
            "All policies have the same visits. Intervals are 95 % over test episodes and take the "
            "process as given. "
            + (
                "The ceiling is the exact Bayes rule on the same observation."
                if result.policies[0]["ceiling"] == "ceiling"
                else "No exact ceiling is known here: the best policy found stands in its place."
            ),
        ),
    )


def _finding(result: DomainResult) -> str:
    today = _row(result, TODAY)
    learned = next(
        (row for row in result.policies if row["policy"].startswith("dqn_equity_")), today
    )
    text = (
        f"Under today's rule the gap is **{_points(today['coverage_gap'])}**. The agent paid for "
        f"coverage leaves **{_points(learned['coverage_gap'])}**"
    )
    price = learned["price_of_equity"]
    if price["value"] is not None and math.isfinite(price["value"]):
        text += (
            f" and gives up {100 * price['value']:.1f} % of its correct escalations "
            f"({100 * price['lower']:.1f} to {100 * price['upper']:.1f} %) against the same agent "
            "without"
        )
    return f"{text}; the gap closed by {learned['direction']}."


def _points(figure: dict[str, float]) -> str:
    return (
        f"{100 * figure['value']:.1f} points ({100 * figure['lower']:.1f} to "
        f"{100 * figure['upper']:.1f})"
    )


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """One policy's figures as the columns of a table."""
    flat: dict[str, Any] = {"policy": policy_title(row["policy"])}
    for name in (
        "reward",
        "recall",
        "precision",
        "coverage_gap",
        "share_of_way",
        "price_of_equity",
        "visits_per_complaint",
    ):
        figure = row[name] or {"value": None, "lower": None, "upper": None}
        flat |= {name: figure["value"], f"{name}_lower": figure["lower"]}
        flat[f"{name}_upper"] = figure["upper"]
    flat["direction"] = row["direction"]
    flat["noise_floor"] = row["noise_floor"]
    for index in range(N_KNOWN_STRATA):
        flat[f"coverage_{STRATUM_NAMES[index]}"] = row["coverage"][index]["value"]
    return flat


def _policy_table(result: DomainResult) -> TableView:
    return TableView(
        f"policies-{result.name}",
        columns=(
            Column("policy", "policy", number_format="text"),
            Column("reward", "reward", lower="reward_lower", upper="reward_upper"),
            Column("recall", "recall", number_format="percent", decimals=1),
            Column("precision", "precision", number_format="percent", decimals=1),
            Column(
                "coverage_gap",
                "gap",
                number_format="points",
                lower="coverage_gap_lower",
                upper="coverage_gap_upper",
            ),
            Column("share_of_way", "way to the ceiling", number_format="percent", decimals=0),
            Column("price_of_equity", "price of equity", number_format="percent", decimals=1),
            Column("direction", "how the gap moved", number_format="text"),
        ),
        caption="Every policy on the same later year, under the true city.",
    )


def _audit_table(run: RunWriter, result: DomainResult) -> TableView:
    name = f"audit-{result.name}"
    run.add_table(name, result.audit["rates"])
    verdicts = "; ".join(
        f"per {gap['denominator']}: {gap['verdict']} ({gap['reason']})"
        for gap in result.audit["gaps"]
    )
    return TableView(
        name,
        columns=(
            Column("denominator", "of", number_format="text"),
            Column("stratum", "income quintile", number_format="text"),
            Column("served", "served", number_format="integer"),
            Column("rate", "rate", lower="lower", upper="upper"),
            Column("note", "note", number_format="text"),
        ),
        caption=f"What the records say of who was served in the test year. {verdicts}.",
    )


def _coverage_picture(run: RunWriter, result: DomainResult) -> Picture:
    name = f"coverage-{result.name}"
    shown = [TODAY, *(row["policy"] for row in result.policies if row["policy"].startswith("dqn"))]
    series = [
        Series(
            policy_title(policy),
            [
                Estimate(
                    label, _or_nan(cell["value"]), _or_nan(cell["lower"]), _or_nan(cell["upper"])
                )
                for label, cell in zip(QUINTILES, _row(result, policy)["coverage"], strict=False)
            ],
        )
        for policy in dict.fromkeys(shown)
    ]
    run.draw(
        name,
        interval_plot,
        series,
        title="Coverage by income quintile",
        axis=Axis("actionable incidents found in time", "percent", includes=(0.0,)),
    )
    return Picture(
        name,
        title="Coverage by income quintile",
        caption="The flatter a row of marks, the more equally quintiles are served.",
        alt="Coverage of each income quintile under today's rule and under learned policies.",
        table=TableView(
            f"policies-{result.name}",
            columns=(
                Column("policy", "policy", number_format="text"),
                *(
                    Column(f"coverage_{stratum}", title, number_format="percent", decimals=1)
                    for stratum, title in zip(STRATUM_NAMES, QUINTILES, strict=False)
                ),
            ),
        ),
    )


def _frontier_picture(run: RunWriter, result: DomainResult) -> Picture:
    name = f"frontier-{result.name}"
    points = [
        Point(
            policy_title(row["policy"]),
            _or_nan(row["coverage_gap"]["value"]),
            _or_nan(row["recall"]["value"]),
            y_lower=_or_nan(row["recall"]["lower"]),
            y_upper=_or_nan(row["recall"]["upper"]),
        )
        for row in result.policies
        if row["is_within_capacity"] and row["policy"] not in ("never", "random")
    ]
    run.draw(
        name,
        scatter_plot,
        points,
        title="What is found, and how equally",
        x_axis=Axis("coverage gap", "points", includes=(0.0,)),
        y_axis=Axis("recall", "percent"),
        frontier=("lower", "higher"),
    )
    return Picture(
        name,
        title="What is found, and how equally",
        caption="Up is more found, left is more equal; the line joins what nothing else beats.",
        alt="Recall against coverage gap for every policy.",
        table=TableView(
            f"policies-{result.name}",
            columns=(
                Column("policy", "policy", number_format="text"),
                Column("coverage_gap", "gap", number_format="points"),
                Column("recall", "recall", number_format="percent", decimals=1),
                Column("noise_floor", "gap by counting alone", number_format="points"),
            ),
        ),
    )


def _correction_picture(run: RunWriter, result: DomainResult) -> Picture:
    """Each quintile's share of the estimated need, by estimator."""
    name = f"correction-{result.name}"
    rows, estimators = [], dict.fromkeys(row["estimator"] for row in result.denominators)
    for estimator in estimators:
        own = [row for row in result.denominators if row["estimator"] == estimator]
        own = own[:N_KNOWN_STRATA]
        total = sum(row["incidents_per_28_days"] for row in own)
        for label, row in zip(QUINTILES, own, strict=False):
            share = row["incidents_per_28_days"] / total if total else math.nan
            rows.append({"estimator": estimator, "quintile": label, "share": share})
    run.add_table(name, rows)
    series = [
        Series(
            estimator.replace("_", " "),
            [
                Estimate(row["quintile"], row["share"])
                for row in rows
                if row["estimator"] == estimator
            ],
        )
        for estimator in estimators
    ]
    run.draw(
        name,
        interval_plot,
        series,
        title="Where the need is, by how it is estimated",
        axis=Axis("share of estimated incidents", "percent", includes=(0.0,)),
        reference=Reference(1 / N_KNOWN_STRATA, "a fifth"),
    )
    return Picture(
        name,
        title="Where the need is, by how it is estimated",
        caption="Raw counts, and more so the published estimator, move need to where people report "
        "most; the exposure rate moves it back.",
        alt="Share of estimated incidents in each quintile under three estimators.",
        table=TableView(
            name,
            columns=(
                Column("estimator", "estimator", number_format="text"),
                Column("quintile", "quintile", number_format="text"),
                Column("share", "share", number_format="percent", decimals=1),
            ),
        ),
    )


def _curve_picture(run: RunWriter, result: DomainResult) -> Picture:
    name = f"learning-{result.name}"
    run.add_table(name, result.curve)
    steps = sorted({row["steps"] for row in result.curve})
    lines = []
    for weight in sorted({row["equity_weight"] for row in result.curve}):
        means = [
            [
                row["reward"]
                for row in result.curve
                if row["steps"] == step and row["equity_weight"] == weight
            ]
            for step in steps
        ]
        title = "paid for coverage" if weight > 0 else "without"
        lines.append(
            Line(
                title,
                steps,
                [sum(values) / len(values) for values in means],
                [min(values) for values in means],
                [max(values) for values in means],
            )
        )
    run.draw(
        name,
        line_chart,
        lines,
        title="Learning curve",
        x_axis=Axis("updates", "integer"),
        y_axis=Axis("reward per step"),
    )
    return Picture(
        name,
        title="Learning curve",
        caption="Reward while training, exploration included; the band spans the seeds.",
        alt="Training reward against updates for agents with and without the coverage price.",
        table=TableView(name, max_rows=24),
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
