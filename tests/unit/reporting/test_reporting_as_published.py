"""The paper's own correction, against its formulas worked out by hand."""

from __future__ import annotations

import ast
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import table_of, tiny_tables, write_folder

import parity311
from parity311.errors import EstimationError
from parity311.records.store import open_records
from parity311.reporting.areas import Areas, areas_from_records
from parity311.reporting.estimate import ALL_ESTIMATORS, estimate
from parity311.reporting.incidents import IncidentEstimate
from parity311.reporting.simulation import ReportingScenario, make_areas, simulate
from parity311.reporting.table import ReportTable, reports_from_records
from parity311.reporting.weekly import WeeklyReports, count_weekly

SOURCE = Path(parity311.__file__).parent


def table_with(reports: list[list[float]], repeats: list[list[float]], n_days: int) -> ReportTable:
    """A table whose reports by area and week are these."""
    n_windows = -(-n_days // 28)
    drawn = simulate(ReportingScenario(n_windows=n_windows), make_areas(9, _rng()), 1).table
    return replace(
        drawn,
        n_reports=np.ones((len(reports), n_windows)),
        date_to=date.fromordinal(drawn.date_from.toordinal() + n_days),
        weekly=WeeklyReports(np.array(reports, float), np.array(repeats, float)),
    )


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def named(n: int, income: list[float] | None = None) -> Areas:
    areas = Areas(
        geoid=np.array([f"{i}" for i in range(n)], dtype=object),
        borough=np.full(n, "", dtype=object),
        households=np.ones(n),
        income_quintile=np.zeros(n, dtype=np.int64),
        covariates={},
        edges=np.zeros((0, 2), dtype=np.int64),
    )
    return areas if income is None else replace(areas, median_income=np.array(income))


def run(table: ReportTable, areas: Areas) -> IncidentEstimate:
    return estimate(table, areas, estimator="as_published", n_draws=50)


class TestDuplicatesAreThoseOfATractWeek:
    # Incident 0: calls on days 0, 3 (again in week 0), 9 and 10 (again in week 1), 40.
    # Incident 1: called in from tract 0 on day 1 and from tract 1 on day 2: once in each.
    AREA = np.array([0, 0, 0, 0, 0, 0, 1])
    DAY = np.array([0.0, 3.2, 9.0, 10.5, 40.0, 1.0, 2.0])
    INCIDENT = np.array([0, 0, 0, 0, 0, 1, 1])

    def test_by_hand(self) -> None:
        weekly = count_weekly(self.AREA, self.DAY, self.INCIDENT, n_areas=2, n_days=42)
        np.testing.assert_array_equal(weekly.n_reports, [[3, 2, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]])
        # Every later call ever would be 5 duplicates; in the same tract-week there are 2.
        np.testing.assert_array_equal(weekly.n_repeats, [[1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])

    def test_from_records(self, tmp_path: Path) -> None:
        tables = tiny_tables()
        rows = tables["complaints"].to_pylist()[:7]
        start = datetime(2024, 1, 1)
        for row, area, day, incident in zip(rows, self.AREA, self.DAY, self.INCIDENT, strict=True):
            row["tract"] = f"3600500000{1 + area}"
            row["incident_id"] = f"i{incident}"
            row["received_at"] = start + timedelta(days=float(day))
        tables["complaints"] = table_of("complaints", rows)
        records = open_records(write_folder(tmp_path / "records", tables))
        areas = areas_from_records(records)
        table = reports_from_records(
            records, "heat", areas, date_from=date(2024, 1, 1), date_to=date(2024, 2, 12)
        )
        by_hand = count_weekly(self.AREA, self.DAY, self.INCIDENT, n_areas=2, n_days=42)
        assert table.weekly is not None
        np.testing.assert_array_equal(table.weekly.n_reports, by_hand.n_reports)
        np.testing.assert_array_equal(table.weekly.n_repeats, by_hand.n_repeats)
        np.testing.assert_array_equal(areas.median_income, [40_000.0, 80_000.0])


def test_the_window_is_the_four_weeks_that_end_at_the_step() -> None:
    # Weeks 1 to 4: C = 80, D = 20, rho = 0.75, I = 106.67. Weeks 2 to 5: C = 120, D = 35,
    # rho = 85/120, I = 169.41. The second step speaks for the last week, a quarter of a window.
    table = table_with([[20, 20, 20, 20, 60]], [[5, 5, 5, 5, 20]], 35)
    found = run(table, named(1))
    np.testing.assert_allclose(found.incidents, [[80 / 0.75, 120 / (85 / 120) / 4]])


def test_a_month_is_the_mean_over_the_steps_that_end_in_it() -> None:
    reports = [[40.0, 40, 40, 40, 80, 40, 40, 40]]
    repeats = [[10.0, 10, 10, 10, 40, 10, 10, 10]]
    # Steps 5 to 8 hold one week of 80 with 40 repeated: C = 200, D = 70, I = 200 / 0.65 each.
    found = run(table_with(reports, repeats, 56), named(1))
    np.testing.assert_allclose(found.incidents, [[160 / 0.75, 200 / 0.65]])


def test_a_period_short_of_a_window_is_its_own_window() -> None:
    found = run(table_with([[50.0, 30.0]], [[10.0, 10.0]], 10), named(1))
    np.testing.assert_allclose(found.incidents, [[80 / (60 / 80)]])


def test_below_ten_duplicates_the_proxy_is_linear_in_income_itself() -> None:
    # Two tracts fix the line: rho = 0.8 at 20,000 dollars and 0.5 at 100,000. Half way, at 60,000,
    # the logit is the mean of theirs, ln(4)/2 = ln 2, so rho = 2/3 and I = 40 / (2/3) = 60. By the
    # logarithm of income it would be 65.8.
    table = table_with(
        [[1000.0] * 4, [1000.0] * 4, [10.0] * 4], [[200.0] * 4, [500.0] * 4, [0] * 4], 28
    )
    found = run(table, named(3, [20_000, 100_000, 60_000]))
    assert found.incidents[2, 0] == pytest.approx(60.0, rel=1e-3)
    np.testing.assert_allclose(found.incidents[:2, 0], [4000 / 0.8, 4000 / 0.5])


@pytest.mark.parametrize(("n_repeats", "expected"), [(9.0, 48.0 / 0.75), (10.0, 48.0 / (38 / 48))])
def test_ten_duplicates_in_the_window_are_enough(n_repeats: float, expected: float) -> None:
    # The other tract's rho is 0.75 and carries the proxy (100,000 reports against 48).
    table = table_with([[25_000.0] * 4, [12.0] * 4], [[6250.0] * 4, [0, 0, 0, n_repeats]], 28)
    assert run(table, named(2)).incidents[1, 0] == pytest.approx(expected, rel=1e-3)


def test_without_any_duplicate_complaints_stand_as_they_are() -> None:
    """Nothing to fit a proxy to: an empty fit would call every propensity one half."""
    found = run(table_with([[10.0] * 4, [20.0] * 4], [[0.0] * 4] * 2, 28), named(2, [3e4, 9e4]))
    np.testing.assert_allclose(found.incidents[:, 0], [40.0, 80.0])
    np.testing.assert_allclose(found.reported_share, 1.0)
    assert "No duplicate was observed" in found.assumption


def test_a_table_without_weeks_is_refused() -> None:
    table = replace(table_with([[10.0]], [[0.0]], 28), weekly=None)
    with pytest.raises(EstimationError, match="no reports by week"):
        run(table, named(1))


def defaults_of(text: str) -> list[str]:
    """Every text that is a default: of an argument, of a field, of an option, first of a list."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arguments):
            found += [*node.defaults, *node.kw_defaults]
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            value = node.value
            is_list = isinstance(value, ast.Tuple | ast.List) and value.elts
            found.append(value.elts[0] if is_list else value)  # type: ignore[union-attr]
        elif isinstance(node, ast.Call):
            found += [word.value for word in node.keywords if word.arg == "default"]
    return [part.value for part in found if isinstance(part, ast.Constant)]


BROKEN = (
    'def calibrate(records, *, estimator: str = "as_published"): ...',
    'class Config:\n    estimator: str = "as_published"',
    'ESTIMATORS = ("as_published", "raw")',
    'option(default="as_published")',
)


class TestItIsNeverADefault:
    @pytest.mark.parametrize("text", BROKEN)
    def test_the_search_finds_a_default(self, text: str) -> None:
        assert "as_published" in defaults_of(text)

    def test_nowhere_in_the_package(self) -> None:
        where = [
            path.relative_to(SOURCE).as_posix()
            for path in SOURCE.rglob("*.py")
            if "as_published" in defaults_of(path.read_text(encoding="utf-8"))
        ]
        assert where == []

    def test_it_is_marked_as_a_comparison(self) -> None:
        marked = [name for name, one in ALL_ESTIMATORS.items() if one.is_comparison_only]
        assert marked == ["as_published"]
