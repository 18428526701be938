"""A training as a user asks for it: what is written, what is refused, and where it can run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tests.contract.broken.twins import make_domain
from tests.learning.test_offline_probes import HARNESS as LOGGED
from tests.learning.test_offline_probes import make_log

from parity311.agents.dqn import DQNConfig, make_dqn
from parity311.errors import InputError, TrainingError
from parity311.estimation.params_file import read_params, write_params
from parity311.mdp.harness import Harness
from parity311.serving.policy import load_policy
from parity311.training import agent_for, sweep
from parity311.training.train_run import parse_preference, parse_settings, run_training

pytestmark = pytest.mark.slow


SMALL = {"hidden": (8,), "target_every": 20, "buffer_size": 100}


@pytest.mark.slow
def test_a_training_writes_policies_that_load(tmp_path: Path) -> None:
    summary = run_training(
        make_domain(), "dqn", out=tmp_path, seeds=[0, 1], steps=40, settings=SMALL
    )
    assert summary["is_whole"]
    assert summary["policies"] == ["policy-0000", "policy-0001"]
    assert load_policy(tmp_path / "policy-0001").manifest["seed"] == 1
    assert (tmp_path / "training.json").exists()
    with pytest.raises(TrainingError, match="--resume"):
        run_training(make_domain(), "dqn", out=tmp_path, steps=40, settings=SMALL)


def test_cloning_learns_from_the_log(tmp_path: Path) -> None:
    summary = run_training(LOGGED.domain, "bc", out=tmp_path, decisions=make_log())
    policy = load_policy(tmp_path / summary["policies"][0])
    assert policy.decide(np.array([[-1.0, 0.0], [1.0, 0.0]])).tolist() == [0, 1]
    with pytest.raises(InputError, match="logged decisions"):
        run_training(LOGGED.domain, "bc", out=tmp_path / "other")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"agent": "dqm"}, InputError),
        ({"agent": "dqn", "settings": {"hiden": 3}}, InputError),
        ({"agent": "dqn", "preference": (0.5, 0.6, 0.0, 0.0)}, TrainingError),
    ],
)
def test_bad_requests_are_refused_before_training(
    options: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        run_training(make_domain(), **{"out": tmp_path, **options})
    assert not list(tmp_path.iterdir())


def test_texts_become_settings() -> None:
    assert parse_preference("") is None
    assert parse_preference("0.4,0.4,0.2,0") == (0.4, 0.4, 0.2, 0.0)
    assert parse_settings(["hidden=[8, 8]", "discount=0.5", "dtype=bfloat16"]) == {
        "hidden": (8, 8), "discount": 0.5, "dtype": "bfloat16",
    }  # fmt: skip
    with pytest.raises(InputError, match="four weights"):
        parse_preference("speed")
    with pytest.raises(InputError, match="name=value"):
        parse_settings(["discount"])


def test_every_agent_takes_the_domains_settings() -> None:
    harness = Harness(make_domain())
    assert agent_for(harness, "dqn", 100).config.epsilon_steps == 50
    assert agent_for(harness, "reinforce", 100).config.episode_length == 20
    assert agent_for(harness, "hdqn", 100).config.categories == (0, 1)
    assert agent_for(harness, "conditioned", 100).config.n_coverage_features == 1


def test_the_memory_estimate_counts_the_state() -> None:
    harness = Harness(make_domain())
    params = harness.domain.play.example()
    small, large = (
        sweep.bytes_per_agent(harness, params, make_dqn(DQNConfig(buffer_size=size)), 1)
        for size in (1000, 2000)
    )
    assert large - small == 1000 * (2 * 2 + 3) * 4 * (1 + sweep.WORK_SHARE)


def test_how_a_sweep_is_cut_does_not_depend_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(make_domain())
    params, agent = harness.domain.play.example(), make_dqn(DQNConfig(buffer_size=1000))
    each = sweep.bytes_per_agent(harness, params, agent, 1)
    monkeypatch.setattr(sweep, "free_memory", lambda: 1000 * each)
    assert sweep.plan_sweep(harness, params, agent, 64, 1).chunk == sweep.CPU_CHUNK
    monkeypatch.setattr(sweep, "free_memory", lambda: 17 * each)
    assert sweep.plan_sweep(harness, params, agent, 64, 1).chunk == sweep.CPU_CHUNK
    assert sweep.plan_sweep(harness, params, agent, 64, 1, chunk=3).chunk == 3
    monkeypatch.setattr(sweep, "free_memory", lambda: 12 * each)
    with pytest.raises(TrainingError, match="--chunk 6"):
        sweep.plan_sweep(harness, params, agent, 64, 1)
    monkeypatch.setattr(sweep, "free_memory", lambda: each)
    with pytest.raises(TrainingError, match="smaller buffer"):
        sweep.plan_sweep(harness, params, agent, 64, 1)


def test_params_travel_as_arrays(tmp_path: Path) -> None:
    params = make_domain().play.example()
    path = write_params(tmp_path / "params.safetensors", params)
    again = read_params(path, params)
    assert jax.tree.structure(again) == jax.tree.structure(params)
    assert again.worth.shape == params.worth.shape
    with pytest.raises(TrainingError, match="another domain"):
        read_params(path, {"other": params.worth})
