"""A domain as a Gymnasium environment, with a scalar or a vector reward.

Trees of arrays as one vector of 32-bit words, because a compiled call pays for every array.

A single environment's step computes for some ten microseconds and spends the rest on handing
arrays over: some fifty of params and as many of state, one by one.

Many episodes of a domain side by side, as one compiled program.

Every episode keeps its own clock: where one ends it starts again in the same step, its last
observation is in ``info["final_obs"]``, and the others go on undisturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from parity311.adapters.setting import (
    check_action,
    check_actions,
    check_reward,
    make_setting,
    reward_vector,
)
from parity311.errors import InputError
from parity311.evaluation.rollout import split_episode
from parity311.mdp.contract import N_REWARDS
from parity311.mdp.harness import Harness, Playable


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


LARGEST_PACKED = 4096
"""Numbers up to which an array is packed: larger ones are handed over as they are, since taking a
table out of a vector at every step would cost more than handing it over."""


@dataclass(frozen=True)
class Form:
    """What a packed tree looks like; hashable, so that equal ones share a compiled program."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], str], ...]
    """shape and type of every array"""

    @property
    def is_packed(self) -> tuple[bool, ...]:
        """Whether an array lies in the vector, or beside it."""
        return tuple(int(np.prod(shape)) <= LARGEST_PACKED for shape, _ in self.leaves)


def form_of(tree: Any) -> Form:
    """Form of a tree of 32-bit numbers and booleans."""
    leaves, structure = jax.tree.flatten(tree)
    return Form(structure, tuple((tuple(x.shape), str(jnp.dtype(x.dtype))) for x in leaves))


def pack(tree: Any) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """The small arrays of a tree as one vector of words, and the large ones."""
    leaves, is_packed = jax.tree.leaves(tree), form_of(tree).is_packed
    small = [_to_words(x) for x, packed in zip(leaves, is_packed, strict=True) if packed]
    large = tuple(x for x, packed in zip(leaves, is_packed, strict=True) if not packed)
    words = jnp.concatenate(small) if small else jnp.zeros(0, jnp.uint32)
    return words, large


def unpack(form: Form, words: jax.Array, large: Sequence[jax.Array]) -> Any:
    """The tree that was packed."""
    leaves, beside, start = [], iter(large), 0
    for (shape, kind), packed in zip(form.leaves, form.is_packed, strict=True):
        if not packed:
            leaves.append(next(beside))
            continue
        size = int(np.prod(shape))
        leaves.append(_from_words(words[start : start + size], kind).reshape(shape))
        start += size
    return jax.tree.unflatten(form.structure, leaves)


def _to_words(values: jax.Array) -> jax.Array:
    flat = jnp.ravel(values)
    if flat.dtype == jnp.bool_:
        return flat.astype(jnp.uint32)
    return jax.lax.bitcast_convert_type(flat, jnp.uint32)


def _from_words(words: jax.Array, kind: str) -> jax.Array:
    if kind == "bool":
        return words != 0
    return jax.lax.bitcast_convert_type(words, jnp.dtype(kind))


def observation_space(harness: Harness, n: int = 0) -> spaces.Box:
    """Space of the observations a policy sees; of n episodes side by side if given."""
    shape = (n, harness.n_features) if n else (harness.n_features,)
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


class ComplaintEnvironment(gymnasium.Env[np.ndarray, np.int64]):
    """One office, one decision a step.

    The step is one compiled call. The reward is the one that tables report, weighted by the
    preference, or the vector of four components with ``has_vector_reward``; with ``reward="saved"``
    it is what the action saved (`parity311.adapters.setting.REWARDS`). The episode of a seed is the
    one that `parity311.evaluation.rollout.evaluate` plays with ``jax.random.key(seed)``.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(
        self,
        domain: str,
        *,
        has_vector_reward: bool = False,
        reward: str = "published",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.kind = check_reward(reward)
        self.setting: Playable = make_setting(domain, **options)
        self.render_mode = render_mode
        harness = self.setting.harness
        self.has_vector_reward = has_vector_reward
        self.observation_space = observation_space(harness)
        self.action_space = spaces.Discrete(harness.n_actions)
        self.reward_dim = N_REWARDS
        self.reward_space = spaces.Box(-np.inf, np.inf, (N_REWARDS,), np.float32)
        world = (self.setting.params, self.setting.equity)
        self._programs = _compile(harness, form_of(world), self.kind)
        self._world = pack(world)
        self._episode: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; the same seed gives the same episode."""
        super().reset(seed=seed)
        start = int(self.np_random.integers(2**31)) if seed is None else seed % 2**32
        self._episode, observation = self._programs.reset(self._world, np.uint32(start))
        return np.array(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Take one action."""
        setting = self.setting
        number = check_action(action, setting.harness.n_actions)
        self._episode, told = self._programs.step(self._world, self._episode, number)
        # A copy each: the view of what was told belongs to the compiled program.
        values = np.asarray(told)
        vector = values[-N_REWARDS - 2 : -2].copy()
        info = {"reward_vector": vector}
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
def _compile(harness: Harness, world: Form, kind: str) -> Programs:
    """Programs for one harness; environments whose params look alike share them."""

    def start(params: Any, equity: Any, seed: Any) -> tuple[Any, jax.Array]:
        key_reset, key_steps = split_episode(jax.random.key(seed))
        running, observation = harness.reset(key_reset, params, equity)
        return (jax.random.key_data(key_steps), running), observation

    params, equity = jax.tree.unflatten(
        world.structure, [jax.ShapeDtypeStruct(shape, kind) for shape, kind in world.leaves]
    )
    episode = form_of(jax.eval_shape(start, params, equity, np.uint32(0))[0])

    def reset(given: Any, seed: Any) -> tuple[Any, jax.Array]:
        params, equity = unpack(world, *given)
        begun, observation = start(params, equity, seed)
        return pack(begun), observation

    def step(given: Any, packed: Any, action: Any) -> tuple[Any, jax.Array]:
        params, equity = unpack(world, *given)
        key_data, running = unpack(episode, *packed)
        key_step = jax.random.fold_in(jax.random.wrap_key_data(key_data), running.n_steps)
        # The half of the key that a step keeps for starting anew is not needed: Gymnasium resets.
        key_transition, _ = jax.random.split(key_step)
        moved = harness.advance(key_transition, params, equity, running, jnp.int32(action))
        ends = jnp.stack([moved.terminated, moved.truncated]).astype(jnp.float32)
        told = jnp.concatenate([moved.observation, reward_vector(moved, kind), ends])
        return pack((key_data, moved.running)), told

    return Programs(jax.jit(reset), jax.jit(step))
