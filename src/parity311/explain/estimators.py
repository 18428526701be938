"""The paper's explainers where it names them, with what sets each apart from the exact values.

KernelSHAP solves a weighted regression on coalitions and is exact where all of them fit;
permutations are exact up to second-order interactions on average and carry a standard error;
expected gradients (GradientExplainer) are another estimand (Aumann–Shapley), not an approximation
of this one; trees explain a surrogate fitted to the policy, and its fidelity comes with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from parity311.domains import all_domains
from parity311.errors import InputError, unknown_name
from parity311.explain.exact import Attribution, coalition_worth, exact_shapley
from parity311.explain.games import (
    MAX_FEATURES,
    Policy,
    all_masks,
    check_rows,
    n_layers,
    score_rows,
)
from parity311.explain.trees import Tree, fit_tree, tree_shapley

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
    import jax
    import jax.numpy as jnp

    if callable(policy):
        return lambda rows: jnp.atleast_2d(policy(rows).T).T
    last = n_layers(policy) - 1

    def score(rows):
        hidden = rows
        for layer in range(last + 1):
            weight = jnp.asarray(policy[f"weight_{layer}"], dtype=jnp.float64)
            hidden = hidden @ weight + jnp.asarray(policy[f"bias_{layer}"], dtype=jnp.float64)
            hidden = jax.nn.relu(hidden) if layer < last else hidden
        return hidden

    return score


def surrogate_shapley(policy: Policy, rows: np.ndarray, background: np.ndarray) -> Attribution:
    """Exact values of a regression tree fitted to the policy on rows and background."""
    rows, background = check_rows(rows, background)
    return tree_shapley(fit_surrogate(policy, rows, background), rows, background)


def fit_surrogate(policy: Policy, rows: np.ndarray, background: np.ndarray) -> Tree:
    """The tree that stands for the policy; its fidelity says how well."""
    together = np.vstack([rows, background])
    return fit_tree(together, score_rows(policy, together))


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
    from scipy import stats

    if np.shape(rows)[1] > MAX_FEATURES:
        raise InputError(
            f"There are {np.shape(rows)[1]} features; agreement is measured against exact values, "
            f"which end at {MAX_FEATURES}. Use the permutation explainer alone."
        )
    truth = exact_shapley(policy, rows, background)
    size = np.abs(truth.values).mean()
    importance = np.abs(truth.values).mean(axis=(0, 2))
    found = []
    for name, note in EXPLAINERS.items():
        try:
            other = explain(policy, rows, background, name, seed=seed)
        except InputError as error:
            nan = float("nan")
            found.append(Agreement(name, nan, nan, nan, False, str(error)))
            continue
        if name == "tree":
            fidelity = fit_surrogate(policy, rows, background).fidelity
            note = f"{note}, {100 * fidelity:.0f} % of whose variation it explains"
        difference = np.abs(other.values - truth.values)
        theirs = np.abs(other.values).mean(axis=(0, 2))
        varies = len(importance) > 1 and np.ptp(importance) > 0 and np.ptp(theirs) > 0
        ranks = [stats.rankdata(part) for part in (importance, theirs)]
        rank = float(np.corrcoef(ranks)[0, 1]) if varies else float("nan")
        found.append(
            Agreement(
                name,
                float(difference.max()),
                float(difference.mean() / size) if size > 0 else 0.0,
                rank,
                bool(importance.argmax() == theirs.argmax()),
                note,
            )
        )
    return tuple(found)
