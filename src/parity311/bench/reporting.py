"""How long the default estimator takes, and how that grows with the number of incidents."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from parity311.reporting.estimate import estimate
from parity311.reporting.lifetimes import estimated, exponential
from parity311.reporting.simulation import ReportingScenario, make_areas, simulate

N_AREAS = 2325
"""Tracts of New York."""
SHARE_REPORTED = 0.45
"""Share of the scenario's incidents that somebody reports: sets how many are drawn."""
SCALES = (4, 2, 1)
"""The number of incidents is divided by these, to see how the cost grows."""
SCENARIOS = {"even": None, "heavy_tailed": 1.0}
"""Shape of the Gamma spread between incidents of one place."""


def bench_reporting(n_incidents: int = 1_000_000, seed: int = 0) -> dict[str, Any]:
    """Time ``exposure_rate`` on simulated reports of a city; wall clock and processor time.

    ``growth`` is the exponent of the processor time in the number of incidents: 1 is linear.
    """
    areas = make_areas(N_AREAS, np.random.default_rng(seed))
    rows = []
    for name, shape in SCENARIOS.items():
        for scale in SCALES:
            wanted = n_incidents / scale / SHARE_REPORTED / 13 / N_AREAS
            scenario = ReportingScenario(
                income_slope=0.4, gamma_shape=shape, incidents_per_area_window=wanted
            )
            table = simulate(scenario, areas, seed).table
            for lifetime in (exponential(scenario.mean_lifetime_days), estimated()):
                begun, worked = time.perf_counter(), time.process_time()
                estimate(table, areas, lifetime=lifetime, seed=seed)
                rows.append(
                    {
                        "scenario": name,
                        "lifetime": lifetime.origin,
                        "n_reported_incidents": table.n_incidents,
                        "seconds": round(time.perf_counter() - begun, 2),
                        "processor_seconds": round(time.process_time() - worked, 2),
                    }
                )
    return {
        "estimator": "exposure_rate",
        "n_areas": N_AREAS,
        "n_processors": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "runs": rows,
        "growth": {name: _growth(rows, name) for name in SCENARIOS},
    }


def _growth(rows: list[dict[str, Any]], scenario: str) -> float:
    """Slope of log processor time in log incidents, by least squares."""
    shown = [row for row in rows if row["scenario"] == scenario]
    sizes = np.log([row["n_reported_incidents"] for row in shown])
    seconds = np.log([max(row["processor_seconds"], 1e-3) for row in shown])
    return float(np.polyfit(sizes, seconds, 1)[0])
