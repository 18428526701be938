"""Tables over discretised observations, for agents without a network.

Every feature is rounded to a multiple of the bin width, and the rounded observation is hashed to a
row. So a table needs no bounds and no list of states, and its size does not grow with the number
of features; two states share a row with chance 1 / rows. NumPy gives the same rows (`forward`).
"""

from __future__ import annotations

from typing import TypeAlias

import jax
import jax.numpy as jnp

from parity311.agents.forward import hash_factors

Table: TypeAlias = dict[str, jax.Array]
"""table (agents, n_rows, n_actions) and bin_width (agents,); one agent's has no agent axis."""


def row_of(observation: jax.Array, bin_width: float | jax.Array, n_rows: int) -> jax.Array:
    """Row (...) that an observation (..., n_features) falls into."""
    cells = jnp.rint(observation / bin_width).astype(jnp.int32).astype(jnp.uint32)
    mixed = (cells * jnp.asarray(hash_factors(observation.shape[-1]))).sum(-1, dtype=jnp.uint32)
    mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(0x85EBCA6B)
    mixed = mixed ^ (mixed >> 13)
    return (mixed % jnp.uint32(n_rows)).astype(jnp.int32)


def score_actions(policy: Table, observation: jax.Array) -> jax.Array:
    """Entries (n_actions,) of one agent's table for one observation."""
    table = jnp.asarray(policy["table"])
    return table[row_of(observation, policy["bin_width"], table.shape[0])]


def decide_by_table(policy: Table, key: jax.Array, observation: jax.Array) -> jax.Array:
    """Action with the largest entry."""
    del key
    return jnp.argmax(score_actions(policy, observation)).astype(jnp.int32)


def table_margin(policy: Table, observation: jax.Array) -> jax.Array:
    """By how much action 1's entry exceeds action 0's."""
    entries = score_actions(policy, observation)
    return entries[1] - entries[0]


def make_policy(table: jax.Array, bin_width: float) -> Table:
    """Policy of every agent from their tables."""
    return {"table": table, "bin_width": jnp.full(table.shape[0], bin_width)}
