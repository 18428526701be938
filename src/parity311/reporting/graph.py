"""Smooth fields on the graph of neighbouring areas."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

ZERO_EIGENVALUE = 1e-8
"""Below this an eigenvalue of the graph Laplacian counts as zero: one for every component."""


def find_components(n_areas: int, edges: np.ndarray) -> tuple[int, np.ndarray]:
    """Number of connected components, and the component of every area."""
    ones = np.ones(len(edges))
    graph = coo_matrix((ones, (edges[:, 0], edges[:, 1])), shape=(n_areas, n_areas))
    n_components, label = connected_components(graph, directed=False)
    return int(n_components), label


def smooth_basis(n_areas: int, edges: np.ndarray, n_columns: int) -> np.ndarray:
    """(n_areas, at most n_columns) basis B such that B·z, z ~ N(0, 1), is an intrinsic field.

    The smallest non-zero eigenvectors of the graph Laplacian over the root of their eigenvalue,
    scaled so that the geometric mean of the variances is one. Areas without neighbours are 0: the
    field says nothing about them.
    """
    n_components, _ = find_components(n_areas, edges)
    n_columns = min(n_columns, n_areas - n_components)
    if n_columns <= 0:
        return np.zeros((n_areas, 0))
    laplacian = np.zeros((n_areas, n_areas))
    laplacian[edges[:, 0], edges[:, 1]] = laplacian[edges[:, 1], edges[:, 0]] = -1.0
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    last = min(n_areas, n_components + n_columns) - 1
    values, vectors = eigh(laplacian, subset_by_index=(0, last))
    keep = values > ZERO_EIGENVALUE
    basis = vectors[:, keep] / np.sqrt(values[keep])
    variance = (basis**2).sum(axis=1)
    inside = variance > ZERO_EIGENVALUE
    return basis / np.exp(0.5 * np.log(variance[inside]).mean())


def spread_labels(
    labels: np.ndarray, edges: np.ndarray, retention: float, n_rounds: int = 200
) -> np.ndarray:
    """Label propagation: each area's score is its own label and its neighbours' mean score.

    ``retention`` is the weight of the neighbours. A baseline for the spatial model.
    """
    n = len(labels)
    both = np.concatenate([edges, edges[:, ::-1]])
    degree = np.maximum(np.bincount(both[:, 0], minlength=n), 1)
    score = labels.astype(np.float64)
    for _ in range(n_rounds):
        mean = np.bincount(both[:, 0], score[both[:, 1]], minlength=n) / degree
        score = retention * mean + (1.0 - retention) * labels
    return score


def area_under_curve(score: np.ndarray, outcome: np.ndarray) -> float:
    """Chance that an area with the outcome scores above one without; NaN if there is no such."""
    order = np.argsort(score, kind="stable")
    ranked = np.empty(len(score))
    values, first, counts = np.unique(score[order], return_index=True, return_counts=True)
    ranked[order] = np.repeat(first + (counts + 1) / 2, counts)
    n_yes = int(outcome.sum())
    n_no = len(outcome) - n_yes
    if n_yes == 0 or n_no == 0 or len(values) == 0:
        return float("nan")
    return float((ranked[outcome > 0].sum() - n_yes * (n_yes + 1) / 2) / (n_yes * n_no))
