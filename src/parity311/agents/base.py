"""What an agent is: a handful of pure functions that the one training loop calls.

Every array of an agent's state has a leading agent axis: preferences × seeds learn side by side
in one program, with batched matrix products instead of a `vmap` of a single agent, which is about
twice as fast on a CPU. Keys have that axis too, one for each agent: what an agent becomes depends
on its own seed, preference and process, never on who learns beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from parity311.errors import TrainingError


class Rollout(NamedTuple):
    """What the loop collected: (length, agents, environments) and what follows."""

    observation: jax.Array
    """(..., n_features)"""
    action: jax.Array
    reward: jax.Array
    """scalar, by each agent's preference"""
    terminated: jax.Array
    truncated: jax.Array
    next_observation: jax.Array
    """(..., n_features) before any reset"""
    rewards: jax.Array | None = None
    """(..., 4) the same reward before any weighting: what re-weighting in replay needs"""
    paid: jax.Array | None = None
    """part of the scalar reward that was paid for coverage"""


class Agent(NamedTuple):
    """An algorithm with its settings bound."""

    name: str
    init: Callable[[jax.Array, int, int, int], Any]
    """(keys (agents,), n_environments, n_features, n_actions) -> state"""
    explore: Callable[[jax.Array, Any, jax.Array], jax.Array]
    """(keys (agents,), state, observation (agents, environments, n_features)) -> action (agents,
    environments); only for training"""
    decide: Callable[..., jax.Array]
    """(policy, key, observation (n_features,)) -> action (): one agent, for everything but
    training; with the policy bound it is a `parity311.mdp.contract.Policy`"""
    margin: Callable[..., jax.Array]
    """(policy, observation (n_features,)) -> (): by how much action 1 is preferred to action 0,
    where there are only two; what holds an agent to a capacity"""
    update: Callable[[jax.Array, Any, Rollout], tuple[Any, dict[str, jax.Array]]]
    """(keys (agents,), state, rollout) -> (state, figures (agents,) to follow the training by)"""
    refresh: Callable[[Any], Any]
    """(state) -> state, once before every `refresh_every` updates"""
    policy: Callable[[Any], Any]
    """(state) -> policy of every agent, with the agent axis"""
    rollout_length: int
    refresh_every: int
    learn: Callable[[jax.Array, Any, Rollout], tuple[Any, dict[str, jax.Array]]] | None = None
    """(keys (agents,), state, logged transitions (1, agents, batch, ...)) -> (state, figures):
    learning from decisions that somebody else took; None where an agent must act to learn"""
    read_off: Callable[[Any, Any], Any] | None = None
    """(policy, preference (4,)) -> policy of that preference, for `decide` and `margin`, both
    without the agent axis; None where an agent serves only the preference it was trained for"""
    config: Any = None
    """the settings it was made with"""


def refuse_to_act(*arguments: Any) -> Any:
    """Say that an agent learns from a log and never acts while it learns."""
    del arguments
    raise TrainingError(
        "This agent learns only from logged decisions; give some (train_offline, or --logged)."
    )
