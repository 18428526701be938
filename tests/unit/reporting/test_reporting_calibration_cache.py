"""Calibrations on disk: the same numbers come back, damaged files do not."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity311.reporting import calibration as calibration_cache
from parity311.reporting.calibration import (
    CacheInputs,
    Calibration,
    load_calibration,
    save_calibration,
)
from parity311.reporting.estimate import estimate
from parity311.reporting.lifetimes import exponential
from parity311.reporting.simulation import ReportingScenario, make_areas, simulate
from parity311.reporting.strata import stratify, total_by_stratum

OTHERS = {int: 77, dict: {"law": "fixed"}}
"""Another value of each kind of input."""


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    case = simulate(ReportingScenario(n_windows=2), make_areas(30, np.random.default_rng(0)), 1)
    found = estimate(case.table, case.areas, lifetime=exponential(14.0), n_draws=20)
    groups = stratify(case.areas)
    totals = total_by_stratum(found, groups, np.random.default_rng(0))
    return Calibration(
        domain="heat",
        estimator=found.estimator,
        strata=groups.names,
        stratum_of_area=groups.of_area,
        geoid=case.areas.geoid,
        denominators=totals.per_28_days,
        intervals=np.percentile(totals.draws_per_28_days, (5, 95), axis=0).T,
        draws=totals.draws_per_28_days,
        reported=totals.per_28_days,
        complaints=totals.per_28_days,
        households=np.ones(6),
        totals=totals,
        estimate=found,
        assumptions=found.assumption,
    )


def assert_same(one: Any, two: Any) -> None:
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(two, field.name)
        if is_dataclass(left):
            assert_same(left, right)
        elif isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)
        else:
            assert left == right, field.name


def test_what_is_kept_comes_back(calibration: Calibration, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kept.npz"
    save_calibration(path, "key", calibration)
    found = load_calibration(path, "key")
    assert found is not None
    assert_same(calibration, found)
    assert list(path.parent.iterdir()) == [path]


def test_another_key_or_a_damaged_file_is_no_result(
    calibration: Calibration, tmp_path: Path
) -> None:
    path = tmp_path / "kept.npz"
    assert load_calibration(path, "key") is None
    save_calibration(path, "key", calibration)
    assert load_calibration(path, "other") is None
    path.write_bytes(path.read_bytes()[:-200])
    assert load_calibration(path, "key") is None
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert load_calibration(path, "key") is None


def test_the_key_depends_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        "records": "a",
        "domain": "heat",
        "date_from": "2024-01-01",
        "date_to": "2025-01-01",
        "strata": "income5",
        "estimator": "exposure_rate",
        "lifetime": {"law": "exponential"},
        "n_draws": 200,
        "seed": 0,
    }
    keys = {CacheInputs(**given).key()}
    for name, value in given.items():
        other = OTHERS.get(type(value), "other")
        keys.add(CacheInputs(**{**given, name: other}).key())
    monkeypatch.setattr(calibration_cache, "hash_code", lambda: "other code")
    keys.add(CacheInputs(**given).key())
    assert len(keys) == len(given) + 2
