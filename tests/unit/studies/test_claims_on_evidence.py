"""Every claim can be tested, and its verdict follows what the evidence says."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.unit.studies.made_up import MadeUpEvidence

from parity311.report.store import start_run
from parity311.studies.reproduction import published as paper
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.attribution import BOARD, board_of
from parity311.studies.reproduction.claims.claim import judge, judge_all
from parity311.studies.reproduction.claims.elevator import COLUMNS, POLICIES, rows_below, same_order
from parity311.studies.reproduction.claims.learning import champion_of
from parity311.studies.reproduction.evidence import Weights
from parity311.studies.reproduction.page import write_page
from parity311.studies.reproduction.reproduce import describe_jobs
from parity311.studies.reproduction.verdicts import (
    FAILS,
    FOLLOWS,
    HOLDS,
    NOT_CLAIMED,
    UNTESTED,
    VERDICTS,
)


def rows_for(effect: float) -> dict[str, dict[str, Any]]:
    evidence = cast(Any, MadeUpEvidence(effect))
    return {row["key"]: row for row in judge_all(all_claims(), evidence)}


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


@pytest.mark.parametrize("slug", ["heat", "housing", "snad", "boiler"])
def test_better_policies_are_called_better_and_worse_ones_not(
    slug: str, better: dict[str, Any], worse: dict[str, Any]
) -> None:
    for what in ("throughput", "mistakes"):
        one, other = (rows[f"{what}_{slug}"] for rows in (better, worse))
        assert one["verdict"] == other["verdict"] == NOT_CLAIMED
        assert one["reason"].endswith("yes here")
        assert other["reason"].endswith("not here")


def test_equal_agents_lead_nowhere(better: dict[str, Any]) -> None:
    assert better["lead_heat"]["verdict"] in (UNTESTED, FAILS)
    assert better["no_single_algorithm"]["verdict"] != HOLDS


def test_equity_follows_the_made_up_gaps(better: dict[str, Any], worse: dict[str, Any]) -> None:
    """Rules serve the rich better here, learned policies serve all alike."""
    assert better["parity_dqn_heat"]["verdict"] == HOLDS
    assert better["dominated_heat"]["verdict"] == HOLDS
    assert worse["dominated_heat"]["verdict"] == FAILS
    assert better["narrows_heat"]["verdict"] == FAILS
    assert better["remediation_heat"]["verdict"] == better["detection_heat"]["verdict"] == HOLDS
    assert worse["detection_heat"]["verdict"] == FAILS
    assert worse["remediation_heat"]["verdict"] == FAILS
    assert better["income_gradient_heat"]["verdict"] == HOLDS
    assert better["race_gradient_heat"]["verdict"] == HOLDS
    assert better["estimator_heat"]["verdict"] == FOLLOWS


def test_learned_policies_ahead_of_balanced_are_not_below_it(
    better: dict[str, Any], worse: dict[str, Any]
) -> None:
    """Ahead they cannot also stand where the table puts them: no two verdicts on one pair."""
    assert better["elevator_balanced"]["verdict"] == FAILS
    assert "DQN" in better["elevator_balanced"]["reason"]
    assert better["elevator_dqn"]["verdict"] != HOLDS
    assert "DQN" not in worse["elevator_balanced"]["reason"]
    assert worse["elevator_dqn"]["verdict"] == FAILS


class Weighing(MadeUpEvidence):
    """Evidence in which one board's features are the heaviest of REINFORCE's in every seed."""

    def __init__(self, board: str, *, is_there: bool = True) -> None:
        super().__init__()
        self.board, self.is_there = board, is_there

    def weights(self, scenario: str, domain: str, *labels: str) -> Weights:
        found = super().weights(scenario, domain, *labels)
        heavy = np.array([board_of(name) == self.board for name in found.names])
        named = np.array([board_of(name) == BOARD for name in found.names])
        seen = np.where(named & (not self.is_there), 0.0, found.seen)
        return Weights(found.names, found.values + 5.0 * heavy, seen)


@pytest.mark.parametrize(
    ("board", "is_there", "verdict"),
    [(BOARD, True, HOLDS), ("110", True, UNTESTED), ("110", False, UNTESTED)],
)
def test_only_the_named_board_counts(board: str, is_there: bool, verdict: str) -> None:
    """Another board on top is not the paper's; in a city without it nothing can be said."""
    claim = next(claim for claim in all_claims() if claim.key == "board")
    evidence = Weighing(board, is_there=is_there)
    evidence.rng = np.random.default_rng(3)
    assert judge(claim, cast(Any, evidence))["verdict"] == verdict


def test_the_order_of_the_table_is_judged_by_pairs() -> None:
    """The table's own cells come in its order; upside down none do; ties and blanks count not."""
    for column, place in COLUMNS.items():
        cells = {
            name: np.full(3, float(row[place] or 0.0))
            for name, row in paper.ELEVATOR_TABLE.items()
            if row[place] is not None
        }
        assert same_order(column, cells).tolist() == [1.0, 1.0, 1.0]
        assert same_order(column, {name: -x for name, x in cells.items()}).tolist() == [0.0] * 3
    assert "REINFORCE" not in rows_below("ACTIONABLE")
    assert rows_below("BALANCED")[0] == "TAIL"


def test_the_papers_dqn_in_elevator_has_its_penalty(better: dict[str, Any]) -> None:
    assert champion_of("elevator") == POLICIES["DQN"] == "cql"
    assert champion_of("heat") == "reinforce_20_episodes"
    assert champion_of("ert") == "dqn"
    assert "REINFORCE 20 EPISODES" in better["throughput_heat"]["definition"]


def test_gaps_lie_between_nothing_and_everything(better: dict[str, Any]) -> None:
    for key, row in better.items():
        if key.startswith("parity_") and row["interval"]:
            low, high = row["interval"]
            assert 0.0 <= low <= row["value"] <= high <= 1.0


def test_the_page_says_which_programme_was_run(better: dict[str, Any], tmp_path: Path) -> None:
    evidence = cast(Any, MadeUpEvidence(0.3))
    with start_run(tmp_path, "reproduce", {"preset": "small"}) as run:
        run.add_data("made-up", "0" * 64, is_synthetic=True, statement="Drawn at random.")
        write_page(run, evidence, list(better.values()), describe_jobs(evidence))
    page = " ".join(html.unescape((run.final_path / "report.html").read_text()).split())
    assert "The programme that was run is ours, not the paper's" in page
    assert "11 features (published 5); γ 0.95 (published 0.99)" in page
    assert "scored under the truth on days they have not learned from" in page
    assert "whole programme" not in page
    assert "follow from another and are not counted again" in page


def test_the_grid_rises_as_it_was_made_to(better: dict[str, Any]) -> None:
    assert better["grid_rises"]["verdict"] == HOLDS
    assert better["grid_high"]["verdict"] == HOLDS
