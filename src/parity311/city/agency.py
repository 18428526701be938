"""The agency at work: complaints become cases, cases are visited day by day, and closed.

Everything a resident or an auditor can later read comes out of this: which report counted as a
duplicate, how long a case waited, whether anybody was let in, what was found. Outcomes are seen
only where somebody looked.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from parity311.city.cases import (
    NO_ACCESS,
    NO_VIOLATION,
    OTHER,
    REFERRAL,
    RESTORED,
    VIOLATION,
    OpenedCases,
    VisitLog,
)
from parity311.city.clock import to_date
from parity311.city.departures import TRUST_STEP, Departure
from parity311.city.incidents import IncidentModel, Incidents
from parity311.city.incumbent import (
    EXPLORATION_SHARE,
    OpenDay,
    ReturningRule,
    Rule,
    WaitingCases,
    ask_rule,
    choose_visits,
)
from parity311.city.journal import CaseLedger
from parity311.city.process import ComplaintProcess, Delay
from parity311.city.randomness import ServiceDraws, again_names, named_generator, service_draws
from parity311.city.reports import Reports

STAFFING_DAYS = 28
"""Visits follow the complaints of the last four weeks (assumed: staff move with the load)."""
_FIRST_ATTEMPT = 0.6
"""Exponent that splits the chance of never getting in between the first visit (0.6) and the second
(0.4): who was out once is likelier out again (assumed)."""
_VISIT_HOURS = (8.0, 17.0)
_SAME_DAY_HOURS = 2.0
"""Hours from an emergency call to the earliest visit on the same day (assumed)."""

_BY_INCIDENT = {
    "case_of": -1,
    "silent_from": np.inf,
    "city_end": np.inf,
    "first_visit": np.inf,
    "served": np.inf,
}
"""Arrays of an agency by incident, and what they hold of one nobody heard of."""


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
    exploration: float = EXPLORATION_SHARE
    """Share of a day's visits drawn at random."""
    replicate: int = 0
    """Which draw of the service this is; 0 is the city's own."""

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
        self.knocked: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        """Cases without access and when, of which a `ReturningRule` has still to decide."""
        self.recent = np.zeros(STAFFING_DAYS)
        self.trust = np.ones(self.model.setting.tracts.n)
        """Of each tract, how far people believe that somebody will come."""
        self.ledger: CaseLedger | None = None
        self._prepare()

    @property
    def process(self) -> ComplaintProcess:
        """The domain's declaration."""
        return self.model.process

    @property
    def departure(self) -> Departure:
        """In what the city departs from what estimators assume."""
        return self.model.setting.departure

    def _tract_of(self, incident: NDArray[np.int64]) -> NDArray[np.int32]:
        return self.model.setting.buildings.tract[self.incidents.building[incident]]

    def _learn_of(self, incident: NDArray[np.int64], came: float) -> None:
        """Let the tracts of these incidents know whether somebody came (1) or nobody will (0)."""
        if self.departure.reaction:
            n = np.bincount(self._tract_of(incident), minlength=len(self.trust))
            self.trust += (came - self.trust) * (1.0 - (1.0 - TRUST_STEP) ** n)

    def _prepare(self) -> None:
        """Per category and inspector constants as arrays."""
        service, categories = self.process.service, self.process.categories
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
        self.goes_on = self._draw_answers()
        self.access_logit = self._building_access()

    def _draw_answers(self) -> NDArray[np.bool_]:
        """Whether people go on reporting an incident after a visit that wrote nothing up."""
        names = (self.process.slug, "answers", *again_names(self.replicate))
        draw = named_generator(self.model.setting.seed, *names).random(len(self.incidents.began))
        return draw < self.process.reporting.again_after_answer

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

    def start(self, first_day: int, last_day: int) -> None:
        """Staff the first days as the calls of the first four weeks ask for."""
        n_days = min(STAFFING_DAYS, last_day - first_day)
        low, high = np.searchsorted(self.reports.time, (first_day, first_day + n_days))
        self.recent[:] = (high - low) / max(n_days, 1)

    def run(
        self, first_day: int, last_day: int, tick: Callable[[int], None] = lambda day: None
    ) -> None:
        """Work the days first … last (exclusive)."""
        for day in range(first_day, last_day):
            opened = self.begin_day(day)
            self.end_day(opened, opened.n_slots)
            tick(day)

    def begin_day(self, day: int) -> OpenDay:
        """Take in a day's reports and ask the rule whom to visit."""
        generator = self._day_generator("service", day)
        low, high = np.searchsorted(self.reports.time, (day, day + 1))
        if self.knocked:
            self._plan_revisits(day)
        n_received = self._receive(self._draws(generator), int(low), int(high))
        self.ready = np.concatenate([self.ready, *self.scheduled.pop(day, [])])
        self._close_unvisited(day)
        # Arrival order settles ties between cases of equal priority.
        self.ready.sort()
        share = self.process.service.weekday_slots[day % 7]
        mean = self.visits_per_complaint * self.recent.mean() * 7.0 * share
        n_slots = int(np.floor(mean + generator.random()))
        priority = ask_rule(self.rule, self._waiting(day, self.ready, n_slots))
        return OpenDay(day, generator, n_received, n_slots, priority)

    def end_day(self, opened: OpenDay, n_slots: int) -> None:
        """Make so many visits, and take back the reports that they made needless."""
        day, generator = opened.day, opened.generator
        choice = choose_visits(generator, opened.priority, n_slots, self.exploration)
        chosen, n_waiting = self.ready[choice.position], len(self.ready)
        stays = np.ones(n_waiting, dtype=np.bool_)
        stays[choice.position] = False
        self.ready = self.ready[stays]
        if len(chosen):
            draws = self._draws(generator)
            self._go(draws, day, chosen, choice.propensity, n_waiting, n_slots)
        low, high = np.searchsorted(self.reports.time, (day, day + 1))
        self._drop_answered(int(low), int(high))
        self.recent[day % STAFFING_DAYS] = opened.n_received

    def _day_generator(self, what: str, day: int) -> np.random.Generator:
        names = (self.process.slug, what, day)
        return named_generator(self.model.setting.seed, *names, *again_names(self.replicate))

    def copy(
        self,
        rule: Rule,
        incidents: Incidents,
        reports: Reports,
        place: NDArray[np.int64],
        *,
        exploration: float,
        replicate: int,
    ) -> Agency:
        """The agency as it stands, under another rule, before incidents that may go on differently.

        Parameters
        ----------
        incidents, reports
            As the agency's own as far as anybody heard of them.
        place
            (n_incidents of the agency,) position of each among ``incidents``; −1: not there.
        exploration, replicate
            As the fields.
        """
        other = copy.copy(self)
        other.rule, other.incidents, other.reports = rule, incidents, reports
        other.exploration, other.replicate, other.ledger = exploration, replicate, None
        n_reports, stays = len(reports.time), np.flatnonzero(place >= 0)
        other.cases = self.cases.copy(n_reports)
        other.cases.incident[: self.cases.n] = place[self.cases.incident[: self.cases.n]]
        other.visits = self.visits.copy()
        other.report_case = np.full(n_reports, -1, np.int64)
        n_heard = min(n_reports, len(self.report_case))
        other.report_case[:n_heard] = self.report_case[:n_heard]
        for name, empty in _BY_INCIDENT.items():
            values = np.full(len(incidents.began), empty)
            values[place[stays]] = getattr(self, name)[stays]
            setattr(other, name, values)
        for name in ("n_cases_of", "n_violations_of", "ready", "recent", "trust"):
            setattr(other, name, getattr(self, name).copy())
        other.scheduled = defaultdict(list, {day: [*x] for day, x in self.scheduled.items()})
        other.knocked = list(self.knocked)
        other.goes_on = other._draw_answers()
        if replicate:
            other.goes_on[place[stays]] = self.goes_on[stays]
        return other

    def _receive(self, draws: ServiceDraws, low: int, high: int) -> int:
        """Take in a day's reports: duplicates join the open case, the others open one."""
        index = np.arange(low, high)
        incident, time = self.reports.incident[index], self.reports.time[index]
        heard = time < self.silent_from[incident]
        if self.departure.reaction:
            doubt = 1.0 - self.trust[self._tract_of(incident)]
            stays_out = draws.uniform("doubt", index, np.zeros(len(index)))
            heard &= stays_out >= self.departure.reaction * doubt
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
        self._open(draws, index[first[order]])
        return int(heard.sum())

    def _drop_answered(self, low: int, high: int) -> None:
        """Take back the day's reports that would have come after a visit settled the matter."""
        incident = self.reports.incident[low:high]
        settled = self.reports.time[low:high] >= self.silent_from[incident]
        self.report_case[low:high][settled] = -1

    def _open(self, draws: ServiceDraws, report: NDArray[np.int64]) -> None:
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
        draw = draws.uniform("intake", report, np.zeros(n))
        referral, other = self.referral[category], self.other[category]
        put_away = draw < referral + other
        away = new[put_away]
        cases.outcome[away] = np.where(draw < referral, REFERRAL, OTHER)[put_away]
        lag = self._draw_delay(draws, "away", self.process.service.intake, away)
        cases.closed[away] = cases.received[away] + lag
        self._schedule(draws, new[~put_away], category[~put_away])
        if self.process.service.callback_days is not None:
            wait = draws.exponential("call", report, np.zeros(n))
            wait = wait * self.process.service.callback_days
            cases.callback[new] = np.maximum(self.incidents.natural_end[incident], time) + wait

    def _schedule(
        self, draws: ServiceDraws, case: NDArray[np.int64], category: NDArray[np.int8]
    ) -> None:
        """Put cases on the list of the day from which they can be visited."""
        report, received = self.cases.report[case], self.cases.received[case]
        code = self.reports.code[report]
        score = draws.normal("lead", report, np.zeros(len(case)))
        lead = self.lead_median[category, code] * np.exp(self.lead_sd[category, code] * score)
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

    def _waiting(self, day: int, case: NDArray[np.int64], n_slots: int) -> WaitingCases:
        cases, setting = self.cases, self.model.setting
        report, building = cases.report[case], cases.building[case]
        tract = setting.buildings.tract[building]
        return WaitingCases(
            day=day,
            severity=self.reports.code[report],
            age_days=day - cases.received[case],
            category=self.reports.category[report],
            tract=tract,
            stratum=setting.tracts.income_quintile[tract],
            units=setting.buildings.units[building],
            n_attempts=cases.n_attempts[case],
            n_prior_cases=cases.n_prior_cases[case],
            n_prior_violations=cases.n_prior_violations[case],
            flags=self.reports.flags[report],
            n_slots=n_slots,
            look_up=lambda: self._keep_ledger().read(day, case),
        )

    def _keep_ledger(self) -> CaseLedger:
        if self.ledger is None:
            self.ledger = CaseLedger(
                self.process,
                self.model.setting,
                self.reports,
                self.report_case,
                self.cases,
                self.visits,
            )
        return self.ledger

    def _plan_revisits(self, day: int) -> None:
        """Ask the rule when to come back to where nobody opened, or whether to close the case."""
        case, time = (np.concatenate(parts) for parts in zip(*self.knocked, strict=True))
        is_past = time < day
        self.knocked = [] if is_past.all() else [(case[~is_past], time[~is_past])]
        case, time = case[is_past], time[is_past]
        if not len(case):
            return
        draws = self._draws(self._day_generator("revisits", day))
        if isinstance(self.rule, ReturningRule):
            wait = ask_rule(self.rule.revisit_days, self._waiting(day, case, 0))
        else:
            wait = self._draw_delay(draws, "retry", self.process.service.retry, case)
        closes = ~np.isfinite(wait)
        lag = self._draw_delay(draws, "closing", self.process.service.closing, case[closes])
        self.cases.outcome[case[closes]] = NO_ACCESS
        self.cases.closed[case[closes]] = np.maximum(time[closes] + lag, day)
        next_day = np.maximum(np.floor(time + wait)[~closes], day)
        self._put_on_list(case[~closes], next_day.astype(np.int64))

    def _close_unvisited(self, day: int) -> None:
        """Close cases whose condition a call found ended, and cases that waited too long."""
        cases, ready = self.cases, self.ready
        called = cases.callback[ready] < day
        cases.outcome[ready[called]] = RESTORED
        cases.closed[ready[called]] = cases.callback[ready[called]]
        expired = ~called & (day - cases.received[ready] > self.expiry_days)
        late = ready[expired]
        unseen = ready[(called | expired) & (cases.n_attempts[ready] == 0)]
        self._learn_of(cases.incident[unseen], 0.0)
        cases.outcome[late] = np.where(cases.n_attempts[late] > 0, NO_ACCESS, OTHER)
        cases.closed[late] = day
        self.ready = ready[~(called | expired)]

    def _go(
        self,
        draws: ServiceDraws,
        day: int,
        case: NDArray[np.int64],
        propensity: NDArray[np.float64],
        n_waiting: int,
        n_slots: int,
    ) -> None:
        """Visit the chosen cases and record what was found."""
        cases, incidents = self.cases, self.incidents
        n, incident = len(case), cases.incident[case]
        knock = (cases.report[case], cases.n_attempts[case].copy())
        time = self._visit_times(draws.uniform("hour", *knock), day, case)
        is_alive = time < np.minimum(incidents.natural_end[incident], self.city_end[incident])
        no_access = self._chance_of_no_access(case, is_alive, time)
        let_in = draws.uniform("door", *knock) >= no_access
        found = let_in & is_alive & incidents.is_actionable[incident]
        inspector = draws.number("inspector", len(self.writing), *knock)
        if self.departure.ties_inspectors:
            inspector = self._tract_of(incident) % len(self.writing)
        self._learn_of(incident, 1.0)
        written = found & (draws.uniform("writing", *knock) < self.writing[inspector])
        self.served[incident[found]] = np.minimum(self.served[incident[found]], time[found])
        self.city_end[incident[written]] = time[written]
        answered = let_in & (written | ~self.goes_on[incident])
        self.silent_from[incident[answered]] = time[answered]
        self.first_visit[incident] = np.minimum(self.first_visit[incident], time)
        cases.first_visit[case] = np.minimum(cases.first_visit[case], time)
        cases.n_attempts[case] += 1
        eased = ~is_alive | (draws.uniform("eased", *knock) < self.process.service.eased)
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
        lag = self._draw_delay(draws, "closing", self.process.service.closing, closed)
        cases.closed[closed] = time[~again] + lag
        wait = self._draw_delay(draws, "retry", self.process.service.retry, case[again])
        if isinstance(self.rule, ReturningRule):
            self.knocked += [(case[again], time[again])] if again.any() else []
            return
        next_day = np.maximum(np.floor(time[again] + wait), day + 1)
        self._put_on_list(case[again], next_day.astype(np.int64))

    def _visit_times(
        self, share: NDArray[np.float64], day: int, case: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """A time in office hours, or later where an emergency came in on the same day."""
        first, last = (hour / 24.0 for hour in _VISIT_HOURS)
        time = day + first + (last - first) * share
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

    def _draws(self, generator: np.random.Generator) -> ServiceDraws:
        """A day's draws of what happens to cases."""
        seed = self.model.setting.seed
        return service_draws(generator, seed, self.process.slug, self.replicate)

    def _draw_delay(
        self, draws: ServiceDraws, what: str, delay: Delay, case: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Days (n,) for what happens to cases after so many visits."""
        nth = self.cases.n_attempts[case]
        score = draws.normal(what, self.cases.report[case], nth)
        return delay.median_days * np.exp(delay.log_sd * score)
