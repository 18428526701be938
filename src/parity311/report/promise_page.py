"""What a policy can promise, as a page: promises by cell, how often they held, and conflicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parity311.report.pictures import Axis, Estimate, Series, bar_chart
from parity311.report.sections import Column, KeyFigure, Picture, Report, Section, TableView
from parity311.report.store import RunWriter

CELL_COLUMNS = (
    Column("category", "category", number_format="text"),
    Column("district", "district", number_format="text"),
    Column("code", "code", number_format="text"),
    Column("n_a_year", "requests judged a year", number_format="integer"),
    Column("visited", "visited at all", number_format="percent", reason="reason"),
    Column("days", "promised days", number_format="integer", reason="reason"),
    Column("unrounded_days", "unrounded", number_format="integer"),
    Column("designed_days", "designed, or the code's days", number_format="integer"),
    Column("verdict", "of those", number_format="text"),
    Column("within_target", "visited within those", number_format="percent"),
    Column("worst_quarter_kept", "kept in the worst quarter", number_format="percent"),
    Column("reason", "note", number_format="text"),
)
CONFLICT_COLUMNS = (
    Column("kind", "conflict", number_format="text"),
    Column("category", "category", number_format="text"),
    Column("district", "district", number_format="text"),
    Column("words", "what, and what would mend it", number_format="text"),
)
CHECKS = {
    "hours": "promises to the hour",
    "unrounded": "promises in whole days",
    "rounded": "promises as made, rounded up",
    "one_year": "what a single year would have promised",
}


def write_promise_page(run: RunWriter, found: Mapping[str, Any]) -> Report:
    """Store tables and pictures of promises and return the report that shows them."""
    run.add_table("promises", found["cells"])
    sections = [*_about(run, found), _promises(run, found)]
    if found["checks"]:
        sections.append(_checks(run, found))
    sections += [_conflicts(run, found), _method(found)]
    promised = [row for row in found["cells"] if row["days"] is not None]
    return Report(
        title=f"What can be promised: {found['domain'].replace('_', ' ')}, {found['policy']}",
        summary=_summary(found),
        figures=(
            KeyFigure("cells with a promise", len(promised), note=f"of {len(found['cells'])}",
                      number_format="integer"),
            *(
                KeyFigure(f"kept in further years: {CHECKS[name]}", check["kept_share"],
                          note=f"stated: {found['confidence']:.0%}", number_format="percent")
                for name, check in found["checks"].items()
            ),
        ),
        sections=tuple(sections),
    )  # fmt: skip


def _summary(found: Mapping[str, Any]) -> tuple[str, ...]:
    counts = {
        name: sum(row["verdict"] == name for row in found["cells"])
        for name in ("KEEPS", "BREAKS", "INSUFFICIENT")
    }
    lines = [
        f"Of {len(found['cells'])} cells, {counts['KEEPS']} keep the days they are meant to be "
        f"visited in for {found['share']:.0%} of all requests, {counts['BREAKS']} break them, "
        f"{counts['INSUFFICIENT']} have too few requests to say.",
    ]
    check = found["checks"].get("unrounded")
    if check and check["promises"]:
        lines.append(
            f"Promises stated to hold with {found['confidence']:.0%} held in "
            f"{check['kept_share']:.0%} of {check['checked']:,} cells of {check['years']} further "
            f"years; rounded up, in {found['checks']['rounded']['kept_share']:.0%}."
        )
    stress = found["stressed"]
    if stress["promises"]:
        lines.append(
            f"With a fifth fewer visits they would hold in {stress['kept_share']:.0%} of cells."
        )
    lines.append(f"{len(found['conflicts'])} conflicts between routing and promises are listed.")
    return tuple(lines)


def _about(run: RunWriter, found: Mapping[str, Any]) -> list[Section]:
    """What the policy is and who let it decide, where the registry says so."""
    if not found["about"]:
        return []
    run.add_table("policy", [{"what": what, "value": value} for what, value in found["about"]])
    columns = (
        Column("what", "", number_format="text"),
        Column("value", "", number_format="text"),
    )
    return [
        Section(
            heading="The policy",
            text=("What decides, what it is paid for, and by whose word.",),
            tables=(TableView("policy", columns),),
        )
    ]


def _promises(run: RunWriter, found: Mapping[str, Any]) -> Section:
    estimates = [
        Estimate(f"{row['category']}, {row['district']}",
                 float("nan") if row["days"] is None else float(row["days"]), reason=row["reason"])
        for row in found["cells"]
    ]  # fmt: skip
    title = f"Days within which {found['share']:.0%} of all requests can be promised a visit"
    run.draw(
        "promises", bar_chart, [Series("promised days", estimates)], title=title,
        axis=Axis("days", includes=(0.0,)),
    )  # fmt: skip
    picture = Picture(
        "promises",
        caption="Cells without a bar can be promised nothing; the table says why.",
        alt=f"{len(estimates)} cells; the table has every figure.",
        table=TableView("promises", CELL_COLUMNS),
        title=title,
    )
    return Section(heading="Promises", text=_summary(found)[:1], pictures=(picture,))


def _checks(run: RunWriter, found: Mapping[str, Any]) -> Section:
    rows = [{"promises": CHECKS[name], **check} for name, check in found["checks"].items()]
    rows.append({"promises": "as made, with a fifth fewer visits",
                 **{k: v for k, v in found["stressed"].items() if k != "visits"}})  # fmt: skip
    for row in rows:
        row["n_promised"] = row["checked"] // max(row["years"], 1)
    run.add_table("checks", rows)
    columns = (
        Column("promises", "promises", number_format="text"),
        Column("years", "further years", number_format="integer"),
        Column("checked", "cells checked", number_format="integer"),
        Column("kept_share", "kept", number_format="percent"),
        Column("all_kept_share", "all of a year kept", number_format="percent"),
    )
    return Section(
        heading="Whether they hold",
        text=(
            "Years that no promise was derived from were played as well. A promise is kept in a "
            f"year where at least {found['share']:.0%} of its requests were visited in time. What "
            f"is stated, {found['confidence']:.0%}, is meant to the hour: a whole day is kept by "
            "all who are visited on it, and a rounded one by more, so that more is kept than was "
            "stated.",
        ),
        tables=(TableView("checks", columns),),
    )


def _conflicts(run: RunWriter, found: Mapping[str, Any]) -> Section:
    if not found["conflicts"]:
        return Section(heading="Conflicts", text=("Routing and promises contradict nowhere.",))
    run.add_table("conflicts", found["conflicts"])
    return Section(
        heading="Conflicts",
        text=("Where what the policy does and what is promised contradict each other.",),
        tables=(TableView("conflicts", CONFLICT_COLUMNS),),
    )


def _method(found: Mapping[str, Any]) -> Section:
    return Section(
        heading="How this was computed",
        text=(
            f"{found['years']} years of the policy were {found['played']}. In each, "
            f"days were found within which {found['share']:.0%} of ALL requests were visited, "
            "never visited counted as later than any day. The promise is an order statistic of "
            "these years, rounded up to days people can remember: a further year keeps it with the "
            "chance stated. Years, not requests, are the sample.",
            f"Counted are requests that could be followed for {found['followed_days']} days. "
            "The first visit counts, also one that found nobody at home.",
        ),
        notes=("Small cells take the promise of all districts together, or none.",),
    )
