"""What an evaluation says about one policy, each figure with its 95 % interval.

Intervals come from a paired bootstrap over episodes: every policy is resampled with the same
weights, so that differences between policies are measured on the same episodes. They take the
process and the trained agents as given; what estimating the process costs is reported apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.evaluation.rollout import Episodes
from parity311.mdp.contract import EQUITY, N_KNOWN_STRATA, N_REWARDS
from parity311.resampling import ANY, LEVEL, SHARE, UNDEFINED, Figure, bootstrap_weights, figure_of

N_RESAMPLES = 400
FEWEST_REFERENCE = 30
"""Correct escalations of the reference, over all scored episodes, below which a relative change
against it is not defined: the count alone then varies by a fifth and more (1/√30)."""
ROUNDING = 1e-9
"""A difference of shares that is smaller comes from rounding."""
DIRECTIONS = ("levelling up", "levelling down", "both", "widened", "no clear change")
"""How a gap can move against another policy's; the first three close it."""


def gap_figure(coverage: np.ndarray, widening: float = 1.0) -> Figure:
    """Coverage gap of (1 + B, strata) with an interval that covers the choice of the pair.

    The gap is the largest of many differences and never negative, and which pair gives it is
    itself chosen by chance: an interval of that one difference reaches below zero, and resampled
    maxima lie above it. So every pair of known strata gets a band, as wide as needed for all
    bands to hold at once (max-T over resamples). The true gap, the largest true difference, then
    lies between the largest lower and the largest upper end, and so does the estimate.
    """
    known = coverage[:, :N_KNOWN_STRATA]
    known = known[:, np.isfinite(known[0])]
    drawn = known[1:][np.isfinite(known[1:]).all(axis=1)]
    if known.shape[1] < 2:
        return UNDEFINED
    first, second = np.triu_indices(known.shape[1], k=1)
    differences = known[0, first] - known[0, second]
    value = float(np.abs(differences).max())
    if len(drawn) < 2:
        return Figure(value, float("nan"), float("nan"), float("nan"))
    moved = drawn[:, first] - drawn[:, second] - differences
    spread = (drawn[:, first] - drawn[:, second]).std(axis=0, ddof=1)
    largest = divide(np.abs(moved), np.broadcast_to(spread, moved.shape))
    # A pair that never varies needs no band; where none does, there is nothing to widen.
    widest = np.nan_to_num(largest).max(axis=1)
    reach = widening * float(np.quantile(widest, LEVEL)) * spread
    lower = max(float((np.abs(differences) - reach).max()), 0.0)
    upper = min(float((np.abs(differences) + reach).max()), 1.0)
    top = int(np.abs(differences).argmax())
    return Figure(value, min(lower, value), max(upper, value), widening * float(spread[top]))


class Widened:
    """A set of resamples whose intervals are widened by a factor."""

    widening: float

    def figure(self, samples: np.ndarray, within: tuple[float, float] = ANY) -> Figure:
        """The estimate with its interval from the statistic on every resample, (1 + B,)."""
        return figure_of(samples, self.widening, within)

    def gap_figure(self, coverage: np.ndarray) -> Figure:
        """Coverage gap of (1 + B, strata), its interval within [0, 1] and around its point."""
        return gap_figure(coverage, self.widening)


class Resampled(Widened):
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
        self.weights = bootstrap_weights(n_episodes, n_resamples, rng)
        """(1 + B, episodes): the first row is the data itself"""
        self.widening = 1.0 if n_cases is None else float(np.sqrt(1.0 + n_drawn / n_cases))

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum over episodes (leading axis) in every sample: (1 + B, ...)."""
        return np.tensordot(self.weights, np.asarray(values, np.float64), axes=1)


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

    @property
    def recall(self) -> np.ndarray:
        """Correct escalations per reported actionable incident, (1 + B,)."""
        return divide(self.n_correct, self.reported.sum(axis=1))

    @property
    def visits_per_complaint(self) -> np.ndarray:
        """Visits over complaints, (1 + B,)."""
        return divide(self.visits.sum(axis=1), self.complaints.sum(axis=1))


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
    vector[..., EQUITY] = np.asarray(episodes.earned)
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
    is biased upwards. For changes of a gap; the interval of a gap itself is `gap_figure`'s.
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
            **figure(coverage[:, g], SHARE).as_record(),
            "n_actionable": float(scores.actionable[0, g]),
            "reported_share": float(divide(scores.reported[:, g], scores.actionable[:, g])[0]),
        }
        for g in range(coverage.shape[1])
    ]
    return {
        "reward": figure(scores.reward).as_record(),
        "reward_vector": [float(x) for x in scores.vector[0]],
        "recall": figure(scores.recall, SHARE).as_record(),
        "precision": figure(divide(scores.n_correct, visits), SHARE).as_record(),
        "visits_per_complaint": figure(scores.visits_per_complaint, (0.0, np.inf)).as_record(),
        "visits": float(visits[0] / len(resampled.weights[0])),
        "hours": float(scores.hours[0]),
        "correct": figure(scores.n_correct / len(resampled.weights[0])).as_record(),
        "coverage": by_stratum,
        "coverage_gap": resampled.gap_figure(coverage).as_record(),
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
    """Price of equity against a policy without it, and which way the gap moved.

    The price is not defined, and the note says why, where the reference finds too little.
    """
    note = price_note(float(reference.n_correct[0]))
    price = UNDEFINED
    if not note:
        price = resampled.figure(1.0 - divide(scores.n_correct, reference.n_correct))
    raised, lowered = _moves(scores, reference)
    return {
        "price_of_equity": price.as_record(),
        "price_note": note,
        "lowest_raised": raised,
        "highest_lowered": lowered,
        "direction": gap_direction(scores, reference, resampled),
    }


def price_note(n_reference: float) -> str:
    """Why a price against a policy with this many correct escalations is not defined, or nothing.

    The count is over all scored episodes.
    """
    if n_reference >= FEWEST_REFERENCE:
        return ""
    return (
        f"not defined: the reference made {n_reference:.0f} correct escalations in all scored "
        f"episodes, and a share of them needs at least {FEWEST_REFERENCE}"
    )


def _moves(scores: Scores, reference: Scores) -> tuple[float, float]:
    """By how much the lowest coverage rose and the highest fell against the reference."""
    own, other = scores.coverage[0, :N_KNOWN_STRATA], reference.coverage[0, :N_KNOWN_STRATA]
    if not (np.isfinite(own).any() and np.isfinite(other).any()):
        return float("nan"), float("nan")
    return float(np.nanmin(own) - np.nanmin(other)), float(np.nanmax(other) - np.nanmax(own))


def gap_direction(scores: Scores, reference: Scores, resampled: Resampled) -> str:
    """How the gap moved against the reference's, one of `DIRECTIONS`.

    A change whose interval holds zero is none that could be told from noise.
    """
    change = gap_change(scores, reference, resampled)
    if not (change.upper < -ROUNDING or change.lower > ROUNDING):
        return "no clear change"
    if change.lower > ROUNDING:
        return "widened"
    raised, lowered = _moves(scores, reference)
    closed = raised + lowered
    if lowered <= 0.25 * closed:
        return "levelling up"
    return "levelling down" if raised <= 0.25 * closed else "both"


def gap_change(scores: Scores, reference: Scores, resampled: Resampled) -> Figure:
    """Gap less the reference's, resampled together; each with the pair of its own data."""
    own, other = gap_samples(scores.coverage), gap_samples(reference.coverage)
    return resampled.figure(own - other)


def compare_with_today(scores: Scores, today: Scores, resampled: Resampled) -> dict[str, object]:
    """What would change for an agency that now follows today's rule, with intervals.

    `correct` is relative; `recall`, `visits_per_complaint` and `coverage_gap` are differences.
    """
    note = price_note(float(today.n_correct[0]))
    found = UNDEFINED
    if not note:
        found = resampled.figure(divide(scores.n_correct, today.n_correct) - 1.0)
    visits = scores.visits_per_complaint - today.visits_per_complaint
    return {
        "correct": found.as_record(),
        "note": note.replace("the reference", "today's rule"),
        "recall": resampled.figure(scores.recall - today.recall).as_record(),
        "visits_per_complaint": resampled.figure(visits).as_record(),
        "coverage_gap": gap_change(scores, today, resampled).as_record(),
        "direction": gap_direction(scores, today, resampled),
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
