"""A mixture of pairs that are one problem and pairs that are two, by how they agree."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

N_ROUNDS = 100
LEAST_INFORMATION = 0.1
MAX_STEP = 2.0
"""Newton steps use at least this share of the complete information and are no longer than this."""
RIDGE = 0.1
"""Precision of the N(0, 1/RIDGE) prior of the mixture's coefficients: keeps empty groups finite."""
N_POOLING_ROUNDS = 8
SD_START = 0.5
SD_RANGE = (0.05, 2.0)
"""Spread of log odds between areas: where the search starts, and its limits."""


def fit_prior(
    groups: list[np.ndarray], kind: np.ndarray, if_same: np.ndarray, if_other: np.ndarray
) -> np.ndarray:
    """Log odds, before looking at its agreement, that a pair is one problem.

    They are additive in indicators of the groups. Pairs that share all groups share them, so the
    work is done on those cells, whatever the number of pairs.

    Parameters
    ----------
    groups
        Labels of every pair: how the earlier case ended, gap, rank, income quintile.
    kind
        (n_pairs,) kind of agreement.
    if_same, if_other
        (n_pairs, 4) chance of each kind; the same for pairs that share all groups.
    """
    code = np.zeros(len(kind), dtype=np.int64)
    for group in groups:
        values, index = np.unique(group, return_inverse=True)
        code = code * len(values) + index
    _, one, cell = np.unique(code, return_index=True, return_inverse=True)
    columns = [np.ones(len(one))]
    for group in groups:
        columns += [(group[one] == value).astype(np.float64) for value in np.unique(group)]
    features = np.column_stack(columns)
    counts = np.bincount(4 * cell + kind, minlength=4 * len(one)).reshape(-1, 4)
    total = counts.sum(axis=1)
    if_same, if_other = if_same[one], if_other[one]
    weights = np.zeros(features.shape[1])
    weights[0] = -1.0
    for _ in range(N_ROUNDS):
        prior = expit(features @ weights)
        odds = prior[:, None] * if_same
        chance = odds / (odds + (1.0 - prior)[:, None] * if_other)
        complete = total * prior * (1.0 - prior)
        # What is missing from complete information slows EM down; most of it is taken off.
        missing = (counts * chance * (1.0 - chance)).sum(axis=1)
        bend = np.maximum(complete - missing, LEAST_INFORMATION * complete)
        information = features.T @ (bend[:, None] * features) + RIDGE * np.eye(len(weights))
        slope = features.T @ ((counts * chance).sum(axis=1) - total * prior) - RIDGE * weights
        step = np.linalg.solve(information, slope)
        weights = weights + step * min(1.0, MAX_STEP / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-3:
            break
    return (features @ weights)[cell]


def pool_over_areas(
    logit: np.ndarray, log_ratio: np.ndarray, area: np.ndarray, n_areas: int
) -> tuple[np.ndarray, np.ndarray]:
    """Let the log odds differ between areas, N(0, sd²), as far as the pairs show it.

    Parameters
    ----------
    logit, log_ratio, area
        (n_pairs,) log odds before the agreement, log likelihood ratio of the agreement, area.

    Returns
    -------
    (n_pairs,) chance of one problem, and (n_areas,) standard deviation, from what is uncertain
    about an area's effect, of the number of its pairs that are one problem.
    """
    effects, sd = np.zeros(n_areas), SD_START
    information = np.zeros(n_areas)
    for _ in range(N_POOLING_ROUNDS):
        prior = expit(logit + effects[area])
        chance = expit(logit + effects[area] + log_ratio)
        slope = np.bincount(area, chance - prior, minlength=n_areas)
        bend = prior * (1.0 - prior) - chance * (1.0 - chance)
        information = np.maximum(np.bincount(area, bend, minlength=n_areas), 0.0)
        step = (slope - effects / sd**2) / (information + sd**-2)
        effects = effects + np.clip(step, -1.0, 1.0)
        seen = information > 0
        if seen.any():
            variance = effects[seen] ** 2 + 1.0 / (information[seen] + sd**-2)
            sd = float(np.clip(np.sqrt(variance.mean()), *SD_RANGE))
    chance = expit(logit + effects[area] + log_ratio)
    moved = np.bincount(area, chance * (1.0 - chance), minlength=n_areas)
    return chance, moved / np.sqrt(information + sd**-2)
