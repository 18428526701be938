"""Doubly robust estimates: fitted values where they are right, weights where they are not.

Sequential (Jiang and Li 2016) and self-normalised (Thomas and Brunskill 2016, "weighted doubly
robust"). Values are fitted on the other half of the episodes (cross-fitting), so that an episode
never corrects a value it was used to fit.
"""

from __future__ import annotations

import numpy as np

from parity311.evaluation.off_policy.fitted_q import action_values, fit_values
from parity311.evaluation.off_policy.logs import Logs
from parity311.evaluation.off_policy.weights import discounts, linearise

N_FOLDS = 2


def cross_fitted_action_values(
    logs: Logs, basis: np.ndarray, target: np.ndarray, discount: float
) -> np.ndarray:
    """Q of every action at every step of every episode, (L, E, T, A, K), fitted on the others."""
    n_logs, n_episodes, n_steps = logs.shape
    fold = np.arange(n_episodes) % N_FOLDS
    q = np.zeros((*logs.action.shape, logs.n_actions, logs.outcome.shape[-1]))
    for number in range(N_FOLDS):
        others = np.broadcast_to(fold != number, (n_logs, n_episodes)).astype(np.float64)
        fit = fit_values(logs, basis, target, others, discount)
        mine = np.flatnonzero(fold == number)
        for step in range(n_steps):
            q[:, mine, step] = action_values(basis[:, mine, step], fit.theta[step])
    return q * logs.is_live[..., None, None]


def cross_fitted_values(
    logs: Logs, basis: np.ndarray, target: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Q of the logged action and V at every step of every episode, (L, E, T, K) each."""
    every = cross_fitted_action_values(logs, basis, target, discount)
    taken = np.take_along_axis(every, logs.action[..., None, None], axis=3)[..., 0, :]
    return taken, (every * target[..., None]).sum(axis=3)


def doubly_robust(
    logs: Logs, cumulative: np.ndarray, q: np.ndarray, v: np.ndarray, discount: float
) -> np.ndarray:
    """Values (L, E, K): V_0 + Σ γᵗ w_t (r_t + γ V_{t+1} - Q_t)."""
    after = np.concatenate([v[:, :, 1:], np.zeros_like(v[:, :, :1])], axis=2)
    surprise = (logs.outcome + discount * after - q) * logs.is_live[..., None]
    scale = discounts(logs.shape[2], discount)[:, None]
    return v[:, :, 0] + (scale * cumulative[..., None] * surprise).sum(axis=2)


def weighted_doubly_robust(
    logs: Logs, cumulative: np.ndarray, q: np.ndarray, v: np.ndarray, discount: float
) -> np.ndarray:
    """Values (L, E, K) of the same with weights that sum to one at every step, linearised."""
    live = logs.is_live[..., None]
    scale = discounts(logs.shape[2], discount)[:, None]
    weight = cumulative[..., None]
    before = np.concatenate([np.ones_like(weight[:, :, :1]), weight[:, :, :-1]], axis=2)
    earned = linearise(weight, scale * weight * (logs.outcome - q) * live)
    expected = linearise(before, scale * before * v)
    return (earned + expected).sum(axis=2)
