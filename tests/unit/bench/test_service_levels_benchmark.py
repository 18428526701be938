"""The benchmark of service levels sets both simulations of the same rules side by side."""

from __future__ import annotations

import pytest

from parity311.bench import service_levels
from parity311.bench.service_levels import bench_service_levels, made_up_setting

pytestmark = pytest.mark.slow


def test_both_count_the_same_and_the_compiled_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(n_days: int = 60, size: float = 0.1):
        return made_up_setting(min(n_days, 60), min(size, 0.1))

    monkeypatch.setattr(service_levels, "made_up_setting", short)
    found = bench_service_levels(8, 1)
    assert found["same_counts"]
    assert found["designs_per_second"] > 0
    assert set(found["core_seconds_a_design_by_days"]) == {365, 730, 1095}
