"""Coverage prices in service: the published rule, applied to what was recorded since.

A stratum's price rises by η for every correct escalation that the mean stratum got more than it,
need for need; prices are centred and clipped. That is the rule of training
(`parity311.mdp.equity`), with a day's visits on record in the place of a step's, scaled to the
share of the city that the trained office is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from parity311.errors import InputError
from parity311.mdp.contract import N_KNOWN_STRATA, N_STRATA, STRATUM_NAMES
from parity311.records.journal import day_of
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES, VISIT_RESULTS
from parity311.serving.served import ServedPolicy

if TYPE_CHECKING:
    from parity311.records.journal import Journal


Served = TypeVar("Served", bound=ServedPolicy)


@dataclass(frozen=True)
class PriceUpdate:
    """What changed, by stratum (6,)."""

    since: str
    """day the old prices were of"""
    before: np.ndarray
    after: np.ndarray
    counted: np.ndarray
    """correct escalations on record since then: violations found within their service level"""
    need: np.ndarray
    """share of each stratum in the estimated need"""

    def rows(self) -> list[dict[str, Any]]:
        """As plain data, with the reason in words."""
        total = max(float(self.counted[:N_KNOWN_STRATA].sum()), 1.0)
        found = []
        for number, name in enumerate(STRATUM_NAMES[:N_KNOWN_STRATA]):
            got = float(self.counted[number]) / total
            change = float(self.after[number] - self.before[number])
            wanted = float(self.need[number])
            word = "fewer" if got < wanted else "more"
            found.append(
                {
                    "stratum": name,
                    "price_before": round(float(self.before[number]), 4),
                    "price_after": round(float(self.after[number]), 4),
                    "change": round(change, 4),
                    "correct_escalations": int(self.counted[number]),
                    "why": f"{got:.0%} of correct escalations, {word} than its {wanted:.0%} of the "
                    "need",
                }
            )
        return found


def update_prices(policy: Served, journal: Journal) -> tuple[Served, PriceUpdate]:
    """The policy with the prices of the journal's moment, and what changed."""
    manifest = policy.manifest
    since = manifest["origin"]["learned_to"]
    if not policy.is_priced or not since:
        raise InputError(
            "This policy has no coverage prices of a day: it was made without a weight on equity, "
            "or not from records. Leave --update-prices out, or train with a weight on equity."
        )
    first = day_of(datetime.combine(date.fromisoformat(since), datetime.min.time()))
    if journal.as_of < first:
        raise InputError(
            f"The prices are of {since}, after {journal.moment}; choose a later moment."
        )
    counted = count_correct(journal, first)
    after = move_prices(policy, policy.prices, counted, journal)
    known = np.asarray(manifest["denominators"], np.float64)[:N_KNOWN_STRATA]
    update = PriceUpdate(
        since=since,
        before=policy.prices,
        after=after,
        counted=counted.sum(axis=0),
        need=known / max(known.sum(), 1e-12),
    )
    changed = {**manifest, "prices": after.tolist()}
    return replace(policy, package=replace(policy.package, manifest=changed)), update


def move_prices(
    policy: ServedPolicy, prices: np.ndarray, counted: np.ndarray, journal: Journal
) -> np.ndarray:
    """Prices (6,) after so many days of what was found in the whole city (days, 6)."""
    manifest = policy.manifest
    per_day = len(journal.report_at) / max(journal.as_of - float(journal.began[0]), 1.0)
    share = min(manifest["complaints_per_day"] / max(per_day, 1e-9), 1.0)
    need = np.asarray(manifest["denominators"], np.float64)
    return follow_rule(prices, counted * share, need, manifest["price_step"], manifest["price_cap"])


def count_correct(journal: Journal, since: float) -> np.ndarray:
    """Violations found within their service level, by day since and stratum, (days, 6)."""
    levels = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])
    case = journal.visit_case
    is_found = journal.visit_result == VISIT_RESULTS.index("violation")
    in_time = journal.visit_at <= journal.began[case] + levels[journal.code[case]]
    chosen = is_found & in_time & (journal.visit_at >= since)
    day = np.floor(journal.visit_at[chosen] - since).astype(np.int64)
    n_days = max(int(np.ceil(journal.as_of - since)), 1)
    flat = day * N_STRATA + journal.stratum[case[chosen]]
    return np.bincount(flat, minlength=n_days * N_STRATA).reshape(n_days, N_STRATA)


def follow_rule(
    prices: np.ndarray, correct: np.ndarray, need: np.ndarray, step: float, cap: float
) -> np.ndarray:
    """Prices (6,) after so many days of correct escalations (days, 6)."""
    known = need[:N_KNOWN_STRATA]
    weights = np.where(known > 0, known.mean() / np.maximum(known, 1e-12), 0.0)
    now = np.asarray(prices, np.float64)[:N_KNOWN_STRATA].copy()
    for day in correct[:, :N_KNOWN_STRATA] * weights:
        now += step * (day.mean() - day)
        now = np.clip(now - now.mean(), -cap, cap)
    return np.append(now, 0.0)
