"""A user's own CSV: read by hand, and refused with row and column."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from parity311.errors import RecordsError
from parity311.reporting.own_reports import read_own_reports, reports_from_own

HEADER = "incident_id,reported_at,area,ended_at,opened_at,report_id,category,density"
ROWS = (
    "i1,2025-01-01 00:00,north,2025-01-11,,r1,tree,1.5",
    "i1,2025-01-05 00:00,north,2025-01-11,,r2,tree,1.5",
    "i1,2025-01-12 00:00,north,2025-01-11,,r3,tree,1.5",
    "i2,2025-01-02 00:00,south,,,r4,tree,",
    "i2,2025-01-03 12:00,south,,,r4,tree,",
    "i3,2025-01-20 00:00,south,2025-01-19,,r5,tree,2",
    "i4,2025-01-21 00:00,south,,2025-01-22,r6,tree,2",
)


def write(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "reports.csv"
    path.write_text("\n".join((header, *rows)) + "\n")
    return path


def test_by_hand(tmp_path: Path) -> None:
    own = read_own_reports(write(tmp_path, *ROWS))
    table, areas = reports_from_own(own, date_from=date(2025, 1, 1), date_to=date(2025, 2, 1))
    assert list(areas.geoid) == ["north", "south"]
    np.testing.assert_allclose(areas.covariates["density"], [1.5, 2.0])
    # i1 was open ten days with one further report on the fourth; the third came after its end.
    assert table.exposure_days[0] == pytest.approx(10.0)
    assert table.n_further[0] == 1
    assert table.last_delay_days[0] == pytest.approx(4.0)
    # i2 never ended: its exposure runs to the last day; its repeated request counts once.
    assert table.exposure_days[1] == pytest.approx(30.0)
    assert table.n_further[1] == 0
    # i3 ended before it was reported: it counts, and says nothing about the rate.
    assert table.exposure_days[2] == 0.0
    assert table.n_incidents == 3
    assert table.left_out == {
        "request id repeated": 1,
        "reported before the incident opened": 1,
        "ended before the first report: not used for the rate": 1,
    }
    assert table.n_reports.sum() == 5


def test_windows_are_as_long_as_asked(tmp_path: Path) -> None:
    own = read_own_reports(write(tmp_path, *ROWS))
    table, _ = reports_from_own(
        own, date_from=date(2025, 1, 1), date_to=date(2025, 2, 1), window_days=7
    )
    assert table.n_windows == 5
    assert list(table.window) == [0, 0, 2]


@pytest.mark.parametrize(
    ("row", "column", "rows"),
    [
        (3, "reported_at", (ROWS[0], "i1,yesterday,north,,,,,")),
        (2, "area", ("i1,2025-01-01,,,,,,",)),
        (2, "incident_id", (",2025-01-01,north,,,,,",)),
        (2, "ended_at", ("i1,2025-01-01,north,soon,,,,",)),
        (2, "density", ("i1,2025-01-01,north,,,,,dense",)),
        (2, "reported_at", ("i1,,north,,,,,",)),
    ],
)
def test_errors_name_row_and_column(
    tmp_path: Path, row: int, column: str, rows: tuple[str, ...]
) -> None:
    with pytest.raises(RecordsError, match=f"row {row}, column '{column}'"):
        read_own_reports(write(tmp_path, *rows))


def test_a_missing_column_or_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "i1,2025-01-01", header="incident_id,reported_at")
    with pytest.raises(RecordsError, match="no column 'area'"):
        read_own_reports(path)
    with pytest.raises(RecordsError, match="no file"):
        read_own_reports(tmp_path / "nothing.csv")
    with pytest.raises(RecordsError, match="no rows"):
        read_own_reports(write(tmp_path))
