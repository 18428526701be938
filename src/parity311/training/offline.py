"""Learning from logged decisions: the log takes the place of the environment, the loop stays.

Rewards in a log are vectors, so one log teaches every preference. In the mode `dual` the coverage
price a decision was paid by is part of what was seen: the log then teaches prices like those it
was written under, and others need a new simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.agents import agent_config, all_agents, make_agent
from parity311.agents.base import Agent, Rollout
from parity311.agents.networks import split_each
from parity311.agents.replay import draw_places
from parity311.errors import TrainingError
from parity311.mdp.contract import N_REWARDS, N_STRATA
from parity311.mdp.harness import Harness
from parity311.training.blocks import Progress, run_blocks
from parity311.training.checkpoint import Checkpoints, digest_arrays
from parity311.training.loop import Trained, check_preferences, identify


class Decisions(NamedTuple):
    """Logged decisions in order, (episodes, steps, ...) each; NumPy arrays."""

    observation: np.ndarray
    action: np.ndarray
    propensity: np.ndarray
    """chance that the behaviour policy gave the action it took"""
    reward: np.ndarray
    """(..., 4)"""
    terminated: np.ndarray
    truncated: np.ndarray
    next_observation: np.ndarray
    """what the action led to, before any reset"""
    n_actions: int
    stratum: np.ndarray | None = None
    """stratum of the complaint in hand, -1 where a decision is about nobody in particular"""


class Log(NamedTuple):
    """Decisions as rows, for the device; without episodes, because transitions stand alone."""

    observation: jax.Array
    action: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    next_observation: jax.Array


class OfflineCarry(NamedTuple):
    """What a block hands to the next."""

    agent: Any
    keys: jax.Array
    """(agents,) one stream per agent"""
    n_updates: jax.Array


def train_offline(
    harness: Harness,
    decisions: Any,
    agent: Agent,
    preferences: Sequence[Sequence[float]] | np.ndarray,
    seeds: Sequence[int],
    steps: int,
    *,
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
    stop_after_s: float = float("inf"),
) -> Trained:
    """Train one agent per preference and seed from the same log.

    Parameters
    ----------
    harness
        The domain as the policy saw it when the decisions were logged.
    decisions
        As `parity311.adapters.datasets.log_decisions` keeps them.
    steps
        Updates, each from a batch drawn from the log; an agent without a batch size (cloning)
        counts the whole log in one.
    """
    if agent.learn is None:
        others = [name for name in all_agents() if make_agent(name, agent_config(name)).learn]
        raise TrainingError(
            f"Agent {agent.name!r} must act to learn; from a log learn {', '.join(others)}."
        )
    weights = check_preferences(preferences)
    if not seeds or steps < 1:
        raise TrainingError(
            f"Training got {len(seeds)} seeds and {steps} steps; each must be at least 1."
        )
    log = _read(harness, decisions)
    all_weights = np.repeat(weights, len(seeds), axis=0)
    all_seeds = np.tile(np.asarray(seeds), len(weights))
    n_rows = log.action.shape[0]
    batch_size = getattr(agent.config, "batch_size", n_rows)
    n_blocks = -(-steps // agent.refresh_every)
    carry, curve = run_blocks(
        partial(_learn_block, agent, batch_size, log, jnp.asarray(all_weights)),
        _start(harness, agent, jnp.asarray(all_seeds, jnp.uint32)),
        n_blocks=n_blocks,
        steps_per_block=agent.refresh_every,
        identity={
            **identify(harness, agent, all_weights, all_seeds),
            "log": digest_arrays(log),
        },
        progress=progress,
        checkpoints=checkpoints,
        stop_after_s=stop_after_s,
    )
    return Trained(
        agent=agent,
        harness=harness,
        policies=jax.tree.map(np.asarray, agent.policy(carry.agent)),
        preferences=all_weights,
        seeds=all_seeds,
        prices=np.zeros((len(all_seeds), N_STRATA), np.float32),
        curve=curve,
        is_whole=len(curve) == n_blocks,
    )


def _read(harness: Harness, decisions: Any) -> Log:
    """Rows of a log, or an error that says why it is not one of this domain."""
    n_features = decisions.observation.shape[-1]
    if n_features != harness.n_features or decisions.n_actions != harness.n_actions:
        raise TrainingError(
            f"The log has {n_features} features and {decisions.n_actions} actions; "
            f"{harness.domain.slug} as it is played here has {harness.n_features} "
            f"({', '.join(harness.observation_names)}) and {harness.n_actions}. Log it with the "
            "same observation and action set."
        )
    if decisions.reward.shape[-1] != N_REWARDS or decisions.action.size == 0:
        raise TrainingError(
            f"The log has {decisions.action.size} decisions with rewards of length "
            f"{decisions.reward.shape[-1]}; it needs decisions, with {N_REWARDS} rewards each."
        )

    def rows(values: np.ndarray, dtype: Any = jnp.float32) -> jax.Array:
        n_leading = decisions.action.ndim
        return jnp.asarray(values.reshape(-1, *values.shape[n_leading:]), dtype)

    return Log(
        observation=rows(decisions.observation),
        action=rows(decisions.action, jnp.int32),
        reward=rows(decisions.reward),
        terminated=rows(decisions.terminated, bool),
        truncated=rows(decisions.truncated, bool),
        next_observation=rows(decisions.next_observation),
    )


@partial(jax.jit, static_argnames=("harness", "agent"))
def _start(harness: Harness, agent: Agent, seeds: jax.Array) -> OfflineCarry:
    keys_agent, keys_learn = split_each(jax.vmap(jax.random.key)(seeds), 2)
    state = agent.init(keys_agent, 1, harness.n_features, harness.n_actions)
    return OfflineCarry(state, keys_learn, jnp.int32(0))


@partial(jax.jit, static_argnames=("agent", "batch_size"), donate_argnames=("carry",))
def _learn_block(
    agent: Agent, batch_size: int, log: Log, preferences: jax.Array, carry: OfflineCarry
) -> tuple[OfflineCarry, dict[str, jax.Array]]:
    """Refresh once, then learn `refresh_every` times."""
    n_rows, n_agents = log.action.shape[0], preferences.shape[0]
    carry = carry._replace(agent=agent.refresh(carry.agent))
    assert agent.learn is not None
    learn = agent.learn

    def body(carry: OfflineCarry, _: None) -> tuple[OfflineCarry, dict[str, jax.Array]]:
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(carry.keys, carry.n_updates)
        if batch_size >= n_rows:
            places = jnp.arange(n_rows)
        else:
            places = draw_places(carry.n_updates, batch_size, n_rows)
        rollout = _replay(log, places, preferences, n_agents)
        state, figures = learn(keys, carry.agent, rollout)
        figures = {"reward": rollout.reward.mean(axis=(0, 2)), **figures}
        return OfflineCarry(state, carry.keys, carry.n_updates + 1), figures

    carry, figures = jax.lax.scan(body, carry, None, length=agent.refresh_every)
    return carry, {name: values.mean(axis=0) for name, values in figures.items()}


def _replay(log: Log, places: jax.Array, preferences: jax.Array, n_agents: int) -> Rollout:
    """The same rows for every agent, (1, agents, batch, ...), each paid by its preference."""

    def spread(values: jax.Array) -> jax.Array:
        chosen = values[places]
        return jnp.broadcast_to(chosen, (1, n_agents, *chosen.shape))

    return Rollout(
        observation=spread(log.observation),
        action=spread(log.action),
        reward=jnp.einsum("bk,ak->ab", log.reward[places], preferences)[None],
        terminated=spread(log.terminated),
        truncated=spread(log.truncated),
        next_observation=spread(log.next_observation),
        rewards=spread(log.reward),
    )
