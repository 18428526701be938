"""Fitted-Q evaluation: the target's values, regressed backwards from the last step.

Le, Voloshin and Yue (2019). The regression is linear in a basis of the observation, one set of
coefficients per action, pooled over the steps of an episode because a domain's process does not
change with the step. A linear fit has implicit weights (Duan and Wang 2020): the estimate is

    mean V_0(x_0) + Σ ω (r + γ V(x') - Q(x, a)),

with ω from the regression alone. They give the episodes' contributions, of which an interval is
made, and an effective sample size, without any propensity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.evaluation.off_policy.logs import Logs
from parity311.evaluation.off_policy.weights import effective_size

RIDGE = 1.0
"""Pseudo-observations that hold each coefficient but the intercept towards 0."""
MAX_LEVELS = 8
"""Values of a feature up to which each has its own coefficient."""
MAX_LEVERAGE = 0.9


class QFit(NamedTuple):
    """Coefficients of Q_t by step, and what their regressions were made of."""

    theta: list[np.ndarray]
    """T arrays (L, A, D, K)"""
    inverse_last: np.ndarray
    """(L, A, D, D) of the regression of the last step, which has no next state"""
    inverse: np.ndarray
    """(L, A, D, D) of the others"""


def make_basis(observation: np.ndarray) -> np.ndarray:
    """Functions of the observation (L, E, T, F) that values are linear in, (L, E, T, D).

    An intercept, an indicator of every value where a feature has few, else the feature itself and
    its square, standardised over all logs.
    """
    flat = observation.reshape(-1, observation.shape[-1])
    columns = [np.ones(len(flat))]
    for values in flat.T:
        distinct = np.unique(values) if len(values) <= 20_000 else np.unique(values[:20_000])
        if len(distinct) < 2:
            continue
        if len(distinct) <= MAX_LEVELS:
            columns += [(np.abs(values - level) < 1e-6) for level in distinct[1:]]
        else:
            scaled = (values - values.mean()) / max(values.std(), 1e-9)
            columns += [scaled, scaled**2 - 1.0]
    basis = np.stack(columns, axis=-1).astype(np.float64)
    return basis.reshape(*observation.shape[:-1], -1)


def indicator_basis(cell: np.ndarray) -> np.ndarray:
    """An intercept and one indicator a cell, (L, E, T, 1 + occupied cells)."""
    seen, place = np.unique(cell, return_inverse=True)
    indicator = place.reshape(*cell.shape, 1) == np.arange(len(seen))
    ones = np.ones((*cell.shape, 1))
    return np.concatenate([ones, indicator], axis=-1).astype(np.float64)


def _rows(values: np.ndarray) -> np.ndarray:
    """(L, E, T, …) -> (L, E·T, …)."""
    return values.reshape(len(values), -1, *values.shape[3:])


class ActionRegression(NamedTuple):
    """A regression per action on the same rows, ready for many goals."""

    masked: list[np.ndarray]
    """A arrays (L, D, N): the rows of each action, transposed; 0 elsewhere"""
    inverse: np.ndarray
    """(L, A, D, D) of the penalised Gram matrices"""

    def fit(self, goal: np.ndarray) -> np.ndarray:
        """Coefficients (L, A, D, K) of goals (L, N, K)."""
        found = [self.inverse[:, a] @ (mine @ goal) for a, mine in enumerate(self.masked)]
        return np.stack(found, axis=1)


def _prepare(
    basis: np.ndarray, action: np.ndarray, weight: np.ndarray, n_actions: int
) -> ActionRegression:
    """Regressions on rows (L, E, S, D) with weights (L, E, S)."""
    rows, taken, use = _rows(basis), _rows(action), _rows(weight)
    penalty = np.diag(np.r_[1e-6, np.full(basis.shape[-1] - 1, RIDGE)])
    flipped = rows.swapaxes(1, 2)
    masked = [flipped * ((taken == a) * use)[:, None] for a in range(n_actions)]
    grams = np.stack([mine @ rows + penalty for mine in masked], axis=1)
    return ActionRegression(masked, np.linalg.inv(grams))


def action_values(basis: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Q (L, N, A, K) of rows (L, N, D)."""
    n_logs, n_actions, size, n_outcomes = theta.shape
    flat = theta.transpose(0, 2, 1, 3).reshape(n_logs, size, n_actions * n_outcomes)
    return (basis @ flat).reshape(n_logs, -1, n_actions, n_outcomes)


def state_values(basis: np.ndarray, theta: np.ndarray, target: np.ndarray) -> np.ndarray:
    """V (L, N, K): action values at the target's chances (L, N, A)."""
    return (action_values(basis, theta) * target[..., None]).sum(axis=2)


def fit_values(
    logs: Logs, basis: np.ndarray, target: np.ndarray, weight: np.ndarray, discount: float
) -> QFit:
    """Fit Q_t for every step; `weight` (L, E) leaves episodes out where it is 0."""
    n_steps = logs.shape[2]
    use = logs.is_live * weight[..., None]
    whole = _prepare(basis, logs.action, use, logs.n_actions)
    last = whole.fit(_rows(logs.outcome))
    if n_steps == 1:
        return QFit([last], whole.inverse, whole.inverse)
    early = slice(None, -1)
    going = _prepare(basis[:, :, early], logs.action[:, :, early], use[:, :, early], logs.n_actions)
    after, chances = _rows(basis[:, :, 1:]), _rows(target[:, :, 1:])
    goes_on = _rows(logs.is_live[:, :, 1:])[..., None]
    reward = _rows(logs.outcome[:, :, early])
    theta = [last]
    for _ in range(n_steps - 1):
        goal = reward + discount * goes_on * state_values(after, theta[0], chances)
        theta.insert(0, going.fit(goal))
    return QFit(theta, whole.inverse, going.inverse)


def fitted_q(
    logs: Logs, basis: np.ndarray, target: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values (L, E, K) that episodes contribute, and the effective number of decisions (L,)."""
    n_logs, n_episodes, n_steps = logs.shape
    fit = fit_values(logs, basis, target, np.ones((n_logs, n_episodes)), discount)
    first = target[:, :, 0, :, None] * basis[:, :, 0, None, :]
    reach = first.mean(axis=1)
    values = state_values(basis[:, :, 0], fit.theta[0], target[:, :, 0])
    sizes = []
    for step in range(n_steps):
        is_last = step == n_steps - 1
        inverse = fit.inverse_last if is_last else fit.inverse
        part = slice(None) if is_last else slice(None, -1)
        weight, leverage = _implicit_weights(logs, basis, inverse, reach, part)
        error = _temporal_error(logs, basis, target, fit.theta, step, discount, part)
        scaled = weight / (1.0 - np.minimum(leverage, MAX_LEVERAGE))
        values = values + (scaled[..., None] * error).sum(axis=2)
        sizes.append(effective_size(weight.reshape(n_logs, -1)))
        if not is_last:
            reach = discount * _carry(logs, basis, target, weight)
    return values, np.min(sizes, axis=0)


def _implicit_weights(
    logs: Logs, basis: np.ndarray, inverse: np.ndarray, reach: np.ndarray, part: slice
) -> tuple[np.ndarray, np.ndarray]:
    """ω and leverage of every decision in the regression of one step, (L, E, S) each.

    `reach` (L, A, D) is where the target is at that step, in the basis.
    """
    here, action = basis[:, :, part], logs.action[:, :, part]
    live = logs.is_live[:, :, part]
    pull = np.einsum("lade,lae->lad", inverse, reach) * logs.shape[1]
    rows = _rows(here)
    all_weights = (rows @ pull.swapaxes(1, 2)).reshape(*action.shape, logs.n_actions)
    weight = np.take_along_axis(all_weights, action[..., None], axis=-1)[..., 0] * live
    leverage = np.zeros(action.shape)
    for a in range(logs.n_actions):
        own = ((rows @ inverse[:, a]) * rows).sum(axis=-1).reshape(action.shape)
        leverage = np.where(action == a, own, leverage)
    return weight, leverage


def _temporal_error(
    logs: Logs,
    basis: np.ndarray,
    target: np.ndarray,
    theta: list[np.ndarray],
    step: int,
    discount: float,
    part: slice,
) -> np.ndarray:
    """R + γ V_{t+1}(x') - Q_t(x, a) of every decision, (L, E, S, K)."""
    action = logs.action[:, :, part]
    shape = (*action.shape, logs.n_actions, logs.outcome.shape[-1])
    q = action_values(_rows(basis[:, :, part]), theta[step]).reshape(shape)
    own = np.take_along_axis(q, action[..., None, None], axis=3)[..., 0, :]
    goal = logs.outcome[:, :, part]
    if step < len(theta) - 1:
        after = state_values(_rows(basis[:, :, 1:]), theta[step + 1], _rows(target[:, :, 1:]))
        after = after.reshape(*action.shape, -1) * logs.is_live[:, :, 1:, None]
        goal = goal + discount * after
    return goal - own


def _carry(logs: Logs, basis: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Where the target is one step later, (L, A, D)."""
    going = _rows((weight * logs.is_live[:, :, 1:])[..., None] * target[:, :, 1:])
    return going.swapaxes(1, 2) @ _rows(basis[:, :, 1:]) / logs.shape[1]
