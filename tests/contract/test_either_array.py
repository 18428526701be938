"""What a policy sees is the same in NumPy, which serves it, as in JAX, which trained it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import slow_but

from parity311.domains import all_domains, get_domain
from parity311.domains.drone import decision as drone
from parity311.domains.elevator import modes
from parity311.domains.elevator import observation as elevator
from parity311.domains.ert import choose_visits as choose_ert
from parity311.domains.heat.decision import show, view_office
from parity311.domains.housing import decision as housing
from parity311.domains.housing import observation as housing_seen
from parity311.engines.backlog import process as backlog
from parity311.mdp.contract import N_STRATA, NOBODY
from parity311.mdp.equity import FORMS, MODES
from parity311.mdp.harness import Harness

PLAYABLE = [slug for slug, domain in all_domains().items() if domain.is_playable]
N_STEPS = 50
OFFICES = ("drone", "elevator", "ert", "housing")
"""Domains that decide about the whole office: they are looked at one state at a time."""

Look = Callable[[Any, Any], np.ndarray]


def in_numpy(tree: Any) -> Any:
    """The same tree in NumPy, as plain objects: params read from a file are no NamedTuples."""
    if hasattr(tree, "_fields"):
        return SimpleNamespace(**{name: in_numpy(getattr(tree, name)) for name in tree._fields})
    return np.asarray(tree)


@cache
def played(slug: str) -> tuple[Any, Any, np.ndarray]:
    """Params, the states of 50 steps under random actions, and what JAX shows of each."""
    domain = get_domain(slug)
    params = domain.play.example()
    rng = np.random.default_rng(16)
    actions = rng.integers(len(domain.actions_of("extended")), size=N_STEPS)

    def body(state: Any, given: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        moved = domain.play.transition(given[0], params, state, given[1], jnp.zeros(N_STRATA))
        return moved.state, (moved.state, domain.play.observe(params, moved.state))

    @jax.jit
    def episode(key: jax.Array) -> Any:
        key_start, key_steps = jax.random.split(key)
        start = domain.play.initial_state(key_start, params)
        keys = jax.random.split(key_steps, N_STEPS)
        return jax.lax.scan(body, start, (keys, jnp.asarray(actions)))[1]

    states, seen = episode(jax.random.key(16))
    return params, jax.tree.map(np.asarray, states), np.asarray(seen)


def look_at(slug: str) -> Look:
    """The function that serving calls: (params, states) -> features, all in NumPy."""
    if slug == "heat":
        return lambda params, view: show(params, view)
    if slug == "elevator":
        return lambda params, state: elevator.look_at(params, state.backlog)
    if slug == "housing":
        return lambda params, state: housing_seen.look_at(params, state.backlog, state.trail)
    return get_domain(slug).play.observe


def seen_in_numpy(slug: str, params: Any, states: Any, look: Look | None = None) -> np.ndarray:
    """Features of all states (50, n_names): at once, or office by office."""
    look = look or look_at(slug)
    if slug == "heat":
        view = jax.vmap(view_office)(states)
        return look(in_numpy(params), in_numpy_tuple(view))
    if slug not in OFFICES:
        return look(in_numpy(params), states)
    each = [jax.tree.map(lambda x, i=i: x[i], states) for i in range(N_STEPS)]
    return np.stack([look(in_numpy(params), state) for state in each])


def in_numpy_tuple(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def differing(seen: np.ndarray, wanted: np.ndarray) -> list[int]:
    """Columns in which two observations (n, n_names) differ by more than rounding."""
    assert seen.shape == wanted.shape
    assert isinstance(seen, np.ndarray)
    assert seen.dtype == np.float32
    far = ~np.isclose(seen, wanted, rtol=1e-5, atol=1e-5)
    return np.flatnonzero(far.any(axis=0)).tolist()


@pytest.mark.parametrize("slug", slow_but(["boiler", "snad", "ert", "scaffold"], PLAYABLE))
def test_numpy_sees_what_jax_sees(slug: str) -> None:
    params, states, wanted = played(slug)
    assert differing(seen_in_numpy(slug, params, states), wanted) == []


def test_a_feature_in_the_next_column_is_found() -> None:
    params, states, wanted = played("snad")

    def shifted(params: Any, state: Any) -> np.ndarray:
        return np.roll(look_at("snad")(params, state), 1, axis=-1)

    assert len(differing(seen_in_numpy("snad", params, states, shifted), wanted)) > 3


@pytest.mark.parametrize(
    ("slug", "field", "column"),
    [("snad", "n_queued", "backlog"), ("scaffold", "n_steps", "time_left")],
)
def test_a_field_that_is_off_by_one_is_found(slug: str, field: str, column: str) -> None:
    params, states, wanted = played(slug)
    off = states._replace(**{field: getattr(states, field) + 1})
    names = get_domain(slug).observation_names
    assert differing(seen_in_numpy(slug, params, off), wanted) == [names.index(column)]


def test_what_is_not_seen_need_not_be_known() -> None:
    params, states, wanted = played("snad")
    bare = states._replace(queue=None, open_stratum=None, stratum=None)
    assert differing(look_at("snad")(None, bare), wanted) == []
    params, states, wanted = played("scaffold")
    bare = states._replace(problem=None, since_report=None, is_counted=None, is_new=None)
    assert differing(look_at("scaffold")(in_numpy(params), bare), wanted) == []


def same(one: Any, other: Any) -> bool:
    assert isinstance(one, np.ndarray | np.generic)
    return np.allclose(one, np.asarray(other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("slug", PLAYABLE)
def test_the_need_is_the_same(slug: str) -> None:
    play = get_domain(slug).play
    params = play.example()
    plain = in_numpy(params)
    assert same(play.need_per_step(plain), play.need_per_step(params))
    assert same(play.steps_per_day(plain), play.steps_per_day(params))


PRICES = np.array([0.5, -0.25, 0.1, 0.0, -0.35, 0.0], np.float32)


def one_state(slug: str) -> tuple[Any, Any, Any]:
    """Params in JAX and in NumPy, and one state."""
    params, states, _ = played(slug)
    return params, in_numpy(params), jax.tree.map(lambda x: x[20], states)


@pytest.mark.slow
def test_the_order_of_work_is_the_same() -> None:
    params, plain, state = one_state("elevator")
    for action in range(len(modes.MODES)):
        given = (state.backlog.n_steps, np.int32(action), PRICES)
        wanted = modes.judge_visits(params, *(jnp.asarray(one) for one in given))
        for one, other in zip(modes.judge_visits(plain, *given), wanted, strict=True):
            assert same(one, other), modes.MODES[action]
    params, plain, state = one_state("housing")
    for action in (0, 3, 12, 13, 14):
        numbers = (np.int32(action), PRICES, np.float32(7.0))
        wanted = housing.choose_visits(params, jax.tree.map(jnp.asarray, state.backlog), *numbers)
        assert same(housing.choose_visits(plain, state.backlog, *numbers), wanted)
    params, plain, state = one_state("drone")
    for action in range(len(drone.ACTION_NAMES)):
        numbers = (np.int32(action), PRICES)
        wanted = drone.choose_depot(params, jax.tree.map(jnp.asarray, state), *numbers)
        assert int(drone.choose_depot(plain, state, *numbers)) == int(wanted)


def test_the_order_of_an_hour_is_the_same() -> None:
    params, plain, state = one_state("ert")
    for action in (1, 4):
        numbers = (np.int32(action), PRICES, np.float32(2.0))
        wanted = choose_ert(params, jax.tree.map(jnp.asarray, state), *numbers)
        assert same(choose_ert(plain, state, *numbers), wanted)
    other = choose_ert(plain, state, np.int32(4), -PRICES, np.float32(2.0))
    assert not same(other, choose_ert(plain, state, np.int32(4), PRICES, np.float32(2.0)))
    assert same(backlog.place_prices(plain.backlog, PRICES), params.backlog.mix @ PRICES)


@pytest.mark.parametrize("mode", MODES)
def test_prices_and_the_coverage_feature_are_the_same(mode: str) -> None:
    domain = get_domain("snad")
    params, states, seen = played("snad")
    for form in FORMS if mode != "dual" else ("max_gap",):
        harness = Harness(domain, equity_mode=mode, equity_form=form)
        equity = harness.equity_params(params, news_weight=0.01, posting_steps=5.0)
        plain = in_numpy_tuple(equity)
        # The usual number of complaints is measured in JAX; who serves has it.
        known = harness.equity_params(in_numpy(params), usual_reports=plain.usual_reports)
        assert isinstance(known.denominators, np.ndarray)
        rng = np.random.default_rng(1)
        running, _ = harness.reset(jax.random.key(0), params, equity)
        jax_state, state = running.equity, in_numpy_tuple(running.equity)
        for _ in range(30):
            complaints = rng.integers(3, size=N_STRATA).astype(np.float32)
            correct = 0.3 * rng.integers(3, size=N_STRATA).astype(np.float32)
            jax_state = harness.learn(equity, jax_state, jnp.asarray(complaints), correct)
            state = harness.learn(plain, state, complaints, correct)
        pairs = zip(*map(jax.tree.leaves, (state, jax_state)), strict=True)
        assert all(same(one, other) for one, other in pairs)
        several = harness.select(seen, plain, state, states.stratum)
        assert several.shape == (N_STEPS, harness.n_features)
        for row in (0, 7, 30):
            stratum = jnp.asarray(states.stratum[row])
            assert same(several[row], harness.select(seen[row], equity, jax_state, stratum))
        nobody = harness.select(seen[0], equity, jax_state, jnp.int32(NOBODY))
        assert same(harness.select(seen[0], plain, state, np.int32(NOBODY)), nobody)
