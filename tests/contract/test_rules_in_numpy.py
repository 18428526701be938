"""Every rule of thumb and every plan decides in NumPy as it does in JAX."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import slow_but

from parity311.agents.forward import score_actions_numpy
from parity311.domains import all_domains, get_domain
from parity311.engines import heuristics
from parity311.engines.heuristics import QueueRule, Threshold, rule_arrays
from parity311.engines.stream import optimum
from parity311.errors import InputError
from parity311.mdp.harness import Harness

PLAYABLE = [slug for slug, domain in all_domains().items() if domain.is_playable]
PLANNED = [slug for slug in PLAYABLE if get_domain(slug).play.solve is not None]
N_OFFICES, N_STEPS = 20, 100


@cache
def met(slug: str) -> tuple[Harness, Any, np.ndarray]:
    """A harness, its params, and 2,000 observations met under random actions and prices."""
    harness = Harness(get_domain(slug))
    params = harness.domain.play.example()
    equity = harness.equity_params(params, step_size=0.1)

    def office(key: jax.Array) -> jax.Array:
        key_start, key_steps, key_actions = jax.random.split(key, 3)
        running, _ = harness.reset(key_start, params, equity)
        actions = jax.random.randint(key_actions, (N_STEPS,), 0, harness.n_actions)

        def body(running: Any, given: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            moved = harness.step(given[0], params, equity, running, given[1])
            return moved.running, moved.observation

        return jax.lax.scan(body, running, (jax.random.split(key_steps, N_STEPS), actions))[1]

    seen = jax.jit(jax.vmap(office))(jax.random.split(jax.random.key(8), N_OFFICES))
    return harness, params, np.asarray(seen).reshape(-1, harness.n_features)


class Decided(NamedTuple):
    """What a policy does in JAX, (n,) each."""

    action: np.ndarray
    is_at_bar: np.ndarray
    """whether a rule leaves it to chance"""


def decide_all(policies: dict[str, Any], seen: np.ndarray) -> dict[str, Decided]:
    """What policies do at observations (n, n_features): one program for all of them."""

    def ask(keys: jax.Array, seen: jax.Array) -> dict[str, Any]:
        margin = lambda one: jax.vmap(one.margin)(seen) - one.threshold  # noqa: E731
        return {
            name: (
                jax.vmap(one)(keys, seen),
                margin(one) if isinstance(one, Threshold) else jnp.ones(len(seen)),
            )
            for name, one in policies.items()
        }

    keys = jax.random.split(jax.random.key(1), len(seen))
    told = jax.device_get(jax.jit(ask)(keys, jnp.asarray(seen)))
    return {name: Decided(action, np.abs(margin) < 1e-5) for name, (action, margin) in told.items()}


def decided(policy: Any, seen: np.ndarray) -> Decided:
    """What one policy does."""
    return decide_all({"it": policy}, seen)["it"]


def disagreements(policies: dict[str, Any], harness: Harness, seen: np.ndarray) -> dict[str, int]:
    """Observations on which NumPy decides otherwise, those at a bar with dice left out."""
    found = {}
    for name, in_jax in decide_all(policies, seen).items():
        values = score_actions_numpy(rule_arrays(policies[name], harness), seen)
        assert values.shape == (len(seen), harness.n_actions)
        assert np.isfinite(values).all()
        is_other = values.argmax(axis=-1) != in_jax.action
        found[name] = int((is_other & ~in_jax.is_at_bar).sum())
    return found


def throws_dice(policy: Any) -> bool:
    return getattr(policy, "func", None) is heuristics._decide_at_random


@pytest.mark.parametrize("slug", slow_but(["boiler", "snad"], PLAYABLE))
def test_every_rule_decides_in_numpy_as_in_jax(slug: str) -> None:
    harness, params, seen = met(slug)
    assert len(seen) == 2_000
    policies = {}
    for name, make in harness.domain.heuristics.items():
        policy = make(params, harness)
        if throws_dice(policy):
            with pytest.raises(InputError, match=r"^A rule that throws dice is not served"):
                rule_arrays(policy, harness)
            continue
        policies[name] = policy
    assert len(policies) >= 3
    assert disagreements(policies, harness, seen) == dict.fromkeys(policies, 0)


@pytest.mark.parametrize(("slug", "name"), [("snad", "bars"), ("boiler", "bars")])
def test_a_bar_that_is_off_is_found(slug: str, name: str) -> None:
    harness, params, seen = met(slug)
    policy = harness.domain.heuristics["score"](params, harness)
    arrays = rule_arrays(policy, harness)
    actions = score_actions_numpy(arrays | {name: arrays[name] + 0.5}, seen).argmax(axis=-1)
    in_jax = decided(policy, seen)
    assert (actions != in_jax.action)[~in_jax.is_at_bar].any()


def test_a_weight_of_the_next_feature_is_found() -> None:
    harness, params, seen = met("ert")
    policy = harness.domain.heuristics["score"](params, harness)
    arrays = rule_arrays(policy, harness)
    shifted = arrays | {"weight_0": np.roll(arrays["weight_0"], 1, axis=0)}
    assert (
        score_actions_numpy(shifted, seen).argmax(axis=-1) != decided(policy, seen).action
    ).any()


def test_the_difference_of_two_actions_is_the_margin() -> None:
    harness = Harness(get_domain("heat"), action_set="extended")
    n = harness.n_features
    weights = jnp.arange(n, dtype=jnp.float32) / n
    rule = QueueRule(weights, jnp.float32(0.5), jnp.zeros(n), jnp.float32(1.5))
    seen = np.random.default_rng(0).random((200, n)).astype(np.float32) * 2.0 - 1.0
    values = score_actions_numpy(rule_arrays(rule, harness), seen)
    score = seen @ np.asarray(weights)
    np.testing.assert_allclose(values[:, 0] - values[:, 1], score - 0.5, atol=1e-5)
    np.testing.assert_allclose(values[:, 1] - values[:, 2], score + 1.0, atol=1e-5)
    # The canvass is not among the rule's actions.
    assert (values[:, 3] < -1e8).all()


def test_a_score_at_its_bar_does_not_exceed_it() -> None:
    harness = Harness(get_domain("heat"))
    n = harness.n_features
    first = jnp.zeros(n).at[0].set(1.0)
    for band in (0.0, 1.0):
        rule = QueueRule(first, jnp.float32(1.0), jnp.zeros(n), jnp.float32(band))
        seen = np.zeros((3, n), np.float32)
        seen[:, 0] = (1.0, 0.0, 2.0)
        assert disagreements({"it": rule}, harness, seen) == {"it": 0}


@pytest.mark.parametrize(("chance", "action"), [(0.2, 0), (0.8, 1)])
def test_at_a_bar_with_dice_the_likelier_action_is_taken(chance: float, action: int) -> None:
    harness = Harness(get_domain("boiler"))
    margin = heuristics.feature_margin(0)
    rule = Threshold(margin, jnp.float32(1.0), jnp.float32(chance))
    seen = np.zeros((3, harness.n_features), np.float32)
    seen[:, 0] = (0.0, 1.0, 2.0)
    values = score_actions_numpy(rule_arrays(rule, harness), seen)
    assert values.argmax(axis=-1).tolist() == [0, action, 1]
    assert abs(values[1, 1]) < 1e-4


def test_what_is_no_rule_is_refused() -> None:
    harness = Harness(get_domain("boiler"))
    with pytest.raises(InputError, match="no rule of thumb"):
        rule_arrays(lambda key, observation: 0, harness)
    learned = jax.tree_util.Partial(lambda weights, observation: weights[0], jnp.zeros(2))
    with pytest.raises(InputError, match="saved with the agent"):
        rule_arrays(Threshold(learned, jnp.float32(0.0), jnp.float32(0.5)), harness)


@pytest.mark.parametrize("slug", slow_but(["boiler"], PLANNED))
@pytest.mark.usefixtures("optimized")
def test_every_plan_decides_in_numpy_as_in_jax(slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A plan that has not settled is a plan: only who reads it is asked here.
    monkeypatch.setattr(optimum, "TOLERANCE", 0.1)
    harness, params, seen = met(slug)
    solve = harness.domain.play.solve
    assert solve is not None
    policy = solve(params, harness, np.asarray(harness.domain.preference), keep_values=True)
    plans = {"with values": policy, "without": policy._replace(values=None)}
    assert disagreements(plans, harness, seen) == dict.fromkeys(plans, 0)
    values = np.sort(score_actions_numpy(rule_arrays(policy, harness), seen), axis=-1)
    assert len(np.unique((values[:, -1] - values[:, -2]).round(3))) > 3
