"""Incidents: something goes wrong in a building, is more or less grave, and lasts for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parity311.city.clock import month_bounds
from parity311.city.process import ComplaintProcess
from parity311.city.randomness import again_names, named_generator
from parity311.city.setting import CitySetting

_RAKING_ROUNDS = 40
_LOGISTIC_NORMAL = (16.0 * np.sqrt(3.0) / (15.0 * np.pi)) ** 2
"""A logit averaged over a normal of variance v is nearly the logit over √(1 + 0.346 v)."""

HEATING_MONTHS = (1, 2, 3, 4, 5, 10, 11, 12)
"""October to May: the city's heat season."""


@dataclass(frozen=True)
class Incidents:
    """Incidents as arrays of one length."""

    building: NDArray[np.int32]
    category: NDArray[np.int8]
    began: NDArray[np.float64]
    """Days since the epoch."""
    natural_end: NDArray[np.float64]
    """When it would end without the city."""
    hazard_index: NDArray[np.float64]
    actionable_chance: NDArray[np.float32]
    """Chance with which `is_actionable` was drawn."""
    is_actionable: NDArray[np.bool_]

    def take(self, index: NDArray) -> Incidents:
        """The incidents at these positions."""
        return Incidents(**{item.name: getattr(self, item.name)[index] for item in fields(self)})

    @staticmethod
    def concatenate(parts: list[Incidents]) -> Incidents:
        """All incidents of several batches."""
        names = [item.name for item in fields(Incidents)]
        return Incidents(
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        )


@dataclass(frozen=True)
class IncidentModel:
    """The incident process of one domain in one city."""

    process: ComplaintProcess
    setting: CitySetting
    enlargement: float = 1.0
    """Factor on the volume, for domains too rare to show anything in a small city."""
    replicate: int = 0
    """Which draw of the incidents this is; 0 is the city's own."""
    again_from: int = 0
    """Day from which a replicate's buildings have ups and downs of their own."""

    @cached_property
    def frailty(self) -> NDArray[np.float64]:
        """Standard normal score of each building's lasting log rate in this domain."""
        own = named_generator(self.setting.seed, self.process.slug, "frailty")
        share = self.process.places.neglect_share
        score = own.standard_normal(self.setting.buildings.n)
        return np.sqrt(share) * self.setting.neglect + np.sqrt(1.0 - share) * score

    @cached_property
    def building_weights(self) -> NDArray[np.float64]:
        """Each building's share of the city's expected incidents in an average year."""
        places, buildings = self.process.places, self.setting.buildings
        exposure = np.asarray(getattr(buildings, places.exposure), dtype=np.float64)
        exposure = np.maximum(exposure - places.exposure_offset, 0.0)
        own = exposure**places.exposure_power * np.exp(places.building_sd * self.frailty)
        inside = np.asarray(np.bincount(buildings.tract, own, self.setting.tracts.n), np.float64)
        factors = self._tract_factors(inside)
        weights = own * factors[buildings.tract]
        return weights / weights.sum()

    @cached_property
    def frailty_moments(self) -> tuple[float, float]:
        """Mean and sd of the frailty score among incidents, which happen where it is high."""
        mean = float(self.building_weights @ self.frailty)
        variance = float(self.building_weights @ (self.frailty - mean) ** 2)
        return mean, max(np.sqrt(variance), 1e-6)

    def _tract_factors(self, inside: NDArray[np.float64]) -> NDArray[np.float64]:
        """Factor per tract such that declared borough and quintile margins hold (raking).

        ``inside`` holds each tract's sum over its buildings before any factor.
        """
        places, tracts = self.process.places, self.setting.tracts
        generator = named_generator(self.setting.seed, self.process.slug, "tracts")
        log_factor = places.tract_sd * generator.standard_normal(tracts.n)
        for name, slope in places.slopes.items():
            log_factor += slope * self.setting.standardised(name)
        possible = generator.random(tracts.n) < places.tract_share
        if not possible.any():
            possible[:] = True
        factors = np.exp(log_factor) * possible
        margins = []
        if places.borough_shares is not None:
            margins.append((tracts.borough.astype(np.int64), np.asarray(places.borough_shares)))
        if places.quintile_rates is not None:
            margins.append(self._quintile_margin())
        for _ in range(_RAKING_ROUNDS if margins else 0):
            for group, target in margins:
                factors = factors * _margin_factors(factors * inside, group, target)
        return factors

    def _quintile_margin(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Groups and target totals: declared rate times renter households of each quintile."""
        tracts, rates = self.setting.tracts, self.process.places.quintile_rates
        renters = tracts.households * np.nan_to_num(tracts.share_renter)
        group = tracts.income_quintile.astype(np.int64) - 1
        known = np.where(group >= 0, renters, 0.0)
        totals = np.asarray(np.bincount(np.maximum(group, 0), known, 5), np.float64)
        return group, np.asarray(rates, np.float64) * totals

    def year_weights(self, year: int) -> NDArray[np.float64]:
        """Expected incidents of each building in one year, relative to the city's average year."""
        begins = month_bounds(year, 1)[0]
        return self._vary(self.building_weights, self.process.places.year_sd, begins, year)

    def month_weights(
        self, of_year: NDArray[np.float64], year: int, month: int
    ) -> NDArray[np.float64]:
        """The same in one month, cumulated over buildings: a bad spell lasts for weeks."""
        begins = month_bounds(year, month)[0]
        return np.cumsum(self._vary(of_year, self.process.places.month_sd, begins, year, month))

    def _vary(
        self, weights: NDArray[np.float64], sd: float, begins: int, *period: int
    ) -> NDArray[np.float64]:
        """Weights times a lognormal factor of mean one, drawn for each building and period."""
        if sd == 0.0:
            return weights
        replicate = self.replicate if begins >= self.again_from else 0
        names = (*period, *again_names(replicate))
        generator = named_generator(self.setting.seed, self.process.slug, "frailty", *names)
        score = generator.standard_normal(self.setting.buildings.n)
        return weights * np.exp(sd * score - 0.5 * sd**2)

    def expected_in_month(self, year: int, month: int) -> float:
        """Expected incidents of a month before the buildings' own ups and downs."""
        volume = self.process.volume
        shares = np.asarray(volume.month_shares)
        if year == 2020:
            shares = shares * np.asarray(volume.month_factors_2020)
        yearly = nearest_year(volume.complaints, year) / volume.complaints_per_incident
        return float(
            yearly * shares[month - 1] / shares.sum() * self.setting.scale * self.enlargement
        )

    def draw_month(self, year: int, month: int, cumulative: NDArray[np.float64]) -> Incidents:
        """Draw the incidents that begin in one month."""
        names = (self.process.slug, "incidents", year, month, *again_names(self.replicate))
        generator = named_generator(self.setting.seed, *names)
        expected = self.expected_in_month(year, month) * cumulative[-1]
        n = int(generator.poisson(expected))
        building = np.searchsorted(cumulative, generator.random(n) * cumulative[-1], "right")
        building = np.minimum(building, len(cumulative) - 1).astype(np.int32)
        began = self._draw_times(generator, year, month, n)
        category = self._draw_categories(generator, year, month, n)
        table = self.process.categories
        index = generator.standard_normal(n)
        hazard_index = np.array([entry.hazard for entry in table])[category] + index
        chance = self._actionable_chance(category, index, building)
        is_actionable = generator.random(n) < chance
        lifetime = self.process.hazard.lifetime_days * np.array(
            [entry.lifetime_factor for entry in table]
        )
        life = self.setting.departure.draw_lifetimes(generator, category)
        natural_end = began + lifetime[category] * life
        return Incidents(
            building=building,
            category=category,
            began=began,
            natural_end=natural_end,
            hazard_index=hazard_index,
            actionable_chance=chance.astype(np.float32),
            is_actionable=is_actionable,
        )

    def _draw_times(
        self, generator: np.random.Generator, year: int, month: int, n: int
    ) -> NDArray[np.float64]:
        first, last = month_bounds(year, month)
        slope = self.process.volume.temperature_slope
        weather = self.setting.weather
        window = slice(first - weather.first_day, last - weather.first_day)
        anomaly = weather.normal_f[window] - weather.temperature_f[window]
        cumulative = np.cumsum(np.exp(slope * anomaly))
        days = np.searchsorted(cumulative, generator.random(n) * cumulative[-1], "right")
        return first + np.minimum(days, last - first - 1) + generator.random(n)

    def category_weights(self, year: int, month: int) -> NDArray[np.float64]:
        """Share of each category among the incidents of a month."""
        weights = np.array([entry.share for entry in self.process.categories])
        if year == 2020:
            weights = weights * [entry.factor_2020 for entry in self.process.categories]
        if month not in HEATING_MONTHS:
            warm = weights * [not entry.needs_heating for entry in self.process.categories]
            weights = warm if warm.sum() > 0 else weights
        return weights / weights.sum()

    def _draw_categories(
        self, generator: np.random.Generator, year: int, month: int, n: int
    ) -> NDArray[np.int8]:
        cumulative = np.cumsum(self.category_weights(year, month))
        drawn = np.searchsorted(cumulative, generator.random(n), "right")
        return np.minimum(drawn, len(cumulative) - 1).astype(np.int8)

    def _actionable_chance(
        self,
        category: NDArray[np.int8],
        index: NDArray[np.float64],
        building: NDArray[np.int32],
    ) -> NDArray[np.float64]:
        """The declared share of the category, more where an incident is grave or recurrent."""
        hazard = self.process.hazard
        variance = hazard.hazard_slope**2 + hazard.neglect_slope**2
        share = np.array([entry.actionable for entry in self.process.categories])
        share = np.clip(share, 1e-4, 1.0 - 1e-4)
        intercept = np.log(share / (1.0 - share)) * np.sqrt(1.0 + _LOGISTIC_NORMAL * variance)
        mean, sd = self.frailty_moments
        recurrence = (self.frailty[building] - mean) / sd
        logit = (
            intercept[category] + hazard.hazard_slope * index + hazard.neglect_slope * recurrence
        )
        return 1.0 / (1.0 + np.exp(-logit))


def _margin_factors(
    mass: NDArray[np.float64], group: NDArray[np.int64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Factors that give each group its share of the mass; group −1 keeps its own."""
    known = group >= 0
    sums = np.bincount(group[known], mass[known], len(target))
    goal = np.where(sums > 0, target, 0.0)
    goal = goal / goal.sum() * sums.sum()
    factors = np.divide(goal, sums, out=np.ones(len(target)), where=sums > 0)
    return np.where(known, factors[np.maximum(group, 0)], 1.0)


def nearest_year(table: Mapping[int, float], year: int) -> float:
    """Value of a year, or of the nearest year the table has."""
    return float(table[min(table, key=lambda known: (abs(known - year), known))])
