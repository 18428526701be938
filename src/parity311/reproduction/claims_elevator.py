"""Claims about elevators: the paper's table of ten policies, by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity311.domains.elevator import UNITS
from parity311.evaluation.comparison_statistics import compare_runs, mean_samples, ratio_samples
from parity311.reproduction import published as paper
from parity311.reproduction import samples
from parity311.reproduction.claims import Claim, Finding
from parity311.reproduction.verdicts import (
    Decision,
    Measured,
    decide_all,
    decide_magnitude,
    decide_sign,
)

if TYPE_CHECKING:
    from parity311.evaluation.metrics import Figure
    from parity311.reproduction.evidence import Evidence

AREA = "Elevators"
POLICIES = {
    "NO_DISPATCH": "no_dispatch",
    "UNIFORM": "uniform",
    "RANDOM": "random_boards",
    "TD": "td",
    "ACTIONABLE": "actionable",
    "REINFORCE": "reinforce",
    # The paper applies CQL's penalty to its DQN in this domain.
    "DQN": "cql",
    "EMERG": "emerg",
    "TAIL": "tail",
    "BALANCED": "balanced",
}
"""Rows of the table, and who plays them here."""
TOLERANCE = 0.10
"""Tenth of BALANCED's reward: another city, the same definition."""
HEURISTICS = ("NO_DISPATCH", "UNIFORM", "RANDOM", "ACTIONABLE", "EMERG", "TAIL")


def published_words(row: str) -> str:
    """A row as printed, and its reward over BALANCED's."""
    reward, late, severe, acted = paper.ELEVATOR_TABLE[row]
    over = reward / paper.ELEVATOR_TABLE["BALANCED"][0]
    if late is None:
        return f"reward {reward:,}; {over:.3f} of BALANCED's"
    return f"reward {reward:,}, A30 {late}, S {severe}, Act. {acted:.2f}; {over:.3f} of BALANCED's"


def _row(row: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored("measured", "elevator")
        resamples = evidence.resamples(scored)
        name = POLICIES[row]
        points = UNITS[0] * mean_samples(scored.arrays["speed"][scored.rows(name)], resamples)
        today = UNITS[0] * mean_samples(scored.arrays["speed"][scored.rows("balanced")], resamples)
        late, severe = (
            mean_samples(scored.outcome(what, name), resamples) / scored.n_steps
            for what in ("A30", "S")
        )
        visits, found = scored.total("visits", name), scored.outcome("violation", name)
        acted = ratio_samples(found, visits, resamples)[0] if visits.any() else 0.0
        figure = resamples.figure(points / today)
        words = (
            f"reward {points[0]:,.0f}, A30 {late[0]:,.1f}, S {severe[0]:,.1f}, Act. {acted:.2f}; "
            f"{figure.value:.3f} of BALANCED's ({figure.lower:.3f} to {figure.upper:.3f})"
        )
        ours = Measured(figure.value, figure.lower, figure.upper, words)
        published = paper.ELEVATOR_TABLE[row][0] / paper.ELEVATOR_TABLE["BALANCED"][0]
        if row == "BALANCED":
            return Finding(ours, _make_up(resamples.figure(late / severe)))
        return Finding(ours, decide_magnitude(ours, published, tolerance=TOLERANCE))

    return test


def _make_up(ratio: Figure) -> Decision:
    """BALANCED is its own yardstick, so what is judged is its backlog's make-up: A30 over S."""
    _, late, severe, _ = paper.ELEVATOR_TABLE["BALANCED"]
    published = float(late or 0.0) / float(severe or 1.0)
    found = Measured(ratio.value, ratio.lower, ratio.upper)
    decision = decide_magnitude(found, published, tolerance=0.25 * published)
    words = f"A30 over S is {ratio.value:.2f} ({ratio.lower:.2f} to {ratio.upper:.2f})"
    return Decision(decision.verdict, f"{words}, published {published:.2f}")


def _best_heuristic(evidence: Evidence) -> Finding:
    scored = evidence.scored("measured", "elevator")
    resamples = evidence.resamples(scored)
    mine = scored.arrays["speed"][scored.rows("balanced")]
    found = {}
    for row in HEURISTICS:
        theirs = scored.arrays["speed"][scored.rows(POLICIES[row])]
        found[row] = compare_runs(mine, theirs, resamples).difference
    decisions = [decide_sign(Measured(f.value, f.lower, f.upper), +1) for f in found.values()]
    closest = min(found, key=lambda row: found[row].value)
    scale = abs(samples.reward(scored, "balanced", resamples)[0])
    least = found[closest]
    words = (
        f"closest rule {closest}: BALANCED ahead by {100 * least.value / scale:.2f} % "
        f"({100 * least.lower / scale:.2f} to {100 * least.upper / scale:.2f})"
    )
    ours = Measured(least.value / scale, least.lower / scale, least.upper / scale, words)
    return Finding(ours, decide_all(decisions))


def _learned(agent: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored("measured", "elevator")
        resamples = evidence.resamples(scored)
        mine, today = (scored.arrays["speed"][scored.rows(name)] for name in (agent, "balanced"))
        found = compare_runs(mine, today, resamples).difference
        scale = abs(samples.reward(scored, "balanced", resamples)[0])
        words = (
            f"{100 * found.value / scale:+.2f} % of BALANCED's reward "
            f"({100 * found.lower / scale:+.2f} to {100 * found.upper / scale:+.2f})"
        )
        ours = Measured(found.value / scale, found.lower / scale, found.upper / scale, words)
        return Finding(ours, decide_sign(ours, -1))

    return test


CLAIMS = [
    *(
        Claim(
            f"elevator_{row.lower()}", AREA, f"The row of {row} in the elevator table", "Table 2",
            published_words(row), "magnitude",
            "reward = −(A30 + 2 S) summed over 168 steps of four hours; judged is the reward over "
            "BALANCED's, tolerance 0.10, because the city is another"
            + ("; for BALANCED itself A30 over S, within a quarter" if row == "BALANCED" else ""),
            _row(row), ("elevator",),
        )
        for row in POLICIES
    ),
    Claim(
        "elevator_balanced_best", AREA, "BALANCED is the strongest practical heuristic",
        "6.1 Elevator", "strongest practical heuristic", "sign",
        "reward of BALANCED less that of each other rule of the table; holds if ahead of each",
        _best_heuristic, ("elevator",),
    ),
    *(
        Claim(
            f"elevator_behind_{agent}", AREA,
            f"{title} does not reach BALANCED in the elevator domain", "Table 2", text, "sign",
            "reward less BALANCED's on the same episodes",
            _learned(agent), ("elevator",),
        )
        for agent, title, text in (
            ("dqn", "DQN without CQL's penalty", "−431,596 against −413,777"),
            ("cql", "DQN with CQL's penalty", "−431,596 against −413,777"),
            ("reinforce", "REINFORCE", "−463,117 against −413,777"),
            ("td", "TD learning", "−463,449 against −413,777"),
        )
    ),
]  # fmt: skip
