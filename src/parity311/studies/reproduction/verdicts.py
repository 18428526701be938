"""Verdicts on claims, decided by code from what was published, what was found and its interval.

One rule for each kind of claim, stated in `RULES` and printed with the report:

sign       a difference is claimed to lie on one side of zero;
bound      a figure is claimed to lie below (or above) a limit;
magnitude  a figure is claimed to have a value;
level      a figure hangs on New York's own records: it can be met in another city, not refuted;
order      policies are claimed to come in an order;
count      something is claimed to be there, in each of several runs;
sensitivity a gain is claimed to bear hidden reasons, or to bear less than another;
arithmetic a published figure follows from other published figures, or contradicts them;
text       two places of the paper say the same, or they do not;
shown      the paper asks, or says it of something else: what was found is shown and not counted.

An interval that decides nothing is said to decide nothing: a claim is not refuted by noise. One
error of the paper counts once: what is wrong only because of it follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HOLDS = "holds"
FAILS = "does not hold"
UNTESTED = "cannot be tested"
CONTRADICTS = "contradicts itself"
FOLLOWS = "follows from another"
"""Wrong, but only because of an error that another claim already counts."""
NOT_CLAIMED = "not claimed"
"""Asked by the paper, or said of something else: neither for it nor against it."""
VERDICTS = (HOLDS, FAILS, UNTESTED, CONTRADICTS, FOLLOWS, NOT_CLAIMED)
ORDER_BAR = 0.75
"""Share of pairs in the published order from which an order is the same: half-way from chance (one
half) to all of them; in Kendall's terms τ = 0.5 (our choice, made with earlier results in view)."""

RULES = {
    "sign": "holds where the whole 95 % interval of our difference lies on the claimed side of "
    "zero, does not hold where it lies wholly on the other side or within the margin that is as "
    "good as equal; an interval that reaches over both decides nothing",
    "bound": "holds where the whole 95 % interval of our figure lies within the claimed limit, "
    "does not hold where it lies wholly outside",
    "magnitude": "holds where our whole 95 % interval lies within the stated tolerance of the "
    "published value or range, does not hold where it lies wholly outside; an interval that is "
    "too wide decides nothing",
    "level": "a figure that hangs on New York's own records (base rates, how telling a feature is, "
    "who calls): holds where our whole 95 % interval lies within the stated tolerance; where it "
    "does not, another city cannot refute it; a claimed sign does not hold where our whole "
    "interval lies on the other side of zero",
    "order": "holds where the whole 95 % interval of the share of pairs in the published order "
    "lies above three quarters, does not hold where it lies wholly below; a single row holds where "
    "every pair is clearly in the published order, does not hold where one is clearly reversed",
    "arithmetic": "holds where the published figures agree within their rounding, contradicts "
    "itself where they do not, follows from another where they agree once that one is put right",
    "text": "holds where both places of the paper say the same, contradicts itself where they do "
    "not",
    "count": "holds where what is claimed is found in every run (or, where it is said of several "
    "domains, with an interval clear of zero on each side), does not hold where it is in none",
    "sensitivity": "of a gain that is clear of zero on record: robust where only a hidden reason "
    "beyond Γ = 1.5 overturns it, more sensitive where a smaller Γ does; where there is no clear "
    "gain there is nothing to test",
    "shown": "the paper asks it and does not answer, or says it of other domains: what was found "
    "is shown, and counts neither for the paper nor against it",
    "untested": "there is nothing here to test it with; the reason is given",
}
"""The rule of every kind of claim, in words."""


@dataclass(frozen=True)
class Measured:
    """What we found: a figure and its interval, or why there is none."""

    value: float
    lower: float = math.nan
    upper: float = math.nan
    words: str = ""
    """the figure as it is shown; made from the numbers where empty"""

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval to decide by."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    @property
    def is_sound(self) -> bool:
        """Whether the interval, if there is one, contains its own point (but for rounding)."""
        slack = 1e-9 * max(abs(self.value), 1.0) if math.isfinite(self.value) else 0.0
        return not self.has_interval or self.lower - slack <= self.value <= self.upper + slack


@dataclass(frozen=True)
class Decision:
    """A verdict and why."""

    verdict: str
    reason: str


def decide_sign(ours: Measured, claimed: int, *, margin: float = 0.0) -> Decision:
    """Judge a claimed sign (+1 or −1) of a difference; within ±margin is as good as equal."""
    if not ours.has_interval:
        return Decision(UNTESTED, "there is no interval to decide by")
    low, high = sorted((claimed * ours.lower, claimed * ours.upper))
    if low > 0.0:
        return Decision(HOLDS, "the whole interval lies on the claimed side of zero")
    if high < 0.0:
        return Decision(FAILS, "the whole interval lies on the other side of zero")
    if margin > 0.0 and low >= -margin and high <= margin:
        return Decision(FAILS, "the two are as good as equal")
    return Decision(UNTESTED, "the interval contains zero: these runs cannot tell the two apart")


def decide_bound(
    ours: Measured, *, at_most: float = math.inf, at_least: float = -math.inf
) -> Decision:
    """Judge a claim that a figure lies within limits."""
    if not ours.has_interval:
        return Decision(UNTESTED, "there is no interval to decide by")
    if ours.lower >= at_least and ours.upper <= at_most:
        return Decision(HOLDS, "the whole interval lies within the claimed limit")
    if ours.upper < at_least or ours.lower > at_most:
        return Decision(FAILS, "the whole interval lies outside the claimed limit")
    return Decision(UNTESTED, "the interval reaches over the claimed limit")


def decide_magnitude(
    ours: Measured, published: float | tuple[float, float], *, tolerance: float = 0.0
) -> Decision:
    """Judge a published value, or range of values; the tolerance is in the figure's own unit."""
    low, high = published if isinstance(published, tuple) else (published, published)
    found = decide_bound(ours, at_least=low - tolerance, at_most=high + tolerance)
    reasons = {
        HOLDS: "our whole interval lies within the tolerance of the published value",
        FAILS: "our whole interval lies outside the tolerance of the published value",
    }
    if found.verdict == UNTESTED and ours.has_interval:
        return Decision(UNTESTED, "our interval is too wide to tell")
    return Decision(found.verdict, reasons.get(found.verdict, found.reason))


RECORDS = "it hangs on New York's records"


def decide_level(
    ours: Measured,
    published: float | tuple[float, float],
    *,
    tolerance: float = 0.0,
    claimed: int = 0,
    hangs_on: str = RECORDS,
) -> Decision:
    """Judge a value that another city can meet and not refute; its sign (+1, −1), it can."""
    found = decide_magnitude(ours, published, tolerance=tolerance)
    if claimed and decide_sign(ours, claimed).verdict == FAILS:
        return Decision(FAILS, "our whole interval lies on the other side of zero")
    return as_level(found, hangs_on)


def as_level(found: Decision, hangs_on: str) -> Decision:
    """The decision on a value that another city can meet and not refute."""
    if found.verdict != FAILS:
        return found
    return Decision(UNTESTED, f"ours is another level, which refutes nothing: {hangs_on}")


def decide_shown(ours: Measured, asked: int, *, margin: float = 0.0, why: str = "") -> Decision:
    """Say what was found where the paper claims nothing; `asked` is the sign it asks about."""
    found = decide_sign(ours, asked, margin=margin)
    words = {HOLDS: "yes here", FAILS: "not here", UNTESTED: "these runs cannot tell"}
    if found.verdict == FAILS and ours.has_interval and ours.lower <= 0.0 <= ours.upper:
        return Decision(NOT_CLAIMED, f"{why}; as good as equal here")
    return Decision(NOT_CLAIMED, f"{why}; {words[found.verdict]}")


def decide_order(ours: Measured) -> Decision:
    """Judge an order by the share of pairs that come as published."""
    found = decide_bound(ours, at_least=ORDER_BAR)
    reasons = {
        HOLDS: "at least three quarters of the pairs come as published",
        FAILS: "fewer than three quarters of the pairs come as published",
    }
    return Decision(found.verdict, reasons.get(found.verdict, "the interval reaches over the bar"))


def decide_pairs(pairs: Mapping[str, Decision]) -> Decision:
    """Judge one policy by its pairs with those the paper puts below it.

    As good as equal is not the published order either: such a pair does not hold.
    """
    reversed_ = [name for name, one in pairs.items() if one.verdict == FAILS]
    unsure = [name for name, one in pairs.items() if one.verdict == UNTESTED]
    if reversed_:
        return Decision(FAILS, f"not ahead of {', '.join(reversed_)}")
    if unsure:
        return Decision(UNTESTED, f"these runs cannot tell it from {', '.join(unsure)}")
    if not pairs:
        return Decision(UNTESTED, "there is nothing to decide by")
    return Decision(HOLDS, f"clearly ahead of {', '.join(pairs)}")


def decide_arithmetic(
    stated: float, computed: float, rounding: float, *, mended: float = math.nan
) -> Decision:
    """Judge a published figure against what other published figures make of it.

    ``mended`` is what they make of it once an error that another claim counts is put right.
    """
    if abs(stated - computed) <= rounding:
        return Decision(HOLDS, "the published figures agree within their rounding")
    if abs(stated - mended) <= rounding:
        return Decision(FOLLOWS, f"they agree ({_plain(mended)}) once that error is put right")
    return Decision(
        CONTRADICTS, f"the published figures give {_plain(computed)}, stated is {_plain(stated)}"
    )


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def decide_same(first: frozenset[str], second: frozenset[str]) -> Decision:
    """Judge two lists in the paper that should name the same things."""
    if first == second:
        return Decision(HOLDS, "both places name the same")
    odd = ", ".join(sorted(first ^ second))
    return Decision(CONTRADICTS, f"only one of the two places names {odd}")


def decide_count(n_found: int, n_runs: int) -> Decision:
    """Judge something that is there or not in each of several runs."""
    if n_runs == 0:
        return Decision(UNTESTED, "there is no run to look at")
    if n_found == n_runs:
        return Decision(HOLDS, f"found in all {n_runs}")
    if n_found == 0:
        return Decision(FAILS, f"found in none of {n_runs}")
    return Decision(UNTESTED, f"found in {n_found} of {n_runs}: the runs disagree")


def decide_all(decisions: Sequence[Decision]) -> Decision:
    """Judge a claim of several parts: it holds if all do, and fails with any."""
    for verdict in (FAILS, CONTRADICTS, UNTESTED):
        for one in decisions:
            if one.verdict == verdict:
                return one
    if not decisions:
        return Decision(UNTESTED, "there is nothing to decide by")
    return Decision(HOLDS, decisions[0].reason)


def untested(reason: str) -> Decision:
    """A claim that nothing here can test."""
    return Decision(UNTESTED, reason)
