"""A user's own CSV: read by hand, and refused with row and column."""

from __future__ import annotations

import gzip
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity311.errors import InputError, RecordsError
from parity311.reporting.areas import Areas
from parity311.reporting.own_reports import GivenAreas, read_own_reports, reports_from_own
from parity311.reporting.table import ReportTable

pytestmark = pytest.mark.slow


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


def table_of(path: Path, **options: Any) -> tuple[ReportTable, Areas]:
    return reports_from_own(
        read_own_reports(path), date_from=date(2025, 1, 1), date_to=date(2025, 2, 1), **options
    )


def assert_same(one: tuple[ReportTable, Areas], two: tuple[ReportTable, Areas]) -> None:
    for name in ("area", "n_further", "exposure_days", "last_delay_days", "n_reports", "pattern"):
        np.testing.assert_array_equal(getattr(one[0], name), getattr(two[0], name), err_msg=name)
    assert one[0].left_out == two[0].left_out
    np.testing.assert_array_equal(one[1].geoid, two[1].geoid)
    for name, values in one[1].covariates.items():
        np.testing.assert_array_equal(values, two[1].covariates[name])


TANGLED = (
    *ROWS,
    "i1,2025-01-05 00:00,north,2025-01-03,,r2,tree,1.5",
    "i5,2025-01-01 00:00,south,,,r1,sign,2",
    "i5,2025-01-09 00:00,south,,,r7,sign,2",
    "i5,2025-01-09 00:00,north,,,r8,pole,1.5",
)
"""Requests repeated with another end, under another incident, and two at one time."""


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_rows_does_not_matter(tmp_path: Path, seed: int) -> None:
    first = table_of(write(tmp_path, *TANGLED))
    shuffled = np.random.default_rng(seed).permutation(TANGLED)
    assert_same(first, table_of(write(tmp_path, *shuffled)))
    reason = "request id repeated under another incident: counted with the earliest"
    assert first[0].left_out[reason] == 1


def test_the_earliest_end_counts_whichever_row_gives_it(tmp_path: Path) -> None:
    """A repeated request was dropped before its end was looked at."""
    later = "i1,2025-01-05 00:00,north,2025-01-03,,r2,tree,1.5"
    table, _ = table_of(write(tmp_path, *ROWS, later))
    assert table.exposure_days[0] == pytest.approx(2.0)
    assert table.n_further[0] == 0


def test_a_number_of_the_incident_is_not_averaged_over_its_area(tmp_path: Path) -> None:
    rows = [row.rsplit(",", 1)[0] + f",{1 + k % 3}" for k, row in enumerate(ROWS)]
    path = write(tmp_path, *rows)
    with pytest.raises(InputError, match=r"'density' has .* in area 'north'.*reporting regress"):
        table_of(path)
    listed = GivenAreas(np.array(["north", "south"]), {}, np.array(["", ""]))
    assert "density of the reports are not used" in table_of(path, given_areas=listed)[0].notes[0]
    table, areas = table_of(path, takes_incident_covariates=True)
    assert list(table.covariates) == ["density"]
    assert areas.covariates == {}


def test_a_join_that_multiplied_rows_is_noticed(tmp_path: Path) -> None:
    header = "incident_id,reported_at,area,ended_at"
    once = ["i1,2025-01-01 08:00,north,2025-01-11", "i1,2025-01-05 09:00,north,2025-01-11"]
    joined = [row for row in once for _ in range(3)]
    expected, _ = table_of(write(tmp_path, *once, header=header))
    table, _ = table_of(write(tmp_path, *joined, header=header))
    assert table.n_further.tolist() == expected.n_further.tolist() == [1]
    assert table.left_out == {"same incident and time, and no report_id: taken as one report": 4}
    days = [row.replace(" 08:00", "").replace(" 09:00", "") for row in joined]
    table, _ = table_of(write(tmp_path, *days, header=header))
    assert table.n_further.tolist() == [5]
    assert "4 of 6 rows repeat the incident and day" in table.notes[0]


def us_times(row: str) -> str:
    """The same row with times as 1/5/2025 12:00 AM."""
    return re.sub(
        r"2025-(\d\d)-(\d\d) (\d\d):(\d\d)",
        lambda m: (
            f"{int(m[1])}/{int(m[2])}/2025 {int(m[3]) % 12 or 12}:{m[4]} "
            + ("PM" if int(m[3]) >= 12 else "AM")
        ),
        row,
    )


@pytest.mark.parametrize("way", ["gzip", "semicolon", "UTF-16", "AM/PM", "pandas", "spelling"])
def test_read_like_an_import(tmp_path: Path, way: str) -> None:
    expected = table_of(write(tmp_path, *ROWS))
    text = (tmp_path / "reports.csv").read_text()
    path = tmp_path / "other.csv"
    if way == "gzip":
        path.write_bytes(gzip.compress(text.encode()))
    elif way == "semicolon":
        path.write_text(text.replace(",", ";"))
    elif way == "UTF-16":
        path.write_text(text, encoding="utf-16")
    elif way == "AM/PM":
        path.write_text("\n".join([HEADER, *map(us_times, ROWS)]) + "\n")
    elif way == "pandas":
        lines = text.splitlines()
        path.write_text("\n".join([f",{HEADER}", *(f"{k},{x}" for k, x in enumerate(lines[1:]))]))
    else:
        path.write_text(text.replace("incident_id,reported_at", "Incident ID,Reported At"))
    assert_same(expected, table_of(path))


def test_offsets_must_be_on_all_times_or_none(tmp_path: Path) -> None:
    header = "incident_id,reported_at,area"
    rows = ["i1,2025-01-05T08:00:00Z,north", "i1,2025-01-06T08:00:00+02:00,north"]
    table, _ = table_of(write(tmp_path, *rows, header=header))
    assert table.last_delay_days[0] == pytest.approx(22 / 24)
    path = write(tmp_path, *rows, "i2,2025-01-06 08:00,north", header=header)
    with pytest.raises(RecordsError, match=r"row 4, column 'reported_at'.*offset"):
        read_own_reports(path)


def test_quintiles_and_boroughs_are_checked(tmp_path: Path) -> None:
    header = "incident_id,reported_at,area,income_quintile,borough"
    with pytest.raises(RecordsError, match="'income_quintile': '7' is not allowed"):
        read_own_reports(write(tmp_path, "i1,2025-01-01,a,7,x", header=header))
    rows = ["i1,2025-01-01,a,2,x", "i2,2025-01-02,b,,y", "i3,2025-01-02,b,,"]
    _, areas = table_of(write(tmp_path, *rows, header=header))
    assert areas.income_quintile.tolist() == [2, 0]
    assert areas.borough.tolist() == ["x", "y"]
    rows.append("i4,2025-01-02,b,,x")
    with pytest.raises(InputError, match="Area 'b' lies in borough"):
        table_of(write(tmp_path, *rows, header=header))
