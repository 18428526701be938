"""Every estimator on the same logs: value, interval, effective sample size, or a refusal.

The direct method: a table of what each action earns and leads to, and the target played in it.

The logged decisions make a model over kinds of case (`cells`): mean outcome and next cell by cell
and action, leaning on the action's mean where decisions are few. The target's value in that model
needs no propensity, and is as good as the cells are: what they leave out biases it.

Doubly robust estimates: fitted values where they are right, weights where they are not.

Sequential (Jiang and Li 2016) and self-normalised (Thomas and Brunskill 2016, "weighted doubly
robust"). Values are fitted on the other half of the episodes (cross-fitting), so that an episode
never corrects a value it was used to fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.errors import InputError, unknown_name
from parity311.evaluation.off_policy import weights
from parity311.evaluation.off_policy.cells import (
    MAX_CELLS,
    N_BINS,
    Binning,
    choose_cells,
    outcome_thirds,
)
from parity311.evaluation.off_policy.fitted_q import (
    action_values,
    fit_values,
    fitted_q,
    indicator_basis,
    make_basis,
)
from parity311.evaluation.off_policy.logs import Logs
from parity311.evaluation.off_policy.propensity import (
    account_for_estimation,
    estimate_propensities,
)
from parity311.evaluation.off_policy.support import MIN_COUNT, Support, measure_support
from parity311.evaluation.off_policy.weights import discounts, linearise
from parity311.resampling import Intervals, studentised

N_FOLDS = 2


def cross_fitted_action_values(
    logs: Logs, basis: np.ndarray, target: np.ndarray, discount: float
) -> np.ndarray:
    """Q of every action at every step of every episode, (L, E, T, A, K), fitted on the others."""
    n_logs, n_episodes, n_steps = logs.shape
    fold = np.arange(n_episodes) % N_FOLDS
    q = np.zeros((*logs.action.shape, logs.n_actions, logs.outcome.shape[-1]))
    for log in range(n_logs):
        for number in range(N_FOLDS):
            others = (fold != number).astype(np.float64)
            fit = fit_values(logs, log, basis, target, others, discount)
            mine = np.flatnonzero(fold == number)
            for step in range(n_steps):
                q[log, mine, step] = action_values(basis[log, mine, step], fit.theta[step])
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


def direct(
    logs: Logs, cells: Binning, target: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values (L, E, K) that episodes contribute, and the effective number of decisions (L,).

    Certainty equivalence in a table is fitted-Q evaluation with one indicator a cell.
    """
    basis = indicator_basis(cells.place(logs.observation))
    return fitted_q(logs, basis, target, discount)


WEIGHTED = ("ordinary", "per_decision", "self_normalised", "self_normalised_per_decision")
ROBUST = ("doubly_robust", "weighted_doubly_robust")
MODELLED = ("direct", "fitted_q")
ESTIMATORS = (*WEIGHTED, *MODELLED, *ROBUST)
MIN_EFFECTIVE = 30.0
"""Effective episodes (for models: decisions) below which an estimator refuses (assumed: the
interval of a skewed mean of fewer is not to be trusted; `validate` measures it)."""
MAX_SHARE = 0.2
"""Share of all weight that one episode may have (assumed: with more, the estimate is that episode;
`validate` measures it)."""
MOST_MODELLED_STEPS = 6
"""Decisions an episode up to which a model gives an interval. Its error adds up from step to step
and shows in no residual: over the 87 decisions of a snad episode intervals of `fitted_q` held the
value of another rule in a quarter of the logs, those of `direct` in none."""
TABLE_COUNT = 2
TABLE_BINS = 8
TABLE_CELLS = 48
"""Decisions per cell and action, bins of a feature and cells of the direct method's table: finer
than for support, because the table leans on the action's mean where decisions are few."""
CHUNK = 20
"""Logs estimated at a time: arrays then stay in memory that is near."""


@dataclass(frozen=True)
class Options:
    """How to estimate."""

    propensities: str = "logged"
    """logged, or how they are estimated: logistic or tabular"""
    discount: float = 1.0
    """γ of the value; 1 adds an episode's outcomes up"""
    support_min_count: int = MIN_COUNT
    min_effective: float = MIN_EFFECTIVE
    estimators: tuple[str, ...] = ESTIMATORS
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.estimators:
            if name not in ESTIMATORS:
                raise unknown_name("estimator", name, ESTIMATORS)
        if not 0.0 < self.discount <= 1.0:
            raise InputError(f"A discount of {self.discount} was given; it must be in (0, 1].")
        if self.support_min_count < 1:
            raise InputError(
                f"support_min_count {self.support_min_count} was given; it must be at least 1."
            )


@dataclass(frozen=True)
class ValueEstimate:
    """One estimator on every log; arrays (L, K)."""

    name: str
    intervals: Intervals
    effective_size: np.ndarray
    """of what bears on the outcome: an episode without anything of a stratum says nothing of it"""
    is_refused: np.ndarray
    """bool"""
    largest_share: np.ndarray
    """of all weight, what the heaviest episode has; 0 for models"""


@dataclass(frozen=True)
class Evaluation:
    """All estimators of one target policy on its logs."""

    estimates: dict[str, ValueEstimate]
    support: Support
    options: Options
    propensity: np.ndarray
    """(L, E, T) as used"""
    n_answerable: np.ndarray
    """(L,) decisions of an episode, from its first, over which the weights leave enough"""

    def reason(self, name: str, log: int = 0, outcome: int = 0) -> str:
        """Why an estimator refuses a log; empty where it does not."""
        lacking = self.support.reason(log)
        if lacking:
            return lacking
        estimate, n_steps = self.estimates[name], self.propensity.shape[2]
        if not estimate.is_refused[log, outcome]:
            return ""
        if name in MODELLED and n_steps > MOST_MODELLED_STEPS:
            return (
                f"episodes have {n_steps} decisions; what a model gets wrong adds up unseen, so "
                f"its interval is given for at most {MOST_MODELLED_STEPS}"
            )
        size = estimate.effective_size[log, outcome]
        if not size < self.options.min_effective:
            return (
                f"one episode has {estimate.largest_share[log, outcome]:.0%} of all weight; at "
                f"most {MAX_SHARE:.0%} is allowed"
            )
        unit = "decisions" if name in MODELLED else "episodes"
        told = (
            f"the weights leave {size:.0f} effective {unit}; at least "
            f"{self.options.min_effective:.0f} are needed"
        )
        if n_steps > 1 and name not in MODELLED:
            told += (
                f"; they are there for the first {self.n_answerable[log]} of {n_steps} decisions"
            )
        return told


def fine_cells(logs: Logs, target: np.ndarray) -> Binning:
    """Cells of a table of outcomes: as many as a few decisions each can fill."""
    return cells_of(logs, target, TABLE_COUNT, TABLE_BINS, TABLE_CELLS)


def cells_of(
    logs: Logs,
    target: np.ndarray,
    min_count: int,
    n_bins: int = N_BINS,
    max_cells: int = MAX_CELLS,
) -> Binning:
    """Cells chosen on the first log, such that most actions are seen `min_count` times in each."""
    live = logs.is_live[0].ravel()
    n_features, n_actions = logs.observation.shape[-1], logs.n_actions
    rows = logs.observation[0].reshape(-1, n_features)[live]
    labels = (
        logs.action[0].ravel()[live],
        target[0].reshape(-1, n_actions).argmax(axis=-1)[live],
        outcome_thirds(logs.outcome[0, ..., 0].ravel()[live]),
    )
    return choose_cells(
        rows,
        labels,
        n_actions=n_actions,
        min_count=min_count,
        n_bins=n_bins,
        max_cells=max_cells,
    )


def evaluate_policy(
    logs: Logs, target: np.ndarray, options: Options | None = None, cells: Binning | None = None
) -> Evaluation:
    """Estimate a target policy's value on every log.

    Parameters
    ----------
    target
        (L, E, T, A) chances of the target policy at what was seen.
    cells
        Kinds of case; chosen on the first log if not given.
    """
    chosen = options or Options()
    if target.shape != (*logs.action.shape, logs.n_actions):
        raise InputError(
            f"The target's chances have shape {target.shape}; this log needs "
            f"{(*logs.action.shape, logs.n_actions)}: one chance a decision and action."
        )
    found = cells or cells_of(logs, target, chosen.support_min_count)
    parts = [
        _evaluate_chunk(logs.take(slice(i, i + CHUNK)), target[i : i + CHUNK], chosen, found)
        for i in range(0, logs.shape[0], CHUNK)
    ]
    return _join(parts)


def _evaluate_chunk(logs: Logs, target: np.ndarray, options: Options, cells: Binning) -> Evaluation:
    propensity, scores = logs.propensity, None
    if options.propensities != "logged":
        estimated = estimate_propensities(logs, options.propensities, cells)
        propensity, scores = estimated.of_actions(logs), estimated.scores
    elif not logs.has_propensities:
        raise InputError(
            "The log does not say with what chance its decisions were made; estimate it with "
            "--propensities logistic or tabular."
        )
    ratios = weights.decision_ratios(logs, target, propensity)
    cumulative = weights.cumulative_weights(ratios)
    support = measure_support(logs, cells, target, ratios, options.support_min_count)
    values, sizes = _contributions(logs, target, cumulative, options)
    share = _largest_share(logs, cumulative)
    too_long = logs.shape[2] > MOST_MODELLED_STEPS
    estimates = {}
    for name in options.estimators:
        adjusted = values[name]
        if name in WEIGHTED:
            adjusted = account_for_estimation(adjusted, scores)
        estimates[name] = ValueEstimate(
            name,
            studentised(adjusted, seed=options.seed),
            sizes[name],
            support.is_refused[:, None]
            | ~(sizes[name] >= options.min_effective)
            | (too_long if name in MODELLED else share > MAX_SHARE),
            np.zeros_like(share) if name in MODELLED else share,
        )
    by_step = weights.effective_size(cumulative, axis=1) >= options.min_effective
    n_answerable = np.cumprod(by_step, axis=-1).sum(axis=-1)
    return Evaluation(estimates, support, options, propensity, n_answerable)


def _largest_share(logs: Logs, cumulative: np.ndarray) -> np.ndarray:
    """Share of all weight that the heaviest episode has at the end, by outcome, (L, K)."""
    weight = cumulative[..., -1, None] * (logs.outcome != 0.0).any(axis=2)
    total = weight.sum(axis=1)
    return np.where(total > 0, weight.max(axis=1) / np.where(total > 0, total, 1.0), 1.0)


def _contributions(
    logs: Logs, target: np.ndarray, cumulative: np.ndarray, options: Options
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Values (L, E, K) and effective sizes (L, K) by estimator."""
    values, sizes = {}, {}
    gamma, wanted = options.discount, options.estimators
    tells = (logs.outcome != 0.0).any(axis=2)
    # The last step has the widest weights: what an episode's end rests on.
    episodes = weights.effective_size(cumulative[..., -1, None] * tells, axis=1)
    for name in WEIGHTED:
        if name in wanted:
            values[name] = getattr(weights, name)(logs, cumulative, gamma)
            sizes[name] = episodes
    n_telling = (logs.outcome != 0.0).sum(axis=(1, 2))

    def keep_model(name: str, found: tuple[np.ndarray, np.ndarray]) -> None:
        values[name] = found[0]
        sizes[name] = np.minimum(found[1][:, None], n_telling)

    if "direct" in wanted:
        keep_model("direct", direct(logs, fine_cells(logs, target), target, gamma))
    if {"fitted_q", *ROBUST} & set(wanted):
        basis = make_basis(logs.observation)
        if "fitted_q" in wanted:
            keep_model("fitted_q", fitted_q(logs, basis, target, gamma))
        if set(ROBUST) & set(wanted):
            q, v = cross_fitted_values(logs, basis, target, gamma)
            for name, make in zip(ROBUST, (doubly_robust, weighted_doubly_robust), strict=True):
                values[name] = make(logs, cumulative, q, v, gamma)
                sizes[name] = episodes
    return values, sizes


def _join(parts: list[Evaluation]) -> Evaluation:
    """Put chunks of logs together."""
    first = parts[0]
    if len(parts) == 1:
        return first

    def over(pick) -> np.ndarray:
        return np.concatenate([pick(part) for part in parts])

    estimates = {
        name: ValueEstimate(
            name,
            Intervals(
                *(
                    over(lambda part, n=name, i=i: part.estimates[n].intervals[i])
                    for i in range(len(Intervals._fields))
                )
            ),
            over(lambda part, n=name: part.estimates[n].effective_size),
            over(lambda part, n=name: part.estimates[n].is_refused),
            over(lambda part, n=name: part.estimates[n].largest_share),
        )
        for name in first.estimates
    }
    support = Support(
        over(lambda part: part.support.share),
        over(lambda part: part.support.missing_mass),
        over(lambda part: part.support.mass_error),
        first.support.min_count,
    )
    return Evaluation(
        estimates,
        support,
        first.options,
        over(lambda part: part.propensity),
        over(lambda part: part.n_answerable),
    )
