"""`parity311 bench audit`: how often the audit errs, by simulation."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from parity311.audit.gap import FAIL, INSUFFICIENT, PASS
from parity311.audit.simulate import Operating, SimulatedCity, operate, operating_row, watch
from parity311.audit.spec import AuditSpec

N_TRIALS = 1000
"""Simulated cities a row: the standard error of a share of 5 % is then 0.7 points."""
N_LOOKS = 200
SILENT = 0.99
"""Share of audits that cannot tell from which on a row says nothing about false alarms."""
CITIES = {
    "false_fail": SimulatedCity(),
    "false_fail_at_tau": SimulatedCity(gap=0.05),
    "power": SimulatedCity(gap=0.10),
    "pass_at_parity": SimulatedCity(n_per_stratum=5000),
    "rare_few": SimulatedCity(rate=0.05),
    "rare_false_fail": SimulatedCity(rate=0.05, n_per_stratum=20_000),
    "rare_false_fail_at_limit": SimulatedCity(rate=0.05, gap=0.0125, n_per_stratum=20_000),
    "even_false_fail": SimulatedCity(rate=0.5, n_per_stratum=5000),
}
"""What is simulated. An audit that never speaks makes no false alarm, so each kind has a row with
cases enough to tell, and rows at the very limit (a ratio of 0.778 at a rate of 0.05)."""


def bench_audit(n_trials: int = N_TRIALS, seed: int = 0) -> dict[str, Any]:
    """Measure false alarms, power, passing at parity, monitoring error and coverage.

    Returns
    -------
    ``shares`` (PASS, FAIL and INSUFFICIENT of every row of `CITIES`), ``false_fail``, ``power``,
    ``pass_at_parity`` and so on (the share that each row is named for), ``silent_rows`` (rows that
    hardly ever tell, whose false alarms prove nothing), ``anytime_error`` (share of histories in
    which the sequence errs at any of 200 looks), ``coverage`` (smallest over all rows), the same
    under ``design_effect_2``, and all rows under ``table``.
    """
    started = time.perf_counter()
    spec = AuditSpec(n_draws=1000)
    table: list[dict[str, Any]] = []
    summary: dict[float, dict[str, Any]] = {}
    for effect in (1.0, 2.0):
        cities = {name: replace(city, design_effect=effect) for name, city in CITIES.items()}
        seen = {
            name: operate(city, n_trials=n_trials, spec=spec, seed=seed + i)
            for i, (name, city) in enumerate(cities.items())
        }
        table += [{"row": name, **operating_row(cities[name], seen[name])} for name in cities]
        summary[effect] = _summarise(seen)
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


def _summarise(seen: dict[str, Operating]) -> dict[str, Any]:
    """The share that each row is named for, and all three of them."""
    return {
        **{
            name: one.passed if name == "pass_at_parity" else one.failed
            for name, one in seen.items()
        },
        "coverage": min(one.coverage for one in seen.values()),
        "shares": {
            name: {PASS: one.passed, FAIL: one.failed, INSUFFICIENT: one.insufficient}
            for name, one in seen.items()
        },
        "silent_rows": [name for name, one in seen.items() if one.insufficient >= SILENT],
    }
