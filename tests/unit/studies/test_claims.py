"""The list of claims: complete, well-formed, and the paper's own figures judged as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from parity311.evaluation.comparison_statistics import make_resamples
from parity311.resampling import Figure
from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.arithmetic import (
    FIGURE_CLAIMS,
    agrees,
    reports_per_incident,
    split_error,
)
from parity311.studies.reproduction.claims.boiler import decide_rises
from parity311.studies.reproduction.claims.claim import (
    Claim,
    Finding,
    check_keys,
    count_once,
    judge,
    percent,
)
from parity311.studies.reproduction.claims.elevator import fit_reward
from parity311.studies.reproduction.claims.equity import (
    EQUAL_TREND,
    change_of_gap,
    decide_dominated,
    decide_gradient,
    decide_narrows,
    decide_parity,
    decide_price,
    shown_beyond,
)
from parity311.studies.reproduction.claims.learning import decide_hdqn, decide_transfer
from parity311.studies.reproduction.protocols import RESIDENTIAL
from parity311.studies.reproduction.verdicts import (
    CONTRADICTS,
    FAILS,
    FOLLOWS,
    HOLDS,
    NOT_CLAIMED,
    UNTESTED,
    VERDICTS,
    Decision,
    Measured,
    decide_sign,
)


class NoEvidence:
    """Stands for a reproduction of no domain: arithmetic claims need none."""

    domains = ()
    untested: ClassVar[dict[str, str]] = {}


def judged(claims: list[Claim]) -> dict[str, str]:
    evidence = cast(Any, NoEvidence())
    return {claim.key: judge(claim, evidence)["verdict"] for claim in claims}


def test_there_are_enough_and_each_says_what_it_is() -> None:
    claims = all_claims()
    assert len(claims) >= 40
    for claim in claims:
        assert claim.claim
        assert claim.source
        assert claim.published
        assert claim.definition
    cards = {key for claim in claims for key in claim.domains}
    assert cards == paper.DOMAINS_IN_APPENDIX


@pytest.mark.parametrize(
    "key",
    [
        *(f"throughput_{slug}" for slug in sorted(paper.DOMAINS_IN_APPENDIX - {"elevator"})),
        *(f"mistakes_{slug}" for slug in sorted(paper.DOMAINS_IN_APPENDIX - {"elevator"})),
        *(f"elevator_{name.lower()}" for name in paper.ELEVATOR_TABLE if name != "NO_DISPATCH"),
        *(f"elevator_order_{column}" for column in ("reward", "a30", "s", "act")),
        *(f"{what}_{slug}" for what in ("detection", "remediation") for slug in RESIDENTIAL),
        "elevator_level",
        "drone_identical",
        "table_dqn_boiler_random",
        "table_reinforce_boiler_random",
        "recurrence_boiler",
        "board",
        "drone_dqn",
        "drone_reinforce",
        "grid_rises",
        "dominated_heat",
        "income_gradient_heat",
        "race_gradient_heat",
        "parity_reinforce_heat",
        "price_reinforce_heat",
        "narrows_heat",
        "transfer_dqn",
    ],
)
def test_required_claims_are_there(key: str) -> None:
    assert key in {claim.key for claim in all_claims()}


def test_two_claims_may_not_share_a_key() -> None:
    first = all_claims()[0]
    with pytest.raises(ValueError, match="share a key"):
        check_keys([first, replace(first, claim="another")])
    with pytest.raises(ValueError, match="has no rule"):
        check_keys([replace(first, kind="feeling")])
    with pytest.raises(ValueError, match="which is no claim"):
        check_keys([replace(first, follows_from="nothing")])


def test_the_paper_contradicts_itself_where_its_figures_do() -> None:
    verdicts = judged(FIGURE_CLAIMS)
    contradictions = {key for key, verdict in verdicts.items() if verdict == CONTRADICTS}
    assert contradictions == {
        "boiler_rows",
        "elevator_text",
        "snad_actions",
        "domains",
        "propensity",
        "per_step_equity",
    }
    fine = {"boiler_f1_dqn", "boiler_lead", "boiler_recall", "boiler_base_rate", "boiler_split"}
    assert {verdicts[key] for key in fine} == {HOLDS}
    assert set(verdicts.values()) <= set(VERDICTS)


def test_one_typo_counts_once() -> None:
    """Both averages are right over 166,579 records: they follow from the caption's 167,379."""
    verdicts = judged(FIGURE_CLAIMS)
    assert verdicts["boiler_rows"] == CONTRADICTS
    assert verdicts["boiler_average_dqn"] == verdicts["boiler_average_reinforce"] == FOLLOWS
    assert round(9_019_490 / 166_579, 2) == 54.15
    assert round(10_294_592 / 166_579, 2) == 61.80


def test_an_error_of_its_own_is_not_excused_by_another() -> None:
    """The twin: an average that no number of records explains is a contradiction of its own."""
    found = agrees(62.80, 61.50, 0.005, mended=61.80)(cast(Any, NoEvidence()))
    assert found.decision.verdict == CONTRADICTS


def test_a_split_drawn_by_record_is_not_exactly_a_fifth() -> None:
    assert split_error(834_338, 0.2) == pytest.approx(365, abs=1)
    assert abs(167_379 - 0.2 * 834_338) / split_error(834_338, 0.2) == pytest.approx(1.4, abs=0.02)
    assert abs(175_000 - 0.2 * 834_338) / split_error(834_338, 0.2) > 2


def test_what_fails_because_of_another_follows_from_it() -> None:
    row = {"key": "a", "claim": "A", "verdict": FAILS, "reason": "r", "follows_from": "b"}
    root = {**row, "key": "b", "claim": "B", "verdict": CONTRADICTS, "follows_from": ""}
    found = count_once([row, root])
    assert [one["verdict"] for one in found] == [FOLLOWS, CONTRADICTS]
    assert "B" in found[0]["reason"]
    for other in ({**row, "verdict": CONTRADICTS}, {**row, "follows_from": ""}):
        assert count_once([other, root])[0]["verdict"] == other["verdict"]
    assert count_once([row, {**root, "verdict": HOLDS}])[0]["verdict"] == FAILS


def test_withdrawn_claims_stay_withdrawn() -> None:
    """Readings and effects the paper never claimed; see docs/explanation/reproduction.md."""
    keys = {claim.key for claim in all_claims()}
    assert not keys & {"clipping", "boiler_grid_against_table", "lead_ert", "lead_complaint_triage"}
    assert not any(key.startswith(("denominator_", "boiler_sum_")) for key in keys)
    assert not any(key.endswith(("_leak_free", "_boiler_later")) for key in keys)
    untestable = {claim.key for claim in all_claims() if claim.kind == "untested"}
    assert {"boiler_fees", "elevator_outcomes"} <= untestable


def test_an_interval_that_excludes_its_point_decides_nothing() -> None:
    """Incidents per complaint −.507 (−.549 to −.531), as one run printed."""
    odd = Measured(-0.507, -0.549, -0.531)
    assert not odd.is_sound
    claim = replace(
        all_claims()[0], domains=(), test=lambda _: Finding(odd, Decision(FAILS, "below zero"))
    )
    assert judged([claim])[claim.key] == UNTESTED
    fine = replace(claim, test=lambda _: Finding(Measured(-0.54, -0.549, -0.531),
                                                 Decision(FAILS, "below zero")))  # fmt: skip
    assert judged([fine])[claim.key] == FAILS


def test_too_few_cases_are_said_to_be_too_few() -> None:
    evidence = NoEvidence()
    evidence.untested = {"snad": "12 cases"}  # type: ignore[misc]
    claim = next(claim for claim in all_claims() if claim.key == "snad_alike")
    row = judge(claim, cast(Any, evidence))
    assert row["verdict"] == UNTESTED
    assert "too few cases" in row["reason"]
    assert "12 cases" in row["reason"]


def test_a_consistent_paper_would_not_be_blamed() -> None:
    """The twin: the same check on figures that do add up."""
    row = paper.BOILER_TABLE["DQN"]
    total = sum(
        row[name]
        for name in ("true_positives", "false_positives", "true_negatives", "false_negatives")
    )
    found = agrees(total, total, 0.5)(cast(Any, NoEvidence()))
    assert found.decision.verdict == HOLDS


def test_a_domain_that_was_left_out_cannot_be_tested() -> None:
    verdicts = judged([claim for claim in all_claims() if claim.domains])
    assert set(verdicts.values()) == {UNTESTED}


def test_the_reward_behind_the_elevator_table() -> None:
    fitted, worst = fit_reward()
    assert fitted[0] == pytest.approx(-1.0, abs=0.05)
    assert fitted[1] == pytest.approx(-2.0, abs=0.05)
    assert worst < 0.005


def test_more_reporting_means_more_reports_of_an_incident() -> None:
    assert reports_per_incident(0.2, 10.0) > reports_per_incident(0.1, 10.0) > 1.0


def test_the_interval_of_a_share_ends_at_nothing_and_everything() -> None:
    wide = Figure(0.9, 0.6, 1.2, 0.1)
    assert percent(wide, is_share=True).upper == 1.0
    assert percent(wide).words == "90.0 % (60.0 to 120.0)"


def test_a_gap_falls_by_no_more_than_there_is() -> None:
    resamples = make_resamples(5, 24, n_resamples=200)
    rng = np.random.default_rng(0)
    own, today = rng.uniform(0.0, 0.3, 201), np.full(201, 0.036)
    bare = resamples.figure(own - today)
    found = change_of_gap(own, today, resamples)
    assert bare.lower < -0.036, "five seeds widen it beyond what there is"
    assert (found.lower, found.upper) == (-0.036, pytest.approx(bare.upper))
    assert found.words.endswith(f"(-3.6 to {100 * bare.upper:+.1f})")


def test_narrows_but_does_not_close() -> None:
    left, today = Measured(0.12, 0.10, 0.14), 0.17
    assert decide_narrows(Measured(-0.05, -0.07, -0.03), left, today).verdict == HOLDS
    assert decide_narrows(Measured(0.05, 0.03, 0.07), left, today).verdict == FAILS
    closed = Measured(0.02, 0.01, 0.04)
    assert decide_narrows(Measured(-0.10, -0.12, -0.08), closed, today).verdict == FAILS
    assert decide_narrows(Measured(-0.01, -0.03, 0.01), left, today).verdict == UNTESTED


def test_where_there_is_no_gap_nothing_closes_it() -> None:
    """Housing: today's gap is 1.0 %, so a gap of 0.5 % shows nothing."""
    small, price = Measured(0.005, 0.004, 0.006), Measured(0.05, 0.045, 0.06)
    assert decide_parity(small, today=0.01).verdict == UNTESTED
    assert decide_parity(small, today=0.08).verdict == HOLDS
    assert decide_narrows(Measured(-0.005, -0.006, -0.004), small, 0.01).verdict == UNTESTED
    assert decide_price(price, gap=0.005, today=0.01).verdict == UNTESTED
    assert decide_price(price, gap=0.005, today=0.08).verdict == HOLDS
    assert decide_price(price, gap=0.30, today=0.08).verdict == UNTESTED


def test_a_tight_null_is_said_to_be_one_and_to_be_built_in() -> None:
    """−.00 points a quintile (−.01 to +.00) in a city that has no such gradient by its making."""
    tight, wide = Measured(-0.00003, -0.0001, 0.00004), Measured(-0.00003, -0.02, 0.02)
    found = decide_gradient(tight, +1)
    assert found.verdict == UNTESTED
    assert "a tight null, as this city was built" in found.reason
    assert "tight null" not in decide_gradient(wide, +1).reason
    assert "other way round" in decide_gradient(Measured(-0.03, -0.04, -0.02), +1).reason
    assert decide_gradient(Measured(0.01, 0.005, 0.015), +1).verdict == HOLDS
    assert decide_sign(tight, +1).verdict == UNTESTED, "the twin: without a margin it says nothing"
    assert EQUAL_TREND * 4 == paper.TAU


def test_a_domain_the_paper_does_not_link_to_incomes_is_shown() -> None:
    held = Finding(Measured(0.02, 0.01, 0.03), Decision(HOLDS, "within"))
    nobody = cast(Any, None)
    assert shown_beyond("heat", lambda _: held)(nobody) == held
    other = shown_beyond("elevator", lambda _: held)(nobody)
    assert (other.ours, other.decision.verdict) == (held.ours, NOT_CLAIMED)
    assert "here it holds: within" in other.decision.reason


def test_a_year_nobody_does_well_on_is_no_failed_transfer() -> None:
    """−7.0 % on 2020 and −6.3 % on 2025: it was called a failure to transfer."""
    behind = Measured(-0.070, -0.156, -0.001)
    assert decide_transfer(behind, Measured(-0.063)).verdict == UNTESTED
    assert decide_transfer(behind, Measured(0.02, 0.01, 0.03)).verdict == HOLDS
    assert decide_transfer(Measured(0.018, 0.016, 0.019), Measured(-0.063)).verdict == FAILS
    assert decide_transfer(Measured(0.0, -0.1, 0.1), Measured(0.02)).verdict == UNTESTED


def test_one_agent_a_setting_refutes_no_rise() -> None:
    """0.700 at 10 and 0.695 at 15, with one agent a setting."""
    up, down, whole = (Figure(x, x - 0.001, x + 0.001, 0.0) for x in (0.03, -0.005, 0.15))
    assert decide_rises([up, down, up], whole, n_seeds=1).verdict == UNTESTED
    assert decide_rises([up, down, up], whole, n_seeds=5).verdict == FAILS
    assert decide_rises([up, up], whole, n_seeds=1).verdict == HOLDS
    assert decide_rises([up, up], Figure(-0.1, -0.2, -0.05, 0.0), n_seeds=1).verdict == FAILS


def test_hdqn_is_held_to_its_own_condition() -> None:
    assert decide_hdqn(Measured(0.07, 0.05, 0.09)).verdict == UNTESTED
    assert decide_hdqn(Measured(-0.02, -0.03, -0.01)).verdict == HOLDS


def test_a_price_below_the_published_one_is_said_to_be_cheaper() -> None:
    found = decide_price(Measured(0.01, 0.005, 0.02), gap=0.02, today=0.08)
    assert (found.verdict, "cheaper" in found.reason) == (FAILS, True)


def test_dominance_needs_both_to_be_clear() -> None:
    more, less = Measured(0.1, 0.05, 0.15), Measured(-0.1, -0.15, -0.05)
    unsure = Measured(0.0, -0.1, 0.1)
    assert decide_dominated([(unsure, unsure), (more, less)]).verdict == HOLDS
    assert decide_dominated([(more, unsure)]).verdict == UNTESTED
    assert decide_dominated([(more, more), (less, less)]).verdict == FAILS
