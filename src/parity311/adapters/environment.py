"""A domain as a Gymnasium environment, with a scalar or a vector reward."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from parity311.adapters.setting import Setting, check_action, make_setting
from parity311.mdp.contract import N_REWARDS
from parity311.mdp.harness import Harness


def observation_space(harness: Harness, n: int = 0) -> spaces.Box:
    """Space of the observations a policy sees; of n episodes side by side if given."""
    shape = (n, harness.n_features) if n else (harness.n_features,)
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


class ComplaintEnvironment(gymnasium.Env[np.ndarray, np.int64]):
    """One office, one decision a step.

    The step is one compiled call; the reward is what the action saved, equity included, weighted
    by the preference, or the vector of four components with ``has_vector_reward``.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(
        self,
        domain: str,
        *,
        has_vector_reward: bool = False,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.setting: Setting = make_setting(domain, **options)
        self.render_mode = render_mode
        harness = self.setting.harness
        self.has_vector_reward = has_vector_reward
        self.observation_space = observation_space(harness)
        self.action_space = spaces.Discrete(harness.n_actions)
        self.reward_dim = N_REWARDS
        self.reward_space = spaces.Box(-np.inf, np.inf, (N_REWARDS,), np.float32)
        self._running: Any = None
        self._key: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; the same seed gives the same episode."""
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        setting = self.setting
        self._key, self._running, observation = _reset(
            setting.harness, key, setting.params, setting.equity
        )
        return np.array(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Take one action."""
        setting = self.setting
        number = check_action(action, setting.harness.n_actions)
        self._key, self._running, told = _step(
            setting.harness, self._key, setting.params, setting.equity, self._running, number
        )
        observation, vector, terminated, truncated = jax.device_get(told)
        info = {"vector_reward": np.array(vector)}
        reward = np.array(vector) if self.has_vector_reward else float(vector @ setting.preference)
        return np.array(observation), reward, bool(terminated), bool(truncated), info


@partial(jax.jit, static_argnames=("harness",))
def _reset(harness: Harness, key: jax.Array, params: Any, equity: Any) -> tuple[Any, Any, Any]:
    key, key_reset = jax.random.split(key)
    running, observation = harness.reset(key_reset, params, equity)
    return key, running, observation


@partial(jax.jit, static_argnames=("harness",))
def _step(
    harness: Harness, key: jax.Array, params: Any, equity: Any, running: Any, action: int
) -> tuple[Any, Any, Any]:
    key, key_step = jax.random.split(key)
    moved = harness.step(key_step, params, equity, running, jnp.int32(action))
    told = (moved.final_observation, moved.reward, moved.terminated, moved.truncated)
    return key, moved.running, told
