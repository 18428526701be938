"""The plain regressions: by hand where there is a formula, recovered where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from tests.unit.reporting.test_reporting_estimators import make_case

from parity311.errors import EstimationError, InputError
from parity311.reporting.areas import Areas
from parity311.reporting.regression import _derivatives, regress
from parity311.reporting.table import ReportTable


def drawn(n: int = 4000, silent: float = 0.0, seed: int = 3) -> tuple[ReportTable, Areas]:
    """Two categories and two boroughs with known effects, and a covariate of the incident."""
    base = make_case(60)
    rng = np.random.default_rng(seed)
    area, pattern, heat = rng.integers(0, 60, n), rng.integers(0, 2, n), rng.normal(5.0, 2.0, n)
    boroughs = np.array(["east", "west"], dtype=object)[np.arange(60) % 2]
    log_rate = -1.5 + np.where(pattern, 0.3, -0.3) + np.where(area % 2, -0.2, 0.2)
    exposure = rng.gamma(2.0, 4.0, n) + 0.2
    further = rng.poisson(np.exp(log_rate + 0.1 * (heat - 5.0)) * exposure)
    further[rng.random(n) < silent] = 0
    table = replace(
        base.table, area=area, n_further=further, exposure_days=exposure, pattern=pattern,
        patterns=("pole", "tree"), weight=np.ones(n), covariates={"heat": heat},
        first_report_day=np.zeros(n), last_delay_days=np.zeros(n), found_ended=np.zeros(n, bool),
        called_until_days=exposure,
    )  # fmt: skip
    return table, replace(base.areas, borough=boroughs)


def term(found: Any, name: str, level: str = "") -> dict[str, Any]:
    return next(row for row in found.terms if (row["term"], row["level"]) == (name, level))


def test_one_rate_by_hand() -> None:
    """Without factors: λ = reports over days, and the error of its logarithm is 1/√reports."""
    table, areas = drawn()
    table = replace(table, pattern=np.zeros_like(table.pattern), patterns=("tree",))
    found = regress(table, replace(areas, borough=np.full(60, "", dtype=object)))
    days, y = table.exposure_days, table.n_further
    rate = y.sum() / days.sum()
    assert [row["term"] for row in found.terms] == ["intercept"]
    assert term(found, "intercept")["coefficient"] == pytest.approx(np.log(rate), abs=1e-6)
    assert term(found, "intercept")["se"] == pytest.approx(1 / np.sqrt(y.sum()), rel=1e-6)
    expected = (y * np.log(rate * days) - rate * days - gammaln(y + 1)).sum()
    assert found.log_likelihood == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("model", "silent"), [("poisson", 0.0), ("zero_inflated", 0.3)])
def test_known_effects_come_back(model: str, silent: float) -> None:
    table, areas = drawn(silent=silent)
    found = regress(table, areas, model=model, covariates=("heat",))
    known = {("category", "tree"): 0.3, ("category", "pole"): -0.3, ("borough", "east"): 0.2}
    for (name, level), value in known.items():
        row = term(found, name, level)
        assert abs(row["coefficient"] - value) < 4 * row["se"] < 0.2
    slope = term(found, "heat")
    assert abs(slope["per_unit"] - 0.1) < 4 * slope["per_unit_se"]
    assert slope["coefficient"] == pytest.approx(slope["per_unit"] * table.covariates["heat"].std())
    if silent:
        assert found.silent_share is not None
        assert found.silent_share_se is not None
        assert abs(found.silent_share - silent) < 4 * found.silent_share_se
        plain = regress(table, areas, covariates=("heat",))
        assert plain.log_likelihood < found.log_likelihood - 50


def test_the_order_of_rows_does_not_matter() -> None:
    table, areas = drawn(500)
    one = regress(table, areas, covariates=("heat",))
    order = np.random.default_rng(0).permutation(500)
    two = regress(table.take(order), areas, covariates=("heat",))
    for left, right in zip(one.terms, two.terms, strict=True):
        assert left["coefficient"] == pytest.approx(right["coefficient"], abs=1e-8)


@pytest.mark.parametrize("n_parameters", [2, 3])
def test_derivatives_agree_with_differences(n_parameters: int) -> None:
    rng = np.random.default_rng(1)
    design = np.column_stack([np.ones(50), rng.normal(size=50)])
    y, offset = rng.poisson(0.7, 50).astype(float), rng.normal(size=50)
    at, step = np.array([-0.3, 0.2, -0.8])[:n_parameters], 1e-5
    _, slope, bend = _derivatives(design, y, offset, at)
    for place in range(n_parameters):
        move = step * np.eye(n_parameters)[place]
        above, below = (_derivatives(design, y, offset, at + sign * move) for sign in (1, -1))
        assert slope[place] == pytest.approx((above[0] - below[0]) / (2 * step), rel=1e-6)
        np.testing.assert_allclose(bend[place], (above[1] - below[1]) / (2 * step), rtol=1e-5)


def test_what_has_no_estimate_is_refused() -> None:
    table, areas = drawn(400)
    quiet = replace(table, n_further=np.where(table.pattern == 0, 0, table.n_further))
    with pytest.raises(EstimationError, match="No incident of category 'pole' was reported again"):
        regress(quiet, areas)
    with pytest.raises(EstimationError, match="cannot be told apart"):
        regress(*drawn(), has_area_effects=True)
    with pytest.raises(InputError, match="covariate 'hat'.*'heat'"):
        regress(table, areas, covariates=("hat",))
    with pytest.raises(InputError, match="model 'zip'"):
        regress(table, areas, model="zip")
    flat = replace(table, covariates={"heat": np.ones(400)})
    with pytest.raises(InputError, match="'heat' is 1 everywhere"):
        regress(flat, areas, covariates=("heat",))
