"""Recommendations: every open case with its action, how sure, why, and what today's rule says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.mdp.contract import N_STRATA, STRATUM_NAMES
from parity311.records.journal import DAY_SECONDS, UNKNOWN, Cases, Journal, moment_of
from parity311.records.journal_reader import read_journal
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.records.store import Records
from parity311.serving.choose import (
    OfficeRouting,
    Routing,
    choose,
    choose_beside,
    choose_for_now,
    choose_one,
    worth_alone,
)
from parity311.serving.complaint import read_complaint
from parity311.serving.reasons import give_reasons
from parity311.serving.refusals import NOT_REFUSED, check_fields, say_refusal
from parity311.serving.served import ServedPolicy

FEWEST_SHOWN = 10
"""Cells of a summary by stratum with fewer cases are suppressed."""
MOST_DUPLICATES = 5
"""Likely duplicates that are named."""
WORKING_DAYS_A_WEEK = 5.0
FAR_FUTURE = 1e6
"""More days since 1970 than any record has: sorts by code before time."""


@dataclass(frozen=True)
class Recommendations:
    """What a policy recommends for the open cases of a domain at a moment."""

    policy: ServedPolicy
    journal: Journal
    cases: Cases
    choice: Routing
    capacity: int

    def __len__(self) -> int:
        """Number of cases."""
        return self.cases.n

    @property
    def order(self) -> np.ndarray:
        """Positions of the cases in the order to work them."""
        return np.argsort(self.choice.place, kind="stable")

    @property
    def is_reached(self) -> np.ndarray:
        """(n,) whether there is a visit for the case today."""
        return self.choice.is_visit & (self.choice.place < self.capacity)

    @property
    def today_reaches(self) -> np.ndarray:
        """(n,) whether today's rule would have visited it today."""
        return self.choice.today_place < self.capacity

    def rows(self, n: int | None = None) -> list[dict[str, Any]]:
        """The first n recommendations as plain data, all of them if not given."""
        chosen = self.order[: len(self) if n is None else n]
        cases, choice = self.cases.take(chosen), self.choice
        levels = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])
        due = cases.began + levels[cases.code]
        reasons = give_reasons(self.policy, self.cases, choice, self.journal.as_of, chosen)
        refusals = {
            number: say_refusal(self.policy, number)
            for number in np.unique(choice.refusal[chosen]).tolist()
        }
        goes = zip(choice.is_visit[chosen].tolist(), self.is_reached[chosen].tolist(), strict=True)
        # Column by column: a queue may be a hundred thousand long.
        columns: dict[str, Iterable[Any]] = {
            "rank": range(1, len(chosen) + 1),
            "complaint_id": map(str, cases.complaint_id),
            "action": [self.policy.action_names[i] for i in choice.action[chosen].tolist()],
            "today": [_say_today(*one) for one in goes],
            "severity": [SEVERITIES[code] for code in cases.code.tolist()],
            "received": _stamps(cases.began),
            "due": _stamps(due),
            "days_left": [round(days, 2) for days in (due - self.journal.as_of).tolist()],
            "margin": _numbers(choice.margin[chosen]),
            "agreement": _numbers(choice.agreement[chosen]),
            "reasons": map("; ".join, reasons),
            "coverage_price": _numbers(self.policy.prices[cases.stratum]),
            "price_effect": map(self.say_price, chosen.tolist()),
            "todays_rule": ["visit" if x else "wait" for x in self.today_reaches[chosen].tolist()],
            "todays_rank": (choice.today_place[chosen] + 1).tolist(),
            "reports": cases.n_reports.tolist(),
            "likely_duplicates": map(" ".join, find_alike(self.cases, chosen)),
            "fallback": [refusals[number] for number in choice.refusal[chosen].tolist()],
        }
        names = tuple(columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def say_price(self, row: int) -> str:
        """Where the coverage price changed what happens to a case, in words."""
        effect = self.choice.price_effect[row]
        if effect == 0:
            return ""
        area = STRATUM_NAMES[self.cases.stratum[row]].replace("_", " ")
        is_behind = f"would have waited: {area} is behind"
        return is_behind if effect > 0 else f"would have been visited: {area} is ahead"

    def summary(self) -> dict[str, Any]:
        """What is asked for and what there is, over all and by stratum."""
        reached, today = self.is_reached, self.today_reaches
        asked, refused = self.choice.is_visit, self.choice.refusal
        why = Counter(refused[refused != NOT_REFUSED].tolist())
        return {
            "domain": self.policy.domain.slug,
            "policy": self.policy.manifest["agent"],
            "as_of": _stamp(self.journal.as_of),
            "open_cases": len(self),
            "visits_there_are": self.capacity,
            "visits_asked_for": int(asked.sum()),
            "visits_made": int(reached.sum()),
            "same_as_todays_rule": int((reached & today).sum()),
            "prices_of": self.policy.manifest["origin"]["learned_to"],
            "reward": self.policy.manifest["reward"],
            "by_stratum": [
                _stratum_row(name, self.cases.stratum == number, asked, reached, today)
                for number, name in enumerate(STRATUM_NAMES)
                if (self.cases.stratum == number).any()
            ],
            "fallbacks": {say_refusal(self.policy, number): n for number, n in why.items()},
        }


def recommend(
    policy: ServedPolicy,
    cases: Records | Journal,
    as_of: datetime | None = None,
    *,
    capacity: int | None = None,
    complaint: Mapping[str, Any] | None = None,
) -> Recommendations:
    """What to do with every open case; see `ServedPolicy.recommend`."""
    domain = policy.domain
    if capacity is not None and capacity < 1:
        raise InputError(
            f"A capacity of {capacity} was given; give the visits there are, 1 or more."
        )
    journal = cases if isinstance(cases, Journal) else _open_journal(cases, domain.slug, as_of)
    if journal.domain != domain.slug:
        raise InputError(
            f"The cases are of {journal.domain!r}, the policy is for {domain.slug!r}; give cases "
            "and policy of one domain."
        )
    check_fields(domain, journal)
    room = usual_capacity(journal) if capacity is None else capacity
    waiting = open_cases(policy, journal)
    if complaint is not None:
        return OpenQueue(policy, journal, waiting, room).answer(complaint)
    if not waiting.n:
        raise InputError(
            f"No case of {domain.slug!r} is open at {_stamp(journal.as_of)}; choose another moment."
        )
    return Recommendations(policy, journal, waiting, choose(policy, journal, waiting, room), room)


def open_cases(policy: ServedPolicy, journal: Journal) -> Cases:
    """The open cases of a journal that the policy's domain decides about."""
    waiting = journal.take(journal.open_rows)
    concerns = policy.sight.concerns
    return waiting if concerns is None else waiting.take(np.flatnonzero(concerns(waiting)))


@dataclass(frozen=True)
class OpenQueue:
    """The open cases of an office, beside which new complaints are answered one by one."""

    policy: ServedPolicy
    journal: Journal
    cases: Cases
    capacity: int

    @cached_property
    def wanted(self) -> np.ndarray:
        """How much a visit is preferred in each waiting case that gets one, rising."""
        return self._worths(self.policy.prices)

    @cached_property
    def wanted_unpriced(self) -> np.ndarray:
        """The same without coverage prices."""
        return self._worths(np.zeros(N_STRATA)) if self.policy.prices.any() else self.wanted

    def _worths(self, prices: np.ndarray) -> np.ndarray:
        worth, _ = worth_alone(self.policy, self.journal, self.cases, prices)
        return np.sort(worth[worth > 0])

    @cached_property
    def _office(self) -> OfficeRouting:
        """What the office does now, where that is what is decided."""
        return choose_for_now(self.policy, self.journal, self.cases)

    @cached_property
    def _places_today(self) -> np.ndarray:
        """The waiting cases as today's rule sorts them: code, then time."""
        return np.sort(self.cases.code * FAR_FUTURE + self.cases.began)

    def prepare(self) -> None:
        """Work out what every answer needs, so that the first does not wait for it."""
        _ = self._places_today, self.journal.by_building, self.journal.by_tract
        _ = self.journal.building_numbers
        if self.policy.sight.rank is not None:
            _ = self._office
        else:
            _ = self.wanted, self.wanted_unpriced

    def answer(self, complaint: Mapping[str, Any]) -> Recommendations:
        """What to do with one new complaint, given who waits already."""
        case = read_complaint(self.journal, complaint)
        if self.policy.sight.rank is not None:
            choice = choose_beside(self.policy, self.journal, self.cases, case, self._office)
        else:
            choice = choose_one(self.policy, self.journal, case, self.wanted, self.wanted_unpriced)
        key = case.code * FAR_FUTURE + case.began
        today = np.searchsorted(self._places_today, key)
        choice = replace(choice, today_place=today)
        return Recommendations(self.policy, self.journal, case, choice, self.capacity)


def _open_journal(records: Records, domain: str, as_of: datetime | None) -> Journal:
    last = datetime.combine(records.window[1], datetime.min.time())
    return read_journal(records, domain, as_of or last)


def usual_capacity(journal: Journal) -> int:
    """Visits a working day, as many as were made over the last four weeks."""
    return max(round(journal.visits_per_day() * 7.0 / WORKING_DAYS_A_WEEK), 1)


def find_alike(cases: Cases, rows: np.ndarray) -> list[list[str]]:
    """Other open cases of the same building and category as each of these, by id."""
    n_categories = len(cases.categories) + 1
    group = np.where(cases.building >= 0, cases.building * n_categories + cases.category, UNKNOWN)
    # Members of each group lie together, in the order of the cases.
    member = np.argsort(group, kind="stable")
    ordered = group[member]
    low, high = (np.searchsorted(ordered, group[rows], side) for side in ("left", "right"))
    found: list[list[str]] = [[] for _ in rows]
    for at in np.flatnonzero((high - low > 1) & (group[rows] != UNKNOWN)).tolist():
        few = member[low[at] : min(high[at], low[at] + MOST_DUPLICATES + 1)]
        others = few[few != rows[at]][:MOST_DUPLICATES]
        found[at] = [str(name) for name in cases.complaint_id[others]]
    return found


def _stratum_row(
    name: str, here: np.ndarray, asked: np.ndarray, reached: np.ndarray, today: np.ndarray
) -> dict[str, Any]:
    """Counts of one stratum; None stands for fewer than `FEWEST_SHOWN`."""
    counts = {"open_cases": here, "asked_for": asked, "made": reached, "todays_rule": today}
    found = {key: int((values & here).sum()) for key, values in counts.items()}
    return {"stratum": name} | {key: n if n >= FEWEST_SHOWN else None for key, n in found.items()}


def _say_today(is_visit: bool, is_reached: bool) -> str:
    if is_reached:
        return "visit"
    return "no visit left" if is_visit else "wait"


def _stamp(day: float) -> str:
    return moment_of(day).isoformat(sep=" ", timespec="minutes")


def _stamps(days: np.ndarray) -> list[str]:
    """The same for many."""
    seconds = np.rint(days * DAY_SECONDS).astype("datetime64[s]")
    return [text.replace("T", " ") for text in np.datetime_as_string(seconds, "m").tolist()]


def _numbers(values: np.ndarray) -> list[float | None]:
    """Numbers to four places; None for what is none."""
    return [round(value, 4) if isfinite(value) else None for value in values.tolist()]
