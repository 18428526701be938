"""Claims about selection: what a hidden reason behind the agency's visits could overturn (7.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from parity311.studies.reproduction.claims.claim import Claim, Finding
from parity311.studies.reproduction.claims.learning import champion_of
from parity311.studies.reproduction.selection import DOMAINS, Sensitivity
from parity311.studies.reproduction.verdicts import (
    FAILS,
    HOLDS,
    Decision,
    Measured,
    untested,
)

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence

AREA = "Selection"
MODERATE = 1.5
"""Γ up to which a hidden reason is moderate: it makes a visit half as likely again (our choice,
made before any figure was seen; the paper gives none)."""
NO_GAIN = "there is no clear advantage on record, so there is nothing that could be overturned"


def show_gamma(gamma: float) -> str:
    """Γ in words."""
    return "beyond 20" if math.isinf(gamma) else f"{gamma:.2f}"


def sensitivity_words(found: Sensitivity, what: str) -> str:
    """A change, its interval and the Γ that overturns it."""
    return (
        f"{what} {found.change:+.4f} a decision ({found.lower:+.4f} to {found.upper:+.4f}), "
        f"overturned at Γ = {show_gamma(found.gamma)}"
    )


def decide_robust(found: Sensitivity) -> Decision:
    """Judge "robust to moderate selection bias"."""
    if not found.is_gain:
        return untested(NO_GAIN)
    if found.gamma > MODERATE:
        return Decision(HOLDS, f"no hidden reason up to Γ = {MODERATE} overturns it")
    return Decision(FAILS, f"a hidden reason of Γ = {show_gamma(found.gamma)} overturns it")


def decide_more_sensitive(equity: Sensitivity, advantage: Sensitivity) -> Decision:
    """Judge "the equity gains are more sensitive" than the advantage."""
    if not (equity.is_gain and advantage.is_gain):
        return untested("one of the two is no clear gain on record: there is nothing to compare")
    if equity.gamma < advantage.gamma:
        return Decision(HOLDS, "a weaker hidden reason overturns the gain in equity")
    return Decision(FAILS, "the gain in equity bears as strong a hidden reason, or a stronger one")


def _robust(slug: str):
    def test(evidence: Evidence) -> Finding:
        found = evidence.sensitivity(slug, champion_of(slug), is_paid=False)
        if isinstance(found, str):
            return Finding(Measured(math.nan), untested(found))
        words = sensitivity_words(found[0], "reward")
        return Finding(Measured(found[0].gamma, words=words), decide_robust(found[0]))

    return test


def _more_sensitive(slug: str):
    def test(evidence: Evidence) -> Finding:
        found = evidence.sensitivity(slug, "reinforce", is_paid=True)
        if isinstance(found, str):
            return Finding(Measured(math.nan), untested(found))
        advantage, equity = found
        words = (
            f"{sensitivity_words(equity, 'gap narrowed by')}; "
            f"{sensitivity_words(advantage, 'reward')}"
        )
        return Finding(
            Measured(equity.gamma, words=words), decide_more_sensitive(equity, advantage)
        )

    return test


HOW = (
    "on the agency's own decisions of the test period, whether somebody went in time; weights from "
    "a logistic model of severity, line, season, size and what agents see; the paper gives neither "
    "its propensity model nor how much bias is moderate"
)

CLAIMS = [
    *(
        Claim(
            f"selection_{slug}", AREA,
            f"The advantage of {champion_of(slug).split('_')[0].upper()} in {slug} is robust to "
            "moderate selection bias", "7.1", "robust to moderate selection bias", "sensitivity",
            f"Γ at which the interval of the reward less what was earned holds zero; {HOW}",
            _robust(slug), (slug,), quote="is robust to moderate selection bias",
        )
        for slug in DOMAINS
    ),
    *(
        Claim(
            f"selection_equity_{slug}", AREA,
            f"In {slug} the gain in equity is more sensitive to selection than the advantage",
            "7.1", "the equity gains are more sensitive", "sensitivity",
            "the same Γ of the change in the gap between quintiles 1-2 and 4-5, for REINFORCE paid "
            f"for coverage; {HOW}",
            _more_sensitive(slug), (slug,), quote="the equity gains are more sensitive",
        )
        for slug in DOMAINS
    ),
]  # fmt: skip
