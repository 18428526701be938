"""Exact Shapley values of a policy's scores, by masks.

Three ways to the same numbers, chosen by what the policy and the rows are: a look-up table where
features take few values (every state is scored once), a compiled network whose first layer is
shared between coalitions, and any function at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.agents.forward import COVERS, SAVES, part_of
from parity311.errors import unknown_name
from parity311.explain.games import (
    Policy,
    all_masks,
    check_rows,
    is_network,
    is_priced,
    n_layers,
    score_network,
    score_rows,
    shapley_operator,
)

BLOCK_PAIRS = 200
"""Pairs of a row and a background row in one block: at 64 units in double precision its activations
are 0.1 MB, within the nearest caches of a core; blocks of 1,600 took a quarter longer."""
N_THREADS = 2
"""Halves of the coalitions that run at once: one program uses one core, and the project's figures
are for two."""
MAX_STATES = 1 << 20
"""States of the look-up table at most."""
TABLE_GAIN = 4
"""The table is used where it saves this factor in scored observations."""
CALL_ROWS = 1 << 16
"""Rows that a function is handed at once."""
STATE_BLOCK = 2048
"""States of one block: the activations of 64 units in double precision are 1 MB."""
PRECISIONS = ("float64", "float32")


@dataclass(frozen=True)
class Attribution:
    """Shapley values of scores; values sum to scores less base."""

    values: np.ndarray
    """(n, d, n_actions)"""
    base: np.ndarray
    """(n_actions,) mean score of the background."""
    scores: np.ndarray
    """(n, n_actions)"""
    error: np.ndarray | None = None
    """(n, d, n_actions) standard error of a sampled estimate; None where nothing was sampled."""

    def of_margin(self, action: int, other: int) -> np.ndarray:
        """(n, d) values of the difference between two actions' scores."""
        return self.values[:, :, action] - self.values[:, :, other]

    def centred(self) -> Attribution:
        """The same for scores less their mean over actions: what speaks for each action."""
        return Attribution(
            self.values - self.values.mean(axis=2, keepdims=True),
            self.base - self.base.mean(),
            self.scores - self.scores.mean(axis=1, keepdims=True),
        )


def exact_shapley(
    policy: Policy, rows: np.ndarray, background: np.ndarray, *, precision: str = "float64"
) -> Attribution:
    """Exact interventional Shapley values.

    Parameters
    ----------
    policy
        See `games.Policy`; explain action probabilities or scores, never the chosen action.
    rows, background
        (n, d) observations to explain and (m, d) to compare with.
    precision
        float64, or float32 (half the time on a CPU, errors near 1e-6).
    """
    worth = coalition_worth(policy, rows, background, precision=precision)
    values = np.tensordot(shapley_operator(np.shape(rows)[1]), worth, axes=1).transpose(1, 0, 2)
    return Attribution(values, worth[0, 0], worth[-1])


def coalition_worth(
    policy: Policy, rows: np.ndarray, background: np.ndarray, *, precision: str = "float64"
) -> np.ndarray:
    """(2^d, n, n_actions) worth of every coalition for every row."""
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    rows, background = check_rows(rows, background)
    distinct, place = np.unique(rows, axis=0, return_inverse=True)
    others, counts = np.unique(background, axis=0, return_counts=True)
    weights = counts / counts.sum()
    table = _states(distinct, others)
    if table is not None:
        worth = _worth_by_table(policy, table, weights)
    elif isinstance(policy, Mapping):
        worth_of = _worth_of_priced if is_priced(policy) else _worth_of_network
        worth = worth_of(policy, distinct, others, weights, precision)
    else:
        worth = _worth_of_function(policy, distinct, others, weights)
    return worth[:, place.reshape(-1)]


@dataclass(frozen=True)
class _States:
    """All combinations of the features' values, and where rows and background lie among them."""

    values: np.ndarray
    """(n_states, d)"""
    rows: np.ndarray
    """(n, d) index contributions: a row's state is their sum."""
    background: np.ndarray


def _states(rows: np.ndarray, background: np.ndarray) -> _States | None:
    """The table of states, or None where it would be too large to pay."""
    n_rows, d = rows.shape
    together = np.vstack([rows, background])
    levels = [np.unique(column) for column in together.T]
    n_states = float(np.prod([float(len(level)) for level in levels]))
    scored = float(n_rows) * len(background) * 2.0**d
    if n_states > MAX_STATES or n_states * TABLE_GAIN > scored:
        return None
    strides = np.cumprod([1, *(len(level) for level in levels[:-1])])
    codes = np.column_stack(
        [np.searchsorted(level, column) for level, column in zip(levels, together.T, strict=True)]
    )
    place = (codes * strides).astype(np.int32)
    index = (np.arange(int(n_states))[:, None] // strides) % [len(level) for level in levels]
    values = np.column_stack([level[index[:, i]] for i, level in enumerate(levels)])
    return _States(values, place[:n_rows], place[n_rows:])


def _worth_by_table(policy: Policy, states: _States, weights: np.ndarray) -> np.ndarray:
    scores = _score_states(policy, states.values)
    masks = all_masks(states.rows.shape[1]).astype(np.int32)
    inside, outside = masks @ states.rows.T, (1 - masks) @ states.background.T
    with jax.enable_x64(True):
        return np.asarray(_look_up(scores.T, inside, outside, weights))


def _score_states(policy: Policy, states: np.ndarray) -> np.ndarray:
    """Scores (n_states, n_actions); a network is compiled, a function is called in blocks."""
    if not isinstance(policy, Mapping):
        starts = range(0, len(states), CALL_ROWS)
        return np.concatenate([score_rows(policy, states[i : i + CALL_ROWS]) for i in starts])
    n = len(states)
    padded = np.concatenate([states, np.zeros((-n % STATE_BLOCK, states.shape[1]))])
    blocks = padded.reshape(-1, STATE_BLOCK, states.shape[1])
    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(values, "float64") for name, values in policy.items()}
        scores = np.asarray(_network_scores(arrays, blocks))
    return scores.reshape(len(padded), -1)[:n]


@jax.jit
def _network_scores(network: dict[str, jax.Array], blocks: jax.Array) -> jax.Array:
    return jax.lax.map(lambda rows: score_network(network, rows), blocks)


@jax.jit
def _look_up(
    scores: jax.Array, inside: jax.Array, outside: jax.Array, weights: jax.Array
) -> jax.Array:
    """Weighted means of looked-up scores (n_actions, n_states): (2^d, n, n_actions)."""

    def one_mask(places: tuple[jax.Array, jax.Array]) -> jax.Array:
        index = places[0][:, None] + places[1][None, :]
        return jnp.einsum("anb,b->na", scores[:, index], weights)

    return jax.lax.map(one_mask, (inside, outside))


def _worth_of_priced(
    network: Mapping[str, Any],
    rows: np.ndarray,
    background: np.ndarray,
    weights: np.ndarray,
    precision: str,
) -> np.ndarray:
    """Coalitions of two networks, the second times the price, which is the last feature.

    Where the price is in the coalition it is the row's own, and a factor; where not, it is that of
    each background row, whose weight it becomes. Its bit is the highest, so halves are one each.
    """

    def worth_of(part: str, weights: np.ndarray) -> np.ndarray:
        own = part_of(network, part)
        return _worth_of_network(own, rows[:, :-1], background[:, :-1], weights, precision)

    saves, covers = worth_of(SAVES, weights), worth_of(COVERS, weights)
    without = worth_of(COVERS, weights * background[:, -1])
    return np.concatenate([saves + without, saves + rows[:, -1:] * covers])


def _worth_of_network(
    network: Mapping[str, Any],
    rows: np.ndarray,
    background: np.ndarray,
    weights: np.ndarray,
    precision: str,
) -> np.ndarray:
    n = len(rows)
    block = min(max(BLOCK_PAIRS // len(background), 1), n)
    padded = np.concatenate([rows, np.repeat(rows[-1:], -n % block, axis=0)])
    blocks = padded.reshape(-1, block, rows.shape[1])
    masks = all_masks(rows.shape[1])

    def one_part(part: np.ndarray) -> np.ndarray:
        with jax.enable_x64(precision == "float64"):  # holds in this thread only
            arrays = {name: jnp.asarray(values, precision) for name, values in network.items()}
            worth = _network_worth(
                arrays,
                jnp.asarray(blocks, precision),
                jnp.asarray(background, precision),
                jnp.asarray(weights, precision),
                part,
            )
            return np.asarray(worth, dtype=np.float64)

    parts = np.split(masks, N_THREADS) if len(masks) > N_THREADS else [masks]
    with ThreadPoolExecutor(N_THREADS) as pool:
        return np.concatenate(list(pool.map(one_part, parts)))[:, :n]


@jax.jit
def _network_worth(
    network: dict[str, jax.Array],
    blocks: jax.Array,
    background: jax.Array,
    weights: jax.Array,
    masks: jax.Array,
) -> jax.Array:
    """Worth of every mask; blocks are (n_blocks, block, d).

    The first layer is linear, so a row's part and a background row's part are computed once and
    added; the last layer is linear too, so it follows the mean. Weights may sum to anything.
    """
    last = n_layers(network) - 1
    first, bias = network["weight_0"], network["bias_0"]

    def one_mask(mask: jax.Array) -> jax.Array:
        others = jnp.where(mask, 0.0, background) @ first

        def one_block(rows: jax.Array) -> jax.Array:
            own = jnp.where(mask, rows, 0.0) @ first + bias
            hidden = own[:, None, :] + others[None, :, :]
            shape = hidden.shape
            hidden = hidden.reshape(-1, shape[-1])
            for layer in range(1, last):
                hidden = jax.nn.relu(hidden) @ network[f"weight_{layer}"]
                hidden = hidden + network[f"bias_{layer}"]
            if last > 0:
                hidden = jax.nn.relu(hidden)
            mean = (hidden.reshape(*shape[:2], -1) * weights[:, None]).sum(axis=1)
            if last > 0:
                mean = mean @ network[f"weight_{last}"] + network[f"bias_{last}"] * weights.sum()
            return mean

        worth = jax.lax.map(one_block, blocks)
        return worth.reshape(-1, worth.shape[-1])

    return jax.lax.map(one_mask, masks)


def _worth_of_function(
    policy: Policy, rows: np.ndarray, background: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Any function: it is handed observations in blocks and may be NumPy, JAX or neither."""
    masks = all_masks(rows.shape[1])
    per_call = max(1, CALL_ROWS // (len(background) * len(rows)))
    parts = []
    for start in range(0, len(masks), per_call):
        chosen = masks[start : start + per_call, None, None, :]
        mixed = np.where(chosen, rows[None, :, None, :], background[None, None, :, :])
        scores = score_rows(policy, mixed.reshape(-1, rows.shape[1]))
        parts.append(np.einsum("mnba,b->mna", scores.reshape(*mixed.shape[:3], -1), weights))
    return np.concatenate(parts)


__all__ = ["Attribution", "coalition_worth", "exact_shapley", "is_network"]
