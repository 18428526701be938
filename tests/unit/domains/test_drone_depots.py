"""Drones: a borough is exhausted by flying over it, and the way costs part of a flight."""

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

from parity311.domains import drone, get_domain

pytestmark = pytest.mark.slow


@cache
def played() -> Played:
    return play_constant("drone", drone.example(), 16)


@pytest.mark.slow
def test_complaints_are_conserved_and_flights_are_short() -> None:
    assert lost_complaints(played()) < 1e-3
    capacity = get_domain("drone").play.capacity_per_step
    assert capacity is not None
    assert most_visits(played()) <= float(capacity(drone.example())) + 1e-3


def test_what_trains_is_what_is_published() -> None:
    for part in (0, 1):
        assert saving_errors(played(), part, "NO_FLIGHT").max() <= 1.0


def test_flying_somewhere_exhausts_what_is_new_there() -> None:
    names = list(get_domain("drone").observation_names)
    rate = played().observation[..., names.index("new_address_rate_brooklyn")]
    at_brooklyn, elsewhere = (rate[played().of(name)] for name in ("brooklyn", "queens"))
    assert (at_brooklyn[:, -1] < elsewhere[:, -1]).all()
    finds = played().tally.correct[played().of("brooklyn")].sum(axis=(0, 2))
    assert finds[-40:].mean() < finds[:40].mean()
    assert feature_distance(played(), "bronx", "queens") > 5.0


def test_the_way_costs_part_of_the_flight() -> None:
    params = drone.example()
    state = drone.initial_state(jax.random.key(0), params)._replace(depot=jnp.int32(2))
    size = np.asarray(drone.flight_size(params, state))
    assert size[2] == float(params.addresses_per_flight)
    np.testing.assert_allclose(np.delete(size, 2), 0.75 * size[2])


def test_prices_choose_the_depot() -> None:
    params = drone.example()
    state = drone.initial_state(jax.random.key(3), params)
    step = jax.jit(drone.transition)
    for favoured in range(5):
        prices = 1.5 * (2.0 * (jnp.arange(6) == favoured) - 1.0)
        action = jnp.int32(drone.ACTION_NAMES.index("COVERAGE_PRICED"))
        moved = step(jax.random.key(1), params, state, action, prices)
        assert int(moved.state.depot) == favoured


def test_a_drone_needs_nobody_to_open() -> None:
    assert not played().tally.outcomes[..., 2].any()
