"""What the whole way does differently on real records: no truth, and estimates that may fail.

Policies learn from the earlier complaints and are scored in the process as all records give it, the
later ones included. That is not the truth: what nobody reported stays unknown, and so does what
would have been found where nobody looked. The report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from parity311.errors import EstimationError, Parity311Error
from parity311.evaluation.titles import TODAY
from parity311.mdp.contract import N_KNOWN_STRATA, Domain
from parity311.records.sql import literal
from parity311.records.store import Records
from parity311.reporting.calibration import Calibration, calibrate
from parity311.reporting.exposure_rate import WIDE
from parity311.reporting.incidents import INTERVAL

TRAIN_SHARE = 0.8
"""Share of a domain's complaints, earliest first, that policies learn from (the paper's split)."""
PREFERRED = "exposure_rate"
"""Estimator that is used wherever it can be fitted."""
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
    records: Records,
    domain: str,
    estimators: tuple[str, ...],
    date_from: date,
    date_to: date,
    *,
    chosen: str = "",
) -> Correction:
    """Calibrations of the estimators that work on these records, and why others do not.

    ``chosen`` is used instead of the usual one, and must work.
    """
    found: dict[str, Calibration] = {}
    failed: dict[str, str] = {}
    wanted: list[str] = [*estimators, FALLBACK, chosen]
    for name in dict.fromkeys(one for one in wanted if one):
        try:
            found[name] = calibrate(
                records, domain, date_from=date_from, date_to=date_to, estimator=name
            )
        except (Parity311Error, np.linalg.LinAlgError) as error:
            failed[name] = " ".join(str(error).split())
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


def gap_ranges(
    policies: Sequence[dict[str, Any]], correction: Correction
) -> dict[str, dict[str, float]]:
    """Where each policy's gap, and its change against today's rule, may lie, by policy.

    Coverage divides by estimated incidents: every joint draw of them gives another gap. What a
    policy finds is held fixed. The range also covers the interval over test episodes.
    """
    calibration = correction.calibration
    draws = calibration.draws[:, :N_KNOWN_STRATA]
    scale = np.divide(
        calibration.denominators[:N_KNOWN_STRATA], draws, out=np.full_like(draws, np.nan),
        where=draws > 0,
    )  # fmt: skip
    gaps = {row["policy"]: _gaps(row, scale) for row in policies}
    found = {}
    for row in policies:
        own, change = gaps[row["policy"]], gaps[row["policy"]] - gaps[TODAY]
        moved = row["against_today"]["coverage_gap"]
        found[row["policy"]] = {
            **_range(own, row["coverage_gap"], ("lower", "upper")),
            **_range(change, moved, ("change_lower", "change_upper")),
        }
    return found


def _gaps(row: dict[str, Any], scale: np.ndarray) -> np.ndarray:
    """Gap of one policy under every draw, (n_draws,)."""
    values = [cell["value"] for cell in row["coverage"][:N_KNOWN_STRATA]]
    coverage = np.array([np.nan if value is None else value for value in values], float)
    usable = np.isfinite(coverage) & np.isfinite(scale).all(axis=0)
    if usable.sum() < 2:
        return np.full(len(scale), np.nan)
    drawn = np.minimum(coverage[usable] * scale[:, usable], 1.0)
    return drawn.max(axis=1) - drawn.min(axis=1)


def _range(drawn: np.ndarray, figure: dict[str, Any], names: tuple[str, str]) -> dict[str, float]:
    """Ends of what the draws say, as wide as the figure's own interval at least."""
    if not np.isfinite(drawn).all():
        return dict.fromkeys(names, float("nan"))
    lower, upper = (float(end) for end in np.percentile(drawn, INTERVAL))
    return {
        names[0]: float(np.nanmin([lower, figure["lower"]])),
        names[1]: float(np.nanmax([upper, figure["upper"]])),
    }


def rows_used(records: Records, domain: str, test_from: date) -> dict[str, dict[str, Any]]:
    """Rows learned from, those of them the correction counts, and rows of the test period.

    How many, first and last day of each. Filings reach further back than the window of a city.
    """
    days = records.sql(
        "SELECT domain, CAST(received_at AS DATE) AS day, count(*) AS n FROM complaints "
        "GROUP BY ALL ORDER BY ALL"
    ).to_pylist()
    own = [row for row in days if row["domain"] == domain]
    parts = {
        "learned": [row for row in own if row["day"] < test_from],
        "corrected": [row for row in own if records.window[0] <= row["day"] < test_from],
        "tested": [row for row in own if row["day"] >= test_from],
    }
    return {
        part: {
            "complaints": sum(row["n"] for row in rows),
            "first": str(rows[0]["day"]) if rows else "",
            "last": str(rows[-1]["day"]) if rows else "",
        }
        for part, rows in parts.items()
    }


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


def incident_draws(
    records: Records, domain: str, date_from: date, seed: int
) -> tuple[np.ndarray | None, str]:
    """Joint draws of the test period's incidents by tract; None, and why, where there are none."""
    try:
        later = calibrate(records, domain, date_from=date_from, date_to=records.window[1])
    except (Parity311Error, np.linalg.LinAlgError) as error:
        if is_real(records):
            return None, " ".join(str(error).split())
        raise
    return later.estimate.area_draws(np.random.default_rng(seed)), ""
