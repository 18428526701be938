"""A service-level design: how visits are split between districts and categories, what is dropped.

A design is made of whole numbers: shares in parts of `Setting.n_parts`, retention in parts of 256.
So every count of the simulation is exact in single precision while fewer than 65,536 wait in a
cell, and the plain Python simulation gives the same counts to the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity311.errors import InputError

KEPT_PARTS = 256
"""A retention of 256 drops nobody."""
EXACT = 2**22
"""Whole numbers up to here are divided exactly in single precision (see `simulate.HALF`)."""
MOST_PARTS = 4096
LEAST_BUDGET, LEAST_PRIORITY, LEAST_RETENTION = 0.01, 0.0005, 0.10
"""Floors of shares and retention (Liu and Garg, sla_design)."""
LOOK_BACK = 0.15
"""Share of the later part of a backlog that a day's choice reaches into (Liu and Garg)."""
N_AGES = 128
"""Days of waiting told apart; the last one stands for all longer ones. More than the longest
promise: with 32 the loss was 4 % off (facts of issue 23)."""
REVIEW_EVERY = 28
"""Days between two reviews of a district's backlog, where nothing else is said (assumed)."""
DISTRICT, CITY = "district", "city"
SCOPES = (DISTRICT, CITY)
"""Whether visits are split between districts first, unused ones lost, or over all cells at once."""


class ServiceDesign(NamedTuple):
    """Designs side by side: the last axis P runs over them; whole numbers as float32."""

    budget: Any
    """(B, P) parts of the day's visits each district gets, summing to n_parts"""
    priority: Any
    """(B, K, P) parts of a district's visits each category gets; of the city's where it is one"""
    retention: Any
    """(B, K, P) parts of 256 of the waiting requests that a review keeps"""

    @property
    def n(self) -> int:
        """How many designs."""
        return int(self.budget.shape[-1])

    def take(self, places: Any) -> ServiceDesign:
        """Some of the designs, in this order."""
        return ServiceDesign(*(np.asarray(part)[..., places] for part in self))


@dataclass(frozen=True)
class Setting:
    """What every design of a city faces: arrivals, visits and the rules that are not designed."""

    districts: tuple[str, ...]
    categories: tuple[str, ...]
    """Gravest first: what is left of a day's visits is given in this order."""
    arrivals: NDArray[np.int64]
    """(T, B, K) requests received each day"""
    capacity: NDArray[np.int64]
    """(T,) visits there are each day"""
    weights: NDArray[np.float64]
    """(K,) risk weight of a request"""
    review_every: tuple[int, ...]
    """days between reviews, by district"""
    scope: str = DISTRICT
    look_back: float = LOOK_BACK
    n_ages: int = N_AGES
    warm_up_days: int = 0
    """Requests received before are served but not judged."""
    unused_days: int = 0
    """Days for which a visit that nobody could use can still be made, anywhere."""
    is_followed: bool = False
    """Judge only requests that can be followed for n_ages − 1 days; a later visit is none."""

    def __post_init__(self) -> None:
        _check_setting(self)

    @property
    def n_days(self) -> int:
        """Days simulated."""
        return len(self.capacity)

    @property
    def shape(self) -> tuple[int, int]:
        """(B, K)."""
        return len(self.districts), len(self.categories)

    @property
    def judged(self) -> tuple[int, int]:
        """First day, and the day after the last, whose requests count."""
        last = self.n_days - (self.n_ages - 1 if self.is_followed else 0)
        return self.warm_up_days, last

    @cached_property
    def n_received(self) -> NDArray[np.int64]:
        """(B, K) requests that count."""
        first, last = self.judged
        return self.arrivals[first:last].sum(axis=0)

    @cached_property
    def recent(self) -> NDArray[np.int64]:
        """(T,) visits of the days before, of which the unused ones can still be made."""
        upto = np.append(0, np.cumsum(self.capacity))
        days = np.arange(self.n_days)
        return upto[days] - upto[np.maximum(days - self.unused_days, 0)]

    @property
    def n_parts(self) -> int:
        """Parts that shares are counted in: as fine as stays exact with so many visits a day."""
        most = max(int((self.capacity + self.recent).max()), 1)
        return min(MOST_PARTS, 2 ** int(np.log2(EXACT / most)))

    @property
    def n_numbers(self) -> int:
        """Numbers between 0 and 1 that describe a design."""
        n_districts, n_categories = self.shape
        budgets = n_districts if self.scope == DISTRICT else 0
        return budgets + 2 * n_districts * n_categories


def _check_setting(setting: Setting) -> None:
    n_districts, n_categories = setting.shape
    if setting.scope not in SCOPES:
        raise InputError(f"Scope {setting.scope!r} was given; allowed: {', '.join(SCOPES)}.")
    if setting.arrivals.shape != (setting.n_days, n_districts, n_categories):
        raise InputError(
            f"Arrivals have shape {setting.arrivals.shape} for {setting.n_days} days, "
            f"{n_districts} districts and {n_categories} categories; give one count for each."
        )
    if (setting.arrivals < 0).any() or (setting.capacity < 0).any():
        raise InputError("A count of requests or visits is below zero; give counts.")
    if not 0.0 <= setting.look_back <= 1.0 or setting.n_ages < 2:
        raise InputError(
            f"Look-back {setting.look_back} and {setting.n_ages} ages were given; allowed are 0 to "
            "1, and at least 2 ages."
        )
    if setting.unused_days < 0:
        raise InputError(
            f"Unused visits are kept for {setting.unused_days} days; give 0 or more days."
        )
    if len(setting.review_every) != n_districts or min(setting.review_every) < 1:
        raise InputError(
            f"Reviews every {setting.review_every} days for {n_districts} districts; give each "
            "district a number of days, at least 1."
        )
    first, last = setting.judged
    if not 0 <= first < last:
        raise InputError(
            f"{setting.n_days} days with {setting.warm_up_days} of warm-up and "
            f"{setting.n_ages} ages leave no request to judge; give more days."
        )
    if setting.warm_up_days and not setting.is_followed:
        raise InputError(
            f"{setting.warm_up_days} days of warm-up were given, but requests are not followed; "
            "follow them, or judge them from the first day."
        )
    longest = int(setting.arrivals.sum(axis=0).max())
    if longest >= EXACT:
        raise InputError(
            f"A cell receives {longest:,} requests in {setting.n_days} days, more than the "
            f"{EXACT:,} that can be counted; split the category or the district, or give fewer "
            "days."
        )


def design_from_numbers(setting: Setting, numbers: NDArray[np.float64]) -> ServiceDesign:
    """Designs from points of the unit cube, (P, n_numbers); shares are normalised with floors."""
    n_districts, n_categories = setting.shape
    given = np.asarray(numbers, np.float64)
    if given.ndim != 2 or given.shape[1] != setting.n_numbers:
        raise InputError(
            f"Designs of shape {given.shape} were given; give rows of {setting.n_numbers} numbers."
        )
    start = n_districts if setting.scope == DISTRICT else 0
    n_cells = n_districts * n_categories
    shares = given[:, start : start + n_cells].reshape(-1, n_districts, n_categories)
    kept = given[:, start + n_cells :].reshape(-1, n_districts, n_categories)
    budget = given[:, :start] if start else np.ones((len(given), n_districts))
    priority = (
        to_parts(shares, setting.n_parts, LEAST_PRIORITY)
        if setting.scope == DISTRICT
        else to_parts(shares.reshape(len(given), -1), setting.n_parts, LEAST_PRIORITY).reshape(
            shares.shape
        )
    )
    retention = np.rint(KEPT_PARTS * np.clip(kept, LEAST_RETENTION, 1.0))
    last = lambda values: np.moveaxis(values, 0, -1).astype(np.float32)  # noqa: E731
    return ServiceDesign(
        last(to_parts(budget, setting.n_parts, LEAST_BUDGET)), last(priority), last(retention)
    )


def to_parts(shares: NDArray[np.float64], n_parts: int, least: float) -> NDArray[np.float64]:
    """Shares on the last axis as whole parts that sum to n_parts, each at least one part.

    What rounding leaves goes to the largest share.
    """
    raised = np.maximum(np.asarray(shares, np.float64), least)
    exact = n_parts * raised / raised.sum(axis=-1, keepdims=True)
    parts = np.maximum(np.rint(exact), 1.0)
    largest = np.expand_dims(parts.argmax(axis=-1), -1)
    left = n_parts - parts.sum(axis=-1, keepdims=True)
    np.put_along_axis(parts, largest, np.take_along_axis(parts, largest, -1) + left, -1)
    return parts


def proportional_numbers(setting: Setting, retention: float = 1.0) -> NDArray[np.float64]:
    """(3, n_numbers) rules without a search: by requests, by weighted requests, by weight alone.

    They drop nobody, or keep one share of every cell at a review. Where visits are scarce and
    nobody is dropped, only requests that have waited longer than anybody is followed are visited.
    """
    received = setting.arrivals.sum(axis=0).astype(np.float64)
    rows = []
    for cell in (
        received,
        received * setting.weights,
        np.broadcast_to(setting.weights, received.shape),
    ):
        rows.append(
            numbers_of(setting, received.sum(axis=1), cell, np.full(received.shape, retention))
        )
    return np.array(rows)


def numbers_of(
    setting: Setting,
    budget: NDArray[np.float64],
    priority: NDArray[np.float64],
    retention: NDArray[np.float64],
) -> NDArray[np.float64]:
    """A point (n_numbers,) of the unit cube from shares (B,), (B, K) of any scale and retention."""
    scaled = lambda values: values / max(float(np.max(values)), 1e-12)  # noqa: E731
    shares = (
        np.stack([scaled(row) for row in priority])
        if setting.scope == DISTRICT
        else scaled(priority)
    )
    start = [scaled(budget)] if setting.scope == DISTRICT else []
    return np.concatenate([*start, shares.ravel(), np.asarray(retention, np.float64).ravel()])
