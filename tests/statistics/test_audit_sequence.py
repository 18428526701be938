"""Monitoring that is looked at 200 times: the sequence holds, a repeated test does not."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.audit.sequence import gap_sequence, half_width
from parity311.audit.simulate import watch
from parity311.errors import InputError

pytestmark = pytest.mark.slow


def test_two_hundred_looks_at_parity() -> None:
    seen = watch(n_trials=300, n_looks=200, seed=1)
    assert seen.sequence_missed <= 0.05
    assert seen.sequence_failed <= 0.05
    # The broken twin: a 5 % test at every look.
    assert seen.repeated_test_alarmed > 0.2


def test_at_tau_it_rarely_fails_and_beyond_it_does() -> None:
    assert watch(n_trials=150, gap=0.05, seed=2).sequence_failed <= 0.05
    assert watch(n_trials=40, gap=0.12, seed=3).sequence_failed >= 0.9


def test_the_e_value_alarms_rarely_within_tau() -> None:
    rng = np.random.default_rng(4)
    stratum = np.repeat(np.arange(5), 40)
    rates = (0.2 + np.linspace(-0.025, 0.025, 5))[stratum]
    alarms = 0
    for _ in range(100):
        cases = rng.poisson(1.0, (100, 200))
        served = rng.binomial(cases, rates).astype(float)
        alarms += gap_sequence(served, cases.astype(float), stratum, n_strata=5).e_value.max() >= 20
    assert alarms <= 5


def test_the_width_is_the_published_formula() -> None:
    """facts/audit.md: s·√(2(t·r² + 1)/(t²·r²)·log(√(t·r² + 1)/a))."""
    t, s, r, a = 5000.0, 0.4, 0.02, 0.05
    direct = s * np.sqrt(2 * (t * r**2 + 1) / (t**2 * r**2) * np.log(np.sqrt(t * r**2 + 1) / a))
    ours = half_width(np.array(t * s**2), r**2 / s**2, a) / t
    assert ours == pytest.approx(direct)


def test_before_there_are_events_it_says_nothing() -> None:
    cases = np.ones((10, 4))
    seen = gap_sequence(np.zeros((10, 4)), cases, np.array([0, 0, 1, 1]), n_strata=2)
    assert np.isnan(seen.estimate).all()
    assert (seen.e_value == 0).all()


def test_tau_outside_its_range_is_refused() -> None:
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        gap_sequence(np.zeros((1, 2)), np.ones((1, 2)), np.array([0, 1]), n_strata=2, tau=0.0)
