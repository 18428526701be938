"""The optimum of a stream: it is what it earns, and nothing earns more."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.unit.mdp.two_districts import LAYOUT, SHAPE, example, make_domain

from parity311.engines.stream import optimum
from parity311.engines.stream.optimum import solve_stream
from parity311.engines.stream.process import PUT_OFF, StreamParams
from parity311.engines.table.policy import TablePolicy
from parity311.errors import EstimationError, InputError
from parity311.evaluation.rollout import Contender, evaluate
from parity311.mdp.harness import Harness

pytestmark = pytest.mark.slow

N_STEPS = 300
RULES = ("balanced", "never", "uniform", "actionable", "score", "index")
DOMAIN = make_domain()
PREFERENCE = np.asarray(DOMAIN.preference)


class Solved(NamedTuple):
    """The optimum as arrays."""

    tables: optimum.Tables
    choices: optimum.Choices
    swept: optimum.Swept
    orders: jax.Array
    choice: jax.Array


@pytest.fixture(scope="module")
def params() -> StreamParams:
    return example()


@pytest.fixture(scope="module")
def solved(params: StreamParams) -> Solved:
    tables, choices = optimum.tabulate(SHAPE, params, PREFERENCE)
    swept = optimum.iterate(SHAPE, tables)
    orders = optimum.order_values(SHAPE, tables, swept.values)
    return Solved(tables, choices, swept, orders, jnp.argmax(orders, axis=0))


@pytest.fixture(scope="module")
def earned(params: StreamParams) -> dict[str, np.ndarray]:
    """Reward per step of the rules and of the optimum, through the same episodes."""
    harness = Harness(DOMAIN, max_steps=N_STEPS)
    rules = {name: DOMAIN.heuristics[name](params, harness) for name in RULES}
    rules["optimum"] = solve_stream(LAYOUT, params, harness, PREFERENCE)
    contenders = [Contender(name, rule) for name, rule in rules.items()]
    found = evaluate(harness, params, contenders, jax.random.split(jax.random.key(3), 64))
    return dict(zip(rules, np.asarray(found.reward) @ PREFERENCE / N_STEPS, strict=True))


def who_beats(earned: dict[str, np.ndarray], top: str) -> list[str]:
    """Policies that earn more than the top one, by more than two standard errors, paired."""
    found = []
    for name, reward in earned.items():
        ahead = reward - earned[top]
        if name != top and ahead.mean() > 2.0 * ahead.std() / np.sqrt(len(ahead)):
            found.append(name)
    return found


def test_nothing_beats_the_optimum(earned: dict[str, np.ndarray]) -> None:
    assert who_beats(earned, "optimum") == []


def test_the_best_rule_is_no_optimum(earned: dict[str, np.ndarray]) -> None:
    best = max(RULES, key=lambda name: earned[name].mean())
    assert "optimum" in who_beats(earned, best)


def test_the_optimum_earns_what_value_iteration_says(
    solved: Solved, earned: dict[str, np.ndarray]
) -> None:
    error = earned["optimum"].std() / np.sqrt(len(earned["optimum"]))
    # Episodes start with an empty office, which is worth a little.
    assert abs(earned["optimum"].mean() - float(solved.swept.gain)) < 3.0 * error + 0.002


def test_a_policy_earns_what_its_sweeps_say(solved: Solved, earned: dict[str, np.ndarray]) -> None:
    never = jnp.full(optimum.state_sizes(SHAPE), PUT_OFF)
    said = float(optimum.iterate(SHAPE, solved.tables, never).gain)
    error = earned["never"].std() / np.sqrt(len(earned["never"]))
    # Episodes start with nothing open that could come back.
    assert abs(earned["never"].mean() - said) < 3.0 * error + 0.003
    assert said < float(solved.swept.gain)


def test_occupancy_and_sweeps_agree(solved: Solved) -> None:
    share = optimum.occupancy(SHAPE, solved.tables, solved.choice)
    assert float(share.sum()) == pytest.approx(1.0, abs=1e-3)
    nothing = jnp.zeros(optimum.state_sizes(SHAPE))
    orders = optimum.order_values(SHAPE, solved.tables, nothing)
    earned = float((share * optimum.follow(orders, solved.choice)).sum())
    assert earned == pytest.approx(float(solved.swept.gain), abs=2e-3)


def test_not_seeing_the_queue_costs(solved: Solved) -> None:
    tables, seen = solved.tables, [True] * 4 + [False] * 4
    blind, _ = optimum.improve_blind(SHAPE, tables, solved.orders, solved.choice, seen)
    gain = float(optimum.iterate(SHAPE, tables, blind).gain)
    assert gain < float(solved.swept.gain) - 1e-3
    # It does not look at what it cannot see.
    np.testing.assert_array_equal(blind, np.broadcast_to(blind[:, :, :1, :1, :1, :1], blind.shape))


def test_a_policy_on_the_published_features_has_one_action_a_cell(params: StreamParams) -> None:
    harness = Harness(DOMAIN, observation_set="published")
    policy = solve_stream(LAYOUT, params, harness, PREFERENCE)
    assert isinstance(policy, TablePolicy)
    assert policy.actions.shape == (2 * 4 * 2 * 4,)


def test_kept_values_are_those_of_the_optimum(params: StreamParams, solved: Solved) -> None:
    harness = Harness(DOMAIN)
    policy = solve_stream(LAYOUT, params, harness, PREFERENCE, keep_values=True)
    assert isinstance(policy, TablePolicy)
    assert policy.values is not None
    values, actions = np.asarray(policy.values, np.float32), np.asarray(policy.actions)
    assert values.shape == (len(actions), harness.n_actions)
    assert (values[np.arange(len(actions)), actions] == 0.0).all()
    assert (values <= 0.0).all()
    orders = np.asarray(solved.orders).reshape(3, -1)
    wanted = orders - orders.max(axis=0)
    for resource, action in enumerate(solved.choices.action[:, 0]):
        np.testing.assert_allclose(values[:, action], wanted[resource], rtol=2e-3, atol=2e-3)
    # Values of the next cell are others: what is compared above can differ.
    assert not np.allclose(np.roll(values, 1, axis=0), values, atol=2e-2)


def test_a_plan_that_sees_less_keeps_the_means_it_goes_by(params: StreamParams) -> None:
    harness = Harness(DOMAIN, observation_set="published")
    policy = solve_stream(LAYOUT, params, harness, PREFERENCE, keep_values=True)
    assert isinstance(policy, TablePolicy)
    values = np.asarray(policy.values, np.float32)
    assert values.shape == (2 * 4 * 2 * 4, harness.n_actions)
    assert (values.argmax(axis=1) == np.asarray(policy.actions)).mean() > 0.9
    assert (values.min(axis=1) < -1e-3).any()


def test_another_preference_gives_another_policy(params: StreamParams) -> None:
    harness = Harness(DOMAIN)
    cheap = solve_stream(LAYOUT, params, harness, np.array([1.0, 0.0, 0.0, 0.0]))
    dear = solve_stream(LAYOUT, params, harness, np.array([0.02, 0.98, 0.0, 0.0]))
    assert isinstance(cheap, TablePolicy)
    assert isinstance(dear, TablePolicy)
    shares = [(np.asarray(one.actions) > 0).mean() for one in (cheap, dear)]
    assert shares[0] > 0.05
    assert shares[1] < 0.01


def test_a_policy_reads_its_own_state(params: StreamParams, solved: Solved) -> None:
    policy = solve_stream(LAYOUT, params, Harness(DOMAIN), PREFERENCE)
    choice = np.asarray(solved.choice)
    rng = np.random.default_rng(0)
    for _ in range(50):
        place, level, history = rng.integers((2, 4, 2))
        season, queue, busy = rng.integers((4, 13, 2))
        opened = rng.integers(0, 4, size=2)
        kind = (place * 4 + level) * 2 + history
        seen = [place, level / 3, history, season / 3, queue / 12, 1 - busy, *opened / 3, 0.0]
        resource = choice[(kind, season, queue, busy, *opened)]
        decided = policy(jax.random.key(0), jnp.asarray(seen, jnp.float32))
        assert int(decided) == solved.choices.action[resource, kind]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("crew_per_step", -0.1, "between 0 and 1"),
        ("access", np.full(6, 1.2), "between 0 and 1"),
        ("access", np.full(5, 0.9), "needs"),
        ("comes_back", np.zeros(3), "needs"),
        ("cells", np.full((4, 10), 999), "one row a season"),
        ("lifetime_days", 0.0, "above 0"),
    ],
)
def test_params_that_cannot_be_are_refused(
    params: StreamParams, name: str, value: float | np.ndarray, words: str
) -> None:
    broken = params._replace(**{name: jnp.asarray(value)})
    with pytest.raises(InputError, match=words):
        solve_stream(LAYOUT, broken, Harness(DOMAIN), PREFERENCE)


def test_a_search_that_does_not_settle_says_so(
    solved: Solved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimum, "MAX_SWEEPS", 3)
    with pytest.raises(EstimationError, match="not settled after 3 sweeps"):
        optimum.iterate(SHAPE, solved.tables)
