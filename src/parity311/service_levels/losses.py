"""What a design loses: as the literature charges it, and as a promise over all requests does.

The literature (Liu and Garg, sla_design): a cell's burden is r·(f·d + (1 − f)·D), with f the share
visited, d the median days of the VISITED and D days for a request never visited. Efficiency loss
is the sum over requests, equity loss the sum over categories of the largest burden of a district
less the smallest. Dropping shortens d, and D is the same however late a request is dropped, so
abandoning a category everywhere is cheap and "equitable".

Ours charges the wait of every request until its visit or, where none came, the whole of the days
followed and D on top; by incident, those nobody reported are charged like those never visited. The
spread is between districts or strata. Below a floor on the visited share of every cell a design is
no candidate at all.

The two rank designs differently when a design leaves cells nearly unvisited: there the literature
sees the short waits of the few, ours the many. Where every cell is visited, they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity311.errors import InputError

NEVER_DAYS = 100.0
"""D: days charged for a request that is never visited (Liu and Garg; 200 as their check)."""
CODE_WEIGHTS = {"A": 10.0, "B": 8.0, "C": 6.0, "D": 4.0}
"""Risk weight of a request by severity code (assumed: the literature's range, 10 for hazard to 4
for pruning, spread evenly over the codes). Weights are assigned, not measured."""


class Losses(NamedTuple):
    """Losses of P designs, (P,) each; in weighted days."""

    cost: Any
    """efficiency loss"""
    inequity: Any
    """equity loss: the spread between groups, summed over categories"""
    waited: Any
    """part of the cost that is waiting"""
    never: Any
    """part of the cost that is charged for requests nobody visited"""


def literature_losses(
    n: NDArray[Any],
    visited: NDArray[Any],
    delay_days: NDArray[Any],
    weights: NDArray[Any],
    never_days: float = NEVER_DAYS,
) -> Losses:
    """Losses as published, from N (B, K), f and d (B, K, P) and r (K,).

    Examples
    --------
    >>> n = np.array([[400, 900], [600, 1100]])
    >>> f = np.array([[0.95, 0.60], [0.85, 0.20]])[..., None]
    >>> d = np.array([[2.0, 40.0], [4.0, 10.0]])[..., None]
    >>> found = literature_losses(n, f, d, np.array([10.0, 4.0]))
    >>> round(float(found.cost[0]), 6), round(float(found.inequity[0]), 6)
    (729200.0, 187.0)
    """
    risk = np.asarray(weights, np.float64)[:, None]
    # Where nobody was visited there is no median, and nothing of it is charged.
    delay = np.where(visited > 0, np.nan_to_num(delay_days), 0.0)
    waited, never = risk * visited * delay, risk * (1.0 - visited) * never_days
    total = np.asarray(n, np.float64)[..., None]
    return Losses(
        (total * (waited + never)).sum(axis=(0, 1)),
        spread(waited + never, n),
        (total * waited).sum(axis=(0, 1)),
        (total * never).sum(axis=(0, 1)),
    )


def served_only_inequity(
    n: NDArray[Any], delay_days: NDArray[Any], weights: NDArray[Any]
) -> NDArray[np.float64]:
    """Σ_k r (max d − min d) over the visited alone, (P,): what hides who was never served."""
    return spread(np.asarray(weights, np.float64)[:, None] * np.nan_to_num(delay_days), n)


def spread(burden: NDArray[Any], n: NDArray[Any]) -> NDArray[np.float64]:
    """Largest less smallest burden of a group with requests, summed over categories, (P,)."""
    there = np.asarray(n)[..., None] > 0
    top = np.where(there, burden, -np.inf).max(axis=0)
    bottom = np.where(there, burden, np.inf).min(axis=0)
    return np.where(np.isfinite(top), top - bottom, 0.0).sum(axis=0)


@dataclass(frozen=True)
class Need:
    """Who is behind the requests of each cell."""

    reported: NDArray[np.float64]
    """(B, K) share of the actionable incidents that anybody reported, above 0"""
    strata: tuple[str, ...]
    stratum_share: NDArray[np.float64]
    """(B, K, G) share of a cell's requests that come from each stratum"""

    def __post_init__(self) -> None:
        if ((self.reported <= 0) | (self.reported > 1)).any():
            raise InputError(
                "A share of incidents reported lies outside 0 to 1; give shares above 0."
            )


def charged_days(
    at_least: NDArray[Any], n: NDArray[Any], never_days: float = NEVER_DAYS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean days waited and mean days charged for no visit, a request, (B, K, P) each.

    `at_least` (B, K, A, P) counts visits after at least so many days, all within the A − 1 days
    followed; who was not visited waited all of these.
    """
    total = np.asarray(n, np.float64)[..., None]
    days = at_least.shape[2] - 1
    seen = at_least[:, :, 0]
    unseen = np.maximum(total - seen, 0.0)
    # Visits after at least 1, 2, … days sum to the days the visited waited.
    waited = at_least[:, :, 1:].sum(axis=2) + unseen * days
    safe = np.maximum(total, 1.0)
    return waited / safe, unseen * never_days / safe


def promise_losses(
    at_least: NDArray[Any],
    n: NDArray[Any],
    weights: NDArray[Any],
    need: Need,
    never_days: float = NEVER_DAYS,
    by: str = "district",
) -> Losses:
    """Cost over all requests, and the spread over all incidents between districts or strata.

    Incidents nobody reported cost the same under every design, so they count in the spread alone.
    """
    own_waited, own_never = charged_days(at_least, n, never_days)
    days = at_least.shape[2] - 1
    reported = need.reported[..., None]
    risk = np.asarray(weights, np.float64)[:, None]
    # An incident nobody reported waits as long as anybody was followed, and is not visited.
    waited = risk * (reported * own_waited + (1.0 - reported) * days)
    never = risk * (reported * own_never + (1.0 - reported) * never_days)
    incidents = np.asarray(n, np.float64)[..., None] / reported
    burden, counted = waited + never, n
    if by == "stratum":
        held = incidents * need.stratum_share
        counted = held.sum(axis=0).T
        mixed = np.einsum("bkg,bkp->gkp", held, burden)
        burden = mixed / np.maximum(counted[..., None], 1e-12)
    total = np.asarray(n, np.float64)[..., None]
    return Losses(
        (total * risk * (own_waited + own_never)).sum(axis=(0, 1)),
        spread(burden, counted),
        (total * risk * own_waited).sum(axis=(0, 1)),
        (total * risk * own_never).sum(axis=(0, 1)),
    )


def visited_shares(at_least: NDArray[Any], n: NDArray[Any]) -> NDArray[np.float64]:
    """(B, K, P) share of all requests that were visited; NaN where none came."""
    return share_within(at_least, n, at_least.shape[2] - 1)


def share_within(at_least: NDArray[Any], n: NDArray[Any], days: int) -> NDArray[np.float64]:
    """(B, K, P) share of ALL requests visited within so many days; never visited is not within."""
    total = np.asarray(n, np.float64)[..., None]
    later = at_least[:, :, days + 1] if days + 1 < at_least.shape[2] else 0.0
    seen = at_least[:, :, 0] - later
    return np.divide(seen, total, out=np.full(seen.shape, np.nan), where=total > 0)


def median_of_visited(at_least: NDArray[Any], level: float = 0.5) -> NDArray[np.float64]:
    """(B, K, P) days within which half of the VISITED were, by the inverted CDF; NaN for none."""
    seen = at_least[:, :, :1]
    # Visits within a days: all but those after at least a + 1.
    later = np.concatenate([at_least[:, :, 1:], np.zeros_like(seen)], axis=2)
    within = seen - later >= level * seen - 1e-9
    return np.where(seen[:, :, 0] > 0, within.argmax(axis=2), np.nan)


def least_visited(at_least: NDArray[Any], n: NDArray[Any]) -> NDArray[np.float64]:
    """(P,) smallest visited share of any cell with requests."""
    return np.nanmin(visited_shares(at_least, n), axis=(0, 1))
