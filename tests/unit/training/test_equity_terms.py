"""Agents that are paid another equity term than the usual one: trained, told, and kept apart."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.training.test_sweep_sets import task_of

from parity311.agents.dqn import DQNConfig, make_dqn
from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.evaluation.compare import check_comparable
from parity311.jobs.choose import Workplace
from parity311.jobs.drive import Shard
from parity311.jobs.job import Job
from parity311.mdp.equity import MODES, PUBLISHED_TERM, USUAL_TERM, EquityTerm, term_of
from parity311.mdp.harness import Harness
from parity311.pipelines.frontier import FrontierConfig, command_for, run_frontier
from parity311.pipelines.run import RunConfig, run_pipeline
from parity311.serving.policy import load_policy
from parity311.training import sweep
from parity311.training.loop import identify
from parity311.training.saving import describe, state_reward
from parity311.training.train_run import run_training

SMALL = {"hidden": (8,), "target_every": 20, "buffer_size": 100}
PAID = (0.25, 0.25, 0.5, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_trains_and_says_what_was_paid(mode: str, tmp_path: Path) -> None:
    term = EquityTerm(mode, "variance", "all")
    summary = run_training(
        get_domain("boiler"), "dqn", out=tmp_path, preference=PAID, steps=40, settings=SMALL,
        term=term,
    )  # fmt: skip
    assert np.isfinite(summary["reward"]).all()
    policy = load_policy(tmp_path / "policy-0000")
    assert term_of(policy.manifest) == term
    harness = Harness(get_domain("boiler"), **vars(term))
    assert tuple(policy.observation_names) == harness.observation_names


def test_the_term_reaches_every_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Job] = []
    monkeypatch.setattr(Workplace, "run", lambda self, jobs, **_: asked.extend(jobs) or [])
    sweep.run_sweep(
        "snad", "dqn", np.array([PAID], np.float32), [0], 10, out=tmp_path,
        settings={"buffer_size": 64}, term=PUBLISHED_TERM, where=Workplace(shard=Shard(0, 2)),
    )  # fmt: skip
    assert EquityTerm(**asked[0].spec["term"]) == PUBLISHED_TERM

    def stop(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt(repr(options["term"]))

    monkeypatch.setattr("parity311.training.train", stop)
    with pytest.raises(KeyboardInterrupt, match="per_step"):
        sweep.train_chunk(task_of(asked[0], tmp_path))


def test_agents_of_another_term_are_refused(tmp_path: Path) -> None:
    domain = get_domain("snad")
    manifest = describe(Harness(domain, **vars(PUBLISHED_TERM)), "dqn", np.array(PAID), None)
    sweep.check_term(manifest, Harness(domain, **vars(PUBLISHED_TERM)), tmp_path)
    with pytest.raises(InputError, match="denominator all instead of actionable"):
        sweep.check_term(manifest, Harness(domain), tmp_path)
    # A manifest of before the term had four names.
    sweep.check_term({"equity_mode": "dual"}, Harness(domain), tmp_path)


def test_strata_of_race_need_records_and_are_said(tmp_path: Path) -> None:
    by_race = EquityTerm(strata="race5")
    with pytest.raises(InputError, match="train from records"):
        run_training(get_domain("snad"), "dqn", out=tmp_path / "a", term=by_race)
    with pytest.raises(InputError, match="train from records"):
        sweep.run_sweep("snad", "dqn", np.array([PAID]), [0], 1, out=tmp_path / "b", term=by_race)
    assert "Black and Hispanic share" in state_reward(np.array(PAID), "race5")
    assert "Black" not in state_reward(np.array(PAID))


def test_a_usual_training_is_identified_as_before() -> None:
    """Checkpoints that were begun before there were such terms go on."""
    domain, agent = get_domain("snad"), make_dqn(DQNConfig())
    weights, seeds = np.array([PAID]), np.array([0])
    shown = identify(Harness(domain), agent, weights, seeds)["harness"]
    assert not {"denominator", "strata"} & set(shown)
    other = identify(Harness(domain, denominator="all"), agent, weights, seeds)["harness"]
    assert other["denominator"] == "all"


def test_a_point_of_the_frontier_says_how_it_is_trained() -> None:
    told = [
        command_for(FrontierConfig("boiler", "c", term=term), np.array(PAID), date(2025, 1, 1))
        for term in (USUAL_TERM, EquityTerm(denominator="all", strata="race5"))
    ]
    assert "--denominator" not in told[0]
    assert told[1].endswith(" --denominator all --strata race5")


def test_rules_are_not_played_beside_agents_that_see_no_price(tmp_path: Path) -> None:
    config = FrontierConfig("boiler", "nowhere", term=PUBLISHED_TERM)
    with pytest.raises(InputError, match="'per_step' was asked for"):
        run_frontier(config, runs=tmp_path, progress=lambda *told: None)
    with pytest.raises(InputError, match="'per_step' was asked for"):
        run_pipeline(
            RunConfig(term=PUBLISHED_TERM), runs=tmp_path, cities=tmp_path,
            progress=lambda *told: None,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())
    check_comparable(EquityTerm(denominator="all", strata="race5"))
