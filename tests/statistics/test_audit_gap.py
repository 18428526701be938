"""The audit's band and verdict on simulated strata whose gap is known."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.audit.compare import compare_strata
from parity311.audit.gap import measure_gap, ratio_band, ratio_from_band
from parity311.audit.resample import draw_rates
from parity311.audit.simulate import (
    LABELS,
    N_STRATA,
    SimulatedCity,
    draw_served,
    operate,
)
from parity311.audit.spec import AuditSpec
from parity311.errors import InputError
from parity311.resampling import exponential_weights

pytestmark = pytest.mark.slow

N_TRIALS = 300
SPEC = AuditSpec(n_draws=500)


@pytest.mark.parametrize("design_effect", [1.0, 2.0])
@pytest.mark.parametrize("gap", [0.0, 0.05, 0.12])
def test_the_bands_cover_the_true_gap_and_ratio(gap: float, design_effect: float) -> None:
    city = SimulatedCity(gap=gap, design_effect=design_effect)
    seen = operate(city, n_trials=N_TRIALS, spec=SPEC, seed=1)
    assert seen.coverage >= 0.92
    assert seen.ratio_coverage >= 0.92


@pytest.mark.parametrize("n_tracts", [5, 10, 20])
def test_few_tracts_widen_the_band(n_tracts: int) -> None:
    city = SimulatedCity(n_per_stratum=30 * n_tracts, n_tracts=n_tracts, design_effect=2.0)
    assert operate(city, n_trials=N_TRIALS, spec=SPEC, seed=2).coverage >= 0.91


def coverage_at_parity(make_interval, city: SimulatedCity, seed: int) -> float:
    """Share of intervals for the gap that reach down to zero in cities without one."""
    rng = np.random.default_rng(seed)
    return float(np.mean([make_interval(*draw_served(city, rng), rng)[0] <= 0 for _ in range(100)]))


def percentiles_of_the_maximum(served, cases, rng) -> tuple[float, float]:
    """The broken twin: percentiles of the largest gap, which never reach down to zero."""
    weights = exponential_weights(len(served), 300, rng)
    draws = draw_rates(served, cases, weights, rng).draws
    spread = draws.max(axis=1) - draws.min(axis=1)
    return float(np.quantile(spread, 0.025)), float(np.quantile(spread, 0.975))


def rows_as_independent(served, cases, rng) -> tuple[float, float]:
    """The other broken twin: a band of binomial errors, which does not see tracts."""
    n = cases.sum(axis=0)
    rates = served.sum(axis=0) / n
    draws = rates + rng.standard_normal((500, N_STRATA)) * np.sqrt(rates * (1 - rates) / n)
    gap = measure_gap(rates, draws)
    return gap.lower, gap.upper


def tracts_as_clusters(served, cases, rng) -> tuple[float, float]:
    drawn = draw_rates(served, cases, exponential_weights(len(served), 500, rng), rng)
    gap = measure_gap(drawn.rates, drawn.draws, n_tracts=drawn.n_tracts)
    return gap.lower, gap.upper


def test_the_check_rejects_percentiles_of_the_maximum() -> None:
    assert coverage_at_parity(percentiles_of_the_maximum, SimulatedCity(), seed=1) < 0.1


def test_the_check_rejects_rows_taken_as_independent() -> None:
    city = SimulatedCity(n_tracts=40, design_effect=4.0)
    assert coverage_at_parity(rows_as_independent, city, seed=1) < 0.6
    assert coverage_at_parity(tracts_as_clusters, city, seed=1) >= 0.9


def test_verdicts_at_parity_at_tau_and_beyond() -> None:
    parity = operate(SimulatedCity(), n_trials=N_TRIALS, spec=SPEC, seed=2)
    at_tau = operate(SimulatedCity(gap=0.05), n_trials=N_TRIALS, spec=SPEC, seed=3)
    wide = operate(SimulatedCity(gap=0.10), n_trials=N_TRIALS, spec=SPEC, seed=4)
    large = operate(SimulatedCity(n_per_stratum=5000), n_trials=100, spec=SPEC, seed=5)
    assert parity.failed <= 0.05
    assert at_tau.failed <= 0.05
    assert at_tau.passed <= 0.05
    assert wide.failed >= 0.85
    assert wide.passed == 0
    assert large.passed >= 0.90


def test_the_published_rule_flags_equal_service() -> None:
    """A point estimate beyond tau is no test: facts/audit.md measured 0.51 for this case."""
    city = SimulatedCity(rate=0.5, n_per_stratum=500, n_tracts=50)
    seen = operate(city, n_trials=N_TRIALS, spec=SPEC, seed=6)
    assert 0.4 < seen.point_rule_flagged < 0.62
    assert seen.failed <= 0.05


def test_rare_service_is_judged_by_the_ratio() -> None:
    """At a mean rate of 0.01 no gap can exceed 0.05, however unequal the strata are."""
    city = SimulatedCity(rate=0.01, gap=0.018, n_per_stratum=20_000)
    served, cases = draw_served(city, np.random.default_rng(0))
    weights = exponential_weights(len(served), 500, np.random.default_rng(1))
    rates = draw_rates(served, cases, weights, np.random.default_rng(2))
    comparison = compare_strata(rates, LABELS, SPEC)
    assert comparison.measure == "ratio"
    assert comparison.gap.verdict == "PASS"
    assert comparison.verdict == "FAIL"


def test_the_estimated_denominator_carries_its_error() -> None:
    """With reporting draws the band is wider than with their mean, and by about their spread."""
    from parity311.audit.resample import draw_rates_per_estimate

    rng = np.random.default_rng(3)
    served, cases = draw_served(SimulatedCity(), rng)
    weights = exponential_weights(len(served), 2000, rng)
    member = (cases > 0).astype(float)
    shared = np.exp(0.2 * rng.standard_normal((2000, N_STRATA)))
    estimates = 2 * cases.sum(axis=1) * (shared @ member.T)
    certain = draw_rates(served, 2 * cases, weights, rng)
    uncertain = draw_rates_per_estimate(served, estimates, member, weights, rng)
    relative = uncertain.error / uncertain.rates
    assert (relative > 1.5 * certain.error / certain.rates).all()
    assert relative == pytest.approx(np.full(N_STRATA, 0.2), rel=0.25)


def test_one_stratum_alone_is_insufficient() -> None:
    rates = np.array([0.2, np.nan, np.nan])
    gap = measure_gap(rates, np.tile(rates, (50, 1)))
    assert gap.verdict == "INSUFFICIENT"
    assert "a gap needs two" in gap.reason
    band = ratio_band(rates, np.tile(rates, (50, 1)), level=0.95)
    assert ratio_from_band(band, rates, floor=0.8).verdict == "INSUFFICIENT"


def test_tau_outside_its_range_is_refused() -> None:
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        measure_gap(np.array([0.1, 0.2]), np.zeros((5, 2)), tau=1.5)
