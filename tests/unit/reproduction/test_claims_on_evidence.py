"""Every claim can be tested, and its verdict follows what the evidence says."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.reproduction.made_up import MadeUpEvidence

from parity311.reproduction.claims import all_claims, judge
from parity311.reproduction.verdicts import FAILS, HOLDS, UNTESTED, VERDICTS


def rows_for(effect: float) -> dict[str, dict[str, Any]]:
    evidence = cast(Any, MadeUpEvidence(effect))
    return {claim.key: judge(claim, evidence) for claim in all_claims()}


@pytest.fixture(scope="module")
def better() -> dict[str, dict[str, Any]]:
    """Learned policies are a third better than every rule."""
    return rows_for(0.3)


@pytest.fixture(scope="module")
def worse() -> dict[str, dict[str, Any]]:
    """The twin: they are worse."""
    return rows_for(-0.3)


def test_every_claim_gets_a_verdict_and_words(better: dict[str, dict[str, Any]]) -> None:
    for row in better.values():
        assert row["verdict"] in VERDICTS
        assert row["reason"]
        assert row["ours"]


def test_an_interval_stands_behind_every_verdict_on_data(better: dict[str, Any]) -> None:
    for row in better.values():
        if row["kind"] in ("sign", "bound", "magnitude") and row["verdict"] in (HOLDS, FAILS):
            assert row["interval"] is not None, row["key"]


@pytest.mark.parametrize("slug", ["heat", "elevator", "snad", "boiler"])
def test_better_policies_are_called_better_and_worse_ones_not(
    slug: str, better: dict[str, Any], worse: dict[str, Any]
) -> None:
    assert better[f"throughput_{slug}"]["verdict"] == HOLDS
    assert worse[f"throughput_{slug}"]["verdict"] == FAILS
    assert better[f"mistakes_{slug}"]["verdict"] == HOLDS
    assert worse[f"mistakes_{slug}"]["verdict"] == FAILS


def test_equal_agents_lead_nowhere(better: dict[str, Any]) -> None:
    assert better["lead_heat"]["verdict"] in (UNTESTED, FAILS)
    assert better["no_single_algorithm"]["verdict"] != HOLDS


def test_equity_follows_the_made_up_gaps(better: dict[str, Any], worse: dict[str, Any]) -> None:
    """Rules serve the rich better here, learned policies serve all alike."""
    assert better["parity_dqn_heat"]["verdict"] == HOLDS
    assert better["dominated_heat"]["verdict"] == HOLDS
    assert worse["dominated_heat"]["verdict"] == FAILS
    assert better["narrows_heat"]["verdict"] == FAILS
    assert better["income_gradient_heat"]["verdict"] == HOLDS
    assert better["race_gradient_heat"]["verdict"] == HOLDS
    assert better["estimator_heat"]["verdict"] == FAILS


def test_learned_policies_ahead_of_balanced_refute_that_they_stay_behind(
    better: dict[str, Any], worse: dict[str, Any]
) -> None:
    assert better["elevator_behind_dqn"]["verdict"] == FAILS
    assert worse["elevator_behind_dqn"]["verdict"] == HOLDS


def test_the_grid_rises_as_it_was_made_to(better: dict[str, Any]) -> None:
    assert better["grid_rises"]["verdict"] == HOLDS
    assert better["grid_high"]["verdict"] == HOLDS
