"""The Shapley benchmark on a few rows: what it prints, and that both sides agree."""

from __future__ import annotations

import pytest

from parity311.bench.audit import bench_shapley

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_the_figures_of_the_benchmark() -> None:
    pytest.importorskip("shap", reason="shap is what the benchmark compares with")
    found = bench_shapley(n_rows=1)
    assert {"ratio", "max_abs_difference", "compile_seconds", "continuous"} <= set(found)
    assert found["max_abs_difference"] < 1e-6
    assert found["ratio_is_for"] == "continuous"
    assert found["continuous"]["floor_seconds"] > 0
