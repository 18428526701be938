"""What the desk's own tables add up to: load, overrides, clocks, and who was served by month.

Counts by group are told with their interval; what rests on fewer than ten cases is not told.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from markupsafe import Markup
from sqlalchemy import false, func, select
from sqlalchemy.orm import Session

from parity311.desk.ledger import ACCEPT, MERGED, OVERRIDE
from parity311.desk.offices import DeskOffice, Promised, promised_days
from parity311.desk.pictures import draw_shares
from parity311.desk.tables import CLOSED, OPEN, CaseRow, ChoiceRow, DeskLogRow, SurveyRow, VisitRow
from parity311.mdp.contract import N_KNOWN_STRATA, STRATUM_NAMES
from parity311.records.compare import wilson
from parity311.service_levels.levels import ServiceLevels
from parity311.service_levels.monitor import follow_promise
from parity311.serving.recommend import FEWEST_SHOWN

YEAR_DAYS = 365
FEWEST_ANSWERS = 5
"""Answers of staff below which their mean could be laid at somebody's door."""


def read_load(session: Session, now: datetime) -> list[dict[str, Any]]:
    """By domain: what waits, what was decided, how clocks stand."""
    counted = session.execute(
        select(CaseRow.domain, CaseRow.status, func.count()).group_by(
            CaseRow.domain, CaseRow.status
        )
    )
    found: dict[str, dict[str, Any]] = defaultdict(lambda: {"open": 0, "decided": 0, "closed": 0})
    for domain, status, n in counted:
        found[domain][status] = n
    stamp = now.isoformat(timespec="seconds")
    late = session.execute(
        select(CaseRow.domain, func.count())
        .where(CaseRow.status != CLOSED, CaseRow.due_at < stamp)
        .group_by(CaseRow.domain)
    )
    overdue = {row[0]: int(row[1]) for row in late}
    return [
        {"domain": domain, **counts, "overdue": overdue.get(domain, 0)}
        for domain, counts in sorted(found.items())
    ]


def read_overrides(session: Session) -> dict[str, Any]:
    """How often staff decided otherwise, why, and between which actions."""
    counted = session.execute(
        select(DeskLogRow.action, DeskLogRow.actor, DeskLogRow.reason, func.count())
        .where(DeskLogRow.action.in_((ACCEPT, OVERRIDE)))
        .group_by(DeskLogRow.action, DeskLogRow.actor, DeskLogRow.reason)
    )
    n = k = 0
    reasons: Counter[str] = Counter()
    people: Counter[str] = Counter()
    for action, actor, reason, times in counted:
        n += times
        people[actor] += times
        if action == OVERRIDE:
            k += times
            reasons[reason] += times
    low, high = wilson(k, n) if n else (0.0, 1.0)
    swaps = session.execute(
        select(CaseRow.action, CaseRow.chosen, func.count())
        .where(CaseRow.decided_seq > 0, CaseRow.chosen != CaseRow.action, CaseRow.chosen != MERGED)
        .group_by(CaseRow.action, CaseRow.chosen)
        .order_by(func.count().desc())
    )
    return {
        "decisions": n,
        "overrides": k,
        "share": k / n if n else None,
        "share_lower": low,
        "share_upper": high,
        "by_reason": dict(reasons.most_common()),
        "by_person": dict(people.most_common()),
        "swaps": [{"recommended": a, "chosen": b, "times": times} for a, b, times in swaps],
    }


def read_anchoring(session: Session) -> list[dict[str, Any]]:
    """How often staff choose what is recommended, where they saw it and where it was hidden."""
    counted = session.execute(
        select(CaseRow.is_blind, CaseRow.chosen == CaseRow.action, func.count())
        .where(CaseRow.decided_seq > 0, CaseRow.chosen != MERGED)
        .group_by(CaseRow.is_blind, CaseRow.chosen == CaseRow.action)
    )
    n: Counter[bool] = Counter()
    same: Counter[bool] = Counter()
    for is_blind, is_same, times in counted:
        n[bool(is_blind)] += times
        same[bool(is_blind)] += times if is_same else 0
    found = []
    for hidden in (False, True):
        low, high = wilson(same[hidden], n[hidden]) if n[hidden] else (0.0, 1.0)
        told = {"was_hidden": hidden, "decisions": n[hidden], "as_recommended": same[hidden]}
        found.append({**told, "lower": low, "upper": high})
    return found


def read_survey(session: Session) -> list[dict[str, Any]]:
    """Answers of staff by month and domain; fewer than five are not told."""
    rows = session.execute(select(SurveyRow.at, SurveyRow.domain, SurveyRow.score))
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for at, domain, score in rows:
        found[at[:7], domain].append(score)
    return [
        {"month": month, "domain": domain, "answers": len(scores),
         "mean": sum(scores) / len(scores) if len(scores) >= FEWEST_ANSWERS else None}
        for (month, domain), scores in sorted(found.items())
    ]  # fmt: skip


def read_service(
    session: Session, offices: Iterable[DeskOffice], now: datetime
) -> list[dict[str, Any]]:
    """By month, domain and stratum of the last year: cases whose time is up, how many were seen.

    Seen is a visit with access within the service level. What was on record when the desk opened
    counts with what came to it.
    """
    since = (now - timedelta(days=YEAR_DAYS)).isoformat()[:7]
    first = (
        select(VisitRow.case_number, func.min(VisitRow.visited_at).label("seen"))
        .where(VisitRow.result != "no_access")
        .group_by(VisitRow.case_number)
        .subquery()
    )
    month = func.substr(CaseRow.received_at, 1, 7)
    is_seen = func.coalesce(first.c.seen <= CaseRow.due_at, false())
    rows = session.execute(
        select(month, CaseRow.domain, CaseRow.stratum, is_seen, func.count())
        .outerjoin(first, first.c.case_number == CaseRow.number)
        .where(CaseRow.due_at <= now.isoformat(timespec="seconds"), month >= since)
        .group_by(month, CaseRow.domain, CaseRow.stratum, is_seen)
    )
    came: Counter[tuple[str, str, int]] = Counter()
    seen: Counter[tuple[str, str, int]] = Counter()
    for when, domain, stratum, was_seen, n in rows:
        came[when, domain, stratum] += n
        seen[when, domain, stratum] += n if was_seen else 0
    for office in offices:
        for (when, stratum), (n, n_seen) in office.past_service.items():
            if when >= since:
                came[when, office.domain, stratum] += n
                seen[when, office.domain, stratum] += n_seen
    return [_cell(*cell, came[cell], seen[cell]) for cell in sorted(came)]


def picture_service(service: list[dict[str, Any]], domain: str) -> dict[str, Any]:
    """The same as a picture: the areas with the lowest and the highest incomes, with intervals.

    `svg` is empty where nothing can be told.
    """
    own = [one for one in service if one["domain"] == domain]
    months = sorted({one["month"] for one in own})
    shown = {"lowest incomes": 0, "highest incomes": N_KNOWN_STRATA - 1}
    told = {(one["month"], one["group"]): one for one in own if one["share"] is not None}
    groups = {}
    for name, number in shown.items():
        group = STRATUM_NAMES[number].replace("_", " ")
        cells = [told.get((month, group)) for month in months]
        groups[name] = [one and (one["share"], one["lower"], one["upper"]) for one in cells]
    if not any(any(values) for values in groups.values()):
        return {"title": "", "svg": Markup("")}
    kind = domain.replace("_", " ").capitalize()
    title = f"{kind}: share seen in time, by month; fifths of the city by income"
    return {"title": title, "svg": draw_shares(months, groups, title)}


def read_promises(
    session: Session, promised: Mapping[str, Promised], now: datetime
) -> list[dict[str, Any]]:
    """By domain, district and category: what is promised, and how it was kept among those due.

    A visit counts whatever it found. The band holds on all days at once; fewer than ten are not
    told.
    """
    first = (
        select(VisitRow.case_number, func.min(VisitRow.visited_at).label("seen"))
        .group_by(VisitRow.case_number)
        .subquery()
    )
    found = []
    for domain, one in promised.items():
        asked = select(CaseRow, first.c.seen).outerjoin(
            first, first.c.case_number == CaseRow.number
        )
        cells: dict[tuple[str, str], list[tuple[int, bool]]] = defaultdict(list)
        for row, seen in session.execute(asked.where(CaseRow.domain == domain)):
            if promised_days(row) is None:
                continue
            due = datetime.fromisoformat(row.due_at).toordinal()
            cell = one.districts[row.tract], row.category
            cells[cell].append((due, bool(seen and seen <= row.due_at)))
        found += [
            {"domain": domain, "district": cell[0], "category": cell[1]}
            | _kept_so_far(one.levels, cell, cells[cell], now.toordinal())
            for cell in sorted(cells)
        ]
    return found


def _kept_so_far(
    levels: ServiceLevels, cell: tuple[str, str], cases: list[tuple[int, bool]], today: int
) -> dict[str, Any]:
    """Promised days and share of one cell, and the share kept; None where it rests on too few."""
    due, kept = (np.array(column) for column in zip(*cases, strict=True))
    told = follow_promise(due.astype(np.int64), kept.astype(bool), levels.share, today=today)
    promise = levels.find(*cell)
    found: dict[str, Any] = {
        "days": promise.days if promise else None, "promised": levels.share
    }  # fmt: skip
    n_due = int(told.n_due[-1]) if len(told.n_due) else 0
    n_kept = round(n_due * float(told.kept_share[-1])) if n_due else 0
    if n_due < FEWEST_SHOWN or 0 < min(n_kept, n_due - n_kept) < FEWEST_SHOWN:
        return found | dict.fromkeys(("due", "share", "lower", "upper"))
    return found | {
        "due": n_due, "share": n_kept / n_due,
        "lower": float(told.lower[-1]), "upper": float(told.upper[-1]),
    }  # fmt: skip


def _cell(month: str, domain: str, stratum: int, came: int, seen: int) -> dict[str, Any]:
    """One cell; None where it rests on too few, on either side."""
    plain: dict[str, Any] = {
        "month": month, "domain": domain, "group": STRATUM_NAMES[stratum].replace("_", " ")
    }  # fmt: skip
    if came < FEWEST_SHOWN:
        return plain | dict.fromkeys(("cases", "seen_in_time", "share", "lower", "upper"))
    told = None if 0 < min(seen, came - seen) < FEWEST_SHOWN else seen
    if told is None:
        return plain | {"cases": came} | dict.fromkeys(("seen_in_time", "share", "lower", "upper"))
    low, high = wilson(seen, came)
    share = {"share": seen / came, "lower": low, "upper": high}
    return plain | {"cases": came, "seen_in_time": seen} | share


def count_open(session: Session) -> int:
    """Cases nobody decided yet."""
    asked = select(func.count()).select_from(CaseRow).where(CaseRow.status == OPEN)
    return session.scalar(asked) or 0


def choices_made(session: Session) -> list[dict[str, Any]]:
    """What groups chose, newest first."""
    rows = session.scalars(select(ChoiceRow).order_by(ChoiceRow.number.desc()))
    return [
        {"at": one.at, "domain": one.domain, "run": one.run, "point": one.point, "who": one.who,
         "reason": one.reason, "entry": one.seq, "outcome": json.loads(one.outcome)}
        for one in rows
    ]  # fmt: skip
