"""One signature for every estimator: reported incidents in, estimated incidents out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parity311.errors import EstimationError, unknown_name
from parity311.reporting.areas import Areas
from parity311.reporting.as_published import as_published
from parity311.reporting.counts import acs_proxy, geometric, lower_bound, raw, zero_truncated
from parity311.reporting.exposure_rate import exposure_rate, exposure_rate_even
from parity311.reporting.incidents import IncidentEstimate, widen
from parity311.reporting.link_quality import check_links
from parity311.reporting.settings import Settings
from parity311.reporting.table import ReportTable


@dataclass(frozen=True)
class Estimator:
    """An estimator by name: a pure function of table, areas and settings."""

    name: str
    meaning: str
    compute: Callable[[ReportTable, Areas, Settings], IncidentEstimate]
    uses_lifetime: bool = False
    is_comparison_only: bool = False
    """Never a default and nothing to fall back to: shown beside others, for what it gets wrong."""
    uses_duplicates: bool = True
    """Whether it reads which reports repeat another; then it is as good as their links."""


LISTED = (
    Estimator(
        "exposure_rate",
        "rate of further reports while open, with a lifetime law (default)",
        exposure_rate,
        uses_lifetime=True,
    ),
    Estimator(
        "exposure_rate_even",
        "the same with one rate for all incidents of a place and pattern",
        exposure_rate_even,
        uses_lifetime=True,
    ),
    Estimator("zero_truncated", "Poisson reports per incident, no exposure", zero_truncated),
    Estimator("geometric", "geometric reports per incident, no exposure", geometric),
    Estimator(
        "acs_proxy",
        "the default where there are duplicates enough, a census proxy fitted to it elsewhere",
        acs_proxy,
        uses_lifetime=True,
    ),
    Estimator("lower_bound", "Chao1: at least this many incidents", lower_bound),
    Estimator(
        "as_published",
        "the paper's 1 - D/C, its proxy and its clip; inverted, for comparison only",
        as_published,
        is_comparison_only=True,
    ),
    Estimator("raw", "complaints counted as they are", raw, uses_duplicates=False),
)
ESTIMATORS = {estimator.name: estimator for estimator in LISTED}
"""Estimators that take seconds; `compare` and `validate` run all of them."""


def _sample_exposure_rate(table: ReportTable, areas: Areas, settings: Settings) -> IncidentEstimate:
    from parity311.reporting.bayes import exposure_rate_bayes

    return exposure_rate_bayes(table, areas, settings)


SAMPLED = {
    "exposure_rate_bayes": Estimator(
        "exposure_rate_bayes",
        "exposure_rate with a spatial (ICAR) tract effect, sampled by NUTS (minutes)",
        _sample_exposure_rate,
        uses_lifetime=True,
    )
}
"""Estimators that take minutes and the extra ``bayes``; run when asked for by name."""
ALL_ESTIMATORS = ESTIMATORS | SAMPLED


def check_estimator(name: str) -> None:
    """Refuse a name that is no estimator's."""
    if name not in ALL_ESTIMATORS:
        raise unknown_name("estimator", name, ALL_ESTIMATORS)


def estimate(
    table: ReportTable, areas: Areas, *, estimator: str = "exposure_rate", **settings
) -> IncidentEstimate:
    """Estimate incidents per area and window from reported incidents.

    Parameters
    ----------
    estimator
        A name of `ALL_ESTIMATORS`.
    settings
        Fields of `Settings`: lifetime, n_draws, seed, covariates, closing_covariates, inspections,
        proxy_of.
    """
    check_estimator(estimator)
    if table.n_incidents == 0:
        raise EstimationError(
            f"There is no reported incident from {table.date_from} to {table.date_to}; widen the "
            "dates."
        )
    given, chosen = Settings(**settings), ALL_ESTIMATORS[estimator]
    if table.links is None or not chosen.uses_duplicates:
        return chosen.compute(table, areas, given)
    check_links(table.links)
    return widen(chosen.compute(table, areas, given), table.links, given.seed)
