"""What an evaluation says about one policy, each figure with its 95 % interval.

Intervals come from a paired bootstrap over episodes: every policy is resampled with the same
weights, so that differences between policies are measured on the same episodes. They take the
process as given; what estimating it costs is reported apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.evaluation.rollout import Episodes
from parity311.mdp.contract import EQUITY, N_KNOWN_STRATA, N_REWARDS

N_RESAMPLES = 400
LEVEL = 0.95


@dataclass(frozen=True)
class Figure:
    """An estimate with its interval and standard error."""

    value: float
    lower: float
    upper: float
    error: float

    def as_record(self) -> dict[str, float]:
        """Plain numbers for a file."""
        return {"value": self.value, "lower": self.lower, "upper": self.upper}


class Resampled:
    """Totals over episodes, and over each bootstrap sample of them.

    Where episodes are drawn from a table of cases, the table is itself a sample: with `n_drawn`
    draws from `n_cases` cases the variance of a mean is σ²/n_drawn + σ²/n_cases, so the errors the
    episodes show are widened accordingly.
    """

    def __init__(
        self,
        n_episodes: int,
        *,
        n_drawn: int = 0,
        n_cases: int | None = None,
        seed: int = 0,
        n_resamples: int = N_RESAMPLES,
    ) -> None:
        rng = np.random.default_rng(seed)
        drawn = rng.multinomial(n_episodes, np.full(n_episodes, 1 / n_episodes), size=n_resamples)
        self.weights = np.concatenate([np.ones((1, n_episodes)), drawn])
        """(1 + B, episodes): the first row is the data itself"""
        self.widening = 1.0 if n_cases is None else float(np.sqrt(1.0 + n_drawn / n_cases))

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum over episodes (leading axis) in every sample: (1 + B, ...)."""
        return np.tensordot(self.weights, np.asarray(values, np.float64), axes=1)

    def figure(self, samples: np.ndarray) -> Figure:
        """Figure from the statistic on every sample, (1 + B,)."""
        value, drawn = float(samples[0]), samples[1:]
        drawn = drawn[np.isfinite(drawn)]
        if len(drawn) < 2:
            return Figure(value, float("nan"), float("nan"), float("nan"))
        tail = (1 - LEVEL) / 2
        bounds = value + self.widening * (np.quantile(drawn, [tail, 1 - tail]) - value)
        error = self.widening * float(drawn.std(ddof=1))
        return Figure(value, float(bounds[0]), float(bounds[1]), error)


@dataclass(frozen=True)
class Scores:
    """Sample totals of one policy: arrays lead with (1 + B)."""

    reward: np.ndarray
    """(1 + B,) published reward per episode under the scoring preference"""
    vector: np.ndarray
    """(1 + B, 4) published reward per episode, equity as earned"""
    correct: np.ndarray
    """(1 + B, 6)"""
    actionable: np.ndarray
    reported: np.ndarray
    visits: np.ndarray
    complaints: np.ndarray
    hours: np.ndarray
    """(1 + B,)"""

    @property
    def coverage(self) -> np.ndarray:
        """Correct escalations per actionable incident, (1 + B, 6)."""
        return divide(self.correct, self.actionable)

    @property
    def n_correct(self) -> np.ndarray:
        """Correct escalations, (1 + B,)."""
        return self.correct.sum(axis=1)


def divide(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Ratio; NaN where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)


def score(
    episodes: Episodes, places: Sequence[int], resampled: Resampled, preference: np.ndarray
) -> Scores:
    """Sample totals of the policies at these places of an evaluation, averaged over them."""
    tally = episodes.tally
    n = len(resampled.weights[0])
    rows = np.asarray(places)

    def total(values: Any) -> np.ndarray:
        return resampled.total(np.asarray(values, np.float64)[rows].mean(axis=0))

    vector = np.array(tally.published_reward, np.float64)
    vector[..., EQUITY] = np.asarray(episodes.reward)[..., EQUITY]
    plain = np.where(np.arange(N_REWARDS) == EQUITY, 0.0, preference)
    return Scores(
        reward=total(vector @ plain) / n,
        vector=total(vector) / n,
        correct=total(tally.correct),
        actionable=total(tally.actionable),
        reported=total(tally.reported_actionable),
        visits=total(tally.visits),
        complaints=total(tally.complaints),
        hours=total(tally.hours) / n,
    )


def gap_samples(coverage: np.ndarray) -> np.ndarray:
    """Difference between the best and the worst covered known stratum of the data, (1 + B,).

    The pair is chosen on the data and kept in every sample: the maximum over pairs of a resample
    is biased upwards.
    """
    known = coverage[:, :N_KNOWN_STRATA]
    usable = np.flatnonzero(np.isfinite(known[0]))
    if len(usable) < 2:
        return np.full(len(coverage), np.nan)
    best = usable[np.argmax(known[0, usable])]
    worst = usable[np.argmin(known[0, usable])]
    return known[:, best] - known[:, worst]


def noise_floor(coverage: np.ndarray, actionable: np.ndarray) -> float:
    """Gap that would be seen at exact parity from counting alone: 2.33 √(ē/N), N per stratum."""
    known = np.isfinite(coverage[:N_KNOWN_STRATA])
    if not known.any():
        return float("nan")
    mean = float(coverage[:N_KNOWN_STRATA][known].mean())
    n = float(actionable[:N_KNOWN_STRATA][known].mean())
    return 2.33 * float(np.sqrt(mean / n))


def summarise(
    scores: Scores, resampled: Resampled, distinct_need: np.ndarray | None = None
) -> dict[str, object]:
    """Figures of one policy that need no other policy.

    `distinct_need` (6,) are the actionable incidents there really are where episodes draw the
    same ones again and again.
    """
    coverage = scores.coverage
    figure = resampled.figure
    visits = scores.visits.sum(axis=1)
    by_stratum = [
        {
            **figure(coverage[:, g]).as_record(),
            "n_actionable": float(scores.actionable[0, g]),
            "reported_share": float(divide(scores.reported[:, g], scores.actionable[:, g])[0]),
        }
        for g in range(coverage.shape[1])
    ]
    return {
        "reward": figure(scores.reward).as_record(),
        "reward_vector": [float(x) for x in scores.vector[0]],
        "recall": figure(divide(scores.n_correct, scores.reported.sum(axis=1))).as_record(),
        "precision": figure(divide(scores.n_correct, visits)).as_record(),
        "visits_per_complaint": figure(divide(visits, scores.complaints.sum(axis=1))).as_record(),
        "visits": float(visits[0] / len(resampled.weights[0])),
        "hours": float(scores.hours[0]),
        "correct": figure(scores.n_correct / len(resampled.weights[0])).as_record(),
        "coverage": by_stratum,
        "coverage_gap": figure(gap_samples(coverage)).as_record(),
        "feasible_parity": _feasible_parity(scores),
        "noise_floor": noise_floor(
            coverage[0], scores.actionable[0] if distinct_need is None else distinct_need
        ),
    }


def _feasible_parity(scores: Scores) -> float:
    """Highest coverage that all known strata could share: nobody visits what nobody reported."""
    shares = divide(scores.reported, scores.actionable)[0, :N_KNOWN_STRATA]
    return float(np.nanmin(shares)) if np.isfinite(shares).any() else float("nan")


def compare_with(scores: Scores, reference: Scores, resampled: Resampled) -> dict[str, object]:
    """Price of equity against a policy without it, and which way the gap closed."""
    own, other = scores.coverage[0, :N_KNOWN_STRATA], reference.coverage[0, :N_KNOWN_STRATA]
    price = 1.0 - divide(scores.n_correct, reference.n_correct)
    raised = float(np.nanmin(own) - np.nanmin(other))
    lowered = float(np.nanmax(other) - np.nanmax(own))
    closed = raised + lowered
    if closed <= 0.0:
        direction = "not closed"
    elif lowered <= 0.25 * closed:
        direction = "levelling up"
    elif raised <= 0.25 * closed:
        direction = "levelling down"
    else:
        direction = "both"
    return {
        "price_of_equity": resampled.figure(price).as_record(),
        "lowest_raised": raised,
        "highest_lowered": lowered,
        "direction": direction,
    }


def share_of_way(
    scores: Scores, today: Scores, best: Scores, resampled: Resampled
) -> dict[str, object]:
    """How far a policy gets from today's rule towards the ceiling, at equal capacity.

    Where the head-room is under two standard errors the share means nothing; the regret is then
    the figure to read.
    """
    room = resampled.figure(best.reward - today.reward)
    has_room = room.value > 2.0 * room.error and room.value > 0.0
    share = divide(scores.reward - today.reward, best.reward - today.reward)
    return {
        "share_of_way": resampled.figure(share).as_record() if has_room else None,
        "head_room": room.as_record(),
        "has_head_room": bool(has_room),
        "regret": resampled.figure(best.reward - scores.reward).as_record(),
    }
