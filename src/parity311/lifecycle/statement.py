"""The reward statement: what a policy was paid for, line by line, in plain words.

Every figure that decides what a policy learns to prefer is one line: the weights, how coverage is
paid, between which groups, over which need, by which estimator, and the gap its audit lets pass. A
statement has a version of its own, which rises when a line comes to mean something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.audit.spec import AuditSpec
from parity311.mdp.contract import N_KNOWN_STRATA, REWARD_NAMES
from parity311.mdp.equity import DENOMINATORS, WINDOW_DAYS, term_of
from parity311.records.strata import BRIEFLY, GROUPED_BY, LABELS

STATEMENT_VERSION = 1
NOT_SAID = "not said"
NO_AUDIT = "not audited"

WEIGHTS_IN_WORDS = {
    "speed": "weight on people waiting less, the graver the code the more",
    "cost": "weight on spending fewer inspector hours",
    "equity": "weight on areas that are behind in coverage catching up",
    "retention": "weight on dwellings staying habitable",
}
MODES_IN_WORDS = {
    "dual": "a correct visit earns its area's coverage price, which rises while the area is behind",
    "potential": "a change of the disparity of coverage over four weeks is paid for",
    "windowed": "the disparity of coverage over four weeks is paid for",
    "per_step": "the disparity of coverage in a single step is paid for, as published",
}
FORMS_IN_WORDS = {
    "two_strata": "low against high quintiles",
    "max_gap": "the largest difference between two groups",
    "variance": "the spread over all groups",
}


@dataclass(frozen=True)
class StatedLine:
    """One line of a statement."""

    name: str
    """as programs know it"""
    words: str
    """what it is"""
    value: str
    """how it is set, in words"""


def state_policy(
    manifest: Mapping[str, Any], spec: AuditSpec | None = None
) -> tuple[StatedLine, ...]:
    """The statement of a policy from its package's manifest and what it was audited by."""
    return (
        *_weights(manifest),
        *_equity_lines(manifest),
        *_need_lines(manifest),
        *_audit_lines(spec),
    )


def _weights(manifest: Mapping[str, Any]) -> list[StatedLine]:
    shares = dict(zip(REWARD_NAMES, manifest["preference"], strict=True))
    return [
        StatedLine(f"weight_{name}", WEIGHTS_IN_WORDS[name], f"{100 * share:.4g} %")
        for name, share in shares.items()
    ]


def _equity_lines(manifest: Mapping[str, Any]) -> list[StatedLine]:
    term = term_of(manifest)
    is_dual = term.equity_mode == "dual"
    form = "is not used by coverage prices" if is_dual else FORMS_IN_WORDS[term.equity_form]
    cap, step = _number(manifest, "price_cap"), _number(manifest, "price_step")
    prices = _by_group(manifest, term.strata)
    return [
        StatedLine("equity_mode", "how coverage is paid", MODES_IN_WORDS[term.equity_mode]),
        StatedLine("equity_form", "disparity that is paid for", form),
        StatedLine("strata", "groups whose coverage is compared", GROUPED_BY[term.strata]),
        StatedLine("denominator", "coverage is counted per", DENOMINATORS[term.denominator]),
        StatedLine("window", "time over which coverage is remembered", f"{WINDOW_DAYS:g} days"),
        StatedLine("price_cap", "largest coverage price, in correct visits", cap),
        StatedLine("price_step", "how fast prices move, per unit of shortfall and step", step),
        StatedLine("prices", "coverage prices in force, by group", prices),
    ]


def _need_lines(manifest: Mapping[str, Any]) -> list[StatedLine]:
    origin = manifest.get("origin") or {}
    window = " to ".join(filter(None, (origin.get("learned_from"), origin.get("learned_to"))))
    need = NOT_SAID
    if "denominators" in manifest and "steps_per_day" in manifest:
        a_day = np.asarray(manifest["denominators"], float) * float(manifest["steps_per_day"])
        need = ", ".join(f"{one:.3g}" for one in a_day[:N_KNOWN_STRATA])
    estimator = origin.get("estimator") or NOT_SAID
    return [
        StatedLine("estimator", "how reports become incidents", estimator),
        StatedLine("need", "estimated incidents a day that count, lowest group first", need),
        StatedLine("learned", "learned from records of", window or NOT_SAID),
        StatedLine("records", "fingerprint of those records", origin.get("records") or NOT_SAID),
    ]


def _audit_lines(spec: AuditSpec | None) -> list[StatedLine]:
    tau = NO_AUDIT if spec is None else f"{100 * spec.tau:.3g} points"
    ratio = NO_AUDIT if spec is None else f"{spec.smallest_ratio:.0%} of the best-off group's rate"
    groups = NO_AUDIT if spec is None else ", ".join(BRIEFLY.get(s, s) for s in spec.strata)
    return [
        StatedLine("tau", "largest gap of coverage that passes the audit", tau),
        StatedLine("smallest_ratio", "where coverage is rare, lowest rate that passes", ratio),
        StatedLine("audited_by", "groups the audit compares", groups),
    ]


def _number(manifest: Mapping[str, Any], name: str) -> str:
    return f"{float(manifest[name]):.4g}" if name in manifest else NOT_SAID


def _by_group(manifest: Mapping[str, Any], strata: str) -> str:
    prices = manifest.get("prices")
    if prices is None or not np.any(prices):
        return "none"
    labels = LABELS[strata][:N_KNOWN_STRATA]
    return ", ".join(
        f"{label.split(' ')[0]} {price:+.2f}"
        for label, price in zip(labels, prices[:N_KNOWN_STRATA], strict=True)
    )


def changed_lines(
    first: tuple[StatedLine, ...], second: tuple[StatedLine, ...]
) -> list[dict[str, str]]:
    """The lines that differ between two statements, as plain rows; both are of one version."""
    before = {line.name: line.value for line in first}
    return [
        {"name": line.name, "what": line.words, "first": before[line.name], "second": line.value}
        for line in second
        if line.value != before[line.name]
    ]
