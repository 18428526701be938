"""How the dates of a file are to be read: which of two numbers is the day, and whose clock it is.

A date like 03/04/2024 does not say. One with a first part above 12 does, so a look at the file
settles it for all of its rows. Where no date settles it, a portal whose dates are known to be
month/day is read so, and of any other file it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import LiteralString

from parity311.errors import InputError
from parity311.feeds import parsing as p
from parity311.records.sql import Connection, identifier, literal

SAMPLE_ROWS = 20_000
"""Rows that are looked at first; the whole file only where they leave the order open."""
DATE_COLUMNS = {
    "sr311": ("created_date", "closed_date"),
    "dob": ("date_entered", "disposition_date", "inspection_date"),
    "boiler": ("inspection_date",),
    "hpd_problems": ("received_date", "problem_status_date"),
    "mapped": ("received_at", "closed_at"),
}
"""Dates of every kind of complaint file."""


@dataclass(frozen=True)
class DateReading:
    """How the dates of one file are read, and what is to be said about it."""

    day_first: bool = False
    zone: str | None = p.TIME_ZONE
    notes: tuple[str, ...] = ()
    has_offsets: bool = False
    """Whether some times come with their distance from Greenwich."""

    @property
    def timestamp(self) -> Callable[[LiteralString], LiteralString]:
        """SQL of a date, by this reading."""
        return partial(p.timestamp, day_first=self.day_first, zone=self.zone)


@dataclass(frozen=True)
class _Seen:
    """Dates with slashes in a file, and times with an offset, counted."""

    n_slashes: int
    n_first_large: int
    n_second_large: int
    n_offsets: int
    samples: list[str]
    large_sample: str | None
    offset_sample: str | None

    @property
    def is_open(self) -> bool:
        """Whether day and month cannot be told apart."""
        return self.n_slashes > 0 and self.n_first_large == self.n_second_large == 0


def read_dates(
    connection: Connection,
    name: str,
    columns: Sequence[str],
    rows: LiteralString,
    zone: str | None,
    *,
    day_first: bool | None = None,
    is_known_portal: bool = False,
) -> DateReading:
    """Look at columns of dates; ``rows`` is the SQL that reads them, ``zone`` the city's clock.

    ``day_first`` is what the user says; it is asked for where it is None and no date tells, unless
    the file is a known portal's, which writes month/day.
    """
    seen = _look(connection, columns, f"{rows} LIMIT {literal(SAMPLE_ROWS)}")
    if seen.is_open:
        seen = _look(connection, columns, rows)
    is_counted = (seen.offset_sample or "").strip().isdigit()
    kind = "times counted from 1970 at Greenwich" if is_counted else "times with a UTC offset"
    if seen.n_offsets and zone is None:
        raise InputError(
            f"{name} has {kind}, like {seen.offset_sample!r}, and the map does "
            'not say whose clock to turn them to; add a line like time_zone = "America/Chicago" to '
            "its [city]."
        )
    notes = []
    if seen.n_offsets:
        notes.append(f"{kind}, like {seen.offset_sample!r}, are turned to the clock of {zone}")
    if day_first is None:
        day_first, note = _settle(name, seen, is_known_portal)
        notes += [note] if note else []
    elif seen.n_slashes:
        order = "day/month" if day_first else "month/day"
        notes.append(f"dates like {seen.samples[0]} are read as {order}, as was said")
    return DateReading(day_first, zone, tuple(notes), seen.n_offsets > 0)


def _settle(name: str, seen: _Seen, is_known_portal: bool) -> tuple[bool, str]:
    """Whether the day comes first, and what is to be said about it."""
    if seen.n_first_large > 0 == seen.n_second_large:
        return True, f"dates are read as day/month, since there are ones like {seen.large_sample}"
    if seen.n_first_large:
        return False, (
            f"dates are read as month/day, as most can be; those like {seen.large_sample} cannot, "
            "and count as unreadable"
        )
    if not seen.is_open:
        return False, ""
    shown = ", ".join(seen.samples)
    if is_known_portal:
        return False, f"dates like {shown} are read as month/day, as the portal writes them"
    raise InputError(
        f"{name} has dates like {shown}, and no date in it tells which number is the day; say so "
        "with --month-first or --day-first (in a map: day_first = false or true under "
        "[complaints])."
    )


def _look(connection: Connection, columns: Sequence[str], rows: LiteralString) -> _Seen:
    parts = f"regexp_extract(text, {literal(p.PARTS)}, ['first', 'second'])"
    first = f"TRY_CAST({parts}['first'] AS INTEGER)"
    second = f"TRY_CAST({parts}['second'] AS INTEGER)"
    texts = ", ".join(f"trim({identifier(column)})" for column in columns)
    found = connection.execute(f"""
SELECT count(*) FILTER (first IS NOT NULL AND second IS NOT NULL),
  count(*) FILTER (first > 12 AND second <= 12), count(*) FILTER (second > 12 AND first <= 12),
  count(*) FILTER (has_offset),
  list_distinct([min(text) FILTER (second IS NOT NULL), max(text) FILTER (second IS NOT NULL)]),
  min(text) FILTER (first > 12 AND second <= 12), min(text) FILTER (has_offset)
FROM (SELECT text, {first} AS first, {second} AS second,
    regexp_matches(text, {literal(p.OFFSET)}) AS has_offset
  FROM (SELECT unnest([{texts}]) AS text FROM ({rows})))""").fetchall()[0]
    slashes, first_large, second_large, offsets, samples, large, offset = found
    samples = sorted(one for one in samples if one)
    return _Seen(slashes, first_large, second_large, offsets, samples, large, offset)
