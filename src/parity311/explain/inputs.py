"""What an explanation needs of a policy: its network, and observations to explain it by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from parity311.errors import InputError
from parity311.explain.games import check_rows, score_rows


@dataclass(frozen=True)
class ExplainInputs:
    """A policy and the observations that explain it."""

    domain: str
    setting: str
    policy: str
    network: Mapping[str, np.ndarray]
    """weight_0, bias_0 … without an agent axis; or two such networks (`games.Policy`)."""
    feature_names: tuple[str, ...]
    action_names: tuple[str, ...]
    geographic: tuple[str, ...]
    rows: np.ndarray
    """(n, d) observations to explain."""
    background: np.ndarray
    """(m, d) observations to compare with: a choice, kept with the run."""
    tract: np.ndarray
    """(n,) geoid of each row, or the test episode it was seen in: what is resampled whole."""
    severity: np.ndarray
    """(n,) severity code of each row."""
    income_quintile: np.ndarray
    """(n,) 1 … 5; 0 where unknown."""
    complaint_id: np.ndarray
    """(n,)"""
    escalating: tuple[str, ...] = field(default=())
    """Actions that send somebody."""

    def __post_init__(self) -> None:
        rows, _ = check_rows(self.rows, self.background)
        if rows.shape[1] != len(self.feature_names):
            raise InputError(
                f"The rows of {self.policy!r} have {rows.shape[1]} features, its names are "
                f"{len(self.feature_names)}; give one name a column."
            )
        n_outputs = score_rows(self.network, rows[:1]).shape[1]
        if n_outputs != len(self.action_names):
            raise InputError(
                f"The network of {self.policy!r} scores {n_outputs} actions, its names are "
                f"{len(self.action_names)}; give one name an output."
            )
