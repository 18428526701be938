"""DQN finds the exact values of five probes; a twin that does not learn is caught."""

from __future__ import annotations

import numpy as np
import pytest
from tests.learning.probes import DISCOUNT, PROBES

from parity311.agents.dqn import DQNConfig, make_dqn
from parity311.agents.networks import apply_network_numpy
from parity311.mdp.contract import Domain
from parity311.mdp.harness import Harness
from parity311.training.loop import train_agents

CONFIG = {"hidden": (32,), "discount": DISCOUNT, "target_every": 50, "buffer_size": 1000}


def largest_error(
    domain: Domain, exact: dict[tuple[float, int], float], **settings: float
) -> float:
    """Largest difference between learned and exact values, over three seeds."""
    agent = make_dqn(DQNConfig(**{**CONFIG, "epsilon_end": 0.5, **settings}))  # type: ignore[arg-type]
    harness = Harness(domain, max_steps=10)
    trained = train_agents(
        harness, domain.play.example(), agent, [[1.0, 0.0, 0.0, 0.0]], [0, 1, 2], 1000,
        n_environments=4,
    )  # fmt: skip
    errors = []
    for index in range(trained.n_agents):
        weights = {name: np.asarray(x) for name, x in trained.weights(index).items()}
        for (seen, action), value in exact.items():
            learned = apply_network_numpy(weights, np.array([seen, 0.0]))[action]
            errors.append(abs(learned - value))
    return max(errors)


@pytest.mark.parametrize("name", PROBES)
def test_dqn_finds_the_exact_values(name: str) -> None:
    assert largest_error(*PROBES[name]) < 0.1


def test_an_agent_that_does_not_learn_is_caught() -> None:
    domain, exact = PROBES["which action for what is seen"]
    assert largest_error(domain, exact, learning_rate=0.0) > 0.5


def test_an_agent_that_ignores_the_future_is_caught() -> None:
    domain, exact = PROBES["what comes later"]
    assert largest_error(domain, exact, discount=0.0) > 0.3
