"""Learning from a log: cloning copies it, constrained learners never leave it, plain DQN does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.probes import _probe, agents_probed, settings_of

from parity311.agents import agent_config, make_agent
from parity311.errors import TrainingError
from parity311.mdp.contract import Action
from parity311.mdp.harness import Harness
from parity311.training.loop import Trained, train_agents
from parity311.training.offline import Decisions, train_offline

pytestmark = pytest.mark.slow

N_ROWS = 600
ONE = [[1.0, 0.0, 0.0, 0.0]]
HARNESS = Harness(
    replace(
        _probe(lambda place, action: jnp.float32(0.0), 1),
        actions=tuple(Action(name, False, 0.0) for name in "abc"),
    ),
    max_steps=10,
)
NETWORK = {"hidden": (32,), "discount": 0.0, "target_every": 100, "batch_size": 32}


def make_log() -> Decisions:
    """Action a pays -1, b pays -2 where the sign is negative, the other way round elsewhere.

    Action c was never taken. Where the sign is negative a was logged in 80 %, elsewhere b in 80 %:
    with the sign, the log mostly did right.
    """
    rng = np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], N_ROWS)
    action = np.where(rng.random(N_ROWS) < 0.8, sign > 0, sign < 0).astype(np.int32)
    paid = np.where((action == 1) == (sign > 0), -1.0, -2.0)
    observation = np.column_stack([sign, np.zeros(N_ROWS)])
    shape = (6, N_ROWS // 6)
    over = np.zeros(shape, bool)
    return Decisions(
        observation=observation.reshape(*shape, 2),
        action=action.reshape(shape),
        propensity=np.full(shape, 0.8),
        reward=np.column_stack([paid, *[np.zeros(N_ROWS)] * 3]).reshape(*shape, 4),
        terminated=~over,
        truncated=over,
        next_observation=observation.reshape(*shape, 2),
        n_actions=3,
    )


def learn(name: str, steps: int = 1500, **settings: Any) -> Trained:
    agent = make_agent(name, agent_config(name, settings))
    return train_offline(HARNESS, make_log(), agent, ONE, [0, 1], steps)


def chosen(trained: Trained) -> set[tuple[int, int]]:
    """Actions at the negative and the positive sign, over seeds."""
    return {
        tuple(
            int(trained.policy(i)(jax.random.key(0), jnp.array([sign, 0.0])))
            for sign in (-1.0, 1.0)
        )
        for i in range(trained.n_agents)
    }


def test_cloning_gives_shares_of_the_actions() -> None:
    trained = learn("bc", steps=1)
    shares = trained.weights(0)["table"].sum(axis=-1)
    np.testing.assert_allclose(shares, 1.0, atol=1e-5)


@pytest.mark.parametrize("name", agents_probed("log"))
def test_constrained_learners_stay_with_what_was_logged(name: str) -> None:
    settings = settings_of(name, NETWORK)
    # Without batches the whole log is counted at once.
    steps = 1500 if "batch_size" in settings else 1
    assert chosen(learn(name, steps, **settings)) == {(0, 1)}


def test_plain_dqn_falls_for_the_action_nobody_tried() -> None:
    assert any(2 in pair for pair in chosen(learn("dqn", **NETWORK)))


def test_support_that_asks_for_nothing_is_no_support() -> None:
    assert any(2 in pair for pair in chosen(learn("bcq", **NETWORK, support_share=1e-30)))


def test_the_table_learns_from_a_log_too() -> None:
    # Entries of what was never tried stay at zero, above everything logged.
    table = learn("td", discount=0.0, n_rows=64).weights(0)
    from parity311.agents.forward import score_actions_numpy

    values = score_actions_numpy(table, np.array([[-1.0, 0.0], [1.0, 0.0]]))
    np.testing.assert_allclose(values, [[-1.0, -2.0, 0.0], [-2.0, -1.0, 0.0]], atol=0.01)


def test_agents_that_must_act_refuse_a_log_and_the_other_way_round() -> None:
    with pytest.raises(TrainingError, match="must act"):
        learn("reinforce")
    agent = make_agent("bcq", agent_config("bcq", NETWORK))
    with pytest.raises(TrainingError, match="logged decisions"):
        train_agents(HARNESS, HARNESS.domain.play.example(), agent, ONE, [0], 10)


def test_a_log_of_another_domain_is_refused() -> None:
    log = make_log()
    agent = make_agent("bc", agent_config("bc"))
    with pytest.raises(TrainingError, match="actions"):
        train_offline(HARNESS, log._replace(n_actions=4), agent, ONE, [0], 1)
    with pytest.raises(TrainingError, match="rewards"):
        train_offline(HARNESS, log._replace(reward=log.reward[..., :2]), agent, ONE, [0], 1)
