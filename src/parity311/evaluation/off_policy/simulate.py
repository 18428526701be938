"""Logs written by playing a policy of known chances in a domain's process, and true values."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.evaluation.off_policy.logs import STRATIFIED_NAMES, Logs, outcomes_by_stratum
from parity311.mdp.contract import NOBODY
from parity311.mdp.harness import Harness, Playable

CHUNK = 8192
"""Episodes played by one program at a time."""


def write_logs(
    played: Playable, behaviour: Any, *, n_logs: int, n_episodes: int, seed: int, gamma: float = 1.0
) -> Logs:
    """Play a behaviour (anything with `chances`) and keep what a log keeps.

    Parameters
    ----------
    gamma
        Above 1, decisions also follow something that is not written down: whether escalating
        (action 1) pays. It multiplies the odds of that action by √γ or 1/√γ, so that two cases
        that look alike differ in their odds by up to γ. What is then logged are the chances
        without it: the log looks honest and is not.
    """
    n = n_logs * n_episodes
    seen, action, chance, reward, stratum, ended = _play_all(played, behaviour, n, seed, gamma)
    shape = (n_logs, n_episodes)
    lay = lambda x: x.reshape(*shape, *x.shape[1:])  # noqa: E731
    scalar = lay(np.asarray(reward, np.float64) @ played.preference)
    outcome = stratify_outcome(scalar, lay(stratum))
    ended = lay(ended)
    return Logs(
        observation=lay(seen).astype(np.float64),
        action=lay(action).astype(np.int64),
        propensity=lay(chance).astype(np.float64),
        outcome=outcome,
        is_live=(np.cumsum(ended, axis=-1) - ended) == 0,
        outcome_names=STRATIFIED_NAMES[: outcome.shape[-1]],
        n_actions=played.harness.n_actions,
    )


def stratify_outcome(reward: np.ndarray, stratum: np.ndarray) -> np.ndarray:
    """Rewards overall and by stratum; only overall where no decision is about anybody."""
    if (stratum == NOBODY).all():
        return reward[..., None]
    return outcomes_by_stratum(reward, stratum)


def true_values(
    played: Playable, target: Any, *, n_episodes: int, seed: int, discount: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Value of a policy by playing it, (K,), and its standard error."""
    logs = write_logs(played, target, n_logs=1, n_episodes=n_episodes, seed=seed)
    scale = discount ** np.arange(logs.shape[2])
    total = (logs.outcome * logs.is_live[..., None] * scale[:, None]).sum(axis=2)[0]
    return total.mean(axis=0), total.std(axis=0, ddof=1) / np.sqrt(n_episodes)


def _play_all(
    played: Playable, behaviour: Any, n: int, seed: int, gamma: float
) -> tuple[np.ndarray, ...]:
    parts = []
    size = min(CHUNK, n)
    n_parts = -(-n // size)
    keys = jax.random.split(jax.random.key(seed), n_parts * size)
    log_gamma = jnp.float32(np.log(gamma))
    for start in range(0, n_parts * size, size):
        told = _play(
            played.harness,
            played.params,
            played.equity,
            behaviour,
            jnp.asarray(played.preference, jnp.float32),
            log_gamma,
            gamma != 1.0,
            keys[start : start + size],
        )
        parts.append(jax.device_get(told))
    return tuple(np.concatenate(x)[:n] for x in zip(*parts, strict=True))


@partial(jax.jit, static_argnames=("harness", "is_confounded"))
def _play(
    harness: Harness,
    params: Any,
    equity: Any,
    behaviour: Any,
    preference: jax.Array,
    log_gamma: jax.Array,
    is_confounded: bool,
    keys: jax.Array,
) -> tuple[jax.Array, ...]:
    play = harness.domain.play

    def body(carry: Any, key: jax.Array) -> tuple[Any, Any]:
        running, observation = carry
        key_act, key_step = jax.random.split(key)
        chances = behaviour.chances(observation)
        used = chances
        if is_confounded:
            paid = jax.vmap(
                lambda a: harness.step(key_step, params, equity, running, a).reward @ preference
            )(jnp.arange(harness.n_actions))
            sign = jnp.where(paid[1] > paid[0], 0.5, -0.5)
            tilted = chances * jnp.exp(
                jnp.where(jnp.arange(harness.n_actions) == 1, sign * log_gamma, 0.0)
            )
            used = tilted / tilted.sum()
        action = jax.random.choice(key_act, harness.n_actions, p=used)
        stratum = play.current_stratum(params, running.state)
        moved = harness.step(key_step, params, equity, running, action)
        kept = (observation, action, chances[action], moved.reward, stratum, moved.terminated)
        return (moved.running, moved.observation), kept

    def episode(key: jax.Array) -> Any:
        key_start, key_steps = jax.random.split(key)
        start = harness.reset(key_start, params, equity)
        return jax.lax.scan(body, start, jax.random.split(key_steps, harness.horizon))[1]

    return jax.vmap(episode)(keys)
