"""Trends over tracts: how often they alarm without one, and whether they see one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.audit.audit_city import make_inputs

from parity311.audit.assess import assess_domain, correct_tests
from parity311.audit.patterns import logistic_trend, mantel_extension, tract_trend
from parity311.audit.resample import sum_by
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import income_quintiles

pytestmark = pytest.mark.slow

N_TRIALS = 200


def p_values(seed: int, *, tract_sd: float, slope: float) -> tuple[float, float, float]:
    """Mantel's p-value for independent rows, ours over tracts, and the regression's."""
    inputs = make_inputs(seed, tract_sd=tract_sd, slope=slope)
    cells, grouping = inputs.cells, income_quintiles(inputs.places)
    n = (inputs.places.n_tracts, 4)
    served, cases = (
        sum_by(cells.tract, cells.severity, values, n) for values in (cells.n_served, cells.n_cases)
    )
    member = grouping.membership[:, :5]
    rows = mantel_extension(member.T @ served, member.T @ cases, np.arange(5.0))
    score = grouping.scores[cells.tract]
    use = np.isfinite(score)
    design = np.column_stack([score, *(cells.severity == s for s in range(4))])[use]
    fit = logistic_trend(cells.n_served[use], cells.n_cases[use], design, cells.tract[use])
    return rows.p_value, tract_trend(served, cases, grouping.scores).p_value, fit.p_value


def test_false_alarms_over_tracts_and_of_the_twin_that_ignores_them() -> None:
    p = np.array([p_values(seed, tract_sd=0.6, slope=0.0) for seed in range(N_TRIALS)])
    rejected = (p < 0.05).mean(axis=0)
    assert rejected[0] > 0.15
    assert rejected[1] <= 0.09
    assert rejected[2] <= 0.09


def test_without_tract_effects_both_have_their_size() -> None:
    p = np.array([p_values(seed, tract_sd=0.0, slope=0.0) for seed in range(N_TRIALS)])
    assert ((p < 0.05).mean(axis=0) <= 0.09).all()


def test_a_gradient_is_seen() -> None:
    p = np.array([p_values(seed, tract_sd=0.2, slope=0.12) for seed in range(40)])
    assert (p[:, 1:] < 0.05).mean() > 0.9


def test_tests_of_a_domain_are_corrected_together() -> None:
    spec = AuditSpec(n_draws=200)
    audits = correct_tests(
        [assess_domain(make_inputs(seed, slope=slope), spec) for seed, slope in ((1, 0), (2, 0.2))]
    )
    primary = [t for audit in audits for t in audit.trends if t.is_primary]
    assert len(primary) == 2
    raw = sorted(t.test.p_value for t in primary)
    assert sorted(t.p_adjusted for t in primary)[0] == pytest.approx(min(1, 2 * raw[0]))
    assert all(np.isnan(t.p_adjusted) for a in audits for t in a.trends if not t.is_tested)


def test_severity_standardisation_removes_a_gap_that_is_only_severity() -> None:
    """Strata with different codes but equal treatment: a crude gap, none given severity."""
    inputs = make_inputs(5, tract_sd=0.0)
    cells, rng = inputs.cells, np.random.default_rng(0)
    quintile = inputs.places.income_quintile[cells.tract]
    severity = np.where(
        quintile == 1, 3, np.where(quintile == 5, rng.integers(0, 2, len(quintile)), 1)
    )
    severity = np.where(
        rng.random(len(quintile)) < 0.3, rng.integers(0, 4, len(quintile)), severity
    )
    served = rng.binomial(cells.n_cases.astype(int), 0.1 + 0.15 * severity).astype(float)
    changed = type(cells)(**{**vars(cells), "severity": severity, "n_served": served})
    audit = assess_domain(
        type(inputs)(**{**vars(inputs), "cells": changed}), AuditSpec(n_draws=500)
    )
    verdicts = {v.denominator: v.comparison for v in audit.verdicts}
    assert verdicts["complaints"].verdict == "FAIL"
    assert verdicts["cases, given severity"].gap.lower < 0.02
