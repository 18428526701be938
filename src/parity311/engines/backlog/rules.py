"""Policies for domains in which an action is a mode, a category, a depot or a number of crews."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, jnp
from parity311.engines import heuristics
from parity311.errors import InputError
from parity311.mdp.contract import Policy
from parity311.mdp.harness import Harness

Maker = Callable[[Any, Harness], Policy]


class LinearChoice(NamedTuple):
    """Take the action with the highest linear score of what is observed; ties go to the first."""

    weights: jax.Array
    """(n_features, n_actions)"""
    bias: jax.Array
    """(n_actions,)"""

    def __call__(self, key: jax.Array, observation: jax.Array) -> jax.Array:
        """Decide."""
        del key
        return jnp.argmax(observation @ self.weights + self.bias).astype(jnp.int32)

    def arrays(self, harness: Harness) -> dict[str, np.ndarray]:
        """The rule as named arrays: a network of one layer."""
        del harness
        return {"weight_0": np.asarray(self.weights), "bias_0": np.asarray(self.bias)}


def linear_choice(
    harness: Harness,
    weights: dict[tuple[str, str], float],
    bias: dict[str, float] | None = None,
) -> LinearChoice:
    """Rule from weights by (feature, action) and a bias by action; what is not there counts 0.

    Actions without a weight or bias are never chosen.
    """
    features = list(harness.observation_names)
    actions = action_names(harness)
    table = np.zeros((len(features), len(actions)))
    level = np.full(len(actions), -1e6)
    for (feature, action), weight in weights.items():
        if action in actions:
            level[actions.index(action)] = max(level[actions.index(action)], 0.0)
            if feature in features:
                table[features.index(feature), actions.index(action)] += weight
    for action, value in (bias or {}).items():
        if action in actions:
            level[actions.index(action)] = value
    return LinearChoice(jnp.asarray(table, jnp.float32), jnp.asarray(level, jnp.float32))


def action_names(harness: Harness) -> list[str]:
    """Names of the actions a policy has."""
    return [action.name for action in harness.domain.actions_of(harness.action_set)]


@dataclass(frozen=True)
class OneAction:
    """Maker of the rule that always takes one action; something else where there is none such."""

    name: str
    otherwise: str | Maker
    """another action, or the maker of another rule"""

    def __call__(self, params: Any, harness: Harness) -> Policy:
        """Make the rule."""
        names = action_names(harness)
        name = self.name if self.name in names else self.otherwise
        return (
            heuristics.always(names.index(name)) if isinstance(name, str) else name(params, harness)
        )


def play_action(name: str, otherwise: str | Maker) -> OneAction:
    """Maker of the rule that always takes `name`, or `otherwise` where the action set lacks it."""
    return OneAction(name, otherwise)


def stands_in(make: Maker, harness: Harness) -> bool:
    """Whether a rule would take another action than its name says, for want of its own."""
    return isinstance(make, OneAction) and make.name not in action_names(harness)


def check_takes_its_action(rule: str, make: Maker, harness: Harness) -> None:
    """Refuse a rule that stands in for another: kept or judged alone, it would be misnamed."""
    if isinstance(make, OneAction) and stands_in(make, harness):
        raise InputError(
            f"Rule {rule!r} of {harness.domain.slug!r} takes {make.name}, which is none of its "
            f"{harness.action_set} actions ({', '.join(action_names(harness))}); choose another "
            "rule, or the extended actions where they can be chosen (--action-set extended)."
        )


def play_at_random(*left_out: str) -> Maker:
    """Maker of the rule that takes every action alike, but for those left out."""

    def make(params: Any, harness: Harness) -> Policy:
        del params
        chances = [float(name not in left_out) for name in action_names(harness)]
        return heuristics.at_random(np.array(chances))

    return make


def perturbed_choices(
    rule: LinearChoice, n: int, spread: float, rng: np.random.Generator
) -> list[LinearChoice]:
    """The rule and `n` more with normal noise on its weights and bias: where a search looks."""
    found = [rule]
    for _ in range(n):
        noise = spread * rng.standard_normal(rule.weights.shape)
        level = spread * rng.standard_normal(rule.bias.shape)
        found.append(
            LinearChoice(
                rule.weights + jnp.asarray(noise, jnp.float32),
                rule.bias + jnp.asarray(level, jnp.float32),
            )
        )
    return found
