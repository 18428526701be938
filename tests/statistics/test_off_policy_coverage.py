"""Off-policy intervals hold the truth as often as they say, and the check of it can fail."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.evaluation.toy_logs import TARGET, target_chances, true_value, write_toy_logs

from parity311.evaluation.off_policy.estimate import (
    ESTIMATORS,
    Evaluation,
    Options,
    ValueEstimate,
    evaluate_policy,
)
from parity311.evaluation.off_policy.validate import (
    SETTINGS,
    is_well_covered,
    judge,
    score_estimator,
    validate_setting,
)
from parity311.resampling import Intervals

pytestmark = pytest.mark.slow

N_LOGS, N_EPISODES, N_STEPS = 200, 250, 3


def _record(evaluation: Evaluation) -> dict:
    truth = true_value(TARGET, N_STEPS)
    values = np.array([truth, truth / 2])
    rows = [
        score_estimator(evaluation, name, values, ("overall", "quintile_1")) for name in ESTIMATORS
    ]
    return {"kind": "supported", "estimators": rows}


@pytest.fixture(scope="module")
def logs():
    return write_toy_logs(N_LOGS, N_EPISODES, N_STEPS, seed=831)


@pytest.fixture(scope="module")
def evaluation(logs) -> Evaluation:
    return evaluate_policy(logs, target_chances(logs))


def test_intervals_cover_where_support_holds(evaluation: Evaluation) -> None:
    record = _record(evaluation)
    assert judge(record) == "holds"
    for row in record["estimators"]:
        assert is_well_covered(row["coverage"]), row
        assert row["refused"] == 0.0
        assert abs(row["bias"]) < 0.25 * row["rmse"] + 1e-9, row


def test_intervals_half_as_wide_are_rejected(evaluation: Evaluation) -> None:
    narrow = {}
    for name, one in evaluation.estimates.items():
        value, lower, upper, error = one.intervals
        half = Intervals(value, (value + lower) / 2, (value + upper) / 2, error)
        narrow[name] = ValueEstimate(name, half, one.effective_size, one.is_refused)
    twin = Evaluation(narrow, evaluation.support, evaluation.options, evaluation.propensity)
    assert judge(_record(twin)).startswith("coverage outside the range")


def test_weights_without_the_propensity_are_rejected(logs) -> None:
    blind = Options(estimators=ESTIMATORS)
    from dataclasses import replace

    twin = replace(logs, propensity=np.full(logs.propensity.shape, 0.5))
    found = evaluate_policy(twin, target_chances(logs), blind)
    record = _record(found)
    assert judge(record) != "holds"
    rows = {row["estimator"]: row for row in record["estimators"]}
    assert rows["ordinary"]["coverage"] is None or not is_well_covered(rows["ordinary"]["coverage"])


def test_the_refusal_fires_in_every_log_without_support() -> None:
    setting = next(one for one in SETTINGS if one.name == "boiler, hardly ever inspected")
    record = validate_setting(setting, n_logs=20, n_truth=2000, seed=831)
    assert record["verdict"] == "holds"
    assert all(row["refused"] == 1.0 for row in record["estimators"])
    # A twin that answers anyway is seen.
    record["estimators"][0]["refused"] = 0.95
    assert judge(record).startswith("answered without support")


def test_bounds_hold_the_truth_at_the_true_gamma_and_not_without_it() -> None:
    setting = next(one for one in SETTINGS if one.kind == "confounded")
    record = validate_setting(setting, n_logs=20, n_truth=20_000, seed=831)
    assert record["bounds"]["at_true_gamma"] >= 0.9
    assert record["bounds"]["without"] <= 0.6
    assert record["verdict"] == "holds"
    record["bounds"]["at_true_gamma"] = record["bounds"]["without"]
    assert judge(record) == "the bounds miss the truth"
