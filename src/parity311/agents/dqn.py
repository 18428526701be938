"""Deep Q-learning with a replay buffer and a target network (Mnih et al. 2015).

What makes it fast for many agents at once: the buffer is laid out step by step, so one slice
writes what all agents saw and one gather reads a batch for all of them (they share the positions
they replay, not what lies there); the target is copied once per block of updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from parity311.agents import replay
from parity311.agents.adam import adam_step, zeros_like
from parity311.agents.base import Agent, Rollout
from parity311.agents.entry import AgentEntry
from parity311.agents.networks import Network, apply_network, apply_networks, init_network
from parity311.agents.settings import (
    Count,
    CountOrNone,
    Layers,
    Number,
    Share,
    Size,
    StepSize,
    Weight,
)

ENTRY = AgentEntry(
    says="deep Q-learning",
    config="DQNConfig",
    maker="make_dqn",
    title="DQN",
    probes=("values",),
)


@dataclass(frozen=True)
class DQNConfig:
    """Hyper-parameters; the defaults are the paper's table."""

    learning_rate: StepSize = 1e-3
    """step size of Adam"""
    buffer_size: Count = 50_000
    """transitions remembered per agent"""
    batch_size: Count = 64
    """transitions replayed in an update"""
    target_every: Count = 500
    """updates between copies of the target network"""
    discount: Share = 0.99
    """γ"""
    epsilon_start: Share = 1.0
    """share of random actions at the start"""
    epsilon_end: Share = 0.05
    """share of random actions in the end"""
    epsilon_steps: Count = 10_000
    """steps over which it falls"""
    hidden: Layers = (128, 128)
    """units of the hidden layers; the paper uses 64 or 128"""
    max_gradient_norm: Size = 10.0
    """gradients are clipped to this norm, agent by agent (the paper names none)"""
    anneal_steps: CountOrNone = 0
    """steps over which the step size falls to a tenth, in a straight line; 0 keeps it, as the
    paper does"""
    conservatism: Weight = 0.0
    """weight of CQL's penalty on values of actions that were not taken; 0 is plain DQN"""
    is_double: bool = False
    """whether the network chooses the action whose value the target gives (van Hasselt et al.
    2016); the paper's DQN does not"""
    averaging: Share = 0.0
    """share by which an average of the weights moves at every update; decisions are then made by
    the average, which is steadier; 0 decides by the last weights, as the paper does"""
    dtype: Number = "float32"
    """what passes between layers while learning; bfloat16 halves the traffic on a GPU"""


class DQNState(NamedTuple):
    """Everything an update needs; all arrays but the buffer lead with the agent axis."""

    network: Network
    target: Network
    momentum: Network
    square: Network
    buffer: jax.Array
    """(rows, agents, 2 n_features + 3): observation, next, action, reward, continues"""
    n_steps: jax.Array
    """() steps collected per environment"""
    average: Network
    """running average of the network; empty where decisions are made by the network itself"""


@cache
def make_dqn(config: DQNConfig | None = None) -> Agent:
    """Make DQN with these hyper-parameters; equal settings give the same, already compiled one."""
    return make_value_agent("dqn", config or DQNConfig())


def make_value_agent(name: str, config: DQNConfig) -> Agent:
    """DQN or, with `conservatism`, what is called CQL."""
    return Agent(
        name=name,
        init=partial(_init, config),
        explore=partial(_explore, config),
        decide=decide_greedily,
        margin=action_margin,
        update=partial(_update, config),
        refresh=_copy_target,
        policy=_network_of,
        rollout_length=1,
        refresh_every=config.target_every,
        learn=partial(_learn, config),
        config=config,
    )


def decide_greedily(policy: Network, key: jax.Array, observation: jax.Array) -> jax.Array:
    """Action with the highest value."""
    del key
    return jnp.argmax(apply_network(policy, observation)).astype(jnp.int32)


def action_margin(policy: Network, observation: jax.Array) -> jax.Array:
    """By how much action 1 is valued above action 0."""
    values = apply_network(policy, observation)
    return values[1] - values[0]


def _network_of(state: DQNState) -> Network:
    return state.average or state.network


def _init(
    config: DQNConfig,
    keys: jax.Array,
    n_environments: int,
    n_features: int,
    n_actions: int,
) -> DQNState:
    network = init_network(keys, (n_features, *config.hidden, n_actions))
    return DQNState(
        network=network,
        target=jax.tree.map(jnp.copy, network),
        momentum=zeros_like(network),
        square=zeros_like(network),
        buffer=replay.empty_buffer(config.buffer_size, keys.shape[0], n_environments, n_features),
        n_steps=jnp.int32(0),
        average=jax.tree.map(jnp.copy, network) if config.averaging > 0.0 else {},
    )


def _explore(
    config: DQNConfig, keys: jax.Array, state: DQNState, observation: jax.Array
) -> jax.Array:
    epsilon = replay.falling_epsilon(
        state.n_steps, config.epsilon_start, config.epsilon_end, config.epsilon_steps
    )
    return replay.epsilon_greedy(keys, apply_networks(state.network, observation), epsilon)


def _update(
    config: DQNConfig, keys: jax.Array, state: DQNState, rollout: Rollout
) -> tuple[DQNState, dict[str, jax.Array]]:
    del keys
    rows = replay.pack_rows(rollout)
    buffer = replay.write_rows(state.buffer, state.n_steps, rows)
    batch = replay.sample_rows(buffer, state.n_steps + 1, rows.shape[0], config.batch_size)
    return _fit(config, state._replace(buffer=buffer), batch)


def _learn(
    config: DQNConfig, keys: jax.Array, state: DQNState, rollout: Rollout
) -> tuple[DQNState, dict[str, jax.Array]]:
    """Learn from logged transitions as they are; the buffer stays as it is."""
    del keys
    return _fit(config, state, jnp.swapaxes(replay.pack_rows(rollout), 0, 1))


def _fit(
    config: DQNConfig, state: DQNState, rows: jax.Array
) -> tuple[DQNState, dict[str, jax.Array]]:
    gradient, loss = jax.grad(_loss, has_aux=True)(state.network, state.target, rows, config)
    n_steps = state.n_steps + 1
    network, momentum, square = adam_step(
        state.network,
        state.momentum,
        state.square,
        gradient,
        n_steps,
        learning_rate=config.learning_rate,
        max_gradient_norm=config.max_gradient_norm,
        anneal_steps=config.anneal_steps,
    )
    average = {
        name: old + config.averaging * (network[name] - old) for name, old in state.average.items()
    }
    moved = DQNState(network, state.target, momentum, square, state.buffer, n_steps, average)
    return moved, {"loss": loss}


def _loss(
    network: Network, target: Network, rows: jax.Array, config: DQNConfig
) -> tuple[jax.Array, jax.Array]:
    """Huber loss of the temporal difference: its sum over agents, and each agent's mean."""
    batch = replay.unpack_rows(rows, (rows.shape[-1] - 3) // 2)
    goal = batch.reward
    if config.discount > 0.0:
        future = _future_value(network, target, batch.next_observation, config)
        goal = goal + config.discount * batch.continues * jax.lax.stop_gradient(future)
    values = apply_networks(network, batch.observation, config.dtype)
    taken = replay.value_of_taken(values, batch.action)
    loss = replay.huber(taken - goal)
    if config.conservatism > 0.0:
        loss = loss + config.conservatism * (jax.nn.logsumexp(values, axis=-1) - taken)
    per_agent = loss.mean(axis=1)
    return per_agent.sum(), per_agent


def _future_value(
    network: Network, target: Network, observation: jax.Array, config: DQNConfig
) -> jax.Array:
    """Value (agents, batch) of what follows, by the target network."""
    values = apply_networks(target, observation, config.dtype)
    if not config.is_double:
        return values.max(axis=-1)
    chosen = apply_networks(network, observation, config.dtype).argmax(axis=-1)
    return replay.value_of_taken(values, chosen.astype(jnp.float32))


def _copy_target(state: DQNState) -> DQNState:
    return state._replace(target=jax.tree.map(jnp.copy, state.network))
