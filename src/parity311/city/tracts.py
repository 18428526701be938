"""Draw the tracts of a synthetic city: a plan, then census variables that vary over it together.

Calibrated to New York's 2,325 census tracts of 2020 (`tract_model`); a smaller city keeps the
shares of the boroughs and how alike neighbours are. No real tract's values are in it.

The joint distribution of a tract's census variables, as a small set of numbers.

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
from scipy.spatial.distance import cdist

from parity311.city.places import BOROUGH_DIGITS, BOROUGHS, COUNTY_CODES, Tracts
from parity311.city.plan import (
    NYC_TRACTS,
    join_neighbours,
    place_centres,
    split_contiguous,
    to_degrees,
)
from parity311.errors import InputError
from parity311.records.strata import income_quintiles

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


SMALLEST_CITY = 40
"""Tracts; below it Staten Island has fewer than two."""
LARGEST_CITY = 10_000
"""Tracts; the spatial draw takes memory with the square of their number (0.8 GB here)."""

_TRACTS = (361, 804, 310, 724, 126)
"""Tracts a borough (Census 2020)."""
_BOARDS = (12, 18, 12, 14, 3)
"""Community boards a borough (59 in all; City Charter §2701)."""
_ZIPS = (25, 37, 44, 62, 12)
"""Postal codes with residents a borough, about 180 in all (assumed)."""
_FIRST_ZIP = (10451, 11201, 10001, 11351, 10301)
"""First code of each borough's range; the synthetic codes count up from it."""
_TRACTS_PER_BOARD = 4
_TRACTS_PER_ZIP = 3
"""Fewest tracts a board and a postal code keep in a small city (assumed)."""

_EMPTY_RATE = (0.036, 0.030, 0.019, 0.048, 0.032)
"""Share of tracts without residents, parks and airports, a borough (82 of 2,325; ACS 2019–23)."""
_TINY_RATE = 25 / 2325
"""Share of tracts with few residents and no published income (ACS 2019–23)."""
_WITHHELD_RATE = 26 / 2325
"""Share of tracts of usual size whose income is not published all the same (ACS 2019–23)."""
_TINY_LOG_MEAN, _TINY_LOG_DEVIATION = np.log(80.0), 1.2
"""Residents of such a small tract: 6 to 762, median 52, upper quartile 285 (ACS 2019–23)."""
_TINY_HAS_HOUSEHOLDS = 0.6
"""Share of them with households at all; the rest are institutions (ACS 2018–22)."""

_LIMITED_ENGLISH = {"intercept": -3.3, "hispanic": 2.5, "asian": 3.0, "bachelors": -1.6}
"""Logit of the share of households with limited English. Assumed: the table at hand holds only a
fragment of C16002 (0.6 % of households on average); the slopes give the 13 % or so that the ACS
publishes citywide, over 30 % where nine in ten are Hispanic or Asian, under 5 % in rich tracts."""
_LIMITED_ENGLISH_DEVIATION = 0.45
"""Deviation of a tract around that, on the logit scale (assumed)."""

_YEAR_BUILT = (1952.0, 1944.0, 1946.0, 1950.0, 1972.0)
"""Mean over tracts of the median year built, a borough (assumed, after the order of B25035, which
publishes most of these tracts only as 1939 or earlier)."""
_YEAR_BUILT_DEVIATION = (13.0, 12.0, 16.0, 12.0, 12.0)
"""Years (assumed)."""
_YEAR_BUILT_SPATIAL = 0.6
"""Share of that variance that neighbours have in common (assumed, as of renter share)."""
_YEAR_BUILT_RANGE = (1900, 2015)


def draw_tracts(seed: np.random.SeedSequence, n_tracts: int) -> Tracts:
    """Draw the tracts of a city; the same seed and number give identical arrays."""
    if not SMALLEST_CITY <= n_tracts <= LARGEST_CITY:
        raise InputError(
            f"A city of {n_tracts} tracts was asked for; allowed are {SMALLEST_CITY} to "
            f"{LARGEST_CITY} (New York has {NYC_TRACTS}). Choose a number in between."
        )
    rng = np.random.default_rng(seed)
    borough, km, board, zip_code, edges = _draw_plan(rng, n_tracts)
    fields = _draw_fields(rng, borough, km, NEW_YORK)
    values = from_latent(_scale_by_borough(fields[:, :9], borough, NEW_YORK))
    population, households, has_income = _draw_residents(rng, borough, values)
    shares = _round_shares(values, population, households)
    income = np.where(has_income, np.round(values["median_income"]), np.nan)
    longitude, latitude = to_degrees(km)
    return Tracts(
        geoid=_number_tracts(borough),
        borough=borough,
        community_board=board,
        zip=zip_code,
        longitude=np.round(longitude, 5),
        latitude=np.round(latitude, 5),
        edges=edges,
        population=population,
        households=households,
        median_income=income,
        income_quintile=income_quintiles(income, households),
        share_limited_english=_draw_limited_english(rng, shares),
        median_year_built=_year_built(fields[:, 9], borough),
        **shares,
    )


def count_by_borough(n_tracts: int) -> NDArray[np.int64]:
    """Tracts a borough, (5,), in New York's proportions by largest remainder."""
    exact = np.asarray(_TRACTS) / sum(_TRACTS) * n_tracts
    counts = np.floor(exact).astype(np.int64)
    largest = np.argsort(counts - exact, kind="stable")
    counts[largest[: n_tracts - counts.sum()]] += 1
    return counts


def _draw_plan(
    rng: np.random.Generator, n_tracts: int
) -> tuple[
    NDArray[np.int8], NDArray[np.float64], NDArray[np.int32], NDArray[np.str_], NDArray[np.int32]
]:
    """Borough, centre in km, board, postal code and neighbours of each tract.

    Tracts come ordered by borough, board and latitude, so that nearby tracts have near numbers.
    """
    counts = count_by_borough(n_tracts)
    borough = np.repeat(np.arange(len(BOROUGHS)), counts).astype(np.int8)
    km = np.concatenate([place_centres(rng, index, count) for index, count in enumerate(counts)])
    board = _split_boroughs(km, borough, join_neighbours(km, borough), _BOARDS, _TRACTS_PER_BOARD)
    order = np.lexsort((km[:, 1], board, borough))
    km, board = km[order], board[order]
    edges = join_neighbours(km, borough)
    # The coordinates turned by 45 degrees give postal codes other borders than the boards have.
    turned = km @ np.array([[1.0, -1.0], [1.0, 1.0]]) * np.array([1.0, 0.8])
    zip_index = _split_boroughs(turned, borough, edges, _ZIPS, _TRACTS_PER_ZIP)
    number = np.asarray(BOROUGH_DIGITS)[borough] * 100 + board + 1
    zip_code = (np.asarray(_FIRST_ZIP)[borough] + zip_index).astype(np.str_)
    return borough, km, number.astype(np.int32), zip_code, edges


def _split_boroughs(
    km: NDArray[np.float64],
    borough: NDArray[np.int8],
    edges: NDArray[np.int32],
    n_parts: tuple[int, ...],
    fewest_tracts: int,
) -> NDArray[np.int32]:
    """Part of its borough that each tract is in, counted from 0."""
    part = np.empty(len(borough), dtype=np.int32)
    for index, most in enumerate(n_parts):
        own = np.flatnonzero(borough == index)
        inner = edges[(borough[edges] == index).all(axis=1)] - own[0]
        part[own] = split_contiguous(km[own], inner, max(1, min(most, len(own) // fewest_tracts)))
    return part


def _draw_fields(
    rng: np.random.Generator,
    borough: NDArray[np.int8],
    km: NDArray[np.float64],
    model: TractModel,
) -> NDArray[np.float64]:
    """Standard normal variables (n, 10) with the model's correlations over tracts and space.

    The tenth, for the year built, is independent of the nine of the model. Their means within
    boroughs and their overall covariance are then set to the model's exactly, so that every seed
    is calibrated and seeds differ in where things are.
    """
    n_tracts = len(km)
    scaled = km * np.sqrt(n_tracts / NYC_TRACTS)
    kernel = spatial_kernel(cdist(scaled, scaled), model.length_km)
    root = np.linalg.cholesky(kernel + 1e-8 * np.eye(n_tracts))
    spatial, target = np.eye(10) * _YEAR_BUILT_SPATIAL, np.eye(10)
    spatial[:9, :9], target[:9, :9] = model.spatial, model.correlation
    smooth = root @ rng.standard_normal((n_tracts, 10))
    own = rng.standard_normal((n_tracts, 10))
    fields = _match_moments(smooth, borough, spatial) + _match_moments(
        own, borough, target - spatial
    )
    return _match_moments(fields, borough, target)


def _match_moments(
    fields: NDArray[np.float64], borough: NDArray[np.int8], covariance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Recombine columns so that each borough's means are 0 and the covariance is as given."""
    centred = fields.copy()
    for index in range(len(BOROUGHS)):
        inside = borough == index
        centred[inside] -= centred[inside].mean(axis=0)
    drawn = np.linalg.cholesky(centred.T @ centred / len(centred))
    return np.linalg.solve(drawn, centred.T).T @ np.linalg.cholesky(covariance).T


def _scale_by_borough(
    fields: NDArray[np.float64], borough: NDArray[np.int8], model: TractModel
) -> NDArray[np.float64]:
    return model.mean[borough] + model.standard_deviation[borough] * fields


def _draw_residents(
    rng: np.random.Generator, borough: NDArray[np.int8], values: dict[str, NDArray[np.float64]]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """Population, households and whether an income is published, with parks and institutions."""
    n_tracts = len(borough)
    # An empty tract is likelier where its borough has more of them.
    rate = np.asarray(_EMPTY_RATE)[borough]
    counts = [round(rate.sum()), round(_TINY_RATE * n_tracts), round(_WITHHELD_RATE * n_tracts)]
    special = rng.choice(n_tracts, size=sum(counts), replace=False, p=rate / rate.sum())
    empty, tiny = np.split(special, np.cumsum(counts)[:-1])[:2]
    population, households = values["population"].copy(), values["households"].copy()
    drawn = np.exp(rng.normal(_TINY_LOG_MEAN, _TINY_LOG_DEVIATION, len(tiny)))
    has_households = rng.random(len(tiny)) < _TINY_HAS_HOUSEHOLDS
    households[tiny] *= drawn / population[tiny] * has_households
    population[tiny] = np.maximum(drawn, 6.0)
    population[empty] = households[empty] = 0.0
    has_income = np.ones(n_tracts, dtype=np.bool_)
    has_income[special] = False
    return (
        np.round(population).astype(np.int32),
        np.round(households).astype(np.int32),
        has_income,
    )


def _round_shares(
    values: dict[str, NDArray[np.float64]],
    population: NDArray[np.int32],
    households: NDArray[np.int32],
) -> dict[str, NDArray[np.float64]]:
    """Shares to four digits; NaN where there is nobody, or no household, to share."""
    names = ("white", "black", "hispanic", "asian", "renter", "bachelors")
    shares = {}
    for name in names:
        exists = households > 0 if name == "renter" else population > 0
        shares[f"share_{name}"] = np.where(exists, np.round(values[f"share_{name}"], 4), np.nan)
    return shares


def _draw_limited_english(
    rng: np.random.Generator, shares: dict[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Share of households in which nobody over 13 speaks English very well."""
    logit = (
        _LIMITED_ENGLISH["intercept"]
        + _LIMITED_ENGLISH["hispanic"] * shares["share_hispanic"]
        + _LIMITED_ENGLISH["asian"] * shares["share_asian"]
        + _LIMITED_ENGLISH["bachelors"] * (shares["share_bachelors"] - 0.38)
        + _LIMITED_ENGLISH_DEVIATION * rng.standard_normal(len(shares["share_white"]))
    )
    return np.where(
        np.isnan(shares["share_renter"]), np.nan, np.round(1.0 / (1.0 + np.exp(-logit)), 4)
    )


def _year_built(field: NDArray[np.float64], borough: NDArray[np.int8]) -> NDArray[np.int32]:
    year = np.asarray(_YEAR_BUILT)[borough] + np.asarray(_YEAR_BUILT_DEVIATION)[borough] * field
    return np.round(np.clip(year, *_YEAR_BUILT_RANGE)).astype(np.int32)


def _number_tracts(borough: NDArray[np.int8]) -> NDArray[np.str_]:
    """Eleven digits: state 36, county, and a synthetic number that counts up in the borough."""
    first = np.searchsorted(borough, np.arange(len(BOROUGHS)))
    number = (np.arange(len(borough)) - first[borough] + 1) * 100
    return np.array(
        [f"36{COUNTY_CODES[b]}{n:06d}" for b, n in zip(borough, number, strict=True)], dtype=np.str_
    )
