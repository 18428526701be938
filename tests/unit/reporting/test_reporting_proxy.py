"""The census proxy: who speaks for themselves, who is spoken for, and from what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parity311.errors import EstimationError, InputError
from parity311.reporting.counts import BY_PROXY
from parity311.reporting.estimate import estimate
from parity311.reporting.lifetimes import exponential
from parity311.reporting.simulation import ReportingScenario, SimulatedReports, make_areas, simulate

KNOWN = exponential(14.0, origin="known")


@pytest.fixture(scope="module")
def case() -> SimulatedReports:
    areas = make_areas(120, np.random.default_rng(2))
    return simulate(ReportingScenario(income_slope=0.5, n_windows=6), areas, 3)


@pytest.mark.slow
def test_areas_with_few_duplicates_follow_their_covariates(case: SimulatedReports) -> None:
    n_duplicates = case.table.n_duplicates.copy()
    n_duplicates[::3] = 0.0
    found = estimate(
        replace(case.table, n_duplicates=n_duplicates),
        case.areas,
        estimator="acs_proxy",
        lifetime=KNOWN,
    )
    spoken_for = n_duplicates.sum(axis=1) < 10
    assert spoken_for[::3].all()
    np.testing.assert_array_equal(found.reason == BY_PROXY, spoken_for)
    # Along the proxy P(reported) rises with income alone, as the scenario's rates do.
    income = case.areas.covariates["log_income"][spoken_for]
    share = found.reported_share[spoken_for][np.argsort(income)]
    assert (np.diff(share) > 0).all()
    base = estimate(case.table, case.areas, lifetime=KNOWN)
    np.testing.assert_allclose(found.factors[~spoken_for], base.factors[~spoken_for])
    spread = found.factor_draws.std(axis=0) / found.factors
    assert spread[spoken_for].mean() > 0.05


def test_it_is_fitted_to_whichever_estimator_is_chosen(case: SimulatedReports) -> None:
    found = estimate(case.table, case.areas, estimator="acs_proxy", proxy_of="zero_truncated")
    assert "ignores how long the city took" in found.assumption
    with pytest.raises(InputError, match="exposure_rate"):
        estimate(case.table, case.areas, estimator="acs_proxy", proxy_of="raw")


def test_too_few_areas_to_fit_to_are_refused(case: SimulatedReports) -> None:
    table = replace(case.table, n_duplicates=np.zeros_like(case.table.n_duplicates))
    with pytest.raises(EstimationError, match="0 areas have 10 duplicates or more"):
        estimate(table, case.areas, estimator="acs_proxy", lifetime=KNOWN)
