"""Off-policy estimators: exact where an exact answer exists, and refusing where none can."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.evaluation.toy_logs import (
    BEHAVIOUR,
    TARGET,
    target_chances,
    true_value,
    write_toy_logs,
)

from parity311.errors import InputError, RecordsError
from parity311.evaluation.off_policy import weights
from parity311.evaluation.off_policy.cells import Binning, bin_edges, choose_cells
from parity311.evaluation.off_policy.estimate import ESTIMATORS, Options, evaluate_policy
from parity311.evaluation.off_policy.fitted_q import fitted_q, make_basis
from parity311.evaluation.off_policy.logs import read_log
from parity311.evaluation.off_policy.policies import action_chances
from parity311.evaluation.off_policy.propensity import (
    account_for_estimation,
    estimate_propensities,
)
from parity311.evaluation.off_policy.rosenbaum import bound_value, overturning_gamma
from parity311.evaluation.off_policy.support import hold_to_support
from parity311.evaluation.off_policy.validate import WHOLE, judge, share_interval
from parity311.resampling import studentised

pytestmark = pytest.mark.slow


def test_importance_sampling_by_hand() -> None:
    logs = write_toy_logs(1, 2, 2)
    logs = replace(
        logs,
        action=np.array([[[0, 1], [1, 1]]]),
        propensity=np.array([[[0.5, 0.4], [0.5, 0.8]]]),
        outcome=np.array([[[[1.0], [2.0]], [[3.0], [4.0]]]]),
    )
    target = np.array([[[[0.5, 0.5], [0.2, 0.8]], [[0.75, 0.25], [0.6, 0.4]]]])
    cumulative = weights.cumulative_weights(weights.decision_ratios(logs, target, logs.propensity))
    np.testing.assert_allclose(cumulative, [[[1.0, 2.0], [0.5, 0.25]]])
    gamma = 0.5
    np.testing.assert_allclose(
        weights.ordinary(logs, cumulative, gamma)[0, :, 0], [2.0 * 2.0, 0.25 * 5.0]
    )
    np.testing.assert_allclose(
        weights.per_decision(logs, cumulative, gamma)[0, :, 0], [1.0 + 2.0, 1.5 + 0.5]
    )
    whole = weights.self_normalised(logs, cumulative, gamma)[0, :, 0].mean()
    assert whole == pytest.approx((2.0 * 2.0 + 0.25 * 5.0) / 2.25)
    steps = weights.self_normalised_per_decision(logs, cumulative, gamma)[0, :, 0].mean()
    assert steps == pytest.approx((1.0 + 1.5) / 1.5 + gamma * (2 * 2.0 + 0.25 * 4.0) / 2.25)


def test_effective_size_counts_equal_weights_and_sees_one_that_dwarfs_the_rest() -> None:
    assert weights.effective_size(np.ones(40)) == pytest.approx(40.0)
    assert weights.effective_size(np.array([1e6, 1.0, 1.0])) == pytest.approx(1.0, rel=1e-3)
    assert weights.effective_size(np.zeros(5)) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_every_estimator_finds_the_value_of_a_large_log(discount: float) -> None:
    logs = write_toy_logs(1, 15_000, 3, seed=4)
    found = evaluate_policy(logs, target_chances(logs), Options(discount=discount))
    truth = true_value(TARGET, 3, discount)
    assert abs(truth - true_value(BEHAVIOUR, 3, discount)) > 0.3
    for name in ESTIMATORS:
        one = found.estimates[name].intervals
        assert one.value[0, 0] == pytest.approx(truth, abs=4 * one.error[0, 0]), name
        assert one.value[0, 1] == pytest.approx(truth / 2, abs=4 * one.error[0, 1]), name
        assert not found.estimates[name].is_refused.any()


def test_propensities_that_were_not_logged_are_estimated_and_asked_for() -> None:
    logs = write_toy_logs(1, 20_000, 2, seed=5)
    blind = replace(logs, propensity=np.full(logs.propensity.shape, np.nan))
    with pytest.raises(InputError, match="--propensities logistic"):
        evaluate_policy(blind, target_chances(logs))
    cells = Binning((0,), (np.array([0.5]),))
    for method in ("logistic", "tabular"):
        guessed = estimate_propensities(blind, method, cells).of_actions(blind)
        np.testing.assert_allclose(guessed, logs.propensity, atol=0.03)
    scores = estimate_propensities(blind, "logistic").scores
    target = target_chances(logs)
    ratios = weights.decision_ratios(logs, target, logs.propensity)
    values = weights.ordinary(logs, weights.cumulative_weights(ratios), 1.0)
    adjusted = account_for_estimation(values, scores)
    np.testing.assert_allclose(adjusted.mean(axis=1), values.mean(axis=1))
    assert adjusted.std() < values.std()


def test_fitted_values_are_told_by_their_episodes() -> None:
    logs = write_toy_logs(3, 300, 4, seed=6)
    target = target_chances(logs)
    values, size = fitted_q(logs, make_basis(logs.observation), target, 1.0)
    truth = true_value(TARGET, 4)
    error = values.std(axis=1)[:, 0] / np.sqrt(300)
    assert (np.abs(values.mean(axis=1)[:, 0] - truth) < 4 * error).all()
    assert (size > 100).all()
    assert (size < 300 * 4).all()


def test_an_action_that_was_never_taken_is_refused_and_can_be_held_back() -> None:
    never = np.array([[1.0, 0.0], [0.5, 0.5]])
    logs = write_toy_logs(4, 400, 2, behaviour=never, seed=7)
    target = target_chances(logs)
    found = evaluate_policy(logs, target)
    assert found.support.is_refused.all()
    assert all(found.estimates[name].is_refused.all() for name in ESTIMATORS)
    assert "%" in found.reason("ordinary")
    cells = Binning((0,), (np.array([0.5]),))
    held = hold_to_support(logs, cells, target)
    assert (held[logs.observation[..., 0] == 0][:, 1] == 0.0).all()
    np.testing.assert_allclose(held.sum(axis=-1), 1.0)
    assert not evaluate_policy(logs, held).support.is_refused.any()


def test_missing_mass_is_seen_where_cells_are_blind() -> None:
    never = np.array([[1.0, 0.0], [0.5, 0.5]])
    logs = write_toy_logs(1, 2000, 1, behaviour=never, seed=8)
    one_cell = Binning((), ())
    found = evaluate_policy(logs, target_chances(logs), cells=one_cell)
    assert not found.support.lacks_counts.any()
    assert found.support.lacks_mass.all()
    assert "does not take" in found.support.reason()


def test_few_effective_episodes_are_refused() -> None:
    logs = write_toy_logs(1, 300, 12, seed=9)
    found = evaluate_policy(logs, target_chances(logs, np.array([[0.02, 0.98], [0.98, 0.02]])))
    assert found.estimates["ordinary"].is_refused.all()
    assert "effective episodes" in found.reason("ordinary")
    assert "to hold a model against" in found.reason("fitted_q")
    alone = evaluate_policy(
        logs, target_chances(logs, BEHAVIOUR), Options(estimators=("fitted_q",), min_effective=301)
    )
    assert "301 are needed" in alone.reason("fitted_q")
    assert list(alone.estimates) == ["fitted_q"]


def test_a_few_weights_that_make_all_of_the_spread_are_refused() -> None:
    logs = write_toy_logs(1, 200, 87, seed=10)
    near = target_chances(logs, 0.8 * BEHAVIOUR + 0.2 * TARGET)
    told = evaluate_policy(logs, near)
    assert told.n_effective[0, 0] >= told.options.min_effective
    assert told.estimates["ordinary"].is_refused.all()
    assert "whose spread rests on" in told.reason("ordinary")
    assert "at least 20 are needed" in told.reason("ordinary")
    alike = evaluate_policy(logs, target_chances(logs, BEHAVIOUR))
    np.testing.assert_allclose(alike.n_spread, alike.n_effective)
    assert alike.n_answerable[0] == 87


@pytest.mark.parametrize(
    ("n_hits", "n", "holds"), [(47, 57, False), (84, 96, False), (88, 96, True), (0, 0, True)]
)
def test_what_is_answered_must_be_able_to_be_what_it_says(n_hits: int, n: int, holds: bool) -> None:
    """By hand: 47 of 57 and 84 of 96 answers cannot be 95 %, though the first could be 90."""
    rows = [
        {"estimator": name, "coverage_interval": share_interval(n_hits, n)} for name in ESTIMATORS
    ]
    assert (judge({"kind": WHOLE, "estimators": rows}) == "holds") == holds


def test_bounds_are_the_extremes_over_all_allowed_weights() -> None:
    logs = write_toy_logs(1, 9, 1, seed=10)
    logs = replace(logs, outcome=logs.outcome[..., :1])
    target, gamma = target_chances(logs), 2.0
    found = bound_value(logs, target, logs.propensity, gamma, n_resamples=9)
    odds = 1.0 / logs.propensity[0, :, 0] - 1.0
    ends = np.stack([1.0 + odds / gamma, 1.0 + odds * gamma])
    action, outcome = logs.action[0, :, 0], logs.outcome[0, :, 0, 0]
    total = {min: 0.0, max: 0.0}
    for a in (0, 1):
        rows = np.flatnonzero(action == a)
        values = []
        for choice in product((0, 1), repeat=len(rows)):
            weight = ends[list(choice), rows] * target[0, rows, 0, a]
            values.append((weight * outcome[rows]).sum() / weight.sum())
        for best in total:
            total[best] += target[0, :, 0, a].mean() * best(values)
    assert found.lowest[0] == pytest.approx(total[min])
    assert found.highest[0] == pytest.approx(total[max])


def test_a_stronger_hidden_reason_widens_bounds_until_it_overturns_the_result() -> None:
    logs = write_toy_logs(1, 1500, 1, seed=11)
    target = target_chances(logs)
    widths = [
        np.ptp(bound_value(logs, target, logs.propensity, gamma)[3:], axis=0)[0]
        for gamma in (1.0, 1.5, 3.0)
    ]
    assert widths == sorted(widths)
    gamma = overturning_gamma(logs, target, logs.propensity)
    assert 1.0 < gamma < 20.0
    just_below = bound_value(logs, target, logs.propensity, gamma - 0.05, less_logged=True)
    assert just_below.lower[0] > 0.0
    with pytest.raises(InputError, match="at least 1"):
        bound_value(logs, target, logs.propensity, 0.5)
    with pytest.raises(InputError, match="one decision an episode"):
        bound_value(write_toy_logs(1, 30, 2), target, logs.propensity, 1.0)


def test_cells_take_the_feature_that_matters_and_few_values_apart() -> None:
    rng = np.random.default_rng(0)
    seen = rng.random((4000, 3))
    seen[:, 1] = rng.integers(0, 3, 4000) / 2
    action = (seen[:, 1] > 0.2).astype(int) ^ (rng.random(4000) < 0.2)
    cells = choose_cells(seen, (action, action), n_actions=2, min_count=20)
    assert cells.columns[0] == 1
    np.testing.assert_allclose(bin_edges(seen[:, 1], 4), [0.25, 0.75])
    assert cells.place(seen).max() < cells.n_cells


def test_an_interval_of_what_never_varies_is_a_point() -> None:
    found = studentised(np.full((1, 50, 1), 2.5))
    assert found.lower[0, 0] == found.upper[0, 0] == 2.5


def test_options_say_what_is_allowed() -> None:
    with pytest.raises(InputError, match="doubly_robust"):
        Options(estimators=("double_robust",))
    with pytest.raises(InputError, match="discount"):
        Options(discount=1.5)
    with pytest.raises(InputError, match="support_min_count"):
        Options(support_min_count=0)
    logs = write_toy_logs(1, 30, 1)
    with pytest.raises(InputError, match="one chance a decision"):
        evaluate_policy(logs, np.ones((1, 30, 2)))


@pytest.fixture(scope="module")
def boiler_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    """A setting, what was logged in it, and the file."""
    from parity311.adapters.datasets import log_decisions, write_parquet
    from parity311.adapters.setting import make_setting

    setting = make_setting("boiler", max_steps=3)
    rule = setting.harness.domain.heuristics["balanced"](setting.params, setting.harness)
    logged = log_decisions(setting, rule, n_episodes=900, epsilon=0.5)
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    return setting, logged, write_parquet(logged, setting.harness.observation_names, path)


@pytest.mark.slow
def test_a_log_is_read_back_as_it_was_written(
    boiler_log: tuple[Any, Any, Path], tmp_path: Path
) -> None:
    from parity311.adapters.datasets import write_parquet

    setting, logged, path = boiler_log
    log, names = read_log(path, setting.preference)
    assert names == setting.harness.observation_names
    np.testing.assert_allclose(log.observation[0], logged.observation, atol=1e-6)
    np.testing.assert_allclose(log.propensity[0], logged.propensity, atol=1e-6)
    reward = logged.reward @ setting.preference
    np.testing.assert_allclose(log.outcome[0, ..., 0], reward, atol=1e-6)
    np.testing.assert_allclose(log.outcome[0, ..., 1:].sum(axis=-1), reward, atol=1e-6)
    broken = logged._replace(propensity=logged.propensity * 0.0)
    path = write_parquet(broken, names, tmp_path / "broken.parquet")
    with pytest.raises(InputError, match="above 0"):
        read_log(path, setting.preference)
    with pytest.raises(RecordsError, match="Cannot read the log"):
        read_log(tmp_path / "nothing.parquet", setting.preference)


def test_a_rule_that_draws_lots_logs_its_own_chance(boiler_log: tuple[Any, Any, Path]) -> None:
    setting, logged, _ = boiler_log
    rule = setting.harness.domain.heuristics["balanced"](setting.params, setting.harness)
    own = action_chances(rule, logged.observation, 2)
    assert ((own > 0.01) & (own < 0.99)).any()
    taken = np.take_along_axis(own, logged.action[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(logged.propensity, 0.25 + 0.5 * taken, atol=1e-5)


def test_the_backtest_of_a_log_tells_values_and_refusals(
    boiler_log: tuple[Any, Any, Path],
) -> None:
    import json

    from typer.testing import CliRunner

    from parity311.cli import app

    path = boiler_log[2]
    arguments = ["backtest", "boiler", "--records", str(path), "--policy", "balanced"]
    printed = CliRunner().invoke(app, [*arguments, "--policy", "always", "--json"])
    assert printed.exit_code == 0, printed.output
    told = json.loads(printed.stdout)
    assert told["propensities"] == "logged"
    near, far = told["policies"]
    best = {row["estimator"]: row for row in near["estimators"]}["doubly_robust"]
    assert best["lower"] < best["value"] < best["upper"]
    assert set(best["by_outcome"]) == {*(f"quintile_{i}" for i in range(1, 6)), "unknown"}
    assert best["by_outcome"]["unknown"]["value"] is None
    assert far["policy"] == "always"
    text = CliRunner().invoke(app, arguments)
    assert "effective size" in text.output
    wrong = CliRunner().invoke(app, ["backtest", "snad", "--records", str(path)])
    assert isinstance(wrong.exception, InputError)


def test_a_policy_that_sees_other_features_is_refused(
    boiler_log: tuple[Any, Any, Path], tmp_path: Path
) -> None:
    """Trained with the seven published features; the log has the five that are known in time."""
    from typer.testing import CliRunner

    from parity311.cli import app

    given = ["train", "boiler", "--example", "--agent", "td", "--features", "published"]
    tiny = ["--steps", "8", "--set", "n_rows=64", "--set", "batch_size=4"]
    folder = tmp_path / "policies"
    made = CliRunner().invoke(app, [*given, *tiny, "--out", str(folder)])
    assert made.exception is None, made.exception
    policy = next(path.parent for path in folder.rglob("policy.json"))
    arguments = ["backtest", "boiler", "--records", str(boiler_log[2]), "--policy", str(policy)]
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, InputError)
    said = str(found.exception)
    assert "has_lff_45" in said
    assert "leave it out" in said
    assert "\n" not in said
