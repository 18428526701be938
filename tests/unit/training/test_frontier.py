"""Frontiers: the settings, the volume they dominate, and a network that covers them all."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from parity311.agents.conditioned import ConditionedConfig, draw_preferences, network_for
from parity311.agents.networks import apply_network, init_network
from parity311.training.frontier import (
    additive_epsilon,
    boiler_settings,
    corners_of,
    hypervolume,
    spread_preferences,
)
from parity311.training.loop import check_preferences


def test_the_papers_128_settings_lie_on_the_simplex() -> None:
    settings = check_preferences(boiler_settings())
    assert settings.shape == (128, 4)
    assert sorted(set(np.round(settings[:, 2], 6).tolist())) == pytest.approx([0, 0.2, 0.4, 0.6])
    # A larger miss ratio or a cheaper visit makes speed worth more against cost.
    trade_off = settings[:, 0] / settings[:, 1]
    assert trade_off.min() == pytest.approx((1069 + 5 * 71) / (1069 + 1845) / 2, rel=1e-4)
    assert trade_off.max() == pytest.approx((1069 + 50 * 71) / (1069 + 1845) / 0.5, rel=1e-4)


def test_spread_preferences_are_as_many_as_asked() -> None:
    for n in (4, 8, 128):
        assert len(check_preferences(spread_preferences((0.5, 0.3, 0.0, 0.2), n))) == n


def test_drawn_preferences_stay_between_the_corners() -> None:
    import jax

    settings = boiler_settings()
    config = ConditionedConfig(corners=corners_of(settings))
    drawn = np.asarray(draw_preferences(config, jax.random.split(jax.random.key(0), 1), 4000))[0]
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, atol=1e-5)
    assert drawn[:, 2].max() <= settings[:, 2].max() + 1e-6
    rest = drawn[:, 1] / (1.0 - drawn[:, 2])
    whole = settings[:, 1] / (1.0 - settings[:, 2])
    assert rest.min() >= whole.min() - 1e-5
    assert rest.max() <= whole.max() + 1e-5
    without = (drawn[:, 2] == 0).mean()
    assert without == pytest.approx(config.share_without_equity, abs=0.03)


@pytest.mark.slow
def test_a_preference_folds_into_the_network() -> None:
    import jax

    networks = init_network(jax.random.split(jax.random.key(0), 1), (3 + 4, 8, 2 * 4))
    network = jax.tree.map(lambda values: values[0], networks)
    network["bias_1"] = jax.random.normal(jax.random.key(2), (8,))
    preference = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    seen = jax.random.normal(jax.random.key(1), (3,))
    whole = apply_network(network, jnp.concatenate([seen, preference])).reshape(2, 4) @ preference
    np.testing.assert_allclose(
        apply_network(network_for(network, preference), seen), whole, atol=1e-5
    )


def test_hypervolume_agrees_with_counting() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((30, 3))
    dust = rng.random((40_000, 3))
    covered = (dust[:, None, :] <= points[None]).all(axis=2).any(axis=1).mean()
    assert hypervolume(points, np.zeros(3)) == pytest.approx(covered, abs=0.01)
    # A dominated point adds nothing, one outside the reference neither.
    more = np.vstack([points, points.max(axis=0) * 0 + 0.01, [[-1.0, 2.0, 2.0]]])
    assert hypervolume(more, np.zeros(3)) == pytest.approx(hypervolume(points, np.zeros(3)))
    assert hypervolume(np.array([[0.5, 0.5, 0.5]]), np.ones(3)) == 0.0


def test_additive_epsilon_is_the_missing_step() -> None:
    points = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert additive_epsilon(points, points) == 0.0
    assert additive_epsilon(points - 0.25, points) == pytest.approx(0.25)
    assert additive_epsilon(points, points[:1] - 0.5) == pytest.approx(-0.5)
