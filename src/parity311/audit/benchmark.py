"""`parity311 bench audit`: how often the audit errs, by simulation."""

from __future__ import annotations

import time
from typing import Any

from parity311.audit.simulate import SimulatedCity, operate, operating_row, watch
from parity311.audit.spec import AuditSpec

N_TRIALS = 1000
"""Simulated cities a row: the standard error of a share of 5 % is then 0.7 points."""
N_LOOKS = 200


def bench_audit(n_trials: int = N_TRIALS, seed: int = 0) -> dict[str, Any]:
    """Measure false alarms, power, passing at parity, monitoring error and coverage.

    Returns
    -------
    ``false_fail`` (parity, 2,000 cases a stratum at a rate of 0.2), ``power`` (the same with a
    linear gradient and a gap of 0.10), ``pass_at_parity`` (5,000 a stratum), ``anytime_error``
    (share of histories in which the sequence errs at any of 200 looks), ``coverage`` (smallest
    over all rows), the same under ``design_effect_2``, and all rows under ``table``.
    """
    started = time.perf_counter()
    spec = AuditSpec(n_draws=1000)
    table: list[dict[str, Any]] = []
    summary: dict[float, dict[str, float]] = {}
    for effect in (1.0, 2.0):
        cities = {
            "false_fail": SimulatedCity(design_effect=effect),
            "false_fail_at_tau": SimulatedCity(gap=0.05, design_effect=effect),
            "power": SimulatedCity(gap=0.10, design_effect=effect),
            "pass_at_parity": SimulatedCity(n_per_stratum=5000, design_effect=effect),
            "rare_false_fail": SimulatedCity(rate=0.05, design_effect=effect),
            "even_false_fail": SimulatedCity(rate=0.5, design_effect=effect),
        }
        seen = {
            name: operate(city, n_trials=n_trials, spec=spec, seed=seed + i)
            for i, (name, city) in enumerate(cities.items())
        }
        table += [{"row": name, **operating_row(cities[name], seen[name])} for name in cities]
        summary[effect] = {
            name: seen[name].passed if name == "pass_at_parity" else seen[name].failed
            for name in cities
        }
        summary[effect]["coverage"] = min(one.coverage for one in seen.values())
    histories = [
        {"true_gap": gap, **watch(n_trials=n_trials, n_looks=N_LOOKS, gap=gap, seed=seed).__dict__}
        for gap in (0.0, 0.05)
    ]
    return {
        **summary[1.0],
        "anytime_error": max(row["sequence_missed"] for row in histories),
        "repeated_test_error": histories[0]["repeated_test_alarmed"],
        "design_effect_2": summary[2.0],
        "n_trials": n_trials,
        "n_looks": N_LOOKS,
        "table": table,
        "monitoring": histories,
        "seconds": time.perf_counter() - started,
    }
