"""The file of service levels: read back as written, and refused in one line where it is wrong."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from parity311.errors import InputError
from parity311.service_levels.levels import (
    CellDesign,
    CellPromise,
    ServiceLevels,
    in_force,
    levels_to_text,
    read_levels,
    write_levels,
)

LEVELS = ServiceLevels(
    domain="heat",
    districts="borough",
    share=0.8,
    confidence=0.9,
    promise=(
        CellPromise("Bronx", "NO HEAT", 3, "B", visited_share=0.91),
        CellPromise("Bronx", "NO HOT WATER", 14, "C"),
        CellPromise("Queens", "*", None, reason='too few "requests"'),
    ),
    name="balanced",
    valid_from=date(2026, 1, 1),
    design=(CellDesign("Bronx", "NO HEAT", 0.3, 0.5, 1.0),),
    review_every_days=28,
)


def test_it_is_read_back_as_written(tmp_path: Path) -> None:
    path = write_levels(tmp_path / "service-levels.toml", LEVELS)
    assert read_levels(path) == LEVELS


def test_the_due_date_is_that_of_the_cell() -> None:
    received = date(2026, 4, 29)
    assert LEVELS.due(received, "Bronx", "NO HEAT") == date(2026, 5, 2)
    assert LEVELS.due(received, "Bronx", "NO HOT WATER") == date(2026, 5, 13)
    assert LEVELS.due(received, "Queens", "NO HEAT") is None
    assert LEVELS.due(received, "Manhattan", "NO HEAT") is None
    assert LEVELS.due(date(2025, 12, 31), "Bronx", "NO HEAT") is None


def test_a_request_keeps_the_promise_of_its_day() -> None:
    old = ServiceLevels("heat", "borough", 0.8, 0.9, (CellPromise("*", "*", 40),))
    assert in_force([old, LEVELS], date(2025, 6, 1)) is old
    assert in_force([LEVELS, old], date(2026, 6, 1)) is LEVELS
    assert in_force([LEVELS], date(2025, 6, 1)) is None


def test_districts_that_are_not_covered_are_named() -> None:
    LEVELS.check_covers(["Bronx", "Queens"])
    with pytest.raises(InputError, match="'Brooklyn' and 1 more"):
        LEVELS.check_covers(["Bronx", "Brooklyn", "Manhattan"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("days = 3", "days = -3", "cannot run backwards"),
        ("days = 3", 'days = "soon"', "promise.0.days"),
        ("share = 0.8", "share = 1.8", "between 0 and 1"),
        ('category = "NO HOT WATER"', 'category = "NO HEAT"', "twice"),
        ("days = 3", "days = 30", "no more"),
        ('code = "B"', 'code = "Z"', "Unknown code 'Z'"),
        ("format_version = 1", "format_version = 2", "reads"),
        ('name = "balanced"', 'nmae = "balanced"', "nmae"),
        ('name = "balanced"', "name = ", "is not TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = levels_to_text(LEVELS)
    assert old in text
    path = tmp_path / "levels.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=said) as error:
        read_levels(path)
    assert "\n" not in str(error.value)


def test_nothing_is_written_where_levels_are_wrong(tmp_path: Path) -> None:
    wrong = ServiceLevels("heat", "borough", 0.8, 0.9, (CellPromise("*", "*", -1),))
    with pytest.raises(InputError):
        write_levels(tmp_path / "levels.toml", wrong)
    assert list(tmp_path.iterdir()) == []
