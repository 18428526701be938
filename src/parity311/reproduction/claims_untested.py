"""Claims that nothing here can test, each with its reason: they are listed, not left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity311.reproduction.claims import Claim, Finding
from parity311.reproduction.verdicts import Measured, untested

if TYPE_CHECKING:
    from parity311.reproduction.evidence import Evidence

AREA = "Beyond what a synthetic city can say"


def _reason(reason: str):
    def test(evidence: Evidence) -> Finding:
        del evidence
        return Finding(Measured(np.nan), untested(reason))

    return test


def _claim(key: str, text: str, source: str, published: str, reason: str) -> Claim:
    return Claim(key, AREA, text, source, published, "untested", "–", _reason(reason))


CLAIMS = [
    _claim(
        "reporting_speed", "Some neighbourhoods report the same problem three times faster",
        "1.1", "three times faster",
        "the city is built with it (participation strong) or without it (measured); real duplicate "
        "reports would be needed",
    ),
    _claim(
        "elevator_outcomes", "60 % of elevator cases close without action, 20 % with enforcement",
        "3.3 Elevator", "≈60 %, ≈20 %",
        "the city's dispositions are calibrated to published records, so agreeing with them shows "
        "nothing",
    ),
    _claim(
        "undefined_terms", "Speed, cost and retention make up the rest of the reward", "4.4",
        "unchanged from Section 4.3 of the original formulation",
        "that section is not in the paper; ours are defined in its stead",
    ),
    _claim(
        "accuracy_fairness", "Accuracy+Fairness is the most attractive heat configuration", "6.2",
        "Accuracy+Fairness", "the configuration is defined nowhere in the paper",
    ),
    _claim(
        "selection_bias", "The advantage is robust to moderate selection bias", "7.1",
        "robust; equity gains more sensitive",
        "neither the propensity model nor the degree of bias is given",
    ),
    _claim(
        "degrades", "Without equity objectives equity degrades over successive training rounds",
        "10", "actively degrade", "retraining on a policy's own records is not part of this run",
    ),
    _claim(
        "attribution", "Over 9.6 million reports and 139 incident types were modelled by Agostini, "
        "Pierson and Garg", "2.4", "cited as agostini2024",
        "whose study it is cannot be computed; the figures are those of a later paper on graph "
        "neural networks by other authors",
    ),
    _claim(
        "gate", "A disparity above 0.05 in the point estimate suspends deployment", "4.5 step 5",
        "τ = 0.05", "a rule, not a finding; the audit here judges the interval, because at exact "
        "parity counting alone exceeds 0.05 where cases are few",
    ),
    _claim(
        "practitioners", "Staff and tenant organisations informed the design", "8", "engaged",
        "there is no record of it to look at",
    ),
]  # fmt: skip
