"""Text of the sources becomes values, or null."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import duckdb
import pytest

from parity311.feeds import parsing as p
from parity311.records.sql import literal


def value(expression: str) -> Any:
    return duckdb.sql(f"SELECT {expression}").fetchall()[0][0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2019-12-31T23:59:11.000", datetime(2019, 12, 31, 23, 59, 11)),
        ("2025-05-15 22:10:41", datetime(2025, 5, 15, 22, 10, 41)),
        ("2025-05-15", datetime(2025, 5, 15)),
        ("03/24/2025 12:15:32 AM", datetime(2025, 3, 24, 0, 15, 32)),
        ("03/24/2025 12:15:32 PM", datetime(2025, 3, 24, 12, 15, 32)),
        ("06/08/2011", datetime(2011, 6, 8)),
        ("02/22/2018 00:00:00", datetime(2018, 2, 22)),
        ("20260716000000", datetime(2026, 7, 16)),
        ("1900-01-01T00:00:00.000", datetime(1900, 1, 1)),
        ("9/15/2020 2:41 PM", datetime(2020, 9, 15, 14, 41)),
        ("03/24/2025 19:29", datetime(2025, 3, 24, 19, 29)),
        ("3/24/25 23:33", datetime(2025, 3, 24, 23, 33)),
        ("03/24/25", datetime(2025, 3, 24)),
        ("2025-03-24T16:41:32+00:00", datetime(2025, 3, 24, 12, 41, 32)),
        ("2025-01-24T16:41:32.000Z", datetime(2025, 1, 24, 11, 41, 32)),
        ("2025-01-24 16:41+00", datetime(2025, 1, 24, 11, 41)),
        ("2025-03-24 16:41:32-0400", datetime(2025, 3, 24, 16, 41, 32)),
        ("2025-03-24 16:41:32 -0400", datetime(2025, 3, 24, 16, 41, 32)),
        ("2025-03-24 01:41:32 PM", datetime(2025, 3, 24, 13, 41, 32)),
        ("2025/03/24 16:41:32+00", datetime(2025, 3, 24, 12, 41, 32)),
        ("2025/3/24 16:41", datetime(2025, 3, 24, 16, 41)),
        ("1672925000000", datetime(2023, 1, 5, 8, 23, 20)),
        ("1672925000", datetime(2023, 1, 5, 8, 23, 20)),
        ("1000010010", None),
        ("03/24/2025, 1:22:00\u202fPM", datetime(2025, 3, 24, 13, 22)),
        ("03/24/25 1:22 p.m.", datetime(2025, 3, 24, 13, 22)),
        ("Monday, March 24, 2025 1:22 PM", datetime(2025, 3, 24, 13, 22)),
        ("2025-03-24 16:41:32 somewhen", None),
        ("05-AUG-24 02.41.00.000000 PM", datetime(2024, 8, 5, 14, 41)),
        ("05-AUG-24 14.41.07", datetime(2024, 8, 5, 14, 41, 7)),
        ("5-Aug-24", datetime(2024, 8, 5)),
        ("5 August 2024 14:41", datetime(2024, 8, 5, 14, 41)),
        ("45509,6118055556", datetime(2024, 8, 5, 14, 41)),
        ("20240805T144100", datetime(2024, 8, 5, 14, 41)),
        ("2024-08-05 14:41:00 CDT", datetime(2024, 8, 5, 15, 41)),
        ("08/05/2024 02:41:00 PM (EST)", datetime(2024, 8, 5, 15, 41)),
        ("31/12/2019", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates(text: str, expected: datetime | None) -> None:
    assert value(p.timestamp(f"(SELECT {literal(text)})")) == expected


def test_dates_by_another_order_and_clock() -> None:
    text = "(SELECT '24/03/2025 19:29')"
    assert value(p.timestamp(text, day_first=True)) == datetime(2025, 3, 24, 19, 29)
    assert value(p.timestamp(text)) is None
    text = "(SELECT '2025-03-24T16:41:32Z')"
    assert value(p.timestamp(text, zone="America/Chicago")) == datetime(2025, 3, 24, 11, 41, 32)
    assert value(p.timestamp(text, zone=None)) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("POINT (-75.2 39.9)", (-75.2, 39.9)),
        ("(39.9, -75.2)", (-75.2, 39.9)),
        ("12 Elm St\nPHILADELPHIA, PA\n(39.9, -75.2)", (-75.2, 39.9)),
        ("39.9, -75.2", (-75.2, 39.9)),
        ('{"type":"Point","coordinates":[-75.2,39.9]}', (-75.2, 39.9)),
        ("{'latitude': '39.9', 'longitude': '-75.2'}", (-75.2, 39.9)),
        ("12 Elm Street", (None, None)),
    ],
)
def test_points(text: str, place: tuple[float | None, float | None]) -> None:
    found = [value(p.point(literal(text), name)) for name in ("longitude", "latitude")]
    assert tuple(found) == place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3073010050", 3073010050),
        ("3073010050.0", 3073010050),
        ("0000000000", None),
        ("1000000001", None),
        ("6000010001", None),
        ("307301005", None),
        ("unknown", None),
    ],
)
def test_lots(text: str, expected: int | None) -> None:
    assert value(p.bbl(literal(text))) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("4298330", 4298330), ("4000000", None), ("9298330", None), ("", None)]
)
def test_buildings(text: str, expected: int | None) -> None:
    assert value(p.bin_number(literal(text))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10461", 10461), ("10461.0", 10461), ("10461-1234", 10461), ("N/A", None), ("NEWARK", None)],
)
def test_zip_codes(text: str, expected: int | None) -> None:
    assert value(p.zip_code(literal(text))) == expected


def test_boards_and_addresses() -> None:
    assert value(p.board_311("'09 QUEENS'")) == 409
    assert value(p.board_311("'Unspecified BRONX'")) is None
    assert value(p.spelled("'10           MUHLEBACH   COURT   '")) == "10 MUHLEBACH COURT"
    assert value(literal("it's")) == "it's"
