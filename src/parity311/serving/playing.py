"""A served policy in the place of today's rule: the same choice a clerk is shown, every day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parity311.city.incumbent import severity_then_first_in
from parity311.serving.choose import Routing, order_cases
from parity311.serving.prices import count_correct, move_prices
from parity311.serving.refusals import NOT_REFUSED

if TYPE_CHECKING:
    from parity311.city.incumbent import WaitingCases
    from parity311.records.journal import Journal
    from parity311.serving.served import ServedPolicy


def play_by(policy: ServedPolicy) -> VisitingPolicy | ReturningPolicy:
    """The policy as a rule of `parity311.city.incumbent`."""
    return VisitingPolicy(policy) if policy.sight.comes_back is None else ReturningPolicy(policy)


@dataclass
class AskedPolicy:
    """What both kinds of rule share: the policy, and how often it was not let decide."""

    policy: ServedPolicy
    n_asked: int = 0
    """cases it was asked about, day by day"""
    n_refused: int = 0
    """of those, how many today's rule decided in its place"""

    @property
    def fallback_share(self) -> float:
        """Share of the cases that today's rule decided."""
        return self.n_refused / max(self.n_asked, 1)

    def choose(self, waiting: WaitingCases, prices: np.ndarray | None = None) -> Routing:
        """What becomes of the waiting cases; an office also sees those it cannot visit yet."""
        journal, n_visits = waiting.journal, max(waiting.n_slots, 1)
        cases, beside = journal.take(waiting.rows), None
        if self.policy.sight.rank is not None:
            beside = journal.take(np.setdiff1d(journal.open_rows, waiting.rows))
        found = order_cases(self.policy, journal, cases, n_visits, prices, beside=beside)
        self.n_asked += len(found.refusal)
        self.n_refused += int((found.refusal != NOT_REFUSED).sum())
        return found


@dataclass
class VisitingPolicy(AskedPolicy):
    """A rule that asks a policy whom to visit today; its coverage prices follow what is found."""

    prices: np.ndarray | None = None
    """(6,) in force; those of the package until the first day"""
    since: float | None = None
    """moment up to which what was found is in the prices"""

    def __call__(self, waiting: WaitingCases) -> np.ndarray:
        """Priority of each waiting case; -inf where the policy wants no visit today."""
        self._follow(waiting.journal)
        choice = self.choose(waiting, self.prices)
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


class ReturningPolicy(AskedPolicy):
    """A rule that asks a policy when to come back to where nobody opened.

    Who is seen first stays as it is today.
    """

    def __call__(self, waiting: WaitingCases) -> np.ndarray:
        """Priority of each waiting case: today's."""
        return severity_then_first_in(waiting)

    def revisit_days(self, waiting: WaitingCases) -> np.ndarray:
        """Days after which to come back; infinite: not at all."""
        comes_back = self.policy.sight.comes_back
        assert comes_back is not None
        return np.array([comes_back(int(one)) for one in self.choose(waiting).action])
