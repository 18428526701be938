"""Rules that any learned policy must face, as policies with the same signature as an agent's.

A policy is called as decide(key, observation (n_features,)) -> action (), and its numbers are data
(`jax.tree_util.Partial`), so that one compiled program can run it with other numbers. Where steps
are independent and the choice is between two actions, a rule is a margin and a threshold, and the
threshold is what holds it to the capacity of the inspectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from parity311.arrays import jax, jitted, jnp
from parity311.errors import InputError
from parity311.mdp.contract import Policy
from parity311.mdp.equity import FEATURE_SCALE
from parity311.mdp.harness import Harness

PRICE_GAIN = 1.0
"""Log odds that one unit of coverage price is worth to the rules that follow prices."""


class CaseTable(NamedTuple):
    """All cases of a domain whose steps are independent: NumPy arrays over n cases."""

    features: np.ndarray
    """(n, n_names) in the order of the domain's observation_names"""
    levels: tuple[int, ...]
    """number of values of each feature, evenly spaced from 0 to 1"""
    stratum: np.ndarray
    """(n,)"""
    is_actionable: np.ndarray
    """(n,) 0 or 1"""
    capacity_share: float
    """visits per case that can be made"""
    reported_share: np.ndarray
    """(6,) share of a stratum's actionable incidents that are among the cases at all"""

    @property
    def need(self) -> np.ndarray:
        """Actionable incidents behind these cases, reported or not, by stratum (6,)."""
        counts = np.bincount(self.stratum, self.is_actionable, minlength=len(self.reported_share))
        return counts / np.maximum(self.reported_share, 1e-9)


@runtime_checkable
class NumberedRule(Protocol):
    """A rule that is nothing but numbers, so that NumPy can follow it."""

    def arrays(self, harness: Harness) -> dict[str, np.ndarray]:
        """The rule as named arrays, as `agents.forward` scores them."""
        ...


def rule_arrays(policy: Any, harness: Harness) -> dict[str, np.ndarray]:
    """A rule of thumb as named arrays: what `agents.forward.score_actions_numpy` decides by.

    Parameters
    ----------
    policy
        What one of the domain's `heuristics` made, or its plan.
    harness
        Says how many features the rule sees and how many actions it has.
    """
    if isinstance(policy, NumberedRule):
        return policy.arrays(harness)
    function = policy.func if isinstance(policy, jax.tree_util.Partial) else None
    if function is _decide_constant:
        is_taken = np.arange(harness.n_actions) == int(policy.args[0])
        nothing = np.zeros((harness.n_features, harness.n_actions), np.float32)
        return {"weight_0": nothing, "bias_0": is_taken.astype(np.float32)}
    if function is _decide_at_random:
        raise InputError(
            "A rule that throws dice is not served: nobody could say why a case was chosen; give "
            "a rule that decides by what it sees."
        )
    raise InputError(
        "This policy is no rule of thumb that can be written as numbers; train an agent and save "
        "it, or give one of the domain's heuristics."
    )


def ladder_arrays(
    slopes: Any,
    bars: Any,
    n_actions: int,
    *,
    rungs: Sequence[int] = (),
    strides: Any = None,
    offset: Any = 0.0,
    cell_scores: Any = 0.0,
) -> dict[str, np.ndarray]:
    """A score of what is seen and rising bars, the strongest action whose bar it exceeds taken.

    Parameters
    ----------
    slopes
        (n_features,) what each feature adds to the score.
    bars
        (at most n_actions - 1,) of the actions beyond the mildest; what is missing is never taken.
    rungs
        Actions from the mildest to the strongest; in their own order if empty.
    strides, offset, cell_scores
        (n_features,), () and (n_cells,): the cell of an observation, and what it adds to the score.
    """
    # In order, because a rule counts the bars its score exceeds, whichever they are.
    rising = np.sort(np.asarray(bars, np.float32).reshape(-1))
    never = np.full(n_actions - 1 - len(rising), np.inf, np.float32)
    first = list(rungs)
    rest = [action for action in range(n_actions) if action not in first]
    return {
        "slopes": np.asarray(slopes, np.float32),
        "bars": np.concatenate([rising, never]),
        "rungs": np.array(first + rest, np.int32),
        "strides": np.zeros(len(slopes), np.float32) if strides is None else np.asarray(strides),
        "offset": np.asarray(offset, np.float32),
        "cell_scores": np.asarray(cell_scores, np.float32).reshape(-1),
    }


class Threshold(NamedTuple):
    """Take action 1 where the margin exceeds a threshold; at the threshold, with a chance."""

    margin: jax.tree_util.Partial
    """margin(observation) -> ()"""
    threshold: jax.Array
    tie_chance: jax.Array

    def __call__(self, key: jax.Array, observation: jax.Array) -> jax.Array:
        """Decide."""
        excess = self.margin(observation) - self.threshold
        is_tie = jnp.abs(excess) < 1e-5
        chance = jnp.where(is_tie, self.tie_chance, (excess > 0).astype(jnp.float32))
        return (jax.random.uniform(key) < chance).astype(jnp.int32)

    def arrays(self, harness: Harness) -> dict[str, np.ndarray]:
        """The rule as named arrays; at the threshold it takes the likelier action."""
        numbers = _margin_arrays(self.margin, harness.n_features)
        found = ladder_arrays(bars=self.threshold, n_actions=harness.n_actions, **numbers)
        return found | {"tie_chance": np.asarray(self.tie_chance, np.float32)}


def always(action: int) -> Policy:
    """The same action every time."""
    return jax.tree_util.Partial(_decide_constant, jnp.int32(action))


def _decide_constant(action: jax.Array, key: jax.Array, observation: jax.Array) -> jax.Array:
    del key, observation
    return action


def at_random(chances: np.ndarray) -> Policy:
    """An action drawn with these chances, whatever is observed."""
    return jax.tree_util.Partial(_decide_at_random, jnp.cumsum(jnp.asarray(chances, jnp.float32)))


def _decide_at_random(cumulative: jax.Array, key: jax.Array, observation: jax.Array) -> jax.Array:
    del observation
    level = jax.random.uniform(key) * cumulative[-1]
    return (cumulative[:-1] < level).sum().astype(jnp.int32)


def hold_to_share(margins: np.ndarray, share: float) -> tuple[float, float]:
    """Threshold and chance at the threshold with which this share of the margins is taken."""
    if share >= 1.0:
        return -np.inf, 1.0
    ordered = np.sort(margins)[::-1]
    wanted = share * len(ordered)
    threshold = float(ordered[min(int(wanted), len(ordered) - 1)])
    is_tie = np.abs(margins - threshold) < 1e-5
    n_above = float(((margins > threshold) & ~is_tie).sum())
    return threshold, float(np.clip((wanted - n_above) / max(is_tie.sum(), 1), 0.0, 1.0))


def hold_margin(margin: jax.tree_util.Partial, observations: np.ndarray, share: float) -> Threshold:
    """Rule that takes action 1 on this share of the observations (n, n_features)."""
    n_rows = len(observations)
    # Filled up, so that tables of about the same length share a program.
    filled = np.zeros((1 << (max(n_rows, 1) - 1).bit_length(), observations.shape[1]), np.float32)
    filled[:n_rows] = observations
    margins = np.asarray(_margins(margin, filled))[:n_rows]
    threshold, tie_chance = hold_to_share(margins, share)
    return Threshold(margin, jnp.float32(threshold), jnp.float32(tie_chance))


@jitted()
def _margins(margin: jax.tree_util.Partial, observations: np.ndarray) -> jax.Array:
    """Margin of every row (n, n_features), in one program where each step would be one."""
    return jax.vmap(margin)(observations)


def feature_margin(column: int) -> jax.tree_util.Partial:
    """Margin that is one feature: those that have it come first, the rest as they came."""
    return jax.tree_util.Partial(_feature_margin, jnp.int32(column))


def _feature_margin(column: jax.Array, observation: jax.Array) -> jax.Array:
    return observation[column]


def linear_margin(weights: Sequence[float]) -> jax.tree_util.Partial:
    """Margin that adds up features with these weights (n_features,)."""
    return jax.tree_util.Partial(_linear_margin, jnp.asarray(weights, jnp.float32))


def _linear_margin(weights: jax.Array, observation: jax.Array) -> jax.Array:
    return jnp.dot(weights, observation)


def cell_margin(
    levels: tuple[int, ...], log_odds: np.ndarray, price_gain: float = 0.0
) -> jax.tree_util.Partial:
    """Margin from a table of log odds over all values of the features.

    Parameters
    ----------
    levels
        Number of values of each feature but the last, which is the coverage price.
    log_odds
        (product of levels,) log odds of being actionable.
    price_gain
        What one unit of coverage price adds to the log odds; 0 for a rule blind to equity.
    """
    strides = np.cumprod((1, *levels[:0:-1]))[::-1]
    return jax.tree_util.Partial(
        _cell_margin,
        jnp.asarray(strides * (np.asarray(levels) - 1), jnp.float32),
        jnp.asarray(log_odds, jnp.float32),
        jnp.float32(price_gain / FEATURE_SCALE),
    )


def cell_strides(levels: tuple[int, ...]) -> np.ndarray:
    """Cells that one level more of each feature is away."""
    return np.cumprod((1, *levels[:0:-1]))[::-1]


def cell_index(levels: tuple[int, ...], features: np.ndarray) -> np.ndarray:
    """Cell of each row of features (n, n_features without the coverage price)."""
    whole = np.rint(features * (np.asarray(levels) - 1)).astype(np.int64)
    return whole @ cell_strides(levels)


def _cell_margin(
    weights: jax.Array, log_odds: jax.Array, gain: jax.Array, observation: jax.Array
) -> jax.Array:
    cell = jnp.rint(jnp.dot(observation[:-1], weights)).astype(jnp.int32)
    return log_odds[cell] + gain * observation[-1]


def _margin_arrays(margin: jax.tree_util.Partial, n_features: int) -> dict[str, Any]:
    """Arguments of `ladder_arrays` that make a margin of one of the kinds above."""
    numbers = [np.asarray(one) for one in jax.tree.leaves(margin.args)]
    if margin.func is _feature_margin:
        return {"slopes": np.arange(n_features) == numbers[0]}
    if margin.func is _linear_margin:
        return {"slopes": numbers[0]}
    if margin.func is _cell_margin:
        weights, log_odds, gain = numbers
        slopes = np.append(np.zeros(len(weights), np.float32), gain)
        return {"slopes": slopes, "strides": np.append(weights, 0.0), "cell_scores": log_odds}
    raise InputError(
        "A threshold on what an agent has learned is saved with the agent; give a rule of thumb."
    )


BAR_SHARES = (0.25, 0.4, 0.6, 0.8, 1.0)
"""Shares of the complaints above the bar among which a queue rule is chosen."""


class QueueRule(NamedTuple):
    """Inspect (0) above a bar that rises with the queue, batch (1) just below it, else defer (2).

    The score is linear in what the policy sees, the coverage price included.
    """

    weights: jax.Array
    """(n_features,) log odds per unit of each feature"""
    bar: jax.Array
    queue_weights: jax.Array
    """(n_features,) by how much the queue raises the bar"""
    band: jax.Array
    """width of the scores below the bar that are batched; a wide one batches all the rest"""

    def __call__(self, key: jax.Array, observation: jax.Array) -> jax.Array:
        """Decide."""
        del key
        excess = jnp.dot(self.weights - self.queue_weights, observation) - self.bar
        return jnp.where(excess > 0, 0, jnp.where(excess > -self.band, 1, 2)).astype(jnp.int32)

    def arrays(self, harness: Harness) -> dict[str, np.ndarray]:
        """The rule as named arrays."""
        bar, band = np.asarray(self.bar), np.asarray(self.band)
        slopes = np.asarray(self.weights - self.queue_weights)
        return ladder_arrays(slopes, [bar - band, bar], harness.n_actions, rungs=(2, 1, 0))


def queue_rules(
    weights: np.ndarray, queue_column: int, scores: np.ndarray, shares: np.ndarray
) -> list[QueueRule]:
    """Candidates to choose from: bars at several shares of the scores, with and without batching.

    Parameters
    ----------
    weights
        (n_features,) of the score.
    queue_column
        Which feature is the length of the queue.
    scores, shares
        (n,) scores of the kinds of complaint that arrive, and how often each does.
    """
    order = np.argsort(-scores)
    cumulative = np.cumsum(shares[order]) / shares.sum()
    rules = []
    for wanted in BAR_SHARES:
        bar = scores[order][min(np.searchsorted(cumulative, wanted - 1e-9), len(order) - 1)]
        for slope in (0.0, 2.0):
            for band in (0.0, 1.5, 20.0):
                queue_weights = np.zeros(len(weights))
                queue_weights[queue_column] = slope
                numbers = (weights, bar - 1e-4, queue_weights, band)
                rules.append(QueueRule(*(jnp.asarray(x, jnp.float32) for x in numbers)))
    return rules
