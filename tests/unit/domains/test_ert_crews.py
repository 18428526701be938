"""Emergency response team: crews, the payroll behind them, and what they save."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.unit.engines.backlog_play import (
    Played,
    feature_distance,
    lost_complaints,
    most_visits,
    play_constant,
    saving_errors,
)

from parity311.domains import ert, get_domain

pytestmark = pytest.mark.slow


@cache
def played() -> Played:
    return play_constant("ert", ert.example(), 32)


@pytest.mark.slow
def test_complaints_are_conserved_and_crews_run_out() -> None:
    assert lost_complaints(played()) < 1e-3
    capacity = get_domain("ert").play.capacity_per_step
    assert capacity is not None
    assert most_visits(played()) <= float(capacity(ert.example())) + 1e-4
    # Three crews around the clock are not paid for: the week's hours are two crews' and savings.
    hours = played().tally.hours[played().of("crews_3")].sum(axis=-1)
    assert hours.max() <= 2 * 168 + ert.MOST_SAVED_HOURS + 1e-3
    assert hours.mean() > 2 * 168


def test_a_lost_complaint_is_noticed() -> None:
    tally = played().tally._replace(outcomes=0.9 * played().tally.outcomes)
    twin = Played(played().names, tally, played().reward, played().n_waiting, played().observation)
    assert lost_complaints(twin) > 1e-3


def test_what_trains_is_what_is_published() -> None:
    for part in (0, 1):
        assert saving_errors(played(), part, "no_crews").max() <= 1.0


def test_what_is_done_now_changes_what_comes_next() -> None:
    assert feature_distance(played(), "crews_1", "crews_3") > 5.0


@pytest.mark.slow
def test_hours_saved_at_night_can_be_spent_by_day() -> None:
    params = ert.example()
    state = ert.initial_state(jax.random.key(0), params)._replace(saved_hours=jnp.float32(0.0))
    step = jax.jit(ert.transition)
    prices = jnp.zeros(6)
    poor = step(jax.random.key(1), params, state, jnp.int32(2), prices)
    assert float(poor.tally.hours) == 2.0
    saved = step(jax.random.key(1), params, state, jnp.int32(0), prices).state
    rich = step(jax.random.key(2), params, saved, jnp.int32(2), prices)
    assert float(rich.tally.hours) == 3.0


def test_prices_decide_between_strata_of_the_same_code() -> None:
    params = ert.example()
    state = ert.initial_state(jax.random.key(0), params)
    one_each = jnp.zeros((6, 4, 8)).at[:, 1, 3].set(1.0).reshape(6, 32)
    state = state._replace(backlog=state.backlog._replace(waiting=one_each))
    prices = jnp.asarray([0.2, -0.1, 0.4, -0.3, -0.2, 0.0])
    chosen = ert.choose_visits(params, state, jnp.int32(ert.PRICED), prices, jnp.float32(2.0))
    np.testing.assert_array_equal(np.asarray(chosen).sum(axis=1), [1, 0, 1, 0, 0, 0])
