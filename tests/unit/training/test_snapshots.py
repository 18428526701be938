"""Policies kept on the way: where they are taken, that they are copies, and how one is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract.broken.twins import make_domain

from parity311.agents import agent_config, make_agent
from parity311.errors import TrainingError
from parity311.mdp.harness import Harness
from parity311.training.checkpoint import Checkpoints
from parity311.training.loop import Trained, snapshot_blocks, train_agents

pytestmark = pytest.mark.slow

HARNESS = Harness(make_domain())


def train(n_snapshots: int, **options: Any) -> Trained:
    settings = {"hidden": (8,), "target_every": 10, "buffer_size": 100}
    agent = make_agent("dqn", agent_config("dqn", settings))
    params = HARNESS.domain.play.example()
    weights = [[1.0, 0.0, 0.0, 0.0]]
    return train_agents(
        HARNESS, params, agent, weights, [0, 1], 80, n_snapshots=n_snapshots, **options
    )


def test_snapshots_spread_over_the_second_half_and_end_with_the_last() -> None:
    assert snapshot_blocks(20, 5) == {12, 14, 16, 18, 20}
    assert snapshot_blocks(1, 6) == {1}
    assert snapshot_blocks(20, 0) == set()


def test_snapshots_differ_and_the_last_is_the_policy() -> None:
    trained = train(4)
    first, last = trained.snapshots[0]["weight_0"], trained.snapshots[-1]["weight_0"]
    assert len(trained.snapshots) == 4
    np.testing.assert_array_equal(last, trained.policies["weight_0"])
    # The next block writes over the memory of the one before: a view would show the last weights.
    assert np.abs(first - last).max() > 0.0


def test_every_agent_gets_the_snapshot_chosen_for_it() -> None:
    trained = train(4)
    chosen = trained.at_snapshots([0, 3])
    np.testing.assert_array_equal(
        chosen.weights(0)["weight_0"], trained.snapshots[0]["weight_0"][0]
    )
    np.testing.assert_array_equal(chosen.weights(1)["weight_0"], trained.weights(1)["weight_0"])
    assert train(0).at_snapshots([0, 0]).n_agents == 2


def test_checkpoints_do_not_hold_snapshots(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="snapshots"):
        train(2, checkpoints=Checkpoints(tmp_path))
