"""The published rule of the coverage prices: in service as in training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from tests.served import PRICES, make_package

from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.mdp.contract import N_STRATA
from parity311.mdp.equity import DUAL, equity_params, initial_equity
from parity311.mdp.harness import Harness
from parity311.records.journal import Journal
from parity311.records.schema import VISIT_RESULTS
from parity311.serving.policy import LoadedPolicy
from parity311.serving.prices import count_correct, follow_rule, update_prices

HARNESS = Harness(get_domain("heat"))
CAP = 0.8


def stepped(need: np.ndarray, counts: np.ndarray, step: float) -> list[np.ndarray]:
    """Prices of training after each step of these counts."""
    params = equity_params(jnp.asarray(need, jnp.float32), step_size=step, price_cap=CAP)
    state = initial_equity(params, jnp.asarray(PRICES, jnp.float32))
    found = []
    for correct in counts:
        state = DUAL.update(params, state, jnp.asarray(correct, jnp.float32))
        found.append(np.asarray(state.prices))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_each_day_moves_prices_as_a_step_of_training_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    need = rng.random(N_STRATA) + 0.1
    need[seed] = 0.0
    counts = rng.poisson(1.5, (30, N_STRATA)).astype(np.float64)
    step = 0.05
    trained = stepped(need, counts, step)
    now = PRICES
    for day, expected in enumerate(trained):
        now = follow_rule(now, counts[day : day + 1], need, step, CAP)
        np.testing.assert_allclose(now, expected, atol=2e-5)
    # All days at once are the days one by one.
    np.testing.assert_allclose(follow_rule(PRICES, counts, need, step, CAP), now, atol=1e-9)
    assert np.abs(now).max() > 0.3
    other = follow_rule(PRICES, np.roll(counts, 1, axis=1), need, step, CAP)
    assert np.abs(other - now).max() > 0.01


def one_sided(journal: Journal, served: int) -> Journal:
    """The journal with violations found in one stratum alone."""
    here = journal.stratum[journal.visit_case] == served
    result = np.where(here, VISIT_RESULTS.index("violation"), VISIT_RESULTS.index("no_violation"))
    return replace(journal, visit_result=result)


def test_the_stratum_behind_gets_dearer(journal_of: Callable[[str], Journal]) -> None:
    policy = LoadedPolicy(make_package(HARNESS, "index", prices=np.zeros(N_STRATA)))
    for served in (0, 3):
        journal = one_sided(journal_of("heat"), served)
        changed, update = update_prices(policy, journal)
        others = [s for s in range(5) if s != served]
        assert update.counted[served] > 0
        assert update.counted[others].sum() == 0
        assert changed.prices[served] < 0
        assert (changed.prices[others] > 0).all()
        rows = update.rows()
        assert rows[served]["why"].startswith("100% of correct escalations, more than its ")
        assert all("fewer than its" in rows[s]["why"] for s in others)
        assert rows[others[0]]["change"] > 0
        # What is in force travels with the policy, not with the one it was made from.
        assert not policy.prices.any()


def test_only_what_came_in_time_since_then_counts(journal_of: Callable[[str], Journal]) -> None:
    journal = journal_of("heat")
    since = journal.as_of - 20.0
    counted = count_correct(journal, since)
    assert counted.shape == (20, N_STRATA)
    assert counted.sum() > 0
    late = replace(journal, began=journal.began - 1_000.0)
    assert count_correct(late, since).sum() == 0
    is_early = journal.visit_at < since
    assert is_early.any()
    # Earlier visits may have found anything.
    found = np.where(is_early, VISIT_RESULTS.index("violation"), journal.visit_result)
    np.testing.assert_array_equal(
        count_correct(replace(journal, visit_result=found), since), counted
    )


def test_without_equity_there_are_no_prices_to_update(
    journal_of: Callable[[str], Journal],
) -> None:
    policy = LoadedPolicy(make_package(HARNESS, "index"))
    with pytest.raises(InputError, match="made without a weight on equity"):
        update_prices(policy, journal_of("heat"))
    later = LoadedPolicy(make_package(HARNESS, "index", prices=PRICES, learned_to="2024-09-01"))
    with pytest.raises(InputError, match="choose a later moment"):
        update_prices(later, journal_of("heat"))


def test_a_price_says_where_it_mattered(journal_of: Callable[[str], Journal]) -> None:
    policy = LoadedPolicy(make_package(HARNESS, "dual_threshold", prices=PRICES * 4.0))
    found = policy.recommend(journal_of("heat"), capacity=20)
    free = LoadedPolicy(make_package(HARNESS, "dual_threshold")).recommend(
        found.journal, capacity=20
    )
    effect = found.choice.price_effect
    assert effect.any()
    np.testing.assert_array_equal(
        effect, found.choice.is_visit.astype(int) - free.choice.is_visit.astype(int)
    )
    words = {row["price_effect"] for row in found.rows()} - {""}
    assert words
    # The first two quintiles are behind, the others ahead.
    assert words <= {
        *(f"would have waited: quintile {i} is behind" for i in (1, 2)),
        *(f"would have been visited: quintile {i} is ahead" for i in (3, 4, 5)),
    }
