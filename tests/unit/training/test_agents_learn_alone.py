"""An agent depends on its own seed, preference and process, never on who trains beside it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.contract.broken.twins import make_domain
from tests.learning.probes import settings_of

from parity311.agents import agent_config, all_agents, make_agent
from parity311.agents.base import Agent
from parity311.mdp.harness import Harness
from parity311.training.loop import Trained, open_streams, train_agents
from parity311.training.offline import Decisions, train_offline

pytestmark = pytest.mark.slow

HARNESS = Harness(make_domain())
PREFERENCES = [[1.0, 0.0, 0.0, 0.0], [0.4, 0.1, 0.5, 0.0]]
SEEDS = [3, 0, 7, 5]
TINY = {
    "hidden": (8,),
    "baseline_hidden": (8,),
    "buffer_size": 200,
    "batch_size": 8,
    "target_every": 20,
    "epsilon_steps": 30,
    "episode_length": 10,
    "n_rows": 64,
}
ACTING = [name for name, entry in all_agents().items() if entry.acts]
READING = [name for name, entry in all_agents().items() if entry.needs_log]


def small_agent(name: str) -> Agent:
    return make_agent(name, agent_config(name, settings_of(name, TINY)))


def learn(name: str, preferences: list, seeds: list[int]) -> Trained:
    params = HARNESS.domain.play.example()
    return train_agents(
        HARNESS, params, small_agent(name), preferences, seeds, 60, n_environments=2
    )


def assert_same(one: Any, index: int, other: Any, place: int) -> None:
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(left[index], right[place], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ACTING)
def test_alone_or_in_company_it_is_the_same_agent(name: str) -> None:
    together = learn(name, PREFERENCES, SEEDS[:2])
    alone = learn(name, PREFERENCES[1:], SEEDS[1:2])
    assert_same(together.policies, 3, alone.policies, 0)
    assert_differ(together.policies, 0, 1)


def test_in_a_batch_of_eight_and_in_two_halves_it_is_the_same_agent() -> None:
    eight = learn("dqn", PREFERENCES, SEEDS)
    for half in (0, 1):
        four = learn("dqn", PREFERENCES, SEEDS[2 * half : 2 * half + 2])
        for row, number in ((0, 0), (0, 1), (1, 0), (1, 1)):
            assert_same(
                eight.policies,
                row * len(SEEDS) + 2 * half + number,
                four.policies,
                2 * row + number,
            )


def assert_differ(policies: Any, one: int, other: int) -> None:
    leaves = [np.asarray(values) for values in jax.tree.leaves(policies)]
    assert any(not np.allclose(values[one], values[other]) for values in leaves)


@pytest.mark.parametrize("name", [*READING, "dqn"])
def test_from_a_log_too(name: str) -> None:
    rng = np.random.default_rng(0)
    shape = (20, 10)
    decisions = Decisions(
        observation=rng.normal(size=(*shape, HARNESS.n_features)).astype(np.float32),
        action=rng.integers(0, HARNESS.n_actions, shape),
        propensity=np.full(shape, 1 / HARNESS.n_actions),
        reward=rng.normal(size=(*shape, 4)).astype(np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        next_observation=rng.normal(size=(*shape, HARNESS.n_features)).astype(np.float32),
        n_actions=HARNESS.n_actions,
    )
    agent = small_agent(name)
    together = train_offline(HARNESS, decisions, agent, PREFERENCES[:1], SEEDS, 40)
    alone = train_offline(HARNESS, decisions, agent, PREFERENCES[:1], SEEDS[1:2], 40)
    assert_same(together.policies, 1, alone.policies, 0)


def keys_used(streams: dict[str, jax.Array], n_updates: int) -> list[bytes]:
    """Every key a training draws from: at the start, and folded into each update."""
    found = [np.asarray(jax.random.key_data(key)).tobytes() for key in streams.values()]
    for number in range(n_updates):
        folded = jax.random.fold_in(streams["updates"], number)
        found += [np.asarray(jax.random.key_data(k)).tobytes() for k in jax.random.split(folded)]
    return found


def test_no_key_is_used_twice() -> None:
    opened = open_streams(jnp.asarray(SEEDS, jnp.uint32))
    used = []
    for agent in range(len(SEEDS)):
        used += keys_used({name: key[agent] for name, key in opened._asdict().items()}, 50)
    assert len(used) == len(set(used))


def test_streams_that_share_a_key_are_found_out() -> None:
    """The broken twin: prices and the second update once drew from the same key."""
    key = jax.random.key(3)
    streams = {name: jax.random.fold_in(key, n) for n, name in enumerate(("agent", "resets"))}
    streams["updates"] = key
    streams["prices"] = jax.random.split(jax.random.fold_in(key, 1))[0]
    used = keys_used(streams, 5)
    assert len(used) > len(set(used))
