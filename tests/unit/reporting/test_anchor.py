"""Inspections set the level where the law of the factors is off, and leave it where it holds."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.reporting.inspections import Anchor, Factors, anchor_factors, say_anchor
from parity311.reporting.settings import InspectionSample

N_AREAS, N_DRAWS = 200, 400
INSPECTED = np.arange(5, 200, 16)


Drawn = tuple[Factors, np.ndarray, np.ndarray, np.ndarray]


def city(miss: np.ndarray | float, seed: int = 0, size: float = 300.0) -> Drawn:
    """Factors of a law, the true ones, and incidents with those of them that are on record."""
    rng = np.random.default_rng(seed)
    log_law = 0.9 + 0.15 * rng.standard_normal(N_AREAS)
    truth = np.exp(np.maximum(log_law + miss, 0.05))
    incidents = rng.poisson(size * rng.gamma(2.0, 0.5, N_AREAS)) + 5
    reported = rng.binomial(incidents, 1.0 / truth)
    # The law is sure of itself: a standard error of 2 %.
    level = 0.02 * rng.standard_normal((N_DRAWS, 1))
    draws = np.exp(log_law + level + 0.03 * rng.standard_normal((N_DRAWS, N_AREAS)))
    return Factors(np.exp(log_law), draws), truth, incidents, reported


def anchored(
    miss: np.ndarray | float, *, is_complete: bool = True, seed: int = 0, size: float = 300.0
) -> tuple[Anchor, np.ndarray, np.ndarray]:
    law, truth, incidents, reported = city(miss, seed, size)
    sample = InspectionSample(
        INSPECTED, incidents[INSPECTED], reported[INSPECTED], is_complete=is_complete
    )
    income = np.linspace(-1.7, 1.7, N_AREAS)[:, None]
    found = anchor_factors(law, reported, income, sample, np.random.default_rng(1))
    assert found is not None
    return found, truth, reported


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("miss", [-0.4, 0.3])
def test_a_law_that_is_off_is_moved_to_the_truth(miss: float, is_complete: bool) -> None:
    found, truth, reported = anchored(miss, is_complete=is_complete)
    assert found.chance_off > 0.99
    assert found.shift == pytest.approx(miss, abs=0.05)
    total = reported @ truth
    assert reported @ found.factors.mean == pytest.approx(total, rel=0.05)
    low, high = np.percentile(found.factors.draws @ reported, (5, 95))
    assert low < total < high
    assert high / low < 1.3
    assert "contradict" in say_anchor(found)


def test_a_law_that_holds_is_believed() -> None:
    found, _, _ = anchored(0.0)
    assert found.chance_off < 0.3
    assert abs(found.shift) < 0.05
    assert say_anchor(found) == ""


def test_a_miss_along_income_is_mended_for_the_most_part() -> None:
    """Twelve hundredths a standard deviation: the outer areas are four tenths apart."""
    income = np.linspace(-1.7, 1.7, N_AREAS)
    found, truth, _ = anchored(0.12 * income)
    left = np.log(found.factors.mean / truth)
    assert abs(np.polyfit(income, left, 1)[0]) < 0.05


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Areas also differ from the law by their own; 60 cities."""
    inside = 0
    for seed in range(60):
        own = 0.15 * np.random.default_rng(1000 + seed).standard_normal(N_AREAS)
        found, truth, reported = anchored(-0.35 + own, seed=seed, size=80.0)
        low, high = np.percentile(found.factors.draws @ reported, (5, 95))
        inside += bool(low < reported @ truth < high)
    assert 48 <= inside <= 60


def test_complete_inspections_also_see_duplicates_nobody_marked() -> None:
    """A fifth more on record than happened: only a complete sample can know."""
    law, truth, incidents, reported = city(0.0)
    on_record = reported * 1.25
    income = np.zeros((N_AREAS, 0))
    totals = []
    for is_complete in (True, False):
        sample = InspectionSample(
            INSPECTED, incidents[INSPECTED], reported[INSPECTED], is_complete=is_complete
        )
        found = anchor_factors(law, on_record, income, sample, np.random.default_rng(1))
        assert found is not None
        totals.append(on_record @ found.factors.mean / (reported @ truth))
    assert totals[0] == pytest.approx(1.0, abs=0.05)
    assert totals[1] > 1.2


def test_an_inspected_area_is_what_was_found_there() -> None:
    found, _, _ = anchored(-0.4)
    _, _, incidents, reported = city(-0.4)
    seen = (incidents[INSPECTED] + 0.5) / (reported[INSPECTED] + 0.5)
    np.testing.assert_allclose(found.factors.mean[INSPECTED], np.maximum(seen, 1.001))


def test_too_few_areas_tell_nothing() -> None:
    law, _, incidents, reported = city(-0.4)
    few = np.arange(3)
    sample = InspectionSample(few, incidents[few], reported[few], is_complete=True)
    none = np.zeros((N_AREAS, 0))
    assert anchor_factors(law, reported, none, sample, np.random.default_rng(0)) is None
