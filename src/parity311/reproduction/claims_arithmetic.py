"""Claims that the paper's own figures decide: sums, ratios and lists, computed here again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from parity311.reproduction import published as paper
from parity311.reproduction.claims import Claim, Finding
from parity311.reproduction.verdicts import (
    CONTRADICTS,
    HOLDS,
    Decision,
    Measured,
    decide_arithmetic,
    decide_same,
)

if TYPE_CHECKING:
    from parity311.reproduction.evidence import Evidence

AREA = "The paper against itself"
FROM_PAPER = "computed again from the paper's own figures"
Test = Callable[["Evidence"], Finding]


def agrees(stated: float, computed: float, rounding: float, words: str = "") -> Test:
    """Test of a published figure against what others make of it."""

    def test(evidence: Evidence) -> Finding:
        del evidence
        return Finding(
            Measured(computed, words=words), decide_arithmetic(stated, computed, rounding)
        )

    return test


def names_same(first: frozenset[str], second: frozenset[str]) -> Test:
    """Test of two lists that should name the same things."""

    def test(evidence: Evidence) -> Finding:
        del evidence
        words = f"{len(first)} in one place, {len(second)} in the other"
        return Finding(Measured(len(second), words=words), decide_same(first, second))

    return test


def claim(
    key: str, text: str, source: str, published: str, test: Test, definition: str = FROM_PAPER
) -> Claim:
    """An arithmetic claim."""
    return Claim(key, AREA, text, source, published, "arithmetic", definition, test)


def _boiler() -> list[Claim]:
    found = []
    for agent, row in paper.BOILER_TABLE.items():
        total = sum(
            row[name]
            for name in ("true_positives", "false_positives", "true_negatives", "false_negatives")
        )
        precision = row["true_positives"] / row["escalations"]
        recall = row["true_positives"] / (row["true_positives"] + row["false_negatives"])
        harmonic = 2 * precision * recall / (precision + recall)
        found += [
            claim(
                f"boiler_sum_{agent.lower()}",
                f"{agent}'s confusion counts add up to the boiler records tested",
                "Table 1 and its caption", f"{paper.BOILER_ROWS:,}",
                agrees(paper.BOILER_ROWS, total, 0.5, f"{total:,} (published counts added up)"),
            ),
            claim(
                f"boiler_average_{agent.lower()}",
                f"{agent}'s average reward is its total over the records tested",
                "Table 1", f"${row['reward_per_step']:.2f}",
                agrees(row["reward_per_step"], row["reward"] / paper.BOILER_ROWS, 0.005),
            ),
            claim(
                f"boiler_f1_{agent.lower()}",
                f"{agent}'s precision, recall and F1 follow from its counts",
                "Table 1", f"F1 {row['f1']:.3f}",
                agrees(row["f1"], harmonic, 0.0005),
            ),
        ]  # fmt: skip
    first, second = (paper.BOILER_TABLE[name] for name in ("DQN", "REINFORCE"))
    share = (first["true_positives"] + first["false_negatives"]) / sum(
        first[name]
        for name in ("true_positives", "false_positives", "true_negatives", "false_negatives")
    )
    break_even = 1.0 / (1.0 + paper.MISS_TO_WASTE)
    return [
        *found,
        claim(
            "boiler_lead", "DQN's reward exceeds REINFORCE's by 1.28 million dollars",
            "6.1 Boiler Safety", "$1.28M",
            agrees(1.28e6, first["reward"] - second["reward"], 5e3),
        ),
        claim(
            "boiler_base_rate", "About 8 % of the tested boilers are defective",
            "3.3 Boiler Safety", "≈8 %", agrees(0.08, share, 0.005),
        ),
        claim(
            "boiler_split", "The test set is a fifth of the records", "5.4 and Table 1",
            f"80/20 of {paper.BOILER_RECORDS:,}; {paper.BOILER_ROWS:,} tested",
            agrees(paper.BOILER_ROWS, 0.2 * paper.BOILER_RECORDS, 1.0),
        ),
        claim(
            "boiler_precision_pays",
            "A precision of 22 % pays when a miss costs 26 times a visit for nothing",
            "6.1 Boiler Safety", "≈22 % at 26:1", _pays(break_even),
            "the least precision at which a visit pays, 1 / (1 + 26), must lie below 22 %",
        ),
        claim(
            "boiler_grid_against_table",
            "Detection rises with the ratio up to 0.94 at 50, so at 26 it is at most that",
            "6.2 against Table 1", "0.94 at 50; 0.987 at 26", _grid_against_table(),
            "monotone detection of 0.94 at ratio 50 bounds the table's recall at ratio 26",
        ),
    ]  # fmt: skip


def _pays(break_even: float) -> Test:
    def test(evidence: Evidence) -> Finding:
        del evidence
        verdict = HOLDS if break_even < 0.22 else CONTRADICTS
        words = f"visits pay above a precision of {100 * break_even:.1f} %"
        return Finding(
            Measured(break_even, words=words), Decision(verdict, "22 % lies above the break-even")
        )

    return test


def _grid_against_table() -> Test:
    def test(evidence: Evidence) -> Finding:
        del evidence
        recall = paper.BOILER_TABLE["DQN"]["recall"]
        most = paper.GRID_DETECTION[50.0]
        verdict = HOLDS if recall <= most + 0.005 else CONTRADICTS
        reason = f"recall {recall} at ratio 26 exceeds the {most} stated for ratio 50"
        return Finding(Measured(recall, words=f"{recall} at 26 against {most} at 50"), Decision(
            verdict, reason if verdict == CONTRADICTS else "the table stays below the grid"
        ))  # fmt: skip

    return test


def _elevator() -> list[Claim]:
    found = []
    for name, (mean, error) in paper.ELEVATOR_TEXT.items():
        reward = paper.ELEVATOR_TABLE[name][0]
        found.append(
            claim(
                f"elevator_text_{name.lower()}",
                f"{name}'s reward in the text is its reward in the table",
                "6.1 Elevator against Table 2", f"{mean:,.0f} in the text",
                agrees(mean, reward, error, f"{reward:,.0f} in the table"),
            )
        )  # fmt: skip
    best = max(paper.ELEVATOR_TABLE, key=lambda name: paper.ELEVATOR_TABLE[name][0])
    found.append(
        claim(
            "elevator_best", "BALANCED has the best reward of the table", "Table 2", "BALANCED",
            names_same(frozenset({"BALANCED"}), frozenset({best})),
        )
    )  # fmt: skip
    found.append(
        claim(
            "elevator_reward_formula",
            "The table's reward is minus the backlog: A30 plus twice S, at every step",
            "Table 2 (not stated)", "not stated", _fit_reward,
            "reward / 168 of the nine complete rows regressed on A30 and S; the largest residual "
            "over the largest reward",
        )
    )  # fmt: skip
    return found


def fit_elevator_reward() -> tuple[np.ndarray, float]:
    """Coefficients of A30, S and a constant behind the table's rewards, and the worst residual."""
    rows = [row for row in paper.ELEVATOR_TABLE.values() if row[1] is not None]
    per_step = np.array([row[0] for row in rows], float) / paper.ELEVATOR_STEPS
    design = np.array([[row[1], row[2], 1.0] for row in rows], float)
    fitted, *_ = np.linalg.lstsq(design, per_step, rcond=None)
    return fitted, float(np.abs(design @ fitted - per_step).max() / np.abs(per_step).max())


def _fit_reward(evidence: Evidence) -> Finding:
    del evidence
    fitted, worst = fit_elevator_reward()
    words = f"{fitted[0]:.2f} A30 {fitted[1]:+.2f} S a step, residual at most {100 * worst:.2f} %"
    off = float(max(abs(fitted[0] + 1.0), abs(fitted[1] + 2.0)))
    return Finding(Measured(off, words=words), decide_arithmetic(0.0, off, 0.05))


def _heat_and_snad() -> list[Claim]:
    closed, reward = paper.HEAT_CLOSED, paper.HEAT_REWARD
    return [
        claim(
            "heat_ratio", "8,800 against 2,100 is a fourfold improvement", "6.1 Heat", "4×",
            agrees(4.0, reward["REINFORCE"] / reward["HDQN"], 0.5),
        ),
        claim(
            "heat_gain_hdqn", "101 violations against 84 are 20 % more", "6.1 Heat", "20 %",
            agrees(0.20, closed["REINFORCE"] / closed["HDQN"] - 1, 0.01),
        ),
        claim(
            "heat_gain_random", "101 violations against 80 are 27 % more", "6.1 Heat", "27 %",
            agrees(0.27, closed["REINFORCE"] / closed["random"] - 1, 0.01),
        ),
        claim(
            "snad_states", "4 neighbourhoods × 4 levels × 2 × 4 seasons are 128 states",
            "3.3 SNAD", "128", agrees(128, 4 * 4 * 2 * 4, 0.0),
        ),
        claim(
            "snad_actions", "SNAD's three actions are the same wherever they are listed",
            "3.3 against Appendix B", "Defer, Inspect, Prioritise",
            names_same(paper.SNAD_ACTIONS_IN_TEXT, paper.SNAD_ACTIONS_IN_APPENDIX),
        ),
        claim(
            "domains", "The framework covers six domains", "Abstract against Appendix B", "six",
            names_same(paper.DOMAINS_IN_ABSTRACT, paper.DOMAINS_IN_APPENDIX),
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
        return -abs(n_high / need["high"] - n_low / need["low"])

    nothing, low = term(0, 0), term(1, 0)
    words = f"{nothing:.4f} for escalating nobody, {low:.4f} for one low-income case"
    if low < nothing:
        reason = "every single correct escalation is punished, and doing nothing is best"
        return Finding(Measured(low - nothing, words=words), Decision(CONTRADICTS, reason))
    return Finding(Measured(low - nothing, words=words), Decision(HOLDS, "it is rewarded"))


def _clipping(evidence: Evidence) -> Finding:
    """Calibration step 2: Î = C / ρ̂ with ρ̂ ≤ 1 is at least C; clipped at C nothing is left."""
    del evidence
    propensity = np.linspace(0.05, 1.0, 20)
    corrected = np.minimum(1.0 / propensity, 1.0)
    left = float(corrected.max() - corrected.min())
    words = f"Î / C is {corrected.min():.2f} for every propensity once clipped at C"
    if left == 0.0:
        reason = "clipping the corrected count at the raw count undoes the correction"
        return Finding(Measured(left, words=words), Decision(CONTRADICTS, reason))
    return Finding(Measured(left, words=words), Decision(HOLDS, "a correction is left"))


FRAMEWORK = [
    claim(
        "propensity", "The estimator ρ̂ = 1 − D/C measures how readily a neighbourhood reports",
        "4.3 Equations 2 and 3", "ρ̂ = 1 − D/C", _propensity,
        "1 / E[reports per reported incident] at five Poisson rates, lifetime ten days",
    ),
    claim(
        "per_step_equity", "The equity term pays an agent for escalating in low-reporting tracts",
        "4.4 Equation 9 and Interpretation", "incentivized to escalate proportionally more",
        _per_step_term, "the term with one escalation in one step, against none",
    ),
    claim(
        "clipping", "Corrected counts are clipped at the raw count, yet correct it",
        "4.5 step 2", "clip at C", _clipping,
        "min(C / ρ̂, C) over propensities from 0.05 to 1",
    ),
]  # fmt: skip

CLAIMS = [*_boiler(), *_elevator(), *_heat_and_snad(), *FRAMEWORK]
