"""Estimates of the incidents behind complaints, side by side, and the one that is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from parity311.errors import EstimationError, Parity311Error
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.records.store import Records
from parity311.reporting.areas import areas_from_records
from parity311.reporting.calibration import Calibration, calibrate
from parity311.reporting.exposure_rate import WIDE
from parity311.reporting.incidents import INTERVAL
from parity311.reporting.table import reports_from_records

PREFERRED = "exposure_rate"
"""Estimator that is used wherever it can be fitted."""
FALLBACK = "raw"
"""Estimator that needs nothing but complaints: they stand for incidents."""

AS_THEY_ARE = (
    "complaints stand for incidents, as was asked for, and nothing tells what nobody reported"
)
"""Why there is no estimate of incidents where complaints are counted."""

Tell = Callable[[int, int], None]
"""(estimators done, of how many)"""


def correct(
    records: Records,
    domain: str,
    estimators: Sequence[str],
    date_from: date,
    date_to: date,
    *,
    chosen: str = "",
    may_fail: bool = True,
    tell: Tell | None = None,
) -> Correction:
    """Calibrations of the estimators that work on these records, and why others do not.

    ``chosen`` is used instead of the usual one, and must work. Where none may fail, the first one
    is used.
    """
    found: dict[str, Calibration] = {}
    failed: dict[str, str] = {}
    wanted = [*estimators, FALLBACK, chosen] if may_fail else estimators
    names = list(dict.fromkeys(one for one in wanted if one))
    table = None
    for number, name in enumerate(names):
        try:
            if table is None:  # read once, for all of them
                areas = areas_from_records(records)
                table = reports_from_records(
                    records, domain, areas, date_from=date_from, date_to=date_to
                )
            found[name] = calibrate(
                records, domain, date_from=date_from, date_to=date_to, estimator=name, table=table
            )
        except (Parity311Error, np.linalg.LinAlgError) as error:
            if not may_fail:
                raise
            failed[name] = " ".join(str(error).split())
        if tell is not None:
            tell(number + 1, len(names))
    if not may_fail:
        return Correction(found, {}, names[0])
    if chosen in failed:
        raise EstimationError(failed[chosen])
    if PREFERRED not in found and FALLBACK not in found:
        raise EstimationError(
            f"No estimate of {domain!r} could be made from {records.folder}: {failed[FALLBACK]}"
        )
    return Correction(found, failed, chosen)


@dataclass(frozen=True)
class Correction:
    """Estimates of the incidents behind complaints, side by side, and the one that is used."""

    calibrations: dict[str, Calibration]
    failed: dict[str, str]
    """Why an estimator could not be fitted, by its name."""
    chosen: str = ""
    """Estimator that was asked for; empty: the usual one."""

    @property
    def used(self) -> str:
        """The reporting rate, else complaints as they are; the others are only shown beside."""
        return self.chosen or (PREFERRED if PREFERRED in self.calibrations else FALLBACK)

    @property
    def calibration(self) -> Calibration:
        """What policies learn from."""
        return self.calibrations[self.used]

    @property
    def spread(self) -> float:
        """Upper over lower end of the 90 % interval: the largest of the total and each quintile."""
        draws = self.calibration.draws
        draws = np.column_stack([draws.sum(axis=1), draws[:, :N_KNOWN_STRATA]])
        lower, upper = np.percentile(draws, INTERVAL, axis=0)
        ratios = [
            float(high / low) if low > 0 else np.inf
            for low, high in zip(lower, upper, strict=True)
            if high > 0
        ]
        return max(ratios, default=np.inf)

    def describe(self) -> dict[str, Any]:
        """What a run keeps of it, as plain values."""
        total = self.calibration.draws.sum(axis=1)
        value = float(self.calibration.denominators.sum())
        lower, upper = include(value, *np.percentile(total, INTERVAL))
        # Counting complaints estimates nothing, so nothing bounds what nobody reported.
        is_fitted = self.used != FALLBACK
        return {
            # Of mandatory filings the rate is that of filing: the estimate has a name of its own.
            "estimator": self.calibration.estimator,
            "failed_estimators": dict(self.failed),
            "incidents_per_28_days": {
                "value": value,
                "lower": lower if is_fitted else None,
                "upper": upper if is_fitted else None,
            },
            "incidents_known_within": self.spread
            if is_fitted and np.isfinite(self.spread)
            else None,
            "is_wide": is_fitted and not self.spread < WIDE,
        }


def include(value: float, lower: float, upper: float) -> tuple[float, float]:
    """The ends of an interval, moved to its estimate where draws lie on one side of it.

    Estimates hold common parameters at their mode; draws of skewed ones may all lie above.
    """
    return min(float(lower), value), max(float(upper), value)


def incident_draws(
    records: Records, domain: str, date_from: date, seed: int, estimator: str = ""
) -> tuple[np.ndarray | None, str]:
    """Joint draws of the test period's incidents by tract; None, and why, where there are none."""
    if estimator == FALLBACK:
        return None, AS_THEY_ARE
    name, date_to = estimator or PREFERRED, records.window[1]
    try:
        later = calibrate(records, domain, date_from=date_from, date_to=date_to, estimator=name)
    except (Parity311Error, np.linalg.LinAlgError) as error:
        if records.is_real:
            return None, " ".join(str(error).split())
        raise
    return later.estimate.area_draws(np.random.default_rng(seed)), ""
