"""Today's rule: which of the waiting cases are visited on a day, and with what chance each.

A rule is a function of what the agency can see of the waiting cases; it is asked on every day on
which a case waits and returns a priority per case. The city visits the cases of highest priority,
except that a small share of the visits goes to cases drawn at random among the rest, and logs every
case's exact chance of being chosen, so that other rules can be scored on the records later. Any
rule can take the place of today's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from parity311.errors import InputError
from parity311.records.journal import Journal

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
    n_slots: int = 0
    """Visits the domain can make today."""
    look_up: Callable[[], tuple[Journal, NDArray[np.int64]]] | None = None
    """Gives `journal` and `rows`; called once, when a rule first asks for either."""

    @property
    def n(self) -> int:
        """Number of cases."""
        return len(self.severity)

    @cached_property
    def _looked_up(self) -> tuple[Journal, NDArray[np.int64]]:
        if self.look_up is None:
            raise InputError("These waiting cases come with no journal; take them from a city.")
        return self.look_up()

    @property
    def journal(self) -> Journal:
        """The domain's cases as the agency knew them when the day began.

        Calls of the day itself that can be visited on that day stand at its end, each as it came
        in: they alone begin at `as_of` or after it.
        """
        return self._looked_up[0]

    @property
    def rows(self) -> NDArray[np.int64]:
        """(n,) positions of the waiting cases in `journal`."""
        return self._looked_up[1]


Rule = Callable[[WaitingCases], NDArray[np.float64]]
"""Priority (n,) of each waiting case; the highest goes first, ties in order of arrival. -inf says
not today: no visit is made to that case, not even one drawn at random."""


@runtime_checkable
class ReturningRule(Protocol):
    """A rule that also says when to come back to where nobody opened."""

    def __call__(self, waiting: WaitingCases, /) -> NDArray[np.float64]:
        """Priority (n,) of each waiting case."""
        ...

    def revisit_days(self, waiting: WaitingCases, /) -> NDArray[np.float64]:
        """Days (n,) from the visit without access to the next; infinite: close the case.

        Asked at the start of the day after the visit, about the cases that may be visited again.
        """
        ...


@dataclass(frozen=True)
class OpenDay:
    """A day whose calls are in and whose visits are still to be made."""

    day: int
    """Days since the epoch."""
    generator: np.random.Generator
    n_received: int
    """Reports of the day that somebody took down."""
    n_slots: int
    """Visits the domain can make by itself."""
    priority: NDArray[np.float64]
    """(n,) the rule's, of the waiting cases."""

    @property
    def n_asked(self) -> int:
        """Cases that the rule would have visited today."""
        return int((self.priority > -np.inf).sum())


_LONGEST_WAIT_DAYS = 1e5


def severity_then_first_in(waiting: WaitingCases) -> NDArray[np.float64]:
    """Today's rule: the graver code first, within a code the older case first."""
    return waiting.age_days - _LONGEST_WAIT_DAYS * waiting.severity


def ask_rule(rule: Rule, waiting: WaitingCases) -> NDArray[np.float64]:
    """Priorities (n,) of the waiting cases, checked; nobody is asked where nothing waits."""
    if waiting.n == 0:
        return np.zeros(0)
    priority = np.asarray(rule(waiting), np.float64)
    if priority.shape != (waiting.n,) or np.isnan(priority).any():
        raise InputError(
            f"The rule gave shape {priority.shape} with {np.isnan(priority).sum()} NaN for "
            f"{waiting.n} waiting cases; give one number a case, -inf for not today."
        )
    return priority


def severity_then_last_in(waiting: WaitingCases) -> NDArray[np.float64]:
    """The graver code first, within a code the newer case: what today's rule loses to waiting.

    A policy has to beat this one before its lead over today's rule is a merit of its own.
    """
    return -waiting.age_days - _LONGEST_WAIT_DAYS * waiting.severity


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
    r < K − k, and otherwise with chance k / (n − K + k). Cases of priority -inf are left out of
    everything.
    """
    asked = np.flatnonzero(priority > -np.inf)
    if len(asked) < len(priority):
        inner = choose_visits(generator, priority[asked], n_slots, exploration)
        return Choice(asked[inner.position], inner.propensity)
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
