"""DQN: buffer, target, schedules, and the same answer in NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.agents import agent_config, make_agent
from parity311.agents.base import Rollout
from parity311.agents.dqn import DQNConfig, make_dqn
from parity311.agents.networks import (
    apply_network,
    apply_network_numpy,
    apply_networks,
    init_network,
)
from parity311.errors import InputError

pytestmark = pytest.mark.slow


def rollout(value: float, n_agents: int = 2, n_environments: int = 3) -> Rollout:
    shape = (1, n_agents, n_environments)
    return Rollout(
        observation=jnp.full((*shape, 4), value),
        action=jnp.ones(shape, jnp.int32),
        reward=jnp.full(shape, value),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.zeros(shape, bool),
        next_observation=jnp.full((*shape, 4), value + 0.5),
    )


@pytest.mark.slow
def test_buffer_keeps_the_latest_and_wraps() -> None:
    agent = make_dqn(DQNConfig(buffer_size=6, batch_size=4, hidden=(8,)))
    state = agent.init(jax.random.split(jax.random.key(0), 2), 3, 4, 2)
    assert state.buffer.shape == (6, 2, 11)
    for step in range(5):
        state, _ = agent.update(
            jax.random.split(jax.random.key(step), 2), state, rollout(float(step))
        )
    rewards = np.asarray(state.buffer[:, :, -2])
    assert sorted(set(rewards.ravel().tolist())) == [3.0, 4.0]
    np.testing.assert_allclose(state.buffer[:, :, 4:8], state.buffer[:, :, :4] + 0.5)


def test_target_changes_only_when_refreshed() -> None:
    agent = make_dqn(DQNConfig(buffer_size=30, batch_size=4, hidden=(8,)))
    state = agent.init(jax.random.split(jax.random.key(0), 2), 3, 4, 2)
    before = np.asarray(state.target["weight_0"])
    state, _ = agent.update(jax.random.split(jax.random.key(1), 2), state, rollout(1.0))
    np.testing.assert_array_equal(state.target["weight_0"], before)
    assert not np.allclose(state.network["weight_0"], before)
    refreshed = agent.refresh(state)
    np.testing.assert_array_equal(refreshed.target["weight_0"], state.network["weight_0"])


@pytest.mark.slow
def test_exploration_falls_to_its_end() -> None:
    config = DQNConfig(hidden=(8,), epsilon_steps=100, epsilon_end=0.0, buffer_size=30)
    agent = make_dqn(config)
    state = agent.init(jax.random.split(jax.random.key(0), 1), 2000, 4, 3)
    seen = jnp.ones((1, 2000, 4))
    first = np.asarray(agent.explore(jax.random.split(jax.random.key(1), 1), state, seen))
    np.testing.assert_allclose(np.bincount(first[0], minlength=3) / 2000, 1 / 3, atol=0.05)
    late = agent.explore(
        jax.random.split(jax.random.key(1), 1), state._replace(n_steps=jnp.int32(100)), seen
    )
    assert len(np.unique(np.asarray(late))) == 1


def test_agents_do_not_touch_each_other() -> None:
    agent = make_dqn(DQNConfig(buffer_size=30, batch_size=4, hidden=(8,)))
    state = agent.init(jax.random.split(jax.random.key(0), 2), 3, 4, 2)
    same, other = rollout(1.0), rollout(1.0)
    other = other._replace(reward=other.reward.at[:, 1].set(-50.0))
    one, _ = agent.update(jax.random.split(jax.random.key(1), 2), state, same)
    two, _ = agent.update(jax.random.split(jax.random.key(1), 2), state, other)
    np.testing.assert_array_equal(one.network["weight_0"][0], two.network["weight_0"][0])
    assert not np.allclose(one.network["weight_0"][1], two.network["weight_0"][1])


@pytest.mark.slow
def test_one_network_in_three_forms_gives_one_answer() -> None:
    networks = init_network(jax.random.split(jax.random.key(0), 3), (5, 16, 16, 2))
    seen = jax.random.normal(jax.random.key(1), (7, 5))
    batched = apply_networks(networks, jnp.broadcast_to(seen, (3, 7, 5)))[1]
    alone = jax.tree.map(lambda values: values[1], networks)
    np.testing.assert_allclose(
        jax.vmap(lambda x: apply_network(alone, x))(seen), batched, atol=1e-5
    )
    plain = {name: np.asarray(values) for name, values in alone.items()}
    np.testing.assert_allclose(apply_network_numpy(plain, np.asarray(seen)), batched, atol=1e-5)


def test_settings_are_checked_by_name() -> None:
    assert agent_config("dqn", {"discount": 0.5}).discount == 0.5
    with pytest.raises(InputError, match="discount"):
        agent_config("dqn", {"discuont": 0.5})
    with pytest.raises(InputError, match="dqn"):
        agent_config("dqm")
    assert make_agent("dqn", agent_config("dqn")) is make_agent("dqn", agent_config("dqn"))


def test_the_defaults_are_the_papers() -> None:
    config = DQNConfig()
    assert (config.learning_rate, config.buffer_size, config.batch_size) == (1e-3, 50_000, 64)
    assert (config.target_every, config.discount, config.hidden) == (500, 0.99, (128, 128))
    assert (config.epsilon_start, config.epsilon_end, config.epsilon_steps) == (1.0, 0.05, 10_000)
