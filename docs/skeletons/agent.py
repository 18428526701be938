"""Expected SARSA with values linear in what is seen (van Seijen et al. 2009).

Q(s, a) = w_a · s + b_a. A step moves the action taken towards what it earned and what follows it
under the policy that explores, ε included; it is divided by the length of what was seen, so that no
scale of the features makes it diverge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from parity311.agents import replay
from parity311.agents.base import Agent, Rollout
from parity311.agents.dqn import action_margin, decide_greedily
from parity311.agents.entry import AgentEntry
from parity311.agents.networks import Network, apply_networks
from parity311.agents.settings import Count, Share, StepSize

ENTRY = AgentEntry(
    says="expected SARSA with linear values",
    config="SarsaConfig",
    maker="make_sarsa",
    title="SARSA",
    probes=("actions",),
)


@dataclass(frozen=True)
class SarsaConfig:
    """Hyper-parameters."""

    learning_rate: StepSize = 0.2
    """share of the difference that a step makes up for"""
    discount: Share = 0.95
    """γ"""
    epsilon_start: Share = 1.0
    """share of random actions at the start"""
    epsilon_end: Share = 0.05
    """share of random actions in the end"""
    epsilon_steps: Count = 10_000
    """steps over which it falls"""


class SarsaState(NamedTuple):
    """What an update needs of every agent."""

    network: Network
    """one layer: weight_0 (agents, n_features, n_actions) and bias_0 (agents, n_actions)"""
    n_steps: jax.Array


@cache
def make_sarsa(config: SarsaConfig | None = None) -> Agent:
    """Make expected SARSA with these hyper-parameters."""
    settings = config or SarsaConfig()
    return Agent(
        name="sarsa",
        init=_init,
        explore=partial(_explore, settings),
        decide=decide_greedily,
        margin=action_margin,
        update=partial(_update, settings),
        refresh=lambda state: state,
        policy=lambda state: state.network,
        rollout_length=1,
        refresh_every=500,
        config=settings,
    )


def _init(keys: jax.Array, n_environments: int, n_features: int, n_actions: int) -> SarsaState:
    del n_environments
    n_agents = keys.shape[0]
    zeros = {
        "weight_0": jnp.zeros((n_agents, n_features, n_actions)),
        "bias_0": jnp.zeros((n_agents, n_actions)),
    }
    return SarsaState(zeros, jnp.int32(0))


def _epsilon(config: SarsaConfig, n_steps: jax.Array) -> jax.Array:
    return replay.falling_epsilon(
        n_steps, config.epsilon_start, config.epsilon_end, config.epsilon_steps
    )


def _explore(
    config: SarsaConfig, keys: jax.Array, state: SarsaState, observation: jax.Array
) -> jax.Array:
    values = apply_networks(state.network, observation)
    return replay.epsilon_greedy(keys, values, _epsilon(config, state.n_steps))


def _update(
    config: SarsaConfig, keys: jax.Array, state: SarsaState, rollout: Rollout
) -> tuple[SarsaState, dict[str, jax.Array]]:
    del keys
    seen = rollout.observation[0]
    after = apply_networks(state.network, rollout.next_observation[0])
    epsilon = _epsilon(config, state.n_steps)
    expected = (1.0 - epsilon) * after.max(axis=-1) + epsilon * after.mean(axis=-1)
    # An episode cut off by the clock goes on in what it was worth; one that ended does not.
    continues = 1.0 - rollout.terminated[0].astype(jnp.float32)
    goal = rollout.reward[0] + config.discount * continues * expected
    values = apply_networks(state.network, seen)
    error = (goal[..., None] - values) * jax.nn.one_hot(rollout.action[0], values.shape[-1])
    step = config.learning_rate * error / (1.0 + (seen**2).sum(axis=-1, keepdims=True))
    n_environments = seen.shape[1]
    network = {
        "weight_0": state.network["weight_0"]
        + jnp.einsum("aef,aen->afn", seen, step) / n_environments,
        "bias_0": state.network["bias_0"] + step.mean(axis=1),
    }
    return SarsaState(network, state.n_steps + 1), {"loss": (error**2).sum(axis=-1).mean(axis=1)}
