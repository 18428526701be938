"""Coverage prices that keep all strata within a band, found without noise in a known process.

Prices stay fixed through a round of episodes and then move by what a stratum lacks to the band,
or exceeds it by. A stratum inside the band keeps the price it has, and all start at zero: so only
those that must be moved are, which is what the least price of a gap asks for. A band of width 0
is parity: the rest point of the online rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from parity311.engines.heuristics import CaseTable
from parity311.evaluation.compare import hold_contender
from parity311.evaluation.rollout import CHUNK, Contender, Episodes, evaluate_each
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.mdp.equity import EquityParams
from parity311.mdp.harness import Harness

N_ROUNDS = 6
RESPONSE_RANGE = (0.3, 4.0)
"""By how much a unit of price may change a stratum's log coverage; outside it is noise."""


@dataclass(frozen=True)
class PlayedPolicy:
    """A policy with the process it plays in and the equity term of who runs it."""

    contender: Contender
    params: Any
    equity: EquityParams


@dataclass(frozen=True)
class Span:
    """How long a play lasts, in steps, and how often it is repeated."""

    n_steps: int
    n_warm: int
    n_plays: int
    n_rounds: int = N_ROUNDS
    """rounds in which prices settle"""

    def play(self, harness: Harness, entries: Sequence[PlayedPolicy], key: jax.Array) -> Episodes:
        """Play all entries through the same random numbers."""
        is_core = jax.default_backend() == "cpu"
        return evaluate_each(
            harness,
            [entry.contender for entry in entries],
            [entry.params for entry in entries],
            [entry.equity for entry in entries],
            jax.random.split(key, self.n_plays),
            n_steps=self.n_steps,
            n_warm=self.n_warm,
            # A device with many units plays all at once, a core a few at a time.
            chunk=CHUNK if is_core else self.n_plays,
            with_saved=False,
        )


def lack_of(coverage: np.ndarray, gap: float | np.ndarray) -> np.ndarray:
    """What each stratum (..., 5) lacks to the nearest band of this width (...); it sums to zero.

    The band lies where what strata below it lack equals what those above it exceed it by.
    """
    width = np.asarray(gap)[..., None]
    low = coverage.min(axis=-1, keepdims=True) - width
    high = coverage.max(axis=-1, keepdims=True)
    for _ in range(50):
        middle = (low + high) / 2.0
        lack = np.clip(coverage, middle, middle + width) - coverage
        is_low = lack.sum(axis=-1, keepdims=True) < 0.0
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.clip(coverage, low, low + width) - coverage


def counted_coverage(episodes: Episodes) -> np.ndarray:
    """Coverage of the known strata as the agency counts it, pooled over plays, (policies, 5)."""
    known = slice(None, N_KNOWN_STRATA)
    counted = np.asarray(episodes.tally.counted, np.float64).sum(axis=1)[:, known]
    need = np.asarray(episodes.tally.actionable, np.float64).sum(axis=1)[:, known]
    return counted / np.maximum(need, 1e-9)


def settle_band(
    harness: Harness,
    entries: Sequence[PlayedPolicy],
    gaps: Sequence[float],
    span: Span,
    key: jax.Array,
    *,
    cases: CaseTable | None = None,
) -> list[Contender]:
    """Each entry's policy with the fixed prices that keep it within its gap, in its process.

    Every round plays the same random numbers, so that rounds differ by their prices alone; the
    best round counts: the one that lacked least. Where `cases` are given, a threshold is held to
    the visits there are at every price.
    """

    def price(contender: Contender, own: np.ndarray) -> Contender:
        return hold_contender(harness, cases, with_prices(contender, own))

    prices = np.zeros((len(entries), N_KNOWN_STRATA))
    caps = np.array([[float(entry.equity.price_cap)] for entry in entries])
    best, least = prices, np.full(len(entries), np.inf)
    response = np.ones(len(entries))
    before, moved = np.zeros_like(prices), np.zeros_like(prices)
    for _ in range(span.n_rounds):
        priced = [
            replace(entry, contender=price(entry.contender, own))
            for entry, own in zip(entries, prices, strict=True)
        ]
        coverage = counted_coverage(span.play(harness, priced, key))
        mean = np.maximum(coverage.mean(axis=1, keepdims=True), 1e-9)
        lack = lack_of(coverage, np.asarray(gaps)) / mean
        size = np.abs(lack).max(axis=1)
        best = np.where((size < least)[:, None], prices, best)
        least = np.minimum(size, least)
        response = _responses(moved, before - lack, response)
        after = prices + lack / response[:, None]
        after -= after.mean(axis=1, keepdims=True)
        after = np.clip(after, -caps, caps)
        before, moved, prices = lack, after - prices, after
    return [price(entry.contender, own) for entry, own in zip(entries, best, strict=True)]


def _responses(moved: np.ndarray, closed: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Lack closed per unit of price moved, from one round to the next, (policies,)."""
    size = (moved**2).sum(axis=1)
    found = np.clip((moved * closed).sum(axis=1) / np.maximum(size, 1e-9), *RESPONSE_RANGE)
    return np.where(np.abs(moved).max(axis=1) < 0.05, old, found)


def with_prices(contender: Contender, prices: np.ndarray) -> Contender:
    """The policy with fixed prices of the known strata (5,)."""
    return replace(contender, prices=np.append(prices, 0.0), is_priced=True, price_step=0.0)
