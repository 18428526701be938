"""A policy as it serves: its package, its domain's sight, what it sees and prefers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.agents.forward import score_actions_numpy
from parity311.agents.package import Package
from parity311.domains import get_domain
from parity311.errors import InputError, RunError
from parity311.mdp.contract import (
    EQUITY,
    N_KNOWN_STRATA,
    N_STRATA,
    TODAYS_RULE,
    Domain,
    Sight,
)
from parity311.mdp.equity import FEATURE_SCALE
from parity311.records.strata import INCOME

if TYPE_CHECKING:
    from parity311.records.journal import Cases, Journal


@dataclass(frozen=True)
class ServedPolicy:
    """A package with what is read off it; NumPy alone."""

    package: Package

    @property
    def manifest(self) -> dict[str, Any]:
        """What it is, where it comes from, what it sees and may do."""
        return self.package.manifest

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Its arrays by name."""
        return self.package.weights

    @property
    def observation_names(self) -> list[str]:
        """What it sees, in order."""
        return self.manifest["observation_names"]

    @property
    def action_names(self) -> list[str]:
        """What it may do, in order."""
        return self.manifest["action_names"]

    @property
    def is_todays_rule(self) -> bool:
        """Whether it is what the agency does now: the graver code first, then first come."""
        return self.manifest["agent"] == TODAYS_RULE

    @cached_property
    def escalates(self) -> np.ndarray:
        """(n_actions,) whether an action sends somebody."""
        return np.array(self.manifest["escalating"], bool)

    @cached_property
    def is_served(self) -> np.ndarray:
        """(n_actions,) whether an action can be given to a case on record."""
        return np.array([name not in self.sight.unserved for name in self.action_names])

    @cached_property
    def domain(self) -> Domain:
        """The domain it was made for, of the same version."""
        found = get_domain(self.manifest["domain"])
        if found.version != self.manifest["domain_version"]:
            raise RunError(
                f"The policy was made for version {self.manifest['domain_version']} of "
                f"{found.slug!r}; this is version {found.version}. Train it again, or serve it "
                f"with parity311 {self.manifest['software_version']}."
            )
        return found

    @cached_property
    def sight(self) -> Sight:
        """How its domain sees cases on record."""
        sight, slug = self.domain.sight, self.domain.slug
        if sight is None:
            raise InputError(
                f"Domain {slug!r} does not say how cases on record are seen, so its policies "
                "cannot be served; give it a `sight` (docs/how-to/add-a-domain.md)."
            )
        if self.package.params is None:
            raise RunError(
                "This policy was saved without its estimated process, which serving needs; train "
                f"it again from records: `parity311 train {slug} --records DIR`."
            )
        if self.manifest["equity_mode"] != SERVED_MODE:
            raise RunError(
                f"This policy sees the equity term of mode {self.manifest['equity_mode']!r}; "
                f"serving knows the coverage prices of {SERVED_MODE!r}. Train it in that mode."
            )
        if self.manifest.get("strata", INCOME) != INCOME:
            raise RunError(
                f"This policy was paid by strata {self.manifest['strata']!r}; the cases it would "
                f"be served for are grouped by {INCOME!r}. Train it with those."
            )
        later = [name for name in sight.known_later if name in self.observation_names]
        if later:
            raise RunError(
                f"This policy sees {', '.join(later)}, known only after the visit it decides on; "
                "train it on a set of features without."
            )
        return sight

    @cached_property
    def columns(self) -> np.ndarray:
        """Positions of what it sees among all that its domain can show."""
        return np.array(self.domain.observation_indices(self.manifest["observation_set"]))

    @property
    def is_priced(self) -> bool:
        """Whether it was made with a weight on equity, and so follows coverage prices."""
        return self.manifest["preference"][EQUITY] > 0

    @cached_property
    def prices(self) -> np.ndarray:
        """(6,) coverage prices in force; zero where it was made without equity."""
        prices = np.asarray(self.manifest["prices"], np.float64)
        return prices if self.is_priced else np.zeros_like(prices)

    def values(self, observations: np.ndarray) -> np.ndarray:
        """How much every action is preferred, for observations (..., n_features)."""
        return _score(self.weights, observations, self.observation_names)

    def decide(self, observations: np.ndarray) -> np.ndarray:
        """Preferred action for observations (..., n_features)."""
        return self.values(observations).argmax(axis=-1)

    def observe(
        self, journal: Journal, cases: Cases, ahead: np.ndarray, prices: np.ndarray | None = None
    ) -> tuple[Any, np.ndarray]:
        """The view of these cases, and what the policy sees of it.

        `ahead` (n,) are the cases ordered before each; observations are (n, n_features), or
        (n_features,) where the domain decides about the whole office. Coverage prices other than
        those in force are (6,), or (n, 6) where they differ by case.
        """
        view = self.sight.see(self.package.params, journal, cases, ahead)
        features = np.asarray(self.sight.show(self.package.params, view))[..., self.columns]
        known = self.prices if prices is None else prices
        if self.sight.rank is None:
            price = np.broadcast_to(known, (cases.n, N_STRATA))[np.arange(cases.n), cases.stratum]
        else:
            price = known[:N_KNOWN_STRATA].max() - known[:N_KNOWN_STRATA].min()
        price = np.asarray(FEATURE_SCALE * price)[..., None]
        return view, np.concatenate([features, price], axis=-1).astype(np.float32)


SERVED_MODE = "dual"
"""Mode of the equity term whose feature, a price, is known in service."""


def _score(
    weights: Mapping[str, np.ndarray], observations: np.ndarray, names: list[str]
) -> np.ndarray:
    if observations.shape[-1] != len(names):
        raise InputError(
            f"An observation has {observations.shape[-1]} features; this policy sees "
            f"{len(names)}: {', '.join(names)}."
        )
    return score_actions_numpy(weights, observations)
