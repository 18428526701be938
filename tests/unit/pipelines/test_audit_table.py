"""An audit from a plain table: one command, no records, no training; nothing untrue on its page."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parity311.audit.spec import AuditSpec
from parity311.cli import app
from parity311.errors import InputError, Parity311Error, RecordsError
from parity311.pipelines.audit_table import TableOptions, audit_table, template_text

SPEC = AuditSpec(n_draws=150)


def write_rows(path: Path, *, seed: int = 0, change: float = 0.12, order: int = 1) -> Path:
    """Rows of 40 areas whose service rises with income; ``order`` turns the rows round."""
    rng = np.random.default_rng(seed)
    lines = []
    for area in range(40):
        quintile = 1 + area % 5
        for k in range(40):
            is_served = rng.uniform() < 0.2 + change * quintile
            day, said = f"2025-{1 + k % 9:02d}-{1 + k % 28:02d}", "yes" if is_served else "no"
            lines.append(f"T{area},{day} 10:00,{said},heat,{quintile},{1000 + area}")
    lines.append("T1,2025-09-20,,heat,2,1001")
    header = "Area,Received At,Served,Domain,Income Quintile,Households"
    path.write_text("\n".join([header, *lines[::order]]) + "\n")
    return path


def test_unequal_service_is_found_and_said(tmp_path: Path) -> None:
    found = audit_table(write_rows(tmp_path / "t.csv"), SPEC, root=tmp_path / "runs")
    (domain,) = found["domains"]
    verdicts = {row["denominator"]: row for row in domain["verdicts"]}
    assert verdicts["complaints"]["verdict"] == "FAIL"
    assert verdicts["complaints"]["worst_off"] == "Q1 (lowest income)"
    assert "incidents" not in verdicts
    text = re.compile(r"<(style|script|svg).*?</\1>|<[^>]+>", re.DOTALL).sub(
        " ", Path(found["page"]).read_text()
    )
    text = re.sub(r"\s+", " ", html.unescape(text))
    assert "the table that was given says that the complaint was served" in text
    assert "1 cases on which nothing is decided yet are left out" in text
    for untrue in ("service level had not", "true city", "exposure rate", "found a violation"):
        assert untrue not in text


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    spec = AuditSpec(n_draws=150, seed=3)
    found = [
        audit_table(write_rows(tmp_path / f"{k}.csv", order=k), spec, root=tmp_path / f"r{k}")
        for k in (1, -1)
    ]
    first, second = (one["domains"][0]["verdicts"] for one in found)
    assert first == second


def test_served_may_be_told_by_days(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = ["area,received_at,closed_at,median_income"]
    for area in range(30):
        for k in range(20):
            day = 1 + (area * 7) % 25
            closed = f"2025-03-{day + (1 if k % 2 else 5):02d}" if k % 3 else ""
            lines.append(f"{area},2025-03-{day:02d},{closed},{20_000 + 1000 * area}")
    lines.append("0,2025-06-01,2025-06-02,20000")
    path.write_text("\n".join(lines) + "\n")
    found = audit_table(path, SPEC, root=tmp_path / "runs", options=TableOptions(within_days=2.0))
    assert found["counted"] == "served is what was closed within 2 days"
    assert 0 < found["domains"][0]["n_served"] < found["domains"][0]["n_cases"] == 601


def test_a_closing_that_cannot_be_serves_nobody(tmp_path: Path) -> None:
    """One before the complaint counted as in time, and one of 9999 made every other due."""
    path = tmp_path / "t.csv"
    lines = ["area;received_at;closed_at;income_quintile"]
    for k in range(90):
        closed = ("2020-01-01", "9999-12-31", "2025-03-02")[k % 3]
        lines.append(f"{29095000100 + k % 30}.0;2025-03-01;{closed};{1 + k % 5},0")
    path.write_text("\n".join([*lines, "29095000100.0;2025-06-01;2025-06-02;1,0"]) + "\n")
    found = audit_table(path, SPEC, root=tmp_path / "runs", options=TableOptions(within_days=2.0))
    assert "60 closings lie before the complaint or in the future" in found["counted"]
    assert found["domains"][0]["n_served"] == 31
    areas = tmp_path / "areas.csv"
    places = [f"{29095000100 + k},{1 + k % 5}" for k in range(30)]
    areas.write_text("\n".join(["area,income_quintile", *places]) + "\n")
    options = TableOptions(areas, within_days=2.0)
    again = audit_table(path, SPEC, root=tmp_path / "runs", options=options)
    assert again["domains"][0]["n_served"] == 31
    areas.write_text("area,income_quintile\nelsewhere,1\n")
    with pytest.raises(RecordsError, match="No area of .*, like '29095000100', is in"):
        audit_table(path, SPEC, root=tmp_path / "runs", options=options)


def test_areas_may_have_a_table_of_their_own(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv")
    rows = [line.rsplit(",", 2)[0] for line in path.read_text().splitlines()]
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(RecordsError, match="says nothing of who lives.*--areas"):
        audit_table(path, SPEC, root=tmp_path / "runs")
    areas = tmp_path / "areas.csv"
    lines = [f"T{k},{1 + k % 5},900" for k in range(39)]
    areas.write_text("\n".join(["area,income_quintile,households", *lines]) + "\n")
    found = audit_table(path, SPEC, root=tmp_path / "runs", options=TableOptions(areas))
    assert found["domains"][0]["n_cases"] == 1600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("area,served\nx,yes\n", "no column 'received_at'"),
        ("area,received_at,income_quintile\nx,2025-01-01,1\n", "no column 'served'.*--within"),
        ("area,received_at,served,income_quintile\nx,2025-01-01,perhaps,1\n", "expected yes or no"),
        ("area,received_at,served,income_quintile\nx,2025-01-01,yes,7\n", "expected 1 to 5"),
        (
            "area,received_at,served,income_quintile\nx,03/04/2025,yes,1\n",
            "which number is the day",
        ),
        (
            "area,received_at,served,income_quintile\nx,2025-01-01,yes,1\nx,2025-01-02,yes,2\n",
            "an area has one value",
        ),
        (
            "area,received_at,served,severity,income_quintile\nx,2025-01-01,yes,Z,1\n",
            "severity 'Z'; allowed are A",
        ),
        ("", "is empty"),
    ],
)
def test_bad_tables_say_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(Parity311Error, match=said):
        audit_table(path, SPEC, root=tmp_path / "runs")
    assert not list((tmp_path / "runs").glob("*/audit.html"))


def test_the_template_is_audited_as_it_is(tmp_path: Path) -> None:
    runner, path = CliRunner(), tmp_path / "table.csv"
    assert runner.invoke(app, ["audit", str(path), "--template"]).exit_code == 0
    assert path.read_text() == template_text()
    found = runner.invoke(app, ["audit", str(path), "--runs", str(tmp_path / "runs")])
    assert found.exit_code == 0, found.output
    # Who practises with it sees a verdict, and which group is worst off.
    assert "FAIL" in found.output
    assert "Q1" in found.output
    again = runner.invoke(app, ["audit", str(path), "--template"])
    assert isinstance(again.exception, InputError)
