"""Support: whether the log says anything about what the target policy would do.

An estimate for actions that nobody took is an extrapolation, whatever its interval says. Two
checks, because either can be blind: counts of each action per kind of case need no propensities;
the mean importance ratio, 1 where support holds, needs no cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.evaluation.off_policy.cells import Binning, count_by_cell
from parity311.evaluation.off_policy.logs import Logs
from parity311.evaluation.off_policy.weights import excess_mass

MIN_COUNT = 20
"""Decisions of an action in a kind of case that support needs (the paper's backtests ask for 1,
which one slip of a pen provides; `--support-min-count 1` is theirs)."""
MIN_SHARE = 0.95
"""Share of the target's actions that must have support (assumed: with less, what is unknown is no
longer small beside an interval)."""
MASS_TOLERANCE = 0.02
"""Missing mass that is not worth a refusal (assumed: a fifth of the exploration of the log)."""
MASS_ERRORS = 3.0
"""Standard errors by which missing mass must stand out."""


@dataclass(frozen=True)
class Support:
    """What a log says about a target policy; (L,) arrays."""

    share: np.ndarray
    """share of the target's actions with `min_count` decisions on record"""
    missing_mass: np.ndarray
    """share of the target's actions that the weights do not account for"""
    mass_error: np.ndarray
    min_count: int

    @property
    def lacks_counts(self) -> np.ndarray:
        """(L,) bool: too many of the target's actions were hardly ever taken."""
        return self.share < MIN_SHARE

    @property
    def lacks_mass(self) -> np.ndarray:
        """(L,) bool: the weights do not add up to one, by more than chance."""
        return self.missing_mass > MASS_TOLERANCE + MASS_ERRORS * self.mass_error

    @property
    def is_refused(self) -> np.ndarray:
        """(L,) bool: no estimator should be believed."""
        return self.lacks_counts | self.lacks_mass

    def reason(self, log: int = 0) -> str:
        """Why a log is refused, in a sentence; empty where it is not."""
        if self.lacks_counts[log]:
            return (
                f"only {self.share[log]:.0%} of the policy's actions were taken at least "
                f"{self.min_count} times in cases of the same kind; {MIN_SHARE:.0%} are needed"
            )
        if self.lacks_mass[log]:
            return (
                f"{self.missing_mass[log]:.0%} of the policy's actions are ones that the logging "
                "policy does not take"
            )
        return ""


def count_support(
    logs: Logs, cells: Binning, target: np.ndarray, min_count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Share of the target's actions with support (L,), and which are supported (L, E, T, A)."""
    cell = cells.place(logs.observation)
    counts = count_by_cell(cell, logs.action, logs.is_live, cells.n_cells, logs.n_actions)
    log = np.arange(len(cell)).reshape(-1, 1, 1)
    is_supported = counts[log, cell] >= min_count
    wanted = (target * is_supported).sum(axis=-1) * logs.is_live
    n = np.maximum(logs.is_live.sum(axis=(1, 2)), 1)
    return wanted.sum(axis=(1, 2)) / n, is_supported


def measure_support(
    logs: Logs, cells: Binning, target: np.ndarray, ratios: np.ndarray, min_count: int = MIN_COUNT
) -> Support:
    """Both checks of a target policy on its logs."""
    share, _ = count_support(logs, cells, target, min_count)
    excess, error = excess_mass(ratios, logs.is_live)
    return Support(share, -excess, error, min_count)


def hold_to_support(
    logs: Logs, cells: Binning, target: np.ndarray, min_count: int = MIN_COUNT
) -> np.ndarray:
    """The target held to actions with support, (L, E, T, A): the support-constrained policy.

    What it would do without support goes to its supported actions in proportion; where it has
    none it does what is on record for such cases.
    """
    _, is_supported = count_support(logs, cells, target, min_count)
    kept = target * is_supported
    total = kept.sum(axis=-1, keepdims=True)
    cell = cells.place(logs.observation)
    counts = count_by_cell(cell, logs.action, logs.is_live, cells.n_cells, logs.n_actions)
    log = np.arange(len(cell)).reshape(-1, 1, 1)
    here = counts[log, cell].astype(np.float64)
    usual = here / np.maximum(here.sum(axis=-1, keepdims=True), 1.0)
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), usual)
