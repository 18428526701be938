"""A day in office: who decides by the registry, who looks on, and what is left to today's rule.

The version in office orders the open cases. Of the visits there are, each goes with a small, logged
chance to the next case of today's rule instead: both orders then work side by side on the same day,
and what they find can be compared (`lights.py`). Versions in SHADOW are asked about the same cases
and are not followed. All of it is kept (`decisions`), once a version and moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import select

from parity311.agents.package import Package
from parity311.errors import RegistryError
from parity311.lifecycle.registry import Registry
from parity311.lifecycle.states import PolicyState
from parity311.lifecycle.tables import DecisionRow
from parity311.mdp.contract import N_STRATA, TODAYS_RULE
from parity311.records.journal import Journal, moment_of
from parity311.serving.policy import LoadedPolicy
from parity311.serving.recommend import Recommendations

LEFT_SHARE = 0.1
"""Chance with which a visit is left to today's rule."""
OFFICE, SHADOW = "office", "shadow"
POLICY_ARM, TODAY_ARM = "policy", "today"


@dataclass(frozen=True)
class OfficeDay:
    """What is recommended, by whom, and what was kept of it."""

    version: str | None
    """who decided; None: today's rule"""
    found: Recommendations
    arm: np.ndarray
    """(n,) by case whose order filled its visit; empty where nobody goes"""
    shadows: tuple[str, ...]
    """versions that looked on"""
    n_kept: int
    """decisions that were stored now; 0 where this moment was on record"""


def recommend_in_office(
    registry: Registry,
    domain: str,
    journal: Journal,
    *,
    capacity: int | None = None,
    left_share: float = LEFT_SHARE,
    complaint: Mapping[str, Any] | None = None,
) -> OfficeDay:
    """Recommend by the version in office, ask those in shadow, keep what each chose.

    One complaint alone is answered and not kept: it takes no visit from anybody.
    """
    version, policy = policy_in_office(registry, domain)
    found = policy.recommend(journal, capacity=capacity, complaint=complaint)
    nobody = np.full(len(found), "", dtype=object)
    shadows = tuple(
        one.version
        for one in registry.policies()
        if one.domain == domain and one.state == PolicyState.SHADOW
    )
    if complaint is not None:
        return OfficeDay(version, found, nobody, (), 0)
    arm = np.where(found.is_reached, TODAY_ARM, nobody)
    share = left_share if version and policy.sight.comes_back is None else 0.0
    if version:
        found, arm = leave_to_today(found, share, f"{domain} {version} {journal.as_of}")
    rows = _rows(version, OFFICE, found, arm, share) if version else []
    for one in shadows:
        seen = registry.load(one).recommend(journal, capacity=found.capacity)
        rows += _rows(one, SHADOW, seen, np.where(seen.is_reached, POLICY_ARM, ""), 0.0)
    return OfficeDay(version, found, arm, shadows, _keep(registry, rows))


def policy_in_office(
    registry: Registry, domain: str, package: Package | None = None, arm: str = POLICY_ARM
) -> tuple[str | None, LoadedPolicy]:
    """The version that decides in a domain and its policy; None and today's rule where none does.

    Today's rule is what any package of the domain carries; `package` is for a registry that has
    none. With the arm `today` it is asked for whoever decides.
    """
    version = registry.deciding(domain)
    if version and arm != TODAY_ARM:
        return version, registry.load(version)
    return version, _todays_policy(registry, domain, package)


def _todays_policy(registry: Registry, domain: str, otherwise: Package | None) -> LoadedPolicy:
    known = [one.version for one in registry.policies() if one.domain == domain]
    if not known and otherwise is None:
        raise RegistryError(
            f"In {domain!r} today's rule decides, and the registry has no package that carries it; "
            f"propose a policy first (`parity311 cycle {domain}`), or recommend by a folder."
        )
    package = registry.load(known[-1]).package if known else otherwise
    assert package is not None
    manifest = {**package.manifest, "agent": TODAYS_RULE, "prices": [0.0] * N_STRATA}
    return LoadedPolicy(
        Package(package.rule, manifest, package.rule, package.params, package.seen, ())
    )


def leave_to_today(
    found: Recommendations, share: float, named: str
) -> tuple[Recommendations, np.ndarray]:
    """The order in which visits go to the policy's next case, or with a chance to today's.

    `named` draws: the same name, the same order. Where the policy wants no more visits, those of
    its turn are not made.
    """
    choice, n = found.choice, len(found)
    rng = np.random.default_rng(list(hashlib.sha256(named.encode()).digest()))
    is_todays_turn = rng.random(found.capacity) < share
    lines = {
        False: [i for i in np.argsort(choice.place, kind="stable").tolist() if choice.is_visit[i]],
        True: np.argsort(choice.today_place, kind="stable").tolist(),
    }
    at = {False: 0, True: 0}
    arm = np.full(n, "", dtype=object)
    order: list[int] = []
    for turn in is_todays_turn.tolist():
        line = lines[turn]
        while at[turn] < len(line) and arm[line[at[turn]]]:
            at[turn] += 1
        if at[turn] < len(line):
            case = line[at[turn]]
            arm[case] = TODAY_ARM if turn else POLICY_ARM
            order.append(case)
    rest = [i for i in np.argsort(choice.place, kind="stable").tolist() if not arm[i]]
    place = np.empty(n, np.int64)
    place[np.array([*order, *rest], np.int64)] = np.arange(n)
    # Who comes after the last visit is not reached, wanted or not.
    is_visit = np.where(arm != "", True, choice.is_visit & (place >= found.capacity))
    return replace(found, choice=replace(choice, place=place, is_visit=is_visit)), arm


def _rows(
    version: str, role: str, found: Recommendations, arm: np.ndarray, share: float
) -> list[DecisionRow]:
    """What is kept of one version: the cases that it or today's rule sends somebody to."""
    todays = found.today_reaches
    as_of = moment_of(found.journal.as_of).isoformat()
    names = found.policy.action_names
    rows = []
    for case in np.flatnonzero((arm != "") | todays).tolist():
        is_left = arm[case] == TODAY_ARM
        rows.append(
            DecisionRow(
                domain=found.policy.domain.slug,
                version=version,
                role=role,
                as_of=as_of,
                complaint_id=str(found.cases.complaint_id[case]),
                action=names[int(found.choice.action[case])],
                arm=str(arm[case]),
                stratum=int(found.cases.stratum[case]),
                slot=int(found.choice.place[case]) + 1 if arm[case] else 0,
                chance=share if is_left else 1.0 - share,
                is_chosen=bool(arm[case]),
                is_todays=bool(todays[case]),
            )
        )
    return rows


def _keep(registry: Registry, rows: list[DecisionRow]) -> int:
    """Store decisions of moments that are not on record; how many."""
    moments = {(row.domain, row.version, row.as_of) for row in rows}
    with registry.database.writing() as session:
        known = set()
        for domain, version, as_of in moments:
            there = select(DecisionRow.number).where(
                DecisionRow.domain == domain,
                DecisionRow.version == version,
                DecisionRow.as_of == as_of,
            )
            if session.scalars(there.limit(1)).first() is not None:
                known.add((domain, version, as_of))
        fresh = [row for row in rows if (row.domain, row.version, row.as_of) not in known]
        session.add_all(fresh)
    return len(fresh)


def read_decisions(registry: Registry, version: str, since: str = "") -> list[DecisionRow]:
    """Decisions of a version from a moment on, in order."""
    registry.stored(version)
    with registry.database.reading() as session:
        asked = (
            select(DecisionRow)
            .where(DecisionRow.version == version, DecisionRow.as_of >= since)
            .order_by(DecisionRow.as_of, DecisionRow.slot, DecisionRow.number)
        )
        rows = list(session.scalars(asked))
        session.expunge_all()
    return rows
