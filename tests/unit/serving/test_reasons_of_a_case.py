"""What a feature contributes, against exact Shapley values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import factorial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parity311.serving.reasons import parts_of

N = 6
Values = Callable[[np.ndarray], np.ndarray]


def policy_of(values: Values, typical: np.ndarray) -> Any:
    return SimpleNamespace(values=values, package=SimpleNamespace(seen={"typical": typical}))


def network(rng: np.random.Generator, most_read: int) -> Values:
    """Two actions; every hidden unit reads so many features at most."""
    n_hidden = 12
    first = rng.normal(size=(N, n_hidden))
    for unit in range(n_hidden):
        first[rng.permutation(N)[most_read:], unit] = 0.0
    bias, second = rng.normal(size=n_hidden), rng.normal(size=(n_hidden, 2))
    return lambda seen: np.maximum(seen.astype(np.float64) @ first + bias, 0.0) @ second


def shapley(margin: Callable[[np.ndarray], float], seen: np.ndarray, typical: np.ndarray) -> Any:
    """Exact values (N,): the mean over all orders, as sets of features."""
    found = np.zeros(N)
    for feature in range(N):
        others = [i for i in range(N) if i != feature]
        for size in range(N):
            weight = factorial(size) * factorial(N - size - 1) / factorial(N)
            for chosen in combinations(others, size):
                without = typical.copy()
                without[list(chosen)] = seen[list(chosen)]
                joined = without.copy()
                joined[feature] = seen[feature]
                found[feature] += weight * (margin(joined) - margin(without))
    return found


def both(values: Values, seed: int, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Parts and exact values (n, N) of some cases."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(n, N)).astype(np.float32)
    typical = rng.normal(size=N).astype(np.float32)
    action = values(seen).argmax(axis=-1)
    parts = parts_of(policy_of(values, typical), seen, action)

    def exact(row: int) -> np.ndarray:
        a = int(action[row])
        return shapley(lambda x: float(np.diff(values(x))[0] * (2 * a - 1)), seen[row], typical)

    return parts, np.stack([exact(row) for row in range(n)])


@pytest.mark.parametrize("seed", range(3))
def test_equal_for_a_linear_rule(seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=(N, 2))
    parts, exact = both(lambda seen: seen.astype(np.float64) @ weights, seed)
    np.testing.assert_allclose(parts, exact, atol=1e-5)
    assert np.abs(exact).max() > 0.5


@pytest.mark.parametrize("seed", range(3))
def test_equal_where_no_three_features_act_together(seed: int) -> None:
    parts, exact = both(network(np.random.default_rng(seed), 2), seed)
    np.testing.assert_allclose(parts, exact, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_close_where_they_do(seed: int) -> None:
    parts, exact = both(network(np.random.default_rng(seed), N), seed)
    # The broken twin of the test above: where all act together there is a difference to see.
    assert np.abs(parts - exact).max() > 1e-3
    assert np.corrcoef(parts.ravel(), exact.ravel())[0, 1] > 0.95
    strongest = np.abs(parts).argmax(axis=1) == np.abs(exact).argmax(axis=1)
    assert strongest.mean() >= 0.7


def test_a_typical_feature_contributes_nothing() -> None:
    rng = np.random.default_rng(5)
    values = network(rng, N)
    seen = rng.normal(size=(4, N)).astype(np.float32)
    typical = seen[0].copy()
    parts = parts_of(policy_of(values, typical), seen, values(seen).argmax(axis=-1))
    assert not parts[0].any()
    assert parts[1:].any(axis=1).all()


def test_each_case_is_explained_as_it_would_be_alone() -> None:
    rng = np.random.default_rng(6)
    values, typical = network(rng, N), np.zeros(N, np.float32)
    seen = rng.normal(size=(20, N)).astype(np.float32)
    # Some cases share a feature with the typical one, so that fewer are scored again.
    seen[::3, 2] = 0.0
    action = values(seen).argmax(axis=-1)
    policy = policy_of(values, typical)
    alone = [parts_of(policy, seen[i : i + 1], action[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(parts_of(policy, seen, action), alone, atol=1e-9)
