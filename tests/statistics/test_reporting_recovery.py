"""Simulate reports, recover incidents: the default estimator does, the published one inverts."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.reporting.estimate import estimate
from parity311.reporting.lifetimes import exponential
from parity311.reporting.simulation import ReportingScenario, SimulatedReports, make_areas, simulate

pytestmark = pytest.mark.slow

UNEQUAL = ReportingScenario(income_slope=0.4, n_windows=6)
"""People in richer areas report faster; incidents are the same everywhere."""


@pytest.fixture(scope="module")
def simulated() -> SimulatedReports:
    return simulate(UNEQUAL, make_areas(250, np.random.default_rng(0)), seed=1)


def ratio_of_poorest_to_richest(simulated: SimulatedReports, incidents: np.ndarray) -> float:
    """Estimated over true incidents of the first quintile, over the same of the fifth."""
    quintile = simulated.areas.income_quintile
    ratios = [
        incidents[quintile == q].sum() / simulated.true_incidents[quintile == q].sum()
        for q in (1, 5)
    ]
    return float(ratios[0] / ratios[1])


def recover(simulated: SimulatedReports, estimator: str) -> np.ndarray:
    lifetime = exponential(UNEQUAL.mean_lifetime_days, origin="known")
    found = estimate(simulated.table, simulated.areas, estimator=estimator, lifetime=lifetime)
    return np.nansum(found.incidents, axis=1)


def test_exposure_rate_recovers_incidents_where_people_report_unequally(
    simulated: SimulatedReports,
) -> None:
    incidents = recover(simulated, "exposure_rate")
    assert incidents.sum() == pytest.approx(simulated.true_incidents.sum(), rel=0.08)
    assert ratio_of_poorest_to_richest(simulated, incidents) == pytest.approx(1.0, abs=0.1)


def test_the_published_estimator_is_further_off_than_raw_counts(
    simulated: SimulatedReports,
) -> None:
    """Its propensity falls as reporting rises, so it moves need to where people report most."""
    raw = ratio_of_poorest_to_richest(simulated, recover(simulated, "raw"))
    published = ratio_of_poorest_to_richest(simulated, recover(simulated, "as_published"))
    assert published < raw < 0.9
