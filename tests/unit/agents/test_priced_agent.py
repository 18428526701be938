"""The priced agent turns where price times coverage outweighs what is saved, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.probes import Place, _probe

from parity311.agents import agent_config, make_agent
from parity311.agents.forward import score_actions_numpy
from parity311.domains import get_domain
from parity311.errors import InputError, TrainingError
from parity311.mdp.contract import N_STRATA, Domain
from parity311.mdp.equity import FEATURE_SCALE
from parity311.mdp.harness import Harness
from parity311.training import agent_for
from parity311.training.loop import Trained, train_agents

pytestmark = pytest.mark.slow

SAVED, COVERED = 0.4, 0.8
"""Waiting saves the first, acting where the sign is positive covers the second."""
TURN = SAVED / COVERED
"""The price, in correct escalations, from which on acting is worth it, at equal weights."""


def saving_or_covering() -> Domain:
    """A probe whose two actions save, or cover, in the first stratum."""
    probe = _probe(lambda place, action: jnp.where(action == 0, SAVED, 0.0), 1)
    own = probe.play.transition

    def transition(key: Any, params: Any, state: Place, action: jax.Array, prices: Any) -> Any:
        moved = own(key, params, state, action, prices)
        covered = COVERED * ((action == 1) & (state.sign > 0))
        return moved._replace(credit=jnp.zeros(N_STRATA).at[0].set(covered))

    return replace(probe, dynamics=replace(probe.play, transition=transition))


@cache
def learn(name: str, weight: float = 0.5) -> Trained:
    settings = {
        "hidden": (32,), "discount": 0.0, "epsilon_end": 0.5, "buffer_size": 4000,
        "target_every": 50,
    }  # fmt: skip
    return train_agents(
        Harness(saving_or_covering(), max_steps=10),
        saving_or_covering().play.example(),
        make_agent(name, agent_config(name, settings)),
        [[1.0 - weight, 0.0, weight, 0.0]], [0, 1], 3000,
        n_environments=8,
    )  # fmt: skip


def values_at(trained: Trained, index: int, sign: float, price: float) -> np.ndarray:
    seen = np.array([sign, FEATURE_SCALE * price], np.float32)
    return score_actions_numpy(flat(trained.weights(index)), seen)


def flat(weights: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(values) for name, values in weights.items()}


@pytest.mark.parametrize("index", [0, 1])
def test_it_acts_from_the_price_on_at_which_coverage_is_worth_it(index: int) -> None:
    trained = learn("priced")
    for price in (-1.5, -0.5, 0.0, TURN - 0.15, TURN + 0.15, 1.0, 1.5):
        assert values_at(trained, index, 1.0, price).argmax() == (price > TURN), price
        # Where acting covers nobody, no price makes it act.
        assert values_at(trained, index, -1.0, price).argmax() == 0, price


@pytest.mark.parametrize("index", [0, 1])
def test_a_price_training_never_saw_is_understood(index: int) -> None:
    trained = learn("priced")
    margin = [np.diff(values_at(trained, index, 1.0, price))[0] for price in (2.0, 4.0, 8.0)]
    expected = [0.5 * (COVERED * price - SAVED) for price in (2.0, 4.0, 8.0)]
    np.testing.assert_allclose(margin, expected, rtol=0.15)


def test_a_network_that_sees_the_price_is_no_such_agent() -> None:
    """The twin: plain DQN with the price among its features guesses beyond what it saw."""
    margin = [np.diff(values_at(learn("dqn"), 0, 1.0, price))[0] for price in (2.0, 4.0, 8.0)]
    expected = [0.5 * (COVERED * price - SAVED) for price in (2.0, 4.0, 8.0)]
    assert np.abs(np.array(margin) / expected - 1.0).max() > 0.15


def test_without_a_weight_on_equity_nothing_is_learned_of_coverage() -> None:
    trained = learn("priced", weight=0.0)
    for sign in (-1.0, 1.0):
        assert values_at(trained, 0, sign, 0.0) == pytest.approx([SAVED, 0.0], abs=0.05)


@pytest.mark.parametrize(
    "setting", [{"averaging": 0.01}, {"is_double": True}, {"conservatism": 0.1}]
)
def test_a_setting_it_would_ignore_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"no use for {next(iter(setting))}"):
        agent_config("priced", setting)


def test_a_mode_without_prices_is_refused() -> None:
    domain = get_domain("boiler")
    for mode in ("per_step", "windowed", "potential"):
        with pytest.raises(TrainingError, match=f"mode '{mode}' has none of"):
            agent_for(Harness(domain, equity_mode=mode), "priced", 100)
    assert agent_for(Harness(domain), "priced", 100).name == "priced"


def test_served_and_trained_decide_alike() -> None:
    trained = learn("priced")
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(200, 2)).astype(np.float32)
    served = score_actions_numpy(flat(trained.weights(0)), seen).argmax(axis=1)
    decide = jax.vmap(lambda observation: trained.policy(0)(jax.random.key(0), observation))
    np.testing.assert_array_equal(np.asarray(decide(jnp.asarray(seen))), served)
