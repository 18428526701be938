"""The paper's calibration before every training cycle, as one call.

(1) reporting propensity, (2) incidents, (3) strata, (4) the denominators handed to environments and
replay buffers, (5) what the audit needs. The result is cached by a hash of all that went in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import numpy as np

from parity311.records.store import Records
from parity311.reporting.areas import areas_from_records
from parity311.reporting.calibration_cache import (
    CacheInputs,
    load_calibration,
    save_calibration,
)
from parity311.reporting.estimate import check_estimator, estimate
from parity311.reporting.filings import estimate_filings, holds_filings
from parity311.reporting.incidents import INTERVAL, Estimate
from parity311.reporting.lifetimes import Lifetime, estimated
from parity311.reporting.settings import N_DRAWS, Settings
from parity311.reporting.strata import StrataTotals, stratify, total_by_stratum
from parity311.reporting.table import reports_from_records


@dataclass(frozen=True)
class Calibration:
    """What one calibration hands on."""

    domain: str
    estimator: str
    strata: tuple[str, ...]
    """Names of the strata, in the order of the arrays; the last is ``unknown``."""
    stratum_of_area: np.ndarray
    geoid: np.ndarray
    denominators: np.ndarray
    """(n_strata,) estimated incidents per window of 28 days."""
    intervals: np.ndarray
    """(n_strata, 2) 5th and 95th percentile of the joint draws."""
    draws: np.ndarray
    """(n_draws, n_strata) joint draws of the denominators."""
    reported: np.ndarray
    """(n_strata,) reported incidents per window of 28 days: the audit's other denominator."""
    complaints: np.ndarray
    """(n_strata,) complaints per window of 28 days."""
    households: np.ndarray
    """(n_strata,) households: the audit's third denominator."""
    totals: StrataTotals
    estimate: Estimate
    assumptions: str
    """Every assumption in words."""


def calibrate(
    records: Records,
    domain: str,
    *,
    date_from: date | None = None,
    date_to: date | None = None,
    strata: str = "income5",
    estimator: str = "exposure_rate",
    lifetime: Lifetime | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
    cache: Path | None = None,
) -> Calibration:
    """Run the five steps on the records of one domain in [date_from, date_to).

    Parameters
    ----------
    lifetime
        Law of natural lifetimes; estimated from the reports when not given.
    cache
        Folder in which results are kept; none are when not given.

    Notes
    -----
    Where the records are mandatory filings (boilers), need is defective boiler-years and propensity
    is filed over registered boilers, unless ``as_published`` or ``raw`` is asked for.
    """
    check_estimator(estimator)
    date_from = date_from or records.window[0]
    date_to = date_to or records.window[1]
    lifetime = lifetime or estimated()
    key = CacheInputs(
        records=records.fingerprint,
        domain=domain,
        date_from=str(date_from),
        date_to=str(date_to),
        strata=strata,
        estimator=estimator,
        lifetime=asdict(lifetime),
        n_draws=n_draws,
        seed=seed,
    ).key()
    path = cache / f"calibration-{key}.npz" if cache is not None else None
    kept = load_calibration(path, key) if path is not None else None
    if kept is not None:
        return kept
    areas = areas_from_records(records)
    groups = stratify(areas, strata)
    table = reports_from_records(records, domain, areas, date_from=date_from, date_to=date_to)
    if holds_filings(records, domain) and estimator not in ("as_published", "raw"):
        settings = Settings(n_draws=n_draws, seed=seed)
        found = estimate_filings(records, domain, table, areas, settings)
    else:
        found = estimate(
            table, areas, estimator=estimator, lifetime=lifetime, n_draws=n_draws, seed=seed
        )
    totals = total_by_stratum(found, groups, np.random.default_rng(seed + 1))
    draws = totals.draws_per_28_days

    def by_stratum(values: np.ndarray) -> np.ndarray:
        return np.bincount(groups.of_area, values, minlength=len(groups.names))

    result = Calibration(
        domain=domain,
        estimator=found.estimator,
        strata=groups.names,
        stratum_of_area=groups.of_area,
        geoid=areas.geoid,
        denominators=totals.per_28_days,
        intervals=np.percentile(draws, INTERVAL, axis=0).T,
        draws=draws,
        reported=by_stratum(table.incidents_by_window().sum(axis=1)) / totals.windows_28d,
        complaints=by_stratum(table.n_reports.sum(axis=1)) / totals.windows_28d,
        households=by_stratum(areas.households),
        totals=totals,
        estimate=found,
        assumptions=found.assumption,
    )
    if path is not None:
        save_calibration(path, key, result)
    return result
