"""Logged decisions as arrays: what was seen, what was done, with what chance, and what came of it.

Every array leads with (logs, episodes, steps), so that two hundred synthetic logs are estimated
in the same calls as one real log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from parity311.errors import InputError, RecordsError
from parity311.mdp.contract import N_REWARDS, N_STRATA, NOBODY, REWARD_NAMES, STRATUM_NAMES

OVERALL = "overall"
"""Name of the outcome that adds up all strata."""


@dataclass(frozen=True)
class Logs:
    """Logs of equal size; (L, E, T) are logs, episodes of a log, steps of an episode."""

    observation: np.ndarray
    """(L, E, T, n_features)"""
    action: np.ndarray
    """(L, E, T) int"""
    propensity: np.ndarray
    """(L, E, T) chance that the logging policy gave its action; NaN where it was not logged"""
    outcome: np.ndarray
    """(L, E, T, K) what is added up over an episode"""
    is_live: np.ndarray
    """(L, E, T) bool: the decision was made, the episode had not ended before"""
    outcome_names: tuple[str, ...]
    n_actions: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Logs, episodes, steps."""
        n_logs, n_episodes, n_steps = self.action.shape
        return n_logs, n_episodes, n_steps

    @property
    def has_propensities(self) -> bool:
        """Whether every decision carries the chance it was made with."""
        return bool(np.isfinite(self.propensity[self.is_live]).all())

    def pick(self, log: int) -> Logs:
        """One log of them, still with its leading axis."""
        return self.take(slice(log, log + 1))

    def take(self, logs: slice | np.ndarray) -> Logs:
        """Some of the logs."""
        return replace(
            self,
            observation=self.observation[logs],
            action=self.action[logs],
            propensity=self.propensity[logs],
            outcome=self.outcome[logs],
            is_live=self.is_live[logs],
        )


def outcomes_by_stratum(reward: np.ndarray, stratum: np.ndarray) -> np.ndarray:
    """Rewards (..., ) of decisions as (..., 1 + 6): all of them, then those of each stratum.

    Decisions about nobody in particular (`NOBODY`) count only in the first.
    """
    groups = stratum[..., None] == np.arange(N_STRATA)
    return np.concatenate([reward[..., None], reward[..., None] * groups], axis=-1)


STRATIFIED_NAMES = (OVERALL, *STRATUM_NAMES)


def read_log(path: Path, preference: np.ndarray) -> tuple[Logs, tuple[str, ...]]:
    """Read one log from Parquet as `parity311.adapters.datasets.write_parquet` writes it.

    Parameters
    ----------
    preference
        (4,) weights of speed, cost, equity and retention.

    Returns
    -------
    The log, and the names of its features. A column `stratum` is optional; without it there are
    only overall values. Episodes must be equally long.
    """
    columns = _read_columns(path)
    names = tuple(
        name[len("observation_") :] for name in columns if name.startswith("observation_")
    )
    needed = ["episode", "step", "action", *(f"reward_{name}" for name in REWARD_NAMES)]
    missing = [name for name in needed if name not in columns]
    if missing or not names:
        raise RecordsError(
            f"{path} lacks {', '.join(missing) or 'observation columns'}; a log has episode, step, "
            "observation_…, action, propensity and reward_… as `log_decisions` writes them."
        )
    order = np.lexsort((columns["step"], columns["episode"]))
    _, counts = np.unique(columns["episode"], return_counts=True)
    if len(set(counts.tolist())) != 1:
        raise RecordsError(
            f"Episodes of {path} have {counts.min()} to {counts.max()} decisions; they must be "
            "equally long, cut or pad them."
        )
    shape = (1, len(counts), int(counts[0]))

    def laid_out(name: str) -> np.ndarray:
        return np.asarray(columns[name], np.float64)[order].reshape(shape)

    reward = sum(preference[i] * laid_out(f"reward_{REWARD_NAMES[i]}") for i in range(N_REWARDS))
    stratum = laid_out("stratum").astype(np.int64) if "stratum" in columns else None
    outcome = (
        np.asarray(reward)[..., None]
        if stratum is None or (stratum == NOBODY).all()
        else outcomes_by_stratum(np.asarray(reward), stratum)
    )
    action = laid_out("action").astype(np.int64)
    allowed = columns.get("is_allowed")
    n_actions = len(allowed[0]) if allowed is not None else int(action.max()) + 1
    log = Logs(
        observation=np.stack([laid_out(f"observation_{name}") for name in names], axis=-1),
        action=action,
        propensity=laid_out("propensity") if "propensity" in columns else np.full(shape, np.nan),
        outcome=outcome,
        is_live=_live(laid_out("terminated") if "terminated" in columns else np.zeros(shape)),
        outcome_names=STRATIFIED_NAMES[: outcome.shape[-1]],
        n_actions=n_actions,
    )
    check_log(log)
    return log, names


def _read_columns(path: Path) -> dict[str, np.ndarray]:
    try:
        table = pq.read_table(path)
    except (OSError, ValueError) as error:
        raise RecordsError(
            f"Cannot read the log {path} ({' '.join(str(error).split())}); give the Parquet file "
            "that `log_decisions` wrote."
        ) from error
    return {
        name: table[name].combine_chunks().to_numpy(zero_copy_only=False)
        for name in table.column_names
    }


def _live(terminated: np.ndarray) -> np.ndarray:
    """Decisions up to and with the one that ended an episode."""
    before = np.cumsum(terminated > 0, axis=-1) - (terminated > 0)
    return before == 0


def check_log(log: Logs) -> None:
    """Refuse a log whose propensities or actions cannot be what they say they are."""
    known = log.propensity[np.isfinite(log.propensity)]
    if known.size and (known.min() <= 0.0 or known.max() > 1.0 + 1e-6):
        raise InputError(
            f"Propensities lie between {known.min():.4g} and {known.max():.4g}; the chance of an "
            "action that was taken is above 0 and at most 1."
        )
    if log.action.min() < 0 or log.action.max() >= log.n_actions:
        raise InputError(
            f"Actions run from {log.action.min()} to {log.action.max()}; this log has "
            f"{log.n_actions} of them, numbered from 0."
        )
