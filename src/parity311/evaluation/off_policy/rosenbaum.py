"""How strong a hidden reason behind the logged decisions would have to be to overturn a result.

Where propensities are estimated, whatever the agency looked at and did not write down biases the
weights. Two cases that look alike on record may then differ in their odds of an action by a factor
of up to Γ (Rosenbaum 2002, *Observational Studies*, chapter 4). For a given Γ every true weight
lies in a known range around the estimated one (Tan 2006), and the largest and smallest value over
all weights in it are found exactly by sorting outcomes; resampling episodes gives an interval of
the pair (Zhao, Small and Bhattacharya 2019). One decision an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from parity311.errors import InputError
from parity311.evaluation.off_policy.logs import Logs
from parity311.resampling import LEVEL, draw_counts

N_RESAMPLES = 199
LARGEST_GAMMA = 20.0
"""Where the search for the Γ that overturns a result ends."""
GAMMA_TOLERANCE = 0.01


class Bounds(NamedTuple):
    """What a value can be at one Γ, by outcome (K,)."""

    gamma: float
    lowest: np.ndarray
    """smallest value over all weights that Γ allows"""
    highest: np.ndarray
    lower: np.ndarray
    """the same with the uncertainty of a finite log: 95 % interval of the pair"""
    upper: np.ndarray


def bound_value(
    logs: Logs,
    target: np.ndarray,
    propensity: np.ndarray,
    gamma: float,
    *,
    less_logged: bool = False,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
) -> Bounds:
    """Bounds of a target policy's value on one log with one decision an episode.

    Parameters
    ----------
    target, propensity
        (1, E, 1, A) and (1, E, 1): the target's chances, and the logged actions' estimated ones.
    less_logged
        Bound how much more the target earns than the logged decisions did.
    """
    n_logs, n_episodes, n_steps = logs.shape
    if n_logs != 1 or n_steps != 1:
        raise InputError(
            f"Bounds were asked for {n_logs} logs of {n_steps} steps; they are for one log with "
            "one decision an episode."
        )
    if gamma < 1.0:
        raise InputError(f"Γ = {gamma} was given; it is at least 1, which means no hidden reason.")
    counts = np.ones((1 + n_resamples, n_episodes))
    counts[1:] = draw_counts(n_episodes, seed, n_resamples)
    found = [
        _bound_outcome(
            logs.action[0, :, 0],
            logs.outcome[0, :, 0, k],
            target[0, :, 0],
            propensity[0, :, 0],
            gamma,
            counts,
            less_logged,
        )
        for k in range(logs.outcome.shape[-1])
    ]
    low, high = (np.stack(part, axis=-1) for part in zip(*found, strict=True))
    tail = (1 - LEVEL) / 2
    return Bounds(
        gamma,
        low[0],
        high[0],
        np.quantile(low[1:], tail, axis=0),
        np.quantile(high[1:], 1 - tail, axis=0),
    )


def _bound_outcome(
    action: np.ndarray,
    outcome: np.ndarray,
    target: np.ndarray,
    propensity: np.ndarray,
    gamma: float,
    counts: np.ndarray,
    less_logged: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value in every resample, (B,) each."""
    n = counts.sum(axis=1)
    low, high = np.zeros(len(counts)), np.zeros(len(counts))
    odds_against = 1.0 / propensity - 1.0
    least, most = 1.0 + odds_against / gamma, 1.0 + odds_against * gamma
    for a in range(target.shape[-1]):
        share = counts @ target[:, a] / n
        rows = np.flatnonzero((action == a) & (target[:, a] > 0))
        if not len(rows):
            # Nothing is known of an action nobody took: any outcome on record is possible.
            low, high = low + share * outcome.min(), high + share * outcome.max()
            continue
        rows = rows[np.argsort(outcome[rows], kind="stable")]
        weight = counts[:, rows] * target[rows, a]
        low = low + share * _extreme(outcome[rows], weight, most[rows], least[rows], np.min)
        high = high + share * _extreme(outcome[rows], weight, least[rows], most[rows], np.max)
    if less_logged:
        mean = counts @ outcome / n
        low, high = low - mean, high - mean
    return low, high


def _extreme(
    outcome: np.ndarray,
    weight: np.ndarray,
    below: np.ndarray,
    above: np.ndarray,
    best: Callable[..., Any],
) -> np.ndarray:
    """Extreme weighted mean over all cuts of the sorted outcomes, (B,).

    Up to a cut the inverse propensity is `below`, from it on `above`; one of the cuts is optimal.
    """
    over = weight * above
    step = weight * below - over
    # In place: these are as long as the log, times resamples, and there are many of them.
    top, bottom = np.zeros((2, len(weight), len(outcome) + 1))
    np.cumsum(step, axis=1, out=bottom[:, 1:])
    bottom += over.sum(axis=1, keepdims=True)
    step *= outcome
    np.cumsum(step, axis=1, out=top[:, 1:])
    over *= outcome
    top += over.sum(axis=1, keepdims=True)
    is_known = bottom[:, 0] > 0
    bottom[bottom <= 0] = 1.0
    top /= bottom
    # A resample without any such decision says nothing; the action's mean stands in.
    return np.where(is_known, best(top, axis=1), outcome.mean())


def overturning_gamma(
    logs: Logs, target: np.ndarray, propensity: np.ndarray, *, outcome: int = 0, seed: int = 0
) -> float:
    """Smallest Γ at which "the target earns more (or less) than was earned" no longer stands.

    1 where it does not stand even without any hidden reason; infinite beyond `LARGEST_GAMMA`.
    """
    only = replace(logs, outcome=logs.outcome[..., outcome : outcome + 1])

    def is_clear(gamma: float) -> bool:
        found = bound_value(only, target, propensity, gamma, less_logged=True, seed=seed)
        return bool(found.lower[0] > 0.0 or found.upper[0] < 0.0)

    if not is_clear(1.0):
        return 1.0
    if is_clear(LARGEST_GAMMA):
        return float("inf")
    low, high = 1.0, LARGEST_GAMMA
    while high - low > GAMMA_TOLERANCE:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if is_clear(middle) else (low, middle)
    return high
