"""Scaffolds: one site, its inspector's time, and what each action does."""

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

from parity311.domains import get_domain, scaffold
from parity311.domains.scaffold.sites import make_site_params
from parity311.engines.trips import SHARED_TIME
from parity311.errors import InputError

PARAMS = scaffold.example()


@cache
def played() -> Played:
    return play_constant("scaffold", PARAMS, 512)


@pytest.mark.slow
def test_complaints_are_conserved_and_one_visit_fits_in_an_hour() -> None:
    assert lost_complaints(played()) == 0.0
    assert most_visits(played()) <= 1.0


def test_what_trains_is_what_is_published() -> None:
    """A found hazard can come again, so here the two agree on average only."""
    for part in (0, 1):
        assert saving_errors(played(), part, "delay").max() <= 1.5


def test_what_is_done_now_changes_what_comes_next() -> None:
    assert feature_distance(played(), "inspect_now", "delay") > 5.0


def test_an_inspector_has_no_more_time_than_he_has() -> None:
    visits = played().tally.visits[played().of("inspect_now")].sum(axis=-1)
    given = 1.0 + float(PARAMS.visits_per_hour) * scaffold.MAX_STEPS * 1.1
    assert visits.sum(axis=-1).max() <= given + scaffold.MOST_TOKENS
    hours = played().tally.hours[played().of("escalate")].sum(axis=-1)
    assert hours.max() > given


def site(**changed: object) -> scaffold.State:
    """A hazard of code B at ten on a Monday, with an inspector at hand."""
    state = scaffold.initial_state(jax.random.key(0), PARAMS)
    given = {
        "problem": jnp.int32(scaffold.HAZARD),
        "code": jnp.int32(1),
        "hour": jnp.int32(10),
        "tokens": jnp.float32(1.0),
    }
    return state._replace(**{**given, **changed})


@pytest.mark.parametrize(
    ("action", "changed", "happens", "cost"),
    [
        (scaffold.INSPECT_NOW, {}, True, 1.0),
        (scaffold.INSPECT_NOW, {"tokens": jnp.float32(0.5)}, False, 0.0),
        (scaffold.INSPECT_NOW, {"hour": jnp.int32(3)}, False, 0.0),
        (scaffold.INSPECT_NOW, {"n_open": jnp.float32(0.0)}, False, 0.0),
        (scaffold.BATCH, {}, False, 0.0),
        (scaffold.BATCH, {"hour": jnp.int32(8)}, True, SHARED_TIME),
        (scaffold.ESCALATE, {"hour": jnp.int32(3), "tokens": jnp.float32(0.0)}, True, 3.0),
        (scaffold.DELAY, {}, False, 0.0),
        (scaffold.IGNORE, {}, False, 0.0),
    ],
)
def test_who_is_visited_when(action: int, changed: dict, happens: bool, cost: float) -> None:
    visit = scaffold.visit_site(PARAMS, site(**changed), jnp.int32(action), jnp.float32(0.0))
    assert bool(visit.happens) is happens
    assert float(visit.cost) == pytest.approx(cost)
    assert bool(visit.is_correct) is happens


def test_a_hazard_counts_once_and_in_time() -> None:
    now = jnp.float32(0.0)
    again = site(is_counted=jnp.ones((), bool))
    visit = scaffold.visit_site(PARAMS, again, jnp.int32(scaffold.INSPECT_NOW), now)
    assert bool(visit.found)
    assert not bool(visit.is_correct)
    late = site(code=jnp.int32(0), since_report=jnp.float32(30.0))
    visit = scaffold.visit_site(PARAMS, late, jnp.int32(scaffold.INSPECT_NOW), now)
    assert not bool(visit.is_correct)


def test_an_order_waits_for_the_office_to_open() -> None:
    state = site(hour=jnp.int32(6))
    zero = jnp.zeros(6)
    step = jax.jit(scaffold.transition)
    visits = []
    for number in range(3):
        moved = step(jax.random.key(number), PARAMS, state, jnp.int32(0), zero)
        state = moved.state
        visits.append(float(moved.tally.visits.sum()))
    assert visits == [0.0, 0.0, 1.0]


def test_features_are_the_papers() -> None:
    assert get_domain("scaffold").observation_sets["published"] == (
        "created_count",
        "open_count",
        "recurrent_7d",
        "zip_freq_24h",
        "time_since_last_resolution_h",
    )
    assert get_domain("scaffold").geographic_features == ("zip_freq_24h",)


def test_params_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        make_site_params(
            np.ones((5, 4)),
            np.ones((6, 4)),
            np.ones(6),
            lifetime_days=20.0,
            report_rate=np.ones(6),
            incidents_per_site_day=0.0,
            zip_per_day=np.ones(6),
            access=np.ones(6),
            visits_per_case=1.0,
            hidden_incidents=np.ones(6),
            sites_per_day=1.0,
            max_steps=168,
        )
