"""What commands print: short by default, whole where it is asked for, never cut."""

from __future__ import annotations

import pytest

from parity311.cli.printing import print_calibration
from parity311.cli.reporting_tables import print_comparison

DESCRIPTION = {
    "city": "cities/small",
    "fingerprint": "ab12",
    "report": "runs/x/report.html",
    "calibration": [
        {"name": f"figure {i}", "target": 1.0, "achieved": 1.0, "tolerance": 0.1,
         "ok": i != 3, "source": "a long source " * 9}
        for i in range(200)
    ],
}  # fmt: skip


def test_a_description_shows_what_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    print_calibration(DESCRIPTION)
    said = capsys.readouterr().out
    assert "figure 3 " in said
    assert "figure 4 " not in said
    assert "199 of 200 within tolerance" in said
    assert "--all" in said
    assert len(said.splitlines()) < 20


def test_a_description_shows_everything_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    print_calibration(DESCRIPTION, show_all=True)
    said = capsys.readouterr().out
    assert all(f"figure {i}" in said for i in range(200))


def test_no_column_of_a_comparison_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    strata = [
        {"stratum": f"income quintile {i}", "estimated_incidents": 1234567.8} for i in range(6)
    ]
    row = {"estimator": "exposure_rate_with_a_long_name", "strata": strata, "first_to_last": 1.0,
           "moved_share": 0.5}  # fmt: skip
    print_comparison(
        {"estimators": [row], "compared_with": "raw", "notes": [], "largest_ratio": None,
         "smallest_ratio": None, "report": "runs/x/report.html"}
    )  # fmt: skip
    said = capsys.readouterr().out
    assert "…" not in said
    assert said.count("1,234,567.8") == 6
    assert "exposure_rate_with_a_long_name" in said
    assert "income quintile 5" in said
