"""Calibrated chances of being actionable, from labelled cases: what the simple rules rank by."""

from __future__ import annotations

import numpy as np

from parity311.engines.heuristics import CaseTable, cell_index
from parity311.errors import EstimationError

RIDGE = 1.0
"""Penalty of the logistic fit: one unit-variance pseudo-observation a coefficient."""

CELL_PRIOR = 20.0
"""Cases the logistic fit counts for in a cell of its own (assumed; errs on the smooth side)."""


def fit_logistic(
    features: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Coefficients (1 + n_features,) of a ridge logistic regression, intercept first.

    Newton's method; the intercept is not penalised. `weights` (n,) count cases more than once.
    """
    if labels.size == 0 or labels.min() == labels.max():
        if labels.size == 0:
            raise EstimationError(
                "No case has an inspection of a known day with a result, so nothing tells what "
                "inspectors find; give days and results of inspections."
            )
        raise EstimationError(
            f"All {labels.size} labelled cases have the same outcome; a score needs both, give "
            "more records."
        )
    count = np.ones(len(labels)) if weights is None else weights
    design = np.column_stack([np.ones(len(labels)), features]).astype(np.float64)
    penalty = np.diag(np.r_[1e-6, np.full(features.shape[1], RIDGE)])
    mean = np.average(labels, weights=count)
    beta = np.zeros(design.shape[1])
    beta[0] = np.log(mean / (1 - mean))
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (count * (labels - chance)) - penalty @ beta
        curvature = (design * (count * chance * (1 - chance))[:, None]).T @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        beta += step
        if np.abs(step).max() < 1e-8:
            break
    return beta


def predict(beta: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Chance of each case under `fit_logistic`."""
    return 1.0 / (1.0 + np.exp(-(beta[0] + features @ beta[1:])))


def one_hot(features: np.ndarray, levels: tuple[int, ...]) -> np.ndarray:
    """Indicators of every value but the first, so that no feature need act in a straight line."""
    values = np.rint(features * (np.asarray(levels) - 1)).astype(np.int64)
    columns = [values[:, [i]] == np.arange(1, n) for i, n in enumerate(levels)]
    return np.concatenate(columns, axis=1).astype(np.float64)


def all_cells(levels: tuple[int, ...]) -> np.ndarray:
    """Every combination of feature values, (product of levels, n_features), in cell order."""
    grid = np.stack(np.unravel_index(np.arange(np.prod(levels)), levels), axis=1)
    return grid / np.maximum(np.asarray(levels) - 1, 1)


def cell_chances(
    cases: CaseTable, columns: tuple[int, ...], prior: float = CELL_PRIOR
) -> np.ndarray:
    """Chance of being actionable in every cell of the chosen features.

    Frequencies shrunk towards a logistic fit; with a prior of 0 exactly the frequencies, which
    make the Bayes rule of the cases themselves (cells without cases keep the logistic value).
    """
    features = cases.features[:, columns]
    levels = tuple(cases.levels[i] for i in columns)
    beta = fit_logistic(one_hot(features, levels), cases.is_actionable)
    smooth = predict(beta, one_hot(all_cells(levels), levels))
    cell = cell_index(levels, features)
    n = np.bincount(cell, minlength=len(smooth))
    hits = np.bincount(cell, cases.is_actionable, minlength=len(smooth))
    return np.where(n + prior > 0, (hits + prior * smooth) / np.maximum(n + prior, 1e-9), smooth)


def log_odds(chance: np.ndarray) -> np.ndarray:
    """Log odds, kept finite."""
    safe = np.clip(chance, 1e-6, 1 - 1e-6)
    return np.log(safe / (1 - safe))
