"""Claims that the paper's own figures decide: sums, ratios and lists, computed here again.

Claims that the paper's own words decide: two places, quoted, that cannot both be so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims.claim import Claim, Finding
from parity311.studies.reproduction.verdicts import (
    CONTRADICTS,
    HOLDS,
    Decision,
    Measured,
    decide_arithmetic,
    decide_same,
)

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence

AREA = "The paper against itself"


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


TEXT_CLAIMS = [
    Claim(
        one.key, AREA, one.claim, "; ".join(dict.fromkeys(
            passage.section for passage in (one.said, *one.against)
        )), f"“{one.said.words}”", "text", "read, not computed: both places are quoted",
        _disagree(one), quote=one.said.words,
    )
    for one in DISAGREEMENTS
]  # fmt: skip


FROM_PAPER = "computed again from the paper's own figures"
COUNTS = ("true_positives", "false_positives", "true_negatives", "false_negatives")
SPLIT_ERRORS = 2.0
"""Standard errors of a split drawn record by record within which a size is a fifth."""
Test = Callable[["Evidence"], Finding]


def agrees(
    stated: float, computed: float, rounding: float, words: str = "", mended: float = math.nan
) -> Test:
    """Test of a published figure against what others make of it."""

    def test(evidence: Evidence) -> Finding:
        del evidence
        decision = decide_arithmetic(stated, computed, rounding, mended=mended)
        return Finding(Measured(computed, words=words), decision)

    return test


def names_same(first: frozenset[str], second: frozenset[str]) -> Test:
    """Test of two lists that should name the same things."""

    def test(evidence: Evidence) -> Finding:
        del evidence
        words = f"{len(first)} in one place, {len(second)} in the other"
        return Finding(Measured(len(second), words=words), decide_same(first, second))

    return test


def claim(
    key: str,
    text: str,
    source: str,
    published: str,
    test: Test,
    definition: str = FROM_PAPER,
    *,
    quote: str,
    kind: str = "arithmetic",
    follows_from: str = "",
) -> Claim:
    """A claim that the paper's own figures or words decide."""
    return Claim(
        key, AREA, text, source, published, kind, definition, test, quote=quote,
        follows_from=follows_from,
    )  # fmt: skip


def n_counted(agent: str) -> float:
    """Records that an agent's four counts add up to."""
    return sum(paper.BOILER_TABLE[agent][name] for name in COUNTS)


def split_error(n: float, share: float) -> float:
    """Standard deviation of the size of a part drawn record by record."""
    return math.sqrt(n * share * (1.0 - share))


def _boiler() -> list[Claim]:
    first, second = (paper.BOILER_TABLE[name] for name in ("DQN", "REINFORCE"))
    n_tested = n_counted("DQN")
    defects = first["true_positives"] + first["false_negatives"]
    break_even = 1.0 / (1.0 + paper.MISS_TO_WASTE)
    return [
        claim(
            "boiler_rows", "The boiler table is of 167,379 records", "Table 1",
            f"{paper.BOILER_ROWS:,} in caption and text",
            agrees(paper.BOILER_ROWS, n_tested, 0.5, _counted_words()),
            "the four counts of each row added up; one error, however many figures show it",
            quote="167,379 boiler records",
        ),
        *(row for agent in paper.BOILER_TABLE for row in _boiler_row(agent, n_tested)),
        claim(
            "boiler_lead", "DQN's reward exceeds REINFORCE's by 1.28 million dollars",
            "6.1 Boiler Safety", "$1.28M",
            agrees(1.28e6, first["reward"] - second["reward"], 5e3),
            quote="DQN outperforms REINFORCE by $1.28M in reward",
        ),
        claim(
            "boiler_recall", "DQN's recall exceeds REINFORCE's by 4.2 points, by its own table",
            "6.1 Boiler Safety", "4.2 pp",
            agrees(0.042, first["recall"] - second["recall"], 0.0005),
            quote="4.2 pp in recall",
        ),
        claim(
            "boiler_base_rate", "About 8 % of the tested boilers are defective",
            "3.3 Boiler Safety", "≈8 %", agrees(0.08, defects / n_tested, 0.005),
            quote="≈8% defect rate",
        ),
        claim(
            "boiler_split", "The test set is a random fifth of the records", "5.4; 3.3",
            f"80/20 of {paper.BOILER_RECORDS:,}; ≈167K tested", _split(n_tested),
            "a split drawn record by record has a standard deviation of 365 records; within two of "
            "them the size is a fifth",
            quote="80/20 random split of 834,338 records",
        ),
        claim(
            "boiler_precision_pays",
            "A precision of 22 % pays when a miss costs 26 times a visit for nothing",
            "6.1 Boiler Safety", "≈22 % at 26:1", _pays(break_even),
            "the least precision at which a visit pays, 1 / (1 + 26), must lie below 22 %",
            quote="is rational given the 26:1 cost asymmetry",
        ),
    ]  # fmt: skip


def _counted_words() -> str:
    return ", ".join(f"{agent}'s counts add up to {n_counted(agent):,}" for agent in
                     paper.BOILER_TABLE)  # fmt: skip


def _boiler_row(agent: str, n_tested: float) -> list[Claim]:
    row = paper.BOILER_TABLE[agent]
    precision = row["true_positives"] / row["escalations"]
    recall = row["true_positives"] / (row["true_positives"] + row["false_negatives"])
    harmonic = 2 * precision * recall / (precision + recall)
    return [
        claim(
            f"boiler_average_{agent.lower()}",
            f"{agent}'s average reward is its total over the records tested",
            "Table 1", f"${row['reward_per_step']:.2f}",
            agrees(
                row["reward_per_step"], row["reward"] / paper.BOILER_ROWS, 0.005,
                f"${row['reward'] / paper.BOILER_ROWS:.2f} over {paper.BOILER_ROWS:,}, "
                f"${row['reward'] / n_tested:.2f} over {n_tested:,}",
                row["reward"] / n_tested,
            ),
            quote="Avg Reward / step", follows_from="boiler_rows",
        ),
        claim(
            f"boiler_f1_{agent.lower()}",
            f"{agent}'s precision, recall and F1 follow from its counts",
            "Table 1", f"F1 {row['f1']:.3f}", agrees(row["f1"], harmonic, 0.0005),
            quote="F1 Score",
        ),
    ]  # fmt: skip


def _split(n_tested: float) -> Test:
    def test(evidence: Evidence) -> Finding:
        del evidence
        expected = paper.BOILER_TEST_SHARE * paper.BOILER_RECORDS
        error = split_error(paper.BOILER_RECORDS, paper.BOILER_TEST_SHARE)
        words = (
            f"a fifth is {expected:,.0f} ± {error:,.0f}; {paper.BOILER_ROWS:,} is "
            f"{(paper.BOILER_ROWS - expected) / error:+.1f} and {n_tested:,} "
            f"{(n_tested - expected) / error:+.1f} standard deviations off"
        )
        found = decide_arithmetic(n_tested, expected, SPLIT_ERRORS * error)
        return Finding(Measured(n_tested / paper.BOILER_RECORDS, words=words), found)

    return test


def _pays(break_even: float) -> Test:
    def test(evidence: Evidence) -> Finding:
        del evidence
        verdict = HOLDS if break_even < 0.22 else CONTRADICTS
        words = f"visits pay above a precision of {100 * break_even:.1f} %"
        return Finding(
            Measured(break_even, words=words), Decision(verdict, "22 % lies above the break-even")
        )

    return test


def _elevator() -> list[Claim]:
    best = max(paper.ELEVATOR_TABLE, key=lambda name: paper.ELEVATOR_TABLE[name][0])
    return [
        claim(
            "elevator_text", "The rewards in the text are those of the elevator table",
            "6.1 Elevator; Table 2",
            ", ".join(f"{name} {mean:,.0f}" for name, (mean, _) in paper.ELEVATOR_TEXT.items()),
            _text_against_table,
            "each policy of the text against its row, within the error given or implied; one "
            "finding, because text and table seem to be of two evaluations",
            quote="remains the strongest practical heuristic (mean reward −446k)",
        ),
        claim(
            "elevator_best", "BALANCED has the best reward of the table", "6.1 Elevator; Table 2",
            "BALANCED", names_same(frozenset({"BALANCED"}), frozenset({best})),
            quote="Balanced remains the strongest practical heuristic",
        ),
        claim(
            "elevator_horizon", "168 steps of four hours are four weeks", "5.4", "≈4 weeks",
            agrees(4.0, paper.ELEVATOR_STEPS * 4 / 24 / 7, 0.05),
            quote="168-step horizon (≈4 weeks at 4-hour cadence)",
        ),
    ]  # fmt: skip


def _text_against_table(evidence: Evidence) -> Finding:
    del evidence
    found = {
        name: decide_arithmetic(mean, paper.ELEVATOR_TABLE[name][0], error)
        for name, (mean, error) in paper.ELEVATOR_TEXT.items()
    }
    words = ", ".join(f"{name} {paper.ELEVATOR_TABLE[name][0]:,.0f}" for name in found)
    odd = [name for name, one in found.items() if one.verdict == CONTRADICTS]
    ours = Measured(float(len(odd)), words=f"{words} in the table")
    if odd:
        reason = f"text and table differ for {' and '.join(odd)}"
        return Finding(ours, Decision(CONTRADICTS, reason))
    return Finding(ours, Decision(HOLDS, "text and table agree"))


def _heat_and_snad() -> list[Claim]:
    closed, reward = paper.HEAT_CLOSED, paper.HEAT_REWARD
    return [
        claim(
            "heat_ratio", "8,800 against 2,100 is a fourfold improvement", "6.1 Heat", "4×",
            agrees(4.0, reward["REINFORCE"] / reward["HDQN"], 0.5), quote="4× improvement",
        ),
        claim(
            "heat_gain_hdqn", "101 violations against 84 are 20 % more", "6.1 Heat", "20 %",
            agrees(0.20, closed["REINFORCE"] / closed["HDQN"] - 1, 0.01),
            quote="≈101 violations by day 365 vs. 84 (HDQN)",
        ),
        claim(
            "heat_gain_random", "101 violations against 80 are 27 % more", "6.1 Heat", "27 %",
            agrees(0.27, closed["REINFORCE"] / closed["random"] - 1, 0.01),
            quote="80 (random)—a 20–27% improvement",
        ),
        claim(
            "snad_states", "4 neighbourhoods × 4 levels × 2 × 4 seasons are 128 states",
            "3.3 SNAD", "128", agrees(128, 4 * 4 * 2 * 4, 0.0), quote="over 128 states",
        ),
        claim(
            "snad_actions", "SNAD's three actions are the same wherever they are listed",
            "Appendix B; 3.3 SNAD", "Defer, Inspect, Prioritise",
            names_same(paper.SNAD_ACTIONS_IN_TEXT, paper.SNAD_ACTIONS_IN_APPENDIX),
            quote="Dispatch, Defer, Prioritise", kind="text",
        ),
        claim(
            "domains", "The framework covers six domains", "1.4; Abstract; Appendix B", "six",
            names_same(paper.DOMAINS_IN_ABSTRACT, paper.DOMAINS_IN_APPENDIX),
            "domains of the abstract against those of the appendix",
            quote="We formalize six NYC DOB complaint classification domains as MDPs", kind="text",
        ),
    ]  # fmt: skip


def reports_per_incident(rate: float, lifetime_days: float) -> float:
    """Expected reports of an incident that is reported at all, at a Poisson rate per day."""
    expected = rate * lifetime_days
    return expected / -np.expm1(-expected)


def _propensity(evidence: Evidence) -> Finding:
    """Equation 2: ρ = 1 / E[reports per incident]; whether it rises with the rate."""
    del evidence
    rates = np.array([0.05, 0.1, 0.2, 0.4, 0.8])
    published = np.array([1.0 / reports_per_incident(rate, 10.0) for rate in rates])
    slope = float(np.diff(published).max())
    words = "ρ̂ = " + ", ".join(f"{x:.2f}" for x in published) + " while the rate doubles each time"
    if slope < 0:
        reason = "the more people report, the lower is the published propensity"
        return Finding(Measured(slope, words=words), Decision(CONTRADICTS, reason))
    return Finding(Measured(slope, words=words), Decision(HOLDS, "it rises with the rate"))


def _per_step_term(evidence: Evidence) -> Finding:
    """Equation 9 for one complaint a step: what an escalation in the low stratum earns."""
    del evidence
    need = {"low": 120.0, "high": 80.0}

    def term(n_low: float, n_high: float) -> float:
        return 0.0 - abs(n_high / need["high"] - n_low / need["low"])

    nothing, low = term(0, 0), term(1, 0)
    words = f"{nothing:.4f} for escalating nobody, {low:.4f} for one low-income case"
    if low < nothing:
        reason = "a correct escalation is punished, and doing nothing is best"
        return Finding(Measured(low - nothing, words=words), Decision(CONTRADICTS, reason))
    return Finding(Measured(low - nothing, words=words), Decision(HOLDS, "it is rewarded"))


FRAMEWORK = [
    claim(
        "propensity", "The estimator ρ̂ = 1 − D/C measures how readily a neighbourhood reports",
        "4.3 Equations 2 and 3", "ρ̂ = 1 − D/C", _propensity,
        "1 / E[reports per reported incident] at five Poisson rates, lifetime ten days",
        quote="giving the moment estimator",
    ),
    claim(
        "per_step_equity", "The equity term pays an agent for escalating in low-reporting tracts",
        "4.4 Equation 9 and Interpretation", "incentivized to escalate proportionally more",
        _per_step_term,
        "the term of a step that decides one complaint, as in boiler: one escalation against none",
        quote="incentivized to escalate proportionally more complaints from low-reporting tracts",
    ),
]  # fmt: skip

FIGURE_CLAIMS = [*_boiler(), *_elevator(), *_heat_and_snad(), *FRAMEWORK]
CLAIMS = [*FIGURE_CLAIMS, *TEXT_CLAIMS]
