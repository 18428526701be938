"""Which of two numbers is the day, and whose clock it is: found out, and said."""

from __future__ import annotations

import re

import duckdb
import pytest

from parity311.errors import InputError
from parity311.feeds import dates, parsing
from parity311.feeds.dates import DateReading, read_dates
from parity311.records.sql import literal


def reading(
    *texts: str,
    zone: str | None = parsing.TIME_ZONE,
    day_first: bool | None = None,
    is_known_portal: bool = True,
) -> DateReading:
    values = ", ".join(f"({literal(text)}, NULL)" for text in texts)
    rows = f"SELECT * FROM (VALUES {values}) AS given(received_at, closed_at)"
    with duckdb.connect() as connection:
        return read_dates(
            connection,
            "rows.csv",
            ("received_at", "closed_at"),
            rows,
            zone,
            day_first=day_first,
            is_known_portal=is_known_portal,
        )


@pytest.mark.parametrize(
    ("texts", "day_first", "said"),
    [
        (("03/24/2025", "04/03/2025"), False, None),
        (("24/03/2025", "04/03/2025 10:00"), True, "day/month.*like 24/03/2025"),
        (("24/03/2025", "03/24/2025"), False, "month/day, as most can be.*like 24/03/2025 cannot"),
        (("03/04/2025", "04/03/2025"), False, "read as month/day, as the portal writes"),
        (("2025-03-24", "20250324000000", ""), False, None),
        (("24.03.2025", "04.03.2025"), True, "day/month.*like 24.03.2025"),
        (("3-24-2025 4:41 PM", "4-3-2025"), False, None),
    ],
)
def test_day_and_month(texts: tuple[str, ...], day_first: bool, said: str | None) -> None:
    found = reading(*texts)
    assert found.day_first == day_first
    if said is None:
        assert found.notes == ()
    else:
        (note,) = found.notes
        assert re.search(said, note)


def test_a_day_late_in_the_file_settles_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the order of time has its first weeks first, which leave the order open."""
    monkeypatch.setattr(dates, "SAMPLE_ROWS", 2)
    assert reading("01/02/2025", "02/02/2025", "13/02/2025").day_first


def test_where_no_date_tells_it_is_asked_with_samples() -> None:
    texts = ("03/04/2025", "04/03/2025", "")
    with pytest.raises(InputError, match="like 03/04/2025, 04/03/2025.*--month-first or --day"):
        reading(*texts, is_known_portal=False)
    for day_first, order in ((True, "day/month"), (False, "month/day")):
        found = reading(*texts, day_first=day_first, is_known_portal=False)
        assert found.day_first == day_first
        assert order in found.notes[0]


def test_offsets_need_a_clock() -> None:
    text = "2025-03-24T16:41:32+00:00"
    assert "clock of America/New_York" in reading(text).notes[0]
    with pytest.raises(InputError, match="UTC offset, like .*16:41:32.*time_zone"):
        reading(text, zone=None)
    assert reading("2025-03-24", zone=None).notes == ()
