"""Many episodes of a domain side by side, as one compiled program.

Every episode keeps its own clock: where one ends it starts again in the same step, its last
observation is in ``info["final_obs"]``, and the others go on undisturbed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from parity311.adapters.environment import observation_space
from parity311.adapters.setting import make_setting
from parity311.errors import InputError
from parity311.mdp.contract import N_REWARDS
from parity311.mdp.harness import Harness


class ComplaintVectorEnvironment(VectorEnv):
    """Offices side by side; the reward is (n,), or (n, 4) with ``has_vector_reward``."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        domain: str,
        has_vector_reward: bool = False,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if num_envs < 1:
            raise InputError(f"{num_envs} episodes side by side were asked for; give at least 1.")
        self.setting = make_setting(domain, **options)
        harness = self.setting.harness
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.has_vector_reward = has_vector_reward
        self.single_observation_space = observation_space(harness)
        self.observation_space = observation_space(harness, num_envs)
        self.single_action_space = spaces.Discrete(harness.n_actions)
        self.action_space = spaces.MultiDiscrete(np.full(num_envs, harness.n_actions))
        self.reward_space = spaces.Box(-np.inf, np.inf, (N_REWARDS,), np.float32)
        self._keys: Any = None
        self._running: Any = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all episodes; one seed, or one for each."""
        if isinstance(seed, list):
            given = [np.random.default_rng(one).integers(2**31) for one in seed]
            keys = jax.vmap(jax.random.key)(np.asarray(given))
        else:
            super().reset(seed=seed)
            key = jax.random.key(int(self.np_random.integers(2**31)))
            keys = jax.random.split(key, self.num_envs)
        setting = self.setting
        self._keys, self._running, observation = _reset(
            setting.harness, keys, setting.params, setting.equity
        )
        return np.array(observation), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one action in every episode."""
        setting = self.setting
        chosen = np.asarray(actions, np.int32)
        allowed = setting.harness.n_actions
        if chosen.shape != (self.num_envs,) or (chosen < 0).any() or (chosen >= allowed).any():
            raise InputError(
                f"Actions of shape {chosen.shape} were given; they must be {self.num_envs} numbers "
                f"from 0 to {allowed - 1}."
            )
        self._keys, self._running, told = _step(
            setting.harness, self._keys, setting.params, setting.equity, self._running, chosen
        )
        observation, vector, terminated, truncated, final = jax.device_get(told)
        is_over = np.asarray(terminated | truncated)
        info: dict[str, Any] = {"vector_reward": np.array(vector)}
        if is_over.any():
            info |= {"final_obs": np.array(final), "_final_obs": is_over}
        reward = vector if self.has_vector_reward else vector @ setting.preference
        return (
            np.array(observation),
            np.array(reward),
            np.array(terminated),
            np.array(truncated),
            info,
        )


@partial(jax.jit, static_argnames=("harness",))
def _reset(harness: Harness, keys: jax.Array, params: Any, equity: Any) -> tuple[Any, Any, Any]:
    pairs = jax.vmap(jax.random.split)(keys)
    running, observation = jax.vmap(harness.reset, in_axes=(0, None, None))(
        pairs[:, 1], params, equity
    )
    return pairs[:, 0], running, observation


@partial(jax.jit, static_argnames=("harness",))
def _step(
    harness: Harness, keys: jax.Array, params: Any, equity: Any, running: Any, actions: jax.Array
) -> tuple[Any, Any, Any]:
    pairs = jax.vmap(jax.random.split)(keys)
    moved = jax.vmap(harness.step, in_axes=(0, None, None, 0, 0))(
        pairs[:, 1], params, equity, running, actions
    )
    told = (
        moved.observation,
        moved.reward,
        moved.terminated,
        moved.truncated,
        moved.final_observation,
    )
    return pairs[:, 0], moved.running, told
