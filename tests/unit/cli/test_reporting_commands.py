"""The reporting commands on a user's own CSV and on a small city: figures, pages, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parity311.city.build import build_city
from parity311.cli import app
from parity311.domains.heat import DOMAIN as HEAT
from parity311.errors import Parity311Error

pytestmark = pytest.mark.slow


HEADER = "incident_id,reported_at,area,ended_at,report_id,wealth,income_quintile"


def own_rows(n_areas: int = 25) -> list[str]:
    """Reports of incidents that last two weeks on average, by areas that report unequally."""
    rng = np.random.default_rng(5)
    start, rows = datetime(2025, 1, 1), []
    for area in range(n_areas):
        wealth = rng.normal()
        rate = 0.1 * np.exp(0.4 * wealth)
        for number in range(rng.poisson(40)):
            began, life, first = rng.uniform(0, 300), rng.exponential(14), rng.exponential(1 / rate)
            if first > life:
                continue
            visit = rng.gamma(2.0, 5.0)
            n_further = rng.poisson(rate * min(life - first, visit))
            for delay in (0.0, *rng.uniform(0, min(life - first, visit), n_further)):
                heard = start + timedelta(days=began + first + delay)
                ended = start + timedelta(days=began + first + visit)
                rows.append(
                    f"i{area}-{number},{heard:%Y-%m-%d %H:%M:%S},A{area:02d},"
                    f"{ended:%Y-%m-%d %H:%M:%S},r{len(rows)},{wealth:.3f},{1 + area % 5}"
                )
    return rows


def write(path: Path, rows: list[str], header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def own_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("own") / "reports.csv", own_rows())


def call(*arguments: str | Path) -> dict:
    result = CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*arguments: str | Path) -> str:
    """The one line that a user would read."""
    with pytest.raises(Parity311Error) as caught:
        CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_estimate_from_a_csv(own_csv: Path, tmp_path: Path) -> None:
    found = call("reporting", "estimate", "--csv", own_csv, "--runs", tmp_path, "--json")
    assert [row["stratum"] for row in found["strata"]] == ["1", "2", "3", "4", "5", "unknown"]
    for row in found["strata"][:5]:
        assert row["reported_incidents"] < row["estimated_incidents"]
        assert row["lower"] < row["estimated_incidents"] < row["upper"]
        assert row["band_lower"] < row["lower"] < row["upper"] < row["band_upper"]
    assert found["strata"][5]["upper"] == 0.0
    assert "days" in found["assumption"]
    page = Path(found["report"])
    assert page.is_file()
    names = {path.stem for path in (page.parent / "tables").iterdir()}
    assert {"areas", "area_windows", "strata", "strata_windows"} <= names
    assert (page.parent / "pictures" / "ranked.svg").is_file()


def test_coefficients_come_with_their_errors(own_csv: Path, tmp_path: Path) -> None:
    found = call("reporting", "estimate", "--csv", own_csv, "--runs", tmp_path, "--json")
    slope = next(row for row in found["coefficients"] if row["name"] == "wealth")
    assert 0.0 < slope["se"] < slope["coefficient"]
    assert found["details"]["log_likelihood"] < 0.0
    plain = call("reporting", "regress", "--csv", own_csv, "--json")
    assert [row["term"] for row in plain["coefficients"]] == ["intercept", "wealth"]
    shown = CliRunner().invoke(app, ["reporting", "regress", "--csv", str(own_csv)])
    assert "log likelihood" in shown.output


def test_without_income_there_is_one_total(own_csv: Path, tmp_path: Path) -> None:
    """Five empty strata, "nan" and a warning of a division stood there."""
    rows = [line.rsplit(",", 2)[0] for line in own_csv.read_text().splitlines()]
    path = write(tmp_path / "plain.csv", rows[1:], rows[0])
    start = ("reporting", "estimate", "--csv", path, "--runs", tmp_path, "--estimator", "raw")
    found = call(*start, "--json")
    assert [row["stratum"] for row in found["strata"]] == ["all"]
    assert "one total" in found["notes"][-1]
    shown = CliRunner().invoke(app, [str(part) for part in start]).output
    assert "nan" not in shown.lower()


def test_compare_runs_every_estimator(own_csv: Path, tmp_path: Path) -> None:
    found = call("reporting", "compare", "--csv", own_csv, "--runs", tmp_path, "--json")
    rows = {row["estimator"]: row for row in found["estimators"]}
    assert {"exposure_rate", "acs_proxy", "as_published", "raw", "lower_bound"} <= set(rows)
    assert rows["exposure_rate"]["moved_share"] == 0.0
    assert rows["as_published"]["moved_share"] > 0.0
    assert found["largest_ratio"]["first_to_last"] > found["smallest_ratio"]["first_to_last"]


def test_areas_nobody_reported_from_are_pooled(own_csv: Path, tmp_path: Path) -> None:
    areas = [f"A{area:02d},{area / 10},{1 + area % 5},900" for area in range(25)]
    listed = write(
        tmp_path / "areas.csv", [*areas, "Z,0.5,,900"], "area,wealth,income_quintile,households"
    )
    found = call(
        "reporting", "estimate", "--csv", own_csv, "--areas", listed, "--runs", tmp_path, "--json"
    )
    unknown = found["strata"][5]
    assert unknown["n_areas"] == 1
    assert unknown["estimated_incidents"] > 0.0
    assert found["n_areas_pooled"] == 1


def test_inspections_are_joined_or_refused(own_csv: Path, tmp_path: Path) -> None:
    start = ("reporting", "estimate", "--csv", own_csv, "--runs", tmp_path, "--inspections")
    header = "area,n_found,n_reported"
    good = write(tmp_path / "good.csv", ["A00,40,22", "A07,38,20"], header)
    found = call(*start, good, "--json")
    assert "inspections of 2 areas" in found["assumption"]
    assert found["sensitivity"] is None
    wrong = {"A00,4,5": "n_reported", "Q,4,3": "area", "A00,x,3": "n_found"}
    for row, column in wrong.items():
        bad = write(tmp_path / "bad.csv", [row], header)
        assert f"row 2, column {column!r}" in refusal(*start, bad)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: [rows[0].replace("2025", "yesterday"), *rows], "row 2, column 'reported_at'"),
        (lambda rows: [rows[0].replace(",A00,", ",,"), *rows], "row 2, column 'area'"),
        (lambda rows: [rows[0].rsplit(",", 2)[0] + ",rich,1", *rows], "row 2, column 'wealth'"),
        (lambda rows: [*rows[:2], "a,b"], "row 4 cannot be read as CSV"),
        (lambda rows: [], "no rows"),
    ],
)
def test_malformed_files_name_row_and_column(
    tmp_path: Path, change: Callable[[list[str]], list[str]], expected: str
) -> None:
    path = write(tmp_path / "bad.csv", change(own_rows(3)))
    assert expected in refusal("reporting", "estimate", "--csv", path, "--runs", tmp_path)


def test_wrong_options_are_refused_in_one_line(own_csv: Path, tmp_path: Path) -> None:
    start = ("reporting", "estimate", "--runs", tmp_path)
    assert "either --records" in refusal(*start)
    assert "Did you mean 'exposure_rate'" in refusal(
        *start, "--csv", own_csv, "--estimator", "exposur"
    )
    assert "28d or 4w" in refusal(*start, "--csv", own_csv, "--window", "a month")
    assert "positive" in refusal(*start, "--csv", own_csv, "--lifetime", "exponential:-1")
    assert "goes with --csv" in refusal(*start, "--records", tmp_path, "--areas", own_csv)
    assert "no file" in refusal(*start, "--csv", tmp_path / "none.csv")


@pytest.fixture(scope="module")
def heat_city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("city") / "heat"
    period = {"date_from": date(2024, 1, 1), "date_to": date(2024, 6, 1)}
    return build_city((HEAT.process,), seed=5, participation="strong", out=out, **period)


@pytest.mark.slow
def test_validate_prints_what_is_asked(heat_city: Path, tmp_path: Path) -> None:
    found = call(
        "reporting", "validate", "--city", heat_city, "--no-scenarios", "--runs", tmp_path, "--json"
    )
    rows = found["estimators"]
    asked = {"estimator", "lifetime", "inspections", "bias_by_quintile", "low_share_at_parity"}
    assert asked | {"coverage", "seconds"} <= set(rows[0])
    best = next(row for row in rows if row["estimator"] == "exposure_rate")
    assert best["lifetime"] == "known"
    published = next(row for row in rows if row["estimator"] == "as_published")
    assert max(map(abs, best["bias_by_quintile"])) < max(map(abs, published["bias_by_quintile"]))
    assert abs(best["low_share_at_parity"] - best["true_low_share"]) < 0.03
    assert published["low_share_at_parity"] < published["true_low_share"] - 0.1
    told = {(row["lifetime"], row["inspections"]) for row in rows}
    assert {("known", 0.0), ("assumed", 0.0), ("estimated", 0.0), ("estimated", 0.05)} <= told
    links = found["duplicate_detection"]
    assert links[-1]["how"] == "agency's marks"
    assert all(0.0 < row["precision"] <= 1.0 and 0.0 < row["recall"] <= 1.0 for row in links)


def test_filings_are_not_validated_by_lifetime(heat_city: Path, tmp_path: Path) -> None:
    line = refusal(
        "reporting", "validate", "--city", heat_city, "--domain", "boiler", "--runs", tmp_path
    )
    assert "no complaints of domain 'boiler'" in line
