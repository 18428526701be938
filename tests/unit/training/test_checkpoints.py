"""Interrupted and resumed is the same as never interrupted; what does not belong is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract.broken.twins import make_domain
from tests.faults.limits import room_for

from parity311.agents import agent_config, make_agent
from parity311.errors import RunError, TrainingError
from parity311.mdp.harness import Harness
from parity311.training import blocks, checkpoint
from parity311.training.checkpoint import Checkpoints
from parity311.training.loop import Trained, train_agents

pytestmark = pytest.mark.slow


HARNESS = Harness(make_domain())
AGENTS = {
    "dqn": {"hidden": (8,), "target_every": 20, "buffer_size": 100, "epsilon_steps": 40},
    "reinforce": {"hidden": (8,), "baseline_hidden": (8,), "episode_length": 5,
                  "updates_per_block": 4},
}  # fmt: skip
ONE = [[0.5, 0.0, 0.5, 0.0]]


class Interrupted(Exception):
    pass


def run(name: str = "dqn", harness: Harness = HARNESS, **options: Any) -> Trained:
    agent = make_agent(name, agent_config(name, AGENTS[name]))
    settings = {"preferences": ONE, "seeds": [0, 1], "steps": 80, **options}
    return train_agents(harness, harness.domain.play.example(), agent, **settings)


def stop_after(n_blocks: int) -> Any:
    heard: list[int] = []

    def progress(taken: int, total: int, figures: dict[str, float]) -> None:
        heard.append(taken)
        if len(heard) == n_blocks:
            raise Interrupted

    return progress


def interrupted(folder: Path, name: str = "dqn", n_blocks: int = 2) -> Checkpoints:
    with pytest.raises(Interrupted):
        run(name, checkpoints=Checkpoints(folder, every_s=0.0), progress=stop_after(n_blocks))
    return Checkpoints(folder, every_s=0.0, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_resuming_gives_what_an_uninterrupted_run_gives(name: str, tmp_path: Path) -> None:
    whole = run(name)
    resumed = run(name, checkpoints=interrupted(tmp_path, name))
    for key, values in whole.policies.items():
        np.testing.assert_array_equal(resumed.policies[key], values)
    np.testing.assert_array_equal(resumed.prices, whole.prices)
    assert [entry["steps"] for entry in resumed.curve] == [entry["steps"] for entry in whole.curve]
    for mine, other in zip(resumed.curve, whole.curve, strict=True):
        np.testing.assert_array_equal(mine["loss"], other["loss"])


def test_a_finished_training_is_read_not_repeated(tmp_path: Path) -> None:
    whole = run(checkpoints=Checkpoints(tmp_path))
    again = run(checkpoints=Checkpoints(tmp_path, resume=True), progress=stop_after(1))
    np.testing.assert_array_equal(again.policies["weight_0"], whole.policies["weight_0"])


def test_time_that_is_up_leaves_a_checkpoint(tmp_path: Path) -> None:
    part = run(checkpoints=Checkpoints(tmp_path), stop_after_s=0.0)
    assert not part.is_whole
    assert [entry["steps"] for entry in part.curve] == [20]
    rest = run(checkpoints=Checkpoints(tmp_path, resume=True))
    assert rest.is_whole
    np.testing.assert_array_equal(rest.policies["weight_0"], run().policies["weight_0"])


def test_a_folder_in_use_is_refused_without_resume(tmp_path: Path) -> None:
    interrupted(tmp_path)
    with pytest.raises(TrainingError, match="--resume"):
        run(checkpoints=Checkpoints(tmp_path))


def other_version(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(checkpoint, "__version__", "0.0.0")
    return {}


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("software_version", other_version),
        ("domain", lambda patch: {"harness": Harness(make_other())}),
        ("harness", lambda patch: {"harness": Harness(HARNESS.domain, equity_mode="potential")}),
        ("seeds", lambda patch: {"seeds": [0, 2]}),
        ("preferences", lambda patch: {"preferences": [[1.0, 0.0, 0.0, 0.0]]}),
        ("n_environments", lambda patch: {"n_environments": 2}),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(
    what: str, change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = interrupted(tmp_path)
    options = change(monkeypatch)
    with pytest.raises(TrainingError, match=what):
        run(checkpoints=kept, **options)


def make_other() -> Any:
    from dataclasses import replace

    return replace(make_domain(), slug="other")


def test_other_params_are_refused(tmp_path: Path) -> None:
    kept = interrupted(tmp_path)
    agent = make_agent("dqn", agent_config("dqn", AGENTS["dqn"]))
    params = HARNESS.domain.play.example()
    params = params._replace(worth=params.worth * 2)
    with pytest.raises(TrainingError, match="params"):
        train_agents(HARNESS, params, agent, ONE, [0, 1], 80, checkpoints=kept)


def test_a_full_disk_leaves_the_last_whole_checkpoint(tmp_path: Path) -> None:
    kept = interrupted(tmp_path)
    with room_for(kept.path.stat().st_size // 2), pytest.raises(RunError, match="disk is full"):
        run(checkpoints=kept)
    assert list(tmp_path.iterdir()) == [kept.path]
    resumed = run(checkpoints=kept)
    np.testing.assert_array_equal(resumed.policies["weight_0"], run().policies["weight_0"])


def test_a_changed_checkpoint_is_refused(tmp_path: Path) -> None:
    kept = interrupted(tmp_path)
    before = kept.path.read_bytes()
    for at in (9, 200, len(before) // 2, len(before) - 1):
        kept.path.write_bytes(before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])
        with pytest.raises(TrainingError, match="is no whole checkpoint") as caught:
            checkpoint.read_checkpoint(kept, {}, None)
        assert "delete" not in str(caught.value)


def test_a_cut_off_checkpoint_is_refused(tmp_path: Path) -> None:
    kept = interrupted(tmp_path)
    kept.path.write_bytes(kept.path.read_bytes()[:100])
    with pytest.raises(TrainingError, match="no whole checkpoint"):
        run(checkpoints=kept)


def test_nan_stops_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = interrupted(tmp_path)
    before = kept.path.read_bytes()
    real = blocks.read_checkpoint

    def poisoned(*arguments: Any) -> Any:
        """What was stored, with weights whose next loss is not a number."""
        restored = real(*arguments)
        assert restored is not None
        network = {name: x * np.nan for name, x in restored.carry.agent.network.items()}
        carry = restored.carry._replace(agent=restored.carry.agent._replace(network=network))
        return checkpoint.Restored(carry, restored.curve, restored.n_blocks)

    monkeypatch.setattr(blocks, "read_checkpoint", poisoned)
    with pytest.raises(TrainingError, match="after 60 steps.*last good checkpoint"):
        run(checkpoints=kept)
    assert kept.path.read_bytes() == before
