"""One step of a stream of complaints: orders, queue, crew, and what was put off."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import crane, snad
from parity311.engines import heuristics
from parity311.engines.stream import process as stream
from parity311.engines.stream import step as stream_step
from parity311.engines.stream.process import QUEUE_SLOTS, StreamParams, StreamState
from parity311.evaluation.rollout import Contender, Episodes, evaluate
from parity311.mdp.contract import N_STRATA
from parity311.mdp.harness import Harness

pytestmark = pytest.mark.slow


SHAPE, DEFER, INSPECT, PRIORITISE = snad.SHAPE, 0, 1, 2


@pytest.fixture(scope="module")
def params() -> StreamParams:
    return snad.example()


@pytest.fixture(scope="module")
def step() -> Any:
    """A compiled step of the domain, all prices zero."""
    transition = snad.DOMAIN.play.transition
    return jax.jit(lambda key, params, state, action: transition(
        key, params, state, action, jnp.zeros(N_STRATA)
    ))  # fmt: skip


def office(params: StreamParams, **changes: Any) -> StreamState:
    """An empty office with a complaint of code B in the first district, changed as told."""
    state = stream.initial_state(jax.random.key(0), SHAPE, params)
    kind = SHAPE.kind(jnp.int32(0), jnp.int32(2), jnp.int32(0))
    return state._replace(kind=kind, stratum=jnp.int32(0), **changes)


@pytest.mark.slow
def test_waiting_factors_are_what_a_queue_does(params: StreamParams) -> None:
    rng = np.random.default_rng(0)
    keep = np.exp(-float(params.days_per_step[0]) / float(params.lifetime_days))
    led = np.exp(-float(params.lead_days) / float(params.lifetime_days))
    factors = np.asarray(stream.waiting_factors(params))[0]
    visits = (rng.random((4000, 400)) < float(params.visits_per_step)).cumsum(axis=1)
    for n_ahead in (0, 3, 7):
        steps = (visits <= n_ahead).sum(axis=1)
        assert factors[n_ahead] == pytest.approx(led * (keep**steps).mean(), abs=0.01)


def test_waiting_factors_where_two_visits_fit_between_complaints(params: StreamParams) -> None:
    quick = params._replace(visits_per_step=jnp.float32(1.5), lead_days=jnp.float32(0.0))
    factors = np.asarray(stream.waiting_factors(quick))[0]
    keep = float(jnp.exp(-params.days_per_step[0] / params.lifetime_days))
    assert factors[0] == pytest.approx(1.0, abs=1e-6)
    assert factors[1] == pytest.approx(0.5 + 0.5 * keep, abs=1e-5)


@pytest.mark.slow
def test_an_order_joins_the_round_and_the_crew_goes_at_once(
    params: StreamParams, step: Any
) -> None:
    none = params._replace(visits_per_step=jnp.float32(0.0), crew_per_step=jnp.float32(0.0))
    waits = step(jax.random.key(1), none, office(none), INSPECT)
    assert int(waits.state.n_queued) == 1
    assert float(waits.tally.visits.sum()) == 0.0
    at_once = step(jax.random.key(1), none, office(none), PRIORITISE)
    assert int(at_once.state.n_queued) == 0
    assert float(at_once.tally.visits[0]) == 1.0
    assert bool(at_once.state.is_crew_busy)
    assert float(at_once.reward[0]) > float(waits.reward[0])


def test_a_busy_crew_sends_the_case_to_the_round(params: StreamParams, step: Any) -> None:
    busy = office(params, is_crew_busy=jnp.asarray(True))
    moved = step(jax.random.key(2), params, busy, PRIORITISE)
    same = step(jax.random.key(2), params, busy, INSPECT)
    np.testing.assert_allclose(moved.reward, same.reward)


def test_a_full_round_puts_off(params: StreamParams, step: Any) -> None:
    full = office(params, n_queued=jnp.int32(QUEUE_SLOTS), is_crew_busy=jnp.asarray(True))
    moved = step(jax.random.key(3), params, full, INSPECT)
    off = step(jax.random.key(3), params, full, DEFER)
    np.testing.assert_allclose(moved.reward, off.reward)
    assert float(moved.tally.outcomes[stream.WAS_PUT_OFF]) == 1.0


def test_first_come_first_served(params: StreamParams, step: Any) -> None:
    state = office(params)
    never = params._replace(visits_per_step=jnp.float32(0.0))
    for stratum in (3, 1, 4):
        state = state._replace(stratum=jnp.int32(stratum))
        state = step(jax.random.key(4), never, state, INSPECT).state
    always = params._replace(visits_per_step=jnp.float32(1.0))
    served = []
    for _ in range(3):
        moved = step(jax.random.key(5), always, state, DEFER)
        served.append(int(np.argmax(moved.tally.visits)))
        state = moved.state
    assert served == [3, 1, 4]


def test_what_is_put_off_comes_back_graver_at_its_place(params: StreamParams, step: Any) -> None:
    sure = params._replace(comes_back=jnp.ones(4), lifetime_days=jnp.float32(1e6))
    backs = []
    for number in range(30):
        moved = step(jax.random.key(number), sure, office(sure), DEFER)
        arrived = int(moved.state.kind)
        if int(SHAPE.place(jnp.int32(arrived))) == 0:
            backs.append(arrived)
            assert int(moved.state.open_level[0]) == 0
            assert float(moved.reward[0]) < 0.0
        else:
            assert int(moved.state.open_level[0]) == 3
            assert float(moved.reward[0]) == 0.0
    assert backs
    assert set(backs) == {int(SHAPE.kind(jnp.int32(0), jnp.int32(3), jnp.int32(1)))}


@pytest.mark.parametrize("action", [INSPECT, PRIORITISE])
def test_a_visit_ends_only_what_it_writes_up(params: StreamParams, step: Any, action: int) -> None:
    """What is let pass stays open where people go on reporting; what is written up does not."""
    sure = params._replace(
        kinds=params.kinds.at[:, 0].set(1.0),
        access=jnp.ones(N_STRATA),
        lifetime_days=jnp.float32(1e6),
        comes_back=jnp.zeros(4),
        visits_per_step=jnp.float32(1.0),
        goes_on=jnp.float32(1.0),
    )

    def go(written_share: float, goes_on: float = 1.0) -> Any:
        changed = sure._replace(
            written_share=jnp.float32(written_share), goes_on=jnp.float32(goes_on)
        )
        return step(jax.random.key(1), changed, office(changed), action)

    ended, passed, unheard = go(1.0), go(0.0), go(0.0, 0.0)
    assert int(ended.state.open_level[0]) == 0
    assert int(passed.state.open_level[0]) == 3
    assert int(unheard.state.open_level[0]) == 0
    assert float(ended.reward[0]) > 0.0 == float(passed.reward[0])
    # Who was there saw it: that is service, though nothing was written up.
    assert float(passed.tally.correct.sum()) == float(ended.tally.correct.sum()) > 0.0
    np.testing.assert_allclose(np.asarray(passed.tally.outcomes)[:2], [0.0, 1.0], atol=1e-4)
    np.testing.assert_allclose(np.asarray(ended.tally.outcomes)[:2], [1.0, 0.0], atol=1e-4)


def test_doors_that_stay_shut_leave_it_open(params: StreamParams, step: Any) -> None:
    shut = params._replace(
        access=jnp.zeros(N_STRATA), lifetime_days=jnp.float32(1e6), comes_back=jnp.zeros(4)
    )
    moved = step(jax.random.key(1), shut, office(shut), INSPECT)
    assert int(moved.state.open_level[0]) == 3


def play(params: StreamParams, n_episodes: int = 64, n_steps: int = 300) -> Episodes:
    """Always defer, inspect, prioritise, and a mix, through the same episodes."""
    rules = [heuristics.always(action) for action in (DEFER, INSPECT, PRIORITISE)]
    rules.append(heuristics.at_random(np.array([6.0, 1.0, 1.0])))
    contenders = [Contender(str(number), rule) for number, rule in enumerate(rules)]
    harness = Harness(snad.DOMAIN, max_steps=n_steps)
    return evaluate(harness, params, contenders, jax.random.split(jax.random.key(7), n_episodes))


@pytest.fixture(scope="module")
def played(params: StreamParams) -> Episodes:
    return play(params)


def disagreement(published: np.ndarray, saved: np.ndarray) -> np.ndarray:
    """By how many standard errors differences between policies disagree, (policies - 1, 3).

    What is ordered and not yet visited when time runs out is allowed for: a full queue's worth.
    """
    # The equity component is the harness's.
    published, saved = published[..., [0, 1, 3]], saved[..., [0, 1, 3]]
    apart = (published[1:] - published[0]) - (saved[1:] - saved[0])
    error = apart.std(axis=1) / np.sqrt(apart.shape[1])
    left_over = np.abs(saved[1:] - saved[0]).mean(axis=1) * QUEUE_SLOTS / 300 / 0.24
    return np.maximum(np.abs(apart.mean(axis=1)) - left_over, 0.0) / np.maximum(error, 1e-9)


@pytest.mark.slow
def test_what_actions_save_agrees_with_the_published_reward(played: Episodes) -> None:
    published = np.asarray(played.tally.published_reward)
    assert disagreement(published, np.asarray(played.reward)).max() < 3.0


def test_a_reward_that_forgets_what_grows_would_not_agree(played: Episodes) -> None:
    forgetful = np.array(played.reward)
    forgetful[0, :, 0] += 0.1 * np.abs(forgetful[0, :, 0]) + 5.0
    published = np.asarray(played.tally.published_reward)
    assert disagreement(published, forgetful).max() > 3.0


def test_need_does_not_depend_on_what_is_done(played: Episodes) -> None:
    incidents = np.asarray(played.tally.incidents)
    np.testing.assert_allclose(incidents, np.broadcast_to(incidents[:1], incidents.shape))
    reported = np.asarray(played.tally.reported_actionable).sum(axis=(1, 2))
    # Deferring lets old incidents come back in place of first reports of new ones.
    assert reported[0] < reported[2]


def test_need_per_step_is_what_begins(params: StreamParams, played: Episodes) -> None:
    begun = np.asarray(played.tally.actionable)[2].mean(axis=0) / 300
    expected = np.asarray(stream.need_per_step(params))
    # Some become actionable only by being put off, which adds to what began so.
    ratio = begun[:5] / expected[:5]
    assert ((ratio > 0.97) & (ratio < 1.2)).all()
    sound = np.asarray(play(params._replace(comes_back=jnp.zeros(4))).tally.actionable)
    np.testing.assert_allclose(sound[2].mean(axis=0)[:5] / 300, expected[:5], rtol=0.05)


def test_the_priced_action_follows_the_prices(params: StreamParams) -> None:
    state = office(params, is_crew_busy=jnp.asarray(True))
    chosen = [
        int(stream_step.resolve_price(SHAPE, params, state, jnp.float32(price)))
        for price in (-3.0, 0.0, 3.0)
    ]
    assert chosen[0] == DEFER
    assert chosen[2] == INSPECT
    assert chosen == sorted(chosen)


@pytest.mark.slow
def test_stopping_a_site_for_nothing_costs(params: StreamParams) -> None:
    del params
    given = crane.example()
    transition = jax.jit(crane.DOMAIN.play.transition)
    state = stream.initial_state(jax.random.key(0), crane.SHAPE, given)
    costs = []
    for chance in (0.05, 0.95):
        kinds = given.kinds.at[:, 0].set(chance)
        moved = transition(
            jax.random.key(1), given._replace(kinds=kinds), state, jnp.int32(3), jnp.zeros(N_STRATA)
        )
        costs.append(-float(moved.reward[1]))
    assert costs[0] > 2.0 * costs[1]
