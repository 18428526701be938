"""Claims about elevators: the order of the paper's ten policies, and the level of its figures.

The city is another, so what is judged is the order: of the whole table, column by column, and of
each policy against those the table puts below it. Every pair is looked at once, so that no two
verdicts can disagree about the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parity311.domains.elevator import UNITS
from parity311.domains.elevator.params import scale_capacity
from parity311.engines.backlog.process import N_CODES
from parity311.evaluation.comparison_statistics import mean_samples, ratio_samples
from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims.claim import Claim, Finding, percent
from parity311.studies.reproduction.verdicts import (
    FAILS,
    FOLLOWS,
    HOLDS,
    UNTESTED,
    Decision,
    Measured,
    decide_all,
    decide_level,
    decide_order,
    decide_pairs,
    decide_sign,
)

if TYPE_CHECKING:
    from parity311.evaluation.comparison_statistics import Resamples
    from parity311.studies.reproduction.evidence import Evidence
    from parity311.studies.reproduction.scoring import Scored

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
COLUMNS = {"reward": 0, "A30": 1, "S": 2, "Act.": 3}
"""Columns of the table, and their places in `published.ELEVATOR_TABLE`."""
MORE_IS_BETTER = {"reward": True, "A30": False, "S": False, "Act.": True}
HEURISTICS = ("NO_DISPATCH", "UNIFORM", "RANDOM", "ACTIONABLE", "EMERG", "TAIL")
EQUAL = 0.01
"""A hundredth of BALANCED's reward sets no two policies apart, in the table or here: the paper's
own seeds spread by as much (4,379 and 10,482 on 413,777)."""
STEP_HOURS, DAYS_A_YEAR = 4, 365.25
BOTH = (
    "judged in this city's office and, with the same agents, in one with the stock, enforced share "
    "and visits that the table's rows imply: what does not hold fails in both, what holds fails in "
    "neither"
)
PLAYED_IN_BOTH = "judged in both offices"
FIRST_DAY = "it is that of the first day's stock, which the paper does not give"
LEVEL_TOLERANCE = 0.25
"""A quarter of a published A30, S or activity: another city, the same definition."""


def published_order() -> list[str]:
    """Rows from the best to the worst reward."""
    return sorted(paper.ELEVATOR_TABLE, key=lambda row: -paper.ELEVATOR_TABLE[row][0])


def rows_below(row: str) -> list[str]:
    """Rows that the table puts clearly below this one."""
    reward = paper.ELEVATOR_TABLE[row][0]
    margin = EQUAL * abs(paper.ELEVATOR_TABLE["BALANCED"][0])
    return [name for name in published_order() if reward - paper.ELEVATOR_TABLE[name][0] > margin]


def published_words(row: str) -> str:
    """A row as printed, and its place."""
    reward, late, severe, acted = paper.ELEVATOR_TABLE[row]
    place = f"place {published_order().index(row) + 1} of {len(POLICIES)}"
    if late is None:
        return f"{place}; reward {reward:,}"
    return f"{place}; reward {reward:,}, A30 {late}, S {severe}, Act. {acted:.2f}"


def column_samples(scored: Scored, row: str, column: str, resamples: Resamples) -> np.ndarray:
    """One cell of the table in every resample, (1 + B,)."""
    name = POLICIES[row]
    if column == "reward":
        return UNITS[0] * mean_samples(scored.arrays["speed"][scored.rows(name)], resamples)
    if column == "Act.":
        visits = scored.total("visits", name)
        if not visits.any():
            return np.zeros(len(resamples.episodes))
        return ratio_samples(scored.outcome("violation", name), visits, resamples)
    return mean_samples(scored.outcome(column, name), resamples) / scored.n_steps


def fit_reward() -> tuple[np.ndarray, float]:
    """Coefficients of A30, S and a constant behind the table's rewards, and the worst residual.

    The paper does not say what its reward is; its nine complete rows do: −(A30 + 2 S) a step.
    """
    rows = [row for row in paper.ELEVATOR_TABLE.values() if row[1] is not None]
    per_step = np.array([row[0] for row in rows], float) / paper.ELEVATOR_STEPS
    design = np.array([[row[1], row[2], 1.0] for row in rows], float)
    fitted, *_ = np.linalg.lstsq(design, per_step, rcond=None)
    return fitted, float(np.abs(design @ fitted - per_step).max() / np.abs(per_step).max())


def _lead(
    rewards: Mapping[str, np.ndarray], first: str, second: str, resamples: Resamples
) -> Measured:
    """By which share of BALANCED's reward one policy is ahead of another, on the same episodes."""
    scale = abs(rewards["BALANCED"][0])
    figure = resamples.figure((rewards[first] - rewards[second]) / scale)
    return Measured(figure.value, figure.lower, figure.upper)


def _row(row: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored("measured", "elevator")
        resamples = evidence.resamples(scored)
        cells = {name: column_samples(scored, row, name, resamples)[0] for name in COLUMNS}
        rewards = {
            name: column_samples(scored, name, "reward", resamples)[0] for name in POLICIES
        }  # fmt: skip
        place = sorted(rewards, key=lambda name: -rewards[name]).index(row) + 1
        over = resamples.figure(
            column_samples(scored, row, "reward", resamples)
            / column_samples(scored, "BALANCED", "reward", resamples)
        )
        words = (
            f"place {place} of {len(POLICIES)}; reward {cells['reward']:,.0f}, A30 "
            f"{cells['A30']:,.1f}, S {cells['S']:,.1f}, Act. {cells['Act.']:.2f}; {over.value:.3f} "
            f"of BALANCED's ({over.lower:.3f} to {over.upper:.3f})"
        )
        ours = Measured(over.value, over.lower, over.upper, words)
        rewards_in = rewards_by_office(evidence)
        above = published_order()[: published_order().index(row)]
        counted = {
            name
            for better in above
            for name, one in _judge_pairs(rewards_in, resamples, better).items()
            if one.verdict == FAILS
        }
        found = decide_row(_judge_pairs(rewards_in, resamples, row), counted)
        return Finding(ours, in_both_words(found))

    return test


def rewards_by_office(evidence: Evidence) -> list[dict[str, np.ndarray]]:
    """Reward of every row in this city's office and in the table's, in every resample."""
    offices = evidence.scored("measured", "elevator"), scored_as_table(evidence)
    resamples = evidence.resamples(offices[0])
    return [
        {row: column_samples(scored, row, "reward", resamples) for row in POLICIES}
        for scored in offices
    ]


def _judge_pairs(
    rewards: Sequence[Mapping[str, np.ndarray]],
    resamples: Resamples,
    row: str,
    others: Sequence[str] = (),
) -> dict[str, Decision]:
    """Judge one row against others, those below it if none are named, by both offices."""

    def judge(other: str) -> Decision:
        leads = (_lead(own, row, other, resamples) for own in rewards)
        return decide_in_both(*(decide_sign(lead, +1, margin=EQUAL) for lead in leads))

    return {other: judge(other) for other in others or rows_below(row)}


def decide_row(pairs: Mapping[str, Decision], counted: Container[str] = ()) -> Decision:
    """Judge a row by its pairs; where one policy alone is out of its place, that counts once.

    It is a finding of the best row it is not behind, not of every row the table puts above it.
    """
    found = decide_pairs(pairs)
    reversed_ = [name for name, one in pairs.items() if one.verdict == FAILS]
    if len(reversed_) == 1 and reversed_[0] in counted:
        return Decision(FOLLOWS, f"{found.reason}, which a better row counts already")
    return found


def decide_in_both(here: Decision, there: Decision) -> Decision:
    """Judge an order by two offices: this city's, and one with the stock the table implies.

    The paper does not give the first day's stock, so an order that it can turn round is not judged:
    what does not hold has to fail in both, and what holds must not fail in the other.
    """
    opposite = {here.verdict, there.verdict} == {HOLDS, FAILS}
    if opposite or (here.verdict == FAILS and there.verdict != FAILS):
        return Decision(
            UNTESTED,
            f"{here.reason} in this city; with the table's stock and visits, which the paper does "
            f"not give: {there.reason}",
        )
    return here


def in_both_words(found: Decision) -> Decision:
    """A decision that says that both offices were played."""
    return Decision(found.verdict, f"{found.reason}; {PLAYED_IN_BOTH}")


def same_order(column: str, cells: dict[str, np.ndarray]) -> np.ndarray:
    """Share of pairs that come as in a column of the table, in every resample, (1 + B,).

    Pairs that the table does not set apart are left out: equal cells, and rewards within a
    hundredth of BALANCED's.
    """
    place = COLUMNS[column]
    table = {name: row[place] for name, row in paper.ELEVATOR_TABLE.items()}
    apart = EQUAL * abs(paper.ELEVATOR_TABLE["BALANCED"][0]) if column == "reward" else 0.0
    agree = []
    for first, second in combinations(cells, 2):
        one, other = table[first], table[second]
        if one is None or other is None or abs(one - other) <= apart:
            continue
        agree.append(np.sign(cells[first] - cells[second]) == np.sign(one - other))
    return np.mean(agree, axis=0)


def _order(column: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored("measured", "elevator")
        resamples = evidence.resamples(scored)
        shown, order = _shares(scored, column, resamples)
        elsewhere, _ = _shares(scored_as_table(evidence), column, resamples)
        words = (
            f"{shown.words} of the pairs; ours from the best: {', '.join(order)}; with the table's "
            f"stock and visits {elsewhere.words}"
        )
        ours = Measured(shown.value, shown.lower, shown.upper, words)
        found = decide_in_both(decide_order(shown), decide_order(elsewhere))
        return Finding(ours, in_both_words(found))

    return test


def _shares(scored: Scored, column: str, resamples: Resamples) -> tuple[Measured, list[str]]:
    """Share of pairs that come as in a column of the table, and the order that was found."""
    cells = {name: column_samples(scored, name, column, resamples) for name in POLICIES}
    sign = -1.0 if MORE_IS_BETTER[column] else 1.0
    order = sorted(cells, key=lambda name: sign * cells[name][0])
    return percent(resamples.figure(same_order(column, cells)), is_share=True), order


def published_column(column: str) -> str:
    """The table's order by a column, best first."""
    place = COLUMNS[column]
    cells = {
        name: float(row[place] or 0.0)
        for name, row in paper.ELEVATOR_TABLE.items()
        if row[place] is not None
    }
    sign = -1.0 if MORE_IS_BETTER[column] else 1.0
    return ", ".join(sorted(cells, key=lambda name: sign * cells[name]))


class OfficeLevel(NamedTuple):
    """What four weeks leave, scaled to the paper's arrivals."""

    late: float
    """A30"""
    severe: float
    """S"""
    acted: float
    """violations per visit"""
    visits_per_day: float


PAPER_CASES_PER_DAY = paper.ELEVATOR_RECORDS / (paper.ELEVATOR_YEARS * DAYS_A_YEAR)
"""47 a day."""
WEEKS_DAYS = paper.ELEVATOR_STEPS * STEP_HOURS / 24
"""28 days of an episode."""
LATE_DAYS = 30


def implied_stock() -> tuple[float, float]:
    """Least and most cases over thirty days on the table's first day, by its NO_DISPATCH row.

    There nobody is visited: the mean of A30 is the first day's and those who turn thirty days old,
    on average after half the weeks. Younger cases are at most all that came in thirty days.
    """
    late = float(paper.ELEVATOR_TABLE["NO_DISPATCH"][1] or 0.0)
    turning = PAPER_CASES_PER_DAY * WEEKS_DAYS / 2
    return late - turning, late


def implied_visits() -> float:
    """Least visits a day of the table's office: its TAIL row, were every visit to the oldest."""
    nobody, tail = (float(paper.ELEVATOR_TABLE[row][1] or 0.0) for row in ("NO_DISPATCH", "TAIL"))
    return (nobody - tail) / (WEEKS_DAYS / 2)


def with_stock(params: Any, factor: float) -> Any:
    """The same office with so many times as many cases over thirty days on its first day."""
    start = params.backlog.start_waiting
    last = np.arange(start.shape[2]).reshape(N_CODES, -1)[:, -1]
    scale = np.ones(start.shape[2], np.float32)
    scale[last] = factor
    return params._replace(backlog=params.backlog._replace(start_waiting=start * scale))


def with_enforced(params: Any, share: float) -> Any:
    """The same office where such a share of the cases warrants a violation."""
    cases, chance = params.backlog.cases_per_day, params.backlog.chance
    factor = share / float((cases * chance).sum() / cases.sum())
    return params._replace(backlog=params.backlog._replace(chance=chance * factor))


def measure_level(scored: Scored, rule: str, cases_per_day: float) -> OfficeLevel:
    """A rule's backlogs at the paper's arrivals, its violations per visit and its visits a day."""
    scale = PAPER_CASES_PER_DAY / cases_per_day
    late, severe = (scored.outcome(name, rule).mean() / scored.n_steps for name in ("A30", "S"))
    visits, found = scored.total("visits", rule).sum(), scored.outcome("violation", rule).sum()
    n_days = scored.arrays["reward"].shape[1] * WEEKS_DAYS
    acted = found / visits if visits else 0.0
    return OfficeLevel(scale * late, scale * severe, acted, scale * visits / n_days)


def level_in(evidence: Evidence, true: Any) -> Callable[..., OfficeLevel]:
    """What measures a rule's level in an office, at this city's arrivals."""
    per_day = float(true.backlog.cases_per_day.sum())

    def level(params: Any, rule: str = "balanced") -> OfficeLevel:
        return measure_level(evidence.play_rules("elevator", params, RULES), rule, per_day)

    return level


def measure_offices(evidence: Evidence) -> dict[str, OfficeLevel]:
    """BALANCED's level here, and with what the table implies put in, one thing after the other."""
    true = evidence.true("measured", "elevator", "elevator")
    level = level_in(evidence, true)
    return {name: level(params) for name, params in offices(true, level).items()}


def offices(true: Any, level: Callable[..., OfficeLevel]) -> dict[str, Any]:
    """Put what the table's own rows imply into this city's office, one after the other."""
    # A30 where nobody goes is linear in the stock: two plays say how much is wanted.
    none, own = (level(with_stock(true, factor), "no_dispatch").late for factor in (0.0, 1.0))
    wanted = (float(paper.ELEVATOR_TABLE["NO_DISPATCH"][1] or 0.0) - none) / max(own - none, 1e-9)
    found = {"this city": true, "with the stock of its NO_DISPATCH row": with_stock(true, wanted)}
    enforced = with_enforced(with_stock(true, wanted), paper.ELEVATOR_ENFORCED)
    found["and its fifth of enforced cases"] = enforced
    factor = implied_visits() / level(true).visits_per_day
    found["and the visits of its TAIL row"] = scale_capacity(enforced, factor)
    return found


def scored_as_table(evidence: Evidence) -> Scored:
    """Every policy in the office whose stock, enforced share and visits the table's rows imply.

    Agents are those trained for this city's office.
    """

    def office(true: Any) -> Any:
        return list(offices(true, level_in(evidence, true)).values())[-1]

    return evidence.scored_elsewhere("measured", "elevator", "as-table", office)


RULES = ("balanced", "no_dispatch")


def level_words(found: Mapping[str, OfficeLevel]) -> str:
    """Every office in a phrase."""
    return "; ".join(
        f"{name}: A30 {one.late:,.0f}, S {one.severe:,.0f}, Act. {one.acted:.2f}, "
        f"{one.visits_per_day:.0f} visits a day"
        for name, one in found.items()
    )


def why_level() -> str:
    """What the table's own rows say of the office behind it."""
    least, most = implied_stock()
    days = [stock / PAPER_CASES_PER_DAY for stock in (least, most)]
    return (
        f"its NO_DISPATCH row begins with {least:,.0f} to {most:,.0f} cases over thirty days, "
        f"{days[0]:.0f} to {days[1]:.0f} days of arrivals, and its TAIL row visits at least "
        f"{implied_visits():.0f} a day where {PAPER_CASES_PER_DAY:.0f} come: no office that visits "
        "so many is left with such a stock, so the level is that of the first day, which the paper "
        "does not give"
    )


def _level(evidence: Evidence) -> Finding:
    scored = evidence.scored("measured", "elevator")
    resamples = evidence.resamples(scored)
    true = evidence.true("measured", "elevator", "elevator")
    scale = PAPER_CASES_PER_DAY / float(true.backlog.cases_per_day.sum())
    decisions, figures = [], {}
    for column in ("A30", "S", "Act."):
        own = column_samples(scored, "BALANCED", column, resamples)
        figure = resamples.figure(own if column == "Act." else scale * own)
        published = float(paper.ELEVATOR_TABLE["BALANCED"][COLUMNS[column]] or 0.0)
        figures[column] = Measured(figure.value, figure.lower, figure.upper)
        tolerance = LEVEL_TOLERANCE * published
        decisions.append(
            decide_level(figures[column], published, tolerance=tolerance, hangs_on=FIRST_DAY)
        )
    late = figures["A30"]
    words = ", ".join(
        f"{column} {one.value:,.2f} ({one.lower:,.2f} to {one.upper:,.2f})"
        for column, one in figures.items()
    )
    words += f"; BALANCED played, {level_words(measure_offices(evidence))}"
    found = decide_all(decisions)
    ours = Measured(late.value, late.lower, late.upper, words)
    return Finding(ours, Decision(found.verdict, f"{found.reason}; {why_level()}"))


def _best_heuristic(evidence: Evidence) -> Finding:
    scored = evidence.scored("measured", "elevator")
    resamples = evidence.resamples(scored)
    rewards = rewards_by_office(evidence)
    pairs = {row: _lead(rewards[0], "BALANCED", row, resamples) for row in HEURISTICS}
    closest = min(pairs, key=lambda row: pairs[row].value)
    least = pairs[closest]
    words = (
        f"closest rule {closest}: BALANCED ahead by {100 * least.value:.2f} % of its reward "
        f"({100 * least.lower:.2f} to {100 * least.upper:.2f})"
    )
    found = decide_pairs(_judge_pairs(rewards, resamples, "BALANCED", HEURISTICS))
    ours = Measured(least.value, least.lower, least.upper, words)
    return Finding(ours, in_both_words(found))


CLAIMS = [
    *(
        Claim(
            f"elevator_order_{column.lower().strip('.')}", AREA,
            f"The ten policies of the elevator table come in its order by {column}", "Table 2",
            f"from the best: {published_column(column)}", "order",
            "share of the pairs the table sets apart that come in its order here; reward = −(A30 + "
            "2 S) summed over 168 steps of four hours, as the table's own rows give it (the paper "
            f"does not say); {BOTH}"
            + ("; activity is not defined in the paper, ours is violations per visit"
               if column == "Act." else ""),
            _order(column), ("elevator",), quote="Lower A_30 and S are better",
        )
        for column in COLUMNS
    ),
    *(
        Claim(
            f"elevator_{row.lower()}", AREA,
            f"{row} does better than the policies the elevator table puts below it", "Table 2",
            published_words(row), "order",
            "reward less that of each policy which the table puts more than a hundredth of "
            "BALANCED's reward below it, on the same episodes; every pair is judged once, in "
            f"the row of the better; {BOTH}",
            _row(row), ("elevator",), quote="Elevator policy comparison, 168-step test horizon",
        )
        for row in POLICIES
        if rows_below(row)
    ),
    Claim(
        "elevator_level", AREA, "BALANCED leaves A30 1,423, S 533 and an activity of 0.15",
        "Table 2", "A30 1423.2, S 532.7, Act. 0.15", "level",
        "each of the three within a quarter of the published figure, backlogs scaled to the "
        "paper's 47 complaints a day; beside it what is left where the stock, the enforced share "
        "and the visits that its own rows imply are put in, one after the other",
        _level, ("elevator",), quote="Elevator policy comparison, 168-step test horizon",
    ),
    Claim(
        "elevator_balanced_best", AREA, "BALANCED is the strongest practical heuristic",
        "6.1 Elevator", "strongest practical heuristic", "order",
        "reward of BALANCED less that of each other rule of the table; holds if ahead of each; "
        f"{BOTH}",
        _best_heuristic, ("elevator",), quote="remains the strongest practical heuristic",
    ),
]  # fmt: skip
