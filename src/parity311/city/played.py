"""What a played period came to, under the truth: who was served in time, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parity311.city.clock import day_number
from parity311.city.filing_office import FilingOffice
from parity311.city.replay import PlayedDomain
from parity311.city.setting import CitySetting
from parity311.city.simulate import SimulatedDomain
from parity311.records.journal import DAY_SECONDS
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES

JUDGED_DAYS = max(SERVICE_LEVEL_DAYS.values())
"""Days an incident must have left in the period, so that every code's service level can pass."""

_N_KNOWN = 5
_N_STRATA = _N_KNOWN + 1
_LEVELS = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])


@dataclass(frozen=True)
class PlayedFigures:
    """Counts of a played period by stratum, (6,) each: income quintiles, then unknown.

    Incidents count that began in the period, so long before its end that every service level could
    pass, and were not reported so late that theirs could not. Of filings, boiler-years with a
    defect count, by the day they were or should have been filed. Visits count over the whole
    period, whatever they were made for.
    """

    n_incidents: NDArray[np.int64]
    n_actionable: NDArray[np.int64]
    """reported or not"""
    n_reported: NDArray[np.int64]
    """incidents that somebody reported, actionable or not"""
    n_reported_actionable: NDArray[np.int64]
    n_correct: NDArray[np.int64]
    """actionable incidents that a visit found so, alive, within the service level of the code of
    their first report: the correct escalations, each incident once"""
    n_visited: NDArray[np.int64]
    """reported incidents that were visited in the period at all"""
    delay_days: NDArray[np.float64]
    """days from first report to first visit, summed over those"""
    n_visits: NDArray[np.int64]

    @property
    def coverage(self) -> NDArray[np.float64]:
        """Correct escalations over actionable incidents, (6,); NaN where there are none."""
        return _ratio(self.n_correct, self.n_actionable)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Correct escalations over reported actionable incidents, (6,)."""
        return _ratio(self.n_correct, self.n_reported_actionable)

    @property
    def mean_delay_days(self) -> NDArray[np.float64]:
        """Days from first report to first visit, (6,), among the visited: fewer visits shorten it.

        Read it beside `visited_share`.
        """
        return _ratio(self.delay_days, self.n_visited)

    @property
    def visited_share(self) -> NDArray[np.float64]:
        """Share of the reported incidents that were visited, (6,)."""
        return _ratio(self.n_visited, self.n_reported)

    @property
    def gap(self) -> float:
        """Largest difference of coverage between two known strata; NaN where fewer have any."""
        known = self.coverage[:_N_KNOWN]
        known = known[np.isfinite(known)]
        return float(known.max() - known.min()) if len(known) > 1 else float("nan")

    @property
    def overall(self) -> dict[str, float]:
        """Coverage, recall, delay and share visited over all strata, the gap, and the counts."""
        total = {name: float(values.sum()) for name, values in vars(self).items()}
        whole = PlayedFigures(
            **{name: values.sum(keepdims=True) for name, values in vars(self).items()}
        )
        names = ("coverage", "recall", "mean_delay_days", "visited_share")
        return {name: float(getattr(whole, name)[0]) for name in names} | {"gap": self.gap} | total


def measure_played(played: PlayedDomain, judged_days: float = JUDGED_DAYS) -> PlayedFigures:
    """Count what the rule of a played domain came to.

    ``judged_days`` before the end of the period the incidents stop that count.
    """
    worked = played.worked
    history = _of_filings(worked) if isinstance(worked, FilingOffice) else _of_complaints(worked)
    visits = _visits_by_stratum(worked, played.first_day, played.last_day)
    return _count(history, played.first_day, played.last_day, judged_days, visits)


def measure_rounds(worked: SimulatedDomain, bounds: Sequence[int]) -> list[PlayedFigures]:
    """Figures of the incidents that began between each two day numbers of a domain worked since.

    What began in one round may be served in the next: work on for `JUDGED_DAYS` after the last.
    """
    history, worked_until = _of_complaints(worked), day_number(worked.setting.date_to)
    found = []
    for first, last in pairwise(bounds):
        mine = replace(history, began=np.where(history.began < last, history.began, np.inf))
        visits = _visits_by_stratum(worked, first, last)
        found.append(_count(mine, first, worked_until, 0.0, visits))
    return found


@dataclass(frozen=True)
class _Histories:
    """What became of incidents, (n,) each; times in days, infinite where it never happened."""

    stratum: NDArray[np.int64]
    began: NDArray[np.float64]
    is_actionable: NDArray[np.bool_]
    first_report: NDArray[np.float64]
    level_days: NDArray[np.float64]
    """service level of the first report's code; NaN without one"""
    first_visit: NDArray[np.float64]
    served: NDArray[np.float64]


def _of_complaints(simulated: SimulatedDomain) -> _Histories:
    agency, incidents, reports = simulated.agency, simulated.incidents, simulated.reports
    n = len(incidents.began)
    kept = np.flatnonzero(agency.report_case >= 0)
    incident, first = np.unique(reports.incident[kept], return_index=True)
    first_report, level = np.full(n, np.inf), np.full(n, np.nan)
    first_report[incident] = reports.time[kept[first]]
    level[incident] = _LEVELS[reports.code[kept[first]]]
    return _Histories(
        stratum=_stratum(simulated.setting, incidents.building),
        began=incidents.began,
        is_actionable=incidents.is_actionable,
        first_report=first_report,
        level_days=level,
        first_visit=agency.first_visit,
        served=agency.served,
    )


def _of_filings(office: FilingOffice) -> _Histories:
    filings, visits = office.filings, office.visits
    row = np.flatnonzero(filings.is_defective)
    time, is_filed = filings.time[row], filings.is_filed[row]
    visited = visits.visit_time[row]
    return _Histories(
        stratum=_stratum(office.setting, filings.building[row]),
        began=time,
        is_actionable=np.ones(len(row), np.bool_),
        first_report=np.where(is_filed, time, np.inf),
        level_days=np.where(is_filed, _LEVELS[office.code[row]], np.nan),
        first_visit=visited,
        served=np.where(visits.outcome[row] == 0, visited, np.inf),
    )


def _count(
    history: _Histories,
    first_day: int,
    last_day: int,
    judged_days: float,
    n_visits: NDArray[np.int64],
) -> PlayedFigures:
    heard = np.isfinite(history.first_report)
    late = heard & (history.first_report + history.level_days > last_day)
    began = (history.began >= first_day) & (history.began < last_day - judged_days)
    judged = began & ~late
    wait = _whole_seconds(history.served) - _whole_seconds(np.where(heard, history.first_report, 0))
    in_time = heard & (wait <= np.where(heard, history.level_days, 0.0) * DAY_SECONDS)
    correct = judged & history.is_actionable & in_time
    visited = judged & heard & (history.first_visit < last_day)
    delay = np.zeros(len(heard))
    delay[visited] = history.first_visit[visited] - history.first_report[visited]

    def count(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(history.stratum[chosen], minlength=_N_STRATA)

    return PlayedFigures(
        n_incidents=count(judged),
        n_actionable=count(judged & history.is_actionable),
        n_reported=count(judged & heard),
        n_reported_actionable=count(judged & heard & history.is_actionable),
        n_correct=count(correct),
        n_visited=count(visited),
        delay_days=np.asarray(np.bincount(history.stratum, delay, minlength=_N_STRATA), np.float64),
        n_visits=n_visits,
    )


def _visits_by_stratum(
    worked: SimulatedDomain | FilingOffice, first_day: int, last_day: int
) -> NDArray[np.int64]:
    if isinstance(worked, FilingOffice):
        time, building = worked.visits.visit_time, worked.filings.building
    else:
        log, cases = worked.agency.visits, worked.agency.cases
        time = log.collect("time", np.float64)
        building = cases.building[log.collect("case", np.int64)]
    inside = (time >= first_day) & (time < last_day)
    return np.bincount(_stratum(worked.setting, building[inside]), minlength=_N_STRATA)


def _stratum(setting: CitySetting, building: NDArray[np.int32]) -> NDArray[np.int64]:
    return setting.stratum[setting.buildings.tract[building]]


def _whole_seconds(days: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds, cut as records cut them: whether a level held is told from whole ones."""
    return np.floor(days * DAY_SECONDS)


def _ratio(part: NDArray, whole: NDArray) -> NDArray[np.float64]:
    nothing = np.full(len(whole), np.nan)
    return np.divide(part, whole, out=nothing, where=whole > 0)
