"""Rules: thresholds that hold a capacity, tables of cells, scores that are calibrated."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import boiler, get_domain
from parity311.engines import heuristics
from parity311.engines.table import rules, scores
from parity311.errors import EstimationError
from parity311.mdp.harness import Harness


@pytest.mark.parametrize("share", [0.05, 0.3, 0.77, 1.0])
def test_a_threshold_takes_the_share_it_should_even_with_ties(share: float) -> None:
    margins = np.repeat([3.0, 1.0, 0.0], [100, 500, 400])
    threshold, tie_chance = heuristics.hold_to_share(margins, share)
    is_tie = np.isclose(margins, threshold)
    taken = (margins > threshold).sum() - (is_tie & (margins > threshold)).sum()
    taken = taken + tie_chance * is_tie.sum() if np.isfinite(threshold) else len(margins)
    assert taken / len(margins) == pytest.approx(share, abs=1e-6)


def test_threshold_policy_takes_ties_at_its_chance() -> None:
    policy = heuristics.Threshold(heuristics.feature_margin(0), jnp.float32(1.0), jnp.float32(0.25))
    keys = jax.random.split(jax.random.key(0), 4000)
    seen = jnp.ones((4000, 2))
    assert float(jax.vmap(policy)(keys, seen).mean()) == pytest.approx(0.25, abs=0.03)
    assert float(jax.vmap(policy)(keys, seen * 2).mean()) == 1.0
    assert float(jax.vmap(policy)(keys, seen * 0).mean()) == 0.0


def test_cells_are_numbered_as_the_policy_numbers_them() -> None:
    levels = (2, 3, 4)
    cells = scores.all_cells(levels)
    np.testing.assert_array_equal(heuristics.cell_index(levels, cells), np.arange(24))
    table = np.arange(24.0)
    margin = heuristics.cell_margin(levels, table)
    seen = jnp.asarray(np.column_stack([cells, np.ones(24)]), jnp.float32)
    np.testing.assert_allclose(jax.vmap(margin)(seen), table)
    priced = heuristics.cell_margin(levels, table, price_gain=1.0)
    np.testing.assert_allclose(jax.vmap(priced)(seen), table + 0.5)


def test_logistic_recovers_its_coefficients() -> None:
    rng = np.random.default_rng(0)
    features = rng.random((40_000, 2))
    truth = np.array([-2.0, 1.5, -1.0])
    labels = rng.random(40_000) < scores.predict(truth, features)
    beta = scores.fit_logistic(features, labels.astype(float))
    np.testing.assert_allclose(beta, truth, atol=0.12)
    with pytest.raises(EstimationError, match="same outcome"):
        scores.fit_logistic(features, np.zeros(40_000))


def test_cell_chances_without_prior_are_the_frequencies() -> None:
    cases = boiler.cases(boiler.example())
    columns = Harness(get_domain("boiler")).columns
    chances = scores.cell_chances(cases, columns, prior=0.0)
    levels = tuple(cases.levels[i] for i in columns)
    cell = heuristics.cell_index(levels, cases.features[:, columns])
    busiest = np.bincount(cell).argmax()
    assert chances[busiest] == pytest.approx(cases.is_actionable[cell == busiest].mean())


def test_rules_keep_to_the_capacity_of_their_cases() -> None:
    harness, params = Harness(get_domain("boiler")), boiler.example()
    cases = boiler.cases(params)
    seen = jnp.asarray(rules.case_observations(cases, harness))
    keys = jax.random.split(jax.random.key(0), len(seen))
    for name in ("balanced", "random", "score", "dual_threshold"):
        policy = get_domain("boiler").heuristics[name](params, harness)
        share = float(jax.vmap(policy)(keys, seen).mean())
        assert share == pytest.approx(cases.capacity_share, abs=0.02), name


def test_a_price_raises_the_margin_of_its_stratum_only() -> None:
    harness, params = Harness(get_domain("boiler")), boiler.example()
    cases = boiler.cases(params)
    margin = rules.score_margin(cases, harness, price_gain=1.0)
    prices = np.array([0.5, 0, 0, 0, 0, 0])
    plain = np.asarray(jax.vmap(margin)(jnp.asarray(rules.case_observations(cases, harness))))
    raised = np.asarray(
        jax.vmap(margin)(jnp.asarray(rules.case_observations(cases, harness, prices)))
    )
    np.testing.assert_allclose(raised - plain, np.where(cases.stratum == 0, 0.5, 0.0), atol=1e-5)


def test_queue_rule_raises_its_bar_with_the_queue() -> None:
    rule = heuristics.QueueRule(
        jnp.float32([1.0, 0.0, 0.0]), jnp.float32(0.5), jnp.float32([0.0, 1.0, 0.0]),
        jnp.float32(0.3),
    )  # fmt: skip
    key = jax.random.key(0)
    assert int(rule(key, jnp.float32([1.0, 0.0, 0.0]))) == 0
    assert int(rule(key, jnp.float32([1.0, 0.6, 0.0]))) == 1
    assert int(rule(key, jnp.float32([1.0, 2.0, 0.0]))) == 2
