"""Chances of actions: what a policy would do with an observation, as a distribution.

A rule that draws lots at its threshold, or acts at random, has its exact chances; any other
policy is asked with several keys, and counts as deterministic where they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from parity311.engines import heuristics
from parity311.engines.heuristics import Threshold
from parity311.mdp.contract import Policy
from parity311.serving.policy import LoadedPolicy

N_ASKED = 8
"""Keys with which a policy is asked whether it draws lots."""
N_DRAWS = 256
"""Draws from which the chances of a policy that does are counted; the error of a chance is 3 %."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Soft:
    """A policy that with chance ε takes an action at random instead: what writes a log."""

    policy: Any
    epsilon: jax.Array
    explored: jax.Array
    """(n_actions,) chances of the random action"""

    def chances(self, observation: jax.Array) -> jax.Array:
        """Chances (n_actions,) of the actions."""
        own = exact_chances(self.policy, observation, self.explored.shape[0])
        return (1.0 - self.epsilon) * own + self.epsilon * self.explored


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SoftLinear:
    """Chances that are a softmax of linear scores: the kind a logistic model can learn."""

    weights: jax.Array
    """(n_features, n_actions)"""
    offsets: jax.Array
    """(n_actions,)"""

    def chances(self, observation: jax.Array) -> jax.Array:
        """Chances (n_actions,) of the actions."""
        return jax.nn.softmax(observation @ self.weights + self.offsets)


def soften(
    policy: Policy, n_actions: int, epsilon: float, explored: np.ndarray | None = None
) -> Soft:
    """Mix a policy with random actions, uniform if `explored` (n_actions,) is not given."""
    chances = np.full(n_actions, 1.0 / n_actions) if explored is None else explored
    return Soft(policy, jnp.float32(epsilon), jnp.asarray(chances, jnp.float32))


def exact_chances(policy: Any, observation: jax.Array, n_actions: int) -> jax.Array:
    """Chances (n_actions,) of a rule whose randomness is known, or that has none."""
    if isinstance(policy, Threshold):
        excess = policy.margin(observation) - policy.threshold
        is_tie = jnp.abs(excess) < 1e-5
        chance = jnp.where(is_tie, policy.tie_chance, (excess > 0).astype(jnp.float32))
        return jnp.stack([1.0 - chance, chance])
    if isinstance(policy, Partial) and policy.func is heuristics._decide_at_random:
        cumulative = policy.args[0]
        return jnp.diff(cumulative, prepend=0.0) / cumulative[-1]
    action = policy(jax.random.key(0), observation)
    return (jnp.arange(n_actions) == action).astype(jnp.float32)


def action_chances(policy: Any, observation: np.ndarray, n_actions: int) -> np.ndarray:
    """Chances (..., n_actions) at observations (..., n_features); 64-bit."""
    if isinstance(policy, LoadedPolicy):
        best = policy.decide(observation)
        return (best[..., None] == np.arange(n_actions)).astype(np.float64)
    flat = jnp.asarray(observation.reshape(-1, observation.shape[-1]), jnp.float32)
    if isinstance(policy, Soft | SoftLinear):
        found = _soft_chances(policy, flat)
    elif isinstance(policy, Threshold) or not _draws_lots(policy, flat):
        found = _exact(policy, flat, n_actions)
    else:
        found = _counted(policy, flat, n_actions, N_DRAWS)
    return np.asarray(found, np.float64).reshape(*observation.shape[:-1], n_actions)


@jax.jit
def _soft_chances(policy: Any, flat: jax.Array) -> jax.Array:
    return jax.vmap(policy.chances)(flat)


@partial(jax.jit, static_argnames=("n_actions",))
def _exact(policy: Any, flat: jax.Array, n_actions: int) -> jax.Array:
    return jax.vmap(lambda seen: exact_chances(policy, seen, n_actions))(flat)


def _draws_lots(policy: Any, flat: jax.Array) -> bool:
    if isinstance(policy, Partial) and policy.func is heuristics._decide_at_random:
        return False
    some = flat[:: max(len(flat) // 512, 1)]
    chances = np.asarray(_counted(policy, some, 1 + int(_largest(policy, some)), N_ASKED))
    return bool(((chances > 0) & (chances < 1)).any())


@jax.jit
def _largest(policy: Any, flat: jax.Array) -> jax.Array:
    keys = jax.random.split(jax.random.key(1), N_ASKED)
    ask = jax.vmap(jax.vmap(lambda k, x: policy(k, x), in_axes=(None, 0)), in_axes=(0, None))
    return ask(keys, flat).max()


@partial(jax.jit, static_argnames=("n_actions", "n_draws"))
def _counted(policy: Any, flat: jax.Array, n_actions: int, n_draws: int) -> jax.Array:
    """Shares of the actions over draws, independent between observations."""

    def one_round(number: jax.Array) -> jax.Array:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), number), len(flat))
        actions = jax.vmap(lambda k, x: policy(k, x))(keys, flat)
        return (actions[:, None] == jnp.arange(n_actions)).astype(jnp.float32)

    total, _ = jax.lax.scan(
        lambda carry, i: (carry + one_round(i), None),
        jnp.zeros((len(flat), n_actions)),
        jnp.arange(n_draws),
    )
    return total / n_draws
