"""Agents that hold values find those of five probes; a twin that does not learn is caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.learning.probes import DISCOUNT, PROBED, PROBES, Probe, agents_probed, settings_of

from parity311.agents import agent_config, make_agent
from parity311.agents.forward import score_actions_numpy
from parity311.mdp.harness import Harness
from parity311.training.loop import train_agents

pytestmark = pytest.mark.slow

SMALL = {
    "hidden": (32,),
    "discount": DISCOUNT,
    "target_every": 50,
    "buffer_size": 1000,
    "n_rows": 64,
    "epsilon_end": 0.5,
}


def largest_error(
    name: str,
    probe: Probe,
    exact: dict[tuple[float, int], float],
    is_broken: bool = False,
    **settings: Any,
) -> float:
    """Largest difference between learned and exact values, over three seeds."""
    agent = make_agent(name, agent_config(name, {**settings_of(name, SMALL), **settings}))
    if is_broken:
        agent = agent._replace(update=lambda keys, state, rollout: (state, {}))
    harness = Harness(PROBED, max_steps=10)
    trained = train_agents(
        harness, probe, agent, [[1.0, 0.0, 0.0, 0.0]], [0, 1, 2], 1000,
        n_environments=4,
    )  # fmt: skip
    errors = []
    for index in range(trained.n_agents):
        for (seen, action), value in exact.items():
            learned = score_actions_numpy(trained.weights(index), np.array([seen, 0.0]))[action]
            errors.append(abs(learned - value))
    return max(errors)


@pytest.mark.parametrize("agent", agents_probed("values"))
@pytest.mark.parametrize("probe", PROBES)
def test_values_are_found_exactly(agent: str, probe: str) -> None:
    # Rows of a table mix nothing up, networks do.
    allowed = 0.05 if "n_rows" in settings_of(agent, SMALL) else 0.1
    assert largest_error(agent, *PROBES[probe]) < allowed


@pytest.mark.parametrize("agent", agents_probed("values"))
def test_an_agent_that_does_not_learn_is_caught(agent: str) -> None:
    probe, exact = PROBES["which action for what is seen"]
    assert largest_error(agent, probe, exact, is_broken=True) > 0.5


@pytest.mark.parametrize("agent", agents_probed("values"))
def test_an_agent_that_ignores_the_future_is_caught(agent: str) -> None:
    probe, exact = PROBES["what comes later"]
    assert largest_error(agent, probe, exact, discount=0.0) > 0.3
