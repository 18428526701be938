"""Estimators on small tables, by hand where a formula exists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import lambertw

from parity311.errors import EstimationError, InputError
from parity311.pipelines.reporting import _explain_bound
from parity311.reporting.areas import Areas
from parity311.reporting.as_published import clipped_factor
from parity311.reporting.estimate import ESTIMATORS, estimate
from parity311.reporting.lifetimes import estimated, exponential, fixed
from parity311.reporting.simulation import ReportingScenario, SimulatedReports, make_areas, simulate
from parity311.reporting.strata import stratify, total_by_stratum
from parity311.reporting.table import ReportTable


def make_case(n_areas: int = 60, seed: int = 0, **changes: float) -> SimulatedReports:
    areas = make_areas(n_areas, np.random.default_rng(seed))
    return simulate(ReportingScenario(n_windows=4, **changes), areas, seed + 1)


@pytest.fixture(scope="module")
def case() -> SimulatedReports:
    return make_case()


def one_area(table: ReportTable, areas: Areas) -> tuple[ReportTable, Areas]:
    """Put everything into one area, so that pooling has nothing to pool."""
    merged = replace(
        table,
        area=np.zeros_like(table.area),
        n_reports=table.n_reports.sum(axis=0, keepdims=True),
        n_duplicates=table.n_duplicates.sum(axis=0, keepdims=True),
        count_sd=np.zeros(1),
    )
    alone = replace(
        areas,
        geoid=areas.geoid[:1],
        borough=areas.borough[:1],
        households=areas.households[:1],
        income_quintile=areas.income_quintile[:1],
        covariates={},
    )
    return merged, alone


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_answers_with_numbers_and_spread(case: SimulatedReports, name: str) -> None:
    found = estimate(case.table, case.areas, estimator=name, lifetime=exponential(14.0), n_draws=50)
    assert found.estimator == name
    assert found.assumption
    assert found.incidents.shape == (60, 4)
    assert np.isfinite(found.incidents).all()
    assert found.factor_draws.shape[0] == 50
    totals = total_by_stratum(found, stratify(case.areas), np.random.default_rng(0))
    assert totals.draws.shape == (50, 4, 6)
    assert np.all(totals.lower <= totals.upper)


def test_the_same_seed_gives_the_same_draws(case: SimulatedReports) -> None:
    one, two = (
        estimate(case.table, case.areas, lifetime=exponential(14.0), seed=3) for _ in range(2)
    )
    np.testing.assert_array_equal(one.factor_draws, two.factor_draws)


def test_zero_truncated_solves_its_moment_equation(case: SimulatedReports) -> None:
    table, areas = one_area(case.table, case.areas)
    found = estimate(table, areas, estimator="zero_truncated")
    mean = 1.0 + table.n_further.mean()
    rate = mean + lambertw(-mean * np.exp(-mean)).real
    assert found.reported_share[0] == pytest.approx(1 - np.exp(-rate), rel=0.01)


def test_geometric_is_reported_times_reports_over_duplicates(case: SimulatedReports) -> None:
    table, areas = one_area(case.table, case.areas)
    found = estimate(table, areas, estimator="geometric")
    reports = table.n_incidents + table.n_further.sum()
    expected = table.n_incidents * reports / table.n_further.sum()
    assert found.incidents.sum() == pytest.approx(expected, rel=0.02)


def test_lower_bound_by_hand(case: SimulatedReports) -> None:
    found = estimate(case.table, case.areas, estimator="lower_bound")
    here = case.table.area == 7
    once = (case.table.n_further[here] == 0).sum()
    twice = (case.table.n_further[here] == 1).sum()
    expected = here.sum() + once * (once - 1) / (2 * (twice + 1))
    assert found.incidents[7].sum() == pytest.approx(expected)


def test_raw_counts_complaints(case: SimulatedReports) -> None:
    found = estimate(case.table, case.areas, estimator="raw")
    np.testing.assert_array_equal(found.incidents, case.table.n_reports)


def test_as_published_is_inverted_and_the_default_is_not() -> None:
    """Where people report more, the paper finds more need; equal need must come out as equal."""
    case = make_case(200, income_slope=0.6, incidents_per_area_window=60.0)
    strata = stratify(case.areas)
    truth = np.bincount(strata.of_area, case.true_incidents, minlength=6)[:5]

    def ratio(name: str) -> float:
        found = estimate(case.table, case.areas, estimator=name, lifetime=exponential(14.0))
        by = np.bincount(strata.of_area, found.incidents.sum(axis=1), minlength=6)[:5] / truth
        return by[4] / by[0]

    assert ratio("as_published") > ratio("raw") > 1.5
    assert ratio("exposure_rate") == pytest.approx(1.0, abs=0.12)


def test_clip_uses_complaints_where_propensity_is_too_small() -> None:
    np.testing.assert_allclose(clipped_factor(np.array([0.5, 0.05, 0.04])), [2.0, 20.0, 1.0])


def test_fixed_lifetime_recovers_what_made_the_data() -> None:
    case = make_case(100, lifetime_law="fixed", incidents_per_area_window=60.0)
    found = estimate(case.table, case.areas, estimator="exposure_rate_even", lifetime=fixed(14.0))
    assert found.incidents.sum() / case.true_incidents.sum() == pytest.approx(1.0, abs=0.05)


def test_ignoring_natural_ends_would_be_noticed() -> None:
    """The broken twin: taking the wait for the city as exposure misses the truth by far."""
    case = make_case(100, incidents_per_area_window=60.0)
    days = case.table.exposure_days[case.table.informs_rate].sum()
    rate = case.table.n_further.sum() / days
    naive = case.table.n_incidents * (1 + 1 / (14.0 * rate)) / case.true_incidents.sum()
    found = estimate(case.table, case.areas, lifetime=exponential(14.0))
    assert abs(naive - 1) > 0.3
    assert found.incidents.sum() / case.true_incidents.sum() == pytest.approx(1.0, abs=0.06)


class TestBadInput:
    """Areas with too little, or contradictory, data: a defined answer, never a silent zero."""

    def test_area_without_reports_is_pooled_and_says_so(self, case: SimulatedReports) -> None:
        keep = case.table.area != 5
        table = case.table.take(np.flatnonzero(keep))
        n_reports = table.n_reports.copy()
        n_reports[5] = 0
        table = replace(
            table, n_reports=n_reports, n_duplicates=np.minimum(table.n_duplicates, n_reports)
        )
        found = estimate(table, case.areas, lifetime=exponential(14.0))
        assert found.incidents[5].sum() > 0
        assert "no report" in found.reason[5]
        assert np.isfinite(found.incidents_se[5]).all()

    def test_area_with_one_report_is_finite(self, case: SimulatedReports) -> None:
        first = np.flatnonzero(case.table.area == 5)[:1]
        rest = np.flatnonzero(case.table.area != 5)
        table = case.table.take(np.concatenate([first, rest]))
        found = estimate(table, case.areas, lifetime=exponential(14.0))
        assert np.isfinite(found.incidents[5]).all()
        assert found.incidents[5].sum() > 1

    def test_no_duplicates_at_all_is_refused(self, case: SimulatedReports) -> None:
        table = replace(
            case.table,
            n_further=np.zeros_like(case.table.n_further),
            last_delay_days=np.zeros_like(case.table.last_delay_days),
        )
        with pytest.raises(EstimationError, match="reported a second time"):
            estimate(table, case.areas, lifetime=exponential(14.0))

    def test_only_duplicates_in_an_area(self, case: SimulatedReports) -> None:
        weekly = case.table.weekly
        table = replace(case.table, weekly=replace(weekly, n_repeats=weekly.n_reports))
        found = estimate(table, case.areas, estimator="as_published")
        assert np.isfinite(found.incidents).all()

    def test_zero_exposure_says_nothing_about_the_rate(self, case: SimulatedReports) -> None:
        table = replace(case.table, exposure_days=np.zeros(case.table.n_incidents))
        with pytest.raises(EstimationError, match=r"exposure of more than 0.1 day"):
            estimate(table, case.areas, lifetime=exponential(14.0))

    def test_missing_covariates_are_set_to_the_mean_and_named(self, case: SimulatedReports) -> None:
        income = case.areas.covariates["log_income"].copy()
        income[3] = np.nan
        areas = replace(case.areas, covariates={"log_income": income})
        found = estimate(case.table, areas, lifetime=exponential(14.0))
        assert "not published" in found.reason[3]
        assert np.isfinite(found.incidents[3]).all()

    def test_a_lifetime_shorter_than_what_was_seen_is_refused(self, case: SimulatedReports) -> None:
        with pytest.raises(EstimationError, match="days after the first"):
            estimate(case.table, case.areas, lifetime=fixed(1.0))

    def test_unknown_names_offer_the_nearest(self, case: SimulatedReports) -> None:
        with pytest.raises(InputError, match="exposure_rate"):
            estimate(case.table, case.areas, estimator="exposure_rat")
        with pytest.raises(InputError, match="no covariate 'age'"):
            estimate(case.table, case.areas, covariates=("age",))


class TestLowerBound:
    """It bounds only where duplicates are marked, and is refused elsewhere."""

    def test_unmarked_incidents_are_no_singletons(self, case: SimulatedReports) -> None:
        """A second source that marks nothing adds its reports, and nothing unreported."""
        n = case.table.n_incidents
        twice = case.table.take(np.concatenate([np.arange(n), np.arange(n)]))
        once = np.where(np.arange(2 * n) < n, twice.n_further, 0)
        half = np.arange(2 * n) >= n
        both = replace(twice, n_further=once, is_unmarked=half)
        missed = [
            estimate(table, case.areas, estimator="lower_bound").incidents.sum() - table.n_incidents
            for table in (case.table, both, replace(both, is_unmarked=None))
        ]
        assert missed[1] == pytest.approx(missed[0])
        assert missed[2] > 2 * missed[0]

    @pytest.mark.parametrize("name", ["lower_bound", "exposure_rate", "zero_truncated"])
    def test_nothing_marked_is_said(self, case: SimulatedReports, name: str) -> None:
        """What nobody marked is not stated as a fact, and lower_bound is not advised."""
        n = case.table.n_incidents
        table = replace(
            case.table, n_further=np.zeros(n, dtype=int), is_unmarked=np.ones(n, dtype=bool)
        )
        with pytest.raises(EstimationError, match="Duplicates are not marked") as caught:
            estimate(table, case.areas, estimator=name)
        assert "lower_bound" not in str(caught.value)
        with pytest.raises(EstimationError, match=r"None of .* reported a second time") as caught:
            estimate(replace(table, is_unmarked=None), case.areas, estimator=name)
        assert "lower_bound" not in str(caught.value)


def test_a_bound_above_the_estimates_is_explained() -> None:
    def row(name: str, *values: float) -> dict:
        return {"estimator": name, "strata": [{"estimated_incidents": value} for value in values]}

    rows = [row("exposure_rate", 300.0, 432.7), row("raw", 1.0, 2.0)]
    (note,) = _explain_bound([*rows, row("lower_bound", 400.0, 440.6)])
    assert "above exposure_rate and is no bound here" in note
    assert _explain_bound([*rows, row("lower_bound", 300.0, 400.0)]) == []
    assert _explain_bound([*rows, {"estimator": "lower_bound", "strata": None}]) == []


def sparse_table(n: int = 500, n_areas: int = 400, seed: int = 1) -> tuple[ReportTable, Areas]:
    """As real heat rows are: one case an area, 6 % with a second report, a third never closed."""
    base = make_case(n_areas)
    rng = np.random.default_rng(seed)
    is_open = rng.random(n) < 0.3
    exposure = np.where(is_open, 100.0, rng.gamma(1.5, 2.0, n) + 0.11)
    further = np.where(rng.random(n) < 0.06, 1 + rng.poisson(0.8, n), 0)
    last = np.where(further > 0, np.minimum(rng.exponential(0.5, n), exposure), 0.0)
    called = ~is_open & (rng.random(n) < 0.25) & (further == 0)
    area = rng.integers(0, n_areas, n)
    reports = np.zeros((n_areas, base.table.n_windows))
    np.add.at(reports, (area, 0), 1.0 + further)
    table = replace(
        base.table, area=area, first_report_day=np.zeros(n), n_further=further,
        last_delay_days=last, exposure_days=exposure, found_ended=called,
        called_until_days=exposure, pattern=np.zeros(n, dtype=int), patterns=("heat",),
        weight=np.ones(n), n_reports=reports,
    )  # fmt: skip
    return table, base.areas


def test_a_sparse_table_of_real_shape_is_fitted() -> None:
    """The climb wandered off on a likelihood that a floor made flat: a singular matrix."""
    table, areas = sparse_table()
    found = estimate(
        table, areas, estimator="exposure_rate_even", lifetime=exponential(3.7), n_draws=20
    )
    assert np.isfinite(found.incidents).all()
    assert found.incidents.sum() > table.n_incidents


class TestProperties:
    """What must not matter does not."""

    @pytest.mark.parametrize("name", ["exposure_rate", "zero_truncated", "lower_bound"])
    def test_the_order_of_rows(self, case: SimulatedReports, name: str) -> None:
        shuffled = case.table.take(np.random.default_rng(1).permutation(case.table.n_incidents))
        one, two = (
            estimate(table, case.areas, estimator=name, lifetime=estimated())
            for table in (case.table, shuffled)
        )
        np.testing.assert_allclose(one.incidents, two.incidents, rtol=1e-6)

    def test_splitting_windows_keeps_totals(self, case: SimulatedReports) -> None:
        half = replace(
            case.table,
            window_days=14,
            n_reports=np.repeat(case.table.n_reports / 2, 2, axis=1),
            n_duplicates=np.repeat(case.table.n_duplicates / 2, 2, axis=1),
        )
        whole, split = (
            estimate(table, case.areas, lifetime=exponential(14.0)) for table in (case.table, half)
        )
        np.testing.assert_allclose(whole.rate_per_day, split.rate_per_day, rtol=1e-9)
        strata = stratify(case.areas)
        totals = [
            total_by_stratum(found, strata, np.random.default_rng(0)).per_28_days
            for found in (whole, split)
        ]
        np.testing.assert_allclose(totals[0], totals[1], rtol=1e-9)

    def test_longer_lifetimes_mean_fewer_missed(self, case: SimulatedReports) -> None:
        totals = [
            estimate(case.table, case.areas, lifetime=exponential(days)).incidents.sum()
            for days in (7.0, 14.0, 28.0)
        ]
        assert totals[0] > totals[1] > totals[2] > case.table.n_incidents

    def test_areas_in_any_order(self, case: SimulatedReports) -> None:
        order = np.random.default_rng(2).permutation(60)
        place = np.argsort(order)
        areas = replace(
            case.areas,
            geoid=case.areas.geoid[order],
            income_quintile=case.areas.income_quintile[order],
            covariates={"log_income": case.areas.covariates["log_income"][order]},
        )
        table = replace(
            case.table,
            area=place[case.table.area],
            n_reports=case.table.n_reports[order],
            n_duplicates=case.table.n_duplicates[order],
        )
        one = estimate(case.table, case.areas, lifetime=exponential(14.0))
        two = estimate(table, areas, lifetime=exponential(14.0))
        np.testing.assert_allclose(one.incidents[order], two.incidents, rtol=1e-5)
