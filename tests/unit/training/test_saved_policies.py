"""Every kind of policy decides the same from disk, in NumPy, in a process without JAX."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.contract.broken.twins import make_domain
from tests.learning.probes import settings_of
from tests.learning.test_offline_probes import HARNESS as LOGGED
from tests.learning.test_offline_probes import make_log

from parity311.agents import (
    agent_config,
    all_agents,
    explain_settings,
    get_entry,
    make_agent,
)
from parity311.agents.forward import hash_factors, score_actions_numpy
from parity311.agents.tables import row_of
from parity311.domains import boiler, get_domain
from parity311.engines.table.policy import TablePolicy
from parity311.engines.table.rules import case_observations
from parity311.errors import TrainingError
from parity311.mdp.contract import Action
from parity311.mdp.harness import Harness
from parity311.serving.policy import load_policy
from parity311.training.loop import Trained, plan, train_agents
from parity311.training.offline import train_offline
from parity311.training.saving import save_policy

pytestmark = pytest.mark.slow

ACTIONS = tuple(Action(name, name != "wait", 1.0) for name in ("wait", "act", "act_more"))
HARNESS = Harness(replace(make_domain(), actions=ACTIONS))
SMALL: dict[str, Any] = {
    "hidden": (8,),
    "baseline_hidden": (8,),
    "target_every": 20,
    "buffer_size": 100,
    "episode_length": 5,
    "n_rows": 64,
    "categories": (0, 1, 1),
}


def solve(params: Any, harness: Harness, preference: Any) -> TablePolicy:
    """A made-up optimum over the first feature in halves from -2 to 2: nine cells."""
    del params, preference
    strides = (np.arange(harness.n_features) == 0).astype(np.int32)
    factors = jnp.full(harness.n_features, 2.0)
    actions = jnp.asarray(np.arange(9) % 3, jnp.int8)
    return TablePolicy(factors, jnp.asarray(strides), jnp.int32(4), actions)


def plan_probe(preference: tuple[float, ...] = (0.5, 0.5, 0.0, 0.0)) -> Trained:
    domain = HARNESS.domain
    solvable = replace(domain, dynamics=replace(domain.play, solve=solve))
    return plan(Harness(solvable), domain.play.example(), [preference], [3, 4])


def train(name: str) -> Trained:
    if get_entry(name).is_planner:
        return plan_probe()
    agent = make_agent(name, agent_config(name, settings_of(name, SMALL)))
    weights = [[0.5, 0.0, 0.5, 0.0]]
    if get_entry(name).needs_log:
        return train_offline(LOGGED, make_log(), agent, weights, [0], 20)
    params = HARNESS.domain.play.example()
    return train_agents(HARNESS, params, agent, weights, [0], 40)


@pytest.mark.parametrize(
    "name", [one for one in all_agents() if not get_entry(one).covers_preferences]
)
def test_numpy_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    trained = train(name)
    loaded = load_policy(save_policy(tmp_path, trained, 0))
    n_features = trained.harness.n_features
    seen = np.random.default_rng(0).normal(size=(200, n_features)).astype(np.float32)
    decided = jax.vmap(lambda x: trained.policy(0)(jax.random.key(0), x))(jnp.asarray(seen))
    np.testing.assert_array_equal(loaded.decide(seen), decided)
    values = loaded.values(seen)
    if values.shape[-1] == 2:
        margins = jax.vmap(lambda x: trained.agent.margin(trained.weights(0), x))(jnp.asarray(seen))
        np.testing.assert_allclose(values[:, 1] - values[:, 0], margins, atol=1e-5)


def test_a_plan_with_two_actions_is_ranked_by_its_worth(tmp_path: Path) -> None:
    """Worth above zero is action 1, in JAX as in NumPy, so that capacity can hold it."""
    domain = get_domain("boiler")
    trained = plan(Harness(domain), domain.play.example(), [domain.preference], [0])
    loaded = load_policy(save_policy(tmp_path, trained, 0))
    seen = np.random.default_rng(0).random((300, trained.harness.n_features), np.float32)
    decided = jax.vmap(lambda x: trained.policy(0)(jax.random.key(0), x))(jnp.asarray(seen))
    margins = jax.vmap(lambda x: trained.agent.margin(trained.weights(0), x))(jnp.asarray(seen))
    np.testing.assert_array_equal(decided, margins > 0.0)
    np.testing.assert_array_equal(loaded.decide(seen), decided)
    np.testing.assert_allclose(np.diff(loaded.values(seen))[:, 0], margins, atol=1e-5)
    assert len(np.unique(margins)) > 20


def test_a_plan_visits_as_many_as_it_can_and_none_that_costs_more_than_it_brings() -> None:
    domain = get_domain("boiler")
    params = domain.play.example()
    table, harness = boiler.cases(params), Harness(domain)
    seen = jnp.asarray(case_observations(table, harness))
    plans = plan(harness, params, [domain.preference, (0.0, 1.0, 0.0, 0.0)], [0])
    share, none = (
        float(jax.vmap(lambda x, i=i: plans.policy(i)(jax.random.key(0), x))(seen).mean())
        for i in range(2)
    )
    assert 0.7 * table.capacity_share < share <= table.capacity_share
    assert none == 0.0


@pytest.mark.parametrize("name", ["dqn", "reinforce", "bcq"])
def test_numpy_values_agree_to_five_digits(name: str, tmp_path: Path) -> None:
    from parity311.agents.networks import apply_network

    trained = train(name)
    weights = trained.weights(0)
    network = weights.get("network", weights)
    seen = np.random.default_rng(1).normal(size=(50, trained.harness.n_features))
    in_jax = jax.vmap(lambda x: apply_network(network, x))(jnp.asarray(seen, jnp.float32))
    loaded = load_policy(save_policy(tmp_path, trained, 0)).values(seen)
    is_allowed = loaded > -1e8
    np.testing.assert_allclose(loaded[is_allowed], np.asarray(in_jax)[is_allowed], atol=1e-5)


def test_a_server_needs_no_jax(tmp_path: Path) -> None:
    save_policy(tmp_path, train("hdqn"), 0)
    program = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from parity311.serving.policy import load_policy\n"
        f"policy = load_policy(Path({str(tmp_path)!r}))\n"
        "print(policy.decide(np.zeros((3, 2))).shape, 'jax' in sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert finished.stdout.strip() == "(3,) False"


def test_rows_of_a_table_are_the_same_in_numpy_and_rarely_shared() -> None:
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 4)] * 4), axis=-1).reshape(-1, 4)
    n_rows = 65_536
    rows = np.asarray(row_of(jnp.asarray(grid, jnp.float32), 0.1, n_rows))
    table = np.arange(n_rows, dtype=np.float32)[:, None]
    weights = {"table": table, "bin_width": np.float32(0.1)}
    np.testing.assert_array_equal(score_actions_numpy(weights, grid)[:, 0], rows)
    assert len(set(rows.tolist())) >= len(grid) - 2
    assert (hash_factors(5) % 2 == 1).all()


def test_a_plan_is_the_same_for_every_seed_and_differs_by_cell() -> None:
    planned = plan_probe()
    assert planned.seeds.tolist() == [3, 4]
    seen = jnp.zeros((9, planned.harness.n_features)).at[:, 0].set(jnp.linspace(-2.0, 2.0, 9))
    decided = [
        jax.vmap(lambda x, index=index: planned.policy(index)(jax.random.key(0), x))(seen).tolist()
        for index in range(2)
    ]
    assert decided[0] == decided[1] == [0, 1, 2] * 3


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(TrainingError, match="no exact solution"):
        plan(HARNESS, HARNESS.domain.play.example(), [[1.0, 0.0, 0.0, 0.0]], [0])
    with pytest.raises(TrainingError, match="does not pay for coverage"):
        plan_probe((0.5, 0.0, 0.5, 0.0))
    with pytest.raises(TrainingError, match="takes no steps"):
        train_agents(
            HARNESS, HARNESS.domain.play.example(), make_agent("plan", agent_config("plan")),
            [[1.0, 0.0, 0.0, 0.0]], [0], 10,
        )  # fmt: skip


@pytest.mark.parametrize("name", all_agents())
def test_every_setting_has_help(name: str) -> None:
    for setting, about in explain_settings(name).items():
        assert len(about["help"]) > 3 or about["help"] == "γ", setting
