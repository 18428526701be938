"""The agency at work: complaints become cases, cases are visited day by day, and closed.

Everything a resident or an auditor can later read comes out of this: which report counted as a
duplicate, how long a case waited, whether anybody was let in, what was found. Outcomes are seen
only where somebody looked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from parity311.city.clock import to_date
from parity311.city.incidents import IncidentModel, Incidents
from parity311.city.incumbent import Rule, WaitingCases, choose_visits
from parity311.city.process import ComplaintProcess, Delay
from parity311.city.randomness import named_generator
from parity311.city.reports import Reports
from parity311.records.schema import DISPOSITION_CLASSES

STAFFING_DAYS = 28
"""Visits follow the complaints of the last four weeks (assumed: staff move with the load)."""
_FIRST_ATTEMPT = 0.6
"""Exponent that splits the chance of never getting in between the first visit (0.6) and the second
(0.4): who was out once is likelier out again (assumed)."""
_VISIT_HOURS = (8.0, 17.0)
_SAME_DAY_HOURS = 2.0
"""Hours from an emergency call to the earliest visit on the same day (assumed)."""

VIOLATION, NO_VIOLATION, NO_ACCESS, REFERRAL, DUPLICATE, PENDING, OTHER = range(7)
RESTORED = 7
"""A no_violation where the condition was found to have ended; its own disposition code."""
assert DISPOSITION_CLASSES[VIOLATION] == "violation"
assert DISPOSITION_CLASSES[OTHER] == "other"


@dataclass
class OpenedCases:
    """Cases as arrays, filled as they are opened; only the first ``n`` rows are in use."""

    report: NDArray[np.int64]
    incident: NDArray[np.int64]
    building: NDArray[np.int32]
    received: NDArray[np.float64]
    closed: NDArray[np.float64]
    first_visit: NDArray[np.float64]
    callback: NDArray[np.float64]
    outcome: NDArray[np.int8]
    n_attempts: NDArray[np.int16]
    n_prior_cases: NDArray[np.int32]
    n_prior_violations: NDArray[np.int32]
    n: int = 0

    @classmethod
    def allocate(cls, size: int) -> OpenedCases:
        """Room for as many cases as there are reports."""
        missing = np.full(size, np.inf)
        return cls(
            report=np.zeros(size, np.int64),
            incident=np.zeros(size, np.int64),
            building=np.zeros(size, np.int32),
            received=missing.copy(),
            closed=missing.copy(),
            first_visit=missing.copy(),
            callback=missing.copy(),
            outcome=np.full(size, PENDING, np.int8),
            n_attempts=np.zeros(size, np.int16),
            n_prior_cases=np.zeros(size, np.int32),
            n_prior_violations=np.zeros(size, np.int32),
        )


@dataclass
class VisitLog:
    """Visits in lists of daily arrays."""

    columns: dict[str, list[NDArray]] = field(default_factory=lambda: defaultdict(list))

    def add(self, **arrays: NDArray) -> None:
        """Append one day."""
        for name, values in arrays.items():
            self.columns[name].append(values)

    def collect(self, name: str, kind: type) -> NDArray:
        """One column over all days."""
        parts = self.columns.get(name)
        return np.concatenate(parts).astype(kind) if parts else np.zeros(0, kind)


@dataclass
class Agency:
    """One domain's queue in one city, worked day by day."""

    model: IncidentModel
    incidents: Incidents
    reports: Reports
    """In order of time."""
    rule: Rule
    visits_per_complaint: float
    expiry_days: float

    def __post_init__(self) -> None:
        n_incidents = len(self.incidents.began)
        n_reports = len(self.reports.time)
        self.cases = OpenedCases.allocate(n_reports)
        self.visits = VisitLog()
        self.report_case = np.full(n_reports, -1, np.int64)
        self.case_of = np.full(n_incidents, -1, np.int64)
        self.silent_from = np.full(n_incidents, np.inf)
        self.city_end = np.full(n_incidents, np.inf)
        self.first_visit = np.full(n_incidents, np.inf)
        self.served = np.full(n_incidents, np.inf)
        self.n_cases_of = np.zeros(self.model.setting.buildings.n, np.int32)
        self.n_violations_of = np.zeros(self.model.setting.buildings.n, np.int32)
        self.ready = np.zeros(0, np.int64)
        self.scheduled: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
        self.recent = np.zeros(STAFFING_DAYS)
        self._prepare()

    @property
    def process(self) -> ComplaintProcess:
        """The domain's declaration."""
        return self.model.process

    def _prepare(self) -> None:
        """Per category and inspector constants as arrays."""
        service, categories = self.process.service, self.process.categories
        slug, seed = self.process.slug, self.model.setting.seed
        self.lead_median = np.array(
            [[(entry.lead or lead).median_days for lead in service.leads] for entry in categories]
        )
        self.lead_sd = np.array(
            [[(entry.lead or lead).log_sd for lead in service.leads] for entry in categories]
        )
        self.referral = np.array([entry.referral for entry in categories])
        self.other = np.array([entry.other for entry in categories])
        self.no_access_logit = logit(
            np.clip([entry.no_access for entry in categories], 1e-5, 1 - 1e-5)
        )
        # Scores at even quantiles: few inspectors, yet the same mean in every city.
        strictness = ndtri((np.arange(service.n_inspectors) + 0.5) / service.n_inspectors)
        self.writing = expit(logit(service.writing) + service.strictness_sd * strictness)
        goes_on = named_generator(seed, slug, "answers").random(len(self.incidents.began))
        self.goes_on = goes_on < self.process.reporting.again_after_answer
        self.access_logit = self._building_access()

    def _building_access(self) -> NDArray[np.float64]:
        """Log odds of no access that each building adds to its category's."""
        service, setting = self.process.service, self.model.setting
        tract = setting.buildings.tract
        by_tract = (
            np.asarray(service.borough_no_access)[setting.tracts.borough]
            + service.renter_no_access * setting.standardised("share_renter")
            + service.foreign_no_access * setting.standardised("share_limited_english")
        )
        units = np.log(np.maximum(setting.buildings.units, 1) / 10.0)
        return by_tract[tract] + service.units_no_access * units

    def run(self, first_day: int, last_day: int, tick: Callable[[int], None]) -> None:
        """Work the days first … last (exclusive)."""
        edges = np.searchsorted(self.reports.time, np.arange(first_day, last_day + 1))
        opening = min(STAFFING_DAYS, last_day - first_day)
        self.recent[:] = (edges[opening] - edges[0]) / max(opening, 1)
        for day in range(first_day, last_day):
            names = (self.process.slug, "service", day)
            generator = named_generator(self.model.setting.seed, *names)
            low, high = edges[day - first_day], edges[day - first_day + 1]
            n_kept = self._receive(generator, int(low), int(high))
            self._visit(generator, day)
            self._drop_answered(int(low), int(high))
            self.recent[day % STAFFING_DAYS] = n_kept
            tick(day)

    def _receive(self, generator: np.random.Generator, low: int, high: int) -> int:
        """Take in a day's reports: duplicates join the open case, the others open one."""
        index = np.arange(low, high)
        incident, time = self.reports.incident[index], self.reports.time[index]
        heard = time < self.silent_from[incident]
        index, incident, time = index[heard], incident[heard], time[heard]
        case = self.case_of[incident]
        is_open = (case >= 0) & (time < self.cases.closed[case])
        self.report_case[index[is_open]] = case[is_open]
        index, incident = index[~is_open], incident[~is_open]
        unique, first, which = np.unique(incident, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(unique), np.int64)
        rank[order] = np.arange(len(unique))
        self.report_case[index] = self.cases.n + rank[which]
        self._open(generator, index[first[order]])
        return int(heard.sum())

    def _drop_answered(self, low: int, high: int) -> None:
        """Take back the day's reports that would have come after a visit settled the matter."""
        incident = self.reports.incident[low:high]
        settled = self.reports.time[low:high] >= self.silent_from[incident]
        self.report_case[low:high][settled] = -1

    def _open(self, generator: np.random.Generator, report: NDArray[np.int64]) -> None:
        """Open a case for each of these reports, in order of time."""
        cases, n = self.cases, len(report)
        new = np.arange(cases.n, cases.n + n)
        cases.n += n
        incident = self.reports.incident[report]
        time, category = self.reports.time[report], self.reports.category[report]
        building = self.incidents.building[incident]
        self.case_of[incident] = new
        cases.report[new], cases.incident[new], cases.building[new] = report, incident, building
        cases.received[new] = time
        cases.n_prior_cases[new] = self.n_cases_of[building]
        cases.n_prior_violations[new] = self.n_violations_of[building]
        np.add.at(self.n_cases_of, building, 1)
        draw = generator.random(n)
        referral, other = self.referral[category], self.other[category]
        put_away = draw < referral + other
        away = new[put_away]
        cases.outcome[away] = np.where(draw < referral, REFERRAL, OTHER)[put_away]
        lag = _draw_delay(generator, self.process.service.intake, len(away))
        cases.closed[away] = cases.received[away] + lag
        self._schedule(generator, new[~put_away], category[~put_away])
        if self.process.service.callback_days is not None:
            wait = generator.standard_exponential(n) * self.process.service.callback_days
            cases.callback[new] = np.maximum(self.incidents.natural_end[incident], time) + wait

    def _schedule(
        self, generator: np.random.Generator, case: NDArray[np.int64], category: NDArray[np.int8]
    ) -> None:
        """Put cases on the list of the day from which they can be visited."""
        code = self.reports.code[self.cases.report[case]]
        received = self.cases.received[case]
        lead = self.lead_median[category, code] * np.exp(
            self.lead_sd[category, code] * generator.standard_normal(len(case))
        )
        if len(case) and to_date(int(received[0])).year == 2020:
            lead = lead * self.process.service.lead_factor_2020
        self._put_on_list(case, np.floor(received + lead).astype(np.int64))

    def _put_on_list(self, case: NDArray[np.int64], day: NDArray[np.int64]) -> None:
        if not len(case):
            return
        order = np.argsort(day, kind="stable")
        case, day = case[order], day[order]
        starts = np.flatnonzero(np.diff(day, prepend=-1))
        for start, end in zip(starts, np.append(starts[1:], len(day)), strict=True):
            self.scheduled[int(day[start])].append(case[start:end])

    def _visit(self, generator: np.random.Generator, day: int) -> None:
        """Close what needs no visit any more, choose among the rest, and go there."""
        self.ready = np.concatenate([self.ready, *self.scheduled.pop(day, [])])
        self._close_unvisited(day)
        # Arrival order settles ties between cases of equal priority.
        self.ready.sort()
        share = self.process.service.weekday_slots[day % 7]
        mean = self.visits_per_complaint * self.recent.mean() * 7.0 * share
        n_slots = int(np.floor(mean + generator.random()))
        priority = self.rule(self._waiting(day)) if len(self.ready) > n_slots else None
        if priority is None:
            priority = np.zeros(len(self.ready))
        choice = choose_visits(generator, priority, n_slots)
        chosen = self.ready[choice.position]
        n_waiting = len(self.ready)
        stays = np.ones(n_waiting, dtype=np.bool_)
        stays[choice.position] = False
        self.ready = self.ready[stays]
        if len(chosen):
            self._go(generator, day, chosen, choice.propensity, n_waiting, n_slots)

    def _waiting(self, day: int) -> WaitingCases:
        ready, cases, setting = self.ready, self.cases, self.model.setting
        report, building = cases.report[ready], cases.building[ready]
        tract = setting.buildings.tract[building]
        return WaitingCases(
            day=day,
            severity=self.reports.code[report],
            age_days=day - cases.received[ready],
            category=self.reports.category[report],
            tract=tract,
            stratum=setting.tracts.income_quintile[tract],
            units=setting.buildings.units[building],
            n_attempts=cases.n_attempts[ready],
            n_prior_cases=cases.n_prior_cases[ready],
            n_prior_violations=cases.n_prior_violations[ready],
            flags=self.reports.flags[report],
        )

    def _close_unvisited(self, day: int) -> None:
        """Close cases whose condition a call found ended, and cases that waited too long."""
        cases, ready = self.cases, self.ready
        called = cases.callback[ready] < day
        cases.outcome[ready[called]] = RESTORED
        cases.closed[ready[called]] = cases.callback[ready[called]]
        expired = ~called & (day - cases.received[ready] > self.expiry_days)
        late = ready[expired]
        cases.outcome[late] = np.where(cases.n_attempts[late] > 0, NO_ACCESS, OTHER)
        cases.closed[late] = day
        self.ready = ready[~(called | expired)]

    def _go(
        self,
        generator: np.random.Generator,
        day: int,
        case: NDArray[np.int64],
        propensity: NDArray[np.float64],
        n_waiting: int,
        n_slots: int,
    ) -> None:
        """Visit the chosen cases and record what was found."""
        cases, incidents = self.cases, self.incidents
        n, incident = len(case), cases.incident[case]
        time = self._visit_times(generator, day, case)
        is_alive = time < np.minimum(incidents.natural_end[incident], self.city_end[incident])
        no_access = self._chance_of_no_access(case, is_alive, time)
        let_in = generator.random(n) >= no_access
        found = let_in & is_alive & incidents.is_actionable[incident]
        inspector = generator.integers(0, len(self.writing), n)
        written = found & (generator.random(n) < self.writing[inspector])
        self.served[incident[found]] = np.minimum(self.served[incident[found]], time[found])
        self.city_end[incident[written]] = time[written]
        answered = let_in & (written | ~self.goes_on[incident])
        self.silent_from[incident[answered]] = time[answered]
        self.first_visit[incident] = np.minimum(self.first_visit[incident], time)
        cases.first_visit[case] = np.minimum(cases.first_visit[case], time)
        cases.n_attempts[case] += 1
        eased = ~is_alive | (generator.random(n) < self.process.service.eased)
        ended = np.where(eased & ~found, RESTORED, NO_VIOLATION)
        outcome = np.where(written, VIOLATION, np.where(let_in, ended, NO_ACCESS)).astype(np.int8)
        np.add.at(self.n_violations_of, cases.building[case[written]], 1)
        self.visits.add(
            case=case,
            time=time,
            attempt=cases.n_attempts[case].copy(),
            result=outcome,
            propensity=propensity,
            n_waiting=np.full(n, n_waiting),
            n_slots=np.full(n, n_slots),
            access_chance=1.0 - no_access,
        )
        again = ~let_in & (cases.n_attempts[case] < self.process.service.max_attempts)
        closed = case[~again]
        cases.outcome[closed] = outcome[~again]
        lag = _draw_delay(generator, self.process.service.closing, len(closed))
        cases.closed[closed] = time[~again] + lag
        wait = _draw_delay(generator, self.process.service.retry, int(again.sum()))
        next_day = np.maximum(np.floor(time[again] + wait), day + 1)
        self._put_on_list(case[again], next_day.astype(np.int64))

    def _visit_times(
        self, generator: np.random.Generator, day: int, case: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """A time in office hours, or later where an emergency came in on the same day."""
        first, last = (hour / 24.0 for hour in _VISIT_HOURS)
        time = day + first + (last - first) * generator.random(len(case))
        earliest = self.cases.received[case] + _SAME_DAY_HOURS / 24.0
        return np.minimum(np.maximum(time, earliest), np.maximum(earliest, day + 0.999))

    def _chance_of_no_access(
        self, case: NDArray[np.int64], is_alive: NDArray[np.bool_], time: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        service = self.process.service
        category = self.incidents.category[self.cases.incident[case]]
        log_odds = self.no_access_logit[category] + self.access_logit[self.cases.building[case]]
        log_odds = log_odds + np.where(is_alive, 0.0, service.ended_no_access)
        if to_date(int(time[0])).year == 2020:
            log_odds = log_odds + service.no_access_2020
        never = expit(log_odds)
        if service.max_attempts == 1:
            return never
        first = self.cases.n_attempts[case] == 0
        return never ** np.where(first, _FIRST_ATTEMPT, 1.0 - _FIRST_ATTEMPT)


def _draw_delay(generator: np.random.Generator, delay: Delay, n: int) -> NDArray[np.float64]:
    return delay.median_days * np.exp(delay.log_sd * generator.standard_normal(n))
