"""Play a domain with constant actions, every step kept: what its tests look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.domains import get_domain
from parity311.mdp.contract import N_STRATA


@dataclass(frozen=True)
class Played:
    """Episodes of constant actions; leading axes are actions, episodes and steps."""

    names: list[str]
    tally: Any
    reward: np.ndarray
    n_waiting: np.ndarray
    """(actions, episodes, 1 + steps)"""
    observation: np.ndarray

    def of(self, name: str) -> int:
        """Position of an action."""
        return self.names.index(name)


@cache
def _player(slug: str, n_steps: int) -> Any:
    """Compiled once for a domain: (params, actions, keys, prices) -> every step."""
    play = get_domain(slug).play
    count = play.n_waiting
    assert count is not None

    def episode(params: Any, action: jax.Array, key: jax.Array, prices: jax.Array) -> Any:
        key_start, key_steps = jax.random.split(key)
        state = play.initial_state(key_start, params)

        def body(state: Any, key: jax.Array) -> Any:
            moved = play.transition(key, params, state, action, prices)
            seen = play.observe(params, moved.state)
            return moved.state, (moved.tally, moved.reward, count(moved.state), seen)

        return count(state), jax.lax.scan(body, state, jax.random.split(key_steps, n_steps))[1]

    by_episode = jax.vmap(episode, in_axes=(None, None, 0, None))
    return jax.jit(jax.vmap(by_episode, in_axes=(None, 0, None, None)))


def play_constant(
    slug: str, params: Any, n_episodes: int, *, prices: np.ndarray | None = None
) -> Played:
    """Every action of a domain for whole episodes, all with the same random numbers."""
    domain = get_domain(slug)
    actions = domain.actions_of("extended")
    price = jnp.zeros(N_STRATA) if prices is None else jnp.asarray(prices, jnp.float32)
    keys = jax.random.split(jax.random.key(5), n_episodes)
    run = _player(slug, domain.max_steps)
    first, kept = run(params, jnp.arange(len(actions)), keys, price)
    tally, reward, n_waiting, observation = jax.tree.map(np.asarray, kept)
    waiting = np.concatenate([np.asarray(first)[:, :, None], n_waiting], axis=2)
    return Played([action.name for action in actions], tally, reward, waiting, observation)


def lost_complaints(played: Played) -> float:
    """Largest difference between complaints that came, were closed, and still wait."""
    came = np.cumsum(played.tally.complaints.astype(np.float64).sum(axis=-1), axis=-1)
    closed = np.cumsum(played.tally.outcomes.astype(np.float64).sum(axis=-1), axis=-1)
    change = played.n_waiting[..., 1:] - played.n_waiting[..., :1].astype(np.float64)
    return float(np.abs(came - closed - change).max())


def most_visits(played: Played) -> float:
    """Most visits made in one step."""
    return float(played.tally.visits.sum(axis=-1).max())


def saving_errors(played: Played, part: int, reference: str) -> np.ndarray:
    """By how much what trains differs from what is published, action by action.

    Both are measured against a reference action on the same random numbers; the difference of
    their means is given in standard errors, or as a share of the published one where that is less.
    """
    published = played.tally.published_reward[..., part].astype(np.float64).sum(axis=-1)
    trained = played.reward[..., part].astype(np.float64).sum(axis=-1)
    base = played.of(reference)
    gain = published - published[base]
    off = (trained - trained[base]) - gain
    error = off.std(axis=1, ddof=1) / np.sqrt(off.shape[1])
    in_errors = np.abs(off.mean(axis=1)) / np.maximum(error, 1e-9)
    share = np.abs(off.mean(axis=1)) / np.maximum(np.abs(gain.mean(axis=1)), 1e-6)
    small = np.abs(off.mean(axis=1)) < 1e-3
    return np.where(small, 0.0, np.minimum(in_errors / 3.0, share / 0.05))


def feature_distance(played: Played, first: str, second: str) -> float:
    """Largest difference, in standard errors, between what two actions lead to."""
    one, two = (played.observation[played.of(name)].mean(axis=1) for name in (first, second))
    gap = one - two
    error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
    return float((np.abs(gap.mean(axis=0)) / np.maximum(error, 1e-6)).max())
