"""The audit of what staff changed: a log with one row a recommendation."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from tests.unit.explain.stored_run import make_run

from parity311.audit.spec import AuditSpec
from parity311.errors import InputError
from parity311.pipelines.audit import audit_run
from parity311.pipelines.overrides import assess_overrides, read_overrides
from parity311.report.audit_inputs import load_inputs

SPEC = AuditSpec(n_draws=300)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def source(root: Path):
    return make_run(root)


def write_log(path: Path, source, *, low: float, high: float, n: int = 6000) -> Path:
    """Recommended visits that staff take away: share `low` in quintile 1, `high` elsewhere."""
    places = load_inputs(source)[0].places
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["domain", "tract", "recommended", "taken", "reason"])
        for place in rng.integers(0, places.n_tracts, n):
            share = low if places.income_quintile[place] == 1 else high
            taken = "defer" if rng.random() < share else "inspect"
            writer.writerow(["heat", places.geoid[place], "inspect", taken, "no crew"])
    return path


def test_overrides_that_fall_on_one_group_are_found(tmp_path: Path, source) -> None:
    log = read_overrides(write_log(tmp_path / "log.csv", source, low=0.6, high=0.3))
    rows = assess_overrides(log, load_inputs(source)[:1], SPEC)
    by_income = [row for row in rows if row["strata"] == "income5"]
    assert {row["counted"] for row in by_income} == {"overridden", "visit taken away"}
    assert all(row["verdict"] == "FAIL" for row in by_income)
    assert all(row["worst_off"].startswith("Q1") for row in by_income)
    assert by_income[0]["reasons"][0]["reason"] == "no crew"


def test_equal_overrides_do_not_fail(tmp_path: Path, source) -> None:
    log = read_overrides(write_log(tmp_path / "log.csv", source, low=0.3, high=0.3))
    rows = assess_overrides(log, load_inputs(source)[:1], SPEC)
    assert all(row["verdict"] != "FAIL" for row in rows if row["strata"] == "income5")


def test_the_page_shows_them(tmp_path: Path, root: Path, source) -> None:
    log = read_overrides(write_log(tmp_path / "log.csv", source, low=0.6, high=0.3))
    found = audit_run(source, AuditSpec(n_draws=150), root=root, overrides=log)
    assert "What staff changed" in Path(found["page"]).read_text(encoding="utf-8")
    assert found["overrides"][0]["verdict"] == "FAIL"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("domain,tract,taken\n", "lacks the column recommended"),
        ("domain,tract,recommended,taken\n", "holds no recommendation"),
        ("domain,tract,recommended,taken\nheat,1,inspect,inspct\n", "inspect"),
        ("domain,tract,recommended,taken\nhaet,1,inspect,inspect\n", "heat"),
    ],
)
def test_a_wrong_log_is_one_clear_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        read_overrides(path)
    assert "\n" not in str(caught.value)


def test_a_domain_that_was_not_audited_is_an_error(tmp_path: Path, source) -> None:
    path = tmp_path / "log.csv"
    path.write_text("domain,tract,recommended,taken\nboiler,1,inspect,defer\n")
    with pytest.raises(InputError, match="it has heat"):
        assess_overrides(read_overrides(path), load_inputs(source), SPEC)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name a CSV file"):
        read_overrides(tmp_path / "nowhere.csv")
