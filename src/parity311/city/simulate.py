"""One domain of a city, from what goes wrong to what the agency did about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from parity311.city.agency import Agency
from parity311.city.clock import day_number, month_bounds, months_between
from parity311.city.incidents import IncidentModel, Incidents
from parity311.city.incumbent import Rule
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
    model = IncidentModel(process, setting, enlargement)
    reporting = ReportModel(model)
    before = timedelta(days=days_before(process))
    months = months_between(setting.date_from - before, setting.date_to)
    incidents, reports = _draw_months(reporting, months)
    first_day, last_day = month_bounds(*months[0])[0], day_number(setting.date_to)
    reports = reports.take(np.flatnonzero(reports.time < last_day))
    reports = reports.take(np.argsort(reports.time, kind="stable"))
    service, scarce = process.service, setting.capacity == "scarce"
    agency = Agency(
        model,
        incidents,
        reports,
        rule,
        service.scarce_visits_per_complaint if scarce else service.visits_per_complaint,
        service.scarce_expiry_days if scarce else service.expiry_days,
    )
    n_days = last_day - first_day
    agency.run(first_day, last_day, lambda day: tick((day + 1 - first_day) / n_days))
    return SimulatedDomain(reporting, incidents, reports, agency)


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
