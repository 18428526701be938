"""REINFORCE with a learned baseline (Williams 1992): the policy itself is the network.

A rollout is played, every action is paid what followed it, G, and the policy moves towards actions
that did better than the baseline expected. Where a rollout ends before its episode, the baseline
stands for the rest. An entropy bonus keeps the policy from settling early (the paper names none).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from parity311.agents.adam import adam_step, zeros_like
from parity311.agents.base import Agent, Rollout
from parity311.agents.dqn import action_margin, decide_greedily
from parity311.agents.entry import AgentEntry
from parity311.agents.networks import Network, apply_networks, init_network, split_each
from parity311.agents.replay import value_of_taken
from parity311.agents.settings import Count, Layers, Share, Size, StepSize, Weight

ENTRY = AgentEntry(
    says="policy gradient with a learned baseline",
    config="ReinforceConfig",
    maker="make_reinforce",
    title="REINFORCE",
)


@dataclass(frozen=True)
class ReinforceConfig:
    """Hyper-parameters; the defaults are the paper's for the elevator domain."""

    learning_rate: StepSize = 3e-4
    """step size of Adam for the policy"""
    baseline_learning_rate: StepSize = 1e-3
    """step size of Adam for the baseline"""
    episode_length: Count = 168
    """steps of a rollout; one update follows each"""
    discount: Share = 0.99
    """γ; the paper uses 0.95 or 0.99"""
    entropy: Weight = 0.01
    """weight of the bonus for spreading over actions"""
    hidden: Layers = (128, 128)
    """units of the policy's hidden layers"""
    baseline_hidden: Layers = (64, 64)
    """units of the baseline's hidden layers"""
    max_gradient_norm: Size = 10.0
    """gradients are clipped to this norm, agent by agent"""
    scales_advantages: bool = True
    """whether advantages are divided by their spread, agent by agent, so that step sizes mean the
    same in every domain"""
    updates_per_block: Count = 10
    """updates between two reports of progress"""


class ReinforceState(NamedTuple):
    """Policy and baseline with their moments."""

    actor: Network
    baseline: Network
    momentum: tuple[Network, Network]
    square: tuple[Network, Network]
    n_updates: jax.Array


@cache
def make_reinforce(config: ReinforceConfig | None = None) -> Agent:
    """Make REINFORCE with these hyper-parameters."""
    settings = config or ReinforceConfig()
    return Agent(
        name="reinforce",
        init=partial(_init, settings),
        explore=_explore,
        # The likeliest action: staff who ask twice get one answer.
        decide=decide_greedily,
        margin=action_margin,
        update=partial(_update, settings),
        refresh=lambda state: state,
        policy=lambda state: state.actor,
        rollout_length=settings.episode_length,
        refresh_every=settings.updates_per_block,
        config=settings,
    )


def _init(
    config: ReinforceConfig,
    keys: jax.Array,
    n_environments: int,
    n_features: int,
    n_actions: int,
) -> ReinforceState:
    del n_environments
    keys_actor, keys_baseline = split_each(keys, 2)
    actor = init_network(keys_actor, (n_features, *config.hidden, n_actions))
    baseline = init_network(keys_baseline, (n_features, *config.baseline_hidden, 1))
    return ReinforceState(
        actor=actor,
        baseline=baseline,
        momentum=(zeros_like(actor), zeros_like(baseline)),
        square=(zeros_like(actor), zeros_like(baseline)),
        n_updates=jnp.int32(0),
    )


def _explore(keys: jax.Array, state: ReinforceState, observation: jax.Array) -> jax.Array:
    logits = apply_networks(state.actor, observation)
    return jax.vmap(jax.random.categorical)(keys, logits).astype(jnp.int32)


def returns_of(
    reward: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    value_after: jax.Array,
    discount: float,
) -> jax.Array:
    """G of every step, (length, ...): what followed it, discounted.

    Nothing follows where the process ended; the baseline's value where it was cut off, by time or
    by the end of the rollout.
    """
    length = reward.shape[0]
    is_cut = truncated | (jnp.arange(length) == length - 1).reshape(-1, *[1] * (reward.ndim - 1))

    def back(following: jax.Array, step: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        paid, ended, cut, value = step
        rest = jnp.where(ended, 0.0, jnp.where(cut, value, following))
        total = paid + discount * rest
        return total, total

    steps = (reward, terminated, is_cut, value_after)
    return jax.lax.scan(back, jnp.zeros(reward.shape[1:]), steps, reverse=True)[1]


def _flatten(values: jax.Array) -> jax.Array:
    """(length, agents, environments, ...) -> (agents, length × environments, ...)."""
    moved = jnp.moveaxis(values, 0, 1)
    return moved.reshape(moved.shape[0], -1, *moved.shape[3:])


def _update(
    config: ReinforceConfig, keys: jax.Array, state: ReinforceState, rollout: Rollout
) -> tuple[ReinforceState, dict[str, jax.Array]]:
    del keys
    seen, action = _flatten(rollout.observation), _flatten(rollout.action)
    after = apply_networks(state.baseline, _flatten(rollout.next_observation))[..., 0]
    length, n_agents, n_environments = rollout.reward.shape
    value_after = jnp.moveaxis(after.reshape(n_agents, length, n_environments), 1, 0)
    paid = returns_of(
        rollout.reward, rollout.terminated, rollout.truncated, value_after, config.discount
    )
    goal = jax.lax.stop_gradient(_flatten(paid))
    networks = (state.actor, state.baseline)
    gradients, figures = jax.grad(_loss, has_aux=True)(networks, seen, action, goal, config)
    n_updates = state.n_updates + 1
    rates = (config.learning_rate, config.baseline_learning_rate)
    moved = [
        adam_step(
            networks[i],
            state.momentum[i],
            state.square[i],
            gradients[i],
            n_updates,
            learning_rate=rates[i],
            max_gradient_norm=config.max_gradient_norm,
        )
        for i in range(2)
    ]
    state = ReinforceState(
        actor=moved[0][0],
        baseline=moved[1][0],
        momentum=(moved[0][1], moved[1][1]),
        square=(moved[0][2], moved[1][2]),
        n_updates=n_updates,
    )
    return state, figures


def _loss(
    networks: tuple[Network, Network],
    seen: jax.Array,
    action: jax.Array,
    goal: jax.Array,
    config: ReinforceConfig,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Policy and baseline learn jointly; the advantage is data to the policy."""
    expected = apply_networks(networks[1], seen)[..., 0]
    advantage = jax.lax.stop_gradient(goal - expected)
    if config.scales_advantages:
        centred = advantage - advantage.mean(axis=1, keepdims=True)
        advantage = centred / (centred.std(axis=1, keepdims=True) + 1e-8)
    chances = jax.nn.log_softmax(apply_networks(networks[0], seen), axis=-1)
    taken = value_of_taken(chances, action.astype(jnp.float32))
    entropy = -(jnp.exp(chances) * chances).sum(axis=-1).mean(axis=1)
    policy_loss = -(taken * advantage).mean(axis=1) - config.entropy * entropy
    baseline_loss = 0.5 * ((expected - goal) ** 2).mean(axis=1)
    figures = {"loss": baseline_loss, "entropy": entropy}
    return (policy_loss + baseline_loss).sum(), figures
