"""The areas an estimate is made for: who lives there, and which areas touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parity311.errors import InputError
from parity311.records.store import Records

SHARES = (
    "share_white",
    "share_black",
    "share_hispanic",
    "share_asian",
    "share_renter",
    "share_bachelors",
    "share_limited_english",
)
COVARIATES = (
    "log_income",
    "share_white",
    "share_black",
    "share_hispanic",
    "share_renter",
    "share_bachelors",
    "share_limited_english",
)
"""Covariates of the reporting rate by default: those whose slopes the reporting studies give."""


@dataclass(frozen=True)
class Areas:
    """Tracts (or any other areas) as arrays of length n_areas; unpublished values are NaN."""

    geoid: np.ndarray
    borough: np.ndarray
    households: np.ndarray
    income_quintile: np.ndarray
    """1 … 5; 0 where income is not published."""
    covariates: dict[str, np.ndarray]
    edges: np.ndarray
    """(n_edges, 2) pairs of indices of neighbouring areas, each pair once."""
    position: np.ndarray | None = None
    """(n_areas, 2) longitude and latitude in degrees, where known."""
    median_income: np.ndarray | None = None
    """(n_areas,) dollars; only the paper's proxy is linear in income rather than its logarithm."""

    @property
    def n_areas(self) -> int:
        """Number of areas."""
        return len(self.geoid)

    def match(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Index of every code among the areas, and whether it is one of them."""
        names = self.geoid.astype(str)
        order = np.argsort(names)
        place = np.searchsorted(names[order], codes.astype(str)).clip(max=len(names) - 1)
        index = order[place]
        return index, names[index] == codes.astype(str)

    def quintile_of(self, codes: np.ndarray) -> np.ndarray:
        """Income quintile of the area of every code; 0 where it is unknown."""
        index, known = self.match(codes)
        return np.where(known, self.income_quintile[index], 0)

    def design(self, names: tuple[str, ...] = COVARIATES) -> tuple[np.ndarray, np.ndarray]:
        """Standardise covariates; a missing value becomes the mean and is counted.

        Returns
        -------
        (n_areas, n_covariates) with mean 0 and variance 1 over areas (household-weighted), and the
        number of covariates missing in each area.
        """
        return standardise([self._values(name) for name in names], self.households)

    def varying(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Of these covariates, those that differ between areas: the columns of `design`."""
        return tuple(
            name
            for name in names
            if _standardise_one(self._values(name), self.households) is not None
        )

    def _values(self, name: str) -> np.ndarray:
        if name not in self.covariates:
            raise InputError(
                f"There is no covariate {name!r}; the areas have "
                f"{', '.join(self.covariates) or 'none'}. Choose among those."
            )
        return self.covariates[name]


def standardise(
    columns: Sequence[np.ndarray], households: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Columns with mean 0 and variance 1 over households, and how many an area lacks.

    A missing value becomes the mean; a column that does not vary is left out.
    """
    n_missing = np.zeros(len(households), dtype=np.int64)
    for values in columns:
        n_missing += ~np.isfinite(values)
    found = [_standardise_one(values, households) for values in columns]
    kept = [values for values in found if values is not None]
    return np.column_stack(kept) if kept else np.zeros((len(households), 0)), n_missing


def _standardise_one(values: np.ndarray, households: np.ndarray) -> np.ndarray | None:
    """A column with mean 0 and variance 1; None where it is the same everywhere."""
    known = np.isfinite(values)
    if not known.any():
        return None
    weight = np.maximum(households, 1.0)
    mean = np.average(values[known], weights=weight[known])
    spread = np.sqrt(np.average((values[known] - mean) ** 2, weights=weight[known]))
    return np.where(known, (values - mean) / spread, 0.0) if spread > 0 else None


def areas_from_records(records: Records) -> Areas:
    """Read the tracts of a records folder."""
    return areas_from_tracts(records.table("tracts"))


def areas_from_tracts(table: pa.Table) -> Areas:
    """Turn the canonical tracts table into arrays."""
    geoid = np.asarray(table["geoid"].to_pylist(), dtype=object)
    income = _floats(table["median_income"])
    covariates = {name: _floats(table[name]) for name in SHARES}
    covariates["log_income"] = np.log(np.where(income > 0, income, np.nan))
    return Areas(
        geoid=geoid,
        borough=np.asarray(table["borough"].to_pylist(), dtype=object),
        households=_floats(table["households"]),
        income_quintile=_floats(table["income_quintile"]).astype(np.int64),
        covariates=covariates,
        edges=edges_from_neighbours(geoid, table["neighbours"].to_pylist()),
        position=np.column_stack([_floats(table["longitude"]), _floats(table["latitude"])]),
        median_income=np.where(income > 0, income, np.nan),
    )


def edges_from_neighbours(geoid: np.ndarray, neighbours: list[list[str]]) -> np.ndarray:
    """Pairs of indices, each once; a neighbour outside the table is left out."""
    place = {name: index for index, name in enumerate(geoid)}
    pairs = {
        (min(index, place[name]), max(index, place[name]))
        for index, names in enumerate(neighbours)
        for name in names or ()
        if name in place and place[name] != index
    }
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
