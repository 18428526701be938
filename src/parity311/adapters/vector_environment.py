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
from parity311.adapters.setting import check_actions, check_reward, make_setting, reward_vector
from parity311.errors import InputError
from parity311.evaluation.rollout import split_episode
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
        reward: str = "published",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if num_envs < 1:
            raise InputError(f"{num_envs} episodes side by side were asked for; give at least 1.")
        self.kind = check_reward(reward)
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
        self._n_steps = 0

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all episodes; one seed, or one for each."""
        if isinstance(seed, list):
            drawn = np.random.default_rng().integers(2**31, size=len(seed))
            given = [own if one is None else one for one, own in zip(seed, drawn, strict=True)]
            keys = jax.vmap(jax.random.key)(np.asarray(given, np.int64).astype(np.uint32))
        else:
            super().reset(seed=seed)
            start = int(self.np_random.integers(2**31)) if seed is None else seed % 2**32
            keys = jax.random.split(jax.random.key(np.uint32(start)), self.num_envs)
        setting = self.setting
        self._n_steps = 0
        self._keys, self._running, observation = _reset(
            setting.harness, keys, setting.params, setting.equity
        )
        return np.array(observation), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one action in every episode."""
        setting = self.setting
        chosen = check_actions(actions, self.num_envs, setting.harness.n_actions)
        self._running, told = _step(
            setting.harness, self._keys, setting.params, setting.equity, self._running,
            np.int32(self._n_steps), chosen, self.kind,
        )  # fmt: skip
        self._n_steps += 1
        observation, vector, terminated, truncated, final = jax.device_get(told)
        is_over = np.asarray(terminated | truncated)
        info: dict[str, Any] = {"reward_vector": np.array(vector)}
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
    starts, steps = jax.vmap(split_episode)(keys)
    running, observation = jax.vmap(harness.reset, in_axes=(0, None, None))(starts, params, equity)
    return steps, running, observation


@partial(jax.jit, static_argnames=("harness", "kind"))
def _step(
    harness: Harness,
    keys: jax.Array,
    params: Any,
    equity: Any,
    running: Any,
    number: jax.Array,
    actions: jax.Array,
    kind: str,
) -> tuple[Any, Any]:
    own = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)
    moved = jax.vmap(harness.step, in_axes=(0, None, None, 0, 0))(
        own, params, equity, running, actions
    )
    told = (
        moved.observation,
        jax.vmap(lambda one: reward_vector(one, kind))(moved),
        moved.terminated,
        moved.truncated,
        moved.final_observation,
    )
    return moved.running, told
