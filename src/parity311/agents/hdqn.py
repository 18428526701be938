"""Hierarchical DQN: first a category, then what is done within it.

The paper: "selects complaint category and then a specific complaint", 2×256 units. A domain here
decides about one complaint, or one office, at a time, so there is no second complaint to choose.
Our reading: the upper level chooses the CATEGORY of what is done (the trade that is called in
housing; elsewhere: send somebody or not), the lower level the action within it. Both levels value
by what follows. The upper level learns a category's value only from steps in which the lower level
took the action it now prefers there (intra-option learning, Sutton et al. 1999): otherwise
exploration below would look like a bad category above. Where every action has a category of its own
this is DQN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.agents import replay
from parity311.agents.adam import adam_step, zeros_like
from parity311.agents.base import Agent, Rollout
from parity311.agents.dqn import DQNConfig
from parity311.agents.entry import AgentEntry
from parity311.agents.forward import NOT_ALLOWED
from parity311.agents.networks import (
    Network,
    apply_network,
    apply_networks,
    init_network,
    split_each,
)
from parity311.agents.settings import Categories, Layers
from parity311.errors import TrainingError

ENTRY = AgentEntry(
    says="two levels: a category, then an action",
    config="HDQNConfig",
    maker="make_hdqn",
    title="HDQN",
)


@dataclass(frozen=True)
class HDQNConfig(DQNConfig):
    """Hyper-parameters of DQN, and the categories."""

    hidden: Layers = (256, 256)
    """units of the hidden layers of both levels (the paper's)"""
    categories: Categories = ()
    """category of each action, from 0; empty: a category for each"""


class HDQNState(NamedTuple):
    """Two levels, each with its target and moments; index 0 is the upper one."""

    networks: tuple[Network, Network]
    targets: tuple[Network, Network]
    momentum: tuple[Network, Network]
    square: tuple[Network, Network]
    buffer: jax.Array
    n_steps: jax.Array


@cache
def make_hdqn(config: HDQNConfig | None = None) -> Agent:
    """Make hierarchical DQN with these hyper-parameters."""
    settings = config or HDQNConfig()
    if settings.is_double or settings.averaging > 0.0:
        raise TrainingError(
            "Settings is_double and averaging belong to DQN and CQL; leave them out for HDQN."
        )
    return Agent(
        name="hdqn",
        init=partial(_init, settings),
        explore=partial(_explore, settings),
        decide=_decide,
        margin=_margin,
        update=partial(_update, settings),
        refresh=lambda state: state._replace(targets=jax.tree.map(jnp.copy, state.networks)),
        policy=partial(_policy, settings),
        rollout_length=1,
        refresh_every=settings.target_every,
        config=settings,
    )


def _categories(config: HDQNConfig, n_actions: int) -> np.ndarray:
    if not config.categories:
        return np.arange(n_actions, dtype=np.int32)
    found = np.asarray(config.categories, np.int32)
    if len(found) != n_actions or set(found.tolist()) != set(range(found.max() + 1)):
        raise TrainingError(
            f"Categories {config.categories} were given for {n_actions} actions; name one for each "
            "action, numbered from 0 without gaps."
        )
    return found


def _init(
    config: HDQNConfig,
    keys: jax.Array,
    n_environments: int,
    n_features: int,
    n_actions: int,
) -> HDQNState:
    n_categories = int(_categories(config, n_actions).max()) + 1
    keys_upper, keys_lower = split_each(keys, 2)
    networks = (
        init_network(keys_upper, (n_features, *config.hidden, n_categories)),
        init_network(keys_lower, (n_features, *config.hidden, n_actions)),
    )
    return HDQNState(
        networks=networks,
        targets=jax.tree.map(jnp.copy, networks),
        momentum=(zeros_like(networks[0]), zeros_like(networks[1])),
        square=(zeros_like(networks[0]), zeros_like(networks[1])),
        buffer=replay.empty_buffer(config.buffer_size, keys.shape[0], n_environments, n_features),
        n_steps=jnp.int32(0),
    )


def _policy(config: HDQNConfig, state: HDQNState) -> dict[str, Any]:
    n_agents, n_actions = state.networks[1][f"bias_{len(config.hidden)}"].shape
    categories = jnp.asarray(_categories(config, n_actions))
    return {
        "manager": state.networks[0],
        "worker": state.networks[1],
        "categories": jnp.broadcast_to(categories, (n_agents, n_actions)),
    }


def mask_category(
    category_values: jax.Array, action_values: jax.Array, categories: Any
) -> jax.Array:
    """Values of the actions of the best category; the others are out of reach."""
    best = category_values.argmax(axis=-1)
    return jnp.where(best[..., None] == categories, action_values, NOT_ALLOWED)


def _score(policy: dict[str, Any], observation: jax.Array) -> jax.Array:
    upper = apply_network(policy["manager"], observation)
    lower = apply_network(policy["worker"], observation)
    return mask_category(upper, lower, policy["categories"])


def _decide(policy: dict[str, Any], key: jax.Array, observation: jax.Array) -> jax.Array:
    del key
    return jnp.argmax(_score(policy, observation)).astype(jnp.int32)


def _margin(policy: dict[str, Any], observation: jax.Array) -> jax.Array:
    """By how much the category of action 1 is valued above that of action 0."""
    upper = apply_network(policy["manager"], observation)
    categories = policy["categories"]
    lower = apply_network(policy["worker"], observation)
    is_same = categories[0] == categories[1]
    return jnp.where(is_same, lower[1] - lower[0], upper[categories[1]] - upper[categories[0]])


def _explore(
    config: HDQNConfig, keys: jax.Array, state: HDQNState, observation: jax.Array
) -> jax.Array:
    epsilon = replay.falling_epsilon(
        state.n_steps, config.epsilon_start, config.epsilon_end, config.epsilon_steps
    )
    lower = apply_networks(state.networks[1], observation)
    upper = apply_networks(state.networks[0], observation)
    values = mask_category(upper, lower, _categories(config, lower.shape[-1]))
    return replay.epsilon_greedy(keys, values, epsilon)


def _update(
    config: HDQNConfig, keys: jax.Array, state: HDQNState, rollout: Rollout
) -> tuple[HDQNState, dict[str, jax.Array]]:
    del keys
    rows = replay.pack_rows(rollout)
    buffer = replay.write_rows(state.buffer, state.n_steps, rows)
    n_steps = state.n_steps + 1
    sampled = replay.sample_rows(buffer, n_steps, rows.shape[0], config.batch_size)
    batch = replay.unpack_rows(sampled, rollout.observation.shape[-1])
    gradients, loss = jax.grad(_loss, has_aux=True)(state.networks, state.targets, batch, config)
    moved = [
        adam_step(
            state.networks[level],
            state.momentum[level],
            state.square[level],
            gradients[level],
            n_steps,
            learning_rate=config.learning_rate,
            max_gradient_norm=config.max_gradient_norm,
            anneal_steps=config.anneal_steps,
        )
        for level in range(2)
    ]
    state = HDQNState(
        networks=(moved[0][0], moved[1][0]),
        targets=state.targets,
        momentum=(moved[0][1], moved[1][1]),
        square=(moved[0][2], moved[1][2]),
        buffer=buffer,
        n_steps=n_steps,
    )
    return state, {"loss": loss}


def _loss(
    networks: tuple[Network, Network],
    targets: tuple[Network, Network],
    batch: replay.Batch,
    config: HDQNConfig,
) -> tuple[jax.Array, jax.Array]:
    """Both levels aim at the reward and the value of the best category that follows."""
    goal = batch.reward
    if config.discount > 0.0:
        future = apply_networks(targets[0], batch.next_observation).max(axis=-1)
        goal = goal + config.discount * batch.continues * jax.lax.stop_gradient(future)
    lower = apply_networks(networks[1], batch.observation)
    upper = apply_networks(networks[0], batch.observation)
    categories = jnp.asarray(_categories(config, lower.shape[-1]))
    action = batch.action.astype(jnp.int32)
    category = categories[action]
    within = jnp.where(category[..., None] == categories, lower, NOT_ALLOWED).argmax(axis=-1)
    is_preferred = (within == action).astype(jnp.float32)
    lower_loss = replay.huber(replay.value_of_taken(lower, batch.action) - goal)
    value = replay.value_of_taken(upper, category.astype(jnp.float32))
    per_agent = (lower_loss + is_preferred * replay.huber(value - goal)).mean(axis=1)
    return per_agent.sum(), per_agent
