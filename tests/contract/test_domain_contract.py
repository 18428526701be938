"""Every domain with a decision process keeps the contract; every broken twin is rejected."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from tests.conftest import slow_but
from tests.contract.broken.twins import BROKEN, make_domain

from parity311.domains import all_domains
from parity311.mdp.check import check_domain, check_harness
from parity311.mdp.contract import Domain
from parity311.mdp.harness import Harness

PLAYABLE = [domain for domain in all_domains().values() if domain.is_playable]
CHECKED = slow_but(["boiler", "ert"], PLAYABLE)


def test_there_are_playable_domains() -> None:
    assert {"boiler", "heat"} <= {domain.slug for domain in PLAYABLE}


@pytest.mark.parametrize("domain", PLAYABLE, ids=lambda domain: domain.slug)
def test_domain_can_be_checked_and_says_how_good_it_gets(domain: Domain) -> None:
    play = domain.play
    assert play.n_waiting is not None
    assert play.cases is not None or play.capacity_per_step is not None
    if domain.ceiling.startswith("exact"):
        assert play.cases is not None or play.solve is not None
    else:
        assert domain.ceiling.startswith("best known")
        assert play.candidates is not None
    assert domain.protocol is not None


@pytest.mark.parametrize("domain", CHECKED, ids=lambda domain: domain.slug)
def test_domain_keeps_the_contract(domain: Domain) -> None:
    # Planners are run where ceilings are tested: they take half a minute.
    assert check_domain(domain, with_planner=False) == []


@pytest.mark.parametrize("domain", CHECKED, ids=lambda domain: domain.slug)
def test_every_observation_set_works_in_the_harness(domain: Domain) -> None:
    assert check_harness(Harness(domain)) == []
    # Sets differ only in which features are picked: their shapes need no compiling.
    params = domain.play.example()
    for name in domain.observation_sets:
        harness = Harness(domain, observation_set=name)
        equity = harness.equity_params(params)
        _, seen = jax.eval_shape(harness.reset, jax.random.key(0), params, equity)
        assert seen.shape == (harness.n_features,)


@pytest.mark.parametrize("domain", PLAYABLE, ids=lambda domain: domain.slug)
def test_domain_has_the_rules_that_every_comparison_needs(domain: Domain) -> None:
    assert {"balanced", "never", "random", "score", "dual_threshold"} <= set(domain.heuristics)


def test_an_action_that_does_not_exist_is_paid_no_number() -> None:
    harness = Harness(make_domain())
    params = harness.domain.play.example()
    equity = harness.equity_params(params)
    running, _ = harness.reset(jax.random.key(0), params, equity)
    for action, exists in ((-1, False), (0, True), (1, True), (2, False)):
        moved = harness.step(jax.random.key(1), params, equity, running, jnp.int32(action))
        assert bool(jnp.isfinite(moved.reward[0])) == exists
        assert bool(jnp.isfinite(moved.tally.published_reward).all()) == exists


def test_the_sound_twin_is_accepted() -> None:
    assert check_domain(make_domain()) == []
    assert check_harness(Harness(make_domain())) == []


@pytest.mark.parametrize("what", BROKEN)
def test_broken_twin_is_rejected(what: str) -> None:
    make, words = BROKEN[what]
    problems = check_domain(make())
    assert any(words in problem for problem in problems), problems


def test_a_harness_that_never_truncates_is_rejected() -> None:
    class Endless(Harness):
        """A harness whose clock stands still."""

        @property
        def horizon(self) -> int:
            return 10**9

        def step(self, key, params, equity, running, action):
            return super().step(key, params, equity, running._replace(n_steps=jnp.int32(0)), action)

    problems = check_harness(Endless(make_domain()))
    assert any("goes on" in problem for problem in problems)
