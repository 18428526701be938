"""The chance of every logged action where the log does not carry it.

Estimated on the other episodes (cross-fitting), by a multinomial logistic regression on a basis of
the observation or by frequencies per kind of case. An estimated propensity is no known one: what
the agency looked at and did not write down is not in it (`parity311.evaluation.off_policy
.rosenbaum` says how much of that a conclusion bears).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.errors import unknown_name
from parity311.evaluation.off_policy.cells import Binning, count_by_cell
from parity311.evaluation.off_policy.fitted_q import make_basis
from parity311.evaluation.off_policy.logs import Logs

N_FOLDS = 5
RIDGE = 1.0
N_NEWTON = 12
CELL_PRIOR = 5.0
"""Decisions that an action's share in the whole log counts for in a cell (assumed)."""
FLOOR = 1e-3
"""Least chance that is believed of an action that was taken (assumed)."""
METHODS = ("logistic", "tabular")


class Estimated(NamedTuple):
    """Propensities from the log itself."""

    chances: np.ndarray
    """(L, E, T, A) of every action"""
    scores: np.ndarray | None
    """(L, E, P) what each episode says about the model's coefficients; None where it has many"""

    def of_actions(self, logs: Logs) -> np.ndarray:
        """(L, E, T) chance of the action that was taken."""
        taken = np.take_along_axis(self.chances, logs.action[..., None], axis=-1)[..., 0]
        return np.maximum(taken, FLOOR)


def estimate_propensities(
    logs: Logs, method: str = "logistic", cells: Binning | None = None
) -> Estimated:
    """Estimate the logging policy's chances, each episode by a model of the others."""
    if method == "logistic":
        return _logistic(logs)
    if method == "tabular" and cells is not None:
        return _tabular(logs, cells)
    raise unknown_name("propensity model", method, METHODS)


def _folds(logs: Logs) -> np.ndarray:
    return np.arange(logs.shape[1]) % N_FOLDS


def _tabular(logs: Logs, cells: Binning) -> Estimated:
    cell, fold = cells.place(logs.observation), _folds(logs)
    chances = np.zeros((*logs.action.shape, logs.n_actions))
    log = np.arange(len(cell)).reshape(-1, 1, 1)
    for number in range(N_FOLDS):
        use = logs.is_live & (fold != number)[None, :, None]
        counts = count_by_cell(cell, logs.action, use, cells.n_cells, logs.n_actions)
        overall = counts.sum(axis=1, keepdims=True) / np.maximum(
            counts.sum(axis=(1, 2), keepdims=True), 1
        )
        share = (counts + CELL_PRIOR * overall) / (counts.sum(axis=2, keepdims=True) + CELL_PRIOR)
        mine = np.flatnonzero(fold == number)
        chances[:, mine] = share[log, cell[:, mine]]
    return Estimated(chances, None)


def _logistic(logs: Logs) -> Estimated:
    n_logs, n_episodes, n_steps = logs.shape
    basis = make_basis(logs.observation)
    rows = basis.reshape(n_logs, -1, basis.shape[-1])
    taken = (logs.action[..., None] == np.arange(logs.n_actions)).astype(np.float64)
    labels = taken.reshape(n_logs, -1, logs.n_actions)
    fold = _folds(logs)
    chances = np.zeros(taken.shape)
    for number in range(N_FOLDS):
        use = (logs.is_live & (fold != number)[None, :, None]).reshape(n_logs, -1)
        beta = fit_multinomial(rows, labels, use.astype(np.float64))
        mine = np.flatnonzero(fold == number)
        part = basis[:, mine].reshape(n_logs, -1, basis.shape[-1])
        chances[:, mine] = _softmax(part, beta).reshape(n_logs, len(mine), n_steps, -1)
    # The score of episode i: Σ_t x (1{a} - p_a), for all actions but the first.
    left = (taken - chances)[..., 1:] * logs.is_live[..., None]
    scores = np.einsum("letd,leta->leda", basis, left).reshape(n_logs, n_episodes, -1)
    return Estimated(chances, scores)


def fit_multinomial(rows: np.ndarray, labels: np.ndarray, use: np.ndarray) -> np.ndarray:
    """Coefficients (L, D, A - 1) of ridge multinomial logistic regressions, action 0 as reference.

    Newton's method on rows (L, N, D) with labels (L, N, A) one-hot and weights (L, N).
    """
    n_logs, _, size = rows.shape
    n_free = labels.shape[-1] - 1
    penalty = np.r_[1e-6, np.full(size - 1, RIDGE)]
    beta = np.zeros((n_logs, size, n_free))
    for _ in range(N_NEWTON):
        chance = _softmax(rows, beta)[..., 1:]
        left = (labels[..., 1:] - chance) * use[..., None]
        gradient = rows.swapaxes(1, 2) @ left - penalty[:, None] * beta
        curvature = np.zeros((n_logs, n_free, size, n_free, size))
        for j in range(n_free):
            for k in range(n_free):
                pair = use * chance[..., j] * ((j == k) - chance[..., k])
                block = (rows * pair[..., None]).swapaxes(1, 2) @ rows
                curvature[:, j, :, k] = block + (j == k) * np.diag(penalty)
        flat = curvature.reshape(n_logs, n_free * size, n_free * size)
        wanted = gradient.transpose(0, 2, 1).reshape(n_logs, -1, 1)
        step = np.linalg.solve(flat, wanted).reshape(n_logs, n_free, size).transpose(0, 2, 1)
        beta = beta + np.clip(step, -3.0, 3.0)
        if np.abs(step).max() < 1e-6:
            break
    return beta


def _softmax(rows: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Chances (L, N, A); action 0 has score 0."""
    scores = np.concatenate([np.zeros((*rows.shape[:2], 1)), rows @ beta], axis=-1)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


def account_for_estimation(values: np.ndarray, scores: np.ndarray | None) -> np.ndarray:
    """Values (L, E, K) less what the estimated propensities explain of their spread.

    Estimating a propensity takes chance imbalances out of a weighted mean, so intervals that
    treat it as known are too wide; the residual of a regression on the scores has the right
    spread (Hirano, Imbens and Ridder 2003; Lunceford and Davidian 2004).
    """
    if scores is None or scores.shape[-1] * 4 > scores.shape[1]:
        return values
    mean = values.mean(axis=1, keepdims=True)
    centred = scores - scores.mean(axis=1, keepdims=True)
    gram = centred.swapaxes(1, 2) @ centred
    gram = gram + 1e-8 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(gram.shape[-1])
    slope = np.linalg.solve(gram, centred.swapaxes(1, 2) @ (values - mean))
    # Residuals of a fit with P coefficients are too small by √(1 - P / E).
    widen = np.sqrt(values.shape[1] / (values.shape[1] - scores.shape[-1]))
    return mean + widen * (values - mean - centred @ slope)
