"""Fitted-Q evaluation: the target's values, regressed backwards from the last step.

Le, Voloshin and Yue (2019). The regression is linear in a basis of the observation, one set of
coefficients per action, pooled over the steps of an episode because a domain's process does not
change with the step. A linear fit has implicit weights (Duan and Wang 2020): the estimate is

    mean V_0(x_0) + Σ ω (r + γ V(x') - Q(x, a)),

with ω from the regression alone. They give the episodes' contributions, of which an interval is
made, and an effective sample size, without any propensity.

Everything a step needs of the decisions are sums over them, taken once: an episode of 365 steps
costs hardly more than one of five.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.evaluation.off_policy.logs import Logs

RIDGE = 1.0
"""Pseudo-observations that hold each coefficient but the intercept towards 0."""
MAX_LEVELS = 8
"""Values of a feature up to which each has its own coefficient."""
MAX_LEVERAGE = 0.9


class Sums(NamedTuple):
    """What the regressions of every step are made of, over the decisions of one log."""

    inverse: np.ndarray
    """(A, D, D) of the penalised Gram matrices"""
    gram: np.ndarray
    """(A, D, D) without the penalty"""
    total: np.ndarray
    """(A, D) sum of the basis"""
    reward: np.ndarray
    """(A, D, K) basis times outcome"""
    onward: np.ndarray
    """(A, D, A·D) basis times where the target is one step later"""


class QFit(NamedTuple):
    """Coefficients of Q_t by step, and what their regressions were made of, of one log."""

    theta: np.ndarray
    """(T, A, D, K)"""
    last: Sums
    """of the last step, which has no next state"""
    going: Sums
    """of the others"""


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


class DecisionRows(NamedTuple):
    """Decisions of one log as rows, episode by episode; (N, …) each."""

    basis: np.ndarray
    action: np.ndarray
    outcome: np.ndarray
    onward: np.ndarray
    """(N, A·D) where the target is one step later: its chances times the next basis"""
    weight: np.ndarray
    """(N,) 0 where the decision is left out"""


def _decisions(
    logs: Logs, log: int, basis: np.ndarray, target: np.ndarray, use: np.ndarray, is_last: bool
) -> DecisionRows:
    """All decisions for the last step's regression, those with a next step for the others'."""
    part = slice(None) if is_last else slice(None, -1)
    flat = lambda values: values.reshape(-1, *values.shape[2:])  # noqa: E731
    here, size = basis[log][:, part], basis.shape[-1]
    n = here.shape[0] * here.shape[1]
    onward = np.zeros((n, 0))
    if not is_last:
        going = target[log][:, 1:] * logs.is_live[log][:, 1:, None]
        onward = (going[..., None] * basis[log][:, 1:, None, :]).reshape(n, -1)
    return DecisionRows(
        here.reshape(n, size),
        flat(logs.action[log][:, part]),
        flat(logs.outcome[log][:, part]),
        onward,
        flat(use[:, part]),
    )


def _sum(rows: DecisionRows, n_actions: int) -> Sums:
    size = rows.basis.shape[-1]
    penalty = np.diag(np.r_[1e-6, np.full(size - 1, RIDGE)])
    grams, totals, rewards, onwards = [], [], [], []
    for a in range(n_actions):
        mine = (rows.action == a) & (rows.weight > 0)
        here = rows.basis[mine]
        flipped = (here * rows.weight[mine, None]).T
        grams.append(flipped @ here)
        totals.append(flipped.sum(axis=1))
        rewards.append(flipped @ rows.outcome[mine])
        onwards.append(flipped @ rows.onward[mine])
    gram = np.stack(grams)
    return Sums(
        np.linalg.inv(gram + penalty),
        gram,
        np.stack(totals),
        np.stack(rewards),
        np.stack(onwards),
    )


def action_values(basis: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Q (N, A, K) of rows (N, D) at coefficients (A, D, K)."""
    n_actions, size, n_outcomes = theta.shape
    flat = theta.transpose(1, 0, 2).reshape(size, -1)
    return (basis @ flat).reshape(-1, n_actions, n_outcomes)


def fit_values(
    logs: Logs, log: int, basis: np.ndarray, target: np.ndarray, weight: np.ndarray, discount: float
) -> QFit:
    """Fit Q_t of one log for every step; `weight` (E,) leaves episodes out where it is 0."""
    use = logs.is_live[log] * weight[:, None]
    last = _sum(_decisions(logs, log, basis, target, use, True), logs.n_actions)
    going, theta = last, [last.inverse @ last.reward]
    if logs.shape[2] > 1:
        going = _sum(_decisions(logs, log, basis, target, use, False), logs.n_actions)
    for _ in range(logs.shape[2] - 1):
        after = theta[-1].reshape(-1, theta[-1].shape[-1])
        theta.append(going.inverse @ (going.reward + discount * going.onward @ after))
    return QFit(np.stack(theta[::-1]), last, going)


def fitted_q(
    logs: Logs, basis: np.ndarray, target: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values (L, E, K) that episodes contribute, and the effective number of decisions (L,)."""
    found = [_of_log(logs, log, basis, target, discount) for log in range(logs.shape[0])]
    values, sizes = zip(*found, strict=True)
    return np.stack(values), np.array(sizes)


def _of_log(
    logs: Logs, log: int, basis: np.ndarray, target: np.ndarray, discount: float
) -> tuple[np.ndarray, float]:
    n_episodes = logs.shape[1]
    fit = fit_values(logs, log, basis, target, np.ones(n_episodes), discount)
    first = target[log][:, 0, :, None] * basis[log][:, 0, None, :]
    pulls, sizes = [], []
    reach = first.mean(axis=0)
    for step in range(logs.shape[2]):
        sums = fit.last if step == logs.shape[2] - 1 else fit.going
        # ω of a decision is its basis times the pull of its action.
        pull = np.einsum("ade,ae->ad", sums.inverse, reach) * n_episodes
        pulls.append(pull)
        sizes.append(_size(pull, sums))
        if sums.onward.shape[-1]:
            reach = discount * np.einsum("ad,ade->e", pull, sums.onward).reshape(pull.shape)
            reach = reach / n_episodes
    values = (first[..., None] * fit.theta[0]).sum(axis=(1, 2))
    use = logs.is_live[log].astype(np.float64)
    rows = _decisions(logs, log, basis, target, use, True)
    values = values + _corrections(
        rows, n_episodes, fit.last, pulls[-1:], fit.theta[-1:], None, discount
    )
    if logs.shape[2] > 1:
        rows = _decisions(logs, log, basis, target, use, False)
        theta, after = fit.theta[:-1], fit.theta[1:]
        values = values + _corrections(
            rows, n_episodes, fit.going, pulls[:-1], theta, after, discount
        )
    return values, float(min(sizes))


def _size(pull: np.ndarray, sums: Sums) -> float:
    """Kish's effective number of the decisions' weights ω at one step."""
    total = float((pull * sums.total).sum())
    squares = float(np.einsum("ad,ade,ae->", pull, sums.gram, pull))
    return total**2 / squares if squares > 0 else 0.0


def _corrections(
    rows: DecisionRows,
    n_episodes: int,
    sums: Sums,
    pulls: list[np.ndarray],
    theta: np.ndarray,
    after: np.ndarray | None,
    discount: float,
) -> np.ndarray:
    """Σ_t ω_t (r + γ V_{t+1}(x') - Q_t(x, a)) by episode, (E, K).

    `theta` and `after` (S, A, D, K) are the coefficients of the steps and of those that follow.
    """
    n_steps, n_actions, _, n_outcomes = theta.shape
    found = np.zeros(rows.outcome.shape)
    pull = np.stack(pulls)
    for a in range(n_actions):
        mine = (rows.action == a) & (rows.weight > 0)
        here, onward = rows.basis[mine], rows.onward[mine]
        leverage = ((here @ sums.inverse[a]) * here).sum(axis=-1)
        scale = 1.0 / (1.0 - np.minimum(leverage, MAX_LEVERAGE))
        error = (here @ pull[:, a].sum(axis=0))[:, None] * rows.outcome[mine]
        for k in range(n_outcomes):
            own = pull[:, a].T @ theta[:, a, :, k]
            error[:, k] -= ((here @ own) * here).sum(axis=-1)
            if after is not None:
                next_one = pull[:, a].T @ after[..., k].reshape(n_steps, -1)
                error[:, k] += discount * ((here @ next_one) * onward).sum(axis=-1)
        found[mine] = scale[:, None] * error
    return found.reshape(n_episodes, -1, n_outcomes).sum(axis=1)
