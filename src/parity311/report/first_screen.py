"""The first screen of a run's report: one card a setting, and what holds for all of them.

Short sentences and whole numbers, for who has two minutes; the figures behind them, with every
policy, stand below. Nothing is said here that `findings` would not allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from parity311.audit.gap import TAU
from parity311.audit.spec import AuditSpec
from parity311.domains import get_domain
from parity311.estimation.correction import FALLBACK
from parity311.evaluation.metrics import ROUNDING
from parity311.evaluation.titles import TODAY, policy_title
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.number_text import format_interval, format_value
from parity311.records.strata import INCOME
from parity311.report import findings
from parity311.report.findings import Block
from parity311.report.sections import Answer, Card

SCENARIOS = {
    ("strong", "scarce"): "rich areas call far more often, few visits",
    ("measured", "calibrated"): "areas call about alike, enough visits",
}
"""Participation and capacity in plain words."""
FIFTHS = (
    "the poorest fifth of the city", "the second poorest fifth", "the middle fifth",
    "the second richest fifth", "the richest fifth",
)  # fmt: skip
VERDICTS = {
    "better": "Try it: smaller gap, more found",
    "narrower": "Try it: smaller gap, as much found",
    "trade": "Your choice: smaller gap, less found",
    "wider": "Keep today's rule: the gap would grow",
    "more": "More found, same gap: try it for that",
    "fewer": "Keep today's rule: less found",
    "same": "Keep today's rule: no clear change",
    "unknown": "Keep today's rule: too little is known",
}
"""What follows from a judgement, as a card's line."""


def make_cards(blocks: Sequence[Block]) -> tuple[Card, ...]:
    """One card a domain and scenario, side by side."""
    return tuple(_card(block) for block in blocks)


def _card(block: Block) -> Card:
    judgement = findings.judge(block)
    rows = [("Who is served today", say_served(block))]
    if findings.find_paid(block) is not None:
        rows.append(("What would change", say_change(block)))
        rows.append(("The price", say_price(block)))
    return Card(
        title=get_domain(block["domain"]).title,
        subtitle=name_scenario(block),
        verdict=VERDICTS[judgement.verdict],
        tone=judgement.tone,  # type: ignore[arg-type]
        rows=tuple(rows),
    )


def name_scenario(block: Block) -> str:
    """A block's scenario in plain words."""
    if block["is_real"]:
        return "as recorded"
    pair = block["participation"], block["capacity"]
    return SCENARIOS.get(pair, f"{pair[0]} participation, {pair[1]} capacity")


def say_served(block: Block) -> str:
    """Whom today's rule reaches: the worst and the best served group, and the gap."""
    today = findings.find_row(block, TODAY)
    gap = findings.say_gap(block, today)
    if not findings.is_known(block):
        return (
            f"Nobody can say: the number of problems is {findings.say_known_within(block)}. The "
            f"gap is {gap}."
        )
    worst, best = _ends(block)
    what = "reported problems" if _is_of_reported(block) else "problems"
    shares = [_of_hundred(today, group) for group in (worst, best)]
    if is_level(block):
        return (
            f"All groups nearly alike: of 100 {what}, {shares[0]} to {shares[1]} are found in "
            f"time. **There is no gap to close**: it is {gap}."
        )
    return (
        f"Of 100 {what}, {shares[0]} are found in time in {_name_group(block, worst)} and "
        f"{shares[1]} in {_name_group(block, best)}. The gap is {gap}."
    )


def say_change(block: Block) -> str:
    """What the learned rule does to the same two groups, and to the gap."""
    row = findings.find_paid(block)
    if row is None or not findings.is_known(block):
        return "Nobody can say whether the gap would grow or shrink."
    worst, best = _ends(block)
    lower, upper = findings.gap_change(block, row)
    bounds = format_interval(lower, upper, "signed_points")
    value = format_value(row["coverage_gap"]["value"], "points")
    start = (
        f"With {findings.PAID_TITLE}: {_of_hundred(row, worst)} and {_of_hundred(row, best)}. The "
        f"gap would be {value}: "
    )
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return f"{start}whether that is more or less cannot be told."
    if lower > ROUNDING:
        return f"{start}**clearly larger** ({bounds})."
    if upper < -ROUNDING:
        return f"{start}**clearly smaller** ({bounds}){_say_way(row)}."
    return f"{start}no clear change ({bounds})."


def _say_way(row: Mapping[str, Any]) -> str:
    """Which way a gap closed."""
    return {
        "levelling up": "; those who get least would get more",
        "levelling down": "; those who get most would get less",
        "both": "; those who get least would get more, those who get most less",
    }.get(row["against_today"]["direction"], "")


def say_price(block: Block) -> str:
    """What is found in all, and with how many visits, against today's rule."""
    row, today = findings.find_paid(block), findings.find_row(block, TODAY)
    if row is None:
        return ""
    correct = row["against_today"]["correct"]
    ends = [findings.number(correct[name]) for name in ("value", "lower", "upper")]
    if not all(math.isfinite(end) for end in ends):
        return "What it finds in all cannot be compared."
    bounds = format_interval(ends[1], ends[2], "percent")
    size = format_value(abs(ends[0]), "percent")
    if ends[1] > ROUNDING:
        found = f"None: it finds {size} more in all ({bounds})"
    elif ends[2] < -ROUNDING:
        found = f"It finds {size} less in all ({bounds})"
    else:
        found = f"No clear one: it finds about as much in all ({bounds})"
    own, other = (
        findings.number(one["visits_per_complaint"]["value"]) * 100 for one in (row, today)
    )
    return f"{found}, with {own:.0f} visits for 100 complaints; today {other:.0f}."


def is_level(block: Block) -> bool:
    """Whether the gap under today's rule is within the audit's own limit, interval and all.

    As the audit has it: a gap of at most tau; where the mean is rare, the least over the most.
    """
    today = findings.find_row(block, TODAY)
    _, upper = findings.gap_interval(block, today)
    values = _coverage(today)
    spec = AuditSpec()
    if not math.isfinite(upper) or not values:
        return False
    if sum(values) / len(values) < spec.ratio_below:
        return max(values) > 0.0 and 1.0 - upper / max(values) >= spec.smallest_ratio
    return upper <= TAU


def make_answers(blocks: Sequence[Block]) -> tuple[Answer, ...]:
    """How sure the figures are, and what could make them wrong."""
    return (
        Answer("How sure are we?", tuple(filter(None, _say_sure(blocks)))),
        Answer("What could make this wrong?", tuple(filter(None, _say_wrong(blocks)))),
    )


def _say_sure(blocks: Sequence[Block]) -> list[str]:
    years = sorted({round(block["simulated_years"]) for block in blocks if _years(block) >= 1})
    judged = [findings.judge(block).verdict for block in blocks]
    clear = sum(verdict not in ("same", "unknown") for verdict in judged)
    played = ""
    if years:
        span = f"{years[0]}" if len(years) == 1 else f"{years[0]} to {years[-1]}"
        played = f"Each rule was played through the same {span} simulated years."
    return [
        played,
        f"The figures in brackets are 95 % intervals. A change is called clear only where all of "
        f"its interval lies on one side: here in {clear} of {len(blocks)} settings.",
        "Problems are counted once, if a visit finds them in time. They count whether anybody "
        "called or not."
        if not all(_is_of_reported(block) for block in blocks)
        else "Only what was reported is counted: what nobody reported is not in these figures.",
    ]


def _say_wrong(blocks: Sequence[Block]) -> list[str]:
    real = any(block["is_real"] for block in blocks)
    lines = []
    if not real:
        lines.append("This is a made-up city. No real office can be advised by it.")
        if len(blocks) > 1:
            lines.append(
                "Most hangs on how unlike areas call and on how many visits there are: compare "
                "the cards."
            )
    else:
        lines.append(findings.say_correction(blocks))
        lines.append(
            "There is no truth beside real records. What nobody reported stays unknown, and so "
            "does what a visit would have found where nobody looked."
        )
    lines.append(
        "The intervals hold for this city and these trained rules. Another city, other years "
        "or another training can differ by more."
    )
    return lines


def say_learned(blocks: Sequence[Block]) -> str:
    """Which policy is called the learned rule on this page."""
    names = dict.fromkeys(
        policy_title(row["policy"]) for block in blocks if (row := findings.find_paid(block))
    )
    if not names:
        return "No agent was paid for coverage in this run."
    title = findings.PAID_TITLE.capitalize()
    return f"{title} is {findings.join(list(names))} in the tables of every rule."


def say_lead(blocks: Sequence[Block]) -> str:
    """The first sentences of the page: in how many settings what changes; bad news first."""
    judged = [findings.judge(block).verdict for block in blocks]
    n = len(blocks)
    counts = (
        ("widens", sum(verdict == "wider" for verdict in judged)),
        ("narrows", sum(verdict in findings.NARROWER for verdict in judged)),
        ("same", sum(verdict in ("more", "fewer", "same") for verdict in judged)),
        ("unknown", sum(verdict == "unknown" for verdict in judged)),
    )
    said = {
        "widens": "would **widen** the gap between {groups} in {count}",
        "narrows": "would **narrow** {gap} in {count}",
        "same": "would not clearly change {gap} in {count}",
        "unknown": "does something nobody can tell to {gap} in {count}",
    }
    groups = "richer and poorer areas" if blocks[0].get("strata", INCOME) == INCOME else (
        findings.group_of(blocks[0]).replace("quintile", "quintiles")
    )  # fmt: skip
    parts, gap = [], f"the gap between {groups}"
    for name, count in counts:
        if count:
            where = f"all {n} settings" if count == n > 1 else f"{count} of {n} settings"
            where = "this setting" if n == 1 else where
            words = said[name]
            if name == "same" and count == n > 1:
                # "Would not change in all" could mean that it would in some.
                words, where = "would clearly change {gap} in {count}", f"none of {n} settings"
            parts.append(words.format(groups=groups, gap=gap, count=where))
            gap = "it"
    return f"Against today's rule, {findings.PAID_TITLE} {findings.join(parts)}."


def _years(block: Block) -> float:
    return findings.number(block.get("simulated_years"))


def _is_of_reported(block: Block) -> bool:
    """Whether coverage is of what was reported only."""
    return block["is_real"] and block["estimator"] == FALLBACK


def _coverage(row: Mapping[str, Any]) -> list[float]:
    cells = [findings.number(cell["value"]) for cell in row["coverage"][:N_KNOWN_STRATA]]
    return [value for value in cells if math.isfinite(value)]


def _ends(block: Block) -> tuple[int, int]:
    """The groups that today's rule covers least and most."""
    cells = findings.find_row(block, TODAY)["coverage"][:N_KNOWN_STRATA]
    known = {
        index: value
        for index, cell in enumerate(cells)
        if math.isfinite(value := findings.number(cell["value"]))
    }
    if not known:
        return 0, 0
    return min(known, key=known.__getitem__), max(known, key=known.__getitem__)


def _of_hundred(row: Mapping[str, Any], group: int) -> str:
    value = 100 * findings.number(row["coverage"][group]["value"])
    if not math.isfinite(value):
        return "an unknown number"
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _name_group(block: Block, group: int) -> str:
    if block.get("strata", INCOME) == INCOME:
        return FIFTHS[group]
    return f"group {findings.labels_of(block)[group]}"
