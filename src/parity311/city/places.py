"""The places of a city as arrays: census tracts with their neighbours, and buildings.

`draw_tracts` (tracts.py) and `draw_buildings` (buildings.py) fill them; the rest of the generator
indexes them by position and only `to_table` makes strings.

Draw the buildings of a synthetic city: dwellings by size class, age, boilers and elevators.

A tract's dwellings follow from its households. They are shared out over size classes as its
borough's are, tilted towards large buildings where more households rent, and then cut into
buildings. Buildings without dwellings (shops, offices, garages) come on top.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parity311.records.schema import BOROUGHS

UNITS_PER_HOUSEHOLD = 1.097
"""Dwellings a household: about 3.6 million for 3.28 million households (ACS 2018–22); the rest
are vacant or second homes."""

SIZE_CLASSES = ((1, 1), (2, 2), (3, 5), (6, 19), (20, 49), (50, 99), (100, 600))
"""Fewest and most dwelling units of a building of each class."""

_MEAN_UNITS = (1.0, 2.0, 3.5, 9.5, 32.0, 69.0, 190.0)
"""Units of the mean building of each class (assumed; near PLUTO's for New York)."""

_SHARE_OF_UNITS = np.array(
    [
        [0.037, 0.075, 0.105, 0.080, 0.250, 0.238, 0.215],
        [0.054, 0.170, 0.185, 0.181, 0.140, 0.140, 0.130],
        [0.003, 0.003, 0.024, 0.160, 0.250, 0.150, 0.410],
        [0.147, 0.218, 0.140, 0.095, 0.115, 0.135, 0.150],
        [0.405, 0.315, 0.040, 0.040, 0.055, 0.065, 0.080],
    ]
)
"""Share of a borough's units in each class. Assumed, after the order of ACS B25024 with fewer one-
family houses, so that the city has the 766 thousand residential properties of its tax roll."""

_RENTER_TILT = (-2.5, -1.2, 0.0, 0.6, 0.9, 0.9, 0.6)
"""Log odds of a class a unit of renter share above the borough's (assumed: owners live in one-
and two-family houses)."""

_BUILDINGS_WITHOUT_DWELLINGS = (65.0, 80.0, 55.0, 150.0, 210.0)
"""Mean a tract, a borough: garages, shops, offices, schools; about 230 thousand in all, which
makes the million buildings of the city's footprints (assumed)."""
_EMPTY_TRACT_FACTOR = 0.2
"""A park or airport has this share of them (assumed)."""
_TRACT_DISPERSION = 3.0
"""Shape of the gamma factor by which tracts differ in them (assumed)."""
_LARGE_COMMERCIAL = (0.05, 0.05, 0.45, 0.03, 0.02)
"""Share of them large enough for a registered boiler or an elevator, a borough (assumed)."""

_YEARS_AROUND_MEDIAN = 14.0
"""Laplace scale of a building's year around its tract's median (assumed)."""
_SHARE_NEW = 0.05
"""Share of buildings put up since 2000 wherever they stand (assumed)."""
OLDEST_YEAR, NEWEST_YEAR = 1830, 2024

_HAS_BOILER = np.array([0.0, 0.0, 0.0, 0.76, 0.92, 0.95, 0.95])
"""Share of buildings with a registered boiler, by class: registration starts at six dwellings, and
some small walk-ups have a furnace for each (NYC Admin. Code §28-303; shares assumed so that about
75,000 buildings hold about 95,000 boilers)."""
_COMMERCIAL_HAS_BOILER = 0.62
"""The same for large commercial buildings (assumed)."""
_MEAN_FURTHER_BOILERS = np.array([0.0, 0.0, 0.0, 0.10, 0.25, 0.55, 1.20])
_COMMERCIAL_FURTHER_BOILERS = 0.35
"""Mean boilers beyond the first (Poisson; assumed). Nobody has more than `MOST_BOILERS`."""
MOST_BOILERS = 4

_HAS_ELEVATOR = np.array([0.0, 0.0, 0.0, 0.04, 0.36, 0.88, 1.0])
"""Share of buildings with an elevator, by class: over six storeys always, so mostly from 20 units
(assumed, so that the city has about 63,000 devices)."""
_UNITS_PER_ELEVATOR = 80.0
"""Dwellings a further device serves (assumed)."""
_COMMERCIAL_HAS_ELEVATOR = 0.60
_COMMERCIAL_FURTHER_ELEVATORS = 1.5
"""Large commercial buildings: share with one, mean number of further ones (geometric; assumed)."""


_NO_DWELLING = len(SIZE_CLASSES)
"""Class of the buildings without dwellings."""
_N_QUANTILES = 1024


def draw_buildings(seed: np.random.SeedSequence, tracts: Tracts) -> Buildings:
    """Draw every tract's buildings, sorted by tract and size; same seed, identical arrays."""
    rng = np.random.default_rng(seed)
    tract, size_class, units = _draw_dwellings(rng, tracts)
    other = _draw_without_dwellings(rng, tracts)
    tract = np.concatenate([tract, other])
    size_class = np.concatenate([size_class, np.full(len(other), _NO_DWELLING, dtype=np.int8)])
    units = np.concatenate([units, np.zeros(len(other), dtype=np.int32)])
    order = np.lexsort((size_class, tract))
    tract, size_class, units = tract[order], size_class[order], units[order]
    is_commercial = size_class == _NO_DWELLING
    is_commercial &= rng.random(len(tract)) < np.asarray(_LARGE_COMMERCIAL)[tracts.borough[tract]]
    return Buildings(
        tract=tract,
        units=units,
        year_built=_draw_years(rng, tracts.median_year_built[tract]),
        boilers=_draw_boilers(rng, size_class, is_commercial),
        elevators=_draw_elevators(rng, size_class, is_commercial, units),
    )


def _draw_dwellings(
    rng: np.random.Generator, tracts: Tracts
) -> tuple[NDArray[np.int32], NDArray[np.int8], NDArray[np.int32]]:
    """Tract, size class and units of every building with dwellings, in no useful order.

    From the largest class down; what a class's whole buildings leave over, or take too much,
    passes to the next, so that a tract's units add up.
    """
    sizes = _size_quantiles()
    wanted = np.round(tracts.households * UNITS_PER_HOUSEHOLD)
    share = _share_of_units(tracts)
    left = np.zeros(tracts.n)
    tract, size_class, units = [], [], []
    for index in reversed(range(len(SIZE_CLASSES))):
        left += wanted * share[:, index]
        expected = np.maximum(left, 0.0) / _MEAN_UNITS[index]
        # Rounding at random keeps the expected number of large buildings in a small tract; the
        # last class, one dwelling each, takes up the rest.
        counts = np.floor(expected + (rng.random(tracts.n) if index else 0.5)).astype(np.int64)
        own = np.repeat(np.arange(tracts.n, dtype=np.int32), counts)
        drawn = sizes[index, rng.integers(_N_QUANTILES, size=len(own))]
        left -= np.bincount(own, drawn, minlength=tracts.n)
        tract.append(own)
        size_class.append(np.full(len(own), index, dtype=np.int8))
        units.append(drawn)
    return np.concatenate(tract), np.concatenate(size_class), np.concatenate(units)


def _share_of_units(tracts: Tracts) -> NDArray[np.float64]:
    """Share of each tract's units in each size class (n, 7)."""
    renters = np.nan_to_num(tracts.share_renter) * tracts.households
    households = np.bincount(tracts.borough, tracts.households, minlength=len(_SHARE_OF_UNITS))
    mean = np.bincount(tracts.borough, renters, minlength=len(_SHARE_OF_UNITS))
    mean /= np.maximum(households, 1)
    excess = np.nan_to_num(tracts.share_renter - mean[tracts.borough])
    share = _SHARE_OF_UNITS[tracts.borough] * np.exp(excess[:, None] * np.asarray(_RENTER_TILT))
    return share / share.sum(axis=1, keepdims=True)


def _size_quantiles() -> NDArray[np.int32]:
    """Evenly spaced quantiles (7, 1024) of the units of a building in each class.

    Within its limits a class's sizes fall off geometrically, at the rate that gives its mean.
    """
    level = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
    table = np.empty((len(SIZE_CLASSES), _N_QUANTILES), dtype=np.int32)
    for index, (low, high) in enumerate(SIZE_CLASSES):
        size = np.arange(low, high + 1)
        rate = _rate_of_mean(size, _MEAN_UNITS[index]) if high > low else 0.0
        table[index] = size[np.searchsorted(np.cumsum(_geometric(size, rate)), level)]
    return table


def _rate_of_mean(size: NDArray[np.int64], mean: float) -> float:
    """Rate of fall at which the sizes have the given mean, by bisection."""
    low, high = -1.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if size @ _geometric(size, middle) > mean else (low, middle)
    return (low + high) / 2


def _geometric(size: NDArray[np.int64], rate: float) -> NDArray[np.float64]:
    weight = np.exp(-rate * (size - size[0]))
    return weight / weight.sum()


def _draw_without_dwellings(rng: np.random.Generator, tracts: Tracts) -> NDArray[np.int32]:
    """Tract of every building without dwellings."""
    mean = np.asarray(_BUILDINGS_WITHOUT_DWELLINGS)[tracts.borough]
    mean = mean * np.where(tracts.population > 0, 1.0, _EMPTY_TRACT_FACTOR)
    factor = rng.gamma(_TRACT_DISPERSION, 1.0 / _TRACT_DISPERSION, tracts.n)
    return np.repeat(np.arange(tracts.n, dtype=np.int32), rng.poisson(mean * factor))


def _draw_years(rng: np.random.Generator, median: NDArray[np.int32]) -> NDArray[np.int32]:
    """Year each building was built, around the tract's median and some of them new."""
    year = median + rng.laplace(scale=_YEARS_AROUND_MEDIAN, size=len(median))
    is_new = rng.random(len(median)) < _SHARE_NEW
    year = np.where(is_new, rng.integers(2000, NEWEST_YEAR + 1, size=len(median)), year)
    return np.round(np.clip(year, OLDEST_YEAR, NEWEST_YEAR)).astype(np.int32)


def _draw_boilers(
    rng: np.random.Generator, size_class: NDArray[np.int8], is_commercial: NDArray[np.bool_]
) -> NDArray[np.int16]:
    """Registered boilers of each building."""
    chance = np.append(_HAS_BOILER, 0.0)[size_class]
    chance[is_commercial] = _COMMERCIAL_HAS_BOILER
    further = np.append(_MEAN_FURTHER_BOILERS, 0.0)[size_class]
    further[is_commercial] = _COMMERCIAL_FURTHER_BOILERS
    boilers = np.zeros(len(size_class), dtype=np.int16)
    has = np.flatnonzero(rng.random(len(size_class)) < chance)
    boilers[has] = np.minimum(1 + rng.poisson(further[has]), MOST_BOILERS)
    return boilers


def _draw_elevators(
    rng: np.random.Generator,
    size_class: NDArray[np.int8],
    is_commercial: NDArray[np.bool_],
    units: NDArray[np.int32],
) -> NDArray[np.int16]:
    """Elevators of each building."""
    chance = np.append(_HAS_ELEVATOR, 0.0)[size_class]
    chance[is_commercial] = _COMMERCIAL_HAS_ELEVATOR
    elevators = np.zeros(len(size_class), dtype=np.int16)
    has = np.flatnonzero(rng.random(len(size_class)) < chance)
    further = rng.poisson(units[has] / _UNITS_PER_ELEVATOR)
    office = is_commercial[has]
    further[office] = rng.geometric(1.0 / (1.0 + _COMMERCIAL_FURTHER_ELEVATORS), office.sum()) - 1
    elevators[has] = 1 + further
    return elevators


__all__ = ["BOROUGHS", "BOROUGH_DIGITS", "COUNTY_CODES", "Buildings", "Tracts"]

BOROUGH_DIGITS = (2, 3, 1, 4, 5)
"""The city's own number of each borough, in the order of `BOROUGHS` (BBL, community boards)."""

COUNTY_CODES = ("005", "047", "061", "081", "085")
"""FIPS county of each borough, in the order of `BOROUGHS`; the state is 36."""

_LOTS_PER_BLOCK = 40
"""Synthetic lots numbered on one block (assumed; only makes ids look like a BBL)."""


@dataclass(frozen=True)
class Tracts:
    """Census tracts: arrays of length n, and the pairs of neighbours."""

    geoid: NDArray[np.str_]
    borough: NDArray[np.int8]
    """Index into `BOROUGHS`."""
    community_board: NDArray[np.int32]
    """Borough digit × 100 + board."""
    zip: NDArray[np.str_]
    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]
    edges: NDArray[np.int32]
    """(n_edges, 2), first < second: indices of two tracts that touch."""
    population: NDArray[np.int32]
    households: NDArray[np.int32]
    median_income: NDArray[np.float64]
    """Dollars a year; NaN where not published."""
    income_quintile: NDArray[np.int8]
    """1 lowest … 5; 0 where the income is not published."""
    share_white: NDArray[np.float64]
    share_black: NDArray[np.float64]
    share_hispanic: NDArray[np.float64]
    share_asian: NDArray[np.float64]
    share_renter: NDArray[np.float64]
    share_bachelors: NDArray[np.float64]
    share_limited_english: NDArray[np.float64]
    median_year_built: NDArray[np.int32]

    @property
    def n(self) -> int:
        """Number of tracts."""
        return len(self.geoid)

    def to_table(self) -> pa.Table:
        """Return the canonical table `tracts`: NaN as null, neighbours as lists of geoids."""
        columns: dict[str, pa.Array] = {}
        for field in fields(self):
            if field.name == "borough":
                columns["borough"] = pa.array(np.asarray(BOROUGHS)[self.borough])
            elif field.name == "edges":
                columns["neighbours"] = self._neighbours()
            else:
                columns[field.name] = pa.array(getattr(self, field.name), from_pandas=True)
        return pa.table(columns)

    def _neighbours(self) -> pa.Array:
        """Per tract the geoids of its neighbours, in the order of the tracts."""
        both = np.concatenate([self.edges, self.edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        counts = np.bincount(both[:, 0], minlength=self.n)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(self.geoid[both[:, 1]]))


@dataclass(frozen=True)
class Buildings:
    """Buildings: arrays of length m, sorted by tract."""

    tract: NDArray[np.int32]
    """Index of the tract, non-decreasing."""
    units: NDArray[np.int32]
    """Dwelling units; 0 for a building without dwellings."""
    year_built: NDArray[np.int32]
    boilers: NDArray[np.int16]
    elevators: NDArray[np.int16]

    @property
    def n(self) -> int:
        """Number of buildings."""
        return len(self.tract)

    def to_table(self, tracts: Tracts) -> pa.Table:
        """Return the canonical table `buildings`, ids in the shape of a BBL."""
        return pa.table(
            {
                "building_id": self.building_ids(tracts),
                "tract": pc.take(pa.array(tracts.geoid), pa.array(self.tract)),
                "units": pa.array(self.units),
                "year_built": pa.array(self.year_built),
                "boilers": pa.array(self.boilers),
                "elevators": pa.array(self.elevators),
            }
        )

    def building_ids(self, tracts: Tracts) -> pa.Array:
        """Ten digits, unique: borough digit, block (5) and lot (4); a block lies in one tract."""
        counts = np.bincount(self.tract, minlength=tracts.n)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        position = np.arange(self.n) - starts[self.tract]
        n_blocks = -(-counts // _LOTS_PER_BLOCK)
        first_block = np.empty(tracts.n, dtype=np.int64)
        for borough in range(len(BOROUGHS)):
            inside = tracts.borough == borough
            first_block[inside] = 1 + np.cumsum(n_blocks[inside]) - n_blocks[inside]
        block = first_block[self.tract] + position // _LOTS_PER_BLOCK
        lot = 1 + position % _LOTS_PER_BLOCK
        digit = np.asarray(BOROUGH_DIGITS, dtype=np.int64)[tracts.borough[self.tract]]
        return pc.cast(pa.array(digit * 10**9 + block * 10**4 + lot), pa.string())
