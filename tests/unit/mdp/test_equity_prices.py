"""The equity term: prices as described, counters, and what takes no part."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from parity311.errors import InputError
from parity311.mdp.equity import (
    coverage_gap,
    equity_params,
    get_mode,
    hear_complaints,
    initial_equity,
    need_now,
    relative_need_weights,
    rolling_coverage,
)

DUAL = get_mode("dual")
NEED = jnp.float32([2.0, 1.0, 1.0, 1.0, 0.5, 3.0])


def test_price_moves_as_described() -> None:
    params = equity_params(NEED, step_size=0.1)
    correct = jnp.float32([0, 0, 0, 0, 1, 0])
    moved = DUAL.update(params, initial_equity(params), correct)
    mean_need = 5.5 / 5
    served = np.array([0, 0, 0, 0, mean_need / 0.5])
    expected = 0.1 * (served.mean() - served)
    np.testing.assert_allclose(moved.prices[:5], expected - expected.mean(), rtol=1e-5)
    assert moved.prices[5] == 0.0


def test_prices_are_centred_and_capped() -> None:
    params = equity_params(jnp.ones(6), step_size=5.0)
    state = initial_equity(params)
    for _ in range(5):
        state = DUAL.update(params, state, jnp.float32([3, 0, 0, 0, 0, 0]))
    assert float(jnp.abs(state.prices).max()) == pytest.approx(1.5)
    one = DUAL.update(params._replace(step_size=jnp.float32(0.1)), initial_equity(params), NEED)
    assert float(one.prices[:5].sum()) == pytest.approx(0.0, abs=1e-6)


def test_unknown_stratum_earns_nothing_and_moves_nothing() -> None:
    params = equity_params(NEED)
    state = initial_equity(params, jnp.float32([0.5, 0.1, -0.1, -0.2, -0.3, 0.0]))
    unknown = jnp.float32([0, 0, 0, 0, 0, 7])
    assert float(DUAL.reward(params, state, unknown)) == 0.0
    np.testing.assert_allclose(DUAL.update(params, state, unknown).prices, state.prices, atol=1e-7)
    assert float(coverage_gap(jnp.float32([0.2, 0.3, 0.3, 0.3, 0.4, 0.9]))) == pytest.approx(0.2)


def test_reward_is_the_price_times_relative_need() -> None:
    params = equity_params(NEED)
    state = initial_equity(params, jnp.float32([0.5, 0.0, 0.0, 0.0, -0.5, 0.0]))
    paid = DUAL.reward(params, state, jnp.float32([1, 0, 0, 0, 1, 0]))
    assert float(paid) == pytest.approx(0.5 * 1.1 / 2.0 - 0.5 * 1.1 / 0.5, rel=1e-5)


def test_feature_is_twice_the_own_price_and_hidden_without_a_weight() -> None:
    params = equity_params(NEED)
    state = initial_equity(params, jnp.float32([0.5, 0.0, 0.0, 0.0, -0.5, 0.0]))
    assert float(DUAL.features(params, state, jnp.int32(4))[0]) == -1.0
    hidden = params._replace(is_visible=jnp.float32(0.0))
    assert float(DUAL.features(hidden, state, jnp.int32(4))[0]) == 0.0


def test_prices_rest_within_the_target_gap() -> None:
    params = equity_params(jnp.full(6, 0.01), target_gap=0.5)
    state = initial_equity(params)
    moved = DUAL.update(params, state, jnp.float32([0.001, 0, 0, 0, 0, 0]))
    np.testing.assert_allclose(moved.prices, 0.0)


def test_unserved_incidents_count_against_their_stratum() -> None:
    params = equity_params(jnp.full(6, 0.5), steps_per_day=1.0)
    state = initial_equity(params)
    assert float(rolling_coverage(state)[0]) == 0.0
    for _ in range(200):
        state = DUAL.update(params, state, jnp.float32([0.25, 0, 0, 0, 0, 0]))
    coverage = rolling_coverage(state)
    assert float(coverage[0]) == pytest.approx(0.5, abs=0.01)
    assert float(coverage[1]) == 0.0


def test_a_stratum_without_need_has_no_weight() -> None:
    weights = relative_need_weights(jnp.float32([1, 0, 1, 1, 1, 1]))
    assert float(weights[1]) == 0.0
    assert np.isfinite(np.asarray(weights)).all()


def test_unknown_mode_is_named() -> None:
    with pytest.raises(InputError, match="dual"):
        get_mode("duel")


def test_posted_prices_stay_until_they_are_due() -> None:
    params = equity_params(jnp.ones(6), step_size=0.1, posting_steps=3)
    state, seen = initial_equity(params), []
    for _ in range(6):
        heard = hear_complaints(params, state, jnp.ones(6))
        state = DUAL.update(params, heard, jnp.float32([0, 0, 0, 0, 1, 0]))
        seen.append(float(state.posted[0]))
        assert float(state.prices[0]) == pytest.approx(0.02 * int(state.n_steps), rel=1e-5)
    np.testing.assert_allclose(seen, [0.0, 0.0, 0.06, 0.06, 0.06, 0.12], rtol=1e-5)
    assert float(DUAL.reward(params, state, jnp.float32([1, 0, 0, 0, 0, 0]))) == state.posted[0]


def test_need_follows_complaints_as_far_as_it_is_told_to() -> None:
    usual = jnp.full(6, 2.0)
    still = equity_params(NEED)
    moving = equity_params(NEED, usual_reports=usual, news_weight=0.01)
    state = initial_equity(still)
    for _ in range(100):
        state = hear_complaints(moving, state, usual.at[0].set(4.0))
    assert (need_now(still, state) == still.denominators).all()
    # A hundred steps as usual before, a hundred with twice the complaints: half as many again.
    np.testing.assert_allclose(need_now(moving, state), NEED.at[0].multiply(1.5), rtol=1e-5)
    weights = relative_need_weights(need_now(moving, state))
    served = DUAL.update(moving, state, jnp.float32([1, 0, 0, 0, 0, 0]))
    assert float(served.prices[0]) == pytest.approx(-0.01 * 0.8 * float(weights[0]), rel=1e-5)
