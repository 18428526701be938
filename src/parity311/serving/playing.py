"""A served policy in the place of today's rule: the same choice a clerk is shown, every day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parity311.city.incumbent import Rule, severity_then_first_in
from parity311.serving.choose import Routing, order_cases
from parity311.serving.prices import count_correct, move_prices

if TYPE_CHECKING:
    from parity311.city.incumbent import WaitingCases
    from parity311.records.journal import Journal
    from parity311.serving.served import ServedPolicy


def play_by(policy: ServedPolicy) -> Rule:
    """The policy as a rule of `parity311.city.incumbent`."""
    return VisitingPolicy(policy) if policy.sight.comes_back is None else ReturningPolicy(policy)


@dataclass
class VisitingPolicy:
    """A rule that asks a policy whom to visit today; its coverage prices follow what is found."""

    policy: ServedPolicy
    prices: np.ndarray | None = None
    """(6,) in force; those of the package until the first day"""
    since: float | None = None
    """moment up to which what was found is in the prices"""

    def __call__(self, waiting: WaitingCases) -> np.ndarray:
        """Priority of each waiting case; -inf where the policy wants no visit today."""
        self._follow(waiting.journal)
        choice = _choose(self.policy, waiting, self.prices)
        # Where the office decides, who is not reached only comes later.
        wanted = choice.is_visit | (self.policy.sight.rank is not None)
        return np.where(wanted, -choice.place.astype(np.float64), -np.inf)

    def _follow(self, journal: Journal) -> None:
        """Bring the prices up to this morning, from the first day on."""
        if self.prices is None:
            self.prices = self.policy.prices
        elif self.policy.is_priced and self.since is not None:
            found = count_correct(journal, self.since)
            self.prices = move_prices(self.policy, self.prices, found, journal)
        self.since = journal.as_of


@dataclass(frozen=True)
class ReturningPolicy:
    """A rule that asks a policy when to come back to where nobody opened.

    Who is seen first stays as it is today.
    """

    policy: ServedPolicy

    def __call__(self, waiting: WaitingCases) -> np.ndarray:
        """Priority of each waiting case: today's."""
        return severity_then_first_in(waiting)

    def revisit_days(self, waiting: WaitingCases) -> np.ndarray:
        """Days after which to come back; infinite: not at all."""
        comes_back = self.policy.sight.comes_back
        assert comes_back is not None
        return np.array([comes_back(int(one)) for one in _choose(self.policy, waiting).action])


def _choose(
    policy: ServedPolicy, waiting: WaitingCases, prices: np.ndarray | None = None
) -> Routing:
    journal, n_visits = waiting.journal, max(waiting.n_slots, 1)
    return order_cases(policy, journal, journal.take(waiting.rows), n_visits, prices)
