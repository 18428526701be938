"""Importance sampling: logged episodes count for more where the target policy is likelier.

Ordinary and per-decision importance sampling, and their self-normalised forms: Precup, Sutton and
Singh (2000). Every estimator is told by the values (L, E, K) that episodes contribute: their mean
is the estimate, and their spread is what an interval is made of. For a self-normalised estimator
they are its linearisation, w (G - v) / mean(w) + v.
"""

from __future__ import annotations

import numpy as np

from parity311.evaluation.off_policy.logs import Logs


def decision_ratios(logs: Logs, target: np.ndarray, propensity: np.ndarray) -> np.ndarray:
    """Chance of each logged action under the target over that under the logging policy, (L, E, T).

    `target` (L, E, T, n_actions) are the target's chances. Steps after an episode's end count 1.
    """
    wanted = np.take_along_axis(target, logs.action[..., None], axis=-1)[..., 0]
    return np.where(logs.is_live, wanted / np.where(logs.is_live, propensity, 1.0), 1.0)


def cumulative_weights(ratios: np.ndarray) -> np.ndarray:
    """Weights of everything up to and with each step, (L, E, T)."""
    return np.cumprod(ratios, axis=-1)


def effective_size(weights: np.ndarray, axis: int = -1) -> np.ndarray:
    """Kish's effective sample size (Σw)² / Σw²: equal weights of n episodes give n."""
    total, squares = weights.sum(axis=axis), (weights**2).sum(axis=axis)
    return np.where(squares > 0, total**2 / np.where(squares > 0, squares, 1.0), 0.0)


def discounts(n_steps: int, discount: float) -> np.ndarray:
    """1, γ, γ² … (T,)."""
    return discount ** np.arange(n_steps)


def _returns(logs: Logs, discount: float) -> np.ndarray:
    """Discounted outcomes of every step that was played, (L, E, T, K)."""
    scale = discounts(logs.shape[2], discount)[:, None]
    return logs.outcome * logs.is_live[..., None] * scale


def ordinary(logs: Logs, cumulative: np.ndarray, discount: float) -> np.ndarray:
    """Values (L, E, K) of ordinary importance sampling: whole episodes, weighted."""
    return cumulative[..., -1, None] * _returns(logs, discount).sum(axis=2)


def per_decision(logs: Logs, cumulative: np.ndarray, discount: float) -> np.ndarray:
    """Values (L, E, K) of per-decision importance sampling: what comes later weighs nothing."""
    return (cumulative[..., None] * _returns(logs, discount)).sum(axis=2)


def self_normalised(logs: Logs, cumulative: np.ndarray, discount: float) -> np.ndarray:
    """Values (L, E, K) of weighted importance sampling over whole episodes, linearised."""
    weight = cumulative[..., -1, None]
    total = _returns(logs, discount).sum(axis=2)
    return linearise(weight, weight * total)


def self_normalised_per_decision(logs: Logs, cumulative: np.ndarray, discount: float) -> np.ndarray:
    """Values (L, E, K) of per-decision weighted importance sampling, step by step linearised."""
    weight = cumulative[..., None]
    return linearise(weight, weight * _returns(logs, discount)).sum(axis=2)


def linearise(weight: np.ndarray, weighted: np.ndarray) -> np.ndarray:
    """Contributions of episodes (axis 1) to Σ weighted / Σ weight; their mean is that ratio."""
    mean = weight.mean(axis=1, keepdims=True)
    safe = np.where(mean > 0, mean, np.nan)
    value = weighted.mean(axis=1, keepdims=True) / safe
    return value + (weighted - weight * value) / safe


def excess_mass(ratios: np.ndarray, is_live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the decision ratios less 1, and its standard error over episodes, (L,) each.

    Where the log supports the target the mean is 1 whatever the policies are; the share of the
    target's actions that the logging policy never takes is missing from it.
    """
    live = is_live.sum(axis=-1)
    per_episode = ((ratios - 1.0) * is_live).sum(axis=-1)
    n = np.maximum(live.sum(axis=-1), 1)
    mean = per_episode.sum(axis=-1) / n
    spread = (per_episode - mean[..., None] * live).std(axis=-1, ddof=1)
    return mean, spread * np.sqrt(ratios.shape[1]) / n
