"""The office of one domain: who decides there, and the queue beside which a complaint is answered.

It is the path of `parity311 recommend`: `policy_in_office` says who decides, `OpenQueue` answers.
What came in since the records end is put into the journal, so that features see it. The queue is
made anew when it is older than `REFRESH_SECONDS` or the registry says otherwise; a complaint is
then answered in a millisecond.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from datetime import time as clock_time
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from parity311.agents.package import Package
from parity311.desk.tables import CaseRow
from parity311.lifecycle.office import LEFT_SHARE, POLICY_ARM, TODAY_ARM, policy_in_office
from parity311.lifecycle.registry import Registry
from parity311.records.journal import Cases, Journal, day_of
from parity311.records.schema import SERVICE_LEVEL_DAYS
from parity311.service_levels.levels import ServiceLevels
from parity311.serving.complaint import read_complaint
from parity311.serving.policy import LoadedPolicy
from parity311.serving.reasons import tell_facts
from parity311.serving.recommend import (
    OpenQueue,
    Recommendations,
    open_cases,
    recommend,
    usual_capacity,
)

REFRESH_SECONDS = 5.0
"""How old the queue may be beside which a complaint is answered."""
VISIT, WAIT = "visit", "wait"
"""What can be decided about a case where a policy decides for the whole office."""
DAY_ENDS = clock_time(23, 59, 59)
"""A promise is kept to the end of its day."""
COMPLAINT_FIELDS = ("complaint_id", "category", "severity", "tract", "received_at", "building_id")


@dataclass(frozen=True)
class OfficeStanding:
    """Who decides at a moment, with the queues of the policy and of today's rule."""

    version: str
    """empty: today's rule"""
    policy: OpenQueue
    today: OpenQueue
    made: float
    """by the clock of this process, in seconds"""


@dataclass(frozen=True)
class Promised:
    """What a domain's complaints are promised at the desk, by where they come from."""

    levels: ServiceLevels
    districts: Mapping[str, str]
    """district of each tract"""

    def due(self, category: str, tract: str, received: datetime) -> datetime | None:
        """The end of the last day on which a visit keeps the promise; None where there is none."""
        day = self.levels.due(received.date(), self.districts[tract], category)
        return None if day is None else datetime.combine(day, DAY_ENDS)


class DeskOffice:
    """One domain at the desk; safe to use from several threads."""

    def __init__(
        self,
        registry: Registry,
        domain: str,
        journal: Journal,
        package: Package | None = None,
        left_share: float = LEFT_SHARE,
        promised: Promised | None = None,
    ) -> None:
        self.promised = promised
        self.registry, self.domain, self.past = registry, domain, journal
        self._package, self._left_share = package, left_share
        self._lock = Lock()
        self._standing: OfficeStanding | None = None

    @cached_property
    def title(self) -> str:
        """The domain's name for people."""
        return self.deciding[1].domain.title

    @property
    def deciding(self) -> tuple[str, LoadedPolicy]:
        """The version that decides, empty for today's rule, and its policy."""
        version, policy = policy_in_office(self.registry, self.domain, self._package)
        return version or "", policy

    @property
    def actions(self) -> list[str]:
        """What can be decided about one case."""
        policy = self.deciding[1]
        if policy.sight.rank is not None:
            return [VISIT, WAIT]
        pairs = zip(policy.action_names, policy.is_served.tolist(), strict=True)
        return [name for name, is_one in pairs if is_one]

    def standing(self, read: Callable[[], Sequence[CaseRow]], now: datetime) -> OfficeStanding:
        """Who decides now, among past cases and those that came to the desk, read where needed."""
        with self._lock:
            kept = self._standing
            if kept is not None and time.monotonic() - kept.made < REFRESH_SECONDS:
                return kept
            version, policy = self.deciding
            journal = with_new_cases(self.past, read(), day_of(now))
            today = policy
            if version:
                today = policy_in_office(self.registry, self.domain, self._package, "today")[1]
            queues = [
                OpenQueue(one, journal, open_cases(one, journal), usual_capacity(self.past))
                for one in (policy, today)
            ]
            made = OfficeStanding(version, queues[0], queues[1], time.monotonic())
            self._standing = made
            return made

    def forget(self) -> None:
        """Ask the registry again at the next complaint, whatever the time."""
        with self._lock:
            self._standing = None

    def due_at(self, category: str, severity: str, tract: str, received: datetime) -> datetime:
        """When a complaint has to have been served: as promised, else by its code."""
        promised = self.promised and self.promised.due(category, tract, received)
        return promised or due_by_code(severity, received)

    def answer(self, standing: OfficeStanding, complaint: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of one new case's recommendation, by name."""
        given = {name: value for name, value in complaint.items() if value not in ("", None)}
        today = standing.today.answer(given)
        found = standing.policy.answer(given) if standing.version else today
        return self._describe(standing, found, today)[0]

    def answer_all(self, standing: OfficeStanding) -> dict[str, dict[str, Any]]:
        """The same for every case that was open when the desk began, by complaint."""
        found, today = (
            recommend(one.policy, one.journal, capacity=one.capacity)
            for one in (standing.policy, standing.today)
        )
        described = self._describe(standing, found, today)
        return dict(zip(map(str, found.cases.complaint_id), described, strict=True))

    def _describe(
        self, standing: OfficeStanding, found: Recommendations, today: Recommendations
    ) -> list[dict[str, Any]]:
        """Recommendations as columns of `desk_cases`, in the order of the cases."""
        by_today = {row["complaint_id"]: row for row in today.rows()}
        place = {str(name): at for at, name in enumerate(today.cases.complaint_id)}
        described: dict[str, dict[str, Any]] = {}
        for row, at in zip(found.rows(), found.order.tolist(), strict=True):
            name = row["complaint_id"]
            is_left, chance = self._draw(standing, name)
            described[name] = {
                **(
                    _columns(today, by_today[name], place[name])
                    if is_left
                    else _columns(found, row, at)
                ),
                "version": standing.version,
                "arm": TODAY_ARM if is_left or not standing.version else POLICY_ARM,
                "propensity": chance,
                "todays_action": _columns(today, by_today[name], place[name])["action"],
            }
            if described[name]["fallback"]:
                described[name]["arm"] = TODAY_ARM
        return [described[str(name)] for name in found.cases.complaint_id]

    def _draw(self, standing: OfficeStanding, complaint_id: str) -> tuple[bool, float]:
        """Whether a case is left to today's rule, and the chance of what was drawn.

        The name draws: the same complaint, the same order.
        """
        policy = standing.policy.policy
        if not standing.version or policy.sight.comes_back is not None:
            return False, 1.0
        named = f"{self.domain} {standing.version} {complaint_id}"
        rng = np.random.default_rng(list(hashlib.sha256(named.encode()).digest()))
        is_left = bool(rng.random() < self._left_share)
        return is_left, self._left_share if is_left else 1.0 - self._left_share


def _columns(found: Recommendations, row: Mapping[str, Any], at: int) -> dict[str, Any]:
    """What one row of recommendations, of the case at this position, says."""
    policy, choice = found.policy, found.choice
    is_visit = bool(choice.is_visit[at])
    reasons = [one for one in row["reasons"].split("; ") if one]
    if not reasons:
        # A rule that looks at nothing but code and age has those for reasons.
        reasons = list(tell_facts(found.cases, np.array([at]), found.journal.as_of)[0])
    seen = dict(zip(policy.observation_names, choice.observation[at].tolist(), strict=True))
    agent, action = str(policy.manifest["agent"]), row["action"]
    if policy.sight.rank is not None:
        # The action is the whole office's; about the case it says whether somebody goes.
        agent, action = f"{agent}: {action}", VISIT if is_visit else WAIT
    return {
        "policy": agent,
        "action": action,
        "escalates": is_visit,
        "goes": row["today"],
        "margin": row["margin"],
        "agreement": row["agreement"],
        "reasons": json.dumps(reasons),
        "fallback": row["fallback"],
        "price_effect": row["price_effect"],
        "features": json.dumps(seen),
    }


def due_by_code(severity: str, received: datetime) -> datetime:
    """When a complaint of a code has to have been served."""
    return received + timedelta(days=SERVICE_LEVEL_DAYS[severity])


def promised_days(row: CaseRow) -> int | None:
    """Days within which a case was promised a visit when it came; None: its code's clock runs."""
    due, received = (datetime.fromisoformat(one) for one in (row.due_at, row.received_at))
    if due.time() != DAY_ENDS or due == due_by_code(row.severity, received):
        return None
    return (due.date() - received.date()).days


def with_new_cases(past: Journal, came: Sequence[CaseRow], as_of: float) -> Journal:
    """The journal with the cases that came to the desk after it, as they stand."""
    place = {str(name): at for at, name in enumerate(past.complaint_id)} if came else {}
    closed = past.closed.copy()
    for row in came:
        if row.closed_at and row.complaint_id in place:
            closed[place[row.complaint_id]] = _day(row.closed_at)
    now = replace(past, as_of=max(as_of, past.as_of), closed=closed)
    new = [row for row in came if row.complaint_id not in place]
    if not new:
        return now
    cases = _as_cases(past, new)
    ends = {row.complaint_id: _day(row.closed_at) if row.closed_at else np.inf for row in new}
    both = past.take(np.arange(past.n)).join(cases)
    return replace(
        now,
        **vars(both),
        settled=np.append(past.settled, np.full(cases.n, np.inf)),
        closed=np.append(closed, [ends[str(name)] for name in cases.complaint_id]),
        report_at=np.append(past.report_at, cases.began),
        report_case=np.append(past.report_case, np.arange(past.n, past.n + cases.n)),
    )


def _day(stamp: str) -> float:
    return day_of(datetime.fromisoformat(stamp))


def _as_cases(past: Journal, rows: Sequence[CaseRow]) -> Cases:
    """Rows of the desk as cases, in the order they came."""
    ordered = sorted(rows, key=lambda row: (row.received_at, row.complaint_id))
    parts = [read_complaint(past, complaint_of(row)) for row in ordered]
    names = list(dict.fromkeys(one.categories[0] for one in parts))
    columns = {
        name: np.concatenate([getattr(one, name) for one in parts])
        for name in vars(parts[0])
        if name not in ("categories", "flags", "further", "category", "n_reports")
    }
    joined = lambda part: {  # noqa: E731
        name: np.concatenate([getattr(one, part)[name] for one in parts])
        for name in getattr(parts[0], part)
    }
    return Cases(
        **columns,
        category=np.array([names.index(one.categories[0]) for one in parts]),
        n_reports=np.array([row.n_reports for row in ordered]),
        categories=tuple(names),
        flags=joined("flags"),
        further=joined("further"),
    )


def complaint_of(row: CaseRow) -> dict[str, Any]:
    """A row as the plain complaint that `read_complaint` takes."""
    plain = {name: getattr(row, name) for name in COMPLAINT_FIELDS}
    return plain | {"units": row.units} | json.loads(row.flags)
