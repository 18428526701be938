"""The feedback loop as a picture with bands over cities, and as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parity311.lifecycle.feedback import ARMS, LEARNERS, FeedbackConfig
from parity311.report.pictures.axis import Axis
from parity311.report.pictures.curves import line_chart
from parity311.report.pictures.data import Line
from parity311.report.sections import Column, Picture, Report, Section, TableView
from parity311.report.store import RunWriter, start_run
from parity311.storage.strict_json import write_json

FEEDBACK_FILE = "feedback.json"
PICTURES = {
    "coverage_lowest": "Coverage of the lowest income quintile",
    "reported_lowest": "Share of its incidents that anybody reports",
    "gap": "Largest gap of coverage between two quintiles",
}
"""What is drawn, figure by figure."""


def write_feedback(found: Mapping[str, Any], runs: Path) -> dict[str, str]:
    """Write what a loop came to as a run; its id and page."""
    config: FeedbackConfig = found["config"]
    with start_run(runs, f"feedback {config.domain}", asdict(config)) as run:
        run.set_seeds(first_city=config.seed, cities=config.n_cities)
        run.add_data(
            f"{config.n_cities} synthetic cities", f"seeds from {config.seed}", is_synthetic=True,
            statement=f"{config.n_cities} synthetic cities of {config.n_tracts} tracts with "
            f"{config.participation} participation and {config.capacity} capacity, in the world "
            f"{config.world!r}. No real person or building is in them.",
        )  # fmt: skip
        run.add_table("rounds", list(found["rows"]))
        run.add_table("by_round", list(found["by_round"]))
        run.add_table("drift", [_flat(row) for row in found["drift"]])
        pictures = tuple(_draw(run, found, name) for name in PICTURES)
        run.add_metrics({"drift": found["drift"], "why": found["why"]})
        write_json(run.path / FEEDBACK_FILE, dict(found))
        run.set_report(_report(found, pictures))
    return {"run": run.id, "page": str(run.final_path / "report.html")}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            low, high = value["interval"] or (None, None)
            flat |= {name: value["value"], f"{name}_lower": low, f"{name}_upper": high}
        else:
            flat[name] = value
    return flat


def _draw(run: RunWriter, found: Mapping[str, Any], name: str) -> Picture:
    lines = []
    for arm in found["arms"]:
        rows = [row for row in found["by_round"] if row["arm"] == arm]
        lines.append(
            Line(
                arm,
                [row["round"] for row in rows],
                [row[name] for row in rows],
                [row[f"{name}_lower"] for row in rows],
                [row[f"{name}_upper"] for row in rows],
            )
        )
    title = PICTURES[name]
    run.draw(
        name, line_chart, lines, title=title,
        x_axis=Axis("round"), y_axis=Axis("share", "percent", includes=(0.0,)),
    )  # fmt: skip
    ends = "; ".join(f"{one.name} {one.y[0]:.1%} to {one.y[-1]:.1%}" for one in lines)
    return Picture(
        name,
        "Means over cities, with 95 % intervals.",
        f"{title}, first to last round: {ends}.",
        TableView("by_round", (
            Column("arm", "what is done"), Column("round", "round"),
            Column(name, title, number_format="percent", lower=f"{name}_lower",
                   upper=f"{name}_upper"),
        )),
        title,
    )  # fmt: skip


def _report(found: Mapping[str, Any], pictures: tuple[Picture, ...]) -> Report:
    config: FeedbackConfig = found["config"]
    return Report(
        title=f"{config.domain}: a policy that learns from its own decisions",
        summary=tuple(found["why"]) or ("Every arm was played in the same cities.",),
        pictures=pictures[:1],
        sections=(
            Section(
                "What is played",
                (
                    f"{config.rounds} rounds of {config.round_days} days in each of "
                    f"{config.n_cities} cities. The policy {LEARNERS[config.learner]}; it is made "
                    "anew from the records after every round.",
                ),
                notes=tuple(f"{arm}: {words}." for arm, words in ARMS.items()
                            if arm in found["arms"]),
            ),
            Section("Reports and gap", ("People and policy apart.",), pictures=pictures[1:]),
            Section(
                "Drift and price",
                ("The last three rounds less the first three, and visits and finds over all.",),
                tables=(TableView("drift"),),
                notes=(
                    "Discovered outcomes are what visits found, reported ones what people told. "
                    "Both are in the table of rounds.",
                ),
            ),
        ),
    )  # fmt: skip
