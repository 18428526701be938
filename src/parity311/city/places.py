"""The places of a city as arrays: census tracts with their neighbours, and buildings.

`draw_tracts` (tracts.py) and `draw_buildings` (buildings.py) fill them; the rest of the generator
indexes them by position and only `to_table` makes strings.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parity311.records.schema import BOROUGHS

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
