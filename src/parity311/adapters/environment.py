"""A domain as a Gymnasium environment, with a scalar or a vector reward."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from parity311.adapters.packing import Form, form_of, pack, unpack
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
        world = (self.setting.params, self.setting.equity)
        self._programs = _compile(harness, form_of(world))
        self._world = pack(world)
        self._episode: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; the same seed gives the same episode."""
        super().reset(seed=seed)
        start = int(self.np_random.integers(2**31))
        self._episode, observation = self._programs.reset(self._world, start)
        return np.array(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Take one action."""
        setting = self.setting
        number = check_action(action, setting.harness.n_actions)
        self._episode, told = self._programs.step(self._world, self._episode, number)
        # A copy each: the view of what was told belongs to the compiled program.
        values = np.asarray(told)
        vector = values[-N_REWARDS - 2 : -2].copy()
        info = {"vector_reward": vector}
        reward = vector.copy() if self.has_vector_reward else float(vector @ setting.preference)
        terminated, truncated = bool(values[-2]), bool(values[-1])
        return values[: -N_REWARDS - 2].copy(), reward, terminated, truncated, info


class Programs(NamedTuple):
    """The compiled functions of an environment; a world and an episode are packed trees."""

    reset: Callable[..., tuple[Any, jax.Array]]
    """(world, seed) -> episode, observation"""
    step: Callable[..., tuple[Any, jax.Array]]
    """(world, episode, action) -> episode, observation with reward and both ends behind it"""


@lru_cache(maxsize=64)
def _compile(harness: Harness, world: Form) -> Programs:
    """Programs for one harness; environments whose params look alike share them."""

    def start(params: Any, equity: Any, seed: Any) -> tuple[Any, jax.Array]:
        key, key_reset = jax.random.split(jax.random.key(seed))
        running, observation = harness.reset(key_reset, params, equity)
        return (jax.random.key_data(key), running), observation

    params, equity = jax.tree.unflatten(
        world.structure, [jax.ShapeDtypeStruct(shape, kind) for shape, kind in world.leaves]
    )
    episode = form_of(jax.eval_shape(start, params, equity, 0)[0])

    def reset(given: Any, seed: Any) -> tuple[Any, jax.Array]:
        params, equity = unpack(world, *given)
        begun, observation = start(params, equity, seed)
        return pack(begun), observation

    def step(given: Any, packed: Any, action: Any) -> tuple[Any, jax.Array]:
        params, equity = unpack(world, *given)
        key_data, running = unpack(episode, *packed)
        key, key_step = jax.random.split(jax.random.wrap_key_data(key_data))
        # The half of the key that a step keeps for starting anew is not needed: Gymnasium resets.
        key_transition, _ = jax.random.split(key_step)
        moved = harness.advance(key_transition, params, equity, running, jnp.int32(action))
        ends = jnp.stack([moved.terminated, moved.truncated]).astype(jnp.float32)
        told = jnp.concatenate([moved.observation, moved.reward, ends])
        return pack((jax.random.key_data(key), moved.running)), told

    return Programs(jax.jit(reset), jax.jit(step))
