"""The pictures of a run's report: coverage, the frontier, the correction, learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from parity311.domains import get_domain
from parity311.evaluation.titles import TODAY, policy_title
from parity311.mdp.contract import N_KNOWN_STRATA, STRATUM_NAMES
from parity311.report import findings, first_screen
from parity311.report.findings import Block
from parity311.report.pictures import (
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
from parity311.report.sections import Column, Picture, TableView
from parity311.report.store import RunWriter

Curve = Sequence[Mapping[str, Any]]
TRUTH = "the truth of this made-up city"


def block_name(block: Block) -> str:
    """Name of a block's tables and pictures."""
    return f"{block['domain']}-{block['participation']}".replace("_", "-")


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def coverage_picture(run: RunWriter, block: Block) -> Picture:
    """Coverage of each quintile, today's rule beside what was learned."""
    name = f"coverage-{block_name(block)}"
    labels = findings.labels_of(block)
    paid = findings.find_paid(block)
    # The twin without the price and every other rule stand in the tables below.
    shown = {TODAY: policy_title(TODAY)}
    if paid is not None:
        shown[paid["policy"]] = findings.PAID_TITLE.removeprefix("the ")
    series = [
        Series(
            title,
            [
                Estimate(
                    label, _or_nan(cell["value"]), _or_nan(cell["lower"]), _or_nan(cell["upper"])
                )
                for label, cell in zip(
                    labels, findings.find_row(block, policy)["coverage"], strict=False
                )
            ],
        )
        for policy, title in shown.items()
    ]
    title = f"{get_domain(block['domain']).title}: {first_screen.name_scenario(block)}"
    run.draw(
        name,
        interval_plot,
        series,
        title=title,
        axis=Axis("actionable incidents found in time", "percent", includes=(0.0,)),
    )
    caption = "There is no gap to close." if first_screen.is_level(block) else ""
    if not findings.is_known(block):
        caption = (
            f"Problems are {findings.say_known_within(block)}, which these marks do not show: "
            "read them as an order, not as rates."
        )
    return Picture(
        name,
        title=title,
        caption=caption or "Lines are 95 % intervals.",
        alt=f"Coverage of each {findings.group_of(block)} under today's rule and under learned "
        "policies.",
        table=TableView(
            f"policies-{block_name(block)}",
            columns=(
                Column("policy", "policy", number_format="text"),
                *(
                    Column(f"coverage_{stratum}", title, number_format="percent", decimals=1)
                    for stratum, title in zip(STRATUM_NAMES, labels, strict=False)
                ),
            ),
        ),
    )


def frontier_picture(run: RunWriter, block: Block) -> Picture:
    """Every policy by its coverage gap and its recall."""
    name = f"frontier-{block_name(block)}"
    points = [
        Point(
            policy_title(row["policy"]),
            _or_nan(row["coverage_gap"]["value"]),
            _or_nan(row["recall"]["value"]),
            y_lower=_or_nan(row["recall"]["lower"]),
            y_upper=_or_nan(row["recall"]["upper"]),
            x_lower=findings.gap_interval(block, row)[0],
            x_upper=findings.gap_interval(block, row)[1],
        )
        for row in block["policies"]
        if row["is_within_capacity"] and row["policy"] not in ("never", "random")
    ]
    run.draw(
        name,
        scatter_plot,
        points,
        title="What is found, and how equally",
        x_axis=Axis("coverage gap in points", "points", includes=(0.0,)),
        y_axis=Axis("recall", "percent"),
        frontier=("lower", "higher"),
    )
    return Picture(
        name,
        title="What is found, and how equally",
        caption="Up is more found, left is more equal; lines are 95 % intervals over test "
        "episodes. The dashed line joins the points that nothing else beats, whatever their "
        "intervals.",
        alt="Recall against coverage gap for every policy.",
        table=TableView(
            f"policies-{block_name(block)}",
            columns=(
                Column("policy", "policy", number_format="text"),
                Column("coverage_gap", "gap", number_format="points"),
                Column("recall", "recall", number_format="percent", decimals=1),
                Column("noise_floor", "gap by counting alone", number_format="points"),
            ),
        ),
    )


def correction_picture(run: RunWriter, block: Block) -> Picture:
    """Each quintile's share of the estimated need, by estimator."""
    name = f"correction-{block_name(block)}"
    rows, estimators = [], dict.fromkeys(row["estimator"] for row in block["reporting"])
    for estimator in estimators:
        own = [row for row in block["reporting"] if row["estimator"] == estimator]
        own = own[:N_KNOWN_STRATA]
        total = sum(row["incidents_per_28_days"] for row in own)
        for label, row in zip(findings.labels_of(block), own, strict=False):
            ends = {
                name: _or_nan(row.get(key)) / total if total else math.nan
                for name, key in (
                    ("share", "incidents_per_28_days"), ("lower", "lower"), ("upper", "upper")
                )
            }  # fmt: skip
            rows.append({"estimator": estimator, "quintile": label, **ends})
    true = block.get("true_shares") or ()
    for label, share in zip(findings.labels_of(block), true, strict=False):
        rows.append({"estimator": TRUTH, "quintile": label, "share": share})
    run.add_table(name, rows)
    series = [
        Series(
            estimator.replace("_", " "),
            [
                Estimate(
                    row["quintile"],
                    row["share"],
                    row.get("lower", math.nan),
                    row.get("upper", math.nan),
                )
                for row in rows
                if row["estimator"] == estimator
            ],
        )
        for estimator in dict.fromkeys(row["estimator"] for row in rows)
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
        caption=findings.say_estimates(block),
        alt=f"Share of estimated incidents in each quintile by {len(estimators)} estimators.",
        table=TableView(
            name,
            columns=(
                Column("estimator", "estimator", number_format="text"),
                Column("quintile", "quintile", number_format="text"),
                Column(
                    "share", "share", number_format="percent", decimals=1, lower="lower",
                    upper="upper",
                ),
            ),
        ),
    )  # fmt: skip


def curve_picture(run: RunWriter, block: Block, curve: Curve) -> Picture:
    """The reward of every agent while it learned."""
    name = f"learning-{block_name(block)}"
    run.add_table(name, curve)
    steps = sorted({row["steps"] for row in curve})
    n_seeds = len({row["seed"] for row in curve})
    lines = []
    for weight in sorted({row["equity_weight"] for row in curve}):
        means = [
            [
                row["reward"]
                for row in curve
                if row["steps"] == step and row["equity_weight"] == weight
            ]
            for step in steps
        ]
        title = "paid for coverage" if weight > 0 else "without"
        lines.append(
            Line(
                title,
                steps,
                _smooth([sum(values) / len(values) for values in means]),
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
        caption=f"Reward while training, exploration included. The line is a running mean; the "
        f"band behind it spans {n_seeds} seeds as they were.",
        alt="Training reward against updates for agents with and without the coverage price.",
        table=TableView(name, max_rows=24),
    )


def _smooth(values: Sequence[float]) -> list[float]:
    """Running mean over a tenth of the curve about each point, shorter at the ends."""
    half = max(len(values) // 20, 1 if len(values) > 4 else 0)
    return [
        sum(window) / len(window)
        for place in range(len(values))
        if (window := values[max(place - half, 0) : place + half + 1])
    ]
