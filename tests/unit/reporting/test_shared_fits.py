"""Fits of one table that share a start answer as fits from nothing do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parity311.reporting import hierarchy
from parity311.reporting.exposure_rate import RateFit, fit_exposure_rate
from parity311.reporting.lifetimes import estimated, exponential
from parity311.reporting.likelihood import RowData
from parity311.reporting.row_sums import Rows
from parity311.reporting.settings import InspectionSample, Settings
from parity311.reporting.simulation import ReportingScenario, SimulatedReports, make_areas, simulate

LESS_THAN_NOTICED = 0.1
"""Standard errors by which two answers to one question may differ."""


@pytest.fixture(scope="module")
def case() -> SimulatedReports:
    areas = make_areas(60, np.random.default_rng(3))
    return simulate(ReportingScenario(n_windows=4, gamma_shape=2.0), areas, 4)


def told(case: SimulatedReports) -> dict[str, Settings]:
    """What the same table is fitted with: nothing, the ends of a band, inspections."""
    area = np.arange(0, 60, 6)
    sample = InspectionSample(area, np.full(10, 40), np.full(10, 20))
    return {
        "alone": Settings(estimated()),
        "short": Settings(exponential(8.0)),
        "long": Settings(exponential(25.0)),
        "inspected": Settings(estimated(), inspections=sample, closing_covariates=("log_income",)),
    }


def largest_difference(one: RateFit, two: RateFit) -> float:
    """Of the parameters that are estimated, in standard errors."""
    error = np.sqrt(np.diag(two.fit.covariance))
    free = error > 0
    return float(np.max(np.abs(one.fit.parameters - two.fit.parameters)[free] / error[free]))


def test_a_shared_start_changes_no_answer(case: SimulatedReports) -> None:
    shared: dict = {}
    for name, settings in told(case).items():
        near, alone = (
            fit_exposure_rate(case.table, case.areas, replace(settings, fits=kept), is_mixed=True)
            for kept in (shared, None)
        )
        assert largest_difference(near, alone) < LESS_THAN_NOTICED, name
        assert near.fit.sigma == pytest.approx(alone.fit.sigma, rel=0.05)
        spreads = [fit.fit.between for fit in (near, alone)]
        assert spreads[0] is not None
        assert spreads[1] is not None
        assert spreads[0].mode == pytest.approx(spreads[1].mode, abs=0.2 * spreads[1].sd)
    assert len(shared) == 3  # what inspections found is not part of what is shared


def test_a_fit_asked_for_again_is_not_made_again(
    case: SimulatedReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(estimated(), fits={})
    first = fit_exposure_rate(case.table, case.areas, settings, is_mixed=True)
    monkeypatch.setattr(hierarchy, "settle", None)
    assert fit_exposure_rate(case.table, case.areas, settings, is_mixed=True) is first
    other = replace(settings, lifetime=exponential(9.0))
    with pytest.raises(TypeError):
        fit_exposure_rate(case.table, case.areas, other, is_mixed=True)


def test_a_start_cut_short_would_be_noticed(
    case: SimulatedReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: a fit that stays where the other one ended is far from its own answer."""
    shared: dict = {}
    settings = told(case)
    fit_exposure_rate(case.table, case.areas, replace(settings["alone"], fits=shared))
    right = fit_exposure_rate(case.table, case.areas, settings["short"])
    monkeypatch.setattr(hierarchy, "MAX_STEPS", 0)
    stuck = hierarchy.fit_hierarchy(
        right.fit.model,
        _rows(case),
        right.cells.row_cell[case.table.informs_rate],
        0.0,
        near=next(iter(shared.values())).fit,
    )
    assert largest_difference(RateFit(right.cells, stuck), right) > LESS_THAN_NOTICED


def _rows(case: SimulatedReports) -> RowData:
    table = case.table
    use = table.informs_rate
    return RowData(
        table.n_further[use].astype(np.float64),
        table.last_delay_days[use],
        table.exposure_days[use],
        table.found_ended[use].astype(np.float64),
        table.called_until_days[use],
    )


def test_rows_are_cut_into_blocks_of_one_kind() -> None:
    rng = np.random.default_rng(0)
    n = 500
    further, ended = rng.integers(0, 2, n), rng.integers(0, 2, n)
    data = RowData(
        further.astype(float), 0.5 * further, np.full(n, 2.0), ended.astype(float), np.full(n, 1.0)
    )
    rows = Rows.sort(data, rng.integers(0, 40, n), 40)
    blocks = rows.blocks(64)
    assert [part.start for part in blocks[1:]] == [part.stop for part in blocks[:-1]]
    assert (blocks[0].start, blocks[-1].stop) == (0, n)
    for part in blocks:
        assert np.all(np.diff(rows.cell[part]) >= 0)
        assert part.stop - part.start <= 64
    kinds = [np.unique(rows.data.found_ended[part]).size for part in blocks]
    assert sum(size > 1 for size in kinds) <= 1
