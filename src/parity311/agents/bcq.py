"""Q-learning held to the actions the log supports (discrete BCQ, Fujimoto et al. 2019).

A second network learns which action was logged where. An action counts, in the goal and in the
decision, only if it was logged at least `support_share` times as often as the likeliest one: what
nobody ever tried is never recommended. The paper's results ask for it (its backtests are
support-constrained); it learns only from logged decisions (`training.offline`).
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
from parity311.agents.base import Agent, Rollout, refuse_to_act
from parity311.agents.entry import AgentEntry
from parity311.agents.forward import NOT_ALLOWED
from parity311.agents.networks import (
    Network,
    apply_network,
    apply_networks,
    init_network,
    split_each,
)
from parity311.agents.settings import Count, CountOrNone, Layers, Share, Size, StepSize

ENTRY = AgentEntry(
    says="Q-learning held to logged actions",
    config="BCQConfig",
    maker="make_bcq",
    title="BCQ",
    needs_log=True,
    inherits="dqn",
    probes=("log",),
)


@dataclass(frozen=True)
class BCQConfig:
    """Hyper-parameters of DQN, and how much support an action needs."""

    support_share: Share = 0.3
    """least chance of an action in the log, over that of the likeliest (its authors' value)"""
    learning_rate: StepSize = 1e-3
    """step size of Adam, for both networks"""
    batch_size: Count = 64
    """transitions in an update"""
    target_every: Count = 500
    """updates between copies of the target network"""
    discount: Share = 0.99
    """γ"""
    hidden: Layers = (128, 128)
    """units of the hidden layers of both networks"""
    max_gradient_norm: Size = 10.0
    """gradients are clipped to this norm, agent by agent"""
    anneal_steps: CountOrNone = 0
    """steps over which the step size falls to a tenth; 0 keeps it"""


class BCQState(NamedTuple):
    """Value network, its target, and the network that imitates the log; all with moments."""

    network: Network
    target: Network
    behaviour: Network
    momentum: tuple[Network, Network]
    square: tuple[Network, Network]
    n_steps: jax.Array


@cache
def make_bcq(config: BCQConfig | None = None) -> Agent:
    """Make support-constrained Q-learning with these hyper-parameters."""
    settings = config or BCQConfig()
    return Agent(
        name="bcq",
        init=partial(_init, settings),
        explore=refuse_to_act,
        decide=_decide,
        margin=_margin,
        update=refuse_to_act,
        refresh=lambda state: state._replace(target=jax.tree.map(jnp.copy, state.network)),
        policy=partial(_policy, settings),
        rollout_length=1,
        refresh_every=settings.target_every,
        learn=partial(_learn, settings),
        config=settings,
    )


def _init(
    config: BCQConfig,
    keys: jax.Array,
    n_environments: int,
    n_features: int,
    n_actions: int,
) -> BCQState:
    del n_environments
    keys_values, keys_behaviour = split_each(keys, 2)
    sizes = (n_features, *config.hidden, n_actions)
    network = init_network(keys_values, sizes)
    behaviour = init_network(keys_behaviour, sizes)
    return BCQState(
        network=network,
        target=jax.tree.map(jnp.copy, network),
        behaviour=behaviour,
        momentum=(zeros_like(network), zeros_like(behaviour)),
        square=(zeros_like(network), zeros_like(behaviour)),
        n_steps=jnp.int32(0),
    )


def _policy(config: BCQConfig, state: BCQState) -> dict[str, Any]:
    n_agents = state.network["bias_0"].shape[0]
    return {
        "network": state.network,
        "behaviour": state.behaviour,
        "log_threshold": jnp.full(n_agents, np.log(config.support_share), jnp.float32),
    }


def _hold_to_support(values: jax.Array, logits: jax.Array, log_threshold: Any) -> jax.Array:
    """Values with those of unsupported actions put out of reach."""
    is_supported = logits - logits.max(axis=-1, keepdims=True) >= log_threshold
    return jnp.where(is_supported, values, NOT_ALLOWED)


def _score(policy: dict[str, Any], observation: jax.Array) -> jax.Array:
    values = apply_network(policy["network"], observation)
    logits = apply_network(policy["behaviour"], observation)
    return _hold_to_support(values, logits, policy["log_threshold"])


def _decide(policy: dict[str, Any], key: jax.Array, observation: jax.Array) -> jax.Array:
    del key
    return jnp.argmax(_score(policy, observation)).astype(jnp.int32)


def _margin(policy: dict[str, Any], observation: jax.Array) -> jax.Array:
    values = _score(policy, observation)
    return values[1] - values[0]


def _learn(
    config: BCQConfig, keys: jax.Array, state: BCQState, rollout: Rollout
) -> tuple[BCQState, dict[str, jax.Array]]:
    del keys
    rows = jnp.swapaxes(replay.pack_rows(rollout), 0, 1)
    batch = replay.unpack_rows(rows, rollout.observation.shape[-1])
    n_steps = state.n_steps + 1
    networks = (state.network, state.behaviour)
    gradients, losses = jax.grad(_loss, has_aux=True)(networks, state, batch, config)
    moved = [
        adam_step(
            network,
            momentum,
            square,
            gradient,
            n_steps,
            learning_rate=config.learning_rate,
            max_gradient_norm=config.max_gradient_norm,
            anneal_steps=config.anneal_steps,
        )
        for network, momentum, square, gradient in zip(
            networks, state.momentum, state.square, gradients, strict=True
        )
    ]
    state = state._replace(
        network=moved[0][0],
        behaviour=moved[1][0],
        momentum=(moved[0][1], moved[1][1]),
        square=(moved[0][2], moved[1][2]),
        n_steps=n_steps,
    )
    return state, losses


def _loss(
    networks: tuple[Network, Network], state: BCQState, batch: replay.Batch, config: BCQConfig
) -> tuple[jax.Array, dict[str, jax.Array]]:
    network, behaviour = networks
    goal = batch.reward
    if config.discount > 0.0:
        after = apply_networks(network, batch.next_observation)
        logits = apply_networks(behaviour, batch.next_observation)
        best = _hold_to_support(after, logits, np.log(config.support_share)).argmax(axis=-1)
        # The network chooses, the target values (double Q-learning), as the authors do.
        target = apply_networks(state.target, batch.next_observation)
        future = jnp.take_along_axis(target, best[..., None], axis=-1)[..., 0]
        goal = goal + config.discount * batch.continues * jax.lax.stop_gradient(future)
    taken = replay.value_of_taken(apply_networks(network, batch.observation), batch.action)
    value_loss = replay.huber(taken - goal).mean(axis=1)
    chances = jax.nn.log_softmax(apply_networks(behaviour, batch.observation), axis=-1)
    imitation = -replay.value_of_taken(chances, batch.action).mean(axis=1)
    return value_loss.sum() + imitation.sum(), {"loss": value_loss, "imitation": imitation}
