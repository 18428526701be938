"""How much hangs on the lifetime: the same estimate over plausible mean lifetimes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.reporting.areas import Areas
from parity311.reporting.estimate import SAMPLED, estimate
from parity311.reporting.incidents import INTERVAL, IncidentEstimate
from parity311.reporting.lifetimes import BAND, Lifetime, exponential
from parity311.reporting.settings import Settings
from parity311.reporting.strata import Strata, total_by_stratum
from parity311.reporting.table import ReportTable


@dataclass(frozen=True)
class Band:
    """Strata totals over the whole period at the ends of a range of mean lifetimes."""

    mean_days: tuple[float, float]
    lower: np.ndarray
    """(n_strata,) smallest lower end of the 90 % intervals over the range."""
    upper: np.ndarray
    """(n_strata,) largest upper end."""

    def describe(self) -> str:
        """The band in words."""
        low, high = self.mean_days
        return (
            f"If incidents last {low:.3g} to {high:.3g} days on average, the number of incidents "
            "lies between the ends given; reports alone cannot narrow this down."
        )


def lifetime_band(
    table: ReportTable,
    areas: Areas,
    strata: Strata,
    found: IncidentEstimate,
    settings: Settings,
    *,
    factors: tuple[float, float] = BAND,
) -> Band:
    """Estimate again with the mean lifetime multiplied by each factor.

    The mean is the given one, or the fitted one where it was estimated. With a longer lifetime
    more of the incidents are reported and fewer are missed.
    """
    mean = found.details["mean_lifetime_days"]
    base = settings.lifetime if not settings.lifetime.is_estimated else exponential(mean)
    lower = np.full(len(strata.names), np.inf)
    upper = np.zeros(len(strata.names))
    for factor in factors:
        law: Lifetime = base.scaled(factor)
        again = estimate(
            table,
            areas,
            estimator="exposure_rate" if found.estimator in SAMPLED else found.estimator,
            lifetime=law,
            n_draws=settings.n_draws,
            seed=settings.seed,
            covariates=settings.covariates,
            proxy_of=settings.proxy_of,
            fits=settings.fits,
        )
        draws = total_by_stratum(again, strata, np.random.default_rng(settings.seed)).draws
        low, high = np.percentile(draws.sum(axis=1), INTERVAL, axis=0)
        lower, upper = np.minimum(lower, low), np.maximum(upper, high)
    return Band((mean * min(factors), mean * max(factors)), lower, upper)
