"""Every agent that acts while it learns solves the probes; twins that cannot learn are caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.probes import (
    DISCOUNT,
    PROBED,
    PROBES,
    Probe,
    _probe,
    agents_probed,
    settings_of,
)

from parity311.agents import agent_config, make_agent
from parity311.agents.conditioned import network_for
from parity311.agents.forward import apply_network_numpy
from parity311.mdp.contract import Action, Domain
from parity311.mdp.harness import Harness
from parity311.training.loop import Trained, train_agents

pytestmark = pytest.mark.slow

ACTING = agents_probed("actions")
SMALL: dict[str, Any] = {
    "hidden": (32,),
    "baseline_hidden": (32,),
    "target_every": 50,
    "buffer_size": 1000,
    "epsilon_end": 0.5,
    "n_rows": 64,
    "episode_length": 10,
    "discount": DISCOUNT,
}
LEAST_LEARNING_RATE = 1e-2
"""What a thousand steps ask for; an agent that moves further at a step keeps its own."""
STEPS = 1000
SIGNS = (-1.0, 1.0)


def learn(
    name: str,
    probe: Probe | Domain,
    seeds: tuple[int, ...] = (0, 1),
    is_broken: bool = False,
    **settings: Any,
) -> Trained:
    own = getattr(agent_config(name), "learning_rate", 0.0)
    chosen = settings_of(name, {**SMALL, "learning_rate": max(own, LEAST_LEARNING_RATE)})
    agent = make_agent(name, agent_config(name, {**chosen, **settings}))
    if is_broken:
        agent = agent._replace(update=lambda keys, state, rollout: (state, {}))
    domain, params = (PROBED, probe) if isinstance(probe, Probe) else (probe, probe.play.example())
    harness = Harness(domain, max_steps=10)
    return train_agents(
        harness, params, agent, [[1.0, 0.0, 0.0, 0.0]], seeds, STEPS, n_environments=4
    )


def share_right(trained: Trained, best: dict[float, int]) -> float:
    """Share of (seed, what is seen) in which the best action is chosen."""
    right = [
        int(trained.policy(i)(jax.random.key(0), jnp.array([sign, 0.0]))) == best[sign]
        for i in range(trained.n_agents)
        for sign in best
    ]
    return float(np.mean(right))


def best_actions(exact: dict[tuple[float, int], float]) -> dict[float, int]:
    seen = {sign for sign, _ in exact}
    return {sign: max((0, 1), key=lambda action: exact[sign, action]) for sign in seen}


@pytest.mark.parametrize("name", ACTING)
@pytest.mark.parametrize("probe", ["which action", "which action for what is seen"])
def test_agents_choose_the_best_action(name: str, probe: str) -> None:
    params, exact = PROBES[probe]
    assert share_right(learn(name, params), best_actions(exact)) == 1.0


@pytest.mark.parametrize("name", ACTING)
def test_an_agent_that_does_not_learn_is_caught(name: str) -> None:
    probe, exact = PROBES["which action for what is seen"]
    # Six seeds: that weights never moved choose right everywhere is a chance of one in 4,096.
    trained = learn(name, probe, tuple(range(6)), is_broken=True)
    assert share_right(trained, best_actions(exact)) < 1.0


def test_conservatism_lowers_the_value_of_what_is_not_taken() -> None:
    """ε falls to 0.02: the bad action is rarely taken, and CQL values it below its worth."""
    probe, exact = PROBES["which action"]
    plain = learn("cql", probe, conservatism=0.0, epsilon_end=0.02, epsilon_steps=200)
    wary = learn("cql", probe, conservatism=0.5, epsilon_end=0.02, epsilon_steps=200)
    gaps = [
        np.diff(apply_network_numpy(one.weights(0), np.array([1.0, 0.0]))) for one in (plain, wary)
    ]
    assert gaps[0] == pytest.approx(exact[1.0, 1] - exact[1.0, 0], abs=0.2)
    assert gaps[1] > gaps[0] + 0.3


REWARDS = jnp.array([[1.0, -3.0, 0.5, 0.5], [0.5, 0.5, -3.0, 1.0]])
"""By what is seen: the first category holds the best action and the worst, the second is even."""


def four_actions() -> Domain:
    def reward(place: Any, action: jax.Array) -> jax.Array:
        return REWARDS[(place.sign > 0).astype(jnp.int32), action]

    actions = tuple(Action(name, name in "cd", 1.0) for name in "abcd")
    return replace(_probe(reward, 1), actions=actions)


def test_the_upper_level_values_a_category_by_its_best_action() -> None:
    trained = learn("hdqn", four_actions(), categories=(0, 0, 1, 1))
    assert share_right(trained, {-1.0: 0, 1.0: 3}) == 1.0
    upper = trained.weights(0)["manager"]
    values = apply_network_numpy(upper, np.array([-1.0, 0.0]))
    assert values == pytest.approx([1.0, 0.5], abs=0.15)


def test_the_conditioned_network_serves_every_preference() -> None:
    """Reward 1 pays action 1 where the sign is positive, reward 2 pays action 0 always."""

    def transition_reward(place: Any, action: jax.Array) -> jax.Array:
        return jnp.where((action == 1) & (place.sign > 0), 1.0, 0.0)

    domain = _probe(transition_reward, 1)
    play = domain.play
    own = play.transition

    def with_cost(key: Any, params: Any, state: Any, action: jax.Array, prices: Any) -> Any:
        moved = own(key, params, state, action, prices)
        return moved._replace(reward=moved.reward.at[1].set(-(action == 1).astype(jnp.float32)))

    domain = replace(domain, dynamics=replace(play, transition=with_cost))
    agent = make_agent(
        "conditioned",
        agent_config(
            "conditioned",
            {"hidden": (32,), "discount": 0.0, "epsilon_end": 0.5, "buffer_size": 1000,
             "target_every": 50, "corners": ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0))},
        ),
    )  # fmt: skip
    trained = train_agents(
        Harness(domain, max_steps=10), play.example(), agent, [[0.5, 0.0, 0.5, 0.0]], [0], STEPS,
        n_environments=4,
    )  # fmt: skip
    for speed in (0.9, 0.7, 0.3, 0.1):
        plain = network_for(trained.weights(0), (speed, 1.0 - speed, 0.0, 0.0))
        for sign in SIGNS:
            values = apply_network_numpy(
                {name: np.asarray(x) for name, x in plain.items()}, np.array([sign, 0.0])
            )
            worth = speed * (sign > 0) - (1.0 - speed)
            assert values[1] - values[0] == pytest.approx(worth, abs=0.1)
