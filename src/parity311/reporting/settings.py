"""What an estimator is told beside the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.reporting.lifetimes import Lifetime, estimated

N_DRAWS = 200
"""Joint draws by default: the paper's B."""


@dataclass(frozen=True)
class InspectionSample:
    """Incidents found by inspection, by area: how many, and how many of them were reported."""

    area: np.ndarray
    n_found: np.ndarray
    n_reported: np.ndarray
    is_complete: bool = False
    """Whether every incident of these areas was found, not a share of them drawn at random."""

    def __post_init__(self) -> None:
        bad = np.flatnonzero((self.n_reported < 0) | (self.n_reported > self.n_found))
        if len(bad):
            row = int(bad[0])
            raise InputError(
                f"Inspection row {row + 1}: {self.n_reported[row]} reported of "
                f"{self.n_found[row]} found; reported must lie between 0 and found."
            )


@dataclass(frozen=True)
class Settings:
    """Settings that every estimator takes; each uses those that concern it."""

    lifetime: Lifetime = field(default_factory=estimated)
    """Law of natural lifetimes."""
    n_draws: int = N_DRAWS
    """Joint draws."""
    seed: int = 0
    """Seed of the draws."""
    covariates: tuple[str, ...] | None = None
    """Area covariates of the reporting rate; None: those of `areas.COVARIATES` that there
    are, and all of a user's own."""
    closing_covariates: tuple[str, ...] = ()
    """Area covariates of the closing rate; they need inspections to be told from reporting."""
    inspections: InspectionSample | None = None
    """What inspections that did not depend on reports found."""
    proxy_of: str = "exposure_rate"
    """Estimator that ``acs_proxy`` is fitted to."""
    fits: dict[Any, Any] | None = field(default=None, compare=False, repr=False)
    """Fits of the same table and areas, kept here as they are made: one that is asked for again is
    not made again, another starts from the first. None: every fit is made from nothing."""
