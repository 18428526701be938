"""Verdicts, rates and groups in words, for a page that a community board can read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parity311.audit.assess import GIVEN_SEVERITY, Verdict
from parity311.audit.compare import Comparison
from parity311.audit.gap import FAIL, INSUFFICIENT, PASS
from parity311.audit.spec import DENOMINATORS, STRATA, AuditSpec
from parity311.number_text import (
    MISSING_TEXT,
    NARROW_SPACE,
    POINTS_UNIT,
    format_interval,
    format_number,
    format_value,
)

VERDICTS = {
    "PASS": "equal within the limit",
    "FAIL": "unequal beyond the limit",
    "INSUFFICIENT": "cannot be told",
}
TONES = {"PASS": "good", "FAIL": "bad", "INSUFFICIENT": "unsure"}
NOUNS = {
    "complaints": "complaint",
    "cases": "case",
    "incidents": "estimated incident",
    "actionable": "actionable incident",
    "dwellings": "dwelling",
    GIVEN_SEVERITY: "case, given severity",
}
ASKS = {
    "complaints": "are those who call served alike",
    "cases": "are cases once opened served alike",
    "incidents": "are those who have the problem served alike, whether they called or not",
    "actionable": "are those whose problem a visit would confirm served alike",
    "dwellings": "does service reach homes alike, needed there or not",
    GIVEN_SEVERITY: "are cases of the same severity code served alike",
}
"""The question that each denominator answers."""
COUNTED = {
    "served": "served",
    "visited": "visited",
    "enforced": "violations found",
    "as_given": "served",
}
"""What an estimand counts, as a word before `per`."""
GROUPS = {
    "income5": "income quintiles",
    "race5": "quintiles of the Black and Hispanic share",
    "race_majority": "majority groups",
    "language": "languages",
    "channel": "channels",
}
STATE_FINDINGS = {
    PASS: "Service per {noun} is equal within the limit across {groups}",
    FAIL: "Service per {noun} is unequal across {groups}",
    "INSUFFICIENT": "Whether service per {noun} is equal across {groups} cannot be told",
}
BURDEN_FINDINGS = {
    state: text.replace("Service", "The burden").replace("service", "the burden")
    for state, text in STATE_FINDINGS.items()
}
PER_DWELLINGS = 1000
"""Rates per dwelling are small: they are said per thousand."""
SMALLEST_SHARE = 1e-4
"""Below it a share is said to be less than that, not written with a power of ten."""


def name_denominator(verdict: Verdict) -> str:
    """Say what a verdict is per: estimated incident, dwelling and so on.

    In test episodes incidents are those of the process, not estimated.
    """
    if verdict.policy != "recorded" and verdict.denominator == "incidents":
        return "incident"
    return NOUNS.get(verdict.denominator, verdict.denominator)


def name_groups(verdict: Verdict) -> str:
    """Say which groups a verdict compares: income quintiles, languages and so on."""
    return GROUPS.get(verdict.strata, verdict.strata)


def describe_groups(strata: str) -> str:
    """What a grouping is, in words."""
    return STRATA.get(strata, strata)


def describe_denominator(denominator: str) -> str:
    """What a denominator is, in words."""
    if denominator == GIVEN_SEVERITY:
        return "cases, with one mix of severity codes for all strata"
    return DENOMINATORS.get(denominator, denominator)


def describe_rate(rate: float, denominator: str) -> str:
    """A rate as people say it: percent, per 1,000 dwellings, or fewer than 1 in 10,000."""
    if not np.isfinite(rate):
        return MISSING_TEXT
    if 0 < rate < SMALLEST_SHARE:
        return "fewer than 1 in 10,000"
    if denominator == "dwellings":
        return f"{format_number(PER_DWELLINGS * rate)} per {PER_DWELLINGS:,}"
    return format_value(rate, "percent", 2 if 0 < rate < 0.01 else 1)


def describe_counts(served: float, out_of: float) -> str:
    """Counts with their share, as in 2 of 5,372 cases (0.04 %)."""
    if not out_of:
        return "no case"
    return f"{served:,.0f} of {out_of:,.0f} cases ({describe_rate(served / out_of, 'cases')})"


def state_finding(verdict: Verdict, spec: AuditSpec) -> str:
    """One sentence that says what was found, with its band."""
    comparison = verdict.comparison
    findings = STATE_FINDINGS if spec.polarity == "benefit" else BURDEN_FINDINGS
    start = findings[comparison.verdict].format(
        noun=name_denominator(verdict), groups=name_groups(verdict)
    )
    return f"{start}: {describe_size(comparison, verdict.denominator)}."


def describe_size(comparison: Comparison, denominator: str = "") -> str:
    """The gap or the ratio with its band, or the reason why there is none."""
    if not np.isfinite(comparison.gap.estimate):
        return comparison.reason
    who = name_worst_off(comparison, denominator)
    left_out = ", ".join(comparison.left_out)
    text = f"{measure_words(comparison)}; {who}" if who else measure_words(comparison)
    return text + (f"; too small to judge: {left_out}" if left_out else "")


def name_worst_off(comparison: Comparison, denominator: str = "") -> str:
    """Who is at the wrong end; nobody unless a comparison fails, for the order may be chance.

    Few visits per home may mean little need, so per dwelling nobody is called worst off.
    """
    worst = comparison.worst_off
    if not worst:
        return ""
    if denominator == "dwellings":
        return f"at the wrong end: {worst}; the need there may differ"
    return f"worst off {'are' if ', ' in worst else 'is'} {worst}"


def measure_words(comparison: Comparison) -> str:
    """The measure that decided, with its band: a gap in points, or a ratio in percent."""
    if comparison.measure == "ratio":
        ends = (comparison.ratio.estimate, comparison.ratio.lower, comparison.ratio.upper)
        if not np.isfinite(ends[0]):
            return "nobody was counted in any stratum"
        value, lower, upper = (_percent(end) for end in ends)
        return f"the lowest rate is {value} of the highest (between {lower} and {upper})"
    value, lower, upper = (
        format_value(end, "points", 1).lstrip("+")
        for end in (comparison.gap.estimate, comparison.gap.lower, comparison.gap.upper)
    )
    return f"the largest gap is {value} (between {lower} and {upper})"


def measure_briefly(comparison: Comparison) -> str:
    """The same in a few words, for lists and tables."""
    if not np.isfinite(comparison.gap.estimate):
        return comparison.reason
    if comparison.measure == "ratio":
        ratio = comparison.ratio
        if not np.isfinite(ratio.estimate):
            return "nobody was counted"
        ends = f"{_percent(ratio.lower)} to {_percent(ratio.upper)}"
        return f"lowest rate {_percent(ratio.estimate)} of the highest, {ends}"
    gap = comparison.gap
    band = format_interval(gap.lower, gap.upper, "points", 1).removesuffix(POINTS_UNIT)
    return f"gap {format_value(gap.estimate, 'points', 1)}, {band}"


def _percent(share: float) -> str:
    if 0 < share < 0.005:
        return f"less than 1{NARROW_SPACE}%"
    return format_value(share, "percent", 0)


def count_verdicts(verdicts: Sequence[Verdict]) -> str:
    """How many comparisons there are of each kind, those beyond the limit first."""
    said = [verdict.comparison.verdict for verdict in verdicts]
    n_fail, n_pass, n_unsure = (said.count(state) for state in (FAIL, PASS, INSUFFICIENT))
    if not n_fail and not n_pass:
        return (
            "**These records cannot tell** whether service is equal: none of "
            f"{len(said)} comparisons can be judged."
        )
    if not n_fail:
        rest = f"; {n_unsure} cannot be told" if n_unsure else ""
        return (
            f"**{n_pass} of {len(said)} comparisons {_be(n_pass)} equal within the limit**{rest}."
        )
    rest = f"{n_pass} equal within it, {n_unsure} cannot be told"
    return (
        f"**{n_fail} of {len(said)} comparisons {_be(n_fail)} unequal beyond the limit**; {rest}."
    )


def _be(n: int) -> str:
    return "is" if n == 1 else "are"


def list_failures(verdicts: Sequence[Verdict]) -> str:
    """Every comparison of one thing that fails, in one sentence; empty where none does."""
    failed = [v for v in verdicts if v.comparison.verdict == FAIL]
    parts = []
    for groups in dict.fromkeys(name_groups(v) for v in failed):
        sizes = [
            f"per {name_denominator(v)} ({measure_briefly(v.comparison)}; "
            f"{name_worst_off(v.comparison, v.denominator)})"
            for v in failed
            if name_groups(v) == groups
        ]
        parts.append(f"across {groups} {', '.join(sizes)}")
    return f"**unequal beyond the limit** {'; '.join(parts)}." if parts else ""


def say_disagreement(verdicts: Sequence[Verdict], strata: Sequence[str]) -> list[str]:
    """Which denominators say what, one sentence for all groupings that have the same answers."""
    answers: dict[str, list[str]] = {}
    for name in strata:
        mine = [v for v in verdicts if v.strata == name]
        parts = [
            f"{VERDICTS[state]} {', '.join(f'per {name_denominator(v)}' for v in there)}"
            for state in (FAIL, PASS, INSUFFICIENT)
            if (there := [v for v in mine if v.comparison.verdict == state])
        ]
        answers.setdefault("; ".join(parts), []).append(GROUPS.get(name, name))
    return [
        f"The denominators disagree across {', '.join(groups)}: {said}."
        for said, groups in answers.items()
    ]


def explain_denominators(verdicts: Sequence[Verdict]) -> str:
    """The question that each denominator in use asks."""
    used = dict.fromkeys(v.denominator for v in verdicts)
    parts = [f"per {NOUNS[name]}, {ASKS[name]}?" for name in used]
    return f"Each denominator asks a question of its own: {' '.join(parts)}"


def describe_limit(spec: AuditSpec) -> str:
    """The limits of the specification in words."""
    gap = format_value(spec.tau, "points", 1).lstrip("+")
    ratio = format_value(spec.smallest_ratio, "percent", 0)
    rare = format_value(spec.ratio_below, "percent", 0)
    return (
        f"A gap of up to {gap} passes; where the mean rate is below {rare}, the lowest rate must "
        f"be at least {ratio} of the highest. Both are judged by a band of "
        f"{format_value(spec.level, 'percent', 0)} for all pairs together, so that **equal within "
        "the limit** and **unequal beyond the limit** are both claims with evidence; anything else "
        "reads **cannot be told**."
    )
