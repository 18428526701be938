"""Verdicts and groups in words, for a page that a community board can read."""

from __future__ import annotations

from parity311.audit.assess import GIVEN_SEVERITY, Verdict
from parity311.audit.compare import Comparison
from parity311.audit.gap import FAIL, PASS
from parity311.audit.spec import DENOMINATORS, STRATA, AuditSpec
from parity311.runs.formats import format_value

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
COUNTED = {"served": "served", "visited": "visited", "enforced": "violations found"}
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


def describe_groups(strata: str) -> str:
    """What a grouping is, in words."""
    return STRATA.get(strata, strata)


def describe_denominator(denominator: str) -> str:
    """What a denominator is, in words."""
    if denominator == GIVEN_SEVERITY:
        return "cases, with one mix of severity codes for all strata"
    return DENOMINATORS.get(denominator, denominator)


def state_finding(verdict: Verdict, spec: AuditSpec) -> str:
    """One sentence that says what was found, with its band."""
    comparison = verdict.comparison
    findings = STATE_FINDINGS if spec.polarity == "benefit" else BURDEN_FINDINGS
    start = findings[comparison.verdict].format(
        noun=NOUNS.get(verdict.denominator, verdict.denominator),
        groups=GROUPS.get(verdict.strata, verdict.strata),
    )
    return f"{start}: {describe_size(comparison)}."


def describe_size(comparison: Comparison) -> str:
    """The gap or the ratio with its band, or the reason why there is none."""
    if comparison.gap.estimate != comparison.gap.estimate:
        return comparison.reason
    if comparison.measure == "ratio":
        value, lower, upper = (
            format_value(end, "percent", 0)
            for end in (comparison.ratio.estimate, comparison.ratio.lower, comparison.ratio.upper)
        )
        text = f"the lowest rate is {value} of the highest (between {lower} and {upper})"
    else:
        value, lower, upper = (
            format_value(end, "points", 1).lstrip("+")
            for end in (comparison.gap.estimate, comparison.gap.lower, comparison.gap.upper)
        )
        text = f"the largest gap is {value} (between {lower} and {upper})"
    who = f"; worst off is {comparison.worst_off}" if comparison.worst_off else ""
    left_out = ", ".join(comparison.left_out)
    return f"{text}{who}" + (f"; too small to judge: {left_out}" if left_out else "")


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
