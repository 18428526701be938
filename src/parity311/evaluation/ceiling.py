"""What could be reached at best: exact where steps are independent, best known in a queue.

The ceiling sees what the policy sees and has the same capacity. The floor of the price of equity
is the least that must be given up for a gap: thresholds per stratum, chosen under the truth, that
make as many visits and keep every two strata within the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from parity311.engines.heuristics import CaseTable, Threshold, cell_index, hold_to_share
from parity311.engines.table import rules, scores
from parity311.errors import InputError
from parity311.estimation.kind_chances import pooled_chances
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.mdp.harness import Harness

N_SPLITS = 20
"""Random halves over which it is averaged what could be learned at all."""


def bayes_rule(cases: CaseTable, harness: Harness) -> Threshold:
    """The best rule on the policy's own observation at capacity, exact for these cases.

    It ranks by the share actionable among all cases that look alike; nothing that sees only this
    can do better. Under the truth it knows more than any records could tell: it is a ceiling, not
    a competitor.
    """
    margin = rules.score_margin(cases, harness, prior=0.0)
    return rules.hold_to_capacity(margin, cases, harness)


def bayes_chances(cases: CaseTable, harness: Harness) -> np.ndarray:
    """Share actionable among the cases that look like each case, (n,)."""
    levels = tuple(cases.levels[i] for i in harness.columns)
    chances = scores.cell_chances(cases, harness.columns, prior=0.0)
    return chances[cell_index(levels, cases.features[:, harness.columns])]


def learnable_share(cases: CaseTable, harness: Harness, today: Threshold) -> float:
    """Share of the way that a rule fitted to the true chances of other cases of the year reaches.

    The ceiling knows how each kind of case is made up in these very cases. A rule that knows the
    true chances of one half (drawn together as a planner would) is set against the ceiling of the
    other half; what it lacks there no record could tell. Mean over `N_SPLITS` random halves.
    """
    levels = tuple(cases.levels[i] for i in harness.columns)
    cell = cell_index(levels, cases.features[:, harness.columns])
    now = np.asarray(jax.vmap(today.margin)(rules.case_observations(cases, harness)))
    rng = np.random.default_rng(0)
    found = []
    for _ in range(N_SPLITS):
        known = rng.random(len(cell)) < 0.5
        chance = cases.is_actionable[~known]
        fitted = pooled_chances(cell[known], cases.is_actionable[known], levels)
        here = cell[~known]
        own = np.bincount(here, chance, len(fitted)) / np.maximum(
            np.bincount(here, minlength=len(fitted)), 1
        )
        base, reached, best = (
            _caught(margin, chance, cases.capacity_share)
            for margin in (now[~known], fitted[here], own[here])
        )
        found.append((reached - base) / (best - base))
    return float(np.mean(found))


def _caught(margin: np.ndarray, chance: np.ndarray, share: float) -> float:
    """Expected correct escalations where the highest margins are visited, as many as can be."""
    threshold, tie_chance = hold_to_share(margin, share)
    return float(chance @ ((margin > threshold) + tie_chance * (margin == threshold)))


@dataclass(frozen=True)
class Allocation:
    """Visits given to the strata, likeliest cases first."""

    coverage: np.ndarray
    """(5,) expected correct escalations per actionable incident"""
    correct: float
    """expected correct escalations"""
    visits: float


@dataclass(frozen=True)
class _Curve:
    """Expected correct escalations of one stratum as a function of its visits."""

    chances: np.ndarray
    """sorted, highest first"""
    need: float

    def correct(self, visits: float) -> float:
        cumulative = np.concatenate([[0.0], np.cumsum(self.chances)])
        return float(np.interp(visits, np.arange(len(cumulative)), cumulative))

    def visits_for(self, correct: float) -> float:
        cumulative = np.concatenate([[0.0], np.cumsum(self.chances)])
        return float(np.interp(correct, cumulative, np.arange(len(cumulative))))

    def visits_above(self, level: float) -> float:
        return float(np.searchsorted(-self.chances, -level, side="right"))

    @property
    def most(self) -> float:
        """Largest coverage: every case visited."""
        return float(self.chances.sum()) / self.need


def least_price(
    chances: np.ndarray,
    stratum: np.ndarray,
    need: np.ndarray,
    n_visits: float,
    gap: float,
) -> tuple[Allocation, float]:
    """Best allocation of visits with a coverage gap of at most `gap`, and its price.

    Parameters
    ----------
    chances, stratum
        (n,) chance of being actionable and stratum of every case.
    need
        (6,) actionable incidents by stratum, reported or not.
    n_visits
        Visits to give out.
    gap
        Largest difference in coverage allowed between two known strata.

    Returns
    -------
    The allocation, and the share of correct escalations it gives up against the best without a
    limit (NaN where no allocation of all visits reaches the gap).
    """
    if gap < 0.0:
        raise InputError(f"A gap of {gap} was asked for; it must be at least 0.")
    curves = [
        _Curve(np.sort(chances[stratum == g])[::-1], float(need[g]))
        for g in range(N_KNOWN_STRATA)
        if need[g] > 0 and (stratum == g).any()
    ]
    free = _allocate(curves, n_visits, np.zeros(len(curves)), np.full(len(curves), np.inf))
    highest = min(curve.most for curve in curves)
    if _visits_for(curves, highest) < n_visits and _visits_for(curves, highest + gap) < n_visits:
        return free, float("nan")
    # The band starts between where its top and where its bottom would use up all visits.
    first = _coverage_using(curves, n_visits, highest, gap)
    last = _coverage_using(curves, n_visits, highest, 0.0)
    found = [
        _allocate(curves, n_visits, np.full(len(curves), low), np.full(len(curves), low + gap))
        for low in np.linspace(first, last, 41)
    ]
    best = max(found, key=lambda allocation: allocation.correct)
    return best, 1.0 - best.correct / free.correct


def _visits_for(curves: list[_Curve], coverage: float) -> float:
    """Visits that bring every stratum to this coverage, or as near as its cases allow."""
    return sum(curve.visits_for(min(coverage, curve.most) * curve.need) for curve in curves)


def _coverage_using(curves: list[_Curve], n_visits: float, highest: float, gap: float) -> float:
    """Coverage whose sum with `gap` uses all visits, at most `highest`, by bisection."""
    low, high = 0.0, highest
    for _ in range(50):
        middle = (low + high) / 2
        if _visits_for(curves, middle + gap) < n_visits:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _allocate(
    curves: list[_Curve], n_visits: float, low: np.ndarray, high: np.ndarray
) -> Allocation:
    """Likeliest first across strata, with every stratum's coverage kept in [low, high]."""
    floors = np.array(
        [curve.visits_for(c * curve.need) for curve, c in zip(curves, low, strict=True)]
    )
    tops = np.array(
        [
            curve.visits_for(min(c, curve.most) * curve.need)
            for curve, c in zip(curves, high, strict=True)
        ]
    )
    levels = np.unique(np.concatenate([curve.chances for curve in curves]))[::-1]
    start, end = 0, len(levels) - 1
    # Bisect for the level of chance at which the visits are used up.
    while start < end:
        middle = (start + end) // 2
        if _visits_at(curves, levels[middle], floors, tops).sum() >= n_visits:
            end = middle
        else:
            start = middle + 1
    visits = _visits_at(curves, levels[start], floors, tops)
    before = _visits_at(curves, levels[start - 1], floors, tops) if start else floors.copy()
    extra = visits.sum() - before.sum()
    share = np.clip((n_visits - before.sum()) / extra, 0.0, 1.0) if extra > 0 else 1.0
    visits = before + share * (visits - before)
    correct = np.array([c.correct(v) for c, v in zip(curves, visits, strict=True)])
    needs = np.array([curve.need for curve in curves])
    return Allocation(correct / needs, float(correct.sum()), float(visits.sum()))


def _visits_at(
    curves: list[_Curve], level: float, floors: np.ndarray, tops: np.ndarray
) -> np.ndarray:
    above = np.array([curve.visits_above(level) for curve in curves])
    return np.clip(above, floors, tops)
