"""The published modes of the equity term: what they pay for, and why one of them fails."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.domains import boiler
from parity311.errors import InputError
from parity311.mdp.check import check_harness
from parity311.mdp.equity import FORMS, count_step, equity_params, get_mode, initial_equity
from parity311.mdp.harness import Harness

pytestmark = pytest.mark.slow


PARAMS = equity_params(jnp.float32([0.02] * 5 + [0.0]), steps_per_day=40.0, discount=0.9)
NOBODY_SERVED = jnp.zeros(6)
LOWEST = jnp.float32([1, 0, 0, 0, 0, 0])
HIGHEST = jnp.float32([0, 0, 0, 0, 1, 0])


def unequal_state() -> object:
    """A window in which the first stratum is behind and the fifth ahead."""
    state = initial_equity(PARAMS)
    for _ in range(2000):
        state = count_step(PARAMS, state, jnp.float32([0.002, 0.004, 0.006, 0.008, 0.010, 0.0]))
    return state


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_per_step_pays_best_for_doing_nothing(form: str) -> None:
    mode = get_mode("per_step", form)
    state = initial_equity(PARAMS, n_days=mode.n_days)
    idle = float(mode.reward(PARAMS, state, NOBODY_SERVED))
    assert idle == 0.0
    # Even an escalation where coverage is lowest is punished: this is the paper's mistake.
    assert float(mode.reward(PARAMS, state, LOWEST)) < 0.0


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_potential_pays_for_closing_a_gap_and_charges_for_opening_it(form: str) -> None:
    mode, state = get_mode("potential", form), unequal_state()
    idle = float(mode.reward(PARAMS, state, NOBODY_SERVED))
    assert float(mode.reward(PARAMS, state, LOWEST)) > idle
    assert float(mode.reward(PARAMS, state, HIGHEST)) < idle


def test_potential_adds_up_to_the_change_of_the_gap() -> None:
    mode, state = get_mode("potential"), initial_equity(PARAMS)
    start = FORMS["max_gap"](state.correct, state.correct + state.unserved)
    total = 0.0
    for credit in (HIGHEST, LOWEST, HIGHEST, HIGHEST):
        total += float(mode.reward(PARAMS, state, credit))
        state = mode.update(PARAMS, state, credit)
    end = FORMS["max_gap"](state.correct, state.correct + state.unserved)
    scale = 0.02 * 40.0 * 28.0 / (1.0 - 0.9 ** (40.0 * 28.0))
    assert total == pytest.approx(float(start - end) * scale, rel=1e-3)


class TestTheFormsByHand:
    """n / N̂ of the paper's Eq. 9 to 11, with the numbers written out."""

    ESCALATED = jnp.float32([3, 1, 2, 1, 0, 5])
    NEED = jnp.float32([300, 100, 100, 60, 40, 10])

    def test_two_strata_are_pooled_before_they_are_divided(self) -> None:
        # (3 + 1) / (300 + 100) = 0.01 and (1 + 0) / (60 + 40) = 0.01: no difference. The mean of
        # quintile ratios, (1/100 + 1/100) / 2 against (1/60 + 0) / 2, would find one of 0.0017.
        assert float(FORMS["two_strata"](self.ESCALATED, self.NEED)) == pytest.approx(0.0, abs=1e-9)
        worse = self.ESCALATED.at[4].set(1.0)  # (1 + 1) / 100 against 0.01
        assert float(FORMS["two_strata"](worse, self.NEED)) == pytest.approx(0.01, rel=1e-5)

    def test_the_largest_gap_and_the_variance(self) -> None:
        rates = np.array([0.01, 0.01, 0.02, 1 / 60, 0.0])  # the unknown stratum's 0.5 is left out
        assert float(FORMS["max_gap"](self.ESCALATED, self.NEED)) == pytest.approx(0.02, rel=1e-5)
        spread = float(((rates - rates.mean()) ** 2).mean())
        assert float(FORMS["variance"](self.ESCALATED, self.NEED)) == pytest.approx(
            spread, rel=1e-4
        )


@pytest.mark.slow
def test_windowed_shows_every_rate_and_the_gap() -> None:
    mode, state = get_mode("windowed"), unequal_state()
    seen = np.asarray(mode.features(PARAMS, state, jnp.int32(0)))
    assert len(seen) == len(mode.feature_names) == 7
    assert (np.diff(seen[:5]) > 0).all()
    assert seen[5] == pytest.approx(seen[4] - seen[0], rel=1e-5)
    assert seen[6] > 0.0
    assert float(mode.reward(PARAMS, state, NOBODY_SERVED)) < 0.0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["potential", "windowed", "per_step"])
def test_modes_run_in_the_harness(mode: str) -> None:
    harness = Harness(boiler.DOMAIN, equity_mode=mode)
    params = boiler.example()
    assert check_harness(harness, params) == []
    equity = harness.equity_params(params)
    running, _ = harness.reset(jax.random.key(0), params, equity)
    moved = jax.jit(harness.step)(jax.random.key(1), params, equity, running, jnp.int32(1))
    assert np.isfinite(np.asarray(moved.reward)).all()


def test_an_unknown_mode_or_form_is_refused() -> None:
    with pytest.raises(InputError, match="allowed|choose|one of"):
        get_mode("shaped")
    with pytest.raises(InputError, match="allowed|choose|one of"):
        get_mode("potential", "ratio")
