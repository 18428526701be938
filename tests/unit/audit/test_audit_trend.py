"""Trend tests against values from statsmodels 0.15, and where there is nothing to test."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.audit.patterns import (
    cochran_armitage,
    fit_logistic,
    logistic_trend,
    mantel_extension,
    shape_test,
    tract_trend,
)

CASES = np.array([120.0, 150, 90, 200, 130])
SERVED = np.array([12.0, 20, 20, 31, 32])
SCORES = np.arange(5.0)


def test_cochran_armitage_equals_its_reference() -> None:
    """statsmodels Table([[n − x, x]]).test_ordinal_association(): the same z."""
    stats_models = pytest.importorskip("statsmodels.stats.contingency_tables", reason="oracle")
    table = stats_models.Table(np.column_stack([CASES - SERVED, SERVED]), shift_zeros=False)
    expected = table.test_ordinal_association(row_scores=SCORES, col_scores=np.array([0, 1]))
    assert cochran_armitage(SERVED, CASES, SCORES).statistic == pytest.approx(expected.zscore)


def test_values_computed_once_with_statsmodels() -> None:
    test = cochran_armitage(SERVED, CASES, SCORES)
    assert test.statistic == pytest.approx(2.877998, abs=1e-6)
    assert test.p_value == pytest.approx(0.00400216, rel=1e-4)


def test_two_strata_are_the_mantel_haenszel_test() -> None:
    """By hand: T² / V of two 2×2 tables with the hypergeometric variance."""
    served, cases = np.array([[10.0, 6], [4, 12]]), np.array([[40.0, 30], [35, 45]])
    top, variance = 0.0, 0.0
    for s in range(2):
        n, x = cases[:, s].sum(), served[:, s].sum()
        top += served[1, s] - cases[1, s] * x / n
        variance += cases[0, s] * cases[1, s] * x * (n - x) / (n**2 * (n - 1))
    test = mantel_extension(served, cases, np.array([0.0, 1.0]))
    assert test.statistic**2 == pytest.approx(top**2 / variance)


def test_one_tract_a_row_gives_the_same_score_as_mantel() -> None:
    """The clustered test has Mantel's score; only its spread differs."""
    rng = np.random.default_rng(0)
    cases = rng.integers(5, 30, (60, 3)).astype(float)
    served = rng.binomial(cases.astype(int), 0.3).astype(float)
    scores = rng.integers(0, 5, 60).astype(float)
    member = (scores[:, None] == SCORES).astype(float)
    rows = mantel_extension(member.T @ served, member.T @ cases, SCORES)
    assert tract_trend(served, cases, scores).estimate == pytest.approx(rows.estimate)


def grouped_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    tract = np.repeat(np.arange(60), 8)
    score = np.repeat(rng.integers(0, 5, 60), 8).astype(float)
    layer = rng.integers(0, 3, 480)
    cases = rng.integers(1, 20, 480).astype(float)
    log_odds = -1 + 0.1 * score + 0.4 * layer + np.repeat(rng.normal(size=60) * 0.3, 8)
    served = rng.binomial(cases.astype(int), 1 / (1 + np.exp(-log_odds))).astype(float)
    return served, cases, np.column_stack([score, *(layer == k for k in range(3))]), tract


def test_the_logistic_fit_and_its_clustered_errors_equal_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is only an oracle here")
    served, cases, design, tract = grouped_rows()
    fit = fit_logistic(served, cases, design, tract)
    assert not isinstance(fit, str)
    both = np.column_stack([served, cases - served])
    model = api.GLM(both, design, family=api.families.Binomial())
    options = {"groups": tract, "use_correction": False}
    expected = model.fit(cov_type="cluster", cov_kwds=options)
    assert fit.coefficients == pytest.approx(expected.params, rel=1e-6)
    assert fit.covariance * 59 / 60 == pytest.approx(expected.cov_params(), rel=1e-5)


def test_the_logistic_fit_is_where_the_score_vanishes() -> None:
    served, cases, design, tract = grouped_rows()
    fit = fit_logistic(served, cases, design, tract)
    assert not isinstance(fit, str)
    mean = 1 / (1 + np.exp(-(design @ fit.coefficients)))
    assert design.T @ (served - cases * mean) == pytest.approx(np.zeros(4), abs=1e-6)
    statistic, p_value = shape_test(fit, np.array([0]))
    trend = logistic_trend(served, cases, design, tract)
    assert statistic == pytest.approx(trend.statistic**2)
    assert p_value == pytest.approx(trend.p_value)


@pytest.mark.parametrize(
    ("served", "cases", "reason"),
    [
        (np.zeros(5), np.zeros(5), "no cases"),
        (np.zeros(5), CASES, "no case was served"),
        (CASES, CASES, "all cases were served"),
        (np.array([5.0, 0, 0, 0, 0]), np.array([9.0, 0, 0, 0, 0]), "only one stratum"),
    ],
)
def test_nothing_to_test_is_said(served: np.ndarray, cases: np.ndarray, reason: str) -> None:
    test = cochran_armitage(served, cases, SCORES)
    assert np.isnan(test.p_value)
    assert reason in test.reason


def test_too_few_tracts_are_said() -> None:
    test = tract_trend(np.ones((3, 1)), np.full((3, 1), 9.0), np.array([0.0, 1.0, 2.0]))
    assert "a trend needs 5" in test.reason


def test_a_covariate_without_variance_and_separation_are_said() -> None:
    served, cases, design, tract = grouped_rows()
    flat = np.column_stack([np.ones(len(served)), design[:, 1:]])
    assert "do not vary" in logistic_trend(served, cases, flat, tract).reason
    split = np.where(design[:, 0] > 2, cases, 0.0)
    assert "all served or none" in logistic_trend(split, cases, design, tract).reason
