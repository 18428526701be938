"""One network for every preference: it sees α and values all four rewards (Abels et al. 2019).

The network maps (observation, α) to a vector of four values for each action; α weights them when
an action is chosen. Transitions keep vector rewards and carry no α: it is drawn anew whenever one
is replayed, so a single stream of experience teaches every preference. Prices of coverage are part
of what is seen, so re-labelling stays right in the mode `dual` too, as long as every price was
visited: therefore environments play with α of their own, changed now and then.

For a given α the network is a plain one on the plain observation (`network_for`): α's part of the
first layer is a bias, and the last layer's four columns per action become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.agents import replay
from parity311.agents.adam import adam_step, zeros_like
from parity311.agents.base import Agent, Rollout
from parity311.agents.dqn import DQNConfig, action_margin, decide_greedily
from parity311.agents.entry import AgentEntry
from parity311.agents.networks import Network, apply_networks, init_network, split_each
from parity311.agents.settings import Corners, Count, CountOrNone, Share

N_WEIGHTS = 4
EQUITY = 2
"""Place of equity among the four rewards (speed, cost, equity, retention)."""

ENTRY = AgentEntry(
    says="one network for all preferences",
    config="ConditionedConfig",
    maker="make_conditioned",
    covers_preferences=True,
    inherits="dqn",
    probes=("preferences",),
)


@dataclass(frozen=True)
class ConditionedConfig(DQNConfig):
    """Hyper-parameters of DQN, and which preferences are covered."""

    corners: Corners = (
        (1.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 0.0),
        (0.0, 0.0, 1.0, 0.0),
        (0.0, 0.0, 0.0, 1.0),
    )
    """preferences between which all others are covered; by default the whole simplex"""
    share_without_equity: Share = 0.25
    """share of draws that give equity no weight at all, where a corner allows it"""
    hold_steps: Count = 2_000
    """mean number of steps for which an environment plays one preference: prices settle in it"""
    n_coverage_features: CountOrNone = 1
    """last features of an observation, which only those with a weight on equity see"""


class ConditionedState(NamedTuple):
    """Everything an update needs."""

    network: Network
    """(n_features + 4) inputs, (n_actions × 4) outputs"""
    target: Network
    momentum: Network
    square: Network
    buffer: jax.Array
    """(rows, agents, 2 n_features + 6): vector rewards"""
    preferences: jax.Array
    """(agents, environments, 4) what each environment plays for"""
    n_steps: jax.Array


@cache
def make_conditioned(config: ConditionedConfig | None = None) -> Agent:
    """Make the preference-conditioned agent with these hyper-parameters."""
    settings = config or ConditionedConfig()
    return Agent(
        name="conditioned",
        init=partial(_init, settings),
        explore=partial(_explore, settings),
        decide=decide_greedily,
        margin=action_margin,
        update=partial(_update, settings),
        refresh=lambda state: state._replace(target=jax.tree.map(jnp.copy, state.network)),
        policy=lambda state: state.network,
        rollout_length=1,
        refresh_every=settings.target_every,
        read_off=network_for,
        config=settings,
    )


def network_for(network: Network, preference: Sequence[float] | np.ndarray) -> Network:
    """The plain network (no agent axis) that one preference makes of the conditioned one."""
    weights = np.asarray(preference, np.float32)
    plain = {name: np.asarray(values) for name, values in network.items()}
    last = len(plain) // 2 - 1
    first = plain["weight_0"]
    plain["bias_0"] = plain["bias_0"] + weights @ first[-N_WEIGHTS:]
    plain["weight_0"] = first[:-N_WEIGHTS]
    for name in (f"weight_{last}", f"bias_{last}"):
        values = plain[name]
        plain[name] = values.reshape(*values.shape[:-1], -1, N_WEIGHTS) @ weights
    return {name: jnp.asarray(values) for name, values in plain.items()}


def draw_preferences(config: ConditionedConfig, keys: jax.Array, n: int) -> jax.Array:
    """Preferences (agents, n, 4), spread evenly between the corners; keys (agents,)."""
    return jax.vmap(lambda key: _draw_preferences(config, key, n))(keys)


def _draw_preferences(config: ConditionedConfig, key: jax.Array, n: int) -> jax.Array:
    corners = np.asarray(config.corners, np.float32)
    has_equity = corners[:, EQUITY] > 0
    key_shares, key_which = jax.random.split(key)
    shares = jax.random.exponential(key_shares, (n, len(corners)))
    if has_equity.any() and not has_equity.all():
        is_without = jax.random.uniform(key_which, (n, 1)) < config.share_without_equity
        shares = jnp.where(is_without & has_equity, 0.0, shares)
    shares = shares / shares.sum(axis=-1, keepdims=True)
    return shares @ jnp.asarray(corners)


def _init(
    config: ConditionedConfig,
    keys: jax.Array,
    n_environments: int,
    n_features: int,
    n_actions: int,
) -> ConditionedState:
    keys_network, keys_preferences = split_each(keys, 2)
    sizes = (n_features + N_WEIGHTS, *config.hidden, n_actions * N_WEIGHTS)
    network = init_network(keys_network, sizes)
    return ConditionedState(
        network=network,
        target=jax.tree.map(jnp.copy, network),
        momentum=zeros_like(network),
        square=zeros_like(network),
        buffer=replay.empty_buffer(
            config.buffer_size, keys.shape[0], n_environments, n_features, N_WEIGHTS
        ),
        preferences=draw_preferences(config, keys_preferences, n_environments),
        n_steps=jnp.int32(0),
    )


def _values(
    config: ConditionedConfig, network: Network, observation: jax.Array, preference: jax.Array
) -> jax.Array:
    """Values (agents, batch, n_actions, 4) of the four rewards under each row's preference."""
    is_visible = (preference[..., EQUITY, None] > 0).astype(jnp.float32)
    n_plain = observation.shape[-1] - config.n_coverage_features
    seen = [observation[..., :n_plain], observation[..., n_plain:] * is_visible, preference]
    out = apply_networks(network, jnp.concatenate(seen, axis=-1))
    return out.reshape(*out.shape[:-1], -1, N_WEIGHTS)


def _explore(
    config: ConditionedConfig, keys: jax.Array, state: ConditionedState, observation: jax.Array
) -> jax.Array:
    values = _values(config, state.network, observation, state.preferences)
    epsilon = replay.falling_epsilon(
        state.n_steps, config.epsilon_start, config.epsilon_end, config.epsilon_steps
    )
    scalar = jnp.einsum("aenk,aek->aen", values, state.preferences)
    return replay.epsilon_greedy(keys, scalar, epsilon)


def _update(
    config: ConditionedConfig, keys: jax.Array, state: ConditionedState, rollout: Rollout
) -> tuple[ConditionedState, dict[str, jax.Array]]:
    keys_relabel, keys_change, keys_new = split_each(keys, 3)
    rows = replay.pack_rows(rollout, keeps_vectors=True)
    buffer = replay.write_rows(state.buffer, state.n_steps, rows)
    n_steps = state.n_steps + 1
    sampled = replay.sample_rows(buffer, n_steps, rows.shape[0], config.batch_size)
    batch = replay.unpack_rows(sampled, rollout.observation.shape[-1])
    preference = draw_preferences(config, keys_relabel, batch.action.shape[1])
    gradient, loss = jax.grad(_loss, has_aux=True)(
        state.network, state.target, batch, preference, config
    )
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
    n = state.preferences.shape[1]
    draw = jax.vmap(lambda key: jax.random.uniform(key, (n, 1)))
    changes = draw(keys_change) < 1.0 / config.hold_steps
    drawn = draw_preferences(config, keys_new, n)
    moved = ConditionedState(
        network=network,
        target=state.target,
        momentum=momentum,
        square=square,
        buffer=buffer,
        preferences=jnp.where(changes, drawn, state.preferences),
        n_steps=n_steps,
    )
    return moved, {"loss": loss}


def _loss(
    network: Network,
    target: Network,
    batch: replay.Batch,
    preference: jax.Array,
    config: ConditionedConfig,
) -> tuple[jax.Array, jax.Array]:
    """Huber loss of the four temporal differences; equity's only where it is weighted and seen."""
    goal = batch.reward
    if config.discount > 0.0:
        after = _values(config, target, batch.next_observation, preference)
        best = jnp.einsum("abnk,abk->abn", after, preference).argmax(axis=-1)
        future = jnp.take_along_axis(after, best[..., None, None], axis=2)[:, :, 0]
        goal = goal + config.discount * batch.continues[..., None] * future
    values = _values(config, network, batch.observation, preference)
    chosen = batch.action[..., None] == jnp.arange(values.shape[2], dtype=jnp.float32)
    taken = jnp.where(chosen[..., None], values, 0.0).sum(axis=2)
    counts = jnp.ones_like(preference).at[..., EQUITY].set(preference[..., EQUITY] > 0)
    error = replay.huber(taken - jax.lax.stop_gradient(goal)) * counts
    per_agent = error.sum(axis=-1).mean(axis=1)
    return per_agent.sum(), per_agent
