"""The paper's explainers where it names them, with what sets each apart from the exact values.

KernelSHAP solves a weighted regression on coalitions and is exact where all of them fit;
permutations are exact up to second-order interactions on average and carry a standard error;
expected gradients (GradientExplainer) are another estimand (Aumann–Shapley), not an approximation
of this one; trees explain a surrogate fitted to the policy, and its fidelity comes with them.

A small regression tree, and its exact interventional Shapley values.

The paper names TreeExplainer for heat and housing, whose policies are networks: what can be
explained that way is a tree fitted to them, so how well it fits belongs to the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, factorial

import numpy as np

from parity311.domains import all_domains
from parity311.errors import InputError, unknown_name
from parity311.explain.exact import Attribution, coalition_worth, exact_shapley
from parity311.explain.games import (
    MAX_FEATURES,
    Policy,
    all_masks,
    check_rows,
    score_network,
    score_rows,
)

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


EXPLAINERS = {
    "exact": "every coalition",
    "kernel": "weighted regression on coalitions (KernelSHAP)",
    "permutation": "antithetic permutations",
    "gradient": "expected gradients: another estimand",
    "tree": "a regression tree fitted to the policy",
}
N_PERMUTATIONS = 32
"""Pairs of a permutation and its reverse; 64 walks of d + 1 coalitions."""
N_STEPS = 16
"""Gauss–Legendre nodes between background and row: exact for polynomials of degree 31."""


def explainer_of_paper(slug: str) -> str:
    """What the paper explains this domain with; empty where it says nothing of it."""
    domain = all_domains().get(slug)
    return domain.explainer if domain else ""


def explain(
    policy: Policy,
    rows: np.ndarray,
    background: np.ndarray,
    explainer: str = "exact",
    *,
    seed: int = 0,
) -> Attribution:
    """Attribute scores to features with the explainer of this name."""
    if explainer not in EXPLAINERS:
        raise unknown_name("explainer", explainer, EXPLAINERS)
    if explainer == "exact":
        return exact_shapley(policy, rows, background)
    if explainer == "kernel":
        return kernel_shapley(policy, rows, background)
    if explainer == "permutation":
        return permutation_shapley(policy, rows, background, seed=seed)
    if explainer == "gradient":
        return expected_gradients(policy, rows, background)
    return surrogate_shapley(policy, rows, background)


def kernel_shapley(policy: Policy, rows: np.ndarray, background: np.ndarray) -> Attribution:
    """KernelSHAP on all coalitions, without the L1 selection that shap applies by default.

    (shap's default keeps ten features even when it enumerates, which zeroes the others.)
    """
    worth = coalition_worth(policy, rows, background)
    n_features = int(np.log2(len(worth)))
    base, full = worth[0], worth[-1]
    if n_features == 1:
        return Attribution((full - base)[:, None, :], base[0], full)
    masks = all_masks(n_features)[1:-1].astype(float)
    size = masks.sum(axis=1).astype(int)
    weight = np.array(
        [(n_features - 1) / (comb(n_features, s) * s * (n_features - s)) for s in size]
    )
    # Efficiency as a constraint: the last feature takes what the others leave.
    design = masks[:, :-1] - masks[:, -1:]
    target = worth[1:-1] - base - masks[:, -1][:, None, None] * (full - base)
    left = (design * weight[:, None]).T @ design
    right = np.einsum("mi,mna->ina", design * weight[:, None], target)
    some = np.linalg.solve(left, right.reshape(n_features - 1, -1)).reshape(right.shape)
    last = (full - base) - some.sum(axis=0)
    values = np.concatenate([some, last[None]]).transpose(1, 0, 2)
    return Attribution(values, base[0], full)


def permutation_shapley(
    policy: Policy,
    rows: np.ndarray,
    background: np.ndarray,
    *,
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> Attribution:
    """Mean marginal contribution along random orders and their reverses, with its error."""
    rows, background = check_rows(rows, background)
    n_features = rows.shape[1]
    rng = np.random.default_rng(seed)
    orders = np.array([rng.permutation(n_features) for _ in range(n_permutations)])
    pairs = []
    for order in orders:
        walks = [_walk(policy, rows, background, path) for path in (order, order[::-1])]
        pairs.append((walks[0] + walks[1]) / 2)
    drawn = np.array(pairs)
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn)) if len(drawn) > 1 else None
    base = score_rows(policy, background).mean(axis=0)
    return Attribution(drawn.mean(axis=0), base, score_rows(policy, rows), error)


def _walk(
    policy: Policy, rows: np.ndarray, background: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """(n, d, n_actions) what each feature adds when they join in this order."""
    n, d = rows.shape
    mixed = np.broadcast_to(background, (n, *background.shape)).copy()
    before = score_rows(policy, mixed.reshape(-1, d)).reshape(n, len(background), -1).mean(axis=1)
    added = np.zeros((n, d, before.shape[1]))
    for feature in order:
        mixed[:, :, feature] = rows[:, None, feature]
        after = score_rows(policy, mixed.reshape(-1, d)).reshape(n, len(background), -1)
        after = after.mean(axis=1)
        added[:, feature], before = after - before, after
    return added


def expected_gradients(policy: Policy, rows: np.ndarray, background: np.ndarray) -> Attribution:
    """Mean over the background of (x − b)·∫₀¹ ∇score(b + t(x − b)) dt.

    The policy must be a network or differentiable by JAX. The quadrature is fixed, so there is no
    sampling error; what remains is a difference of definition.
    """
    import jax
    import jax.numpy as jnp

    rows, background = check_rows(rows, background)
    nodes, weights = np.polynomial.legendre.leggauss(N_STEPS)
    nodes, weights = (nodes + 1) / 2, weights / 2
    score = _traceable(policy)
    with jax.enable_x64(True):
        try:
            slope = jax.vmap(jax.jacrev(lambda x: score(x[None])[0]))
            slope = jax.jit(slope)
            slope(jnp.asarray(rows[:1]))
        except Exception as error:
            raise InputError(
                "Expected gradients need a network or a function that JAX can differentiate "
                f"({type(error).__name__}); use the exact explainer instead."
            ) from error
        values = 0.0
        for node, weight in zip(nodes, weights, strict=True):
            between = background[None] + node * (rows[:, None] - background[None])
            gradient = np.asarray(slope(jnp.asarray(between.reshape(-1, rows.shape[1]))))
            gradient = gradient.reshape(len(rows), len(background), -1, rows.shape[1])
            step = (rows[:, None] - background[None])[:, :, None, :]
            values = values + weight * (gradient * step).mean(axis=1)
    base = score_rows(policy, background).mean(axis=0)
    return Attribution(np.asarray(values).transpose(0, 2, 1), base, score_rows(policy, rows))


def _traceable(policy: Policy):
    """The policy as a function of JAX arrays (n, d) -> (n, n_actions)."""
    import jax.numpy as jnp

    if callable(policy):
        return lambda rows: jnp.atleast_2d(policy(rows).T).T
    arrays = {name: np.asarray(values, np.float64) for name, values in policy.items()}
    return lambda rows: score_network(arrays, rows)


def surrogate_shapley(policy: Policy, rows: np.ndarray, background: np.ndarray) -> Attribution:
    """Exact values of a regression tree fitted to the policy on rows and background."""
    rows, background = check_rows(rows, background)
    return tree_shapley(fit_surrogate(policy, rows, background), rows, background)


def fit_surrogate(policy: Policy, rows: np.ndarray, background: np.ndarray) -> Tree:
    """The tree that stands for the policy; its fidelity says how well."""
    together = np.vstack([rows, background])
    return fit_tree(together, score_rows(policy, together))


def tree_note(tree: Tree) -> str:
    """What a tree stands for, and how well."""
    return f"{EXPLAINERS['tree']}, {100 * tree.fidelity:.0f} % of whose variation it explains"


def explain_as_named(
    policy: Policy, rows: np.ndarray, background: np.ndarray, met: np.ndarray, explainer: str
) -> tuple[Attribution, str]:
    """The explanation by the explainer the paper names, and what it is.

    A tree is fitted to all observations the policy met (n, d), not only to those explained.
    """
    if explainer != "tree":
        return explain(policy, rows, background, explainer), EXPLAINERS[explainer]
    tree = fit_surrogate(policy, np.asarray(met, np.float64), background)
    return tree_shapley(tree, *check_rows(rows, background)), tree_note(tree)


@dataclass(frozen=True)
class Agreement:
    """How an explainer's values compare with the exact ones."""

    explainer: str
    largest_difference: float
    mean_difference: float
    """Mean absolute difference over the mean absolute exact value."""
    rank_correlation: float
    """Spearman, of the features' mean absolute values."""
    top_feature_agrees: bool
    note: str


def compare_explainers(
    policy: Policy, rows: np.ndarray, background: np.ndarray, *, seed: int = 0
) -> tuple[Agreement, ...]:
    """Set every explainer beside the exact values on the same rows."""
    if np.shape(rows)[1] > MAX_FEATURES:
        raise InputError(
            f"There are {np.shape(rows)[1]} features; agreement is measured against exact values, "
            f"which end at {MAX_FEATURES}. Use the permutation explainer alone."
        )
    truth = exact_shapley(policy, rows, background)
    found = []
    for name, note in EXPLAINERS.items():
        try:
            other = explain(policy, rows, background, name, seed=seed)
        except InputError as error:
            nan = float("nan")
            found.append(Agreement(name, nan, nan, nan, False, str(error)))
            continue
        if name == "tree":
            note = tree_note(fit_surrogate(policy, rows, background))
        found.append(measure_agreement(name, other, truth, note))
    return tuple(found)


def measure_agreement(name: str, other: Attribution, ours: Attribution, note: str) -> Agreement:
    """How an explainer's values compare with ours on the same rows."""
    from scipy import stats

    size = np.abs(ours.values).mean()
    importance, theirs = (np.abs(one.values).mean(axis=(0, 2)) for one in (ours, other))
    difference = np.abs(other.values - ours.values)
    varies = len(importance) > 1 and np.ptp(importance) > 0 and np.ptp(theirs) > 0
    ranks = [stats.rankdata(part) for part in (importance, theirs)]
    return Agreement(
        name,
        float(difference.max()),
        float(difference.mean() / size) if size > 0 else 0.0,
        float(np.corrcoef(ranks)[0, 1]) if varies else float("nan"),
        bool(importance.argmax() == theirs.argmax()),
        note,
    )
