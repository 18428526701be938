"""The game behind Shapley values: what a coalition of features is worth.

v(S) of a row x is the mean over background rows b of the policy's score at (x in S, b elsewhere):
interventional values, the one estimand of all explanations here. The background is a choice, frozen
and published with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import factorial
from typing import Any, TypeAlias

import numpy as np

from parity311.agents.forward import COVERS, SAVES, part_of
from parity311.errors import InputError

Policy: TypeAlias = Callable[[Any], Any] | Mapping[str, Any]
"""A function of observations (n, d) that gives scores (n, n_actions), in NumPy or JAX; or a network
as plain arrays: weight_0 (d, h), bias_0 (h,), weight_1 …, ReLU between them; or two such networks
of the features but the last, which is a price: what is saved, and what is covered for the price."""

MAX_FEATURES = 16
"""Exact values need 2^d coalitions: at 16 features 65,536 for each row and background row."""


@lru_cache
def all_masks(n_features: int) -> np.ndarray:
    """(2^d, d) bool: every coalition; bit i of the row's number says whether feature i is in."""
    if n_features > MAX_FEATURES:
        raise InputError(
            f"Exact Shapley values of {n_features} features need 2^{n_features} coalitions; the "
            f"limit is {MAX_FEATURES}. Use the permutation explainer."
        )
    masks = (np.arange(1 << n_features)[:, None] >> np.arange(n_features)) & 1
    return masks.astype(bool)


@lru_cache
def shapley_operator(n_features: int) -> np.ndarray:
    """Matrix (d, 2^d) that turns coalitions' worth into Shapley values.

    +w(|S| − 1) where i is in S, −w(|S|) elsewhere, with w(s) = s!(d − s − 1)!/d!.
    """
    masks = all_masks(n_features)
    d = n_features
    weight = np.array([factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)])
    size = masks.sum(axis=1)
    inside = weight[np.maximum(size - 1, 0)]
    outside = weight[np.minimum(size, d - 1)]
    return np.where(masks.T, inside, -outside)


def check_rows(rows: np.ndarray, background: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64 matrices of the same width; anything else is one clear line."""
    rows, background = (np.asarray(part, dtype=np.float64) for part in (rows, background))
    for name, part in (("rows", rows), ("background", background)):
        if part.ndim != 2 or len(part) == 0:
            raise InputError(
                f"The {name} to explain have shape {part.shape}; give a matrix of one "
                "observation a row, with at least one row."
            )
        if not np.isfinite(part).all():
            raise InputError(f"The {name} hold values that are not finite; remove those rows.")
    if rows.shape[1] != background.shape[1]:
        raise InputError(
            f"Rows have {rows.shape[1]} features and the background {background.shape[1]}; they "
            "must be the same."
        )
    return rows, background


def is_network(policy: Policy) -> bool:
    """Whether a policy is a network as plain arrays."""
    return isinstance(policy, Mapping)


def is_priced(network: Mapping[str, Any]) -> bool:
    """Whether it is two networks, of which one counts times the last feature, the price."""
    return f"{COVERS}/weight_0" in network


def n_layers(network: Mapping[str, Any]) -> int:
    """Number of weight matrices of one network."""
    return sum(1 for name in network if name.startswith("weight_"))


def score_network(network: Mapping[str, Any], rows: Any) -> Any:
    """Scores (..., n_actions) of rows (..., d), in NumPy or in JAX as the arrays are."""
    if is_priced(network):
        seen, price = rows[..., :-1], rows[..., -1:]
        covers = score_network(part_of(network, COVERS), seen)
        return score_network(part_of(network, SAVES), seen) + price * covers
    hidden = rows
    last = n_layers(network) - 1
    for layer in range(last + 1):
        hidden = hidden @ network[f"weight_{layer}"] + network[f"bias_{layer}"]
        hidden = hidden * (hidden > 0) if layer < last else hidden
    return hidden


def score_rows(policy: Policy, rows: np.ndarray) -> np.ndarray:
    """Scores (n, n_actions) as float64, whatever the policy is."""
    if isinstance(policy, Mapping):
        arrays = {name: np.asarray(values, np.float64) for name, values in policy.items()}
        return score_network(arrays, rows)
    scores = np.asarray(policy(rows), dtype=np.float64)
    return scores[:, None] if scores.ndim == 1 else scores
