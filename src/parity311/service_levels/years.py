"""Years of arrivals and visits, as recorded or drawn anew week by week, for the simulation.

A drawn year takes every week from one of the recorded years at about the same place of the
calendar, arrivals and visits of all cells together: seasons stay, storms come and go with the weeks
they were in. What is judged is one year after a year of warm-up, each request followed in full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parity311.errors import EstimationError, InputError
from parity311.records.schema import SEVERITIES
from parity311.service_levels.designs import DISTRICT, LOOK_BACK, N_AGES, REVIEW_EVERY, Setting
from parity311.service_levels.losses import CODE_WEIGHTS
from parity311.service_levels.requests import Requests

YEAR_DAYS = 364
"""Fifty-two whole weeks."""
WEEK_DAYS = 7
WEEKS_AROUND = 2
"""A drawn week comes from up to so many weeks before or after it (assumed)."""


UNUSED_DAYS = 7
"""Days for which a visit that nobody wanted can still be made (assumed): recorded visits are what
was asked for, not all that could have been made."""


@dataclass(frozen=True)
class RecordedDays:
    """Requests and visits of every recorded day."""

    districts: tuple[str, ...]
    categories: tuple[str, ...]
    arrivals: NDArray[np.int64]
    """(T, B, K)"""
    visits: NDArray[np.int64]
    """(T, B, K) first visits made on each day"""
    weights: NDArray[np.float64]
    """(K,)"""

    @property
    def n_years(self) -> int:
        """Whole years of fifty-two weeks."""
        return len(self.arrivals) // YEAR_DAYS

    def year(self, number: int) -> RecordedDays:
        """One of the years, the first being 0."""
        days = slice(number * YEAR_DAYS, (number + 1) * YEAR_DAYS)
        return RecordedDays(
            self.districts, self.categories, self.arrivals[days], self.visits[days], self.weights
        )

    def first_years(self, n: int) -> RecordedDays:
        """The first n years."""
        days = slice(0, n * YEAR_DAYS)
        return RecordedDays(
            self.districts, self.categories, self.arrivals[days], self.visits[days], self.weights
        )

    def draw_year(self, rng: np.random.Generator) -> RecordedDays:
        """A year of weeks drawn from all years, each from about its place in the calendar."""
        n_weeks = YEAR_DAYS // WEEK_DAYS
        year = rng.integers(0, self.n_years, n_weeks)
        week = np.arange(n_weeks) + rng.integers(-WEEKS_AROUND, WEEKS_AROUND + 1, n_weeks)
        first = year * YEAR_DAYS + (week % n_weeks) * WEEK_DAYS
        days = (first[:, None] + np.arange(WEEK_DAYS)).ravel()
        return RecordedDays(
            self.districts, self.categories, self.arrivals[days], self.visits[days], self.weights
        )

    def setting(
        self,
        *,
        scope: str = DISTRICT,
        review_every: int = REVIEW_EVERY,
        capacity_factor: float = 1.0,
        n_ages: int = N_AGES,
        look_back: float = LOOK_BACK,
    ) -> Setting:
        """The first year replayed: a year to warm up, a year that counts, and its follow-up."""
        n_days = 2 * YEAR_DAYS + n_ages - 1
        days = np.arange(n_days) % min(YEAR_DAYS, len(self.arrivals))
        return self._setting(days, scope, review_every, capacity_factor, n_ages, look_back)

    def setting_as_it_was(
        self,
        before: RecordedDays,
        *,
        scope: str = DISTRICT,
        review_every: int = REVIEW_EVERY,
        capacity_factor: float = 1.0,
        n_ages: int = N_AGES,
        look_back: float = LOOK_BACK,
    ) -> Setting:
        """The first year after the last one `before`, which warms up; nothing is replayed.

        Requests count that are followed within the year: those on record are the same ones.
        """
        both = replace(
            self,
            arrivals=np.concatenate([before.arrivals[-YEAR_DAYS:], self.arrivals[:YEAR_DAYS]]),
            visits=np.concatenate([before.visits[-YEAR_DAYS:], self.visits[:YEAR_DAYS]]),
        )
        days = np.arange(2 * YEAR_DAYS)
        return both._setting(days, scope, review_every, capacity_factor, n_ages, look_back)

    def _setting(
        self,
        days: NDArray[np.int64],
        scope: str,
        review_every: int,
        capacity_factor: float,
        n_ages: int,
        look_back: float,
    ) -> Setting:
        slots = self.visits.sum(axis=(1, 2))[days] * capacity_factor
        # Whole visits whose running sum is that of the factor.
        capacity = np.diff(np.floor(np.cumsum(slots) + 1e-9), prepend=0.0).astype(np.int64)
        return Setting(
            districts=self.districts,
            categories=self.categories,
            arrivals=self.arrivals[days],
            capacity=capacity,
            weights=self.weights,
            review_every=(review_every,) * len(self.districts),
            scope=scope,
            look_back=look_back,
            n_ages=n_ages,
            unused_days=UNUSED_DAYS,
            warm_up_days=YEAR_DAYS,
            is_followed=True,
        )


def count_days(requests: Requests, first_day: int, last_day: int) -> RecordedDays:
    """Requests and first visits of each day in [first_day, last_day), days since 1970."""
    n_days = last_day - first_day
    if n_days < YEAR_DAYS:
        raise EstimationError(
            f"{n_days} days are on record; a design needs a whole year of {YEAR_DAYS}, give more "
            "months."
        )
    shape = (n_days, len(requests.districts), len(requests.categories))

    def count(day: NDArray, rows: NDArray) -> NDArray[np.int64]:
        found = np.zeros(shape, np.int64)
        inside = rows & (day >= first_day) & (day < last_day)
        place = (day[inside].astype(np.int64) - first_day, requests.district[inside],
                 requests.category[inside])  # fmt: skip
        np.add.at(found, place, 1)
        return found

    seen = np.isfinite(requests.wait_days)
    visit_day = requests.received_day + np.where(seen, requests.wait_days, 0.0)
    return RecordedDays(
        districts=requests.districts,
        categories=requests.categories,
        arrivals=count(requests.received_day, np.ones(requests.n, np.bool_)),
        visits=count(visit_day, seen),
        weights=category_weights(requests),
    )


def category_weights(requests: Requests) -> NDArray[np.float64]:
    """(K,) mean risk weight of each category's requests, by their codes."""
    by_code = np.array([CODE_WEIGHTS[code] for code in SEVERITIES])
    n_categories = len(requests.categories)
    total = np.bincount(requests.category, by_code[requests.code], n_categories)
    return total / np.maximum(np.bincount(requests.category, minlength=n_categories), 1)


def check_capacity(days: RecordedDays, floor: float, factor: float = 1.0) -> None:
    """Refuse a floor on the visited share that the visits there are cannot reach."""
    n_visits, n_requests = factor * float(days.visits.sum()), float(days.arrivals.sum())
    if n_visits < floor * n_requests:
        raise InputError(
            f"{n_visits:,.0f} visits cannot serve {floor:.0%} of {n_requests:,.0f} requests in "
            f"every cell; lower the floor to at most {n_visits / max(n_requests, 1.0):.0%}, or "
            "raise the capacity."
        )
