"""The office of one domain: who decides there, and the queue beside which a complaint is answered.

It is the path of `parity311 recommend`: `policy_in_office` says who decides, `OpenQueue` answers.
What came in since the records end is put into the journal, so that features see it. The queue is
made anew beside the work when it is older than `REFRESH_SECONDS`, and at once where it was told to
`forget`; a complaint is then answered in a millisecond. Only what is new is read for it, and it may
take no more than a hundredth of the time.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
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
from parity311.mdp.contract import N_STRATA
from parity311.records.journal import UNKNOWN, Cases, Journal, day_of
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.service_levels.levels import ServiceLevels
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
MOST_OF_TIME = 0.01
"""Share of the time that making the queue anew may take; a long one is made less often."""
OVERDUE = 2.0
"""Times its age at which a queue that nobody made anew is made by whoever needs it."""
ASK_SECONDS = 1.0
"""How old the registry's answer may be to who decides."""
VISIT, WAIT = "visit", "wait"
"""What can be decided about a case where a policy decides for the whole office."""
DAY_ENDS = clock_time(23, 59, 59)
"""A promise is kept to the end of its day."""


@dataclass(frozen=True)
class CameIn:
    """Cases that came to the desk since a look, and closings since then, by complaint."""

    cases: Sequence[CaseRow] = ()
    closed: Sequence[tuple[str, str]] = ()


ReadNew = Callable[[int, str], CameIn]
"""Number of the last case and time of the last closing that are known -> what is new."""


@dataclass(frozen=True)
class OfficeStanding:
    """Who decides at a moment, with the queues of the policy and of today's rule."""

    version: str
    """empty: today's rule"""
    policy: OpenQueue
    today: OpenQueue
    made: float
    """by the clock of this process, in seconds"""
    lasts: float
    """seconds for which it may be used"""


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
        self._lock, self._building = Lock(), Lock()
        self._standing: OfficeStanding | None = None
        self._deciding: tuple[float, str, LoadedPolicy] | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._journal = self.past
        self._place = {str(name): at for at, name in enumerate(self.past.complaint_id)}
        self._last_number, self._last_closed = 0, ""

    @cached_property
    def title(self) -> str:
        """The domain's name for people."""
        return self.deciding[1].domain.title

    @property
    def deciding(self) -> tuple[str, LoadedPolicy]:
        """The version that decides, empty for today's rule, and its policy; as of a moment ago."""
        kept = self._deciding
        if kept is not None and time.monotonic() - kept[0] < ASK_SECONDS:
            return kept[1], kept[2]
        version = self.registry.deciding(self.domain) or ""
        if kept is not None and version and kept[1] == version:
            policy = kept[2]
        else:
            policy = policy_in_office(self.registry, self.domain, self._package)[1]
        self._deciding = (time.monotonic(), version, policy)
        return version, policy

    @cached_property
    def codes(self) -> dict[str, str]:
        """Categories on record, most frequent first, with the priority code each mostly has."""
        past = self.past
        pairs = Counter(zip(past.category.tolist(), past.code.tolist(), strict=True))
        found: dict[str, str] = {}
        for (category, code), _ in pairs.most_common():
            found.setdefault(past.categories[category], SEVERITIES[code])
        return found

    @cached_property
    def past_service(self) -> dict[tuple[str, int], tuple[int, int]]:
        """By month and stratum: past cases not at the desk, and how many were seen in time."""
        past = self.past
        is_past = np.ones(past.n, bool)
        is_past[past.open_rows] = False
        levels = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])[past.code]
        is_seen = (past.settled <= past.began + levels) & is_past
        is_up = is_past & (past.began + levels <= past.as_of)
        months = past.began.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        cell = months * N_STRATA + past.stratum
        names, at = np.unique(cell[is_up], return_inverse=True)
        came = np.bincount(at, minlength=len(names))
        seen = np.bincount(at, is_seen[is_up], minlength=len(names)).astype(np.int64)
        return {
            (str(np.datetime64(int(name) // N_STRATA, "M")), int(name) % N_STRATA): (n, n_seen)
            for name, n, n_seen in zip(names, came.tolist(), seen.tolist(), strict=True)
        }

    @property
    def actions(self) -> list[str]:
        """What can be decided about one case."""
        policy = self.deciding[1]
        if policy.sight.rank is not None:
            return [VISIT, WAIT]
        pairs = zip(policy.action_names, policy.is_served.tolist(), strict=True)
        return [name for name, is_one in pairs if is_one]

    def standing(self, read: ReadNew, now: datetime) -> OfficeStanding:
        """Who decides, among past cases and those that came to the desk; made where there is none.

        One that is due to be made anew is given all the same, for a while: a thread of the server
        calls `refresh` beside the work.
        """
        with self._lock:
            kept = self._standing
            if kept is None or time.monotonic() - kept.made > OVERDUE * kept.lasts:
                self._standing = self._build(read, now)
            assert self._standing is not None
            return self._standing

    @property
    def is_due(self) -> bool:
        """Whether the queue beside which complaints are answered should be made anew."""
        kept = self._standing
        return kept is not None and time.monotonic() - kept.made > kept.lasts

    def refresh(self, read: ReadNew, now: datetime) -> None:
        """Make the queue anew; complaints are answered beside the old one meanwhile."""
        if self._building.acquire(blocking=False):
            try:
                made = self._build(read, now)
                with self._lock:
                    self._standing = made
            finally:
                self._building.release()

    def _build(self, read: ReadNew, now: datetime) -> OfficeStanding:
        began = time.monotonic()
        self._follow(read(self._last_number, self._last_closed), day_of(now))
        version, policy = self.deciding
        today = policy
        if version:
            today = policy_in_office(self.registry, self.domain, self._package, "today")[1]
        queues = [
            OpenQueue(one, self._journal, open_cases(one, self._journal), usual_capacity(self.past))
            for one in (policy, today)
        ]
        for queue in queues[: 2 if version else 1]:
            queue.prepare()
        took = time.monotonic() - began
        lasts = max(REFRESH_SECONDS, took / MOST_OF_TIME)
        return OfficeStanding(version, queues[0], queues[1], time.monotonic(), lasts)

    def _follow(self, came: CameIn, as_of: float) -> None:
        """Take what is new into the journal."""
        self._journal = with_new_cases(self._journal, self._place, came, as_of)
        if came.cases:
            self._last_number = max(row.number for row in came.cases)
        self._last_closed = max([self._last_closed, *(when for _, when in came.closed)])

    def forget(self) -> None:
        """Read everything anew at the next complaint, and ask the registry again."""
        with self._building, self._lock:
            self._standing = self._deciding = None
            self._begin_anew()

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
        rows = found.rows()
        todays_rows = rows if today is found else today.rows()
        place = {str(name): at for at, name in enumerate(today.cases.complaint_id)}
        todays = {
            row["complaint_id"]: _columns(today, row, place[row["complaint_id"]])
            for row in todays_rows
        }
        described: dict[str, dict[str, Any]] = {}
        for row, at in zip(rows, found.order.tolist(), strict=True):
            name = row["complaint_id"]
            is_left, chance = self._draw(standing, name)
            is_todays = is_left or today is found
            described[name] = {
                **(todays[name] if is_todays else _columns(found, row, at)),
                "version": standing.version,
                "arm": TODAY_ARM if is_left or not standing.version else POLICY_ARM,
                "propensity": chance,
                "todays_action": todays[name]["action"],
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


def with_new_cases(known: Journal, place: dict[str, int], came: CameIn, as_of: float) -> Journal:
    """The journal with what is new at the desk; `place` has every case's position, and grows."""
    new = [row for row in came.cases if row.complaint_id not in place]
    ends = {row.complaint_id: row.closed_at for row in came.cases if row.closed_at}
    ends |= dict(came.closed)
    closed = known.closed
    if any(name in place for name in ends):
        closed = closed.copy()
        for name, when in ends.items():
            if name in place:
                closed[place[name]] = _day(when)
    now = replace(known, as_of=max(as_of, known.as_of), closed=closed)
    if not new:
        return now
    cases = _as_cases(known, new)
    place.update((str(name), known.n + at) for at, name in enumerate(cases.complaint_id))
    closings = [_day(ends[str(name)]) if name in ends else np.inf for name in cases.complaint_id]
    return replace(
        now,
        **vars(known.as_cases.join(cases)),
        settled=np.append(known.settled, np.full(cases.n, np.inf)),
        closed=np.append(closed, closings),
        report_at=np.append(known.report_at, cases.began),
        report_case=np.append(known.report_case, np.arange(known.n, known.n + cases.n)),
    )


def _day(stamp: str) -> float:
    return day_of(datetime.fromisoformat(stamp))


def _as_cases(known: Journal, rows: Sequence[CaseRow]) -> Cases:
    """Rows of the desk as cases, in the order they came; all columns at once.

    A journal is in order of arrival: a complaint that an earlier time is told of came to the desk
    no earlier than the last one it knew.
    """
    ordered = sorted(rows, key=lambda row: (row.received_at, row.number or 0))
    names = list(dict.fromkeys(row.category for row in ordered))
    areas = [known.areas[row.tract] for row in ordered]
    began = np.array([_day(row.received_at) for row in ordered])
    if known.n:
        began = np.maximum(began, known.began[-1])
    flags = [json.loads(row.flags) for row in ordered]
    buildings = known.building_numbers
    n = len(ordered)
    place = {
        name: np.array([getattr(one, name) for one in areas])
        for name in ("tract", "stratum", "borough", "board", "zip")
    }
    return Cases(
        **place,
        complaint_id=np.array([row.complaint_id for row in ordered]),
        began=began,
        code=np.array([SEVERITIES.index(row.severity) for row in ordered]),
        category=np.array([names.index(row.category) for row in ordered]),
        building=np.array([buildings.get(row.building_id, UNKNOWN) for row in ordered]),
        units=np.array([row.units for row in ordered]),
        n_reports=np.array([row.n_reports for row in ordered]),
        last_report=began,
        n_attempts=np.zeros(n, np.int64),
        last_visit=np.full(n, np.nan),
        categories=tuple(names),
        flags={name: np.array([bool(one.get(name)) for one in flags]) for name in known.flags},
        further={
            "equipment": np.full(n, UNKNOWN),
            "boilers": np.ones(n),
            "defect": np.full(n, np.nan),
        },
    )
