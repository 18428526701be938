"""The joint distribution of a tract's census variables, as a small set of numbers.

Nine variables are made nearly normal within a borough (`to_latent`): cube root of income, log
ratios of the racial shares, logits of the other shares, square root of population, log of the
persons a household. There a borough is a mean and a standard deviation, the city one correlation
matrix, and space one kernel shared by all nine with a matrix that says how much of each variance
and covariance it carries; the rest is a tract's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

VARIABLES = (
    "income",
    "black_to_white",
    "hispanic_to_white",
    "asian_to_white",
    "other_to_white",
    "renter",
    "bachelors",
    "population",
    "persons_per_household",
)

RACE_OFFSET = 0.005
"""Added to each of the five racial shares before their log ratios, so that zeros stay finite."""
SHARE_BOUND = 0.01
"""Shares are kept this far from 0 and 1 before their logit."""
INCOME_TOP_CODE = 250_001.0
"""Dollars a year: the Census publishes no higher median (B19013)."""
INCOME_FLOOR = 10_000.0
"""Dollars a year; the lowest published median of a New York tract is 11,612 (ACS 2019–23)."""


@dataclass(frozen=True)
class TractModel:
    """Moments of the nine latent variables."""

    mean: NDArray[np.float64]
    """(5, 9) per borough."""
    standard_deviation: NDArray[np.float64]
    """(5, 9) per borough."""
    correlation: NDArray[np.float64]
    """(9, 9) within boroughs."""
    spatial: NDArray[np.float64]
    """(9, 9) part of ``correlation`` that varies smoothly over space."""
    length_km: float
    """Length of the Matérn kernel of order 3/2, in a city of 2,325 tracts."""


# Fitted by moments (tools/fit_tracts.py) on the 2,187 tracts of New York City, of 2,325, with a
# published income, more than 200 residents and more than 50 households: ACS five-year 2019-23
# (income, tenure, population) and 2018-22 (households, education; racial shares of the same table).
# Rows are boroughs in the order of `BOROUGHS`, columns `VARIABLES`. Units: cube root of dollars,
# log ratios and logits, square root of persons, log of persons a household.
_MEAN = [
    [37.41, 1.51, 2.28, -0.49, -0.31, 1.79, -1.39, 62.67, 1.00],
    [43.23, -0.70, -0.39, -1.01, -1.33, 0.87, -0.49, 57.28, 1.00],
    [47.77, -1.69, -0.81, -1.29, -2.00, 1.56, 0.73, 71.44, 0.76],
    [44.43, -0.60, 0.60, 0.34, -0.80, 0.10, -0.73, 57.09, 1.08],
    [45.72, -2.26, -0.94, -1.51, -2.55, -0.73, -0.65, 63.42, 1.06],
]
_STANDARD_DEVIATION = [
    [5.82, 1.75, 1.38, 0.99, 1.10, 1.61, 0.74, 14.46, 0.17],
    [6.58, 2.63, 1.60, 1.31, 1.40, 1.31, 0.96, 11.88, 0.21],
    [9.45, 1.82, 1.53, 0.88, 0.77, 1.49, 1.19, 18.83, 0.23],
    [4.52, 2.50, 1.44, 1.48, 1.68, 1.37, 0.77, 13.54, 0.21],
    [5.08, 1.96, 1.22, 0.84, 0.94, 1.18, 0.48, 12.45, 0.17],
]
_CORRELATION = [
    [1.00, -0.35, -0.52, -0.29, -0.31, -0.54, 0.73, -0.12, -0.10],
    [-0.35, 1.00, 0.79, 0.46, 0.93, 0.19, -0.51, 0.00, 0.17],
    [-0.52, 0.79, 1.00, 0.63, 0.81, 0.40, -0.70, 0.06, 0.26],
    [-0.29, 0.46, 0.63, 1.00, 0.58, 0.11, -0.41, -0.02, 0.21],
    [-0.31, 0.93, 0.81, 0.58, 1.00, 0.15, -0.52, -0.02, 0.25],
    [-0.54, 0.19, 0.40, 0.11, 0.15, 1.00, -0.34, 0.22, -0.07],
    [0.73, -0.51, -0.70, -0.41, -0.52, -0.34, 1.00, -0.06, -0.43],
    [-0.12, 0.00, 0.06, -0.02, -0.02, 0.22, -0.06, 1.00, -0.01],
    [-0.10, 0.17, 0.26, 0.21, 0.25, -0.07, -0.43, -0.01, 1.00],
]
_SPATIAL = [
    [0.56, -0.25, -0.39, -0.22, -0.23, -0.30, 0.53, -0.10, -0.22],
    [-0.25, 0.91, 0.69, 0.35, 0.85, 0.08, -0.43, -0.02, 0.17],
    [-0.39, 0.69, 0.84, 0.48, 0.70, 0.28, -0.59, 0.04, 0.25],
    [-0.22, 0.35, 0.48, 0.77, 0.46, 0.02, -0.34, -0.03, 0.21],
    [-0.23, 0.85, 0.70, 0.46, 0.90, 0.06, -0.46, -0.03, 0.25],
    [-0.30, 0.08, 0.28, 0.02, 0.06, 0.52, -0.19, 0.17, -0.05],
    [0.53, -0.43, -0.59, -0.34, -0.46, -0.19, 0.71, -0.03, -0.39],
    [-0.10, -0.02, 0.04, -0.03, -0.03, 0.17, -0.03, 0.25, -0.02],
    [-0.22, 0.17, 0.25, 0.21, 0.25, -0.05, -0.39, -0.02, 0.45],
]
NEW_YORK = TractModel(
    mean=np.array(_MEAN),
    standard_deviation=np.array(_STANDARD_DEVIATION),
    correlation=np.array(_CORRELATION),
    spatial=np.array(_SPATIAL),
    length_km=2.80,
)


def spatial_kernel(distance_km: NDArray[np.floating], length_km: float) -> NDArray[np.float64]:
    """Matérn correlation of order 3/2: smooth at the origin, as neighbouring tracts are."""
    scaled = np.sqrt(3.0) * distance_km / length_km
    return (1.0 + scaled) * np.exp(-scaled)


def to_latent(
    median_income: NDArray[np.float64],
    race_shares: NDArray[np.float64],
    share_renter: NDArray[np.float64],
    share_bachelors: NDArray[np.float64],
    population: NDArray[np.float64],
    households: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Latent variables (n, 9); ``race_shares`` (n, 4) are white, Black, Hispanic, Asian."""
    other = np.clip(1.0 - race_shares.sum(axis=1), 0.0, 1.0)
    parts = np.column_stack([race_shares, other]) + RACE_OFFSET
    return np.column_stack(
        [
            np.cbrt(median_income),
            np.log(parts[:, 1:] / parts[:, :1]),
            _logit(share_renter),
            _logit(share_bachelors),
            np.sqrt(population),
            np.log(population / households),
        ]
    )


def from_latent(latent: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Census variables, by their names in the table `tracts`, of latent ones (n, 9)."""
    log_parts = np.column_stack([np.zeros(len(latent)), latent[:, 1:5]])
    parts = np.exp(log_parts - log_parts.max(axis=1, keepdims=True))
    parts /= parts.sum(axis=1, keepdims=True)
    parts = np.clip(parts * (1.0 + 5 * RACE_OFFSET) - RACE_OFFSET, 0.0, None)
    parts /= parts.sum(axis=1, keepdims=True)
    population = np.square(np.clip(latent[:, 7], 8.0, None))
    return {
        "median_income": np.clip(latent[:, 0] ** 3, INCOME_FLOOR, INCOME_TOP_CODE),
        "share_white": parts[:, 0],
        "share_black": parts[:, 1],
        "share_hispanic": parts[:, 2],
        "share_asian": parts[:, 3],
        "share_renter": _expit(latent[:, 5]),
        "share_bachelors": _expit(latent[:, 6]),
        "population": population,
        "households": population / np.exp(np.clip(latent[:, 8], np.log(1.2), None)),
    }


def _logit(share: NDArray[np.float64]) -> NDArray[np.float64]:
    bounded = np.clip(share, SHARE_BOUND, 1.0 - SHARE_BOUND)
    return np.log(bounded / (1.0 - bounded))


def _expit(value: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1.0 / (1.0 + np.exp(-value))
