"""What the whole way does differently on real records: no truth, and estimates that may fail.

Policies learn from the earlier complaints and are scored in the process as all records give it, the
later ones included. That is not the truth: what nobody reported stays unknown, and so does what
would have been found where nobody looked. The report says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from parity311.errors import EstimationError
from parity311.mdp.contract import Domain
from parity311.records.sql import literal
from parity311.records.store import Records
from parity311.reporting.calibration import Calibration

TRAIN_SHARE = 0.8
"""Share of a domain's complaints, earliest first, that policies learn from (the paper's split)."""
SETTING = "as recorded"
RECORDED = "recorded"
"""Stands for the scenario of records that come from no scenario."""


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
    if records.is_real:
        return Setting(RECORDED, RECORDED)
    return Setting(records.manifest["participation"], records.manifest["capacity"])


def first_test_day(records: Records, domain: str) -> date:
    """The last year of a synthetic city is for testing, of real records the last fifth."""
    if records.is_real:
        return split_date(records, domain)
    last = records.window[1]
    return date(last.year - 1, last.month, last.day)


def scoring_params(
    domain: Domain, records: Records, calibration: Calibration, test_from: date
) -> Any:
    """The truth of a synthetic city; of real records the process as all of them give it."""
    if records.is_real:
        return domain.estimate(records, calibration, records.window[1])
    return domain.truth(records.folder, test_from)
