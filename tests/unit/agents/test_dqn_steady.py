"""What steadies DQN: an average of the weights that decides, and double Q-learning."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.agents import agent_config, make_agent
from parity311.agents.base import Rollout
from parity311.agents.dqn import DQNConfig, _future_value
from parity311.errors import TrainingError

pytestmark = pytest.mark.slow


def one_step(n_agents: int = 2) -> Rollout:
    shape = (1, n_agents, 1)
    seen = jnp.ones((*shape, 3))
    none = jnp.zeros(shape, bool)
    return Rollout(seen, jnp.zeros(shape, jnp.int32), jnp.ones(shape), none, none, seen)


def update(**settings: Any) -> tuple[Any, Any, Any]:
    small = {"hidden": (4,), "buffer_size": 10, "batch_size": 2, **settings}
    agent = make_agent("dqn", agent_config("dqn", small))
    before = agent.init(jax.random.split(jax.random.key(0), 2), 1, 3, 2)
    after, _ = agent.update(jax.random.split(jax.random.key(1), 2), before, one_step())
    return agent, before, after


@pytest.mark.slow
def test_the_published_dqn_decides_by_its_last_weights() -> None:
    agent, _, after = update()
    assert after.average == {}
    assert agent.policy(after) is after.network


def test_the_average_moves_by_its_share_and_decides() -> None:
    agent, before, after = update(averaging=0.25)
    name = "weight_0"
    expected = 0.75 * before.network[name] + 0.25 * after.network[name]
    assert float(jnp.abs(after.network[name] - before.network[name]).max()) > 0.0
    np.testing.assert_allclose(agent.policy(after)[name], expected, rtol=1e-6)


def test_double_takes_the_targets_value_of_the_networks_choice() -> None:
    def linear(values: list[float]) -> dict[str, jax.Array]:
        return {"weight_0": jnp.zeros((1, 2, 2)), "bias_0": jnp.float32([values])}

    network, target, seen = linear([1.0, 0.0]), linear([2.0, 5.0]), jnp.zeros((1, 1, 2))
    double = _future_value(network, target, seen, DQNConfig(is_double=True))
    plain = _future_value(network, target, seen, DQNConfig())
    assert float(double[0, 0]) == 2.0
    assert float(plain[0, 0]) == 5.0


@pytest.mark.parametrize("settings", [{"is_double": True}, {"averaging": 0.1}])
def test_hdqn_refuses_what_it_does_not_have(settings: dict[str, Any]) -> None:
    with pytest.raises(TrainingError, match="leave them out"):
        make_agent("hdqn", agent_config("hdqn", settings))
