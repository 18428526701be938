"""Training and sweeps on other sets of features and actions than the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.training import sweep
from parity311.training.train_run import run_training

pytestmark = pytest.mark.slow


def test_a_sweep_hands_its_sets_to_every_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def note(jobs: list[dict[str, Any]], n_workers: int, progress: Any) -> list[dict[str, Any]]:
        asked.extend(jobs)
        return []

    monkeypatch.setattr(sweep, "_run_jobs", note)
    weights = np.tile(np.float32([0.7, 0.3, 0.0, 0.0]), (2, 1))
    sweep.run_sweep(
        "snad", "dqn", weights, [0], 10, out=tmp_path, chunk=1,
        settings={"buffer_size": 64}, observation_set="published", action_set="extended",
    )  # fmt: skip
    assert len(asked) == 2
    assert {(job["observation_set"], job["action_set"]) for job in asked} == {
        ("published", "extended")
    }

    def refuse(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt(options["observation_set"] + " " + options["action_set"])

    monkeypatch.setattr("parity311.training.train", refuse)
    with pytest.raises(KeyboardInterrupt, match="published extended"):
        sweep.train_chunk(asked[0])


def test_an_unknown_action_set_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="action set"):
        run_training(get_domain("snad"), "dqn", out=tmp_path, action_set="all")
