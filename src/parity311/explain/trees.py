"""A small regression tree, and its exact interventional Shapley values.

The paper names TreeExplainer for heat and housing, whose policies are networks: what can be
explained that way is a tree fitted to them, so how well it fits belongs to the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np

from parity311.explain.exact import Attribution

MAX_DEPTH = 6
MIN_LEAF = 5
"""Observations a leaf holds at least."""


@dataclass(frozen=True)
class Tree:
    """A binary tree as arrays of length n_nodes; children −1 at leaves."""

    feature: np.ndarray
    threshold: np.ndarray
    """Observations at or below it go left."""
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    """(n_nodes, n_outputs)"""
    fidelity: float
    """Share of the outputs' variance that the tree explains where it was fitted."""

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Outputs (n, n_outputs) of the leaves that rows fall into."""
        node = np.zeros(len(rows), dtype=np.int64)
        while (self.left[node] >= 0).any():
            inner = self.left[node] >= 0
            goes_left = rows[np.arange(len(rows)), self.feature[node]] <= self.threshold[node]
            after = np.where(goes_left, self.left[node], self.right[node])
            node = np.where(inner, after, node)
        return self.value[node]


def fit_tree(rows: np.ndarray, outputs: np.ndarray, max_depth: int = MAX_DEPTH) -> Tree:
    """Fit by least squares over all outputs together (CART)."""
    nodes: list[dict] = []

    def grow(index: np.ndarray, depth: int) -> int:
        number = len(nodes)
        mean = outputs[index].mean(axis=0)
        nodes.append({"feature": 0, "threshold": 0.0, "left": -1, "right": -1, "value": mean})
        split = _best_split(rows[index], outputs[index]) if depth < max_depth else None
        if split is not None:
            feature, threshold = split
            goes_left = rows[index, feature] <= threshold
            nodes[number] |= {"feature": feature, "threshold": threshold}
            nodes[number]["left"] = grow(index[goes_left], depth + 1)
            nodes[number]["right"] = grow(index[~goes_left], depth + 1)
        return number

    grow(np.arange(len(rows)), 0)
    columns = {name: np.array([node[name] for node in nodes]) for name in nodes[0]}
    tree = Tree(**columns, fidelity=1.0)
    residual = ((outputs - tree.predict(rows)) ** 2).sum()
    total = ((outputs - outputs.mean(axis=0)) ** 2).sum()
    return Tree(**columns, fidelity=float(1 - residual / total) if total > 0 else 1.0)


def _best_split(rows: np.ndarray, outputs: np.ndarray) -> tuple[int, float] | None:
    """Feature and threshold that lower the squared error most; None where nothing does."""
    n = len(rows)
    best, chosen = 1e-12, None
    centred = outputs - outputs.mean(axis=0)
    for feature in range(rows.shape[1]):
        order = np.argsort(rows[:, feature], kind="stable")
        values = rows[order, feature]
        sums = np.cumsum(centred[order], axis=0)[:-1]
        n_left = np.arange(1, n)
        gain = (sums**2).sum(axis=1) * (1 / n_left + 1 / (n - n_left))
        allowed = (values[1:] > values[:-1]) & (np.minimum(n_left, n - n_left) >= MIN_LEAF)
        gain = np.where(allowed, gain, 0.0)
        place = int(gain.argmax()) if len(gain) else 0
        if len(gain) and gain[place] > best:
            best = float(gain[place])
            chosen = (feature, float((values[place] + values[place + 1]) / 2))
    return chosen


def tree_shapley(tree: Tree, rows: np.ndarray, background: np.ndarray) -> Attribution:
    """Exact interventional Shapley values of a tree (Lundberg et al. 2020, one reference a time).

    A leaf is reached by a mix of row and background row exactly if every feature that only the row
    satisfies along the path comes from the row, and every one that only the background row does
    comes from there; such a leaf's value is shared by the sizes of the two sets.
    """
    n, d = rows.shape
    values = np.zeros((n, d, tree.value.shape[1]))
    for leaf, lower, upper in _leaves(tree, d):
        used = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
        if not len(used):
            continue
        own = (rows[:, used] > lower[used]) & (rows[:, used] <= upper[used])
        other = (background[:, used] > lower[used]) & (background[:, used] <= upper[used])
        only_own = own[:, None] & ~other[None]
        only_other = ~own[:, None] & other[None]
        possible = (own[:, None] | other[None]).all(axis=2)
        a, b = only_own.sum(axis=2), only_other.sum(axis=2)
        gain = np.where(possible & (a > 0), _share(a - 1, b), 0.0)
        loss = np.where(possible & (b > 0), _share(a, b - 1), 0.0)
        weight = (only_own * gain[..., None] - only_other * loss[..., None]).mean(axis=1)
        values[:, used] += weight[:, :, None] * tree.value[leaf]
    return Attribution(values, tree.predict(background).mean(axis=0), tree.predict(rows))


_SHARES = np.array(
    [[factorial(a) * factorial(b) / factorial(a + b + 1) for b in range(17)] for a in range(17)]
)
"""a!·b!/(a + b + 1)!: the weight of one member of a path's set."""


def _share(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _SHARES[np.maximum(a, 0), np.maximum(b, 0)]


def _leaves(tree: Tree, n_features: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Every leaf with the box of observations it holds: above lower, at or below upper."""
    found = []
    stack = [(0, np.full(n_features, -np.inf), np.full(n_features, np.inf))]
    while stack:
        node, lower, upper = stack.pop()
        if tree.left[node] < 0:
            found.append((node, lower, upper))
            continue
        feature, threshold = tree.feature[node], tree.threshold[node]
        above, below = lower.copy(), upper.copy()
        below[feature] = min(below[feature], threshold)
        above[feature] = max(above[feature], threshold)
        stack += [(int(tree.left[node]), lower, below), (int(tree.right[node]), above, upper)]
    return found
