"""Tabular Q-learning over discretised observations: Q ← Q + α (r + γ max Q' − Q).

The paper's α = 0.1, γ = 0.95, ε from 1 to 0.05. How observations are discretised it does not say:
here each feature is rounded to a multiple of `bin_width`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from parity311.agents import replay, tables
from parity311.agents.base import Agent, Rollout
from parity311.agents.entry import AgentEntry
from parity311.agents.settings import Count, Share, Size, StepSize

ENTRY = AgentEntry(
    says="tabular Q-learning on discretised observations",
    config="TDConfig",
    maker="make_td",
    title="TD",
    probes=("values", "actions"),
)


@dataclass(frozen=True)
class TDConfig:
    """Hyper-parameters; the paper's where it names them."""

    learning_rate: StepSize = 0.1
    """α: share of the temporal difference that a visit moves the table by"""
    discount: Share = 0.95
    """γ"""
    epsilon_start: Share = 1.0
    """share of random actions at the start"""
    epsilon_end: Share = 0.05
    """share of random actions in the end"""
    epsilon_steps: Count = 10_000
    """steps over which it falls"""
    batch_size: Count = 8
    """logged transitions in an update, where it learns from a log"""
    bin_width: Size = 0.1
    """features are rounded to multiples of this"""
    n_rows: Count = 65_536
    """rows of the table; states beyond share rows"""


class TDState(NamedTuple):
    """A table for every agent."""

    table: jax.Array
    """(agents, n_rows, n_actions)"""
    n_steps: jax.Array


@cache
def make_td(config: TDConfig | None = None) -> Agent:
    """Make tabular Q-learning with these hyper-parameters."""
    settings = config or TDConfig()
    return Agent(
        name="td",
        init=partial(_init, settings),
        explore=partial(_explore, settings),
        decide=tables.decide_by_table,
        margin=tables.table_margin,
        update=partial(_update, settings),
        refresh=lambda state: state,
        policy=partial(_policy, settings),
        rollout_length=1,
        refresh_every=500,
        learn=partial(_update, settings),
        config=settings,
    )


def _policy(config: TDConfig, state: TDState) -> tables.Table:
    return tables.make_policy(state.table, config.bin_width)


def _init(
    config: TDConfig,
    keys: jax.Array,
    n_environments: int,
    n_features: int,
    n_actions: int,
) -> TDState:
    del n_environments, n_features
    return TDState(jnp.zeros((keys.shape[0], config.n_rows, n_actions)), jnp.int32(0))


def _values(config: TDConfig, table: jax.Array, observation: jax.Array) -> jax.Array:
    """Entries (agents, batch, n_actions) for observations (agents, batch, n_features)."""
    rows = tables.row_of(observation, config.bin_width, config.n_rows)
    return jnp.take_along_axis(table, rows[..., None], axis=1)


def _explore(
    config: TDConfig, keys: jax.Array, state: TDState, observation: jax.Array
) -> jax.Array:
    epsilon = replay.falling_epsilon(
        state.n_steps, config.epsilon_start, config.epsilon_end, config.epsilon_steps
    )
    return replay.epsilon_greedy(keys, _values(config, state.table, observation), epsilon)


def _update(
    config: TDConfig, keys: jax.Array, state: TDState, rollout: Rollout
) -> tuple[TDState, dict[str, jax.Array]]:
    del keys
    seen, action = rollout.observation[0], rollout.action[0]
    continues = 1.0 - rollout.terminated[0].astype(jnp.float32)
    future = _values(config, state.table, rollout.next_observation[0]).max(axis=-1)
    goal = rollout.reward[0] + config.discount * continues * future
    values = _values(config, state.table, seen)
    difference = goal - jnp.take_along_axis(values, action[..., None], axis=2)[..., 0]
    rows = tables.row_of(seen, config.bin_width, config.n_rows)
    agents = jnp.arange(rows.shape[0])[:, None]
    table = state.table.at[agents, rows, action].add(config.learning_rate * difference)
    return TDState(table, state.n_steps + 1), {"loss": (difference**2).mean(axis=1)}
