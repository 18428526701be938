"""The likelihood of many rows, summed to cells, in blocks that stay in the processor's cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from parity311.reporting.likelihood import (
    N_PARAMETERS,
    RATE,
    Derivatives,
    Mixture,
    RowData,
    resolve_law,
    row_derivatives,
)

N_BLOCK = 1 << 13
"""Numbers in an intermediate array (rows times quadrature nodes): 64 KB, so that a formula's dozen
of them stay in the processor's cache and below the size that is given back to the system."""


class Rows(NamedTuple):
    """Rows in the order of their cells, so that sums over cells are sums over runs."""

    data: RowData
    cell: np.ndarray
    n_cells: int

    @staticmethod
    def sort(data: RowData, cell: np.ndarray, n_cells: int) -> Rows:
        """Put rows into the order of their cells."""
        order = np.argsort(cell, kind="stable")
        return Rows(data.take(order), cell[order], n_cells)


def sum_derivatives(law: str, mixture: Mixture, packed: np.ndarray, rows: Rows) -> Derivatives:
    """Log likelihood of all rows; derivatives summed over the rows of every cell.

    Parameters
    ----------
    packed
        (n_cells, 4) parameters of every cell.
    """
    law = resolve_law(law, rows.data)
    n = len(rows.cell)
    gradient = np.zeros((rows.n_cells, N_PARAMETERS))
    hessian = np.zeros((rows.n_cells, N_PARAMETERS, N_PARAMETERS))
    size = max(N_BLOCK // len(mixture.weight), 256)

    def sum_block(start: int) -> tuple[float, np.ndarray, dict, dict]:
        block = slice(start, start + size)
        cell = rows.cell[block]
        value, first, second = row_derivatives(law, mixture, packed[cell], rows.data.take(block))
        runs = np.flatnonzero(np.diff(cell, prepend=-1))
        slopes = {i: np.add.reduceat(part, runs) for i, part in first.items()}
        bends = {pair: np.add.reduceat(part, runs) for pair, part in second.items()}
        return float(value.sum()), cell[runs], slopes, bends

    total = 0.0
    for value, cell, slopes, bends in _in_threads(sum_block, range(0, n, size)):
        total += value
        for i, part in slopes.items():
            gradient[cell, i] += part
        for (i, j), part in bends.items():
            hessian[cell, i, j] += part
    upper = np.triu_indices(N_PARAMETERS, 1)
    hessian[:, upper[1], upper[0]] = hessian[:, upper[0], upper[1]]
    return Derivatives(total, gradient, hessian)


def _in_threads(compute: Any, starts: range) -> list:
    if len(starts) <= 1:
        return [compute(start) for start in starts]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compute, starts))


SKEW_STEP = 1e-4
"""Step of the one-sided differences of the curvature, on the scale of the parameters."""


def skewness(
    law: str,
    mixture: Mixture,
    packed: np.ndarray,
    rows: Rows,
    here: np.ndarray,
    moves: Sequence[int],
) -> np.ndarray:
    """(n_cells, 4) derivatives of the second derivative in log λ, summed over rows.

    Parameters
    ----------
    here
        (n_cells,) the second derivative at ``packed``.
    moves
        Parameters that are estimated; the derivatives in others are left at 0.
    """
    out = np.zeros_like(packed)
    for place in moves:
        moved = packed.copy()
        moved[:, place] += SKEW_STEP
        there = sum_derivatives(law, mixture, moved, rows).hessian[:, RATE, RATE]
        out[:, place] = (there - here) / SKEW_STEP
    return out
