"""What an estimator is told beside the data."""

from __future__ import annotations

from dataclasses import dataclass, field

from parity311.reporting.inspections import InspectionSample
from parity311.reporting.lifetimes import Lifetime, estimated

N_DRAWS = 200
"""Joint draws by default: the paper's B."""


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
    """Area covariates of the reporting rate; None: those of `areas.COVARIATES` that there are."""
    closing_covariates: tuple[str, ...] = ()
    """Area covariates of the closing rate; they need inspections to be told from reporting."""
    inspections: InspectionSample | None = None
    """What inspections that did not depend on reports found."""
