"""A calendar of revisits: kept on their day, late where too many fall due, within capacity."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import electrical_revisit
from parity311.domains.electrical_revisit import revisits
from parity311.domains.electrical_revisit.revisits import RevisitParams, State
from parity311.engines import heuristics
from parity311.engines.stream.process import QUEUE_SLOTS
from parity311.engines.stream.worth import kind_shares
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.contract import N_STRATA
from parity311.mdp.harness import Harness

pytestmark = pytest.mark.slow


SHAPE = electrical_revisit.SHAPE


@pytest.fixture(scope="module")
def params() -> RevisitParams:
    return electrical_revisit.example()


@pytest.fixture(scope="module")
def step() -> Any:
    transition = electrical_revisit.DOMAIN.play.transition
    return jax.jit(lambda key, params, state, action: transition(
        key, params, state, action, jnp.zeros(N_STRATA)
    ))  # fmt: skip


def quiet(params: RevisitParams) -> RevisitParams:
    """The office where nothing comes back."""
    stream = params.stream
    return params._replace(stream=stream._replace(comes_back=0.0 * stream.comes_back))


def booking_worth(params: RevisitParams, action: int) -> np.ndarray:
    """What a booking credits in the mean: speed, cost and retention, (3,), without their signs."""
    stream = params.stream
    state = start(params)
    found = jax.vmap(
        lambda kind: revisits.book(SHAPE, params, state._replace(kind=kind), jnp.int32(action))
    )(jnp.arange(SHAPE.n_kinds))
    shares = kind_shares(SHAPE, stream)
    days, unit_days = (float(shares @ np.asarray(x)) for x in (found.days, found.unit_days))
    hours = float(stream.actions.hours[1])
    worth = (days / stream.speed_unit, hours / stream.cost_unit, unit_days / stream.keep_unit)
    return np.array([float(x) for x in worth])


def with_capacity(params: RevisitParams, visits: float) -> RevisitParams:
    return params._replace(stream=params.stream._replace(visits_per_step=jnp.float32(visits)))


def start(params: RevisitParams) -> State:
    return revisits.initial_state(jax.random.key(0), SHAPE, params)


def steps_until_visited(step: Any, params: RevisitParams, action: int) -> int:
    state = step(jax.random.key(1), params, start(params), action).state
    for number in range(1, 20):
        if int(state.n_booked) == 0:
            return number
        state = step(jax.random.key(number), params, state, 0).state
    return 20


@pytest.mark.slow
def test_a_revisit_is_made_when_it_is_due(params: RevisitParams, step: Any) -> None:
    always = with_capacity(params, 1.0)
    days = float(np.asarray(params.stream.days_per_step).mean())
    for action, delay in enumerate(revisits.DELAYS_DAYS, start=1):
        wanted = int(np.ceil(delay / days))
        assert abs(steps_until_visited(step, always, action) - wanted) <= 1


def test_nobody_goes_without_capacity(params: RevisitParams, step: Any) -> None:
    never = quiet(with_capacity(params, 0.0))
    state, promised = start(never), 0.0
    for number in range(QUEUE_SLOTS):
        promised += float(revisits.book(SHAPE, never, state, jnp.int32(1)).days)
        moved = step(jax.random.key(number), never, state, 1)
        state = moved.state
        assert float(moved.tally.visits.sum()) == 0.0
    assert int(state.n_booked) == QUEUE_SLOTS
    full = step(jax.random.key(99), never, state, 1)
    assert float(full.tally.outcomes[3]) == 1.0
    # What was promised melts away while nobody comes.
    assert float(state.calendar.days.sum()) < 0.9 * promised


def test_the_most_overdue_goes_first(params: RevisitParams, step: Any) -> None:
    never = quiet(with_capacity(params, 0.0))
    state = start(never)
    for number, (stratum, action) in enumerate(((0, 5), (1, 2), (2, 3))):
        state = state._replace(stratum=jnp.int32(stratum))
        state = step(jax.random.key(number), never, state, action).state
    for number in range(12):
        state = step(jax.random.key(number), never, state, 0).state
    always, order = with_capacity(params, 1.0), []
    for number in range(3):
        moved = step(jax.random.key(number), always, state, 0)
        order.append(int(np.argmax(moved.tally.visits)))
        state = moved.state
    assert order == [1, 2, 0]


@pytest.mark.slow
def test_saved_days_agree_with_the_published_reward(params: RevisitParams) -> None:
    harness = Harness(electrical_revisit.DOMAIN, max_steps=400)
    actions = (0, 1, 3, 5)
    contenders = [Contender(str(action), heuristics.always(action)) for action in actions]
    keys = jax.random.split(jax.random.key(5), 32)
    # What comes back is charged alike in both, and would change the mixture of kinds.
    params = quiet(params)
    played = evaluate(harness, params, contenders, keys)
    own = [0, 1, 3]  # The equity component is the harness's.
    published = np.asarray(played.tally.published_reward)[..., own]
    saved = np.asarray(played.reward)[..., own]
    apart = (published[1:] - published[0]) - (saved[1:] - saved[0])
    error = apart.std(axis=1) / np.sqrt(apart.shape[1])
    # What is booked when time runs out is credited and not yet made: a full calendar at most.
    left_over = QUEUE_SLOTS * np.stack([booking_worth(params, action) for action in actions[1:]])
    assert (np.abs(apart.mean(axis=1)) < 3.0 * error + left_over + 1e-6).all()
    # Without the charge for delay they would not agree: overbooking tomorrow costs.
    late = with_capacity(params, 0.2)
    busy = np.asarray(evaluate(harness, late, contenders, keys).reward)[..., 0].mean(axis=1)
    easy = saved[..., 0].mean(axis=1)
    assert busy[1] - busy[0] < 0.5 * (easy[1] - easy[0])


def test_when_to_come_back_changes_what_is_found(params: RevisitParams) -> None:
    booked = [
        revisits.book(SHAPE, params, start(params), jnp.int32(action)) for action in range(1, 6)
    ]
    access = [float(one.access) for one in booked]
    assert access == sorted(access)
    slack = [float(one.slack) for one in booked]
    assert slack == sorted(slack, reverse=True)


def test_the_priced_action_follows_the_price(params: RevisitParams) -> None:
    chosen = [
        int(revisits.resolve_price(SHAPE, params, start(params), jnp.float32(price)))
        for price in (-5.0, 5.0)
    ]
    assert chosen == [0, 1]
