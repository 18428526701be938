"""What a policy prefers, in NumPy alone: for a server that decides and never learns.

A policy on disk is a flat mapping of arrays. Which arrays it has says what kind it is: a network,
a table over discretised observations, a computed optimum, a hierarchy of two networks, two networks
of which one counts times the coverage price, a network held to the actions that were seen in the
log, or a rule of thumb: a score and rising bars.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

Weights = Mapping[str, np.ndarray]
"""One agent's policy: names of nested parts are joined by a slash."""

Values = TypeVar("Values")

NOT_ALLOWED = -1e9
"""Preference of an action that may not be taken."""


SAVES, COVERS = "saves", "covers"
"""Parts of a policy whose value is linear in the coverage price (`agents/priced.py`)."""
TIE = 1e-5
"""Scores this close to a bar that leaves them to chance count as at it, as in training."""
JUST_BELOW = -1e-6
"""What a score at its bar lacks: a bar has to be exceeded."""


def score_actions_numpy(weights: Weights, observations: np.ndarray) -> np.ndarray:
    """How much each action is preferred, (..., n_actions), for observations (..., n_features)."""
    seen = np.asarray(observations, np.float32)
    if "table" in weights:
        return apply_table_numpy(weights, seen)
    if "cell_actions" in weights:
        return apply_plan_numpy(weights, seen)
    if "bars" in weights:
        return climb_bars_numpy(weights, seen)
    if "manager/weight_0" in weights:
        categories = part_of(weights, "manager")
        return mask_category_numpy(
            apply_network_numpy(categories, seen),
            apply_network_numpy(part_of(weights, "worker"), seen),
            np.asarray(weights["categories"]),
        )
    if f"{COVERS}/weight_0" in weights:
        plain, price = seen[..., :-1], seen[..., -1:]
        covers = apply_network_numpy(part_of(weights, COVERS), plain)
        return apply_network_numpy(part_of(weights, SAVES), plain) + price * covers
    if "behaviour/weight_0" in weights:
        logits = apply_network_numpy(part_of(weights, "behaviour"), seen)
        is_supported = logits - logits.max(axis=-1, keepdims=True) >= weights["log_threshold"]
        values = apply_network_numpy(part_of(weights, "network"), seen)
        return np.where(is_supported, values, NOT_ALLOWED)
    return apply_network_numpy(weights, seen)


def apply_network_numpy(network: Weights, inputs: np.ndarray) -> np.ndarray:
    """Outputs (..., n_out) of one agent's network for inputs (..., n_features)."""
    n_layers = len(network) // 2
    hidden = inputs
    for layer in range(n_layers):
        hidden = hidden @ network[f"weight_{layer}"] + network[f"bias_{layer}"]
        if layer < n_layers - 1:
            hidden = np.maximum(hidden, 0.0)
    return hidden


def apply_table_numpy(weights: Weights, observations: np.ndarray) -> np.ndarray:
    """Row (..., n_actions) of a table that each observation falls into."""
    table = weights["table"]
    cells = np.rint(observations / np.float32(weights["bin_width"])).astype(np.int32)
    # Hashing means to overflow.
    with np.errstate(over="ignore"):
        mixed = (cells.astype(np.uint32) * hash_factors(cells.shape[-1])).sum(-1, dtype=np.uint32)
        mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = mixed ^ (mixed >> np.uint32(13))
    return table[mixed % np.uint32(table.shape[0])]


def apply_plan_numpy(weights: Weights, observations: np.ndarray) -> np.ndarray:
    """What each action is worth, (..., n_actions), or 1 for the computed one and 0 for others."""
    whole = np.rint(weights["factors"] * observations).astype(np.int32)
    cells = (whole * weights["strides"]).sum(axis=-1) + weights["offset"]
    cells = np.clip(cells, 0, len(weights["cell_actions"]) - 1)
    if "cell_worth" in weights:
        worth = weights["cell_worth"][cells]
        return np.stack([np.zeros_like(worth), worth], axis=-1)
    is_chosen = np.eye(int(weights["n_actions"]), dtype=np.float32)[weights["cell_actions"][cells]]
    if "cell_values" in weights:
        others = weights["cell_values"][cells].astype(np.float32)
        return np.where(is_chosen > 0, 0.0, np.clip(others, NOT_ALLOWED, JUST_BELOW))
    return is_chosen


def climb_bars_numpy(weights: Weights, observations: np.ndarray) -> np.ndarray:
    """Values (..., n_actions) of a rule: the strongest action whose bar the score exceeds is best.

    An action's value is the sum of what the score exceeds its bar and all lower ones by, so the
    difference of two neighbours is the rule's own margin. Where a rule leaves those at the bar to
    chance, the likelier action is a hair better.
    """
    cells = np.rint((observations * weights["strides"]).sum(axis=-1) + weights["offset"])
    scores = weights["cell_scores"]
    cells = np.minimum(np.maximum(cells.astype(np.int64), 0), len(scores) - 1)
    score = scores[cells].astype(np.float64)
    score = score + (observations * weights["slopes"]).sum(axis=-1)
    excess = score[..., None] - weights["bars"]
    # `np.clip` takes three times as long for one case, and twenty voters climb for each.
    excess = np.minimum(np.maximum(excess, NOT_ALLOWED), -NOT_ALLOWED)
    if "tie_chance" in weights:
        hair = TIE * (float(weights["tie_chance"]) - 0.5)
        excess = np.where(np.abs(excess) < TIE, hair, excess)
    if "delay_bars" in weights:
        return _value_delays(weights, observations, excess)
    climbed = _climb(excess)
    values = np.empty_like(climbed)
    values[..., weights["rungs"]] = climbed
    return values


def _climb(excess: np.ndarray) -> np.ndarray:
    """Sums (..., n + 1) over what is exceeded (..., n), from nothing on; at a bar is below it."""
    strict = np.where(excess > 0, excess, np.minimum(excess, JUST_BELOW))
    start = np.zeros((*excess.shape[:-1], 1))
    return np.concatenate([start, np.cumsum(strict, axis=-1)], axis=-1)


def _value_delays(weights: Weights, observations: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """Values (..., n_actions): 0 to close, then each delay; the best one is as good as its excess.

    `excess` (..., n_actions - 1) is that of the score over the one bar of a revisit, first.
    """
    load = (observations * weights["delay_slopes"]).sum(axis=-1)
    delays = _climb(load[..., None].astype(np.float64) - weights["delay_bars"])
    behind = delays - delays.max(axis=-1, keepdims=True)
    values = np.full((*excess.shape[:-1], excess.shape[-1] + 1), NOT_ALLOWED)
    values[..., 0] = 0.0
    values[..., 1 : 1 + behind.shape[-1]] = excess[..., :1] + behind
    return values


def mask_category_numpy(
    category_values: np.ndarray, action_values: np.ndarray, categories: np.ndarray
) -> np.ndarray:
    """Values of the actions (..., n_actions) of the best category; the others are not allowed."""
    best = category_values.argmax(axis=-1)
    return np.where(best[..., None] == categories, action_values, NOT_ALLOWED)


def hash_factors(n_features: int) -> np.ndarray:
    """Odd factors (n_features,) that mix the cells of an observation; the same everywhere."""
    return np.random.default_rng(311).integers(0, 2**31, n_features, np.uint32) * np.uint32(
        2
    ) + np.uint32(1)


def part_of(weights: Mapping[str, Values], name: str) -> dict[str, Values]:
    """One part of a policy: the arrays whose names begin with it, without the prefix."""
    prefix = f"{name}/"
    return {key[len(prefix) :]: value for key, value in weights.items() if key.startswith(prefix)}
