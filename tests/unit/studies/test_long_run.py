"""The long-run gap: its bound covers, and noise is told from a gap."""

import numpy as np
import pytest

from parity311.studies.parity import long_run, study
from parity311.studies.parity.band_prices import lack_of
from parity311.studies.parity.long_run import Years
from parity311.studies.parity.study import floor_at, hull_corners

NEED = 400


def make_years(rng: np.random.Generator, coverage: list[float], n_years: int = 50) -> Years:
    need = rng.poisson(NEED, (n_years, 6)).astype(float)
    correct = rng.binomial(need.astype(int), [*coverage, 0.2]).astype(float)
    return Years(correct, need, need * 0.5, need, need)


def test_upper_bound_covers_the_true_gap() -> None:
    rng = np.random.default_rng(1)
    weights = long_run.resample_years(50, n=200)
    covered = [
        long_run.measure_gap(make_years(rng, [0.22, 0.2, 0.2, 0.2, 0.18]), weights)["upper"] >= 0.04
        for _ in range(60)
    ]
    assert np.mean(covered) >= 0.95


def test_parity_looks_like_its_noise_floor_and_a_gap_does_not() -> None:
    rng = np.random.default_rng(2)
    weights = long_run.resample_years(50, n=200)
    level = [long_run.measure_gap(make_years(rng, [0.2] * 5), weights) for _ in range(40)]
    assert np.mean([one["value"] for one in level]) == pytest.approx(
        np.mean([one["noise_floor"] for one in level]), rel=0.25
    )
    uneven = long_run.measure_gap(make_years(rng, [0.1, 0.2, 0.2, 0.2, 0.3]), weights)
    assert uneven["value"] > 5 * uneven["noise_floor"]
    assert uneven["lower"] < 0.2 < uneven["upper"]


def test_price_is_what_was_given_up() -> None:
    rng = np.random.default_rng(3)
    reference = make_years(rng, [0.2] * 5)
    less = Years(reference.correct * 0.9, *(np.ones((50, 6)) for _ in range(4)))
    weights = long_run.resample_years(50, n=20)
    assert long_run.price_samples(less, reference, weights) == pytest.approx(0.1)


@pytest.mark.parametrize("gap", [0.0, 0.05, 0.5])
def test_lack_brings_every_stratum_into_a_band_and_sums_to_zero(gap: float) -> None:
    coverage = np.array([0.1, 0.2, 0.24, 0.26, 0.4])
    lack = lack_of(coverage, gap)
    assert lack.sum() == pytest.approx(0.0, abs=1e-9)
    assert np.ptp(coverage + lack) == pytest.approx(min(gap, 0.3), abs=1e-9)
    if gap == 0.05:
        # Who is inside the band is left alone.
        assert lack[2] == pytest.approx(0.0, abs=1e-9)


def test_floor_is_never_above_a_candidate_and_is_convex() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        gaps, prices = rng.uniform(0.0, 0.2, 12), rng.normal(0.0, 0.05, 12)
        for gap, price in zip(gaps, prices, strict=True):
            assert floor_at(gap, gaps, prices) <= price + 1e-12
        corners = hull_corners(gaps, prices)
        slopes = np.diff(prices[corners]) / np.diff(gaps[corners])
        assert (np.diff(slopes) >= -1e-12).all()
        assert (slopes < 0).all()


def test_a_policy_on_the_floor_is_not_above_it_and_a_dearer_one_is() -> None:
    rng = np.random.default_rng(5)
    reference = make_years(rng, [0.1, 0.15, 0.2, 0.25, 0.3], 30)
    level = make_years(rng, [0.195] * 5, 30)
    weights = long_run.resample_years(30, n=100)
    found = study.compare_with_floor(level, reference, [reference, level], reference, weights)
    assert abs(found["above_floor"]["value"]) < 0.01
    assert found["above_floor"]["lower"] <= 0.0
    dearer = Years(level.correct * 0.9, *(getattr(level, n) for n in NAMES))
    worse = study.compare_with_floor(dearer, reference, [reference, level], reference, weights)
    assert worse["above_floor"]["lower"] > 0.05


def test_many_equal_candidates_do_not_lower_the_floor() -> None:
    rng = np.random.default_rng(6)
    reference = make_years(rng, [0.2] * 5, 60)
    alike = [make_years(rng, [0.2] * 5, 60) for _ in range(30)]
    once = np.ones((1, 60))
    crossed = study.cross_floors(np.array([0.05]), alike, reference, once)[0]
    gaps, prices = study.measure_candidates(alike, reference, once)
    # All have the same price; the best on the very years looks cheaper than it is.
    assert floor_at(0.05, gaps[:, 0], prices[:, 0]) < -0.01
    assert abs(crossed) < 0.012


NAMES = ("actionable", "reported", "visits", "complaints")


def test_an_interval_holds_its_value_and_a_gap_its_range() -> None:
    """The largest of resampled differences lies above the data's; the interval holds both."""
    above = np.append(0.01, np.random.default_rng(0).uniform(0.02, 0.03, 500))
    assert np.quantile(above[1:], 0.025) > 0.01
    found = long_run.interval(above, (0.0, 1.0))
    assert 0.0 <= found["lower"] <= found["value"] <= 0.03 <= found["upper"] + 0.001
    centred = np.append(0.5, np.random.default_rng(1).normal(0.5, 0.1, 500))
    ends = np.quantile(centred[1:], [0.025, 0.975])
    np.testing.assert_allclose([long_run.interval(centred)[k] for k in ("lower", "upper")], ends)
