"""Housing: categories, the order within them, savings and homes kept."""

from __future__ import annotations

from functools import cache
from typing import cast

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

from parity311.domains import get_domain, housing
from parity311.domains.housing.state import CATEGORIES
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.rules import LinearChoice
from parity311.mdp.harness import Harness

# Its episodes are long: what is compiled is worth optimizing.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("optimized")]


@cache
def played() -> Played:
    return play_constant("housing", housing.example(), 4)


@pytest.mark.slow
def test_complaints_are_conserved_and_inspectors_run_out() -> None:
    assert lost_complaints(played()) < 1e-2
    capacity = get_domain("housing").play.capacity_per_step
    assert capacity is not None
    assert most_visits(played()) <= float(capacity(housing.example())) + 1e-2


def test_what_trains_is_what_is_published() -> None:
    for part in (0, 1, 3):
        assert saving_errors(played(), part, "NO_DISPATCH").max() <= 1.0


def test_what_is_done_now_changes_what_comes_next() -> None:
    assert feature_distance(played(), "plumbing", "water_leak") > 5.0


@pytest.mark.slow
def test_only_the_chosen_category_is_served() -> None:
    params = housing.example()
    backlog, _ = engine.start(params.backlog, jnp.float32(0.5))
    prices = jnp.zeros(6)
    chosen = housing.choose_visits(params, backlog, jnp.int32(4), prices, jnp.float32(6.0))
    by_category = np.asarray(chosen).reshape(12, -1).sum(axis=1)
    np.testing.assert_allclose(by_category, 6.0 * (np.arange(12) == 4), atol=1e-4)
    assert (np.asarray(chosen) <= np.asarray(backlog.waiting) + 1e-5).all()


def test_the_graver_code_comes_first_and_prices_can_change_that() -> None:
    params = housing.example()
    backlog, _ = engine.start(params.backlog, jnp.float32(0.5))
    number = housing.ACTION_NAMES.index
    today = housing.choose_visits(
        params, backlog, jnp.int32(number("BALANCED")), jnp.zeros(6), jnp.float32(5.0)
    )
    by_code = np.asarray(today).reshape(72, 4, 16).sum(axis=(0, 2))
    assert by_code[1:].sum() < 1e-4
    prices = jnp.asarray([1.5, 0.0, 0.0, 0.0, -1.5, 0.0])
    for name in ("COVERAGE_PRICED", "BALANCED"):
        priced = housing.choose_visits(
            params, backlog, jnp.int32(number(name)), prices, jnp.float32(40.0)
        )
        by_stratum = np.asarray(priced).reshape(12, 6, -1).sum(axis=(0, 2))
        assert by_stratum[0] > 3 * by_stratum[4]


def test_prices_order_who_waits_within_the_category_that_is_served() -> None:
    params = housing.example()
    backlog, _ = engine.start(params.backlog, jnp.float32(0.5))
    prices = jnp.asarray([1.5, 0.0, 0.0, 0.0, -1.5, 0.0])
    line = np.asarray(backlog.waiting).reshape(12, 6, -1)[4].sum()
    half = jnp.float32(line / 2)
    plain, priced = (
        np.asarray(housing.choose_visits(params, backlog, jnp.int32(4), own, half)).reshape(
            12, 6, -1
        )
        for own in (jnp.zeros(6), prices)
    )
    assert priced[np.arange(12) != 4].sum() == 0.0
    np.testing.assert_allclose([plain.sum(), priced.sum()], line / 2, rtol=1e-4)
    shares = [found[4].sum(axis=1) / found.sum() for found in (plain, priced)]
    assert shares[1][0] > 1.5 * shares[0][0]
    assert shares[1][4] < 0.5 * shares[0][4]


def test_a_canvass_finds_what_nobody_called_in() -> None:
    place = played().of("CANVASS")
    tally = played().tally
    off_line = tally.visits[place].sum() - tally.outcomes[place, ..., :3].sum()
    assert off_line > 0.2 * tally.visits[place].sum()


def test_features_are_the_papers() -> None:
    names = get_domain("housing").observation_sets["published"]
    for wanted in ("close_time", "lag_1h", "rolling_mean_24h", "recurrence_ratio", "hour_sin"):
        assert wanted in names
    assert sum(name.startswith("backlog_") for name in names) == 12


@pytest.mark.parametrize("features", ["published", "extended"])
def test_emergencies_first_is_another_rule_than_todays(features: str) -> None:
    """BALANCED weighs codes and waits, EMERG counts code A alone."""
    domain, params = get_domain("housing"), housing.example()
    harness = Harness(domain, observation_set=features)
    n = len(harness.observation_names)
    seen = np.random.default_rng(0).uniform(0.0, 1.0, (200, n)).astype(np.float32)
    chosen = {}
    for name in ("balanced", "emerg"):
        rule = cast(LinearChoice, domain.heuristics[name](params, harness))
        chosen[name] = (seen @ np.asarray(rule.weights) + np.asarray(rule.bias)).argmax(axis=1)
    assert (chosen["balanced"] != chosen["emerg"]).mean() > 0.05
    rule = cast(LinearChoice, domain.heuristics["emerg"](params, harness))
    per_day = np.asarray(params.backlog.cases_per_day).reshape(12, 6, -1).sum(axis=1)
    columns = [harness.observation_names.index(f"backlog_{name}") for name in CATEGORIES]
    found = np.asarray(rule.weights)[columns, range(12)]
    expected = per_day[:, 0] / per_day.sum(axis=1)
    np.testing.assert_allclose(found / found.sum(), expected / expected.sum(), rtol=1e-4)
