"""How likely a complaint of each kind is actionable, from what inspectors found.

A kind has parts (a place, a severity code, a history ...), and a few dozen looks. The chances of
kinds are drawn towards a fit by their parts, by as much as the records themselves call for:
where kinds of equal parts differ no more than chance makes them, the fit is all there is.
"""

from __future__ import annotations

import numpy as np

from parity311.engines.table.scores import all_cells, fit_logistic, one_hot, predict

PRIORS = (25.0, 100.0, 400.0, 1600.0)
"""Looks that the fit by parts may count for: from a kind of its own to hardly anything beyond its
parts. The records choose."""


def chance_from_looks(
    kind: np.ndarray,
    is_found: np.ndarray,
    there: np.ndarray,
    kinds: np.ndarray,
    levels: tuple[int, ...],
    written_share: float,
) -> np.ndarray:
    """Chance that a case of each kind is actionable, (n_kinds,).

    Parameters
    ----------
    kind, is_found
        (n,) kind of every case looked into, and whether a violation was written.
    there
        (n,) chance that the incident was still there to be found.
    kinds, levels
        (n_kinds, n_parts) parts of every kind as level numbers, and how many levels each has.
    written_share
        Share of what is actionable that a look writes up.
    """
    design = one_hot(kinds / np.maximum(np.asarray(levels) - 1, 1), levels)
    written, n, prior = _pool(kind, is_found, design)
    still = np.bincount(kind, there, minlength=len(kinds))
    still = (still + prior * _mean_by_parts(design, kind, there)) / (n + prior)
    return np.clip(written / np.maximum(written_share * still, 1e-3), 1e-4, 0.95)


def pooled_chances(cell: np.ndarray, label: np.ndarray, levels: tuple[int, ...]) -> np.ndarray:
    """Chance of a label in every combination of ordered levels, from cases (n,) that are known.

    By its parts the log odds are a straight line in every feature.
    """
    return _pool(cell, label, all_cells(levels))[0]


def _pool(
    kind: np.ndarray, label: np.ndarray, design: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Shares of a label by kind, drawn towards a fit by parts; cases of each; the fit's weight."""
    found = predict(fit_logistic(design[kind], label), design)
    n = np.bincount(kind, minlength=len(design))
    hits = np.bincount(kind, label, minlength=len(design))
    prior = likeliest_prior(hits, n, found)
    return (hits + prior * found) / (n + prior), n, prior


def likeliest_prior(hits: np.ndarray, n: np.ndarray, found: np.ndarray) -> float:
    """The one of `PRIORS` under which chances that are Beta around `found` best show these hits."""
    # Here, because a machine that only trains has no scipy.
    from scipy.special import betaln

    def likelihood(prior: float) -> float:
        ahead, behind = prior * found, prior * (1.0 - found)
        return float((betaln(hits + ahead, n - hits + behind) - betaln(ahead, behind)).sum())

    return max(PRIORS, key=likelihood)


def _mean_by_parts(design: np.ndarray, kind: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Mean of a value in every kind, by its parts: linear, with the overall mean lent to each."""
    columns = np.column_stack([np.ones(len(design)), design])
    seen = columns[kind]
    lent = np.diag(np.r_[0.0, np.ones(design.shape[1])])
    slopes = np.linalg.solve(seen.T @ seen + lent, seen.T @ value)
    return np.clip(columns @ slopes, value.min(), value.max())
