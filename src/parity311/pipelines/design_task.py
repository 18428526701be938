"""What `parity311 sla design` is asked for, and the records it is answered from, cut into years."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import partial

import numpy as np
from numpy.typing import NDArray

from parity311.errors import EstimationError, InputError, unknown_name
from parity311.pipelines.audit_records import ESTIMATOR, estimate_incidents
from parity311.records.schema import SEVERITIES
from parity311.records.store import Records
from parity311.reporting.estimate import check_estimator
from parity311.service_levels.designs import DISTRICT, N_AGES, REVIEW_EVERY, Setting
from parity311.service_levels.losses import Need, visited_shares
from parity311.service_levels.promises import FOLLOWED_DAYS
from parity311.service_levels.requests import (
    DISTRICTS,
    EPOCH,
    Requests,
    count_cells,
    read_requests,
    visits_after,
)
from parity311.service_levels.score import OURS, check_losses
from parity311.service_levels.years import YEAR_DAYS, RecordedDays, check_capacity, count_days

CHOICES = ("efficient", "balanced", "equitable")
LEAST_TARGET_YEARS = 2


@dataclass(frozen=True)
class DesignConfig:
    """What a design depends on."""

    records: str
    domain: str
    districts: str = "borough"
    scope: str = DISTRICT
    losses: str = OURS
    floor: float = 0.2
    """least visited share of every cell"""
    capacity_factor: float = 1.0
    review_every: int | None = None
    """days between reviews of a backlog; none: as fits the waits on record best"""
    share: float = 0.8
    confidence: float = 0.9
    generations: int = 60
    population: int = 64
    later_draws: int = 10
    """Years drawn from the later one that a design is judged on"""
    seed: int = 0
    targets: tuple[tuple[str, int], ...] = ()
    """(category, days) that the share must be visited within, in every district"""
    fewest: int = 100
    estimator: str = ESTIMATOR
    """How complaints become incidents"""


@dataclass(frozen=True)
class DesignTask:
    """A domain on record, split into years to search on and a later one to judge by."""

    requests: Requests
    past: RecordedDays
    later: RecordedDays
    visited: NDArray[np.float64]
    """(B, K) recorded visited share of the past years"""
    need: Need
    need_words: str
    codes: tuple[str, ...]
    later_from: date

    @property
    def waits(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Visits on record of the past years after at least so many days, and requests followed."""
        own = Requests.joined(self.past_requests)
        judged = np.flatnonzero(own.followed_days >= N_AGES - 1)
        return visits_after(own, N_AGES), count_cells(own, judged)

    @property
    def later_requests(self) -> Requests:
        """The recorded requests of the later year that could be followed in it."""
        start = self.later_from.toordinal() - EPOCH.toordinal()
        day = self.requests.received_day
        end = start + YEAR_DAYS - (N_AGES - 1)
        return self.requests.take(np.flatnonzero((day >= start) & (day < end)))

    @property
    def past_requests(self) -> list[Requests]:
        """The recorded requests of each past year."""
        day = self.requests.received_day
        end = self.later_from.toordinal() - EPOCH.toordinal()
        starts = [end - (self.past.n_years - y) * YEAR_DAYS for y in range(self.past.n_years)]
        return [
            self.requests.take(np.flatnonzero((day >= start) & (day < start + YEAR_DAYS)))
            for start in starts
        ]


def check_config(config: DesignConfig, choice: str) -> None:
    """Refuse what cannot work before anything is read."""
    check_losses(config.losses)
    check_estimator(config.estimator)
    if choice not in CHOICES:
        raise unknown_name("choice", choice, CHOICES)
    if config.districts not in DISTRICTS:
        raise unknown_name("districts", config.districts, DISTRICTS)
    if not 0.0 <= config.floor < 1.0 or not 0.0 < config.share < 1.0:
        raise InputError(
            f"Floor {config.floor} and share {config.share} were given; both must lie between 0 "
            "and 1."
        )
    for category, days in config.targets:
        if not 0 <= days <= FOLLOWED_DAYS:
            raise InputError(
                f"{category!r} has a target of {days} days; a clock runs from 0 to "
                f"{FOLLOWED_DAYS}, give days between."
            )


def read_task(records: Records, config: DesignConfig) -> DesignTask:
    """Read a domain's requests and split its years: the last whole one is later."""
    requests = read_requests(records, config.domain, districts=config.districts)
    requests = requests.pooled(config.fewest)
    for category, _ in config.targets:
        if category not in requests.categories:
            raise unknown_name("category", category, requests.categories)
    first, last = (day.toordinal() - EPOCH.toordinal() for day in records.window)
    days = count_days(requests, first, last)
    if days.n_years < LEAST_TARGET_YEARS:
        raise EstimationError(
            f"{records.folder} has {days.n_years} whole year of {config.domain!r}; a design needs "
            f"{LEAST_TARGET_YEARS}, one to search on and a later one to judge by. Give more months."
        )
    n_past = days.n_years - 1
    check_capacity(days.first_years(n_past), config.floor, config.capacity_factor)
    start = first + n_past * YEAR_DAYS
    before = np.flatnonzero(requests.received_day < start)
    shares = visited_shares(visits_after(requests.take(before), 128), count_cells(requests, before))
    need, words = _read_need(records, requests, config)
    codes = [np.bincount(requests.code[requests.category == k], minlength=4).argmax()
             for k in range(len(requests.categories))]  # fmt: skip
    return DesignTask(
        requests, days.first_years(n_past), days.year(n_past), shares[..., 0], need, words,
        tuple(SEVERITIES[code] for code in codes), date.fromordinal(start + EPOCH.toordinal()),
    )  # fmt: skip


def _read_need(records: Records, requests: Requests, config: DesignConfig) -> tuple[Need, str]:
    """Reported share of incidents by district, and the strata of each cell's requests."""
    first, last = records.window
    draws, words = estimate_incidents(
        records, config.domain, first, last, config.seed, config.estimator
    )
    shape = (len(requests.districts), len(requests.categories))
    held = np.zeros((*shape, len(requests.strata)))
    np.add.at(held, (requests.district, requests.category, requests.stratum), 1.0)
    shares = held / np.maximum(held.sum(axis=-1, keepdims=True), 1.0)
    reported = np.ones(shape)
    if draws is not None:
        column = "borough" if config.districts == "borough" else "community_board"
        names = [str(one) for one in records.table("tracts")[column].to_pylist()]
        place = {name: b for b, name in enumerate(requests.districts)}
        district = np.array([place.get(name, -1) for name in names])
        incidents = np.asarray(draws, np.float64).mean(axis=0)
        total = np.bincount(district[district >= 0], incidents[district >= 0], shape[0])
        cases = np.bincount(requests.district, minlength=shape[0])
        ratio = np.clip(cases / np.maximum(total, 1.0), 0.05, 1.0)
        reported = np.repeat(ratio[:, None], shape[1], axis=1)
    return Need(reported, requests.strata, shares), words


def read_setting(
    days: RecordedDays, config: DesignConfig, before: RecordedDays | None = None
) -> Setting:
    """What a design is played in: the days' arrivals and visits, as the configuration cuts them.

    With the years `before`, the year as it was; else replayed.
    """
    make = days.setting if before is None else partial(days.setting_as_it_was, before)
    return make(
        scope=config.scope,
        review_every=config.review_every or REVIEW_EVERY,
        capacity_factor=config.capacity_factor,
    )
