"""What an adapter plays: a domain, its params and how its reward is told."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.domains import get_domain
from parity311.errors import InputError, unknown_name
from parity311.estimation.world import ESTIMATOR, params_for
from parity311.mdp.contract import EQUITY, N_REWARDS, REWARD_NAMES
from parity311.mdp.harness import Advance, Harness, Playable, Step

REWARDS = ("published", "saved")
"""What an environment can pay: the reward that tables report, or what the action saved, which is
the same objective less what no action can change, and easier to learn from."""


def make_setting(
    domain: str,
    *,
    params: Any = None,
    records: str | Path | None = None,
    until: date | None = None,
    preference: Sequence[float] | None = None,
    observation_set: str = "",
    action_set: str = "published",
    equity_mode: str = "dual",
    max_steps: int = 0,
    estimator: str = ESTIMATOR,
    renamed: tuple[str, str] | None = None,
) -> Playable:
    """Look the domain up and check what was given before anything is compiled.

    Parameters
    ----------
    params
        Of the decision process; the domain's example if neither these nor records are given.
    records
        Folder of records from which params are estimated.
    until
        Day before which records are read; all of them if not given.
    preference
        Weights of speed, cost, equity and retention; the domain's own if not given. Only with a
        weight on equity does the policy see its coverage feature.
    estimator
        How complaints become incidents, where params are estimated from records.
    renamed
        Former and present id, where an environment was asked for by the former one.
    """
    if renamed is not None:
        # For whoever wrote the id, wherever it is made: a DeprecationWarning would not be shown.
        warnings.warn(
            f"{renamed[0]} was given; the environment is now {renamed[1]}, numbered as its domain. "
            "The former id goes with 0.2: write the present one.",
            FutureWarning,
            stacklevel=3,
        )
    chosen = get_domain(domain)
    play = chosen.play
    if params is None:
        folder = None if records is None else Path(records)
        params = params_for(chosen, folder, until, estimator)
    elif not isinstance(params, play.params_type):
        raise InputError(
            f"Params of domain {domain!r} must be a {play.params_type.__module__}."
            f"{play.params_type.__name__}, not a {type(params).__name__}; get them from "
            "domain.estimate(...) or domain.play.example()."
        )
    weights = check_preference(chosen.preference if preference is None else preference)
    harness = Harness(
        chosen,
        observation_set=observation_set,
        action_set=action_set,
        equity_mode=equity_mode,
        max_steps=max_steps,
    )
    equity = harness.equity_params(params, is_visible=float(weights[EQUITY] > 0))
    return Playable(harness, params, equity, weights)


def check_preference(preference: Sequence[float]) -> np.ndarray:
    """A preference as an array (4,), or an error that says what one is."""
    weights = np.asarray(preference, np.float32)
    if weights.shape != (N_REWARDS,) or (weights < 0).any() or abs(weights.sum() - 1.0) > 1e-4:
        raise InputError(
            f"Preference {list(preference)} was given; it must have {N_REWARDS} weights "
            f"({', '.join(REWARD_NAMES)}), none negative, that sum to 1."
        )
    return weights


def check_action(action: Any, n_actions: int) -> int:
    """An action as a number, or an error that says which there are."""
    given = np.asarray(action)
    if given.shape != () or given.dtype.kind not in "iu" or not 0 <= given < n_actions:
        raise InputError(
            f"Action {action!s} was given; it must be a whole number from 0 to {n_actions - 1}."
        )
    return int(given)


def check_actions(actions: Any, n: int, n_actions: int) -> np.ndarray:
    """Actions (n,) as numbers, or an error that says which there are."""
    given = np.asarray(actions)
    is_whole = given.shape == (n,) and given.dtype.kind in "iu"
    if not is_whole or (given < 0).any() or (given >= n_actions).any():
        raise InputError(
            f"Actions of shape {given.shape} and type {given.dtype} were given; they must be {n} "
            f"whole numbers from 0 to {n_actions - 1}."
        )
    return given.astype(np.int32)


def check_reward(kind: str) -> str:
    """A kind of reward, or an error that says which there are."""
    if kind not in REWARDS:
        raise unknown_name("kind of reward", kind, REWARDS)
    return kind


def reward_vector(moved: Advance | Step, kind: str) -> jax.Array:
    """Reward (4,) of a step in one of `REWARDS`; its equity component is what the step earned."""
    if kind == "saved":
        return moved.reward
    is_equity = jnp.arange(N_REWARDS) == EQUITY
    return jnp.where(is_equity, moved.reward, moved.tally.published_reward)
