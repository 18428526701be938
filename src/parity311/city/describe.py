"""Measure a synthetic city and set its figures beside those of New York's records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from parity311.city.measure_addresses import measure_addresses
from parity311.city.measure_reporting import measure_reporting
from parity311.city.measure_service import measure_service
from parity311.city.measures import City, Measures, open_city
from parity311.city.targets import Target, all_targets

NOT_APPLICABLE = "not meant to be reached in this scenario"
NOT_MEASURED = "not in these records"

_MEASURES: tuple[Callable[[City], Measures], ...] = (
    measure_service,
    measure_addresses,
    measure_reporting,
)


def describe_city(path: str | Path) -> dict[str, Any]:
    """Return the city's fingerprint and its calibration: every target with what was achieved.

    ``ok`` is None, with a ``note``, where a figure is not in the records (another period, a city
    too small) or is not meant to be reached in the city's scenario.
    """
    city = open_city(Path(path))
    found: Measures = {}
    for measure in _MEASURES:
        found.update(measure(city))
    rows = [_row(target, found.get(target.measure), city) for target in all_targets()]
    judged = [row for row in rows if row["ok"] is not None]
    return {
        "fingerprint": city.records.fingerprint,
        "calibration": rows,
        "n_ok": sum(row["ok"] for row in judged),
        "n_judged": len(judged),
    }


def _row(target: Target, achieved: float | None, city: City) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": target.name,
        "target": float(target.value),
        "achieved": None if achieved is None or not np.isfinite(achieved) else float(achieved),
        "tolerance": target.tolerance,
        "ok": None,
        "source": target.source,
        "kind": target.kind,
    }
    if not target.holds_for(city.participation, city.capacity):
        row["note"] = NOT_APPLICABLE
    elif row["achieved"] is None:
        row["note"] = NOT_MEASURED
    else:
        row["ok"] = bool(target.low <= row["achieved"] <= target.high)
    return row
