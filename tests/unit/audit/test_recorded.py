"""The audit of what was recorded, on a folder small enough to count by hand."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np

from parity311.audit.recorded import audit_recorded, served_by_tract
from parity311.records.store import open_records

YEAR = (date(2024, 1, 1), date(2025, 1, 1))


def test_counts_by_hand(tiny_records: Path) -> None:
    tracts = served_by_tract(open_records(tiny_records), "heat", *YEAR)
    # Forty complaints, every second in either tract; every fourth, all of tract 1, is a violation
    # found nine days after it came in, within the forty days of severity B.
    assert tracts["complaints"].tolist() == [20, 20]
    assert tracts["served"].tolist() == [10, 0]
    assert tracts["dwellings"].tolist() == [20, 20]
    assert tracts["stratum"].tolist() == [0, 1]


def test_three_denominators_and_small_cells(tiny_records: Path) -> None:
    draws = np.full((7, 2), 40.0)
    audit = audit_recorded(
        open_records(tiny_records), "heat", date_from=YEAR[0], date_to=YEAR[1], incident_draws=draws
    )
    rate = {(row["denominator"], row["stratum"]): row for row in audit["rates"]}
    assert rate["complaints", "Q1"]["rate"] == 0.5
    assert rate["estimated incidents", "Q1"]["rate"] == 0.25
    assert rate["complaints", "Q2"]["note"].startswith("insufficient")
    assert np.isnan(rate["complaints", "Q5"]["rate"])
    assert {gap["denominator"] for gap in audit["gaps"]} == {
        "complaints",
        "estimated incidents",
        "dwellings",
    }
