"""DQN whose value is linear in the coverage price: what a decision saves, and what it covers.

Two networks, neither of which sees the price: one values all that is not equity, by temporal
differences; the other says how much coverage a decision brings at once, from what was paid for it.
Their sum, the second times the price in force, is what the agent maximises. So a price that
training never saw is understood, a higher price never makes a decision for coverage less likely,
and prices can be settled, posted and corrected outside of what was learned.
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
from parity311.agents.dqn import DQNConfig
from parity311.agents.entry import AgentEntry
from parity311.agents.forward import COVERS, SAVES, part_of
from parity311.agents.networks import (
    Network,
    apply_network,
    apply_networks,
    init_network,
    split_each,
)
from parity311.errors import InputError

ENTRY = AgentEntry(
    says="DQN with prices of coverage outside of what it learns",
    config="PricedConfig",
    maker="make_priced",
    title="priced DQN",
    needs_prices=True,
    inherits="dqn",
    probes=("values",),
)


UNUSED = ("conservatism", "is_double", "averaging")
"""Settings of DQN that this agent does not know."""


@dataclass(frozen=True)
class PricedConfig(DQNConfig):
    """Hyper-parameters of DQN but for `UNUSED`; the network of coverage has the same layers."""

    def __post_init__(self) -> None:
        """Refuse what would be ignored."""
        changed = [name for name in UNUSED if getattr(self, name) != getattr(DQNConfig, name)]
        if changed:
            raise InputError(
                f"Agent 'priced' has no use for {', '.join(changed)}; leave it out, or choose dqn."
            )


class PricedState(NamedTuple):
    """Everything an update needs; all arrays but the buffer lead with the agent axis."""

    network: Network
    """both networks, by the name of the part"""
    target: Network
    momentum: Network
    square: Network
    buffer: jax.Array
    """(rows, agents, 2 n_features + 4): two rewards, without equity and what equity paid"""
    n_steps: jax.Array


@cache
def make_priced(config: PricedConfig | None = None) -> Agent:
    """Make the agent with these hyper-parameters."""
    settings = config or PricedConfig()
    return Agent(
        name="priced",
        init=partial(_init, settings),
        explore=partial(_explore, settings),
        decide=decide_by_price,
        margin=priced_margin,
        update=partial(_update, settings),
        refresh=lambda state: state._replace(target=jax.tree.map(jnp.copy, state.network)),
        policy=lambda state: state.network,
        rollout_length=1,
        refresh_every=settings.target_every,
        config=settings,
    )


def decide_by_price(policy: Network, key: jax.Array, observation: jax.Array) -> jax.Array:
    """Action with the highest value at the price that is seen, the last feature."""
    del key
    return jnp.argmax(_value_one(policy, observation)).astype(jnp.int32)


def priced_margin(policy: Network, observation: jax.Array) -> jax.Array:
    """By how much action 1 is valued above action 0."""
    values = _value_one(policy, observation)
    return values[1] - values[0]


def _value_one(policy: Network, observation: jax.Array) -> jax.Array:
    saves = apply_network(part_of(policy, SAVES), observation[:-1])
    return saves + observation[-1] * apply_network(part_of(policy, COVERS), observation[:-1])


def _value_all(
    network: Network, observation: jax.Array, dtype: str = "float32"
) -> tuple[jax.Array, jax.Array]:
    """What actions save, and what they cover times the price, (agents, batch, n_actions) each."""
    seen, price = observation[..., :-1], observation[..., -1:]
    saves = apply_networks(part_of(network, SAVES), seen, dtype)
    return saves, price * apply_networks(part_of(network, COVERS), seen, dtype)


def _init(
    config: PricedConfig, keys: jax.Array, n_environments: int, n_features: int, n_actions: int
) -> PricedState:
    sizes = (n_features - 1, *config.hidden, n_actions)
    parts = zip((SAVES, COVERS), split_each(keys, 2), strict=True)
    network = {
        f"{part}/{name}": values
        for part, own in parts
        for name, values in init_network(own, sizes).items()
    }
    return PricedState(
        network=network,
        target=jax.tree.map(jnp.copy, network),
        momentum=zeros_like(network),
        square=zeros_like(network),
        buffer=replay.empty_buffer(
            config.buffer_size, keys.shape[0], n_environments, n_features, n_rewards=2
        ),
        n_steps=jnp.int32(0),
    )


def _explore(
    config: PricedConfig, keys: jax.Array, state: PricedState, observation: jax.Array
) -> jax.Array:
    epsilon = replay.falling_epsilon(
        state.n_steps, config.epsilon_start, config.epsilon_end, config.epsilon_steps
    )
    saves, covers = _value_all(state.network, observation)
    return replay.epsilon_greedy(keys, saves + covers, epsilon)


def _update(
    config: PricedConfig, keys: jax.Array, state: PricedState, rollout: Rollout
) -> tuple[PricedState, dict[str, jax.Array]]:
    del keys
    assert rollout.paid is not None
    both = jnp.stack([rollout.reward - rollout.paid, rollout.paid], axis=-1)
    rows = replay.pack_rows(rollout._replace(rewards=both), keeps_vectors=True)
    buffer = replay.write_rows(state.buffer, state.n_steps, rows)
    n_steps = state.n_steps + 1
    sampled = replay.sample_rows(buffer, n_steps, rows.shape[0], config.batch_size)
    batch = replay.unpack_rows(sampled, rollout.observation.shape[-1])
    gradient, loss = jax.grad(_loss, has_aux=True)(state.network, state.target, batch, config)
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
    return PricedState(network, state.target, momentum, square, buffer, n_steps), {"loss": loss}


def _loss(
    network: Network, target: Network, batch: replay.Batch, config: PricedConfig
) -> tuple[jax.Array, jax.Array]:
    """Huber loss of both networks: its sum over agents, and each agent's mean."""
    goal = batch.reward[..., 0]
    if config.discount > 0.0:
        saves, covers = _value_all(target, batch.next_observation, config.dtype)
        best = (saves + covers).argmax(axis=-1).astype(jnp.float32)
        future = replay.value_of_taken(saves, best)
        goal = goal + config.discount * batch.continues * jax.lax.stop_gradient(future)
    saves, covers = _value_all(network, batch.observation, config.dtype)
    saved = replay.value_of_taken(saves, batch.action) - goal
    # What is paid for coverage is paid when it is decided, so nothing of it lies ahead.
    covered = replay.value_of_taken(covers, batch.action) - batch.reward[..., 1]
    per_agent = (replay.huber(saved) + replay.huber(covered)).mean(axis=1)
    return per_agent.sum(), per_agent
