"""Ceilings and floors: nothing beats the Bayes rule, and parity has the price it must."""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import boiler, get_domain
from parity311.engines.heuristics import Threshold
from parity311.errors import InputError
from parity311.evaluation.ceiling import bayes_chances, bayes_rule, learnable_share, least_price
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.harness import Harness

pytestmark = pytest.mark.slow


DOMAIN = get_domain("boiler")
HARNESS = Harness(DOMAIN)


def beaten_by(ceiling: Threshold) -> list[str]:
    """Rules at the same capacity that catch more than this one, beyond two standard errors."""
    params = boiler.example()
    names = ["balanced", "random", "score", "dual_threshold"]
    rules = [Contender(name, DOMAIN.heuristics[name](params, HARNESS)) for name in names]
    episodes = evaluate(
        HARNESS,
        params,
        [*rules, Contender("ceiling", ceiling)],
        jax.random.split(jax.random.key(0), 32),
    )
    reward = np.asarray(episodes.tally.published_reward)[..., :2].sum(axis=-1)
    better = []
    for place, name in enumerate(names):
        difference = reward[place] - reward[-1]
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        if difference.mean() > 2 * error:
            better.append(name)
    return better


@pytest.mark.slow
def test_nothing_beats_the_bayes_rule() -> None:
    assert beaten_by(bayes_rule(boiler.cases(boiler.example()), HARNESS)) == []


def test_a_ceiling_from_shuffled_labels_is_beaten() -> None:
    cases = boiler.cases(boiler.example())
    shuffled = np.random.default_rng(0).permutation(cases.is_actionable)
    assert "score" in beaten_by(bayes_rule(cases._replace(is_actionable=shuffled), HARNESS))


def test_bayes_rule_uses_the_visits_it_has() -> None:
    cases = boiler.cases(boiler.example())._replace(capacity_share=0.2)
    rule = bayes_rule(cases, HARNESS)
    seen = jnp.asarray(
        np.column_stack([cases.features[:, HARNESS.columns], np.zeros(len(cases.stratum))]),
        jnp.float32,
    )
    keys = jax.random.split(jax.random.key(1), len(seen))
    assert float(jax.vmap(rule)(keys, seen).mean()) == pytest.approx(0.2, abs=0.01)


def test_parity_costs_what_it_was_found_to_cost() -> None:
    """Five strata reporting 35 to 73 %, AUC 0.76: 1.1 % at a capacity of 10, 2.4 at 20, 4 at 30."""
    cases = boiler.cases(boiler.example())
    score = np.rint(cases.features[:, 2] * 7) * 4 + np.rint(cases.features[:, 6] * 3)
    rate = np.array([cases.is_actionable[score == level].mean() for level in range(32)])
    chances = rate[score.astype(int)]
    n = len(chances)
    prices = [
        100 * least_price(chances, cases.stratum, cases.need, share * n, 0.0)[1]
        for share in (0.1, 0.2, 0.3)
    ]
    np.testing.assert_allclose(prices, [1.1, 2.4, 4.0], atol=0.8)
    free, _ = least_price(chances, cases.stratum, cases.need, 0.3 * n, 1.0)
    at_parity, _ = least_price(chances, cases.stratum, cases.need, 0.3 * n, 0.0)
    assert np.ptp(free.coverage) > 0.18
    assert np.ptp(at_parity.coverage) < 1e-3
    assert at_parity.visits == pytest.approx(free.visits, abs=1.0)


def test_a_wider_gap_never_costs_more() -> None:
    cases = boiler.cases(boiler.example())
    chances = bayes_chances(cases, HARNESS)
    n_visits = 0.3 * len(chances)
    prices = [
        least_price(chances, cases.stratum, cases.need, n_visits, gap)[1]
        for gap in (0.0, 0.05, 0.1, 0.2, 1.0)
    ]
    assert all(late <= early + 1e-6 for early, late in pairwise(prices))
    assert prices[-1] == pytest.approx(0.0, abs=1e-6)


def test_parity_beyond_what_is_reported_is_infeasible() -> None:
    cases = boiler.cases(boiler.example())
    chances = bayes_chances(cases, HARNESS)
    _, price = least_price(chances, cases.stratum, cases.need, 0.95 * len(chances), 0.0)
    assert np.isnan(price)
    with pytest.raises(InputError, match="at least 0"):
        least_price(chances, cases.stratum, cases.need, 10.0, -0.1)


def test_what_can_be_learned_is_the_whole_way_only_where_kinds_are_pure() -> None:
    """Chances that follow the features can be learned; those that vary within a kind cannot all."""
    cases = boiler.cases(boiler.example())
    risk = cases.features[:, DOMAIN.observation_names.index("neighborhood_risk")]
    pure = cases._replace(is_actionable=0.05 + 0.4 * risk)
    today = DOMAIN.heuristics["balanced"](boiler.example(), HARNESS)
    assert isinstance(today, Threshold)
    assert learnable_share(pure, HARNESS, today) > 0.99
    mixed = np.random.default_rng(0).beta(0.5, 4.0, len(risk))
    assert learnable_share(cases._replace(is_actionable=mixed), HARNESS, today) < 0.5
