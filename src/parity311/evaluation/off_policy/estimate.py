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
CHECK = "doubly_robust"
"""What models are held against: it corrects a model by what happened, wherever the log can tell."""
MIN_EFFECTIVE = 50.0
"""Effective episodes below which nothing is answered: the interval of a skewed mean of few is too
short. Chosen on logs of synthetic city 831."""
MIN_SPREAD = 20.0
"""Effective episodes that the spread of the weights must rest on, (Σw²)² / Σw⁴. An interval is made
of a spread, and over many decisions a few weights make all of it: with 50 effective episodes of 200
the spread rests on eight. Where weights are all alike or none, both numbers are the same."""
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
    min_spread: float = MIN_SPREAD
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
    alone: Intervals
    """of a model, without its check's; of others the same"""
    effective_size: np.ndarray
    """of what bears on the outcome: an episode without anything of a stratum says nothing of it"""
    is_refused: np.ndarray
    """bool"""


@dataclass(frozen=True)
class Evaluation:
    """All estimators of one target policy on its logs."""

    estimates: dict[str, ValueEstimate]
    support: Support
    options: Options
    propensity: np.ndarray
    """(L, E, T) as used"""
    n_effective: np.ndarray
    """(L, K) effective episodes that bear on an outcome"""
    n_spread: np.ndarray
    """(L, K) effective episodes that the spread of their weights rests on; a refusal that is not
    support's is by one of the two"""
    n_answerable: np.ndarray
    """(L,) decisions of an episode, from its first, over which the weights leave enough"""

    def reason(self, name: str, log: int = 0, outcome: int = 0) -> str:
        """Why an estimator refuses a log; empty where it does not."""
        lacking = self.support.reason(log)
        if lacking:
            return lacking
        if not self.estimates[name].is_refused[log, outcome]:
            return ""
        n_steps = self.propensity.shape[2]
        n_effective, n_spread = self.n_effective[log, outcome], self.n_spread[log, outcome]
        against = " to hold a model against" if name in MODELLED else ""
        needed = self.options.min_effective
        told = f"the weights leave {n_effective:.0f} effective episodes{against}"
        if n_effective >= needed:
            needed = self.options.min_spread
            told += f", whose spread rests on {n_spread:.0f}"
        told += f"; at least {needed:.0f} are needed"
        if n_steps > 1:
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
    tells = (logs.outcome != 0.0).any(axis=2)
    # The last step has the widest weights: what an episode's end rests on.
    telling = cumulative[..., -1, None] * tells
    episodes = weights.effective_size(telling, axis=1)
    spread = weights.effective_size(telling**2, axis=1)
    values, sizes = _contributions(logs, target, cumulative, options)
    intervals = {}
    for name, contributed in values.items():
        if name in WEIGHTED:
            contributed = account_for_estimation(contributed, scores)
        intervals[name] = studentised(contributed, seed=options.seed)
    is_enough = (episodes >= options.min_effective) & (spread >= options.min_spread)
    is_refused = support.is_refused[:, None] | ~is_enough
    estimates = {
        name: ValueEstimate(
            name,
            _hold_both(intervals[name], intervals[CHECK]) if name in MODELLED else intervals[name],
            intervals[name],
            sizes.get(name, episodes),
            is_refused,
        )
        for name in options.estimators
    }
    by_step = weights.effective_size(cumulative, axis=1) >= options.min_effective
    by_step &= weights.effective_size(cumulative**2, axis=1) >= options.min_spread
    n_answerable = np.cumprod(by_step, axis=-1).sum(axis=-1)
    return Evaluation(estimates, support, options, propensity, episodes, spread, n_answerable)


def _hold_both(model: Intervals, check: Intervals) -> Intervals:
    """A model's value, in an interval that also holds its check's.

    What a model gets wrong shows in no residual of its own, and adds up from step to step.
    """
    lower, upper = np.minimum(model.lower, check.lower), np.maximum(model.upper, check.upper)
    return model._replace(lower=lower, upper=upper)


def _contributions(
    logs: Logs, target: np.ndarray, cumulative: np.ndarray, options: Options
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Values (L, E, K) by estimator, of models' checks too, and models' effective decisions."""
    values, sizes = {}, {}
    gamma, wanted = options.discount, set(options.estimators)
    if wanted & set(MODELLED):
        wanted.add(CHECK)
    for name in WEIGHTED:
        if name in wanted:
            values[name] = getattr(weights, name)(logs, cumulative, gamma)
    n_telling = (logs.outcome != 0.0).sum(axis=(1, 2))

    def keep_model(name: str, found: tuple[np.ndarray, np.ndarray]) -> None:
        values[name] = found[0]
        sizes[name] = np.minimum(found[1][:, None], n_telling)

    if "direct" in wanted:
        keep_model("direct", direct(logs, fine_cells(logs, target), target, gamma))
    if {"fitted_q", *ROBUST} & wanted:
        basis = make_basis(logs.observation)
        if "fitted_q" in wanted:
            keep_model("fitted_q", fitted_q(logs, basis, target, gamma))
        if set(ROBUST) & wanted:
            q, v = cross_fitted_values(logs, basis, target, gamma)
            for name, make in zip(ROBUST, (doubly_robust, weighted_doubly_robust), strict=True):
                values[name] = make(logs, cumulative, q, v, gamma)
    return values, sizes


def _join(parts: list[Evaluation]) -> Evaluation:
    """Put chunks of logs together."""
    first = parts[0]
    if len(parts) == 1:
        return first

    def over(pick) -> np.ndarray:
        return np.concatenate([pick(part) for part in parts])

    def joined(pick) -> Intervals:
        return Intervals(
            *(over(lambda part, i=i: pick(part)[i]) for i in range(len(Intervals._fields)))
        )

    estimates = {
        name: ValueEstimate(
            name,
            joined(lambda part, n=name: part.estimates[n].intervals),
            joined(lambda part, n=name: part.estimates[n].alone),
            over(lambda part, n=name: part.estimates[n].effective_size),
            over(lambda part, n=name: part.estimates[n].is_refused),
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
        over(lambda part: part.n_effective),
        over(lambda part: part.n_spread),
        over(lambda part: part.n_answerable),
    )
