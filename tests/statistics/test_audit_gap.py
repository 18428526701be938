"""The audit's band and verdict on simulated strata whose gap is known."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.audit.gap import Gap, measure_gap
from parity311.audit.recorded import resample_rates
from parity311.errors import InputError

N_STRATA = 5
N_TRACTS = 60
N_DRAWS = 300
N_TRIALS = 120


def simulate_gap(rates: np.ndarray, per_tract: int, rng: np.random.Generator) -> Gap:
    """Audit one simulated city with these true rates and ``per_tract`` incidents a tract."""
    stratum = np.repeat(np.arange(N_STRATA), N_TRACTS)
    out_of = np.full(len(stratum), float(per_tract))
    served = rng.binomial(per_tract, rates[stratum]).astype(float)
    estimate, draws = resample_rates(
        served, out_of, stratum, n_strata=N_STRATA, n_draws=N_DRAWS, rng=rng
    )
    return measure_gap(estimate, draws)


def naive_gap(rates: np.ndarray, per_tract: int, rng: np.random.Generator) -> Gap:
    """The broken twin: percentiles of the maximum gap, which never reach down to zero."""
    stratum = np.repeat(np.arange(N_STRATA), N_TRACTS)
    out_of = np.full(len(stratum), float(per_tract))
    served = rng.binomial(per_tract, rates[stratum]).astype(float)
    _, draws = resample_rates(served, out_of, stratum, n_strata=N_STRATA, n_draws=N_DRAWS, rng=rng)
    spread = draws.max(axis=1) - draws.min(axis=1)
    lower, upper = np.quantile(spread, [0.025, 0.975])
    return Gap(float(spread.mean()), float(lower), float(upper), "", "")


def coverage_of_the_true_gap(audit, rates: np.ndarray, seed: int) -> float:
    rng = np.random.default_rng(seed)
    true_gap = rates.max() - rates.min()
    inside = [
        gap.lower <= true_gap <= gap.upper
        for gap in (audit(rates, 10, rng) for _ in range(N_TRIALS))
    ]
    return float(np.mean(inside))


@pytest.mark.parametrize("gap", [0.0, 0.05, 0.12])
def test_the_band_covers_the_true_gap(gap: float) -> None:
    rates = 0.2 + np.linspace(0, gap, N_STRATA)
    assert coverage_of_the_true_gap(simulate_gap, rates, seed=1) >= 0.92


def test_the_check_rejects_percentiles_of_the_maximum() -> None:
    assert coverage_of_the_true_gap(naive_gap, np.full(N_STRATA, 0.2), seed=1) < 0.5


def test_parity_rarely_fails_and_a_wide_gap_rarely_passes() -> None:
    rng = np.random.default_rng(2)
    parity = [simulate_gap(np.full(N_STRATA, 0.2), 10, rng).verdict for _ in range(N_TRIALS)]
    wide = [
        simulate_gap(0.2 + np.linspace(0, 0.12, N_STRATA), 30, rng).verdict for _ in range(N_TRIALS)
    ]
    assert parity.count("FAIL") / N_TRIALS <= 0.05
    assert wide.count("FAIL") / N_TRIALS >= 0.85
    assert wide.count("PASS") == 0


def test_one_stratum_alone_is_insufficient() -> None:
    rates = np.array([0.2, np.nan, np.nan])
    gap = measure_gap(rates, np.tile(rates, (50, 1)))
    assert gap.verdict == "INSUFFICIENT"
    assert "a gap needs two" in gap.reason


def test_tau_outside_its_range_is_refused() -> None:
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        measure_gap(np.array([0.1, 0.2]), np.zeros((5, 2)), tau=1.5)
