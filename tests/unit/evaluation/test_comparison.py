"""Paired evaluation, its figures and the comparison table."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from parity311.domains import boiler, get_domain
from parity311.engines import heuristics
from parity311.errors import InputError
from parity311.evaluation import metrics
from parity311.evaluation.compare import best_name, compare_policies
from parity311.evaluation.rollout import Contender, Episodes, evaluate
from parity311.mdp.contract import Tally
from parity311.mdp.harness import Harness
from parity311.training import train, with_equity

pytestmark = pytest.mark.slow


DOMAIN = get_domain("boiler")
HARNESS = Harness(DOMAIN, max_steps=200)


@pytest.mark.slow
def test_the_same_policy_twice_gives_the_same_and_order_does_not_matter() -> None:
    params = boiler.example()
    half = heuristics.at_random(np.array([0.5, 0.5]))
    rule = DOMAIN.heuristics["score"](params, HARNESS)
    keys = jax.random.split(jax.random.key(0), 8)
    contenders = [Contender("a", half), Contender("rule", rule), Contender("b", half)]
    episodes = evaluate(HARNESS, params, contenders, keys)
    np.testing.assert_array_equal(episodes.tally.visits[0], episodes.tally.visits[2])
    alone = evaluate(HARNESS, params, contenders[1:2], keys)
    np.testing.assert_array_equal(alone.tally.correct[0], episodes.tally.correct[1])


@pytest.mark.slow
def test_all_policies_meet_the_same_cases() -> None:
    params = boiler.example()
    keys = jax.random.split(jax.random.key(0), 4)
    contenders = [Contender("all", heuristics.always(1)), Contender("none", heuristics.always(0))]
    tally = evaluate(HARNESS, params, contenders, keys).tally
    np.testing.assert_array_equal(tally.complaints[0], tally.complaints[1])
    np.testing.assert_array_equal(tally.actionable[0], tally.actionable[1])
    np.testing.assert_array_equal(tally.correct[0], tally.reported_actionable[0])
    assert not tally.correct[1].any()


@pytest.mark.slow
def test_frozen_prices_do_not_move() -> None:
    params = boiler.example()
    prices = np.array([0.3, 0.1, 0.0, -0.1, -0.3, 0.0])
    policy = DOMAIN.heuristics["dual_threshold"](params, HARNESS)
    frozen = Contender("static", policy, prices, is_priced=True, price_step=0.0)
    moving = Contender("dual", policy, prices, is_priced=True)
    keys = jax.random.split(jax.random.key(0), 4)
    seen = evaluate(HARNESS, params, [frozen, moving], keys).mean_prices
    np.testing.assert_allclose(seen[0], np.broadcast_to(prices, seen[0].shape), atol=1e-5)
    assert not np.allclose(seen[1], seen[0])


def test_the_best_known_is_not_chosen_on_what_is_scored() -> None:
    """Among equals the best of the scored episodes is above the rest; a fresh trial is not."""
    rng = np.random.default_rng(0)
    equals = [Contender(f"rule_{i}", heuristics.always(0)) for i in range(12)]
    advantage = {"same": [], "fresh": []}
    for _ in range(30):
        trial, scored = (_noise_episodes(rng) for _ in range(2))
        means = scored.reward_means
        for kind, chosen_on in (("same", scored), ("fresh", trial)):
            name = best_name(equals, chosen_on.episodes, np.array([1.0, 0.0, 0.0, 0.0]))
            advantage[kind].append(means[int(name.split("_")[1])] - means.mean())
    assert np.mean(advantage["same"]) > 0.3
    assert abs(np.mean(advantage["fresh"])) < 0.15


class _Noise(NamedTuple):
    episodes: Any
    reward_means: np.ndarray


def _noise_episodes(rng: np.random.Generator) -> _Noise:
    """Twelve policies of equal worth over eight episodes."""
    reward = np.zeros((12, 8, 4))
    reward[..., 0] = rng.normal(size=(12, 8))
    none = np.zeros((12, 8, 6))
    hours, outcomes = np.zeros((12, 8)), np.zeros((12, 8, 1))
    tally = Tally(reward, none, none, none, none, none, none, none, hours, outcomes)  # type: ignore[arg-type]
    return _Noise(Episodes(tally, reward, none, hours, 1), reward[..., 0].mean(axis=1))  # type: ignore[arg-type]


def test_nothing_to_evaluate_is_refused() -> None:
    with pytest.raises(InputError, match="no policy"):
        evaluate(HARNESS, boiler.example(), [], jax.random.split(jax.random.key(0), 2))


def scores_with(correct: list[float], reward: np.ndarray | None = None) -> metrics.Scores:
    """Scores of 100 actionable incidents a stratum, the same in every sample."""
    shape = (21, 6)
    hundred = np.full(shape, 100.0)
    return metrics.Scores(
        reward=np.zeros(21) if reward is None else reward,
        vector=np.zeros((21, 4)),
        correct=np.broadcast_to(np.array(correct), shape).astype(float),
        actionable=hundred,
        reported=hundred,
        visits=hundred,
        complaints=hundred,
        hours=np.zeros(21),
    )


@pytest.mark.parametrize(
    ("after", "direction"),
    [
        ([40, 40, 40, 40, 40, 0], "levelling up"),
        ([20, 20, 20, 20, 20, 0], "levelling down"),
        ([30, 30, 30, 30, 30, 0], "both"),
        ([10, 30, 30, 30, 50, 0], "widened"),
        ([20, 30, 30, 30, 40, 0], "no clear change"),
    ],
)
def test_direction_of_a_closing_gap(after: list[float], direction: str) -> None:
    before = scores_with([20, 30, 30, 30, 40, 90])
    found = metrics.compare_with(scores_with(after), before, metrics.Resampled(5, n_resamples=20))
    assert found["direction"] == direction
    assert direction in metrics.DIRECTIONS


def test_gap_leaves_the_unknown_stratum_out() -> None:
    gap = metrics.gap_samples(scores_with([20, 30, 30, 30, 40, 99]).coverage)
    np.testing.assert_allclose(gap, 0.2)


def test_without_head_room_no_share_is_given() -> None:
    resampled = metrics.Resampled(5, n_resamples=20)
    noisy = np.random.default_rng(0).normal(size=21)
    noisy[0] = 0.1
    today, best = scores_with([1] * 6), scores_with([1] * 6, noisy)
    found = metrics.share_of_way(today, today, best, resampled)
    assert found["share_of_way"] is None
    clear = scores_with([1] * 6, np.full(21, 10.0))
    middle = scores_with([1] * 6, np.full(21, 5.0))
    assert metrics.share_of_way(middle, today, clear, resampled)["share_of_way"]["value"] == 0.5


def test_intervals_cover_the_truth() -> None:
    """A mean over 40 episodes lies in its 95 % interval about 95 times of 100."""
    rng = np.random.default_rng(1)
    n_inside = 0
    for seed in range(200):
        resampled = metrics.Resampled(40, seed=seed)
        figure = resampled.figure(resampled.total(rng.normal(3.0, 1.0, 40)) / 40)
        n_inside += figure.lower <= 3.0 <= figure.upper
    assert 0.89 <= n_inside / 200 <= 0.985


def test_a_small_table_widens_the_intervals() -> None:
    narrow = metrics.Resampled(40)
    wide = metrics.Resampled(40, n_drawn=4000, n_cases=500)
    values = np.random.default_rng(0).normal(size=40)
    errors = [r.figure(r.total(values)).error for r in (narrow, wide)]
    assert errors[1] == pytest.approx(3.0 * errors[0])


@pytest.mark.slow
def test_comparison_has_every_policy_and_is_plain() -> None:
    params = boiler.example()
    harness = Harness(DOMAIN, max_steps=100)
    base = DOMAIN.preference
    trained = train(DOMAIN, params, "dqn", [base, with_equity(base, 0.5)], [0], 500)
    records = compare_policies(
        harness, params, params, [trained], n_episodes=8, key=jax.random.key(0)
    )
    names = [record["policy"] for record in records]
    assert len(names) == len(set(names))
    assert {"balanced", "score", "dual_threshold", "static_thresholds", "dqn", "ceiling"} <= set(
        names
    )
    assert "dqn_equity_0.50" in names
    json.dumps(records)
    by_name: dict[str, Any] = {record["policy"]: record for record in records}
    assert by_name["dqn_equity_0.50"]["reference"] == "dqn"
    assert not by_name["always"]["is_within_capacity"]
    assert by_name["always"]["share_of_way"] is None
    assert by_name["ceiling"]["reward"]["value"] >= by_name["balanced"]["reward"]["value"]
    with pytest.raises(InputError, match="at least 2"):
        compare_policies(harness, params, params, n_episodes=1, key=jax.random.key(0))
