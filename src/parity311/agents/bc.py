"""Behavioural cloning: the action most often logged in a discretised state.

It estimates what was decided, not what should be. A state the log never saw gets the action that
is most frequent over all. It learns only from logged decisions (`training.offline`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from parity311.agents import tables
from parity311.agents.base import Agent, Rollout, refuse_to_act
from parity311.agents.entry import AgentEntry
from parity311.agents.settings import Count, Size

ENTRY = AgentEntry(
    says="the most frequent logged action",
    config="BCConfig",
    maker="make_bc",
    title="BC",
    needs_log=True,
    probes=("log",),
)


@dataclass(frozen=True)
class BCConfig:
    """How observations are discretised; the paper does not say."""

    bin_width: Size = 0.1
    """features are rounded to multiples of this"""
    n_rows: Count = 65_536
    """rows of the table; states beyond share rows"""


class BCState(NamedTuple):
    """How often each action was taken, by row."""

    counts: jax.Array
    """(agents, n_rows, n_actions)"""


@cache
def make_bc(config: BCConfig | None = None) -> Agent:
    """Make behavioural cloning with this discretisation."""
    settings = config or BCConfig()
    return Agent(
        name="bc",
        init=partial(_init, settings),
        explore=refuse_to_act,
        decide=tables.decide_by_table,
        margin=tables.table_margin,
        update=refuse_to_act,
        refresh=lambda state: state,
        policy=partial(_policy, settings),
        rollout_length=1,
        refresh_every=1,
        learn=partial(_learn, settings),
        config=settings,
    )


def _init(
    config: BCConfig,
    keys: jax.Array,
    n_environments: int,
    n_features: int,
    n_actions: int,
) -> BCState:
    del n_environments, n_features
    return BCState(jnp.zeros((keys.shape[0], config.n_rows, n_actions)))


def _learn(
    config: BCConfig, keys: jax.Array, state: BCState, rollout: Rollout
) -> tuple[BCState, dict[str, jax.Array]]:
    """Count, and say how often the logged action was not the most frequent one so far."""
    del keys
    rows = tables.row_of(rollout.observation[0], config.bin_width, config.n_rows)
    agents = jnp.arange(rows.shape[0])[:, None]
    counts = state.counts.at[agents, rows, rollout.action[0]].add(1.0)
    likeliest = jnp.take_along_axis(counts, rows[..., None], axis=1).argmax(axis=-1)
    return BCState(counts), {"loss": (likeliest != rollout.action[0]).mean(axis=1)}


def _policy(config: BCConfig, state: BCState) -> tables.Table:
    """Shares of the actions by row; the log's over all break ties and fill empty rows."""
    overall = state.counts.sum(axis=1, keepdims=True)
    overall = overall / jnp.maximum(overall.sum(axis=-1, keepdims=True), 1.0)
    mixed = state.counts + 1e-3 * overall
    shares = mixed / jnp.maximum(mixed.sum(axis=-1, keepdims=True), 1e-9)
    return tables.make_policy(shares, config.bin_width)
