"""Policies of others: a function that decides, a package, or a function that learns.

A function gets one observation (n_features,) as NumPy has it and gives the number of an action. It
plays inside our program, on the same episodes as every other policy.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from parity311.errors import InputError
from parity311.evaluation.rollout import Contender
from parity311.mdp.harness import Harness
from parity311.serving.policy import LoadedPolicy, load_policy
from parity311.studies.leaderboard.lanes import Lane

Decide = Callable[[np.ndarray], Any]
Learn = Callable[[Any], Decide]


@dataclass(frozen=True)
class Guest:
    """A policy of somebody else, by the name it was given under."""

    name: str
    decide: Decide | None = None
    learn: Learn | None = None
    package: LoadedPolicy | None = None

    def enter(self, lane: Lane, harness: Harness, learning: Callable[[], Any]) -> Contender:
        """The policy to play; `learning` makes the environment that a learner learns in."""
        if self.package is not None:
            return _enter_package(self.name, self.package, harness)
        if self.learn is not None:
            decide = self.learn(learning())
            if not callable(decide):
                raise InputError(
                    f"{self.name} gave {type(decide).__name__!r}; it must give a function from an "
                    "observation to the number of an action."
                )
            return Contender(self.name, as_policy(decide, harness))
        assert self.decide is not None
        return Contender(self.name, as_policy(self.decide, harness))


def open_policy(text: str) -> Guest:
    """A guest from MODULE:FUNCTION, or from the folder of a package."""
    if Path(text).is_dir():
        return Guest(Path(text).resolve().name, package=load_policy(text))
    return Guest(text, decide=_import_function(text, "a folder of a policy package, or "))


def open_learner(text: str) -> Guest:
    """A guest that learns in every city anew, from MODULE:FUNCTION."""
    return Guest(text, learn=_import_function(text))


def _import_function(text: str, other: str = "") -> Callable[..., Any]:
    """The function that MODULE:FUNCTION names; modules of the current folder are found."""
    match = re.fullmatch(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)", text)
    if match is None:
        raise InputError(
            f"{text!r} was given; name {other}a function as MODULE:FUNCTION, such as mine:decide "
            "for `def decide` in mine.py."
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(match[1]), match[2])
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{text} cannot be imported ({error}); run the command in the folder of that module."
        ) from error
    if not callable(found):
        raise InputError(f"{text} is no function; name one that takes an observation.")
    return found


def as_policy(decide: Decide, harness: Harness) -> Any:
    """A function of NumPy as a policy that compiled programs can ask."""
    kind = jax.ShapeDtypeStruct((), np.int32)
    n_actions = harness.n_actions

    def ask(observation: np.ndarray) -> np.ndarray:
        seen = np.asarray(observation)
        rows = seen.reshape(-1, seen.shape[-1])
        actions = np.array([check_decision(decide(row), n_actions) for row in rows], np.int32)
        return actions.reshape(seen.shape[:-1])

    def policy(nothing: jax.Array, key: jax.Array, observation: jax.Array) -> jax.Array:
        del nothing, key
        return jax.pure_callback(ask, kind, observation, vmap_method="expand_dims")

    # Policies are grouped by their arrays, so that one is needed.
    return Partial(policy, np.zeros((), np.float32))


def check_decision(action: Any, n_actions: int) -> int:
    """The number of an action; what is none is refused."""
    given = np.asarray(action)
    if given.size != 1 or given.dtype.kind not in "iub" or not 0 <= int(given.item()) < n_actions:
        raise InputError(
            f"The policy decided {action!r}; a decision is a whole number from 0 to "
            f"{n_actions - 1}."
        )
    return int(given.item())


def _enter_package(name: str, package: LoadedPolicy, harness: Harness) -> Contender:
    """A package as it was made: it must see and do what the lane shows and allows."""
    domain = package.domain.slug
    if domain != harness.domain.slug:
        raise InputError(
            f"{name} is a policy for {domain!r}; it was entered for {harness.domain.slug!r}. Give "
            f"--domains {domain}."
        )
    own, shown = tuple(package.observation_names), harness.observation_names
    if own != tuple(shown):
        raise InputError(
            f"{name} sees {', '.join(own)}; this lane shows {', '.join(shown)}. Choose the other "
            "--features, or train it on these."
        )
    policy = as_policy(package.decide, harness)
    prices = package.prices if package.is_priced else None
    return Contender(name, policy, prices, is_priced=package.is_priced)
