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
    """Rows in the order of their kind and then of their cells: sums over cells are over runs.

    Rows of one kind (reported again or not; closed by a call, by nobody until then, or neither)
    need a part of the formula only.
    """

    data: RowData
    cell: np.ndarray
    n_cells: int

    @staticmethod
    def sort(data: RowData, cell: np.ndarray, n_cells: int) -> Rows:
        """Put rows into the order of their kind and their cells."""
        called = np.where(
            data.found_ended > 0, 2, data.called_until_days > data.last_delay_days
        ).astype(np.int64)
        order = np.lexsort((cell, 2 * called + (data.n_further > 0)))
        return Rows(data.take(order), cell[order], n_cells)

    def blocks(self, size: int) -> list[slice]:
        """Rows of one kind each, at most so many at a time."""
        ends = [*np.flatnonzero(np.diff(self.cell) < 0) + 1, len(self.cell)]
        found, start = [], 0
        for end in map(int, ends):
            found += [slice(at, min(at + size, end)) for at in range(start, end, size)]
            start = end
        return found


def sum_derivatives(law: str, mixture: Mixture, packed: np.ndarray, rows: Rows) -> Derivatives:
    """Log likelihood of all rows; derivatives summed over the rows of every cell.

    Parameters
    ----------
    packed
        (n_cells, 4) parameters of every cell.
    """
    law = resolve_law(law, rows.data)
    gradient = np.zeros((rows.n_cells, N_PARAMETERS))
    hessian = np.zeros((rows.n_cells, N_PARAMETERS, N_PARAMETERS))
    size = max(N_BLOCK // len(mixture.weight), 256)

    def sum_block(block: slice) -> tuple[float, np.ndarray, dict, dict]:
        cell = rows.cell[block]
        value, first, second = row_derivatives(law, mixture, packed[cell], rows.data.take(block))
        runs = np.flatnonzero(np.diff(cell, prepend=-1))
        slopes = {i: np.add.reduceat(part, runs) for i, part in first.items()}
        bends = {pair: np.add.reduceat(part, runs) for pair, part in second.items()}
        return float(value.sum()), cell[runs], slopes, bends

    total = 0.0
    for value, cell, slopes, bends in _in_threads(sum_block, rows.blocks(size)):
        total += value
        for i, part in slopes.items():
            gradient[cell, i] += part
        for (i, j), part in bends.items():
            hessian[cell, i, j] += part
    upper = np.triu_indices(N_PARAMETERS, 1)
    hessian[:, upper[1], upper[0]] = hessian[:, upper[0], upper[1]]
    return Derivatives(total, gradient, hessian)


def _in_threads(compute: Any, blocks: list[slice]) -> list:
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if n_cores == 1 or len(blocks) <= 1:
        return [compute(block) for block in blocks]
    with ThreadPoolExecutor(n_cores) as pool:
        return list(pool.map(compute, blocks))


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
