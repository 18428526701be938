"""The harness owns time, the reset, and what outlives an episode."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.contract.broken.twins import make_domain, transition

from parity311.errors import InputError
from parity311.mdp.contract import COVERAGE_FEATURE
from parity311.mdp.harness import Harness


def _ends_at_three(key, params, state, action, prices):
    moved = transition(key, params, state, action, prices)
    return moved._replace(terminated=moved.state.n_steps >= 3)


def play(harness: Harness, n_steps: int):
    params = harness.domain.play.example()
    equity = harness.equity_params(params)
    running, observation = harness.reset(jax.random.key(0), params, equity)
    steps = []
    for index in range(n_steps):
        key = jax.random.fold_in(jax.random.key(1), index)
        step = harness.step(key, params, equity, running, jnp.int32(1))
        steps.append((observation, step))
        running, observation = step.running, step.observation
    return steps


@pytest.mark.slow
def test_time_truncates_and_does_not_terminate() -> None:
    steps = play(Harness(make_domain(), max_steps=4), 9)
    assert [bool(step.truncated) for _, step in steps] == [i in (3, 7) for i in range(9)]
    assert not any(bool(step.terminated) for _, step in steps)


def test_an_end_of_the_process_terminates_and_does_not_truncate() -> None:
    steps = play(Harness(make_domain(transition=_ends_at_three), max_steps=3), 4)
    assert bool(steps[2][1].terminated)
    assert not bool(steps[2][1].truncated)


def test_final_observation_is_before_the_reset() -> None:
    _, last = play(Harness(make_domain(), max_steps=4), 4)[3]
    assert int(last.running.n_steps) == 0
    assert int(last.running.state.n_steps) == 0
    assert not np.allclose(last.final_observation, last.observation)
    _, inside = play(Harness(make_domain(), max_steps=4), 2)[1]
    np.testing.assert_allclose(inside.final_observation, inside.observation)


def test_prices_outlive_an_episode() -> None:
    harness = Harness(make_domain(), max_steps=2)
    params = harness.domain.play.example()
    equity = harness.equity_params(params)
    prices = jnp.float32([0.4, 0.1, 0.0, -0.1, -0.4, 0.0])
    running, observation = harness.reset(jax.random.key(0), params, equity, prices)
    assert float(observation[-1]) == pytest.approx(0.8)
    for index in range(3):
        step = harness.step(jax.random.key(index), params, equity, running, jnp.int32(0))
        running = step.running
    np.testing.assert_allclose(running.equity.prices, prices, atol=1e-6)


@pytest.mark.parametrize("is_visible", [0.0, 1.0])
def test_prices_are_in_force_only_where_coverage_has_a_weight(is_visible: float) -> None:
    def pays_by_price(key, params, state, action, prices):
        moved = transition(key, params, state, action, prices)
        return moved._replace(reward=moved.reward.at[0].set(prices[0]))

    harness = Harness(make_domain(transition=pays_by_price))
    params = harness.domain.play.example()
    equity = harness.equity_params(params, is_visible=is_visible)
    prices = jnp.float32([0.4, 0.1, 0.0, -0.1, -0.4, 0.0])
    running, _ = harness.reset(jax.random.key(0), params, equity, prices)
    step = harness.step(jax.random.key(1), params, equity, running, jnp.int32(0))
    assert float(step.reward[0]) == pytest.approx(0.4 * is_visible)


def test_coverage_feature_is_last() -> None:
    assert Harness(make_domain()).observation_names == ("level", COVERAGE_FEATURE)


def test_unknown_observation_set_is_named() -> None:
    with pytest.raises(InputError, match="published"):
        _ = Harness(make_domain(), observation_set="publishd").n_features


def test_domain_without_decision_process_says_so() -> None:
    with pytest.raises(InputError, match="no decision process"):
        _ = replace(make_domain(), dynamics=None).play
