"""What the desk's own tables add up to: load, overrides, clocks, and who was served by month.

Counts by group are told with their interval; what rests on fewer than ten cases is not told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from parity311.desk.ledger import ACCEPT, OVERRIDE, read_log
from parity311.desk.offices import Promised, promised_days
from parity311.desk.tables import CLOSED, OPEN, CaseRow, VisitRow
from parity311.mdp.contract import STRATUM_NAMES
from parity311.records.compare import wilson
from parity311.service_levels.levels import ServiceLevels
from parity311.service_levels.monitor import follow_promise
from parity311.serving.recommend import FEWEST_SHOWN


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
    entries = [one for one in read_log(session) if one.action in (ACCEPT, OVERRIDE)]
    otherwise = [one for one in entries if one.action == OVERRIDE]
    n, k = len(entries), len(otherwise)
    low, high = wilson(k, n) if n else (0.0, 1.0)
    swaps = Counter((one.details["recommended"], one.details["chosen"]) for one in otherwise)
    return {
        "decisions": n,
        "overrides": k,
        "share": k / n if n else None,
        "share_lower": low,
        "share_upper": high,
        "by_reason": dict(Counter(one.reason for one in otherwise).most_common()),
        "by_person": dict(Counter(one.actor for one in entries).most_common()),
        "swaps": [
            {"recommended": a, "chosen": b, "times": times} for (a, b), times in swaps.most_common()
        ],
    }


def read_service(session: Session) -> list[dict[str, Any]]:
    """By month, domain and stratum: how many cases came in, and how many were seen in time.

    Seen is a visit with access within the service level. Months whose cases may still be served
    in time are told as they stand.
    """
    first = (
        select(VisitRow.case_number, func.min(VisitRow.visited_at).label("seen"))
        .where(VisitRow.result != "no_access")
        .group_by(VisitRow.case_number)
        .subquery()
    )
    rows = session.execute(
        select(
            CaseRow.domain, CaseRow.received_at, CaseRow.stratum, CaseRow.due_at, first.c.seen
        ).outerjoin(first, first.c.case_number == CaseRow.number)
    )
    came: Counter[tuple[str, str, int]] = Counter()
    seen: Counter[tuple[str, str, int]] = Counter()
    for domain, received, stratum, due, visited in rows:
        cell = (received[:7], domain, stratum)
        came[cell] += 1
        seen[cell] += bool(visited and visited <= due)
    return [_cell(*cell, came[cell], seen[cell]) for cell in sorted(came)]


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
