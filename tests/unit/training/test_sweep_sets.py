"""Training and sweeps on other sets of features and actions than the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.jobs.test_jobs import contents

from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.jobs.choose import Workplace
from parity311.jobs.drive import Shard
from parity311.jobs.job import Job, Task
from parity311.mdp.harness import Harness
from parity311.training import sweep
from parity311.training.train_run import run_training

pytestmark = pytest.mark.slow


def test_a_sweep_hands_its_sets_to_every_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Job] = []
    monkeypatch.setattr(Workplace, "run", lambda self, jobs, **_: asked.extend(jobs) or [])
    weights = np.tile(np.float32([0.7, 0.3, 0.0, 0.0]), (2, 1))
    sweep.run_sweep(
        "snad", "dqn", weights, [0], 10, out=tmp_path, chunk=1,
        settings={"buffer_size": 64}, observation_set="published", action_set="extended",
        where=Workplace(shard=Shard(0, 2)),
    )  # fmt: skip
    assert len(asked) == 2
    assert {(job.spec["observation_set"], job.spec["action_set"]) for job in asked} == {
        ("published", "extended")
    }

    def refuse(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt(options["observation_set"] + " " + options["action_set"])

    monkeypatch.setattr("parity311.training.train", refuse)
    with pytest.raises(KeyboardInterrupt, match="published extended"):
        sweep.train_chunk(task_of(asked[0], tmp_path))


def task_of(job: Job, folder: Path) -> Task:
    """What a worker gives the function of a job."""
    inputs = {name: Path(one.path) for name, one in job.inputs.items()}
    return Task(dict(job.spec), inputs, folder / "out", folder / "kept")


def test_a_sweep_in_two_shards_is_the_sweep(tmp_path: Path) -> None:
    menu = np.array([[0.7, 0.3, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]], np.float32)

    def run(name: str, where: Workplace) -> dict[str, Any]:
        out = tmp_path / name / "sweep"
        return sweep.run_sweep(
            "snad", "td", menu, [0], 20, out=out, chunk=1, where=where, resume=out.exists()
        )

    left = [run("shards", Workplace(shard=Shard(n, 2), n_workers=1)) for n in range(2)]
    assert left[1]["jobs_left"] == 0
    whole = run("whole", Workplace(n_workers=1))
    assert contents(tmp_path / "shards") == contents(tmp_path / "whole")
    # What is finished is not done again: the same command finds everything there.
    assert run("whole", Workplace(n_workers=1))["policies"] == whole["policies"]
    harness = Harness(get_domain("snad"))
    params = harness.domain.play.example()
    found, trained = sweep.read_sweep(tmp_path / "whole" / "sweep", harness, params)
    np.testing.assert_allclose(found, menu)
    assert trained.preferences.shape == (2, 4)


def test_an_unknown_action_set_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="action set"):
        run_training(get_domain("snad"), "dqn", out=tmp_path, action_set="all")
