"""Claims about equity: the gradient of today's rule, parity and its price, dominance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.audit.assess import PRIMARY_TEST
from parity311.evaluation.comparison_statistics import mean_samples
from parity311.evaluation.metrics import price_note
from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction import samples
from parity311.studies.reproduction.claims.claim import Claim, Finding, percent
from parity311.studies.reproduction.jobs import EQUITY_WEIGHT, EQUITY_WEIGHTS, FOLLOWED
from parity311.studies.reproduction.protocols import EQUITY_DOMAINS, RESIDENTIAL
from parity311.studies.reproduction.samples import TODAY
from parity311.studies.reproduction.verdicts import (
    FAILS,
    HOLDS,
    NOT_CLAIMED,
    UNTESTED,
    Decision,
    Measured,
    decide_bound,
    decide_magnitude,
    decide_sign,
    untested,
)

if TYPE_CHECKING:
    from parity311.studies.reproduction.evidence import Evidence
    from parity311.studies.reproduction.scoring import Scored

AREA = "Equity"
SCENARIO = "strong"
PAID = f"_equity_{EQUITY_WEIGHT:.2f}"
LEARNED = ("dqn", "reinforce", f"dqn{PAID}", f"reinforce{PAID}")
EQUAL_TREND = paper.TAU / 4
"""A trend across five quintiles that the paper's own gate would let pass, a quintile: within it the
quintiles are served alike."""
NO_CHANNEL = (
    "its rule sees neither income nor race, only noisier intake could make a gradient, and how "
    "noisy it is was assumed; New York's records would be needed"
)
NOT_LINKED = "the paper links incomes to boiler, heat and housing (3.4), not to this domain"
Test = Callable[["Evidence"], Finding]
EQUAL_SPEED = 0.005
"""Half a per cent of today's finds or speed is as good as equal (our choice)."""
EQUAL_PRICE = 0.005
NOTHING_TO_CLOSE = "today's rule is within 0.05 already: there is no gap to close"


def _gradient(slug: str, strata: str, claimed: int):
    def test(evidence: Evidence) -> Finding:
        row = _trend(evidence.facts(SCENARIO, slug), strata)
        if row is None or row["estimate"] is None:
            reason = "no trend could be measured" if row is None else str(row["reason"])
            return Finding(Measured(np.nan), untested(reason))
        other = _trend(evidence.facts("measured", slug), strata)
        beside = "" if other is None or other["estimate"] is None else (
            f"; {100 * other['estimate']:+.2f} where people report as measured"
        )  # fmt: skip
        words = (
            f"{100 * row['estimate']:+.2f} points a quintile ({100 * row['lower']:+.2f} to "
            f"{100 * row['upper']:+.2f}), p = {row['p_value']:.2g}{beside}"
        )
        ours = Measured(row["estimate"], row["lower"], row["upper"], words)
        return Finding(ours, decide_gradient(ours, claimed))

    return test


def decide_gradient(ours: Measured, claimed: int) -> Decision:
    """Say which gradient across quintiles there is, and that it was built in or left out.

    Today's rule of the city sees neither income nor race. A gradient on the claimed side would show
    that noisier intake, which the paper names, can make one; none refutes nothing about the DOB.
    """
    found = decide_sign(ours, claimed, margin=EQUAL_TREND)
    if found.verdict != FAILS:
        return found
    is_null = ours.lower >= -EQUAL_TREND and ours.upper <= EQUAL_TREND
    what = "a tight null" if is_null else "the other way round"
    return Decision(UNTESTED, f"{what}, as this city was built: {NO_CHANNEL}")


def shown_beyond(slug: str, test: Test) -> Test:
    """The test itself where the paper links incomes to a domain; elsewhere it is only shown."""
    if slug in RESIDENTIAL:
        return test

    def show(evidence: Evidence) -> Finding:
        found = test(evidence)
        return Finding(found.ours, not_of_the_paper(found.decision))

    return show


def not_of_the_paper(found: Decision) -> Decision:
    """A decision about a domain that the paper does not link to incomes."""
    return Decision(NOT_CLAIMED, f"{NOT_LINKED}; here it {found.verdict}: {found.reason}")


def _kind(slug: str, kind: str) -> str:
    return kind if slug in RESIDENTIAL else "shown"


def _trend(facts: dict[str, Any], strata: str) -> dict[str, Any] | None:
    rows = facts["today"]["trends"]
    found = [row for row in rows if row["strata"] == strata and row["name"] == PRIMARY_TEST]
    return found[0] if found else None


def gap_figure(scored: Any, name: str, resamples: Any, out_of: str = "actionable") -> Measured:
    """Coverage gap of a policy with its interval, both between nothing and everything."""
    return percent(samples.gap_figure(scored, name, resamples, out_of), is_share=True)


def change_of_gap(own: np.ndarray, today: np.ndarray, resamples: Any) -> Measured:
    """By how much a gap differs from today's, both between nothing and everything."""
    figure, least = resamples.figure(own - today), -float(today[0])
    lower, upper = max(figure.lower, least), min(figure.upper, 1.0 + least)
    words = f"{100 * figure.value:+.1f} ({100 * lower:+.1f} to {100 * upper:+.1f})"
    return Measured(figure.value, lower, upper, words)


def _divided(evidence: Evidence) -> str:
    """What coverage is divided by, where it is not what the definitions say."""
    return "; per incident, as the paper divides" if evidence.programme.is_published else ""


def decide_parity(gap: Measured, today: float) -> Decision:
    """Judge "approaches parity": a gap of at most τ where there was a larger one before."""
    if today <= paper.TAU:
        return untested(NOTHING_TO_CLOSE)
    return decide_bound(gap, at_most=paper.TAU)


def decide_price(price: Measured, gap: float, today: float) -> Decision:
    """Judge the price of parity, which only an agent that reaches it has paid."""
    if today <= paper.TAU:
        return untested(NOTHING_TO_CLOSE)
    if gap > paper.TAU:
        return untested("parity is not reached, so this is not its price")
    found = decide_magnitude(price, paper.EQUITY_PRICE, tolerance=EQUAL_PRICE)
    if found.verdict == FAILS and price.upper < paper.EQUITY_PRICE[0]:
        return Decision(FAILS, "cheaper than the paper says, which it calls modest")
    return found


def _parity(slug: str, agent: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        out_of = evidence.programme.out_of
        today = samples.gap(scored, TODAY, resamples, out_of)[0]
        shown = gap_figure(scored, f"{agent}{PAID}", resamples, out_of)
        words = f"gap {shown.words}; today's rule {100 * today:.1f} %{_divided(evidence)}"
        ours = Measured(shown.value, shown.lower, shown.upper, words)
        return Finding(ours, decide_parity(ours, today))

    return test


def _price(slug: str, agent: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        paid, plain = (
            samples.throughput(scored, name, resamples) for name in (f"{agent}{PAID}", agent)
        )
        gap, today = (
            samples.gap(scored, name, resamples, evidence.programme.out_of)[0]
            for name in (f"{agent}{PAID}", TODAY)
        )
        note = price_note(float(plain[0]) * resamples.episodes.shape[1])
        if note:
            return Finding(Measured(np.nan, words=note), untested(note))
        shown = percent(resamples.figure(1.0 - paid / plain), most=1.0)
        decision = decide_price(shown, gap, today)
        if gap > paper.TAU:
            words = f"a gap of {100 * gap:.1f} % is left; today's rule {100 * today:.1f} %"
            return Finding(Measured(np.nan, words=words), decision)
        words = f"{shown.words} at a gap of {100 * gap:.1f} %; today's rule {100 * today:.1f} %"
        return Finding(Measured(shown.value, shown.lower, shown.upper, words), decision)

    return test


def _narrows(slug: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        out_of = evidence.programme.out_of
        own, today = (samples.gap(scored, name, resamples, out_of) for name in ("dqn", TODAY))
        change = change_of_gap(own, today, resamples)
        left = gap_figure(scored, "dqn", resamples, out_of)
        words = (
            f"gap {100 * own[0]:.1f} % against {100 * today[0]:.1f} %: {change.words}"
            f"{_divided(evidence)}"
        )
        ours = Measured(change.value, change.lower, change.upper, words)
        return Finding(ours, decide_narrows(ours, left, float(today[0])))

    return test


def decide_narrows(change: Measured, left: Measured, today: float) -> Decision:
    """Judge "narrows but does not close": the gap falls, and more than τ of it is left."""
    if today <= paper.TAU:
        return untested(NOTHING_TO_CLOSE)
    if change.lower > 0:
        return Decision(FAILS, "the gap widens")
    if left.upper <= paper.TAU:
        return Decision(FAILS, "the gap closes without an equity term")
    if change.upper < 0 and left.lower > paper.TAU:
        return Decision(HOLDS, "the gap narrows and stays above 0.05")
    return Decision(UNTESTED, "the change, or what is left, cannot be told from zero or from 0.05")


def _dominated(slug: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        out_of, rows = evidence.programme.out_of, []
        today = samples.gap(scored, TODAY, resamples, out_of)
        for name in LEARNED:
            found = samples.relative_figure(
                samples.throughput(scored, name, resamples),
                samples.throughput(scored, TODAY, resamples),
                resamples,
            )
            own = samples.gap(scored, name, resamples, out_of)
            rows.append((name, found, change_of_gap(own, today, resamples)))
        name, found, gap = max(rows, key=lambda row: (row[1].lower > 0) + (row[2].upper < 0))
        points, interval = gap.words.split(" ", 1)
        words = (
            f"{name.replace('_', ' ')}: correct escalations {100 * found.value:+.1f} % "
            f"({100 * max(found.lower, -1.0):+.1f} to {100 * found.upper:+.1f}), gap "
            f"{points} points {interval}"
        )
        ours = Measured(found.value, max(found.lower, -1.0), found.upper, words)
        return Finding(ours, decide_dominated([(f, g) for _, f, g in rows]))

    return test


def decide_dominated(rows: list[tuple[Any, Any]]) -> Decision:
    """Judge dominance: some policy finds more and has a smaller gap, both clear of zero."""
    if any(found.lower > 0 and gap.upper < 0 for found, gap in rows):
        return Decision(HOLDS, "a learned policy finds more and with a smaller gap")
    if all(found.upper < 0 or gap.lower > 0 for found, gap in rows):
        return Decision(FAILS, "every learned policy is clearly worse in one of the two")
    return Decision(UNTESTED, "no learned policy is clearly better in both")


def _ahead(slug: str, what: str):
    """The Conclusion's claim: agents paid for coverage find more, and are faster."""

    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        mine, today = (
            mean_samples(scored.total(what, name), resamples)
            for name in (f"reinforce{PAID}", TODAY)
        )
        # Of finds no more than all can be lost; days of waiting have no such end.
        least = -1.0 if what == "correct" else -math.inf
        ours = percent(samples.relative_figure(mine, today, resamples), signed=True, least=least)
        return Finding(ours, decide_sign(ours, +1, margin=EQUAL_SPEED))

    return test


def _estimator(slug: str):
    def test(evidence: Evidence) -> Finding:
        facts = evidence.facts(SCENARIO, slug)["reporting"]
        value, lower, upper = facts["as_published_contrast"]
        right = facts["exposure_rate_contrast"][0]
        words = (
            f"{value:+.3f} incidents per complaint ({lower:+.3f} to {upper:+.3f}); the exposure "
            f"rate gives {right:+.3f}"
        )
        ours = Measured(value, lower, upper, words)
        return Finding(ours, decide_sign(ours, +1))

    return test


def price_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """What parity costs by α₃ (RQ3), one row an agent and weight; the term is the programme's."""
    found = []
    for slug in FOLLOWED:
        if slug in evidence.domains:
            scored = evidence.scored(SCENARIO, slug)
            found += [
                _price_row(evidence, scored, slug, agent, weight)
                for agent in SOURCES
                for weight in (0.0, *EQUITY_WEIGHTS)
                if scored.has(_with_weight(agent, weight))
            ]
    return found


def _with_weight(agent: str, weight: float) -> str:
    return f"{agent}_equity_{weight:.2f}" if weight else agent


def _price_row(
    evidence: Evidence, scored: Scored, slug: str, agent: str, weight: float
) -> dict[str, Any]:
    """Gap, and correct escalations and visits against the same agent without a weight."""
    resamples, out_of = evidence.resamples(scored), evidence.programme.out_of
    name = _with_weight(agent, weight)
    own, plain = (samples.throughput(scored, one, resamples) for one in (name, agent))
    shown = gap_figure(scored, name, resamples, out_of)
    visits = [scored.total("visits", one).mean() for one in (name, agent)]
    row = {
        "domain": slug, "agent": agent, "weight": weight, "gap": shown.value,
        "gap_lower": shown.lower, "gap_upper": shown.upper,
        "gap_today": float(samples.gap(scored, TODAY, resamples, out_of)[0]),
        "visits": visits[0] / visits[1] if visits[1] else None,
    }  # fmt: skip
    note = price_note(float(plain[0]) * resamples.episodes.shape[1])
    if note:
        return {**row, "price": None, "price_lower": None, "price_upper": None, "note": note}
    price = percent(resamples.figure(1.0 - own / plain), most=1.0)
    return {
        **row, "price": price.value, "price_lower": price.lower, "price_upper": price.upper,
        "note": "",
    }  # fmt: skip


CITY = (
    "participation strong, capacity scarce; coverage per actionable incident, reported or not (in "
    "the paper's programme per incident)"
)
TERM = (
    "paid as the programme pays: the paper's by its term at every step (Eq. 9), ours by a coverage "
    "price"
)
DOMAINS = (
    "the paper does not say in which domains; it links income to boiler, heat and housing (3.4), "
    "elevator is added here and not counted"
)

GRADIENTS = [
    claim
    for slug in EQUITY_DOMAINS
    for claim in (
        Claim(
            f"income_gradient_{slug}", AREA,
            f"Today's rule serves richer quintiles better in {slug}, given severity",
            "6.3", "statistically significant gradient; Q1 fewer than Q5", _kind(slug, "level"),
            "trend of the share of cases served in time across income quintiles within severity "
            "codes, spread measured over tracts; records of 2020 to March 2026; within 1.25 points "
            "a quintile (0.05 from the first to the fifth) they are served alike; in this city "
            "today's rule sees neither income nor race, and the one way in is noisier intake where "
            f"more households speak limited English, so that none refutes nothing; {DOMAINS}",
            shown_beyond(slug, _gradient(slug, "income5", +1)), (slug,),
            quote="Q1 receives fewer correct escalations per complaint than Q5, even after "
            "conditioning on complaint severity",
        ),
        Claim(
            f"race_gradient_{slug}", AREA,
            f"Today's rule serves tracts with more Black and Hispanic residents worse in {slug}",
            "6.3", "fewer escalations per complaint", _kind(slug, "level"),
            "the same trend across quintiles of the Black and Hispanic share",
            shown_beyond(slug, _gradient(slug, "race5", -1)), (slug,),
            quote="tracts with higher fractions of Black and Hispanic residents receive fewer "
            "escalations per complaint",
        ),
    )
]  # fmt: skip

SOURCES = {
    "reinforce": ("6.3; 9.1 Second", "approaches parity across income quintiles"),
    "dqn": ("9.1 Second", "Agents with full equity objectives achieve near-parity"),
}
"""Where the paper claims parity of an agent: of REINFORCE by name, of agents in general."""

PARITY = [
    claim
    for slug in EQUITY_DOMAINS
    for agent, (source, quote) in SOURCES.items()
    for claim in (
        Claim(
            f"parity_{agent}_{slug}", AREA,
            f"Paid for coverage, {agent.upper()} approaches parity in {slug}",
            source, "approaches parity (τ = 0.05)", _kind(slug, "bound"),
            f"gap between best and worst served quintile at most 0.05, where today's is larger; "
            f"{CITY}; {TERM}; {DOMAINS}",
            shown_beyond(slug, _parity(slug, agent)), (slug,), quote=quote,
        ),
        Claim(
            f"price_{agent}_{slug}", AREA,
            f"Parity costs {agent.upper()} 4 to 7 % of its throughput in {slug}",
            source, "≈4-7 %", _kind(slug, "magnitude"),
            f"share of correct escalations given up against the same agent without, where it "
            f"reaches a gap of 0.05 and today's rule does not; {CITY}; {TERM}; tolerance half a "
            f"point; {DOMAINS}",
            shown_beyond(slug, _price(slug, agent)), (slug,),
            quote="a throughput cost of ≈4–7%" if agent == "reinforce" else
            "at a throughput penalty of approximately 4–7%",
        ),
    )
]  # fmt: skip

CLAIMS = [
    *GRADIENTS,
    *PARITY,
    *(
        Claim(
            f"narrows_{slug}", AREA,
            f"Without an equity term DQN narrows the gap in {slug} but does not close it",
            "6.3; 9.1 First", "narrows but does not close", _kind(slug, "sign"),
            f"gap of DQN less today's where that is above 0.05, and what is left against 0.05; "
            f"{CITY}; {DOMAINS}",
            shown_beyond(slug, _narrows(slug)), (slug,),
            quote="DQN without the equity term narrows but does not close the gap",
        )
        for slug in EQUITY_DOMAINS
    ),
    *(
        Claim(
            f"detection_{slug}", AREA,
            f"Paid for coverage, REINFORCE finds more than today's rule in {slug}", "10",
            "outperforming on defect detection", "sign",
            f"correct escalations over today's rule's, less one; {CITY}",
            _ahead(slug, "correct"), (slug,),
            quote="outperforming current heuristic classification on defect detection",
        )
        for slug in RESIDENTIAL
    ),
    *(
        Claim(
            f"remediation_{slug}", AREA,
            f"Paid for coverage, REINFORCE is faster than today's rule in {slug}", "10",
            "outperforming on remediation speed", "sign",
            "the published reward's part for speed (severity-weighted days of waiting, or backlog) "
            f"over today's rule's; {CITY}",
            _ahead(slug, "speed"), (slug,),
            quote="outperforming current heuristic classification on defect detection and "
            "remediation speed",
        )
        for slug in RESIDENTIAL
    ),
    *(
        Claim(
            f"dominated_{slug}", AREA,
            f"Today's rule is dominated by learned policies in {slug}", "6.2",
            "dominated in all residential domains", "sign",
            "a learned policy with more correct escalations and a smaller gap, both intervals "
            f"clear of zero; {CITY}",
            _dominated(slug), (slug,),
            quote="the current heuristic intake is dominated by RL policies in all residential "
            "domains",
        )
        for slug in RESIDENTIAL
    ),
    *(
        Claim(
            f"estimator_{slug}", AREA,
            f"The published correction raises estimated need where people report less in {slug}",
            "4.3 Step 2", "Î > C selectively for low-income tracts", "sign",
            "estimated incidents per complaint under the published estimator, quintiles 1-2 less "
            "4-5, in a city where the fifth quintile reports three times as readily as the first",
            _estimator(slug), (slug,), quote="selectively for low-income tracts",
            follows_from="propensity",
        )
        for slug in ("heat", "housing", "elevator")
    ),
]  # fmt: skip
