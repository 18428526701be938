"""Adapters: what Gymnasium checks, the pure step's trajectory, nothing lost at a reset."""

from __future__ import annotations

import warnings

import gymnasium
import jax
import jax.numpy as jnp
import mo_gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from parity311.adapters.environment import ComplaintEnvironment
from parity311.adapters.registration import domain_names, environment_id
from parity311.adapters.vector_environment import ComplaintVectorEnvironment
from parity311.domains import all_domains
from parity311.errors import InputError

PLAYABLE = [slug for slug, domain in all_domains().items() if domain.is_playable]


def test_every_domain_is_registered() -> None:
    assert domain_names() == sorted(all_domains())
    for slug in domain_names():
        assert gymnasium.spec(environment_id(slug)).kwargs["domain"] == slug


@pytest.mark.parametrize("slug", PLAYABLE)
def test_gymnasium_finds_nothing_to_warn_about(slug: str) -> None:
    environment = gymnasium.make(environment_id(slug))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Features have no bounds by nature; that they are declared so is the one thing it minds.
        warnings.filterwarnings("ignore", message=".*infinity. This is probably too (low|high).*")
        check_env(environment.unwrapped, skip_render_check=True)


class _Shared(ComplaintEnvironment):
    """A broken twin: hands out the same array again and again."""

    def step(self, action: object) -> tuple:
        observation, *rest = super().step(action)
        if not hasattr(self, "_kept"):
            self._kept = observation
        self._kept[:] = observation
        return (self._kept, *rest)


def test_the_checker_rejects_a_shared_observation() -> None:
    environment = _Shared("boiler")
    warnings.simplefilter("ignore")
    with pytest.raises(AssertionError):
        check_env(environment, skip_render_check=True)


@pytest.mark.parametrize("slug", ["boiler", "heat", "snad", "elevator", "electrical_revisit"])
def test_adapter_and_pure_step_give_the_same_trajectory(slug: str) -> None:
    environment = ComplaintEnvironment(slug, has_vector_reward=True)
    setting = environment.setting
    harness = setting.harness
    seen, _ = environment.reset(seed=5)
    # The adapter's own random stream, walked by hand.
    seed = np.random.Generator(np.random.PCG64(np.random.SeedSequence(5))).integers(2**31)
    key, key_reset = jax.random.split(jax.random.key(int(seed)))
    running, observation = harness.reset(key_reset, setting.params, setting.equity)
    np.testing.assert_allclose(seen, observation, rtol=1e-5, atol=1e-5)
    step = jax.jit(harness.step)
    actions = np.random.default_rng(1).integers(harness.n_actions, size=20)
    for action in actions:
        key, key_step = jax.random.split(key)
        moved = step(key_step, setting.params, setting.equity, running, jnp.int32(action))
        running = moved.running
        seen, reward, *_ = environment.step(action)
        np.testing.assert_allclose(seen, moved.final_observation, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(reward, moved.reward, rtol=1e-4, atol=1e-4)


def test_vector_rewards_are_in_their_space_and_scalars_weigh_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many = mo_gymnasium.make(environment_id("boiler", is_vector=True))
    one = gymnasium.make(environment_id("boiler"), preference=(0.1, 0.2, 0.3, 0.4))
    many.reset(seed=3)
    one.reset(seed=3)
    for action in (1, 0, 1):
        _, vector, *_ = many.step(action)
        _, scalar, *_, info = one.step(action)
        assert many.unwrapped.reward_space.contains(vector)
        np.testing.assert_allclose(info["vector_reward"][[0, 1, 3]], vector[[0, 1, 3]], rtol=1e-5)
        assert scalar == pytest.approx(info["vector_reward"] @ [0.1, 0.2, 0.3, 0.4], rel=1e-5)


def test_when_one_episode_starts_again_the_others_lose_nothing() -> None:
    """The fault of the functional vector environment of Gymnasium itself."""
    n, horizon = 3, 6
    vector = ComplaintVectorEnvironment(n, domain="heat", max_steps=horizon)
    vector.reset(seed=[1, 2, 3])
    # Shift the clocks so that the episodes end in different steps.
    running = vector._running._replace(n_steps=jnp.int32([0, 2, 4]))
    vector._running = running
    setting, keys = vector.setting, vector._keys
    alone = [jax.tree.map(lambda x, i=i: x[i], running) for i in range(n)]
    own_keys = [keys[i] for i in range(n)]
    step = jax.jit(setting.harness.step)
    ended = np.zeros(n, int)
    for number in range(2 * horizon):
        actions = (number + np.arange(n)) % 3
        seen, _, terminated, truncated, info = vector.step(actions)
        for i in range(n):
            own_keys[i], key_step = jax.random.split(own_keys[i])
            moved = step(key_step, setting.params, setting.equity, alone[i], jnp.int32(actions[i]))
            alone[i] = moved.running
            np.testing.assert_allclose(seen[i], moved.observation, rtol=1e-4, atol=1e-4)
            if truncated[i] or terminated[i]:
                final = info["final_obs"][i]
                np.testing.assert_allclose(final, moved.final_observation, rtol=1e-4, atol=1e-4)
        ended += truncated
    assert ended.tolist() == [2, 2, 2]


@pytest.mark.parametrize("action", [-1, 2, 7])
def test_an_action_out_of_range_is_refused(action: int) -> None:
    environment = ComplaintEnvironment("boiler")
    environment.reset(seed=0)
    with pytest.raises(InputError, match=f"Action {action} was given"):
        environment.step(action)


def test_what_cannot_be_played_is_said_before_anything_is_compiled() -> None:
    with pytest.raises(InputError, match="must be a parity311.domains.boiler.decision.Params"):
        ComplaintEnvironment("boiler", params={"features": 1})
    with pytest.raises(InputError, match="sum to 1"):
        ComplaintEnvironment("boiler", preference=(1.0, 1.0, 0.0, 0.0))
    with pytest.raises(InputError, match="domain 'boilers'"):
        ComplaintEnvironment("boilers")
    with pytest.raises(InputError, match="at least 1"):
        ComplaintVectorEnvironment(0, domain="boiler")
