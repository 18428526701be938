"""Named cities and scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from parity311.errors import InputError, unknown_name

WHOLE_CITY_TRACTS = 2325
"""Census tracts of New York (2020), to which the declared volumes refer."""

PARTICIPATION = ("measured", "strong")
"""How readily people report: as measured, or three times as readily in the fifth income quintile
as in the first."""

CAPACITY = ("calibrated", "scarce")
"""Visits that can be made: as in the records, where nearly every case is visited in the end, or for
30 % of complaints."""

EARLIEST_DAY = date(2007, 1, 1)
LATEST_DAY = date(2050, 1, 1)
"""Days between which the generator has weather to draw from."""


@dataclass(frozen=True)
class Preset:
    """A city's size and years."""

    name: str
    n_tracts: int
    date_from: date
    date_to: date
    """The day after the last."""
    filing_years_before: int
    """Years of mandatory filings before the first day, so that recurrence can be seen."""
    least_complaints_per_year: float
    """Rarer domains are enlarged to this many complaints a year; 0 leaves them as they are."""

    @property
    def scale(self) -> float:
        """Size against the whole city."""
        return self.n_tracts / WHOLE_CITY_TRACTS


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("small", 200, date(2023, 1, 1), date(2026, 1, 1), 2, 1500.0),
        Preset("nyc", WHOLE_CITY_TRACTS, date(2020, 1, 1), date(2026, 4, 1), 3, 0.0),
    )
}


def get_preset(name: str) -> Preset:
    """Return the preset with this name, or say which there are."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name]


def check_scenario(participation: str, capacity: str) -> None:
    """Raise unless both are names of scenarios."""
    if participation not in PARTICIPATION:
        raise unknown_name("participation", participation, PARTICIPATION)
    if capacity not in CAPACITY:
        raise unknown_name("capacity", capacity, CAPACITY)


def check_dates(date_from: date, date_to: date) -> None:
    """Raise unless the days make a period that can be drawn."""
    if date_from >= date_to:
        raise InputError(
            f"The period from {date_from} to {date_to} is empty: --to is the day after the last "
            "and must lie after --from."
        )
    if date_from < EARLIEST_DAY or date_to > LATEST_DAY:
        raise InputError(
            f"The period from {date_from} to {date_to} is outside {EARLIEST_DAY} to {LATEST_DAY}; "
            "choose days within it."
        )
