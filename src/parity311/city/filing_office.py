"""The office that works filings: it sends an inspector to some, today those with an earlier defect.

What waits too long is put away unvisited.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parity311.city.clock import day_number, to_date
from parity311.city.filings import OFFICE_HOURS, Filings, draw_filings
from parity311.city.incumbent import (
    EXPLORATION_SHARE,
    OpenDay,
    Rule,
    WaitingCases,
    ask_rule,
    choose_visits,
)
from parity311.city.journal import assemble_journal, describe_places, to_journal_days
from parity311.city.process import FilingProcess
from parity311.city.randomness import ServiceDraws, again_names, named_generator, service_draws
from parity311.city.setting import CitySetting
from parity311.records.journal import Journal

_STAFFING_DAYS = 91
"""Visits follow the filings of the last quarter (assumed)."""
_FLAGS = ("is_high_pressure", "is_internal")


@dataclass(frozen=True)
class FilingVisits:
    """What the agency did: per boiler-year, and one row a visit."""

    has_prior: NDArray[np.bool_]
    """Whether an earlier filing of the boiler showed a defect."""
    closed: NDArray[np.float64]
    outcome: NDArray[np.int8]
    """0 violation, 1 no violation, 2 no access, −1 not visited."""
    visit_time: NDArray[np.float64]
    propensity: NDArray[np.float64]
    n_waiting: NDArray[np.int64]
    n_slots: NDArray[np.int64]


@dataclass
class FilingOffice:
    """One domain's filings in one city, worked day by day."""

    process: FilingProcess
    setting: CitySetting
    filings: Filings
    rule: Rule
    filed_from: date
    """First day of the filings."""
    exploration: float = EXPLORATION_SHARE
    """Share of a day's visits drawn at random."""
    replicate: int = 0
    """Which draw of the service this is; 0 is the city's own."""

    def __post_init__(self) -> None:
        n, filings = len(self.filings.time), self.filings
        has_prior = _known_defects(filings)
        self.code = np.where(has_prior, 1, 2).astype(np.int8)
        self.visits = FilingVisits(
            has_prior=has_prior,
            closed=filings.time + self.process.expiry_days,
            outcome=np.full(n, -1, np.int8),
            visit_time=np.full(n, np.inf),
            propensity=np.full(n, np.nan),
            n_waiting=np.zeros(n, np.int64),
            n_slots=np.zeros(n, np.int64),
        )
        self.filed = np.flatnonzero(filings.is_filed)
        self.first_day = int(filings.time[0]) if n else day_number(self.setting.date_to)
        n_days = day_number(self.setting.date_to) - self.first_day
        self.recent = np.full(_STAFFING_DAYS, len(self.filed) / max(n_days, 1))
        self.waiting = np.zeros(0, np.int64)
        scarce = self.setting.capacity == "scarce"
        own = self.process
        self.per_filing = own.scarce_visits_per_filing if scarce else own.visits_per_filing

    def run(self, first_day: int, last_day: int) -> None:
        """Work the days first … last (exclusive)."""
        for day in range(first_day, last_day):
            opened = self.begin_day(day)
            self.end_day(opened, opened.n_slots)

    def begin_day(self, day: int) -> OpenDay:
        """Put away what waited too long and ask the rule whom to visit."""
        names = (self.process.slug, "service", day, *again_names(self.replicate))
        generator = named_generator(self.setting.seed, *names)
        self.waiting = self.waiting[
            self.filings.time[self.waiting] > day - self.process.expiry_days
        ]
        share = self.process.weekday_slots[day % 7]
        mean = self.per_filing * self.recent.mean() * 7.0 * share
        n_slots = int(np.floor(mean + generator.random()))
        priority = ask_rule(self.rule, self._waiting(day, n_slots))
        return OpenDay(day, generator, len(self._filed_on(day)), n_slots, priority)

    def end_day(self, opened: OpenDay, n_slots: int) -> None:
        """Make so many visits and take in the day's filings."""
        day, generator, result = opened.day, opened.generator, self.visits
        choice = choose_visits(generator, opened.priority, n_slots, self.exploration)
        chosen = self.waiting[choice.position]
        result.n_waiting[chosen], result.n_slots[chosen] = len(self.waiting), n_slots
        result.propensity[chosen] = choice.propensity
        seed, slug = self.setting.seed, self.process.slug
        self._look(service_draws(generator, seed, slug, self.replicate), day, chosen)
        stays = np.ones(len(self.waiting), dtype=np.bool_)
        stays[choice.position] = False
        # A filing can be visited from the day after it came in.
        self.waiting = np.concatenate([self.waiting[stays], self._filed_on(day)])
        self.recent[day % _STAFFING_DAYS] = opened.n_received

    def recorded_visits(self) -> NDArray[np.float64]:
        """Times of the visits."""
        return self.visits.visit_time[np.isfinite(self.visits.visit_time)]

    def go_on(
        self, rule: Rule, first_day: int, *, replicate: int, exploration: float
    ) -> FilingOffice:
        """The office as it stands at the start of a day, with another rule from then on."""
        first = to_date(first_day)
        filings = draw_filings(
            self.process, self.setting, self.filed_from, replicate=replicate, again_from=first
        )
        other = FilingOffice(
            self.process, self.setting, filings, rule, self.filed_from, exploration, replicate
        )
        # Filings are in order of time: those of the years before keep their places.
        n = int(np.flatnonzero(self.visits.outcome >= 0).max(initial=-1)) + 1
        for item in fields(FilingVisits):
            if item.name != "has_prior":
                getattr(other.visits, item.name)[:n] = getattr(self.visits, item.name)[:n]
        other.recent, other.waiting = self.recent.copy(), self.waiting.copy()
        return other

    def _filed_on(self, day: int) -> NDArray[np.int64]:
        low, high = np.searchsorted(self.filings.time[self.filed], (day, day + 1))
        return self.filed[low:high]

    def _waiting(self, day: int, n_slots: int) -> WaitingCases:
        filings, setting, waiting = self.filings, self.setting, self.waiting
        building = filings.building[waiting]
        tract = setting.buildings.tract[building]
        prior = self.visits.has_prior[waiting].astype(np.int32)
        return WaitingCases(
            day=day,
            severity=self.code[waiting],
            age_days=day - filings.time[waiting],
            category=np.zeros(len(waiting), np.int8),
            tract=tract,
            stratum=setting.tracts.income_quintile[tract],
            units=setting.buildings.units[building],
            n_attempts=np.zeros(len(waiting), np.int16),
            n_prior_cases=prior,
            n_prior_violations=prior,
            flags=np.column_stack([getattr(filings, name)[waiting] for name in _FLAGS]),
            n_slots=n_slots,
            look_up=lambda: (self.read_journal(day), np.searchsorted(self.filed, waiting)),
        )

    @cached_property
    def _fixed(self) -> dict[str, NDArray]:
        """What is on paper of every filing that will come, in order."""
        filed, filings, slug = self.filed, self.filings, self.process.slug
        n, came = len(filed), to_journal_days(filings.time[filed])
        ids = [f"{slug}-{number:08d}" for number in range(1, n + 1)]
        return {
            "complaint_id": np.array(ids, dtype=object),
            "began": came,
            "code": self.code[filed].astype(np.int64),
            "category": np.zeros(n, np.int64),
            "equipment": filings.boiler[filed].astype(np.int64),
            **describe_places(self.setting, filings.building[filed]),
            **{name: getattr(filings, name)[filed] for name in _FLAGS},
            "n_reports": np.ones(n, np.int64),
            "last_report": came,
            "report_at": came,
            "report_case": np.arange(n),
        }

    def read_journal(self, day: int) -> Journal:
        """The filings as the office knew them when a day began."""
        n = int(np.searchsorted(self.filings.time[self.filed], day))
        row = self.filed[:n]
        columns = {name: values[:n] for name, values in self._fixed.items()}
        time, closed = self.visits.visit_time[row], self.visits.closed[row]
        defective = self.filings.is_defective[row].astype(np.float64)
        seen = np.flatnonzero(time < day)
        visited = np.full(n, np.nan)
        visited[seen] = to_journal_days(time[seen])
        result = self.visits.outcome[row].astype(np.int64)
        order = seen[np.lexsort((seen, visited[seen]))]
        columns |= {
            "n_attempts": np.isfinite(visited).astype(np.int64),
            "last_visit": visited,
            "settled": np.where(np.isfinite(visited) & (result != 2), visited, np.inf),
            "closed": to_journal_days(np.where(closed < day, closed, np.inf)),
            "defect": np.where(closed < day, defective, np.nan),
            "visit_at": visited[order],
            "visit_case": order,
            "visit_result": result[order],
        }
        slug = self.process.slug
        return assemble_journal(slug, day, columns, _FLAGS, ("FILING",), self.setting)

    def _look(self, draws: ServiceDraws, day: int, chosen: NDArray[np.int64]) -> None:
        process, filings, result = self.process, self.filings, self.visits
        once = (chosen, np.zeros(len(chosen)))
        opening, closing = OFFICE_HOURS
        time = day + (opening + (closing - opening) * draws.uniform("hour", *once)) / 24.0
        let_in = draws.uniform("door", *once) >= process.no_access
        is_alive = filings.is_defective[chosen] & (time < filings.natural_end[chosen])
        result.visit_time[chosen] = time
        result.outcome[chosen] = np.where(~let_in, 2, np.where(is_alive, 0, 1))
        delay = process.closing
        lag = delay.median_days * np.exp(delay.log_sd * draws.normal("closing", *once))
        result.closed[chosen] = time + lag


def work_filings(
    process: FilingProcess, setting: CitySetting, filed_from: date, rule: Rule
) -> FilingOffice:
    """Draw filings from a day on and work them with finite visits, to the city's last day."""
    filings = draw_filings(process, setting, filed_from)
    office = FilingOffice(process, setting, filings, rule, filed_from)
    office.run(office.first_day, day_number(setting.date_to))
    return office


def _known_defects(filings: Filings) -> NDArray[np.bool_]:
    """Whether an earlier filing of the same boiler showed a defect."""
    shown = filings.is_filed & filings.is_defective
    order = np.lexsort((filings.time, filings.boiler))
    boiler, shows = filings.boiler[order], shown[order].astype(np.int64)
    before = np.cumsum(shows) - shows
    starts = np.flatnonzero(np.diff(boiler, prepend=-1))
    base = np.repeat(before[starts], np.diff(np.append(starts, len(boiler))))
    known = np.empty(len(boiler), dtype=np.bool_)
    known[order] = before > base
    return known
