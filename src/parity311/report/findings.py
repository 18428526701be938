"""What a run says in words: every sentence is made from its figures, bad news included.

A block is one entry of `comparisons` in metrics.json: a domain in one city or in real records. No
function here reads anything else, so that no sentence can say more than the run folder holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parity311.estimation.correction import FALLBACK
from parity311.evaluation.metrics import ROUNDING
from parity311.evaluation.titles import TODAY, is_paid, policy_title
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.number_text import format_interval, format_value
from parity311.records.strata import BRIEFLY, INCOME, LABELS

Block = Mapping[str, Any]

SAME_VISITS = 0.03
"""Relative difference of visits up to which policies are said to make as many."""
NOT_PROPOSED = (
    TODAY, "never", "no_dispatch", "always", "batch_all", "random", "random_boards", "uniform",
    "ceiling", "searched",
)  # fmt: skip
"""Policies nobody would adopt, and those that know the process they are scored in."""
PAID_TITLE = "the learned rule"
"""What the agent paid for coverage is called on every page."""


@dataclass(frozen=True)
class Judgement:
    """What the paid agent would change in one block, and what follows."""

    verdict: str
    """better, narrower, trade, wider, more, fewer, same or unknown"""
    tone: str
    """good, bad, unsure or neutral: the tone of its key figure"""
    advice: str


JUDGEMENTS = {
    "better": Judgement("better", "good", "worth a trial in place of today's rule"),
    "narrower": Judgement("narrower", "good", "worth a trial in place of today's rule"),
    "trade": Judgement(
        "trade", "unsure", "a choice between a smaller gap and finding more, which no figure makes"
    ),
    "wider": Judgement("wider", "bad", "keep today's rule"),
    "more": Judgement(
        "more", "unsure", "worth a trial for what it finds, not for the gap"
    ),
    "fewer": Judgement("fewer", "bad", "keep today's rule"),
    "same": Judgement("same", "neutral", "no reason to leave today's rule"),
    "unknown": Judgement("unknown", "unsure", "no advice can rest on this; keep today's rule"),
}  # fmt: skip
NARROWER = ("better", "narrower", "trade")


def find_row(block: Block, policy: str) -> Mapping[str, Any]:
    """The figures of one policy."""
    return next(row for row in block["policies"] if row["policy"] == policy)


def find_paid(block: Block) -> Mapping[str, Any] | None:
    """The figures of the agent that is paid for coverage, where there is one."""
    return next((row for row in block["policies"] if is_paid(row["policy"])), None)


def is_known(block: Block) -> bool:
    """Whether gaps of this block may stand as figures.

    On real records coverage divides by estimated incidents; known only within a factor, they give
    a range.
    """
    return not (block["is_real"] and block["is_wide"])


def gap_change(block: Block, row: Mapping[str, Any]) -> tuple[float, float]:
    """Interval of the change of the gap against today's rule; nan where there is none."""
    found = block["gap_ranges"].get(row["policy"])
    if found is not None:
        return number(found["change_lower"]), number(found["change_upper"])
    change = row["against_today"]["coverage_gap"]
    return number(change["lower"]), number(change["upper"])


def gap_interval(block: Block, row: Mapping[str, Any]) -> tuple[float, float]:
    """Interval of a gap: over test episodes, on real records over the estimate as well."""
    found = block["gap_ranges"].get(row["policy"], row["coverage_gap"])
    return number(found["lower"]), number(found["upper"])


def judge(block: Block) -> Judgement:
    """What the paid agent changes against today's rule, beyond what its intervals leave open."""
    row = find_paid(block)
    if row is None or not is_known(block) or not row["is_within_capacity"]:
        return JUDGEMENTS["unknown"]
    lower, upper = gap_change(block, row)
    correct = row["against_today"]["correct"]
    least, most = number(correct["lower"]), number(correct["upper"])
    if not all(math.isfinite(end) for end in (lower, upper, least, most)):
        return JUDGEMENTS["unknown"]
    finds_more, finds_fewer = least > ROUNDING, most < -ROUNDING
    if lower > ROUNDING:
        return JUDGEMENTS["wider"]
    if upper < -ROUNDING:
        return JUDGEMENTS["better" if finds_more else "trade" if finds_fewer else "narrower"]
    return JUDGEMENTS["more" if finds_more else "fewer" if finds_fewer else "same"]


def name_block(block: Block) -> str:
    """A block's short name: its domain, and its scenario where there is one."""
    domain = block["domain"].replace("_", " ")
    return domain if block["is_real"] else f"{domain} ({block['participation']})"


def labels_of(block: Block) -> tuple[str, ...]:
    """Names of the five known strata of a block, with a comma for the brackets."""
    named = LABELS[block.get("strata", INCOME)][:N_KNOWN_STRATA]
    return tuple(label.replace(" (", ", ").rstrip(")") for label in named)


def group_of(block: Block) -> str:
    """What one stratum of a block is, in a few words."""
    return BRIEFLY[block.get("strata", INCOME)]


def say_what_to_do(blocks: Sequence[Block]) -> str:
    """What follows from the figures, blocks of one advice together; bad news first."""
    groups: dict[str, list[str]] = {}
    order = ("bad", "unsure", "neutral", "good")
    judged = sorted(
        ((judge(block), block) for block in blocks), key=lambda pair: order.index(pair[0].tone)
    )
    for judgement, block in judged:
        groups.setdefault(judgement.advice, []).append(name_block(block))
    said = [f"{join(names)}: {advice}" for advice, names in groups.items()]
    is_generated = not any(block["is_real"] for block in blocks)
    where = " (in this generated city; no real office can be advised by it)" if is_generated else ""
    return f"**What to do**{where}. {_capital('; '.join(said))}."


def say_block(block: Block) -> str:
    """The finding of one block: the gaps, what is found, visits, and what to do."""
    today, row = find_row(block, TODAY), find_paid(block)
    text = f"Under today's rule the gap is **{say_gap(block, today)}**."
    if row is None:
        return f"{text} No agent was paid for coverage."
    text += (
        f" {_capital(PAID_TITLE)} leaves **{say_gap(block, row)}**: {say_move(block, row)}. It "
        f"{say_found(row)}, {say_visits(row, today)}."
    )
    text += f" {_capital(judge(block).advice)}."
    other = find_alternative(block)
    if other is not None:
        text += (
            f" Of all policies that do not clearly find less than today's rule, "
            f"**{policy_title(other['policy'])}** has the smallest gap, "
            f"{say_gap(block, other)}, picked on these same episodes; it {say_found(other)}, "
            f"{say_visits(other, today)}."
        )
    return text


def say_price(block: Block) -> str:
    """What the weight on coverage costs the agent itself, beside its twin without it."""
    row = find_paid(block)
    if row is None:
        return ""
    twin = policy_title(row["reference"])
    price = row["price_of_equity"]
    moved = {
        "levelling up": "the gap is smaller than the twin's because the worst served quintile is "
        "served more",
        "levelling down": "the gap is smaller than the twin's because the best served quintile is "
        "served less",
        "both": "the gap is smaller than the twin's because the worst served quintile is served "
        "more and the best served less",
        "widened": "the gap is wider than the twin's",
        "no clear change": "the gap does not differ from the twin's beyond noise",
    }[row["direction"]]
    value = number(price["value"])
    if not math.isfinite(value):
        note = row.get("price_note") or "not defined"
        return f"Price of equity against {twin} without it: {note}; {moved}."
    bounds = format_interval(price["lower"], price["upper"], "percent")
    verb = "gives up" if value >= 0 else "gains"
    return (
        f"Against its twin without the weight on coverage ({twin}), the agent {verb} "
        f"{format_value(abs(value), 'percent')} of correct escalations (price {bounds}); {moved}."
    )


def say_gap(block: Block, row: Mapping[str, Any]) -> str:
    """A gap with its interval, or the range that is all that is known of it."""
    lower, upper = gap_interval(block, row)
    if not is_known(block):
        if not math.isfinite(upper):
            return "not known"
        return f"somewhere in {format_interval(lower, upper, 'points')}"
    value = format_value(row["coverage_gap"]["value"], "points")
    bounds = format_interval(lower, upper, "points")
    return f"{value} ({bounds})" if bounds else value


def say_move(block: Block, row: Mapping[str, Any]) -> str:
    """How the gap moved against today's rule, for every direction."""
    if not is_known(block):
        return "whether that is more or less than today cannot be told"
    lower, upper = gap_change(block, row)
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return "whether that is more or less than today cannot be told"
    bounds = f"({format_interval(lower, upper, 'signed_points')})"
    if lower > ROUNDING:
        return f"the gap widens {bounds}"
    if upper >= -ROUNDING:
        return f"no change beyond noise {bounds}"
    closed = {
        "levelling up": "narrower by serving the worst served quintile more",
        "levelling down": "narrower by serving the best served quintile less",
        "both": "narrower by serving the worst served quintile more and the best served less",
    }.get(row["against_today"]["direction"], "narrower")
    return f"{closed} {bounds}"


def say_found(row: Mapping[str, Any]) -> str:
    """Correct escalations and recall against today's rule."""
    found = row["against_today"]
    correct, recall = found["correct"], found["recall"]
    points = format_value(recall["value"], "signed_points")
    bounds = format_interval(recall["lower"], recall["upper"], "signed_points")
    recall_words = f"recall {points}, {bounds}"
    if not math.isfinite(number(correct["value"])):
        note = found["note"] or "not defined"
        return f"cannot be compared in what it finds ({note}; {recall_words})"
    change = format_interval(correct["lower"], correct["upper"], "percent")
    size = format_value(abs(correct["value"]), "percent")
    if correct["lower"] > ROUNDING:
        return f"finds {size} more than today's rule ({change}; {recall_words})"
    if correct["upper"] < -ROUNDING:
        return f"finds {size} fewer than today's rule ({change}; {recall_words})"
    return f"finds as many as today's rule within noise ({change}; {recall_words})"


def say_visits(row: Mapping[str, Any], today: Mapping[str, Any]) -> str:
    """Visits per complaint against today's rule."""
    own, other = (number(one["visits_per_complaint"]["value"]) for one in (row, today))
    numbers = f"{own:.3f} per complaint against {other:.3f}"
    if abs(own - other) <= SAME_VISITS * other:
        return f"with as many visits ({numbers})"
    return f"with {'more' if own > other else 'fewer'} visits ({numbers})"


def say_all_visits(block: Block) -> str:
    """Which policies make how many visits, measured."""
    rows = [
        (number(row["visits_per_complaint"]["value"]), policy_title(row["policy"]))
        for row in block["policies"]
        if row["policy"] not in NOT_PROPOSED or row["policy"] == TODAY
    ]
    (least, fewest), (most, busiest) = min(rows), max(rows)
    if most - least <= SAME_VISITS * most:
        return f"All rules and agents make about as many visits: {most:.3f} per complaint."
    return (
        f"Visits differ: from {least:.3f} per complaint ({fewest}) to {most:.3f} ({busiest}). A "
        "policy that finds more may simply visit more."
    )


def find_smallest_gap(block: Block) -> Mapping[str, Any] | None:
    """The smallest gap among policies that clearly narrow it and do not clearly find less."""
    if not is_known(block):
        return None
    rows = [
        row
        for row in _proposed(block)
        if gap_change(block, row)[1] < -ROUNDING
        and number(row["against_today"]["correct"]["upper"]) >= -ROUNDING
    ]
    return min(rows, key=lambda row: row["coverage_gap"]["value"], default=None)


def find_alternative(block: Block) -> Mapping[str, Any] | None:
    """The same where it is not the paid agent's, of which everything is said already."""
    best = find_smallest_gap(block)
    return None if best is None or is_paid(best["policy"]) else best


def _proposed(block: Block) -> list[Mapping[str, Any]]:
    return [
        row
        for row in block["policies"]
        if row["policy"] not in NOT_PROPOSED and row["is_within_capacity"]
    ]


def say_correction(blocks: Sequence[Block]) -> str:
    """Which estimate of incidents was used, which failed, and why, domain by domain."""
    said = [_one_correction(block) for block in blocks if block["is_real"]]
    return " ".join(dict.fromkeys(said))


def _one_correction(block: Block) -> str:
    name = block["domain"].replace("_", " ").capitalize()
    failed = "; ".join(
        f"`{estimator}` could not be fitted: {reason.rstrip('.')}"
        for estimator, reason in block["failed_estimators"].items()
    )
    if block["estimator"] != FALLBACK:
        text = f"{name}: incidents were estimated with `{block['estimator']}`"
        if block["is_wide"]:
            text += f", and are {say_known_within(block)}: gaps are shown as ranges"
    else:
        text = (
            f"{name}: **complaints stand for incidents** (`{FALLBACK}`), so what nobody reported "
            "is not counted and coverage is of what was reported"
        )
    return f"{text}. {_capital(failed)}." if failed else f"{text}."


def say_known_within(block: Block) -> str:
    """How well the number of incidents is known."""
    factor = block["incidents_known_within"]
    if factor is None:
        return "not bounded from below or above"
    return f"known only within a factor of {factor:.0f}"


def say_coverage(blocks: Sequence[Block]) -> str:
    """What coverage divides by, as it was in this run."""
    raw = [block for block in blocks if block["is_real"] and block["estimator"] == FALLBACK]
    if blocks and len(raw) == len(blocks):
        what = (
            "actionable incidents behind complaints that a visit found in time; what nobody "
            "reported is not in it"
        )
    else:
        what = "actionable incidents, reported or not, that a visit found in time"
        if raw:
            names = join(sorted({block["domain"].replace("_", " ") for block in raw}))
            what += f" (in {names}: of those behind complaints only)"
    return (
        f"**Coverage** is the share of {what}. The **gap** is the difference between the best and "
        f"the worst served {group_of(blocks[0]) if blocks else BRIEFLY[INCOME]}; **recall** is the "
        "share found of what was reported."
    )


def say_rows(block: Block) -> str:
    """Which rows were learned from, and which are the test period."""
    learned, tested = block["rows"]["learned"], block["rows"]["tested"]
    corrected = block["rows"].get("corrected", learned)
    part = ""
    if corrected["complaints"] < learned["complaints"]:
        part = (
            f" ({corrected['complaints']:,} of them, from {corrected['first']} on, for the "
            "correction)"
        )
    return (
        f"Learned from {learned['complaints']:,} rows received {learned['first']} to "
        f"{learned['last']}{part}; the test period has {tested['complaints']:,}, received "
        f"{tested['first']} to {tested['last']}."
    )


def say_intervals(block: Block) -> str:
    """What the intervals cover, and what they do not."""
    text = (
        "Intervals are 95 % over test episodes, with the process and the trained agents taken as "
        "given: another city, other years or another training can differ by more. A gap's interval "
        "covers the choice of its two quintiles"
    )
    if block["gap_ranges"]:
        text += ", and here also the 90 % interval of the estimated incidents it divides by"
    return f"{text}."


def say_estimates(block: Block) -> str:
    """Where the need is by each estimator: the share of the two poorest quintiles."""
    shares = poor_shares(block)
    if not shares:
        return "Each quintile's share of the estimated incidents."
    said = ", ".join(
        f"{name.replace('_', ' ')}{' (used)' if name == block['estimator'] else ''} "
        f"{format_value(share, 'percent', 0)}"
        for name, share in shares.items()
    )
    lowest = "lowest income" if block.get("strata", INCOME) == INCOME else "the lowest share"
    return f"Share of the estimated incidents in the two quintiles of {lowest}: {said}."


def poor_shares(block: Block) -> dict[str, float]:
    """Share of the estimated incidents in the two lowest quintiles, by estimator."""
    found = {}
    for name in dict.fromkeys(row["estimator"] for row in block["reporting"]):
        known = [
            number(row["incidents_per_28_days"])
            for row in block["reporting"]
            if row["estimator"] == name and row["stratum"] != "unknown"
        ]
        total = sum(known)
        if math.isfinite(total) and total > 0.0:
            found[name] = sum(known[:2]) / total
    return found


def join(parts: Sequence[str]) -> str:
    """Words as a list in a sentence."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def number(value: Any) -> float:
    """A figure as a number; nan where there is none."""
    return math.nan if value is None else float(value)
