"""What an adapter plays: a domain, its params and how its reward is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.mdp.contract import EQUITY, N_REWARDS, REWARD_NAMES
from parity311.mdp.equity import EquityParams
from parity311.mdp.harness import Harness


@dataclass(frozen=True)
class Setting:
    """A harness with its params, ready to be stepped."""

    harness: Harness
    params: Any
    equity: EquityParams
    preference: np.ndarray
    """(4,) weights of the scalar reward"""


def make_setting(
    domain: str,
    *,
    params: Any = None,
    records: str | Path | None = None,
    preference: Sequence[float] | None = None,
    observation_set: str = "",
    action_set: str = "published",
    equity_mode: str = "dual",
    max_steps: int = 0,
    estimator: str = "exposure_rate",
) -> Setting:
    """Look the domain up and check what was given before anything is compiled.

    Parameters
    ----------
    params
        Of the decision process; the domain's example if neither these nor records are given.
    records
        Folder of records from which params are estimated.
    preference
        Weights of speed, cost, equity and retention; the domain's own if not given. Only with a
        weight on equity does the policy see its coverage feature.
    estimator
        How complaints become incidents, where params are estimated from records.
    """
    chosen = get_domain(domain)
    play = chosen.play
    if params is None:
        params = play.example() if records is None else _estimate(chosen, Path(records), estimator)
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
    return Setting(harness, params, equity, weights)


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
    number = int(action)
    if not 0 <= number < n_actions:
        raise InputError(f"Action {number} was given; it must be from 0 to {n_actions - 1}.")
    return number


def _estimate(domain: Any, folder: Path, estimator: str) -> Any:
    from parity311.records.store import open_records
    from parity311.reporting.calibration import calibrate

    records = open_records(folder)
    date_from, date_to = records.window
    calibration = calibrate(
        records, domain.slug, date_from=date_from, date_to=date_to, estimator=estimator
    )
    return domain.estimate(records, calibration, date_to)
