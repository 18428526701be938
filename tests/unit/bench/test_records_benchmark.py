"""The benchmark measures the real import, and pandas builds the same features."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity311.bench.records import (
    HEADER,
    QUERIES,
    ask,
    bench_records,
    write_months,
    write_rows,
)
from parity311.feeds.recognise import recognise

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_small_benchmark() -> None:
    pytest.importorskip("pandas")
    result = bench_records(3000, pandas_rows=3000)
    assert result["rows"] == result["features"] == 3000
    assert result["seconds"] > 0
    assert 0 < result["peak_gb"] < 6
    assert result["ratio_vs_pandas"] > 0


def test_rows_have_the_shape_of_the_export(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", 50)
    assert (tmp_path / "rows.csv").read_text().splitlines()[0] == HEADER
    assert recognise(tmp_path / "rows.csv").kind == "sr311"
    write_rows(tmp_path / "again.csv", 50)
    assert (tmp_path / "rows.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("months")
    write_months(folder, 20_000)
    return folder


@pytest.mark.parametrize("label", QUERIES)
def test_a_query_answers_the_same_however_little_memory_it_has(label: str, months: Path) -> None:
    little, much = ask(label, months, 0.05), ask(label, months, 2.0)
    assert little["failed"] == much["failed"] == ""
    assert little["answer"] == pytest.approx(much["answer"])


def test_a_query_that_does_not_fit_is_told(months: Path) -> None:
    row = ask(next(iter(QUERIES)), months, 0.0001)
    assert row["answer"] is None
    assert "memory" in row["failed"].lower()
