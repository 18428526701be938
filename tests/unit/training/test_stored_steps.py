"""Stored steps under new denominators: what a new simulation of the same actions would give."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import get_domain
from parity311.engines.heuristics import always
from parity311.errors import TrainingError
from parity311.mdp.contract import EQUITY
from parity311.mdp.equity import PUBLISHED_TERM, EquityTerm
from parity311.mdp.harness import Harness
from parity311.training.stored_steps import (
    StoredSteps,
    read_steps,
    reweigh,
    store_steps,
    write_steps,
)

TERMS = (
    PUBLISHED_TERM,
    EquityTerm("windowed", "max_gap", "actionable"),
    EquityTerm("potential", "variance", "all"),
)
FACTORS = np.array([2.0, 1.5, 1.0, 0.8, 0.5, 1.0], np.float32)


def stored(harness: Harness, factors: np.ndarray) -> tuple[StoredSteps, object]:
    """Sixty-four steps of the example, its need multiplied by these factors."""
    params = harness.domain.play.example()
    equity = harness.equity_params(params, discount=0.9)
    equity = equity._replace(denominators=equity.denominators * jnp.asarray(factors))
    return store_steps(harness, params, equity, always(1), 64, jax.random.key(5)), equity


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.equity_mode)
@pytest.mark.parametrize("slug", ["boiler", "snad"])
def test_new_denominators_give_what_a_new_simulation_gives(term: EquityTerm, slug: str) -> None:
    harness = Harness(get_domain(slug), **asdict(term))
    before, first = stored(harness, np.ones(6, np.float32))
    after, second = stored(harness, FACTORS)
    # The behaviour does not look at coverage, so both met the same.
    np.testing.assert_array_equal(before.action, after.action)
    np.testing.assert_array_equal(before.correct, after.correct)
    same = reweigh(harness, before, first)
    np.testing.assert_allclose(same.reward, before.reward, rtol=2e-4, atol=1e-5)
    moved = reweigh(harness, before, second)
    np.testing.assert_allclose(moved.reward, after.reward, rtol=2e-4, atol=1e-5)
    anew = reweigh(harness, after, second)
    np.testing.assert_allclose(moved.observation, anew.observation, rtol=2e-4, atol=1e-4)
    np.testing.assert_allclose(moved.next_observation, anew.next_observation, rtol=2e-4, atol=1e-4)
    # The check would see denominators that were forgotten.
    assert np.abs(moved.reward - before.reward)[:, EQUITY].max() > 5e-5


def test_coverage_prices_are_simulated_again() -> None:
    harness = Harness(get_domain("boiler"))
    params = harness.domain.play.example()
    with pytest.raises(TrainingError, match="simulated again"):
        store_steps(harness, params, harness.equity_params(params), always(1), 8, jax.random.key(0))


def test_steps_of_another_harness_are_not_read(tmp_path: Path) -> None:
    harness = Harness(get_domain("snad"), **asdict(PUBLISHED_TERM))
    steps, _ = stored(harness, np.ones(6, np.float32))
    path = write_steps(tmp_path / "stored.safetensors", steps, {"domain": "snad"})
    kept = read_steps(path, {"domain": "snad"})
    assert kept is not None
    np.testing.assert_array_equal(kept.reward, steps.reward)
    assert read_steps(path, {"domain": "heat"}) is None
    path.write_bytes(path.read_bytes()[:-3])
    assert read_steps(path, {"domain": "snad"}) is None
