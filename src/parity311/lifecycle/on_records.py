"""What the whole way does differently on real records: no truth, and estimates that may fail.

Policies learn from the earlier complaints and are scored in the process as all records give it, the
later ones included. That is not the truth: what nobody reported stays unknown, and so does what
would have been found where nobody looked. The report says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from parity311.errors import EstimationError, Parity311Error
from parity311.mdp.contract import Domain
from parity311.records.sql import literal
from parity311.records.store import Records
from parity311.reporting.calibration import Calibration, calibrate

TRAIN_SHARE = 0.8
"""Share of a domain's complaints, earliest first, that policies learn from (the paper's split)."""
FALLBACK = "raw"
"""Estimator that needs nothing but complaints: they stand for incidents."""
SETTING = "as recorded"
RECORDED = "recorded"
"""Stands for the scenario of records that come from no scenario."""


def is_real(records: Records) -> bool:
    """Whether records were imported, so that there is no truth beside them."""
    return records.manifest.get("kind") == "import"


def split_date(records: Records, domain: str) -> date:
    """Day before which `TRAIN_SHARE` of a domain's complaints were received."""
    found = records.sql(
        f"SELECT quantile_disc(CAST(received_at AS DATE), {literal(TRAIN_SHARE)}) AS day "
        "FROM complaints WHERE domain = $domain",
        domain=domain,
    )
    day = found["day"][0].as_py()
    if day is None:
        raise EstimationError(
            f"{records.folder} has no complaint of {domain!r}; import some, or leave it out."
        )
    return day


def calibrate_what_can_be(
    records: Records, domain: str, estimators: tuple[str, ...], date_from: date, date_to: date
) -> tuple[dict[str, Calibration], dict[str, str]]:
    """Calibrations of the estimators that work on these records, and why others do not."""
    found: dict[str, Calibration] = {}
    failed: dict[str, str] = {}
    for name in (*estimators, *((FALLBACK,) if FALLBACK not in estimators else ())):
        try:
            found[name] = calibrate(
                records, domain, date_from=date_from, date_to=date_to, estimator=name
            )
        except (Parity311Error, np.linalg.LinAlgError) as error:
            failed[name] = " ".join(str(error).split())
    if not found:
        raise EstimationError(
            f"No estimate of {domain!r} could be made from {records.folder}: "
            f"{next(iter(failed.values()))}"
        )
    return found, failed


@dataclass(frozen=True)
class Setting:
    """Which records a result is from, in words."""

    participation: str
    capacity: str

    @property
    def words(self) -> str:
        """For headings and tables."""
        if self.participation == RECORDED:
            return SETTING
        return f"{self.participation} participation, {self.capacity} capacity"


def setting_of(records: Records) -> Setting:
    """The scenario of a synthetic city; real records have none."""
    if is_real(records):
        return Setting(RECORDED, RECORDED)
    return Setting(records.manifest["participation"], records.manifest["capacity"])


def first_test_day(records: Records, domain: str) -> date:
    """The last year of a synthetic city is for testing, of real records the last fifth."""
    if is_real(records):
        return split_date(records, domain)
    last = records.window[1]
    return date(last.year - 1, last.month, last.day)


def scoring_params(
    domain: Domain, records: Records, calibration: Calibration, test_from: date
) -> Any:
    """The truth of a synthetic city; of real records the process as all of them give it."""
    if is_real(records):
        return domain.estimate(records, calibration, records.window[1])
    return domain.truth(records.folder, test_from)


def incident_draws(records: Records, domain: str, date_from: date, seed: int) -> np.ndarray | None:
    """Joint draws of the test period's incidents by tract; None where real rows do not allow it."""
    try:
        later = calibrate(records, domain, date_from=date_from, date_to=records.window[1])
    except (Parity311Error, np.linalg.LinAlgError):
        if is_real(records):
            return None
        raise
    return later.estimate.area_draws(np.random.default_rng(seed))
