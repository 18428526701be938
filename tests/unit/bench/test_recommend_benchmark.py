"""The benchmark serves real packages, enlarges a queue without mixing it up, divides rightly."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest

from parity311.bench import recommend as benchmark
from parity311.bench import training
from parity311.bench.served import draw_complaints, enlarge
from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.records.journal import Journal
from parity311.records.journal_reader import read_journal
from parity311.records.store import open_records


@pytest.fixture
def journal(tiny_records: Path) -> Journal:
    """Forty heat complaints, of which a few are open."""
    return read_journal(open_records(tiny_records), "heat", datetime(2024, 6, 1))


def test_a_longer_queue_is_the_same_journal_with_more_open_cases(journal: Journal) -> None:
    large = enlarge(journal, 500)
    assert 0 < len(journal.open_rows) < 10
    assert len(large.open_rows) == 500
    assert len(set(large.complaint_id)) == large.n == journal.n + 500 - len(journal.open_rows)
    assert (np.diff(large.began) >= 0).all()
    assert (large.began <= large.as_of).all()
    assert (np.diff(large.report_at) >= 0).all()
    # Reports and visits are still of the cases they were of, and places are whole.
    first = np.searchsorted(large.report_at, large.began)
    assert set(large.report_case[first]) <= set(range(large.n))
    assert large.complaint_id[large.visit_case].tolist() == (
        journal.complaint_id[journal.visit_case].tolist()
    )
    assert set(zip(large.building, large.tract, strict=True)) == set(
        zip(journal.building, journal.tract, strict=True)
    )


def test_a_queue_that_is_long_enough_stays_as_it_is(journal: Journal) -> None:
    assert enlarge(journal, 1).complaint_id.tolist() == journal.complaint_id.tolist()


def test_complaints_are_new_ones(journal: Journal) -> None:
    given = draw_complaints(journal, 100)
    assert len({one["complaint_id"] for one in given}) == 100
    assert not {one["complaint_id"] for one in given} & set(journal.complaint_id)
    assert len({one["received_at"] for one in given}) > 50


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_peak_memory_is_of_the_process_and_not_of_its_parent() -> None:
    held = np.ones(60_000_000)
    program = "from parity311.bench.served import _peak_gb; print(_peak_gb())"
    words = [sys.executable, "-c", program]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    assert 0.01 < float(told.stdout) < held.nbytes / 1e9


def test_a_ratio_is_theirs_over_ours() -> None:
    ours = {"seconds": 2.0, "decide_seconds": 0.5, "cases": 100}
    peer = {"loop_seconds_per_case": 0.1, "batch_seconds_per_case": 0.01}
    assert benchmark.compare(ours, peer) == {
        "all_vs_loop": 5.0,
        "all_vs_batch": 0.5,
        "decisions_vs_loop": 20.0,
        "decisions_vs_batch": 2.0,
    }
    assert set(benchmark.compare(ours, {"reason": "not built"}).values()) == {None}


@pytest.mark.slow
def test_a_small_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "ROOT", tmp_path)
    # A domain that is estimated in a moment, and few voters: what is asked here is the same.
    monkeypatch.setattr(benchmark, "RULE", benchmark.NETWORK)
    monkeypatch.setattr(benchmark, "N_VOTERS", 2)
    city = build_city(
        [get_domain(slug).process for slug in (benchmark.NETWORK, benchmark.OFFICE)],
        "small", 5, out=tmp_path / "city", date_from=date(2024, 1, 1), date_to=date(2025, 1, 1),
    )  # fmt: skip
    found = benchmark.bench_recommend(city, n_cases=600, n_complaints=20, n_starts=1)
    for kind in ("network", "rule", "office"):
        single, queue = found["single"][kind], found["queue"][kind]
        assert single["complaints"] == 20
        assert 0 < single["median_ms"] <= single["p99_ms"]
        assert queue["cases"] == 600
        assert queue["seconds"] >= queue["rows_seconds"] > 0
        assert queue["peak_gb"] >= queue["peak_gb_before"] > 0
        assert not single["has_jax"]
        assert not queue["has_jax"]
    for start in found["start"].values():
        assert start["seconds"] > 0
        assert not start["has_jax"]
    assert "make peers" in found["peer"]["reason"]
    assert set(found["ratios"].values()) == {None}
