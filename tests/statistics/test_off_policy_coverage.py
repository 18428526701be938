"""Off-policy intervals hold the truth as often as they say, and the check of it can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.evaluation.toy_logs import (
    BEHAVIOUR,
    TARGET,
    blur,
    target_chances,
    true_value,
    write_toy_logs,
)

from parity311.evaluation.off_policy.estimate import (
    ESTIMATORS,
    MODELLED,
    Evaluation,
    Options,
    evaluate_policy,
)
from parity311.evaluation.off_policy.validate import (
    SETTINGS,
    WHOLE,
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
        # A model's interval holds another beside its own: it may cover more.
        assert is_well_covered(row["coverage"]) or row["estimator"] in MODELLED, row
        assert is_well_covered(row["coverage_unrefused"]), row
        assert row["refused"] == 0.0
        assert abs(row["bias"]) < 0.25 * row["rmse"] + 1e-9, row


def test_intervals_half_as_wide_are_rejected(evaluation: Evaluation) -> None:
    narrow = {}
    for name, one in evaluation.estimates.items():
        value, lower, upper, error = one.intervals
        half = Intervals(value, (value + lower) / 2, (value + upper) / 2, error)
        narrow[name] = replace(one, intervals=half, alone=half)
    twin = replace(evaluation, estimates=narrow)
    assert judge(_record(twin)).startswith("coverage outside the range")


def test_weights_without_the_propensity_are_rejected(logs) -> None:
    blind = Options(estimators=ESTIMATORS)
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


WHOLE_STEPS, NOISE = 87, 0.2
NEAR = 0.9 * BEHAVIOUR + 0.1 * TARGET
FAR = np.array([[0.1, 0.9], [0.1, 0.9]])
"""Leads to the second state far more often than the log: what is seen does not tell."""


def _whole_record(evaluation: Evaluation, policy: np.ndarray) -> dict:
    truth = true_value(blur(policy, NOISE), WHOLE_STEPS)
    values = np.array([truth, truth / 2])
    rows = [
        score_estimator(evaluation, name, values, ("overall", "quintile_1")) for name in ESTIMATORS
    ]
    return {"kind": WHOLE, "estimators": rows}


@pytest.fixture(scope="module")
def whole_logs():
    """Eighty-seven decisions an episode, about a state that is seen wrongly one time in five."""
    return write_toy_logs(30, 100, WHOLE_STEPS, seed=832, noise=NOISE)


def test_over_whole_episodes_every_estimator_covers_or_refuses(whole_logs) -> None:
    near = evaluate_policy(whole_logs, target_chances(whole_logs, NEAR))
    record = _whole_record(near, NEAR)
    assert judge(record) == "holds"
    rows = {row["estimator"]: row for row in record["estimators"]}
    assert rows["doubly_robust"]["refused"] == 0.0
    assert rows["fitted_q"]["refused"] == 0.0
    far = evaluate_policy(whole_logs, target_chances(whole_logs, FAR))
    assert judge(_whole_record(far, FAR)) == "holds"
    assert all(one.is_refused.all() for one in far.estimates.values())
    assert "of 87 decisions" in far.reason("doubly_robust")
    assert "to hold a model against" in far.reason("fitted_q")


def test_the_interval_of_a_model_holds_that_of_what_it_is_held_against(
    evaluation: Evaluation,
) -> None:
    check = evaluation.estimates["doubly_robust"].intervals
    for name in MODELLED:
        one = evaluation.estimates[name]
        assert (one.intervals.lower <= check.lower).all()
        assert (one.intervals.upper >= check.upper).all()
        np.testing.assert_array_equal(one.intervals.value, one.alone.value)
        assert (one.alone.lower > one.intervals.lower).any()


def test_a_twin_that_never_refuses_is_rejected(whole_logs) -> None:
    far = evaluate_policy(whole_logs, target_chances(whole_logs, FAR))
    answers = {
        name: replace(one, is_refused=np.zeros_like(one.is_refused), intervals=one.alone)
        for name, one in far.estimates.items()
    }
    told = judge(_whole_record(replace(far, estimates=answers), FAR))
    assert told.startswith("answered, and missed")
    for name in ("ordinary", "direct", "fitted_q"):
        assert name in told
