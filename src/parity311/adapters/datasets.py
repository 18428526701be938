"""Logged decisions of a behaviour policy: for offline learners and off-policy estimates.

A behaviour policy is a rule with a little randomness, so that every logged action has a known
chance. Rewards stay vectors; they are weighted when a dataset is handed to a library that wants
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from parity311.adapters.setting import check_preference
from parity311.errors import InputError
from parity311.evaluation.off_policy.policies import exact_chances
from parity311.mdp.contract import REWARD_NAMES, Policy
from parity311.mdp.harness import Harness, Playable
from parity311.records.store import write_parquet as write_rows
from parity311.storage.aside import writing_aside
from parity311.storage.disk import telling_disk_errors
from parity311.training.offline import Decisions

EPSILON = 0.1
"""Share of actions drawn at random: what the synthetic agency logs too."""


def log_decisions(
    setting: Playable, policy: Policy, *, n_episodes: int, seed: int = 0, epsilon: float = EPSILON
) -> Decisions:
    """Play a deterministic rule that acts at random with chance ε, and keep everything."""
    if not 0.0 < epsilon <= 1.0:
        raise InputError(f"ε = {epsilon} was given; off-policy estimates need it in (0, 1].")
    if n_episodes < 1:
        raise InputError(f"{n_episodes} episodes were asked for; give at least 1.")
    keys = jax.random.split(jax.random.key(seed), n_episodes)
    played = _play(setting.harness, setting.params, setting.equity, policy, keys, epsilon)
    *rest, stratum = jax.device_get(played)
    return Decisions(*rest, n_actions=setting.harness.n_actions, stratum=stratum)


@partial(jax.jit, static_argnames=("harness",))
def _play(
    harness: Harness, params: Any, equity: Any, policy: Any, keys: jax.Array, epsilon: float
) -> tuple[jax.Array, ...]:
    n_actions = harness.n_actions

    def body(carry: Any, key: jax.Array) -> tuple[Any, Any]:
        running, observation = carry
        keys = jax.random.split(key, 4)
        preferred = policy(keys[0], observation)
        drawn = jax.random.randint(keys[1], (), 0, n_actions)
        is_random = jax.random.uniform(keys[2]) < epsilon
        action = jnp.where(is_random, drawn, preferred)
        # Where a rule draws lots itself, what is logged is the chance over those as well.
        own = exact_chances(policy, observation, n_actions)[action]
        chance = epsilon / n_actions + (1.0 - epsilon) * own
        moved = harness.step(keys[3], params, equity, running, action)
        kept = (
            observation,
            action,
            chance,
            moved.reward,
            moved.terminated,
            moved.truncated,
            moved.final_observation,
            harness.domain.play.current_stratum(params, running.state),
        )
        return (moved.running, moved.observation), kept

    def episode(key: jax.Array) -> Any:
        key_start, key_steps = jax.random.split(key)
        start = harness.reset(key_start, params, equity)
        return jax.lax.scan(body, start, jax.random.split(key_steps, harness.horizon))[1]

    return jax.vmap(episode)(keys)


def to_table(logged: Decisions, names: tuple[str, ...]) -> pa.Table:
    """One row a decision: features by name, action, propensity, mask, rewards, how it ended."""
    n_episodes, n_steps = logged.action.shape
    flat = lambda x: np.ascontiguousarray(x.reshape(n_episodes * n_steps, *x.shape[2:]))  # noqa: E731
    observation, after = flat(logged.observation), flat(logged.next_observation)
    rewards = flat(logged.reward)
    mask = np.ones((n_episodes * n_steps, logged.n_actions), bool)
    columns: dict[str, Any] = {
        "episode": np.repeat(np.arange(n_episodes, dtype=np.int32), n_steps),
        "step": np.tile(np.arange(n_steps, dtype=np.int32), n_episodes),
        **{f"observation_{name}": observation[:, i] for i, name in enumerate(names)},
        "action": flat(logged.action),
        "propensity": flat(logged.propensity),
        "is_allowed": pa.FixedSizeListArray.from_arrays(pa.array(mask.ravel()), logged.n_actions),
        **{f"reward_{name}": rewards[:, i] for i, name in enumerate(REWARD_NAMES)},
        **({} if logged.stratum is None else {"stratum": flat(logged.stratum)}),
        "terminated": flat(logged.terminated),
        "truncated": flat(logged.truncated),
        **{f"next_{name}": after[:, i] for i, name in enumerate(names)},
    }
    return pa.table(columns)


def write_parquet(logged: Decisions, names: tuple[str, ...], path: Path) -> Path:
    """Write the decisions as Parquet; a half-written file never takes its place."""
    with telling_disk_errors(path), writing_aside(path) as aside:
        write_rows(aside, to_table(logged, names))
    return path


def to_mdp_dataset(logged: Decisions, preference: Sequence[float]) -> Any:
    """The same for d3rlpy, which knows scalar rewards only and no propensities."""
    try:
        from d3rlpy.constants import ActionSpace  # pyright: ignore[reportMissingImports]
        from d3rlpy.dataset import MDPDataset  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError(
            "d3rlpy is not installed; it lives in its own environment (`make peers`)."
        ) from error
    weights = check_preference(preference)
    flat = lambda x: x.reshape(-1, *x.shape[2:])  # noqa: E731
    return MDPDataset(
        observations=flat(logged.observation).astype(np.float32),
        actions=flat(logged.action).astype(np.int64)[:, None],
        rewards=(flat(logged.reward) @ weights).astype(np.float32)[:, None],
        terminals=flat(logged.terminated).astype(np.float32),
        timeouts=flat(logged.truncated).astype(np.float32),
        action_space=ActionSpace.DISCRETE,
        action_size=logged.n_actions,
    )
