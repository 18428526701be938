"""The benchmark prints what is promised, on a handful of simulated cities."""

from __future__ import annotations

import pytest

from parity311.audit.simulate import compare_rules
from parity311.bench.audit import CITIES, bench_audit


@pytest.fixture(scope="module")
def found() -> dict:
    return bench_audit(n_trials=20)


@pytest.mark.slow
def test_the_figures_of_the_benchmark(found: dict) -> None:
    names = {"false_fail", "power", "pass_at_parity", "anytime_error", "coverage"}
    assert names <= set(found)
    assert all(0 <= found[name] <= 1 for name in names)
    assert {"power", "coverage"} <= set(found["design_effect_2"])
    assert found["power"] > found["design_effect_2"]["power"]


def test_all_three_shares_are_printed_and_silent_rows_named(found: dict) -> None:
    """At a rate of 0.05 two thousand cases never tell: no false alarm there proves nothing."""
    for part in (found, found["design_effect_2"]):
        assert set(part["shares"]) == set(CITIES)
        for shares in part["shares"].values():
            assert set(shares) == {"PASS", "FAIL", "INSUFFICIENT"}
            assert sum(shares.values()) == pytest.approx(1.0)
    assert "rare_few" in found["silent_rows"]


def test_false_alarms_are_measured_where_the_audit_speaks(found: dict) -> None:
    for name in ("pass_at_parity", "rare_false_fail", "even_false_fail"):
        assert found["shares"][name]["INSUFFICIENT"] < 0.5, name
        assert name not in found["silent_rows"]


def test_both_rules_side_by_side() -> None:
    rows = compare_rules(n_trials=10)
    assert {row["true_gap"] for row in rows} == {0.0, 0.1}
    small = [row for row in rows if row["true_gap"] == 0 and row["n_per_stratum"] == 200]
    assert all(row["published_errs"] > row["ours_errs"] for row in small)
    for row in rows:
        shares = (row["ours_passed"], row["ours_failed"], row["ours_insufficient"])
        assert sum(shares) == pytest.approx(1.0)
