"""Claims that nothing here can test, each with its reason: they are listed, not left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity311.studies.reproduction.claims.claim import Claim, Finding
from parity311.studies.reproduction.verdicts import Measured, untested

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence

AREA = "Beyond what a synthetic city can say"


def _reason(reason: str):
    def test(evidence: Evidence) -> Finding:
        del evidence
        return Finding(Measured(np.nan), untested(reason))

    return test


def _claim(key: str, text: str, source: str, published: str, reason: str, quote: str) -> Claim:
    return Claim(key, AREA, text, source, published, "untested", "–", _reason(reason), quote=quote)


def outcome_words(shares: dict[str, float]) -> str:
    """Shares of closed complaints by what came of them, largest first."""
    ordered = sorted(shares, key=lambda name: -shares[name])
    return ", ".join(f"{name.replace('_', ' ')} {100 * shares[name]:.0f} %" for name in ordered)


def _elevator_outcomes(evidence: Evidence) -> Finding:
    """A fact about New York: the city's own shares are shown, and decide nothing."""
    shares = evidence.facts("measured", "elevator")["dispositions"]
    words = f"this city: {outcome_words(shares)}"
    return Finding(
        Measured(np.nan, words=words),
        untested(
            "a fact about New York's records, which are not here; the city was not made to agree "
            "with it, so its shares speak neither for nor against it"
        ),
    )


CLAIMS = [
    _claim(
        "reporting_speed", "Some neighbourhoods report the same problem three times faster",
        "1.1", "three times faster",
        "the city is built with it (participation strong) or without it (measured); real duplicate "
        "reports would be needed",
        "report the same problem three times faster than others",
    ),
    Claim(
        "elevator_outcomes", AREA,
        "60 % of elevator cases close without action, 20 % with enforcement", "3.3 Elevator",
        "≈60 %, ≈20 %", "untested", "share of closed complaints by class of disposition",
        _elevator_outcomes, ("elevator",),
        quote="Approximately 60% of cases close with no action",
    ),
    _claim(
        "boiler_fees", "The seven features are known when a complaint is classified",
        "3.3 Boiler Safety", "has_lff_45, has_lff_180 observed",
        "what the two late fees of this city say is assumed, so a test would only return the "
        "assumption; the table without them is shown beside it",
        "The agent observes a seven-feature vector",
    ),
    _claim(
        "undefined_terms", "Speed, cost and retention make up the rest of the reward", "4.4",
        "unchanged from Section 4.3 of the original formulation",
        "that section is not in the paper; ours are defined in its stead",
        "The speed, cost, and retention terms are unchanged",
    ),
    _claim(
        "accuracy_fairness", "Accuracy+Fairness is the most attractive heat configuration", "6.2",
        "Accuracy+Fairness", "the configuration is defined nowhere in the paper",
        "Accuracy+Fairness as the most practically attractive",
    ),
    _claim(
        "degrades", "Without equity objectives equity degrades over successive training rounds",
        "10; 7.2", "actively degrade",
        "retraining on a policy's own records is not part of this run, `parity311 feedback` plays "
        "it (explanation/feedback.md); 7.2 says that it can, and gives no figure",
        "actively degrade equity over successive training rounds",
    ),
    _claim(
        "attribution", "Over 9.6 million reports and 139 incident types were modelled by Agostini, "
        "Pierson and Garg", "2.4", "cited as agostini2024",
        "whose study it is cannot be computed; the figures are those of a later paper on graph "
        "neural networks by other authors",
        "applied to over 9.6 million NYC crowdsourced reports",
    ),
    _claim(
        "gate", "A disparity above 0.05 in the point estimate suspends deployment", "4.5 step 5",
        "τ = 0.05", "a rule, not a finding; the audit here judges the interval, because at exact "
        "parity counting alone exceeds 0.05 where cases are few",
        "suspend deployment until the disparity falls below threshold",
    ),
    _claim(
        "practitioners", "Staff and tenant organisations informed the design", "8.1; 8.2",
        "engaged", "there is no record of it to look at",
        "We engaged tenant advocacy organizations",
    ),
]  # fmt: skip
