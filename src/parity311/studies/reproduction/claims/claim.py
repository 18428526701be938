"""What a claim is: what the paper says, how ours is computed, and the verdict that follows.

Claims are declared in modules by area (`boiler`, `elevator`, …); each brings its own
test, a function from what was prepared, trained and played to a figure and a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parity311.resampling import Figure
from parity311.studies.reproduction.verdicts import (
    CONTRADICTS,
    FAILS,
    FOLLOWS,
    RULES,
    UNTESTED,
    Decision,
    Measured,
)

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence


@dataclass(frozen=True)
class Finding:
    """What a test found, and its verdict."""

    ours: Measured
    decision: Decision


@dataclass(frozen=True)
class Claim:
    """One claim of the paper."""

    key: str
    """short name, unique"""
    area: str
    """heading it stands under"""
    claim: str
    """in plain words, for a reader who has not read the paper"""
    source: str
    """section or table of the paper"""
    published: str
    """the value as printed"""
    kind: str
    """which rule of `verdicts.RULES` decides"""
    definition: str
    """how ours is computed"""
    test: Callable[[Evidence], Finding]
    domains: tuple[str, ...] = ()
    """domains it needs; without them it cannot be tested"""
    quote: str = ""
    """the paper's own words, found in one of the sections that `source` names"""
    follows_from: str = ""
    """key of the claim whose error would explain this one's: it is then not counted again"""


def judge(claim: Claim, evidence: Evidence) -> dict[str, Any]:
    """Test one claim; the row of the report."""
    missing = [slug for slug in claim.domains if slug not in evidence.domains]
    if missing:
        finding = Finding(
            Measured(math.nan, words="–"),
            Decision(UNTESTED, "; ".join(_why_missing(slug, evidence) for slug in missing)),
        )
    else:
        finding = claim.test(evidence)
    ours, decision = finding.ours, finding.decision
    if not ours.is_sound:
        decision = Decision(UNTESTED, "our interval does not contain its own figure")
    return {
        "key": claim.key,
        "area": claim.area,
        "claim": claim.claim,
        "source": claim.source,
        "quote": claim.quote,
        "published": claim.published,
        "ours": ours.words or show(ours.value),
        "value": ours.value,
        "interval": [ours.lower, ours.upper] if ours.has_interval else None,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "kind": claim.kind,
        "rule": RULES[claim.kind],
        "definition": claim.definition,
        "follows_from": claim.follows_from,
        "domains": list(claim.domains),
    }


def _why_missing(slug: str, evidence: Evidence) -> str:
    few = evidence.untested.get(slug)
    return f"too few cases to test it: {few}" if few else f"{slug} left out of this run"


def judge_all(claims: Sequence[Claim], evidence: Evidence) -> list[dict[str, Any]]:
    """Test every claim; what only another's error makes wrong follows from that one."""
    return count_once([judge(claim, evidence) for claim in claims])


def count_once(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which no error is counted twice."""
    by_key = {row["key"]: row for row in rows}
    found = []
    for row in rows:
        root = by_key.get(row["follows_from"])
        # A contradiction of the paper's own figures follows only where its test shows that it does.
        is_wrong = root is not None and root["verdict"] in (FAILS, CONTRADICTS)
        if root is not None and is_wrong and row["verdict"] == FAILS:
            reason = f"follows from “{root['claim']}”: {row['reason']}"
            row = {**row, "verdict": FOLLOWS, "reason": reason}
        found.append(row)
    return found


def show(value: float) -> str:
    """A figure in as many digits as it deserves."""
    if not math.isfinite(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.2g}"


def plain(slug: str) -> str:
    """A domain's name in a sentence."""
    return slug.replace("_", " ")


def percent(
    figure: Figure,
    *,
    signed: bool = False,
    is_share: bool = False,
    least: float = -math.inf,
    most: float = math.inf,
) -> Measured:
    """A ratio as a percentage with its interval, which ends where the ratio does.

    A share lies between 0 and 1; of counts no more than all can be lost (``least`` -1, or ``most``
    1 where it is the loss that is told).
    """
    sign = "+" if signed else ""
    if is_share:
        least, most = 0.0, 1.0
    lower, upper = max(figure.lower, least), min(figure.upper, most)
    shown = (f"{100 * x:{sign}.1f}" for x in (figure.value, lower, upper))
    return Measured(figure.value, lower, upper, "{} % ({} to {})".format(*shown))


def check_keys(claims: Sequence[Claim]) -> None:
    """Refuse two claims of one key, a kind that has no rule, and a root that is none."""
    keys = [claim.key for claim in claims]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"claims share a key: {', '.join(twice)}")
    for claim in claims:
        if claim.kind not in RULES:
            raise ValueError(f"claim {claim.key} is of kind {claim.kind}, which has no rule")
        if claim.follows_from and claim.follows_from not in keys:
            raise ValueError(
                f"claim {claim.key} follows from {claim.follows_from}, which is no claim"
            )
