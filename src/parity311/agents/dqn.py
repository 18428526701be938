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

from parity311.agents.base import Agent, Rollout
from parity311.agents.networks import Network, apply_network, apply_networks, init_network


@dataclass(frozen=True)
class DQNConfig:
    """Hyper-parameters; the defaults are the paper's table."""

    learning_rate: float = 1e-3
    """step size of Adam"""
    buffer_size: int = 50_000
    """transitions remembered per agent"""
    batch_size: int = 64
    """transitions replayed in an update"""
    target_every: int = 500
    """updates between copies of the target network"""
    discount: float = 0.99
    """γ"""
    epsilon_start: float = 1.0
    """share of random actions at the start"""
    epsilon_end: float = 0.05
    """share of random actions in the end"""
    epsilon_steps: int = 10_000
    """steps over which it falls"""
    hidden: tuple[int, ...] = (128, 128)
    """units of the hidden layers; the paper uses 64 or 128"""
    max_gradient_norm: float = 10.0
    """gradients are clipped to this norm, agent by agent (the paper names none)"""
    anneal_steps: int = 0
    """steps over which the step size falls to a tenth, in a straight line; 0 keeps it, as the
    paper does"""


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


@cache
def make_dqn(config: DQNConfig | None = None) -> Agent:
    """Make DQN with these hyper-parameters; equal settings give the same, already compiled one."""
    settings = config or DQNConfig()
    return Agent(
        name="dqn",
        init=partial(_init, settings),
        explore=partial(_explore, settings),
        decide=decide_greedily,
        margin=action_margin,
        update=partial(_update, settings),
        refresh=_copy_target,
        policy=_network_of,
        rollout_length=1,
        refresh_every=settings.target_every,
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
    return state.network


def _init(
    config: DQNConfig,
    key: jax.Array,
    n_agents: int,
    n_environments: int,
    n_features: int,
    n_actions: int,
) -> DQNState:
    network = init_network(key, n_agents, (n_features, *config.hidden, n_actions))
    n_rows = max(config.buffer_size // n_environments, 1) * n_environments
    return DQNState(
        network=network,
        target=jax.tree.map(jnp.copy, network),
        momentum=jax.tree.map(jnp.zeros_like, network),
        square=jax.tree.map(jnp.zeros_like, network),
        buffer=jnp.zeros((n_rows, n_agents, 2 * n_features + 3)),
        n_steps=jnp.int32(0),
    )


def _explore(
    config: DQNConfig, key: jax.Array, state: DQNState, observation: jax.Array
) -> jax.Array:
    values = apply_networks(state.network, observation)
    progress = jnp.minimum(state.n_steps / config.epsilon_steps, 1.0)
    epsilon = config.epsilon_start + progress * (config.epsilon_end - config.epsilon_start)
    # One number decides whether to explore and, if so, where to.
    draw = jax.random.uniform(key, observation.shape[:2])
    n_actions = values.shape[-1]
    anywhere = jnp.floor(draw / jnp.maximum(epsilon, 1e-9) * n_actions).astype(jnp.int32)
    greedy = jnp.argmax(values, axis=-1).astype(jnp.int32)
    return jnp.where(draw < epsilon, jnp.minimum(anywhere, n_actions - 1), greedy)


def _update(
    config: DQNConfig, key: jax.Array, state: DQNState, rollout: Rollout
) -> tuple[DQNState, dict[str, jax.Array]]:
    buffer = _remember(state.buffer, state.n_steps, rollout)
    n_steps = state.n_steps + 1
    n_filled = jnp.minimum(n_steps * rollout.reward.shape[2], buffer.shape[0])
    rows = jax.random.randint(key, (config.batch_size,), 0, n_filled)
    batch = jnp.swapaxes(buffer[rows], 0, 1)
    gradient, loss = jax.grad(_loss, has_aux=True)(state.network, state.target, batch, config)
    network, momentum, square = _adam(config, state, gradient, n_steps)
    moved = DQNState(network, state.target, momentum, square, buffer, n_steps)
    return moved, {"loss": loss}


def _remember(buffer: jax.Array, n_steps: jax.Array, rollout: Rollout) -> jax.Array:
    """Write one step of every environment of every agent as consecutive rows."""
    continues = 1.0 - rollout.terminated[0].astype(jnp.float32)
    extra = jnp.stack([rollout.action[0].astype(jnp.float32), rollout.reward[0], continues], -1)
    rows = jnp.concatenate([rollout.observation[0], rollout.next_observation[0], extra], axis=-1)
    rows = jnp.swapaxes(rows, 0, 1)
    start = (n_steps * rows.shape[0]) % buffer.shape[0]
    return jax.lax.dynamic_update_slice(buffer, rows, (start, 0, 0))


def _loss(
    network: Network, target: Network, batch: jax.Array, config: DQNConfig
) -> tuple[jax.Array, jax.Array]:
    """Huber loss of the temporal difference: its sum over agents, and each agent's mean."""
    n_features = (batch.shape[-1] - 3) // 2
    observation, next_observation = batch[..., :n_features], batch[..., n_features:-3]
    action, reward, continues = batch[..., -3], batch[..., -2], batch[..., -1]
    goal = reward
    if config.discount > 0.0:
        future = apply_networks(target, next_observation).max(axis=-1)
        goal = reward + config.discount * continues * jax.lax.stop_gradient(future)
    values = apply_networks(network, observation)
    chosen = action[..., None] == jnp.arange(values.shape[-1], dtype=jnp.float32)
    error = jnp.where(chosen, values, 0.0).sum(axis=-1) - goal
    size = jnp.abs(error)
    huber = jnp.where(size < 1.0, 0.5 * error**2, size - 0.5)
    per_agent = huber.mean(axis=1)
    return per_agent.sum(), per_agent


def _adam(
    config: DQNConfig, state: DQNState, gradient: Network, n_updates: jax.Array
) -> tuple[Network, Network, Network]:
    """One step of Adam, with every agent's gradient clipped by its own norm."""
    squares = [(g**2).reshape(g.shape[0], -1).sum(axis=1) for g in gradient.values()]
    norm = jnp.sqrt(jnp.stack(squares).sum(axis=0) + 1e-12)
    scale = jnp.minimum(1.0, config.max_gradient_norm / norm)
    count = n_updates.astype(jnp.float32)
    rate = config.learning_rate * jnp.sqrt(1.0 - 0.999**count) / (1.0 - 0.9**count)
    if config.anneal_steps:
        rate = rate * (1.0 - 0.9 * jnp.minimum(count / config.anneal_steps, 1.0))
    network, momentum, square = {}, {}, {}
    for name, values in gradient.items():
        clipped = values * scale.reshape((-1,) + (1,) * (values.ndim - 1))
        momentum[name] = 0.9 * state.momentum[name] + 0.1 * clipped
        square[name] = 0.999 * state.square[name] + 0.001 * clipped**2
        step = momentum[name] / (jnp.sqrt(square[name]) + 1e-8)
        network[name] = state.network[name] - rate * step
    return network, momentum, square


def _copy_target(state: DQNState) -> DQNState:
    return state._replace(target=jax.tree.map(jnp.copy, state.network))
