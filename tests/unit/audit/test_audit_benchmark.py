"""The benchmark prints what is promised, on a handful of simulated cities."""

from __future__ import annotations

from parity311.audit.benchmark import bench_audit
from parity311.audit.simulate import compare_rules


def test_the_figures_of_the_benchmark() -> None:
    found = bench_audit(n_trials=20)
    names = {"false_fail", "power", "pass_at_parity", "anytime_error", "coverage"}
    assert names <= set(found)
    assert all(0 <= found[name] <= 1 for name in names)
    assert {"power", "coverage"} <= set(found["design_effect_2"])
    assert found["power"] > found["design_effect_2"]["power"]


def test_both_rules_side_by_side() -> None:
    rows = compare_rules(n_trials=10)
    assert {row["true_gap"] for row in rows} == {0.0, 0.1}
    small = [row for row in rows if row["true_gap"] == 0 and row["n_per_stratum"] == 200]
    assert all(row["published_errs"] > row["ours_errs"] for row in small)
