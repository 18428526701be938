"""Reports: while an incident is open, residents say so, some sooner and more often than others.

The first report comes after an exponential wait at the incident's own rate, further ones are a
Poisson process until it ends. Nothing else decides whether an incident is reported: it goes
unreported where the rate is low and its life short. What is taken down at intake (code, category,
language) is noisier where more households speak limited English.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from parity311.city.clock import WeekClock
from parity311.city.departures import STEADY, Readiness
from parity311.city.incidents import IncidentModel, Incidents
from parity311.city.process import ComplaintProcess, Flag
from parity311.city.randomness import again_names, named_generator
from parity311.city.setting import CitySetting
from parity311.records.schema import CHANNELS

LANGUAGES = ("en", "es", "zh", "ru", "bn", "other")

_CHANNEL_SHARES = (0.58, 0.38, 0.04)
"""Phone, online and mobile among HPD reports with a known channel (computed, 1,935 rows)."""
_ONLINE_BACHELORS_SLOPE = 0.45
"""Log odds of online or mobile per sd of the share with a degree (assumed)."""
_OTHER_LANGUAGE_FACTOR = 0.8
"""Share of limited-English households that report in their language (assumed)."""
_ERROR_SHARE = 0.02
_ERROR_LIMITED_ENGLISH = 0.15
"""Chance that intake records the wrong category, at none and per unit share of limited English
(assumed; the paper reports noisier records there without a figure)."""
_CODE_NOISE_LIMITED_ENGLISH = 1.5
"""Factor added to the code noise per unit share of limited English (assumed, same reason)."""
_PROACTIVE_DELAY_DAYS = 0.2
"""Mean delay until the agency writes up what it found itself (assumed)."""


@dataclass(frozen=True)
class Reports:
    """Reports as arrays of one length, before the agency has seen any of them."""

    incident: NDArray[np.int64]
    """Position of its incident."""
    time: NDArray[np.float64]
    """Days since the epoch."""
    category: NDArray[np.int8]
    """As recorded."""
    code: NDArray[np.int8]
    """0 A … 3 D, as recorded."""
    channel: NDArray[np.int8]
    language: NDArray[np.int8]
    flags: NDArray[np.bool_]
    """(n, n_flags)"""

    def take(self, index: NDArray) -> Reports:
        """The reports at these positions."""
        return Reports(**{item.name: getattr(self, item.name)[index] for item in fields(self)})

    @staticmethod
    def concatenate(parts: list[Reports]) -> Reports:
        """All reports of several batches."""
        names = [item.name for item in fields(Reports)]
        return Reports(
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        )


@dataclass(frozen=True)
class ReportModel:
    """The reporting process of one domain in one city."""

    incidents: IncidentModel

    @property
    def process(self) -> ComplaintProcess:
        """The domain's declaration."""
        return self.incidents.process

    @property
    def setting(self) -> CitySetting:
        """The city."""
        return self.incidents.setting

    @cached_property
    def clock(self) -> WeekClock:
        """Hours in which people report."""
        reporting = self.process.reporting
        return WeekClock.from_shares(reporting.hour_shares, reporting.weekday_shares)

    @cached_property
    def tract_effect(self) -> NDArray[np.float64]:
        """Log factor of each tract on the reporting rate."""
        return self.setting.log_reporting_effect(self.process.slug)

    @cached_property
    def code_thresholds(self) -> NDArray[np.float64]:
        """Hazard index plus noise above which the code is A, B, C, for the declared shares."""
        hazard, tilt = self.process.hazard, self.process.reporting.hazard_slope
        table = self.process.categories
        # Grave incidents are reported more often: among reports the index is tilted by the slope.
        tilts = np.array([0.0 if entry.is_proactive else tilt for entry in table])
        means = np.array([entry.hazard for entry in table])
        weights = np.array([entry.share for entry in table]) * np.exp(tilts * means)
        means = means + tilts
        tracts = self.setting.tracts
        limited = np.average(np.nan_to_num(tracts.share_limited_english), weights=tracts.households)
        noise = hazard.code_noise_sd * (1.0 + _CODE_NOISE_LIMITED_ENGLISH * limited)
        grid = np.linspace(means.min() - 8.0, means.max() + 8.0, 8001)
        sd = np.sqrt(1.0 + noise**2)
        above = 1.0 - (weights / weights.sum()) @ ndtr((grid - means[:, None]) / sd)
        return np.interp(-np.cumsum(hazard.code_shares)[:3], -above, grid)

    def rates(self, incidents: Incidents) -> NDArray[np.float64]:
        """Reports per day of each incident while it is open."""
        reporting, buildings = self.process.reporting, self.setting.buildings
        factor = np.array([entry.rate_factor for entry in self.process.categories])
        units = np.maximum(buildings.units[incidents.building], 1)
        log_rate = (
            np.log(reporting.rate_per_day * factor[incidents.category])
            + self.tract_effect[buildings.tract[incidents.building]]
            + reporting.units_power * np.log(units / reporting.reference_units)
            + reporting.hazard_slope * incidents.hazard_index
        )
        return np.exp(log_rate)

    def readiness(self, incidents: Incidents) -> Readiness:
        """How the rate of each incident's reports goes with its age."""
        fading = self.setting.departure.fading
        if fading is None:
            return STEADY
        factor = np.array([entry.lifetime_factor for entry in self.process.categories])
        life = self.process.hazard.lifetime_days * factor[incidents.category]
        return Readiness(fading * life, 1.0 + 1.0 / fading)

    def draw_month(self, incidents: Incidents, year: int, month: int) -> Reports:
        """Draw every report that the incidents begun in one month would ever get."""
        again = again_names(self.incidents.replicate)
        names = (self.process.slug, "reports", year, month, *again)
        generator = named_generator(self.setting.seed, *names)
        incident, time = self._draw_times(generator, incidents)
        proactive = np.array([entry.is_proactive for entry in self.process.categories])
        names = (self.process.slug, "intake", year, month, *again)
        intake = named_generator(self.setting.seed, *names)
        return self._take_down(intake, incidents, incident, time, proactive, (year, month))

    def _draw_times(
        self, generator: np.random.Generator, incidents: Incidents
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Incident and time of every report: first reports, then further ones."""
        rate = self.rates(incidents)
        n = len(rate)
        start = self.clock.to_operational(incidents.began)
        end = self.clock.to_operational(incidents.natural_end)
        readiness = self.readiness(incidents)
        first = start + readiness.wait(generator.standard_exponential(n) / rate)
        is_silent = generator.random(n) < self.process.reporting.zero_inflation
        left = readiness.days_between(start, first, end)
        further = generator.poisson(np.where(first < end, rate * left, 0.0))
        further = np.where(is_silent, 0, further)
        flagged = np.array([entry.is_proactive for entry in self.process.categories])
        by_agency = flagged[incidents.category]
        first = np.where(
            by_agency, start + _PROACTIVE_DELAY_DAYS * generator.standard_exponential(n), first
        )
        further = np.where(by_agency, 0, further)
        reported = np.flatnonzero(by_agency | (first < end))
        again = np.repeat(np.arange(n), further)
        times = (start[again], first[again], end[again])
        later = readiness.take(again).time_between(generator.random(len(again)), *times)
        operational = np.concatenate([first[reported], later])
        return np.concatenate([reported, again]), self.clock.to_clock(operational)

    def _take_down(
        self,
        generator: np.random.Generator,
        incidents: Incidents,
        incident: NDArray[np.int64],
        time: NDArray[np.float64],
        proactive: NDArray[np.bool_],
        month: tuple[int, int],
    ) -> Reports:
        """What intake writes down about each report."""
        n, tracts = len(incident), self.setting.tracts
        tract = self.setting.buildings.tract[incidents.building[incident]]
        limited = np.nan_to_num(tracts.share_limited_english)[tract]
        category = incidents.category[incident].copy()
        by_agency = proactive[category]
        is_wrong = generator.random(n) < _ERROR_SHARE + _ERROR_LIMITED_ENGLISH * limited
        weights = np.where(proactive, 0.0, self.incidents.category_weights(*month))
        guess = _draw_from(generator, weights, n)
        category = np.where(is_wrong & ~by_agency, guess, category).astype(np.int8)
        noise = self.process.hazard.code_noise_sd * (1.0 + _CODE_NOISE_LIMITED_ENGLISH * limited)
        seen = incidents.hazard_index[incident] + noise * generator.standard_normal(n)
        code = 3 - (seen[:, None] > self.code_thresholds).sum(axis=1).astype(np.int8)
        return Reports(
            incident=incident,
            time=time,
            category=category,
            code=code.astype(np.int8),
            channel=self._draw_channels(generator, tract, by_agency),
            language=self._draw_languages(generator, tract, limited, by_agency),
            flags=self._draw_flags(generator, incidents.is_actionable[incident]),
        )

    def _draw_channels(
        self, generator: np.random.Generator, tract: NDArray, by_agency: NDArray[np.bool_]
    ) -> NDArray[np.int8]:
        degrees = self.setting.standardised("share_bachelors")[tract]
        phone = expit(
            np.log(_CHANNEL_SHARES[0] / (1 - _CHANNEL_SHARES[0])) * np.ones(len(tract))
            - _ONLINE_BACHELORS_SLOPE * degrees
        )
        draw = generator.random(len(tract))
        online = _CHANNEL_SHARES[1] / (_CHANNEL_SHARES[1] + _CHANNEL_SHARES[2])
        channel = np.where(draw < phone, 0, np.where(draw < phone + (1 - phone) * online, 1, 2))
        return np.where(by_agency, CHANNELS.index("OTHER"), channel).astype(np.int8)

    def _draw_languages(
        self,
        generator: np.random.Generator,
        tract: NDArray,
        limited: NDArray[np.float64],
        by_agency: NDArray[np.bool_],
    ) -> NDArray[np.int8]:
        """English, or the language of one of the tract's groups (weights assumed)."""
        tracts = self.setting.tracts
        white, asian = np.nan_to_num(tracts.share_white), np.nan_to_num(tracts.share_asian)
        hispanic, black = np.nan_to_num(tracts.share_hispanic), np.nan_to_num(tracts.share_black)
        weights = np.stack(
            [hispanic, 0.65 * asian, 0.35 * white, 0.15 * asian, 0.1 * black + 0.02], axis=1
        )
        cumulative = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        draw = generator.random(len(tract))
        which = (draw[:, None] > cumulative[tract]).sum(axis=1).clip(max=4) + 1
        foreign = generator.random(len(tract)) < _OTHER_LANGUAGE_FACTOR * limited
        return np.where(foreign & ~by_agency, which, 0).astype(np.int8)

    def _draw_flags(
        self, generator: np.random.Generator, is_actionable: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        flags = np.empty((len(is_actionable), len(self.process.flags)), dtype=np.bool_)
        weights = np.array([entry.share for entry in self.process.categories])
        shares = np.array([entry.actionable for entry in self.process.categories])
        actionable = float(weights @ shares / weights.sum())
        for position, flag in enumerate(self.process.flags):
            base = flag_intercept(flag, actionable)
            chance = expit(base + flag.log_odds_if_actionable * is_actionable)
            flags[:, position] = generator.random(len(is_actionable)) < chance
        return flags


def flag_intercept(flag: Flag, actionable: float) -> float:
    """Log odds of a flag where nothing is actionable, such that its declared share holds."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        share = (1 - actionable) * expit(middle) + actionable * expit(
            middle + flag.log_odds_if_actionable
        )
        low, high = (middle, high) if share < flag.share else (low, middle)
    return 0.5 * (low + high)


def _draw_from(
    generator: np.random.Generator, weights: NDArray[np.float64], n: int
) -> NDArray[np.int64]:
    cumulative = np.cumsum(weights / weights.sum()) if weights.sum() > 0 else np.ones(len(weights))
    return np.minimum(np.searchsorted(cumulative, generator.random(n), "right"), len(weights) - 1)
