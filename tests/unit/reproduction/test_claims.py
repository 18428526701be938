"""The list of claims: complete, well-formed, and the paper's own figures judged as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from parity311.domains import all_domains
from parity311.evaluation.metrics import Figure
from parity311.reproduction import published as paper
from parity311.reproduction.claims import Claim, all_claims, check_keys, judge, percent
from parity311.reproduction.claims_arithmetic import (
    CLAIMS,
    agrees,
    fit_elevator_reward,
    reports_per_incident,
)
from parity311.reproduction.claims_equity import decide_dominated, decide_narrows
from parity311.reproduction.verdicts import (
    CONTRADICTS,
    FAILS,
    HOLDS,
    UNTESTED,
    VERDICTS,
    Measured,
)


class NoEvidence:
    """Stands for a reproduction of no domain: arithmetic claims need none."""

    domains = ()


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
    assert cards == set(all_domains())


@pytest.mark.parametrize(
    "key",
    [
        *(f"throughput_{slug}" for slug in all_domains()),
        *(f"mistakes_{slug}" for slug in all_domains()),
        *(f"elevator_{name.lower()}" for name in paper.ELEVATOR_TABLE),
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


def test_the_paper_contradicts_itself_where_its_figures_do() -> None:
    verdicts = judged(CLAIMS)
    contradictions = {key for key, verdict in verdicts.items() if verdict == CONTRADICTS}
    assert {
        "boiler_sum_dqn",
        "boiler_sum_reinforce",
        "boiler_split",
        "boiler_grid_against_table",
        "elevator_text_dqn",
        "elevator_text_balanced",
        "snad_actions",
        "domains",
        "propensity",
        "per_step_equity",
        "clipping",
    } <= contradictions
    fine = {"boiler_f1_dqn", "boiler_lead", "boiler_base_rate", "elevator_text_reinforce"}
    assert not fine & contradictions
    assert set(verdicts.values()) <= set(VERDICTS)


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
    fitted, worst = fit_elevator_reward()
    assert fitted[0] == pytest.approx(-1.0, abs=0.05)
    assert fitted[1] == pytest.approx(-2.0, abs=0.05)
    assert worst < 0.005


def test_more_reporting_means_more_reports_of_an_incident() -> None:
    assert reports_per_incident(0.2, 10.0) > reports_per_incident(0.1, 10.0) > 1.0


def test_the_interval_of_a_share_ends_at_nothing_and_everything() -> None:
    wide = Figure(0.9, 0.6, 1.2, 0.1)
    assert percent(wide, is_share=True).upper == 1.0
    assert percent(wide).words == "90.0 % (60.0 to 120.0)"


def test_narrows_but_does_not_close() -> None:
    left = Measured(0.12, 0.10, 0.14)
    assert decide_narrows(Measured(-0.05, -0.07, -0.03), left).verdict == HOLDS
    assert decide_narrows(Measured(0.05, 0.03, 0.07), left).verdict == FAILS
    closed = Measured(0.02, 0.01, 0.04)
    assert decide_narrows(Measured(-0.10, -0.12, -0.08), closed).verdict == FAILS
    assert decide_narrows(Measured(-0.01, -0.03, 0.01), left).verdict == UNTESTED


def test_dominance_needs_both_to_be_clear() -> None:
    more, less = Measured(0.1, 0.05, 0.15), Measured(-0.1, -0.15, -0.05)
    unsure = Measured(0.0, -0.1, 0.1)
    assert decide_dominated([(unsure, unsure), (more, less)]).verdict == HOLDS
    assert decide_dominated([(more, unsure)]).verdict == UNTESTED
    assert decide_dominated([(more, more), (less, less)]).verdict == FAILS
