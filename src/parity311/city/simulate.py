"""One domain of a city, from what goes wrong to what the agency did about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from parity311.city.agency import Agency
from parity311.city.clock import day_number, month_bounds, months_between, to_date
from parity311.city.incidents import IncidentModel, Incidents
from parity311.city.incumbent import OpenDay, Rule
from parity311.city.process import ComplaintProcess
from parity311.city.reports import ReportModel, Reports
from parity311.city.setting import CitySetting

_LIFETIMES_BEFORE = 6.0
_FEWEST_DAYS_BEFORE, _MOST_DAYS_BEFORE = 60, 240
"""The queue is worked this long before the first day, so that it does not start empty: six mean
lifetimes of an incident, within limits (assumed)."""


@dataclass(frozen=True)
class SimulatedDomain:
    """Everything that happened in one domain."""

    reporting: ReportModel
    incidents: Incidents
    reports: Reports
    agency: Agency

    @property
    def process(self) -> ComplaintProcess:
        """The domain's declaration."""
        return self.reporting.process

    @property
    def setting(self) -> CitySetting:
        """The city."""
        return self.reporting.setting

    def run(self, first_day: int, last_day: int) -> None:
        """Work the days first … last (exclusive)."""
        self.agency.run(first_day, last_day)

    def begin_day(self, day: int) -> OpenDay:
        """Take in a day's reports and ask the rule whom to visit."""
        return self.agency.begin_day(day)

    def end_day(self, opened: OpenDay, n_slots: int) -> None:
        """Make so many visits."""
        self.agency.end_day(opened, n_slots)

    def recorded_visits(self) -> NDArray[np.float64]:
        """Times of the visits to cases that are on record."""
        case = self.agency.visits.collect("case", np.int64)
        time = self.agency.visits.collect("time", np.float64)
        return time[self.agency.cases.received[case] >= day_number(self.setting.date_from)]

    def go_on(
        self, rule: Rule, first_day: int, *, replicate: int, exploration: float
    ) -> SimulatedDomain:
        """The domain as it stands at the start of a day, with another rule from then on."""
        drawn = draw_again(self, first_day, replicate)
        incidents, reports = drawn.incidents, drawn.reports
        agency = self.agency.copy(
            rule, incidents, reports, drawn.place, exploration=exploration, replicate=replicate
        )
        return SimulatedDomain(self.reporting, incidents, reports, agency)


def simulate_domain(
    process: ComplaintProcess,
    setting: CitySetting,
    rule: Rule,
    enlargement: float = 1.0,
    tick: Callable[[float], None] = lambda share: None,
) -> SimulatedDomain:
    """Draw a domain's incidents and reports and let the agency work them, day by day.

    ``tick`` is told the share that is finished, between 0 and 1.
    """
    simulated = open_domain(process, setting, rule, enlargement)
    first_day, last_day = first_worked_day(process, setting), day_number(setting.date_to)
    n_days = last_day - first_day
    simulated.agency.run(first_day, last_day, lambda day: tick((day + 1 - first_day) / n_days))
    return simulated


def open_domain(
    process: ComplaintProcess, setting: CitySetting, rule: Rule, enlargement: float = 1.0
) -> SimulatedDomain:
    """Draw a domain's incidents and reports; its agency has worked no day yet."""
    process = setting.departure.apply(process)
    model = IncidentModel(process, setting, enlargement)
    reporting = ReportModel(model)
    first_day, last_day = first_worked_day(process, setting), day_number(setting.date_to)
    incidents, reports = _draw_months(
        reporting, months_between(to_date(first_day), setting.date_to)
    )
    reports = _in_order(reports, last_day)
    service, scarce = process.service, setting.capacity == "scarce"
    agency = Agency(
        model,
        incidents,
        reports,
        rule,
        service.scarce_visits_per_complaint if scarce else service.visits_per_complaint,
        service.scarce_expiry_days if scarce else service.expiry_days,
    )
    agency.start(first_day, last_day)
    return SimulatedDomain(reporting, incidents, reports, agency)


def first_worked_day(process: ComplaintProcess, setting: CitySetting) -> int:
    """Day number from which the queue is worked: the first of a month before the records begin."""
    before = setting.date_from - timedelta(days=days_before(process))
    return month_bounds(before.year, before.month)[0]


@dataclass(frozen=True)
class DrawnAgain:
    """A domain whose incidents from a day on were drawn anew."""

    incidents: Incidents
    reports: Reports
    place: NDArray[np.int64]
    """(n_incidents before,) where each incident now stands; −1: it never happened."""


def draw_again(simulated: SimulatedDomain, first_day: int, replicate: int) -> DrawnAgain:
    """Draw the incidents that begin on a day or later anew, with their reports.

    What began before keeps its end and its reports; so does the weather. Replicate 0 is the city's
    own draw.
    """
    incidents, reports = simulated.incidents, simulated.reports
    n, setting = len(incidents.began), simulated.setting
    if replicate == 0:
        return DrawnAgain(incidents, reports, np.arange(n))
    model = replace(simulated.reporting.incidents, replicate=replicate, again_from=first_day)
    months = months_between(to_date(first_day), setting.date_to)
    drawn, said = _draw_months(ReportModel(model), months)
    begins = np.flatnonzero(drawn.began >= first_day)
    stays = np.flatnonzero(incidents.began < first_day)
    place, new_place = np.full(n, -1), np.full(len(drawn.began), -1)
    place[stays] = np.arange(len(stays))
    new_place[begins] = len(stays) + np.arange(len(begins))
    parts = []
    for part, where in ((reports, place), (said, new_place)):
        part = Reports(**{**vars(part), "incident": where[part.incident]})
        parts.append(part.take(np.flatnonzero(part.incident >= 0)))
    return DrawnAgain(
        Incidents.concatenate([incidents.take(stays), drawn.take(begins)]),
        _in_order(Reports.concatenate(parts), day_number(setting.date_to)),
        place,
    )


def _in_order(reports: Reports, last_day: int) -> Reports:
    """Reports before the last day in order of time."""
    reports = reports.take(np.flatnonzero(reports.time < last_day))
    return reports.take(np.argsort(reports.time, kind="stable"))


def days_before(process: ComplaintProcess) -> int:
    """Days the queue is worked before the first recorded day."""
    wanted = _LIFETIMES_BEFORE * process.hazard.lifetime_days
    return int(np.clip(wanted, _FEWEST_DAYS_BEFORE, _MOST_DAYS_BEFORE))


def _draw_months(
    reporting: ReportModel, months: list[tuple[int, int]]
) -> tuple[Incidents, Reports]:
    """Incidents that begin in these months, and all their reports."""
    model = reporting.incidents
    incidents: list[Incidents] = []
    reports: list[Reports] = []
    offset, weights_of, weights = 0, None, np.zeros(1)
    for year, month in months:
        if year != weights_of:
            weights_of, weights = year, model.year_weights(year)
        batch = model.draw_month(year, month, model.month_weights(weights, year, month))
        said = reporting.draw_month(batch, year, month)
        incidents.append(batch)
        reports.append(Reports(**{**vars(said), "incident": said.incident + offset}))
        offset += len(batch.began)
    return Incidents.concatenate(incidents), Reports.concatenate(reports)
