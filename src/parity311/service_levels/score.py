"""Designs scored on several years at once: both kinds of losses, and what becomes of each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity311.errors import unknown_name
from parity311.service_levels.designs import (
    KEPT_PARTS,
    Setting,
    design_from_numbers,
    numbers_of,
)
from parity311.service_levels.levels import ROUND_DAYS
from parity311.service_levels.losses import (
    NEVER_DAYS,
    Losses,
    Need,
    literature_losses,
    median_of_visited,
    promise_losses,
    share_within,
    visited_shares,
)
from parity311.service_levels.simulate import Uniforms, draw_uniforms, simulate
from parity311.service_levels.years import RecordedDays

OURS, LITERATURE, STRATA = "promise", "literature", "strata"
LOSSES = {
    OURS: "all requests and incidents, spread between districts",
    STRATA: "all requests and incidents, spread between strata",
    LITERATURE: "as published: median of the visited, D for the never visited",
}
"""What a search may make small."""
FEWEST_HELD = 20
"""Requests below which a cell is not held to the floor: none of so few may be visited by chance."""
TRIED_RETENTIONS = tuple(
    np.linspace(low, high, 6) for low, high in ((0.1, 1.0), (0.8, 1.2), (0.93, 1.07))
)
"""Retentions tried for each cell when today's design is fitted, times what was best so far: one
cell's retention moves the others little, for visits are split by shares."""
REVIEWS = (1, 2, 4, 7, 14, 28, 56)
"""Days between reviews that are tried where none are given."""
COMPARED_DAYS = (0, *ROUND_DAYS)
"""Days within which shares visited are compared with those on record."""


@dataclass(frozen=True)
class ScoredYear:
    """A setting with the draws all designs meet in it."""

    setting: Setting
    uniforms: Uniforms


def scored_year(setting: Setting, seed: int) -> ScoredYear:
    """A setting with the draws of a seed."""
    return ScoredYear(setting, draw_uniforms(setting, seed))


class DesignScores(NamedTuple):
    """Scores of P designs in Y years."""

    losses: dict[str, NDArray[np.float64]]
    """(Y, P, 2) cost and inequity, by the name of the losses"""
    never: dict[str, NDArray[np.float64]]
    """(Y, P) part of the cost that is charged for no visit"""
    at_least: NDArray[np.float64]
    """(Y, B, K, A, P) visits after at least so many days"""
    received: NDArray[np.int64]
    """(Y, B, K)"""

    @property
    def least_visited(self) -> NDArray[np.float64]:
        """(P,) smallest visited share of any cell that is large enough, over all years together."""
        is_large = self.received.sum(axis=0) >= min(FEWEST_HELD, int(self.received.sum(0).max()))
        return np.nanmin(np.where(is_large[..., None], self.visited, np.nan), axis=(0, 1))

    @property
    def visited(self) -> NDArray[np.float64]:
        """(B, K, P) visited share of each cell, over all years together."""
        return visited_shares(self.at_least.sum(axis=0), self.received.sum(axis=0))


def charge(
    at_least: NDArray[np.float64],
    n: NDArray[np.int64],
    weights: NDArray[np.float64],
    need: Need,
    never_days: float = NEVER_DAYS,
) -> dict[str, Losses]:
    """Losses of every kind, from visits after at least so many days (B, K, A, P), n (B, K)."""
    return {
        OURS: promise_losses(at_least, n, weights, need, never_days),
        STRATA: promise_losses(at_least, n, weights, need, never_days, by="stratum"),
        LITERATURE: literature_losses(
            n, np.nan_to_num(visited_shares(at_least, n)), median_of_visited(at_least), weights,
            never_days,
        ),
    }  # fmt: skip


def score_designs(
    years: Sequence[ScoredYear],
    numbers: NDArray[np.float64],
    need: Need,
    *,
    never_days: float = NEVER_DAYS,
    n_threads: int = 2,
) -> DesignScores:
    """Simulate designs (P, n_numbers) in every year and charge them in every way."""
    found: dict[str, list[NDArray]] = {name: [] for name in LOSSES}
    never: dict[str, list[NDArray]] = {name: [] for name in LOSSES}
    at_least, received = [], []
    for year in years:
        setting = year.setting
        served = simulate(
            setting, design_from_numbers(setting, numbers), year.uniforms, n_threads=n_threads
        )
        n, seen = setting.n_received, served.at_least.astype(np.float64)
        for name, one in charge(seen, n, setting.weights, need, never_days).items():
            found[name].append(_pair(one))
            never[name].append(one.never)
        at_least.append(seen)
        received.append(n)
    return DesignScores(
        {name: np.stack(rows) for name, rows in found.items()},
        {name: np.stack(rows) for name, rows in never.items()},
        np.stack(at_least),
        np.stack(received),
    )


def _pair(losses: Losses) -> NDArray[np.float64]:
    return np.stack([losses.cost, losses.inequity], axis=1)


def check_losses(name: str) -> str:
    """A name of `LOSSES`, or an error that says which there are."""
    if name not in LOSSES:
        raise unknown_name("losses", name, LOSSES)
    return name


def fit_today(
    recorded: RecordedDays, years: Sequence[ScoredYear], visited: NDArray[np.float64], need: Need
) -> NDArray[np.float64]:
    """(n_numbers,) today's design as recorded: who got the visits, and how many were dropped.

    Shares are those of the recorded visits. The retention of each cell is the one of a few whose
    visited share in the simulation is nearest to the recorded one, (B, K).
    """
    setting = years[0].setting
    visits = recorded.visits.sum(axis=0).astype(np.float64)
    kept = np.ones(setting.shape)
    for tried in TRIED_RETENTIONS:
        levels = np.clip(kept * tried[:, None, None], 1 / KEPT_PARTS, 1.0)
        numbers = np.stack(
            [numbers_of(setting, visits.sum(axis=1), visits, level) for level in levels]
        )
        shares = score_designs(years, numbers, need).visited
        away = np.nan_to_num(np.abs(shares - visited[..., None]), nan=0.0)
        kept = np.take_along_axis(levels, np.argmin(away, axis=-1)[None], axis=0)[0]
    return numbers_of(setting, visits.sum(axis=1), visits, kept)


def waits_apart(
    at_least: NDArray[Any], n: NDArray[Any], other: NDArray[Any], n_other: NDArray[Any]
) -> float:
    """How far shares visited within some days lie apart, in the mean over these days.

    Both counts (B, K, A, 1) are of visits after at least so many days, to n (B, K) requests. Half
    of it weighs cells by the other's requests, as cost does, half all of them alike, as inequity.
    """
    apart = np.mean(
        [
            np.abs(share_within(at_least, n, days) - share_within(other, n_other, days))[..., 0]
            for days in COMPARED_DAYS
        ],
        axis=0,
    )
    there = np.isfinite(apart) & (n_other > 0)
    weighted = np.average(apart[there], weights=n_other[there])
    return float(weighted + apart[there].mean()) / 2


def fit_reviews(
    recorded: RecordedDays,
    years_by_days: Mapping[int, Sequence[ScoredYear]],
    visited: NDArray[np.float64],
    waits: tuple[NDArray[Any], NDArray[Any]],
    need: Need,
) -> int:
    """Of some numbers of days between reviews the one with which today's rule waits as on record.

    `waits` are visits on record after at least so many days (B, K, A, 1), and requests (B, K). Who
    is not visited leaves sooner or later: nothing on record says when, but who waits before the
    others shows in the waits of those who were visited.
    """
    apart = {}
    for days, years in years_by_days.items():
        today = fit_today(recorded, years, visited, need)
        scores = score_designs(years, today[None], need)
        apart[days] = waits_apart(scores.at_least.sum(axis=0), scores.received.sum(axis=0), *waits)
    return min(apart, key=lambda days: apart[days])


def rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Spearman's, of two losses over designs; NaN for fewer than three."""
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    ranks = [np.argsort(np.argsort(values)).astype(np.float64) for values in (first, second)]
    return float(np.asarray(np.corrcoef(ranks))[0, 1])
