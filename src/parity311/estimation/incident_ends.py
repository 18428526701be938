"""How incidents end: by themselves after a while, or by a visit that writes them up.

Records show neither. Two signs speak: what visits find after a wait and which cases follow at the
same building (`visit_sequences`). Lifetimes are estimated by category, drawn towards each other by
as much as the records call for, together with the share of what is actionable that visits write up.
A belief is spread over a grid; its mean is used where one number is needed, and draws of it where
what is not known should count.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

import numpy as np

from parity311.estimation.visit_sequences import (
    FurtherCases,
    Sequences,
    count_followed,
    follow_likelihood,
    profile_likelihood,
    read_further,
    read_sequences,
)
from parity311.records.store import Records

GRID_DAYS = np.geomspace(2.0, 1000.0, 25)
"""Mean lifetimes that are tried; a factor of 1.3 apart."""
GRID_WRITTEN = np.linspace(0.325, 0.975, 14)
"""Shares written up that are tried."""

USUAL_DAYS, USUAL_LOG_SD = 30.0, 1.3
"""Belief beforehand about a domain's typical lifetime (assumed, for all domains alike: an accident
is cleared in days, a building without a permit stands for a year; nine in ten between these)."""
BETWEEN_LOG_SDS = (0.25, 0.5, 1.0, 1.5)
"""Sds of log lifetimes between categories that are tried, all alike beforehand."""
WRITTEN_BELIEF = (5.4, 1.6)
"""Beta belief about the share written up: 0.77, near the four in five that handbooks of inspection
in industry give (Juran 1974, as quoted there; building inspectors may differ), worth seven looks,
so that 0.45 to 0.97 are taken for possible."""

FEWEST_IN_CATEGORY = 100
"""Visited cases below which a category is pooled with the other small ones (assumed)."""
POOLED = ""
"""Name of the small categories taken together."""
N_DRAWS = 400
"""Joint draws that stand for a belief."""


class EndsBelief(NamedTuple):
    """What is known of how incidents end."""

    categories: tuple[str, ...]
    """codes, `POOLED` for the small ones together"""
    shares: np.ndarray
    """(n_categories,) of the visited cases"""
    lifetime_days: np.ndarray
    """(n_draws, n_categories) joint draws of the mean days until an incident ends by itself"""
    written_share: np.ndarray
    """(n_draws,) of the share of what is actionable that a visit writes up"""
    followed_share: float
    """of incidents that a visit left there, those that came back as a further case"""

    def mean(self) -> Ends:
        """What to reckon with where one number is needed: the means.

        The mean of the days, not of their logarithm: what a visit in time saves is in proportion
        to how long an incident would have gone on.
        """
        return Ends(
            self.categories,
            self.shares,
            self.lifetime_days.mean(axis=0),
            float(self.written_share.mean()),
            self.followed_share,
        )

    def draw(self, seed: int) -> Ends:
        """One of the joint draws."""
        row = int(np.random.default_rng(seed).integers(len(self.written_share)))
        days, written = self.lifetime_days[row], float(self.written_share[row])
        return Ends(self.categories, self.shares, days, written, self.followed_share)

    @property
    def log_sd(self) -> float:
        """Sd of the logarithm of the mean lifetime over all cases."""
        return float(np.log(self.lifetime_days @ self.shares).std())

    @property
    def written_sd(self) -> float:
        """Sd of the share written up."""
        return float(self.written_share.std())


class Ends(NamedTuple):
    """How incidents end, in one number each."""

    categories: tuple[str, ...]
    shares: np.ndarray
    days: np.ndarray
    """(n_categories,) mean lifetimes"""
    written_share: float
    followed_share: float

    @property
    def mean_days(self) -> float:
        """Mean lifetime over all cases."""
        return float(self.shares @ self.days)

    def days_of(self, category: np.ndarray) -> np.ndarray:
        """Mean lifetime of each case's category, (n,); that of all for one nobody visited."""
        known = dict(zip(self.categories, self.days, strict=True))
        usual = known.get(POOLED, self.mean_days)
        return np.array([known.get(one, usual) for one in category])


def believe_ends(slug: str, records: Records, date_from: date, date_to: date) -> EndsBelief:
    """Posterior from the visits and cases of [date_from, date_to)."""
    return combine(
        read_sequences(slug, records, date_from, date_to),
        read_further(slug, records, date_from, date_to),
    )


def mean_lifetime(details: Mapping[str, Any], slug: str, records: Records, date_to: date) -> float:
    """Mean days until an incident ends by itself: of the reports, else of visits before `date_to`.

    `details` are those of a reporting estimate; not every estimator has a lifetime among them.
    """
    if "mean_lifetime_days" in details:
        return float(details["mean_lifetime_days"])
    return believe_ends(slug, records, records.window[0], date_to).mean().mean_days


def combine(
    seen: Sequences,
    further: FurtherCases,
    written_belief: tuple[float, float] = WRITTEN_BELIEF,
    *,
    seed: int = 0,
) -> EndsBelief:
    """Posterior from both signs; `written_belief` is the Beta belief about the share written up.

    Where nobody was visited it is what is believed beforehand.
    """
    if not len(seen.category):
        nothing = np.zeros((1, len(GRID_DAYS), len(GRID_WRITTEN)))
        drawn = _draw_posterior(nothing, written_belief, np.random.default_rng(seed))
        return EndsBelief((POOLED,), np.ones(1), *drawn, 0.0)
    codes, sizes = np.unique(seen.category, return_counts=True)
    small = codes[sizes < FEWEST_IN_CATEGORY]
    named = [
        np.where(np.isin(one.category, codes) & ~np.isin(one.category, small), one.category, POOLED)
        for one in (seen, further)
    ]
    categories = tuple(str(one) for one in np.unique(named[0]))
    likelihood = np.stack(
        [
            profile_likelihood(seen.take(named[0] == one), GRID_DAYS)[:, None]
            + follow_likelihood(further.take(named[1] == one), GRID_DAYS, GRID_WRITTEN)
            for one in categories
        ]
    )
    shares = np.array([(named[0] == one).mean() for one in categories])
    days, written = _draw_posterior(likelihood, written_belief, np.random.default_rng(seed))
    went_on = np.array(
        [
            count_followed(further.take(named[1] == one), lifetime)
            for one, lifetime in zip(categories, days.mean(axis=0), strict=True)
        ]
    )
    there, followed = went_on.sum(axis=0)
    return EndsBelief(categories, shares, days, written, followed / max(there, 1.0))


def _draw_posterior(
    likelihood: np.ndarray, written_belief: tuple[float, float], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Joint draws of lifetimes (n_draws, n_categories) and of the share written up (n_draws,).

    `likelihood` is (n_categories, n_days, n_written), logarithms. Over the grid's cells draws are
    spread evenly.
    """
    logs = np.log(GRID_DAYS)
    peak = likelihood.max(axis=(1, 2), keepdims=True)
    centres = np.linspace(logs[0], logs[-1], 41)
    between = np.asarray(BETWEEN_LOG_SDS)
    gap = (logs - centres[:, None, None]) / between[:, None]
    prior = np.exp(-0.5 * gap**2)
    prior /= prior.sum(axis=2, keepdims=True)
    # (centres, spreads, categories, written): of each category, over its own lifetimes.
    each = np.einsum("msd,kdw->mskw", prior, np.exp(likelihood - peak))
    a, b = written_belief
    belief = (a - 1.0) * np.log(GRID_WRITTEN) + (b - 1.0) * np.log1p(-GRID_WRITTEN)
    usual = -0.5 * ((centres - np.log(USUAL_DAYS)) / USUAL_LOG_SD) ** 2
    whole = np.log(np.maximum(each, 1e-300)).sum(axis=2) + belief + usual[:, None, None]
    weight = np.exp(whole - whole.max())
    cell = rng.choice(weight.size, N_DRAWS, p=(weight / weight.sum()).ravel())
    centre, spread, share = np.unravel_index(cell, weight.shape)
    days = np.empty((N_DRAWS, len(likelihood)))
    for number, own in enumerate(np.exp(likelihood - peak)):
        chance = prior[centre, spread] * own[:, share].T
        below = np.cumsum(chance, axis=1)
        drawn = rng.random(N_DRAWS)[:, None] * below[:, -1:]
        place = (below < drawn).sum(axis=1)
        days[:, number] = np.exp(logs[place] + _jitter(rng, logs))
    return days, np.clip(GRID_WRITTEN[share] + _jitter(rng, GRID_WRITTEN), 0.0, 1.0)


def _jitter(rng: np.random.Generator, grid: np.ndarray) -> np.ndarray:
    """(N_DRAWS,) evenly within half a step of an even grid."""
    return (rng.random(N_DRAWS) - 0.5) * (grid[1] - grid[0])
