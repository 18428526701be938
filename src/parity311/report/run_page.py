"""The report of the whole way: what a newcomer reads first.

It is made from the blocks of metrics.json and the learning curves alone; the sentences are those of
`findings`, which follow the figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from parity311.audit.cells import AuditInputs
from parity311.domains import get_domain
from parity311.evaluation.titles import TODAY, policy_title
from parity311.mdp.contract import N_KNOWN_STRATA, STRATUM_NAMES
from parity311.records.describe import say_located
from parity311.report import findings, first_screen
from parity311.report.findings import Block
from parity311.report.run_maps import map_pictures
from parity311.report.run_pictures import (
    Curve,
    block_name,
    correction_picture,
    coverage_picture,
    curve_picture,
    frontier_picture,
)
from parity311.report.sections import Column, Report, Section, TableView
from parity311.report.store import RunWriter

MOVED = {
    "levelling up": "narrower, levelling up",
    "levelling down": "narrower, levelling down",
    "both": "narrower, both ways",
}
"""How a gap that closed is said in a table."""
SYNTHETIC = (
    "A synthetic city, taken the whole way: complaints were corrected for under-reporting, "
    "policies were learned from what the agency can see, and scored in the city's last year under "
    "what really happened in it."
)
REAL = (
    "Imported records, taken the whole way: policies were learned from the earlier complaints and "
    "scored in the process as all records give it. There is no truth beside such records: what "
    "nobody reported, and what would have been found where nobody looked, stays unknown, and no "
    "figure here says how a policy would do in the field."
)


def write_report(
    run: RunWriter,
    blocks: Sequence[Block],
    curves: Sequence[Curve],
    inputs: Sequence[AuditInputs] = (),
) -> None:
    """Store tables and pictures of every domain and say what the page shows.

    Parameters
    ----------
    blocks
        Entries of `comparisons`, one a domain and scenario.
    curves
        Rows of the learning curve, one sequence a block.
    inputs
        What the audit counts, one a block; maps are drawn where it knows positions.
    """
    run.add_table("overview", [_overview_row(block) for block in blocks])
    sections = [_section(run, block, rows) for block, rows in zip(blocks, curves, strict=True)]
    run.set_report(
        Report(
            title="Who is served, and what learning would change",
            summary=(first_screen.say_lead(blocks),),
            cards=first_screen.make_cards(blocks),
            answers=first_screen.make_answers(blocks),
            sections=(
                _side_by_side(run, blocks),
                *_map_sections(run, blocks, inputs),
                _method_section(run, blocks),
                *sections,
            ),
        )
    )


def _side_by_side(run: RunWriter, blocks: Sequence[Block]) -> Section:
    """Every setting in one table, and whom it reaches in one row of pictures."""
    return Section(
        heading="All settings side by side",
        text=(
            "Each mark is the share of problems found in time in one income group. The flatter a "
            "row of marks, the more alike groups are served.",
        ),
        pictures=tuple(coverage_picture(run, block) for block in blocks),
        tables=(_overview_table(blocks),),
        is_grid=True,
    )


def _map_sections(
    run: RunWriter, blocks: Sequence[Block], inputs: Sequence[AuditInputs]
) -> list[Section]:
    """Maps of the first setting in sight, those of the others behind a heading."""
    sections: list[Section] = []
    for block, one in zip(blocks, inputs, strict=False):
        pictures = map_pictures(run, block_name(block), block, one)
        if not pictures:
            continue
        title = get_domain(block["domain"]).title
        sections.append(
            Section(
                heading=f"Tract by tract: {title}, {first_screen.name_scenario(block)}",
                text=() if sections else (
                    "Where the need is, where service went, and what would change. Shapes and "
                    "sizes say the same as colours; the table has every tract.",
                ),
                pictures=pictures,
                is_grid=True,
                is_folded=bool(sections),
            )
        )  # fmt: skip
    return sections


def _method_section(run: RunWriter, blocks: Sequence[Block]) -> Section:
    """What was done, and what the words and intervals mean."""
    kinds = dict.fromkeys(REAL if block["is_real"] else SYNTHETIC for block in blocks)
    return Section(
        heading="How to read this",
        text=(
            *kinds,
            first_screen.say_learned(blocks),
            findings.say_coverage(blocks),
            *filter(None, (findings.say_correction(blocks),)),
            findings.say_what_to_do(blocks),
        ),
        notes=(
            *dict.fromkeys(findings.say_intervals(block) for block in blocks),
            f"More of this run: `parity311 audit {run.id}` says who is served, `parity311 explain "
            f"{run.id}` what drives each recommendation.",
        ),
        is_folded=True,
    )


def _overview_row(block: Block) -> dict[str, Any]:
    """Today's rule beside the paid agent, one row a block; nothing where only a range is known."""
    title = get_domain(block["domain"]).title
    row: dict[str, Any] = {"setting": f"{title}: {first_screen.name_scenario(block)}"}
    is_known = findings.is_known(block)
    for name, one in (
        ("today", findings.find_row(block, TODAY)),
        ("paid", findings.find_paid(block)),
    ):
        lower, upper = (math.nan, math.nan) if one is None else findings.gap_interval(block, one)
        value = None if one is None or not is_known else one["coverage_gap"]["value"]
        row |= {f"gap_{name}": value, f"gap_{name}_lower": lower, f"gap_{name}_upper": upper}
        row[f"gap_{name}_range"] = "" if one is None else findings.say_gap(block, one)
    paid = findings.find_paid(block)
    against = {} if paid is None else paid["against_today"]
    for name in ("correct", "recall", "visits_per_complaint"):
        figure = against.get(name, {"value": None, "lower": None, "upper": None})
        row |= {name: figure["value"], f"{name}_lower": figure["lower"]}
        row[f"{name}_upper"] = figure["upper"]
    row["advice"] = findings.judge(block).advice
    return row


def _overview_table(blocks: Sequence[Block]) -> TableView:
    return TableView(
        "overview",
        columns=(
            Column("setting", "setting", number_format="text"),
            Column("gap_today_range", "gap, today's rule", number_format="text"),
            Column("gap_paid_range", "gap, learned rule", number_format="text"),
            Column(
                "correct", "found, against today", number_format="percent",
                lower="correct_lower", upper="correct_upper",
            ),
            Column("advice", "what follows", number_format="text"),
        ),
        caption="The learned rule (an agent paid for coverage) against today's rule, in every "
        "setting of this run.",
        max_rows=max(len(blocks), 1),
    )  # fmt: skip


def _setting(block: Block) -> str:
    if block["is_real"]:
        return "as recorded"
    return f"{block['participation']} participation, {block['capacity']} capacity"


def _section(run: RunWriter, block: Block, curve: Curve) -> Section:
    name, domain = block_name(block), get_domain(block["domain"])
    run.add_table(f"policies-{name}", [_flat(row) for row in block["policies"]])
    pictures = (
        # Gaps that are known as ranges only are no points.
        *((frontier_picture(run, block),) if findings.is_known(block) else ()),
        correction_picture(run, block),
        curve_picture(run, block, curve),
    )
    notes = (
        f"Decision: {domain.decision} Not for: {domain.not_for}",
        findings.say_rows(block),
        say_located(block["located"]) if block["is_real"] else "",
        f"Correction: {block['assumptions']}",
        findings.say_all_visits(block),
        findings.say_intervals(block),
        _say_ceiling(block),
        f"Per incident, the audit has no estimate: {block['audit_note']}"
        if block["audit_note"]
        else "",
    )
    return Section(
        heading=f"Every rule: {domain.title}, {_setting(block)}",
        is_folded=True,
        text=tuple(filter(None, (findings.say_block(block), findings.say_price(block)))),
        pictures=pictures,
        tables=(_policy_table(block), _reward_table(block), _audit_table(run, block)),
        notes=tuple(filter(None, notes)),
    )


def _has_ceiling(block: Block) -> bool:
    return block["policies"][0]["ceiling"] == "ceiling"


def _say_ceiling(block: Block) -> str:
    top = block["policies"][0]["ceiling"]
    if _has_ceiling(block):
        return f"The ceiling is {get_domain(block['domain']).ceiling}."
    name = policy_title(top.removeprefix("best known: "))
    return f"No exact ceiling is known here: the best policy of a trial ({name}) stands for it."


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """One policy's figures as the columns of a table."""
    flat: dict[str, Any] = {"policy": policy_title(row["policy"]), "policy_id": row["policy"]}
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
    against = row["against_today"]
    for name in ("correct", "recall", "coverage_gap"):
        flat |= {
            f"{name}_against_today{end}": against[name][key]
            for end, key in (("", "value"), ("_lower", "lower"), ("_upper", "upper"))
        }
    flat["against_today_note"] = against["note"]
    moved = against["direction"]
    flat["moved_against_today"] = "" if row["policy"] == TODAY else MOVED.get(moved, moved)
    flat["direction"] = row["direction"]
    flat["price_note"] = row["price_note"]
    flat["price_against"] = policy_title(row["reference"])
    flat["noise_floor"] = row["noise_floor"]
    for index in range(N_KNOWN_STRATA):
        flat[f"coverage_{STRATUM_NAMES[index]}"] = row["coverage"][index]["value"]
    return flat


def _policy_table(block: Block) -> TableView:
    """What each policy finds, how equally, with how many visits, and against today's rule."""
    under = (
        "played in the process as all records give it: nobody knows the true one"
        if block["is_real"]
        else "of the city's last year, played in its true process"
    )
    gap = Column("coverage_gap", "gap", number_format="points", lower="coverage_gap_lower",
                 upper="coverage_gap_upper")  # fmt: skip
    return TableView(
        f"policies-{block_name(block)}",
        columns=(
            Column("policy", "policy", number_format="text"),
            Column("recall", "recall", number_format="percent", decimals=1),
            *((gap,) if findings.is_known(block) else ()),
            Column("visits_per_complaint", "visits per complaint", decimals=3),
            Column(
                "correct_against_today", "found, against today", number_format="percent",
                decimals=1, lower="correct_against_today_lower",
                upper="correct_against_today_upper", reason="against_today_note",
            ),
            Column("moved_against_today", "gap, against today", number_format="text"),
        ),
        caption=f"Every policy on the same test episodes, {under}.",
    )  # fmt: skip


def _reward_table(block: Block) -> TableView:
    """Reward, precision and price of the same policies."""
    best = "ceiling" if _has_ceiling(block) else "best known"
    return TableView(
        f"policies-{block_name(block)}",
        columns=(
            Column("policy", "policy", number_format="text"),
            Column("reward", "reward", lower="reward_lower", upper="reward_upper"),
            Column("precision", "precision", number_format="percent", decimals=1),
            Column("share_of_way", f"way to the {best}", number_format="percent", decimals=0),
            Column(
                "price_of_equity", "price of equity", number_format="percent", decimals=1,
                lower="price_of_equity_lower", upper="price_of_equity_upper", reason="price_note",
            ),
            Column("price_against", "price against", number_format="text"),
        ),
        caption="Published reward on the same episodes, and what equity costs: correct escalations "
        "given up against the policy named beside it.",
    )  # fmt: skip


def _audit_table(run: RunWriter, block: Block) -> TableView:
    name = f"audit-{block_name(block)}"
    run.add_table(name, block["audit"]["rates"])
    verdicts = "; ".join(
        f"per {gap['denominator']}: {gap['verdict']} ({gap['reason']})"
        for gap in block["audit"]["gaps"]
    )
    tested = block["rows"]["tested"]
    return TableView(
        name,
        columns=(
            Column("denominator", "of", number_format="text"),
            Column("stratum", findings.group_of(block), number_format="text"),
            Column("served", "served", number_format="integer"),
            Column(
                "rate", "rate", lower="lower", upper="upper", number_format="percent", decimals=3
            ),
            Column("note", "note", number_format="text"),
        ),
        caption=f"What the records say of who was served, of complaints received {tested['first']} "
        f"to {tested['last']}: what was done then, not what a rule would do in the process played "
        f"above. {verdicts}.",
    )
