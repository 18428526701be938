"""A ring buffer laid out step by step: one slice writes what every agent saw.

One gather then reads a batch for all of them; they share the positions they replay, not what lies
there. Positions come from a stream that depends on no agent's seed, so that sharing them ties no
agent to another.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from parity311.agents.base import Rollout

PLACES_SEED = 0x9E3779B9
"""Seed of the positions to replay; any number no agent is likely to have as its own."""


class Batch(NamedTuple):
    """Transitions to learn from, (agents, batch, ...)."""

    observation: jax.Array
    next_observation: jax.Array
    action: jax.Array
    """float32: it travels in one array with the rest"""
    reward: jax.Array
    """(agents, batch), or (agents, batch, n_rewards) where the buffer keeps vectors"""
    continues: jax.Array
    """0 where the process itself ended"""


def empty_buffer(
    size: int, n_agents: int, n_environments: int, n_features: int, n_rewards: int = 1
) -> jax.Array:
    """Room for whole steps of every environment, (rows, agents, 2 n_features + 2 + n_rewards)."""
    n_rows = max(size // n_environments, 1) * n_environments
    return jnp.zeros((n_rows, n_agents, 2 * n_features + 2 + n_rewards))


def pack_rows(rollout: Rollout, keeps_vectors: bool = False) -> jax.Array:
    """First step of a rollout as rows (environments, agents, width)."""
    continues = 1.0 - rollout.terminated[0].astype(jnp.float32)
    if keeps_vectors:
        assert rollout.rewards is not None
        reward = rollout.rewards[0]
    else:
        reward = rollout.reward[0][..., None]
    action = rollout.action[0].astype(jnp.float32)[..., None]
    rows = jnp.concatenate(
        [
            rollout.observation[0],
            rollout.next_observation[0],
            action,
            reward,
            continues[..., None],
        ],
        axis=-1,
    )
    return jnp.swapaxes(rows, 0, 1)


def write_rows(buffer: jax.Array, n_steps: jax.Array, rows: jax.Array) -> jax.Array:
    """Write one step over the oldest; `n_steps` were written before."""
    start = (n_steps * rows.shape[0]) % buffer.shape[0]
    return jax.lax.dynamic_update_slice(buffer, rows, (start, 0, 0))


def draw_places(n_updates: jax.Array, batch_size: int, n_filled: jax.Array | int) -> jax.Array:
    """Places (batch_size,) to replay in this update, drawn with replacement, for all agents."""
    key = jax.random.fold_in(jax.random.key(PLACES_SEED), n_updates)
    return jax.random.randint(key, (batch_size,), 0, n_filled)


def sample_rows(
    buffer: jax.Array, n_steps: jax.Array, n_environments: int, batch_size: int
) -> jax.Array:
    """Rows drawn with replacement from what was written, (agents, batch_size, width)."""
    n_filled = jnp.minimum(n_steps * n_environments, buffer.shape[0])
    places = draw_places(n_steps, batch_size, n_filled)
    # Without the barrier the compiler draws the places and gathers anew for each use of a row.
    return jax.lax.optimization_barrier(jnp.swapaxes(buffer[places], 0, 1))


def unpack_rows(rows: jax.Array, n_features: int) -> Batch:
    """Take rows (agents, batch, width) apart; a single reward loses its axis."""
    reward = rows[..., 2 * n_features + 1 : -1]
    return Batch(
        observation=rows[..., :n_features],
        next_observation=rows[..., n_features : 2 * n_features],
        action=rows[..., 2 * n_features],
        reward=reward[..., 0] if reward.shape[-1] == 1 else reward,
        continues=rows[..., -1],
    )


def value_of_taken(values: jax.Array, action: jax.Array) -> jax.Array:
    """Value (agents, batch) of the action taken, from values (agents, batch, n_actions)."""
    chosen = action[..., None] == jnp.arange(values.shape[-1], dtype=jnp.float32)
    return jnp.where(chosen, values, 0.0).sum(axis=-1)


def huber(error: jax.Array) -> jax.Array:
    """Quadratic below 1, linear beyond."""
    size = jnp.abs(error)
    return jnp.where(size < 1.0, 0.5 * error**2, size - 0.5)


def epsilon_greedy(keys: jax.Array, values: jax.Array, epsilon: jax.Array) -> jax.Array:
    """Best action, or with chance ε any; keys (agents,), values (agents, environments, n)."""
    # One number decides whether to explore and, if so, where to.
    draw = jax.vmap(lambda key: jax.random.uniform(key, values.shape[1:2]))(keys)
    n_actions = values.shape[-1]
    anywhere = jnp.floor(draw / jnp.maximum(epsilon, 1e-9) * n_actions).astype(jnp.int32)
    greedy = jnp.argmax(values, axis=-1).astype(jnp.int32)
    return jnp.where(draw < epsilon, jnp.minimum(anywhere, n_actions - 1), greedy)


def falling_epsilon(n_steps: jax.Array, start: float, end: float, over: int) -> jax.Array:
    """ε after `n_steps`, falling in a straight line."""
    return start + jnp.minimum(n_steps / over, 1.0) * (end - start)
