from pathlib import Path

import numpy as np
import pytest

from parity311.city.describe import NOT_APPLICABLE, NOT_MEASURED, cross_auc, describe_city, gini
from parity311.city.targets import all_targets
from parity311.records.store import read_manifest


@pytest.fixture(scope="module")
def described(small_city: Path) -> dict:
    return describe_city(small_city)


def test_rows_carry_target_tolerance_and_source(described: dict, small_city: Path) -> None:
    assert described["fingerprint"] == read_manifest(small_city)["fingerprint"]
    rows = described["calibration"]
    assert len(rows) >= 45
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert {"name", "target", "achieved", "tolerance", "ok", "source", "kind"} <= set(row)
        if row["ok"] is None:
            assert row["note"] in (NOT_APPLICABLE, NOT_MEASURED)


def test_nearly_all_targets_come_out_of_the_process() -> None:
    kinds = [target.kind for target in all_targets()]
    assert kinds.count("outcome") >= 30
    assert set(kinds) == {"outcome", "parameter"}


def test_targets_lie_within_their_own_tolerance() -> None:
    for target in all_targets():
        assert target.low <= target.value <= target.high, target.name


def test_heat_is_near_its_records_even_in_a_small_city(described: dict) -> None:
    rows = {row["name"]: row for row in described["calibration"]}
    for name in (
        "heat outcome: duplicate",
        "heat outcome: no_access",
        "closing days heat, p50",
        "heat at 10 o'clock",
        "boiler filings with a defect",
    ):
        assert rows[name]["ok"], rows[name]
    assert rows["visits per complaint"]["note"] == NOT_APPLICABLE
    assert rows["DOB complaints 2020"]["note"] == NOT_MEASURED


def test_gini_of_equal_and_of_one() -> None:
    assert gini(np.ones(1000)) == pytest.approx(0.0, abs=1e-9)
    assert gini(np.r_[np.full(999, 1e-9), 1.0]) == pytest.approx(0.999, abs=1e-3)


def test_auc_sees_a_signal_and_none() -> None:
    generator = np.random.default_rng(0)
    signal = generator.standard_normal((20_000, 1))
    label = generator.random(20_000) < 1 / (1 + np.exp(-2 * signal[:, 0]))
    assert cross_auc(signal, label) > 0.8
    assert abs(cross_auc(generator.standard_normal((20_000, 1)), label) - 0.5) < 0.03
