"""Adapters: what Gymnasium checks, the pure step's trajectory, nothing lost at a reset."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import mo_gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from tests.conftest import slow_but

from parity311.adapters.environment import ComplaintEnvironment, ComplaintVectorEnvironment
from parity311.domains import all_domains, get_domain
from parity311.environments import domain_names, environment_id, former_id, read_version
from parity311.errors import InputError
from parity311.evaluation.rollout import Contender, evaluate, split_episode
from parity311.mdp.contract import EQUITY

pytestmark = pytest.mark.slow


PLAYABLE = [slug for slug, domain in all_domains().items() if domain.is_playable]


def test_every_domain_is_registered() -> None:
    assert domain_names() == sorted(all_domains())
    for slug in domain_names():
        assert gymnasium.spec(environment_id(slug)).kwargs["domain"] == slug
        assert read_version(slug) == get_domain(slug).version


def test_a_former_name_says_which_it_is_now() -> None:
    assert former_id("electrical_revisit", is_vector=True) == "parity311/mo-ElectricalRevisit-v0"
    with pytest.warns(FutureWarning, match="Boiler-v0 was given; .* now parity311/boiler-v2"):
        environment = gymnasium.make("parity311/Boiler-v0")
    assert environment.unwrapped.setting.harness.domain is get_domain("boiler")  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.warns(FutureWarning, match="now parity311/mo-boiler-v2"):
        gymnasium.make_vec("parity311/mo-Boiler-v0", num_envs=2)


@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
def test_another_version_or_name_is_answered_with_what_there_is() -> None:
    with pytest.raises(gymnasium.error.DeprecatedEnv, match="use `parity311/boiler-v2` instead"):
        gymnasium.make("parity311/boiler-v1")
    with pytest.raises(gymnasium.error.VersionNotFound, match="`v2`"):
        gymnasium.make("parity311/boiler-v99")
    with pytest.raises(InputError, match="Did you mean 'boiler'"):
        environment_id("boilr")


def test_a_version_that_cannot_be_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin that works its version out: reading the text would not find it."""
    monkeypatch.setattr("parity311.environments.DOMAINS", tmp_path)
    (tmp_path / "odd.py").write_text("DOMAIN = Domain(slug='odd', version=1 + 1)\n")
    with pytest.raises(ImportError, match=r"odd.py does not say its version"):
        read_version("odd")
    (tmp_path / "odd.py").write_text("DOMAIN = Domain(slug='odd', version=4)\n")
    assert environment_id("odd") == "parity311/odd-v4"


@pytest.mark.parametrize("slug", slow_but(["boiler"], PLAYABLE))
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


@pytest.mark.parametrize(
    ("slug", "kind"),
    [
        ("boiler", "saved"),
        # The kind that is paid above: its programs are compiled by now.
        *(
            pytest.param(slug, "published", marks=pytest.mark.slow)
            for slug in ("heat", "snad", "elevator", "electrical_revisit")
        ),
    ],
)
def test_adapter_and_pure_step_give_the_same_trajectory(slug: str, kind: str) -> None:
    environment = ComplaintEnvironment(slug, has_vector_reward=True, reward=kind)
    setting = environment.setting
    harness = setting.harness
    seen, _ = environment.reset(seed=5)
    # The adapter's own random stream, walked by hand.
    key_reset, key_steps = split_episode(jax.random.key(5))
    reset, step = jax.jit(harness.reset), jax.jit(harness.step)
    running, observation = reset(key_reset, setting.params, setting.equity)
    np.testing.assert_allclose(seen, observation, rtol=1e-5, atol=1e-5)
    actions = np.random.default_rng(1).integers(harness.n_actions, size=20)
    for number, action in enumerate(actions):
        key_step = jax.random.fold_in(key_steps, number)
        moved = step(key_step, setting.params, setting.equity, running, jnp.int32(action))
        running = moved.running
        seen, reward, *_ = environment.step(action)
        np.testing.assert_allclose(seen, moved.final_observation, rtol=1e-4, atol=1e-4)
        told = moved.reward if kind == "saved" else moved.tally.published_reward
        paid = np.where(np.arange(4) == EQUITY, moved.reward, told)
        np.testing.assert_allclose(reward, paid, rtol=1e-4, atol=1e-4)


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
        np.testing.assert_allclose(info["reward_vector"][[0, 1, 3]], vector[[0, 1, 3]], rtol=1e-5)
        assert scalar == pytest.approx(info["reward_vector"] @ [0.1, 0.2, 0.3, 0.4], rel=1e-5)


@pytest.mark.slow
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
            key_step = jax.random.fold_in(own_keys[i], number)
            moved = step(key_step, setting.params, setting.equity, alone[i], jnp.int32(actions[i]))
            alone[i] = moved.running
            np.testing.assert_allclose(seen[i], moved.observation, rtol=1e-4, atol=1e-4)
            if truncated[i] or terminated[i]:
                final = info["final_obs"][i]
                np.testing.assert_allclose(final, moved.final_observation, rtol=1e-4, atol=1e-4)
        ended += truncated
    assert ended.tolist() == [2, 2, 2]


@pytest.mark.parametrize("action", [-1, 2, 7, 1.5, 1.0, "1", None, [1], np.float32(0.3)])
def test_an_action_that_does_not_exist_is_refused(action: object) -> None:
    environment = ComplaintEnvironment("boiler")
    environment.reset(seed=0)
    with pytest.raises(InputError, match=f"Action {re.escape(str(action))} was given"):
        environment.step(action)
    environment.step(np.int64(1))


@pytest.mark.slow
def test_actions_side_by_side_that_do_not_exist_are_refused() -> None:
    environment = ComplaintVectorEnvironment(2, domain="boiler")
    environment.reset(seed=0)
    for actions in ([0, 1.5], [0, 2], [0], 1):
        with pytest.raises(InputError, match="2 whole numbers from 0 to 1"):
            environment.step(actions)
    environment.step([0, 1])


SEEDS = (3, 4)
N_STEPS = 240
"""Of an episode that is played step by step: sixty days of heat."""


def make_heat(**options: Any) -> gymnasium.Env:
    """An environment of short episodes; one program for all tests that play them."""
    return gymnasium.make(environment_id("heat"), max_steps=N_STEPS, **options)


@pytest.mark.slow
def test_an_episode_returns_what_the_tables_report() -> None:
    """The same process, the same seeds: what an evaluation adds up, a loop of steps adds up."""
    domain = get_domain("heat")
    environment = make_heat()
    setting = environment.unwrapped.setting  # pyright: ignore[reportAttributeAccessIssue]
    policies = {
        rule: domain.heuristics[rule](setting.params, setting.harness)
        for rule in ("never", "balanced")
    }
    keys = jax.vmap(jax.random.key)(np.array(SEEDS))
    contenders = [Contender(rule, policy) for rule, policy in policies.items()]
    played = evaluate(setting.harness, setting.params, contenders, keys)
    expected = np.asarray(played.tally.published_reward) @ np.asarray(domain.preference)
    for policy, tables in zip(policies.values(), expected, strict=True):
        decide = jax.jit(policy)
        returned = [
            _play(environment, seed, lambda seen, d=decide: int(d(keys[0], seen))) for seed in SEEDS
        ]
        np.testing.assert_allclose(returned, tables, rtol=1e-4)
    assert (expected < -0.1).all()
    assert (expected[0] != expected[1]).all()


@pytest.mark.slow
def test_episodes_side_by_side_return_the_same() -> None:
    alone = make_heat()
    expected = [_play(alone, seed, lambda seen: 2) for seed in SEEDS]
    together = gymnasium.make_vec(environment_id("heat"), num_envs=len(SEEDS), max_steps=N_STEPS)
    together.reset(seed=list(SEEDS))
    returned = sum(together.step(np.full(len(SEEDS), 2))[1] for _ in range(N_STEPS))
    np.testing.assert_allclose(returned, expected, rtol=1e-4)


def _play(environment: gymnasium.Env, seed: int, decide: Callable[[np.ndarray], int]) -> float:
    seen, _ = environment.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        seen, reward, terminated, truncated, _ = environment.step(decide(seen))
        total, is_over = total + float(reward), terminated or truncated
    return total


@pytest.mark.slow
def test_what_an_action_saved_is_paid_where_asked_for() -> None:
    paid = {}
    for kind in ("published", "saved"):
        environment = make_heat(reward=kind)
        paid[kind] = _play(environment, SEEDS[0], lambda seen: 2)
    # Who never goes saves nothing, and is charged for what waits.
    assert paid["saved"] == 0.0
    assert paid["published"] < -0.1
    with pytest.raises(InputError, match="kind of reward 'publisht'.*Did you mean 'published'"):
        ComplaintEnvironment("heat", reward="publisht")


@pytest.mark.parametrize("order", ["parity311, gymnasium", "gymnasium, parity311"])
def test_importing_the_package_makes_the_names_known(order: str) -> None:
    code = f"import {order}; print(gymnasium.spec('parity311/heat-v2').entry_point)"
    assert _in_a_fresh_interpreter(code) == "parity311.adapters.environment:ComplaintEnvironment"


def test_importing_the_package_is_light() -> None:
    code = "import sys, parity311; print(sorted({'jax', 'numpy', 'gymnasium'} & set(sys.modules)))"
    assert _in_a_fresh_interpreter(code) == "[]"


def test_gymnasium_is_loaded_as_if_nobody_had_waited() -> None:
    code = """
import sys, parity311, gymnasium
print(type(gymnasium.__spec__.loader).__name__, [type(one).__module__ for one in sys.meta_path
      if hasattr(one, '__module__') and type(one).__module__.startswith('parity311')])"""
    assert _in_a_fresh_interpreter(code) == "SourceFileLoader []"


def _in_a_fresh_interpreter(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_what_cannot_be_played_is_said_before_anything_is_compiled() -> None:
    with pytest.raises(InputError, match="must be a parity311.domains.boiler.decision.Params"):
        ComplaintEnvironment("boiler", params={"features": 1})
    with pytest.raises(InputError, match="sum to 1"):
        ComplaintEnvironment("boiler", preference=(1.0, 1.0, 0.0, 0.0))
    with pytest.raises(InputError, match="domain 'boilers'"):
        ComplaintEnvironment("boilers")
    with pytest.raises(InputError, match="at least 1"):
        ComplaintVectorEnvironment(0, domain="boiler")
