"""The quality report: gaps and outliers are found, small counts are not given away."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import tiny_tables, write_folder

from parity311.records.quality import check_records, suppress_small
from parity311.records.store import open_records


def with_times(times: list[datetime]) -> dict[str, pa.Table]:
    """The tiny records with one complaint at each of these times."""
    tables = tiny_tables()
    rows = [number % 40 for number in range(len(times))]
    ids = pa.array([f"c{number:05d}" for number in range(len(times))])
    for name in ("complaints", "outcomes"):
        taken = tables[name].take(rows)
        taken = taken.set_column(taken.column_names.index("complaint_id"), "complaint_id", ids)
        tables[name] = taken
    at = tables["complaints"].column_names.index("received_at")
    tables["complaints"] = tables["complaints"].set_column(
        at, "received_at", pa.array(times, pa.timestamp("us"))
    )
    return tables


def steady(days: int, per_day: int) -> list[datetime]:
    start = datetime(2024, 1, 1)
    return [start + timedelta(days=d, hours=k % 24) for d in range(days) for k in range(per_day)]


def test_report_of_sound_records(tiny_records: Path) -> None:
    report = check_records(open_records(tiny_records))
    heat = report["domains"]["heat"]
    assert heat["complaints"] == 40
    assert heat["share_closed"] == 1
    assert heat["closing_days_median"] == pytest.approx(10)
    assert heat["gaps"] == []
    assert heat["outlier_days"] == []
    assert heat["outcomes"] == {"no_violation": 30, "violation": 10}


def test_a_hole_and_a_flood_are_found(tmp_path: Path) -> None:
    times = [time for time in steady(60, 12) if not 20 <= (time - datetime(2024, 1, 1)).days < 27]
    times += [datetime(2024, 2, 10, 3)] * 200
    report = check_records(open_records(write_folder(tmp_path / "r", with_times(times))))
    heat = report["domains"]["heat"]
    assert heat["gaps"] == [{"after": "2024-01-20", "before": "2024-01-28", "empty_days": 7}]
    assert [day["day"] for day in heat["outlier_days"]] == ["2024-02-10"]
    assert any("hole" in warning for warning in report["warnings"])
    assert any("unusual" in warning for warning in report["warnings"])


def test_quiet_domains_have_no_gaps(tmp_path: Path) -> None:
    """Ten empty days are no hole where a complaint comes once a week."""
    times = [datetime(2024, 1, 1) + timedelta(days=11 * k) for k in range(20)]
    report = check_records(open_records(write_folder(tmp_path / "r", with_times(times))))
    assert report["domains"]["heat"]["gaps"] == []


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ({"a": 100, "b": 20}, {"a": 100, "b": 20}),
        ({"a": 100, "b": 20, "c": 3}, {"a": 100, "b": None, "c": None}),
        ({"a": 100, "b": 4, "c": 3}, {"a": 100, "b": None, "c": None}),
        ({"a": 100, "b": 0}, {"a": 100, "b": 0}),
        ({"a": 5}, {"a": None}),
    ],
)
def test_small_counts_and_what_gives_them_away(
    counts: dict[str, int], shown: dict[str, int | None]
) -> None:
    assert suppress_small(counts) == shown


def test_coverage_hides_strata_with_few_rows_or_few_lost(tiny_records: Path) -> None:
    records = open_records(tiny_records)
    rows = [("Bronx", 100, 97), ("Queens", 100, 60), ("Brooklyn", 9, 9), ("Manhattan", 80, 80)]
    records.manifest["coverage"] = [
        {"by": "borough", "domain": "heat", "stratum": name, "rows": n, "located": located}
        for name, n, located in rows
    ]
    public = {row["stratum"]: row["rows"] for row in check_records(records)["coverage"]}
    assert public == {"Bronx": None, "Queens": 100, "Brooklyn": None, "Manhattan": 80}
    full = check_records(records, suppress=False)["coverage"]
    assert [row["rows"] for row in full] == [100, 100, 9, 80]
