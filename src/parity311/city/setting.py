"""What all domains of a city share: places, weather, scenario, and how readily people report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from parity311.city.clock import Weather
from parity311.city.departures import DEFAULT, Departure
from parity311.city.places import Buildings, Tracts
from parity311.city.randomness import named_generator

INCOME_SLOPE = 0.019
WHITE_SLOPE = 0.051
"""Log reporting rate per standard deviation of income and of the White share, jointly (Liu,
Bhandaram and Garg, New York parks)."""

TRACT_SD = 0.26
"""Standard deviation of log reporting rate between tracts beyond the covariates (same source)."""

SMOOTH_SHARE = 0.6
"""Share of the tract variance that is smooth over neighbours (assumed; the source uses an ICAR term
plus independent effects without giving the split)."""

COMMON_SHARE = 0.75
"""Share of the tract variance common to all domains: who reports heat also reports elevators
(assumed)."""

STRONG_RATIO = 3.0
"""Reporting rate of the fifth income quintile over the first in scenario strong (the widest ratio
between neighbourhoods in the same source)."""

_SMOOTHING_STEPS = 12
"""Averagings over neighbours that make white noise a field with a range of a few tracts."""


@dataclass(frozen=True)
class CitySetting:
    """A city before anything happens in it."""

    seed: int
    tracts: Tracts
    buildings: Buildings
    weather: Weather
    participation: str
    capacity: str
    date_from: date
    date_to: date
    scale: float
    """Size of the city against the whole of New York (1.0)."""
    departure: Departure = DEFAULT
    """In what the city departs from what estimators assume."""

    @cached_property
    def neglect(self) -> NDArray[np.float64]:
        """Standard normal score per building of how badly it is kept, common to all domains."""
        generator = named_generator(self.seed, "neglect")
        return generator.standard_normal(self.buildings.n)

    @cached_property
    def building_ids(self) -> pa.Array:
        """Id of every building."""
        return self.buildings.building_ids(self.tracts)

    @cached_property
    def stratum(self) -> NDArray[np.int64]:
        """Stratum of each tract: income quintiles from 0 on, 5 where the income is not known."""
        quintile = self.tracts.income_quintile.astype(np.int64)
        return np.where(quintile > 0, quintile - 1, 5)

    @cached_property
    def zip_numbers(self) -> NDArray[np.int64]:
        """Number of each tract's postal code among those of the city."""
        return np.unique(self.tracts.zip, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def common_field(self) -> NDArray[np.float64]:
        """Unit-variance tract field of readiness to report, common to all domains."""
        return draw_field(named_generator(self.seed, "readiness"), self.tracts)

    def standardised(self, name: str) -> NDArray[np.float64]:
        """Tract covariate in household-weighted standard deviations; 0 where not published."""
        values = np.asarray(getattr(self.tracts, name), dtype=np.float64)
        if name == "median_income":
            values = np.log(values)
        known = np.isfinite(values)
        weights = np.where(known, self.tracts.households, 0.0)
        weights = weights / weights.sum()
        filled = np.where(known, values, 0.0)
        mean = weights @ filled
        sd = np.sqrt(weights @ (filled - mean) ** 2)
        return np.where(known, (filled - mean) / sd, 0.0)

    def log_reporting_effect(self, domain: str) -> NDArray[np.float64]:
        """Tract effect on the log reporting rate of a domain: covariates plus spatial field.

        Its household-weighted mean is zero in both scenarios, and the field has the same sd and no
        trend over quintiles, so that the scenarios differ in the gradient alone.
        """
        own = draw_field(named_generator(self.seed, domain, "readiness"), self.tracts)
        field = np.sqrt(COMMON_SHARE) * self.common_field + np.sqrt(1.0 - COMMON_SHARE) * own
        field = _without_trend(field, self.tracts)
        covariates = (
            self._strong_gradient() if self.participation == "strong" else self._measured_gradient()
        )
        weights = self.tracts.households / self.tracts.households.sum()
        return covariates - weights @ covariates + TRACT_SD * field

    def _measured_gradient(self) -> NDArray[np.float64]:
        income = self.standardised("median_income")
        return INCOME_SLOPE * income + WHITE_SLOPE * self.standardised("share_white")

    def _strong_gradient(self) -> NDArray[np.float64]:
        quintile = self.tracts.income_quintile.astype(np.float64)
        steps = np.where(quintile > 0, quintile - 3.0, 0.0)
        return np.log(STRONG_RATIO) / 4.0 * steps


def draw_field(generator: np.random.Generator, tracts: Tracts) -> NDArray[np.float64]:
    """Tract field of unit variance: smooth over neighbours plus independent."""
    smooth = generator.standard_normal(tracts.n)
    independent = generator.standard_normal(tracts.n)
    first, second = tracts.edges[:, 0], tracts.edges[:, 1]
    degree = np.bincount(tracts.edges.ravel(), minlength=tracts.n)
    for _ in range(_SMOOTHING_STEPS):
        around = np.bincount(first, smooth[second], tracts.n)
        around += np.bincount(second, smooth[first], tracts.n)
        smooth = np.where(degree > 0, 0.5 * smooth + 0.5 * around / np.maximum(degree, 1), smooth)
    smooth = (smooth - smooth.mean()) / max(smooth.std(), 1e-12)
    return np.sqrt(SMOOTH_SHARE) * smooth + np.sqrt(1.0 - SMOOTH_SHARE) * independent


def _without_trend(field: NDArray[np.float64], tracts: Tracts) -> NDArray[np.float64]:
    """Field with the same mean in every income quintile, scaled to unit variance."""
    flat = field.copy()
    for quintile in range(6):
        inside = tracts.income_quintile == quintile
        if inside.any():
            weights = np.maximum(tracts.households[inside], 1.0)
            flat[inside] -= np.average(flat[inside], weights=weights)
    return flat / max(flat.std(), 1e-12)
