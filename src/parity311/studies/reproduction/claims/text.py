"""Claims that the paper's own words decide: two places, quoted, that cannot both be so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity311.studies.reproduction.claims.arithmetic import AREA
from parity311.studies.reproduction.claims.claim import Claim, Finding
from parity311.studies.reproduction.verdicts import CONTRADICTS, Decision, Measured

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence


@dataclass(frozen=True)
class Passage:
    """Words of the paper and the section they stand in."""

    section: str
    words: str

    def __str__(self) -> str:
        return f"“{self.words}” ({self.section})"


@dataclass(frozen=True)
class Disagreement:
    """What is claimed in one place and denied in others."""

    key: str
    claim: str
    said: Passage
    against: tuple[Passage, ...]
    reason: str


DISAGREEMENTS = (
    Disagreement(
        "correction_applied",
        "Complaint counts are corrected for how readily people report before agents are trained",
        Passage(
            "4.3", "the reporting-rate correction that must be applied to complaint-volume "
            "denominators",
        ),
        (
            Passage("7.1", "We flag this as the highest-priority extension of the present work"),
            Passage("9.1", "Future work must integrate upstream reporting-rate correction"),
        ),
        "one place applies the correction, the others leave it to future work: which of the two "
        "stands behind the results is not said",
    ),
    Disagreement(
        "variance_weights",
        "The smoother equity term weighs strata by their population",
        Passage("4.4", "the population-weighted variance"),
        (Passage("4.4", "is the mean per-incident escalation rate across strata"),),
        "the formula (Equation 11) gives every stratum the weight 1/K, and so does its mean",
    ),
    Disagreement(
        "network_size",
        "DQN has 64 or 128 units a layer",
        Passage("5.1", "64 or 128 units"),
        (Passage("A", "DQN Hyperparameters (all domains)"), Passage("A", "2×128, ReLU")),
        "the table says 2×128 for all domains",
    ),
    Disagreement(
        "held_out_year",
        "Complaint triage was tested on a held-out year 2020",
        Passage("7.3", "fail to transfer to held-out 2020 data"),
        (Passage("5.4", "train on 2020–2024, evaluate on 2025"),),
        "by the protocol 2020 was trained on, and no other split is given for the domain",
    ),
)  # fmt: skip


def _disagree(one: Disagreement):
    def test(evidence: Evidence) -> Finding:
        del evidence
        words = "; ".join(str(passage) for passage in one.against)
        return Finding(Measured(0.0, words=words), Decision(CONTRADICTS, one.reason))

    return test


CLAIMS = [
    Claim(
        one.key, AREA, one.claim, "; ".join(dict.fromkeys(
            passage.section for passage in (one.said, *one.against)
        )), f"“{one.said.words}”", "text", "read, not computed: both places are quoted",
        _disagree(one), quote=one.said.words,
    )
    for one in DISAGREEMENTS
]  # fmt: skip
