"""The benchmark of both ways to a frontier tells a worse one from an equal one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parity311.bench import frontier as frontier_benchmark
from parity311.resampling import mean_interval

POINTS = np.random.default_rng(0).random((16, 3)) * 0.5 + 0.5
RULES = {"never": np.zeros(3), "always": np.full(3, 0.2)}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compare agents that are nothing but their points."""
    monkeypatch.setattr(frontier_benchmark, "score_rules", lambda *_, **__: RULES)
    monkeypatch.setattr(frontier_benchmark, "score_trained", lambda part, *_, **__: part.points)
    monkeypatch.setattr(frontier_benchmark, "DOMAIN", SimpleNamespace(heuristics={}))

    def compare(*shifts: float) -> dict[str, Any]:
        mine = [SimpleNamespace(points=POINTS + shift) for shift in shifts]
        theirs = [SimpleNamespace(points=POINTS) for _ in shifts]
        return frontier_benchmark.compare_frontiers(None, mine, theirs)  # pyright: ignore

    return compare


def test_equal_frontiers_have_ratio_one_and_no_epsilon(compared: Any) -> None:
    found = compared(0.0, 0.0)
    assert found["hypervolume_ratio"] == pytest.approx(1.0)
    assert found["additive_epsilon"] == pytest.approx(0.0)
    assert found["reference"] == [0.0, 0.0, 0.0]


def test_a_worse_frontier_falls_below_the_bar(compared: Any) -> None:
    found = compared(-0.05, -0.055, -0.06)
    assert found["hypervolume_ratio"] < 0.9
    assert found["additive_epsilon"] == pytest.approx(0.055)
    assert found["hypervolume_ratio_interval"][1] < 0.99


def test_the_interval_of_a_mean_is_students() -> None:
    assert mean_interval([1.0]) is None
    low, high = mean_interval([1.0, 2.0, 3.0]) or (0.0, 0.0)
    # t(0.975, 2) = 4.303, sd 1, n 3
    assert high - low == pytest.approx(2 * 4.3027 / np.sqrt(3), rel=1e-4)
