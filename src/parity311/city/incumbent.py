"""Today's rule: which of the waiting cases are visited on a day, and with what chance each.

A rule is a function of what the agency can see of the waiting cases; it returns a priority per
case. The city visits the cases of highest priority, except that a small share of the visits goes
to cases drawn at random among the rest, and logs every case's exact chance of being chosen, so
that other rules can be scored on the records later. Any rule can take the place of today's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EXPLORATION_SHARE = 0.1
"""Share of a day's visits drawn at random (design choice: support for off-policy estimates)."""


@dataclass(frozen=True)
class WaitingCases:
    """What the agency sees of the cases that can be visited today, in order of arrival."""

    day: int
    """Days since the epoch."""
    severity: NDArray[np.int8]
    """Code as recorded: 0 A … 3 D."""
    age_days: NDArray[np.float64]
    """Days since the first complaint."""
    category: NDArray[np.int8]
    """Position among the domain's categories, as recorded."""
    tract: NDArray[np.int32]
    stratum: NDArray[np.int8]
    """Income quintile of the tract; 0 unknown."""
    units: NDArray[np.int32]
    n_attempts: NDArray[np.int16]
    """Visits without access so far."""
    n_prior_cases: NDArray[np.int32]
    """Earlier cases of the building."""
    n_prior_violations: NDArray[np.int32]
    """Earlier violations of the building, known when the case was opened."""
    flags: NDArray[np.bool_]
    """(n, n_flags) the domain's intake flags."""

    @property
    def n(self) -> int:
        """Number of cases."""
        return len(self.severity)


Rule = Callable[[WaitingCases], NDArray[np.float64]]
"""Priority of each waiting case; the highest goes first, ties in order of arrival."""

_LONGEST_WAIT_DAYS = 1e5


def severity_then_first_in(waiting: WaitingCases) -> NDArray[np.float64]:
    """Today's rule: the graver code first, within a code the older case first."""
    return waiting.age_days - _LONGEST_WAIT_DAYS * waiting.severity


@dataclass(frozen=True)
class Choice:
    """Positions chosen for a visit, and the chance each had."""

    position: NDArray[np.int64]
    propensity: NDArray[np.float64]


def choose_visits(
    generator: np.random.Generator,
    priority: NDArray[np.float64],
    n_slots: int,
    exploration: float = EXPLORATION_SHARE,
) -> Choice:
    """Choose which cases to visit: a deterministic head and a uniform draw from the rest.

    Of K slots, k go to the draw, k being exploration × K rounded up or down at random. The
    propensity is exact and marginal over that rounding: a case of rank r is chosen for sure where
    r < K − k, and otherwise with chance k / (n − K + k).
    """
    n = len(priority)
    if n <= n_slots:
        return Choice(np.arange(n), np.ones(n))
    if n_slots == 0:
        return Choice(np.arange(0), np.ones(0))
    fewest = int(np.floor(exploration * n_slots))
    chance_of_more = exploration * n_slots - fewest
    n_drawn = fewest + int(generator.random() < chance_of_more)
    order = _ordered_head(priority, n_slots - fewest)
    n_head = n_slots - n_drawn
    head = order[:n_head]
    rest = np.ones(n, dtype=np.bool_)
    rest[head] = False
    drawn = generator.choice(np.flatnonzero(rest), n_drawn, replace=False, shuffle=False)
    propensity = _propensities(order, n, n_slots, fewest, chance_of_more)
    position = np.concatenate([head, drawn])
    return Choice(position, propensity[position])


def _ordered_head(priority: NDArray[np.float64], n_head: int) -> NDArray[np.int64]:
    """Positions of the n highest priorities in order; equal ones in order of arrival."""
    if n_head <= 0:
        return np.arange(0)
    if n_head < len(priority) // 4:
        bound = np.partition(priority, len(priority) - n_head)[len(priority) - n_head]
        candidates = np.flatnonzero(priority >= bound)
    else:
        candidates = np.arange(len(priority))
    order = np.argsort(-priority[candidates], kind="stable")
    return candidates[order[:n_head]]


def _propensities(
    order: NDArray[np.int64], n: int, n_slots: int, fewest: int, chance_of_more: float
) -> NDArray[np.float64]:
    """Chance of every case, marginal over how many slots are drawn at random."""
    chance = np.zeros(n)
    for n_drawn, weight in ((fewest, 1.0 - chance_of_more), (fewest + 1, chance_of_more)):
        if weight <= 0.0:
            continue
        n_head = n_slots - n_drawn
        inside = np.full(n, n_drawn / (n - n_head))
        inside[order[:n_head]] = 1.0
        chance += weight * inside
    return chance
