"""Claims about equity: the gradient of today's rule, parity and its price, dominance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.audit.assess import PRIMARY_TEST
from parity311.evaluation.metrics import price_note
from parity311.reproduction import published as paper
from parity311.reproduction import samples
from parity311.reproduction.claims import Claim, Finding, percent
from parity311.reproduction.jobs import EQUITY_WEIGHT
from parity311.reproduction.protocols import EQUITY_DOMAINS, RESIDENTIAL
from parity311.reproduction.samples import TODAY
from parity311.reproduction.verdicts import (
    FAILS,
    HOLDS,
    UNTESTED,
    Decision,
    Measured,
    decide_bound,
    decide_magnitude,
    decide_sign,
    untested,
)

if TYPE_CHECKING:
    from parity311.reproduction.evidence import Evidence

AREA = "Equity"
SCENARIO = "strong"
PAID = f"_equity_{EQUITY_WEIGHT:.2f}"
LEARNED = ("dqn", "reinforce", f"dqn{PAID}", f"reinforce{PAID}")


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
        return Finding(ours, decide_sign(ours, claimed))

    return test


def _trend(facts: dict[str, Any], strata: str) -> dict[str, Any] | None:
    rows = facts["today"]["trends"]
    found = [row for row in rows if row["strata"] == strata and row["name"] == PRIMARY_TEST]
    return found[0] if found else None


def _parity(slug: str, agent: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        today = samples.gap(scored, TODAY, resamples)[0]
        shown = percent(samples.gap_figure(scored, f"{agent}{PAID}", resamples))
        words = f"gap {shown.words}; today's rule {100 * today:.1f} %"
        ours = Measured(shown.value, shown.lower, shown.upper, words)
        return Finding(ours, decide_bound(ours, at_most=paper.TAU))

    return test


def _price(slug: str, agent: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        paid, plain = (
            samples.throughput(scored, name, resamples) for name in (f"{agent}{PAID}", agent)
        )
        gap = samples.gap(scored, f"{agent}{PAID}", resamples)[0]
        note = price_note(float(plain[0]) * resamples.episodes.shape[1])
        if note:
            return Finding(Measured(np.nan, words=note), untested(note))
        shown = percent(resamples.figure(1.0 - paid / plain))
        words = f"{shown.words} at a gap of {100 * gap:.1f} %"
        ours = Measured(shown.value, shown.lower, shown.upper, words)
        return Finding(ours, decide_magnitude(ours, paper.EQUITY_PRICE, tolerance=0.005))

    return test


def _narrows(slug: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        own, today = (samples.gap(scored, name, resamples) for name in ("dqn", TODAY))
        change, left = resamples.figure(own - today), samples.gap_figure(scored, "dqn", resamples)
        words = (
            f"gap {100 * own[0]:.1f} % against {100 * today[0]:.1f} %: {100 * change.value:+.1f} "
            f"({100 * change.lower:+.1f} to {100 * change.upper:+.1f})"
        )
        ours = Measured(change.value, change.lower, change.upper, words)
        return Finding(ours, decide_narrows(ours, Measured(left.value, left.lower, left.upper)))

    return test


def decide_narrows(change: Measured, left: Measured) -> Decision:
    """Judge "narrows but does not close": the gap falls, and more than τ of it is left."""
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
        rows = []
        for name in LEARNED:
            found = samples.relative_figure(
                samples.throughput(scored, name, resamples),
                samples.throughput(scored, TODAY, resamples),
                resamples,
            )
            gap = resamples.figure(
                samples.gap(scored, name, resamples) - samples.gap(scored, TODAY, resamples)
            )
            rows.append((name, found, gap))
        name, found, gap = max(rows, key=lambda row: (row[1].lower > 0) + (row[2].upper < 0))
        words = (
            f"{name.replace('_', ' ')}: correct escalations {100 * found.value:+.1f} % "
            f"({100 * found.lower:+.1f} to {100 * found.upper:+.1f}), gap {100 * gap.value:+.1f} "
            f"points ({100 * gap.lower:+.1f} to {100 * gap.upper:+.1f})"
        )
        ours = Measured(found.value, found.lower, found.upper, words)
        return Finding(ours, decide_dominated([(f, g) for _, f, g in rows]))

    return test


def decide_dominated(rows: list[tuple[Any, Any]]) -> Decision:
    """Judge dominance: some policy finds more and has a smaller gap, both clear of zero."""
    if any(found.lower > 0 and gap.upper < 0 for found, gap in rows):
        return Decision(HOLDS, "a learned policy finds more and with a smaller gap")
    if all(found.upper < 0 or gap.lower > 0 for found, gap in rows):
        return Decision(FAILS, "every learned policy is clearly worse in one of the two")
    return Decision(UNTESTED, "no learned policy is clearly better in both")


def _all_incidents(slug: str):
    def test(evidence: Evidence) -> Finding:
        scored = evidence.scored(SCENARIO, slug)
        resamples = evidence.resamples(scored)
        over_all = samples.gap(scored, TODAY, resamples, "incidents")
        per_need = samples.gap(scored, TODAY, resamples)
        figure = resamples.figure(over_all / per_need)
        words = (
            f"{100 * over_all[0]:.1f} % over all incidents, {100 * per_need[0]:.1f} % over those "
            f"that need a visit: a factor of {figure.value:.2f} ({figure.lower:.2f} to "
            f"{figure.upper:.2f})"
        )
        ours = Measured(figure.value, figure.lower, figure.upper, words)
        return Finding(ours, decide_magnitude(ours, 1.0, tolerance=0.1))

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


CITY = "participation strong, capacity scarce; coverage per actionable incident, reported or not"

GRADIENTS = [
    claim
    for slug in EQUITY_DOMAINS
    for claim in (
        Claim(
            f"income_gradient_{slug}", AREA,
            f"Today's rule serves richer quintiles better in {slug}, given severity",
            "6.3", "statistically significant gradient; Q1 fewer than Q5", "sign",
            "trend of the share of cases served in time across income quintiles within severity "
            "codes, spread measured over tracts; records of 2020 to March 2026",
            _gradient(slug, "income5", +1), (slug,),
        ),
        Claim(
            f"race_gradient_{slug}", AREA,
            f"Today's rule serves tracts with more Black and Hispanic residents worse in {slug}",
            "6.3", "fewer escalations per complaint", "sign",
            "the same trend across quintiles of the Black and Hispanic share",
            _gradient(slug, "race5", -1), (slug,),
        ),
    )
]  # fmt: skip

PARITY = [
    claim
    for slug in EQUITY_DOMAINS
    for agent in ("reinforce", "dqn")
    for claim in (
        Claim(
            f"parity_{agent}_{slug}", AREA,
            f"Paid for coverage, {agent.upper()} approaches parity in {slug}",
            "6.3; 8.1", "approaches parity (τ = 0.05)", "bound",
            f"gap between best and worst served quintile at most 0.05; {CITY}; coverage price "
            "(mode dual) instead of the published per-step term, which cannot be learned from",
            _parity(slug, agent), (slug,),
        ),
        Claim(
            f"price_{agent}_{slug}", AREA,
            f"Parity costs {agent.upper()} 4 to 7 % of its throughput in {slug}",
            "6.3; 8.1 Second", "≈4-7 %", "magnitude",
            f"share of correct escalations given up against the same agent without; {CITY}; "
            "tolerance half a point",
            _price(slug, agent), (slug,),
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
            "6.3; 8.1 First", "narrows but does not close", "sign",
            f"gap of DQN less today's, and what is left against 0.05; {CITY}",
            _narrows(slug), (slug,),
        )
        for slug in EQUITY_DOMAINS
    ),
    *(
        Claim(
            f"dominated_{slug}", AREA,
            f"Today's rule is dominated by learned policies in {slug}", "6.2",
            "dominated in all residential domains", "sign",
            "a learned policy with more correct escalations and a smaller gap, both intervals "
            f"clear of zero; {CITY}",
            _dominated(slug), (slug,),
        )
        for slug in RESIDENTIAL
    ),
    *(
        Claim(
            f"denominator_{slug}", AREA,
            f"The gate's gap over all incidents shows the gap in service in {slug}", "4.5 step 5",
            "e = n / N̂ over all incidents", "magnitude",
            "gap over all incidents divided by the gap over actionable incidents under today's "
            "rule; 1 would be the same gap, tolerance 0.1",
            _all_incidents(slug), (slug,),
        )
        for slug in ("heat", "housing", "elevator")
    ),
    *(
        Claim(
            f"estimator_{slug}", AREA,
            f"The published correction raises estimated need where people report less in {slug}",
            "4.3 Step 2", "Î > C selectively for low-income tracts", "sign",
            "estimated incidents per complaint under the published estimator, quintiles 1-2 less "
            "4-5, in a city where the fifth quintile reports three times as readily as the first",
            _estimator(slug), (slug,),
        )
        for slug in ("heat", "housing", "elevator")
    ),
]  # fmt: skip
