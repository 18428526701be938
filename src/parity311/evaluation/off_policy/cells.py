"""Discretised states: which decisions were about the same kind of case.

Few features make cells that many decisions share, many features make cells of one decision each.
So features are taken in the order of what they tell about the logged action, the target's action
and the outcome, as long as the log fills the cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

N_BINS = 4
"""Most bins of a feature, unless said otherwise."""
FILLED = 8.0
"""Decisions per cell of the rarest action, over the support that is asked for, that the log must
have on average for another feature to be taken (assumed: cells differ in size, and in
how rare the action is, by a factor of a few; the rare ones should still reach the count)."""
MAX_CELLS = 256
FEWEST_CELLS = 4.0
"""Most cells, and how many are made of any log."""


@dataclass(frozen=True)
class Binning:
    """How an observation becomes a cell."""

    columns: tuple[int, ...]
    edges: tuple[np.ndarray, ...]
    """upper bounds of all but the last bin, by column"""

    @property
    def n_cells(self) -> int:
        """Number of cells, seen or not."""
        return int(np.prod([len(edge) + 1 for edge in self.edges], dtype=np.int64))

    def place(self, observation: np.ndarray) -> np.ndarray:
        """Cell (...) of every observation (..., n_features)."""
        cell = np.zeros(observation.shape[:-1], np.int64)
        for column, edge in zip(self.columns, self.edges, strict=True):
            part = np.searchsorted(edge, observation[..., column], side="left")
            cell = cell * (len(edge) + 1) + part
        return cell


def bin_edges(values: np.ndarray, n_bins: int) -> np.ndarray:
    """Bounds between bins: between all values where they are few, else at quantiles."""
    distinct = np.unique(values)
    if len(distinct) <= n_bins:
        return (distinct[1:] + distinct[:-1]) / 2
    inner = np.quantile(values, np.arange(1, n_bins) / n_bins, method="inverted_cdf")
    return np.unique(inner[inner < distinct[-1]])


def choose_cells(
    observation: np.ndarray,
    labels: tuple[np.ndarray, ...],
    *,
    n_actions: int,
    min_count: int,
    n_bins: int = N_BINS,
    max_cells: int = MAX_CELLS,
) -> Binning:
    """Choose features and bins for rows of observations (n, n_features).

    Parameters
    ----------
    labels
        (n,) int arrays that cells should tell apart: the logged action first, then the target's,
        and the outcome.
    """
    n_features = observation.shape[-1]
    limit = _most_cells(labels[0], n_actions, min_count, max_cells)
    chosen: list[int] = []
    found = Binning((), ())
    left = [i for i in range(n_features) if len(np.unique(observation[:, i])) > 1]
    while left:
        trials = {i: _extend(found, i, observation, n_bins) for i in left}
        fitting = [i for i in left if _n_occupied(trials[i], observation) <= limit]
        if not fitting:
            break
        told = {i: _information(trials[i], observation, labels) for i in fitting}
        best = max(fitting, key=lambda i: told[i])
        if chosen and told[best] - _information(found, observation, labels) < 1e-3:
            break
        found = trials[best]
        chosen.append(best)
        left.remove(best)
    return found


def _most_cells(action: np.ndarray, n_actions: int, min_count: int, max_cells: int) -> float:
    """Cells that the log fills with its rarest action; one hardly ever taken does not count."""
    share = np.bincount(action, minlength=n_actions).min() / max(len(action), 1)
    filled = len(action) * max(share, 1 / (4 * n_actions)) / (FILLED * max(min_count, 1))
    return min(max_cells, max(filled, FEWEST_CELLS))


def _extend(cells: Binning, column: int, observation: np.ndarray, n_bins: int) -> Binning:
    edge = bin_edges(observation[:, column], n_bins)
    return Binning((*cells.columns, column), (*cells.edges, edge))


def _n_occupied(cells: Binning, observation: np.ndarray) -> int:
    return len(np.unique(cells.place(observation)))


def _information(cells: Binning, observation: np.ndarray, labels: tuple[np.ndarray, ...]) -> float:
    """Mutual information of the cell with the labels, in nats, less what chance alone gives."""
    cell = np.unique(cells.place(observation), return_inverse=True)[1]
    n, total = len(cell), 0.0
    for label in labels:
        place = np.unique(label, return_inverse=True)[1]
        joint = np.zeros((cell.max() + 1, place.max() + 1))
        np.add.at(joint, (cell, place), 1.0 / n)
        outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        is_seen = joint > 0
        found = float((joint[is_seen] * np.log(joint[is_seen] / outer[is_seen])).sum())
        # A table of pure noise tells about (rows - 1)(columns - 1) / 2n nats.
        total += found - (joint.shape[0] - 1) * (joint.shape[1] - 1) / (2 * n)
    return total


def outcome_thirds(outcome: np.ndarray) -> np.ndarray:
    """Outcomes (n,) as low, middle, high."""
    return np.searchsorted(np.unique(np.quantile(outcome, [1 / 3, 2 / 3])), outcome, side="right")


def count_by_cell(
    cell: np.ndarray, action: np.ndarray, is_live: np.ndarray, n_cells: int, n_actions: int
) -> np.ndarray:
    """Decisions of every log in each cell with each action, (L, n_cells, n_actions)."""
    n_logs = len(cell)
    row = np.arange(n_logs).reshape(-1, *([1] * (cell.ndim - 1))) * n_cells + cell
    flat = row * n_actions + action
    counts = np.bincount(flat[is_live], minlength=n_logs * n_cells * n_actions)
    return counts.reshape(n_logs, n_cells, n_actions)
