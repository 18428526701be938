"""The frontier command: what it refuses before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from parity311.cli import app
from parity311.errors import EstimationError, InputError
from parity311.pipelines.frontier import (
    FrontierConfig,
    check_config,
    command_for,
    flatten_point,
    run_frontier,
)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"domain": "boilr"}, "Did you mean 'boiler'"),
        ({"preferences": 1}, "at least 2 preferences"),
        ({"seeds": 0}, "1 seed"),
        ({"agent": "dqm"}, "Did you mean 'dqn'"),
        ({"agent": "bc"}, "agent of a frontier"),
    ],
)
def test_bad_requests_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_config(FrontierConfig(**{"domain": "boiler", "city": "x", **changes}))


def test_a_city_without_the_domain_is_refused(tiny_records: Path, tmp_path: Path) -> None:
    config = FrontierConfig(domain="boiler", city=str(tiny_records))
    with pytest.raises(EstimationError, match="no complaint of 'boiler'"):
        run_frontier(config, runs=tmp_path / "runs", progress=lambda *_: None)
    assert not (tmp_path / "runs").exists()


def test_the_command_trains_the_point_that_was_chosen() -> None:
    from datetime import date

    config = FrontierConfig(domain="boiler", city="cities/small", steps=500, seeds=2)
    said = command_for(config, np.array([0.4, 0.4, 0.2, 0.0]), date(2025, 1, 1))
    shown = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).output
    for word in said.split():
        if word.startswith("--"):
            assert word in shown, word
    assert "--until 2025-01-01" in said
    assert "--preference 0.4,0.4,0.2,0 " in said


def test_a_record_becomes_one_row() -> None:
    row = flatten_point(
        {
            "place": 1,
            "preference": {"speed": 0.5, "cost": 0.5},
            "gap": {"value": 0.1, "lower": 0.0, "upper": 0.2},
            "floor": None,
        }
    )
    assert row == {
        "place": 1, "weight_speed": 0.5, "weight_cost": 0.5, "gap": 0.1, "gap_lower": 0.0,
        "gap_upper": 0.2, "floor": None,
    }  # fmt: skip
