"""The journal of a city at work: what an agency has on paper when a day begins.

It equals what `records.journal_reader.read_journal` reads from the records the city writes, with
three exceptions, all told by the time of an event or by its case:

- Calls of the day that can be visited on that day are appended, each as it came in.
- Cases that a city took in before its first recorded day are in no record. Where one of them still
  waits, it is here, and so are those that came after it.
- A call may find that an incident has ended while its case is not yet due for a visit. The agency
  then knows; the records name it when the visit would have been due, which may be after their end.

Numbers of buildings, postal codes, equipment, tracts and categories are the city's own: the same
names under other numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity311.city.cases import NO_ACCESS, NO_VIOLATION, RESTORED, OpenedCases, VisitLog
from parity311.city.clock import EPOCH, day_number
from parity311.city.process import ComplaintProcess
from parity311.city.reports import Reports
from parity311.city.setting import CitySetting
from parity311.records.journal import DAY_SECONDS, UNKNOWN, Journal
from parity311.records.journal import EPOCH as JOURNAL_EPOCH

_FURTHER = ("equipment", "boilers", "defect")
_OFFSET_DAYS = (EPOCH - JOURNAL_EPOCH.date()).days


def to_journal_days(days: NDArray[np.float64]) -> NDArray[np.float64]:
    """Days since 1970 of the city's days, cut to whole seconds as in its records."""
    return (np.floor(days * DAY_SECONDS) + _OFFSET_DAYS * DAY_SECONDS) / DAY_SECONDS


def describe_places(setting: CitySetting, building: NDArray[np.int32]) -> dict[str, NDArray]:
    """Columns of a journal that follow from the building, (n,) each."""
    tracts, buildings = setting.tracts, setting.buildings
    tract = buildings.tract[building].astype(np.int64)
    return {
        "tract": tract,
        "stratum": setting.stratum[tract],
        "borough": tracts.borough[tract].astype(np.int64),
        "board": tracts.community_board[tract].astype(np.int64),
        "zip": setting.zip_numbers[tract],
        "building": building.astype(np.int64),
        "units": buildings.units[building].astype(np.float64),
        "boilers": buildings.boilers[building].astype(np.float64),
    }


def assemble_journal(
    domain: str,
    day: int,
    columns: Mapping[str, Any],
    flag_names: tuple[str, ...],
    categories: tuple[str, ...],
    setting: CitySetting,
) -> Journal:
    """A journal from its columns: those of `Journal`, its flags, and what is further there."""
    apart = (*flag_names, *_FURTHER)
    return Journal(
        domain=domain,
        as_of=float(day + _OFFSET_DAYS),
        categories=categories,
        tracts=setting.tracts.geoid,
        n_tracts=setting.tracts.n,
        flags={name: columns[name] for name in flag_names},
        further={name: columns[name] for name in _FURTHER},
        **{name: values for name, values in columns.items() if name not in apart},
    )


class CaseLedger:
    """A domain's cases on paper, brought up to date when somebody asks; days only go forward."""

    def __init__(
        self,
        process: ComplaintProcess,
        setting: CitySetting,
        reports: Reports,
        report_case: NDArray[np.int64],
        cases: OpenedCases,
        visits: VisitLog,
    ) -> None:
        self.process, self.setting, self.reports = process, setting, reports
        self.report_case, self.cases, self.visits = report_case, cases, visits
        self.codes = tuple(entry.code for entry in process.categories)
        self.flag_names = tuple(flag.name for flag in process.flags) + tuple(process.category_flags)
        self.first_day = day_number(setting.date_from)
        self.n_cases = self.n_reports = self.n_recorded = self.n_visit_days = 0
        self.fixed: dict[str, NDArray] = {}
        size = len(reports.time)
        self.kept = {
            "n_reports": np.zeros(size, np.int64),
            "last_report": np.full(size, np.nan),
            "n_attempts": np.zeros(size, np.int64),
            "last_visit": np.full(size, np.nan),
            "settled": np.full(size, np.inf),
        }
        self.heard = {"report_at": np.zeros(0), "report_case": np.zeros(0, np.int64)}
        self.seen = {
            "visit_at": np.zeros(0),
            "visit_case": np.zeros(0, np.int64),
            "visit_result": np.zeros(0, np.int64),
        }
        self.later: dict[str, NDArray] = {
            "time": np.zeros(0),
            "case": np.zeros(0, np.int64),
            "result": np.zeros(0, np.int8),
        }

    def read(self, day: int, waiting: NDArray[np.int64]) -> tuple[Journal, NDArray[np.int64]]:
        """The journal at the start of a day, and where these cases stand in it."""
        self._advance(day)
        n = self.n_cases
        received = self.cases.received[:n]
        oldest = int(waiting.min()) if len(waiting) else n
        start = min(int(np.searchsorted(received, self.first_day)), oldest)
        today = np.unique(waiting[waiting >= n])
        columns: dict[str, NDArray] = {name: part[start:n] for name, part in self.fixed.items()}
        columns |= {name: part[start:n].copy() for name, part in self.kept.items()}
        columns["closed"] = self._closed(day)[start:]
        for part, case in ((self.heard, "report_case"), (self.seen, "visit_case")):
            inside = part[case] >= start
            columns |= {name: values[inside] for name, values in part.items()}
            columns[case] -= start
        if len(today):
            columns = self._append(columns, today, n - start)
        rows = np.where(waiting < n, waiting - start, n - start + np.searchsorted(today, waiting))
        flags, codes = self.flag_names, self.codes
        return assemble_journal(self.process.slug, day, columns, flags, codes, self.setting), rows

    def _append(
        self, columns: dict[str, NDArray], case: NDArray[np.int64], n: int
    ) -> dict[str, NDArray]:
        """The columns with cases of the day itself behind them, as they came in."""
        n_new, fixed = len(case), self._describe(case)
        # None of the day's reports is numbered yet: those taken back at its end get no number.
        fixed["complaint_id"] = self._ids(self.n_recorded + 1 + np.arange(n_new))
        came = fixed["began"]
        fresh = fixed | {
            "n_reports": np.ones(n_new, np.int64),
            "last_report": came,
            "n_attempts": np.zeros(n_new, np.int64),
            "last_visit": np.full(n_new, np.nan),
            "settled": np.full(n_new, np.inf),
            "closed": np.full(n_new, np.inf),
            "report_at": came,
            "report_case": n + np.arange(n_new),
        }
        return {
            name: np.concatenate([values, fresh[name]]) if name in fresh else values
            for name, values in columns.items()
        }

    def _advance(self, day: int) -> None:
        """Read the reports, cases and visits before a day that were not read yet."""
        n = int(np.searchsorted(self.cases.received[: self.cases.n], day))
        self._read_reports(int(np.searchsorted(self.reports.time, day)))
        if n > self.n_cases or not self.fixed:
            self._read_cases(n)
        self._read_visits(day)

    def _read_reports(self, n: int) -> None:
        index = np.arange(self.n_reports, n)
        self.n_reports = n
        index = index[self.report_case[index] >= 0]
        case, time = self.report_case[index], to_journal_days(self.reports.time[index])
        np.add.at(self.kept["n_reports"], case, 1)
        # In order of time, so that the latest stays.
        self.kept["last_report"][case] = time
        self.heard["report_at"] = np.append(self.heard["report_at"], time)
        self.heard["report_case"] = np.append(self.heard["report_case"], case)
        recorded = self.cases.received[case] >= self.first_day
        number = self.n_recorded + np.cumsum(recorded)
        self.n_recorded += int(recorded.sum())
        opens = self.cases.report[case] == index
        self._number = np.where(recorded, number, 0)[opens]

    def _read_cases(self, n: int) -> None:
        fresh = self._describe(np.arange(self.n_cases, n))
        fresh["complaint_id"] = self._ids(self._number)
        for name, values in fresh.items():
            if name not in self.fixed:
                self.fixed[name] = np.empty(len(self.reports.time), values.dtype)
            self.fixed[name][self.n_cases : n] = values
        self.n_cases = n

    def _read_visits(self, day: int) -> None:
        time, case, result = (
            np.concatenate([self.later[name], *self.visits.columns[name][self.n_visit_days :]])
            for name in ("time", "case", "result")
        )
        self.n_visit_days = len(self.visits.columns["case"])
        # An emergency late in the evening is visited after midnight.
        is_past = time < day
        self.later = {"time": time[~is_past], "case": case[~is_past], "result": result[~is_past]}
        time, case, result = to_journal_days(time[is_past]), case[is_past], result[is_past]
        order = np.lexsort((case, time))
        time, case = time[order], case[order].astype(np.int64)
        result = np.where(result == RESTORED, NO_VIOLATION, result)[order].astype(np.int64)
        np.add.at(self.kept["n_attempts"], case, 1)
        self.kept["last_visit"][case] = time
        let_in = result != NO_ACCESS
        np.minimum.at(self.kept["settled"], case[let_in], time[let_in])
        for name, values in (("at", time), ("case", case), ("result", result)):
            self.seen[f"visit_{name}"] = np.append(self.seen[f"visit_{name}"], values)

    def _closed(self, day: int) -> NDArray[np.float64]:
        """When each case was closed, infinite where that is not before the day."""
        closed, called = (part[: self.n_cases] for part in (self.cases.closed, self.cases.callback))
        closed = np.where(np.isinf(closed), called, closed)
        return to_journal_days(np.where(closed < day, closed, np.inf))

    def _describe(self, case: NDArray[np.int64]) -> dict[str, NDArray]:
        """What the first report of these cases says, (n,) each."""
        reports, process = self.reports, self.process
        report = self.cases.report[case]
        category = reports.category[report].astype(np.int64)
        columns = {
            "began": to_journal_days(self.cases.received[case]),
            "code": reports.code[report].astype(np.int64),
            "category": category,
            "equipment": np.full(len(case), UNKNOWN),
            "defect": np.full(len(case), np.nan),
            **describe_places(self.setting, self.cases.building[case]),
        }
        for position, flag in enumerate(process.flags):
            columns[flag.name] = reports.flags[report, position]
        for name, members in process.category_flags.items():
            columns[name] = np.array([code in members for code in self.codes])[category]
        return columns

    def _ids(self, number: NDArray[np.int64]) -> NDArray:
        """Ids as the records have them; empty for cases that are in none."""
        slug = self.process.slug
        ids = [f"{slug}-{one:08d}" if one > 0 else "" for one in number.tolist()]
        return np.array(ids, dtype=object)
