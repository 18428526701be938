"""`parity311 bench audit`: how often the audit errs, by simulation.

`parity311 bench shapley`: exact Shapley values beside shap's exact explainer.

The same network (2×64, ten features), the same 100 background rows and the same 256 rows, double
precision on the CPU, one after the other in one process. shap is handed the NumPy forward pass that
the project serves policies with.

Two kinds of rows are measured. Complaint states, whose features take few values each (flags, codes,
classes, small counts), as the domains' do: every state is scored once and looked up. And rows in
which every feature is continuous, where nothing repeats: both sides then make the same 26 million
evaluations of the network. The first layer is linear and shared between coalitions, the last
follows the mean, but the middle one has to be multiplied for each of them: 2.1e11 operations.
``floor_seconds`` is what those alone take at the speed this machine multiplies such matrices, and
``floor_ratio`` the ratio that nobody can pass who multiplies them all out in double precision.

How long the default estimator takes, and how that grows with the number of incidents.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from parity311.audit.gap import FAIL, INSUFFICIENT, PASS
from parity311.audit.simulate import Operating, SimulatedCity, operate, operating_row, watch
from parity311.audit.spec import AuditSpec
from parity311.errors import InputError
from parity311.explain.exact import N_THREADS, Attribution, exact_shapley
from parity311.explain.games import score_rows
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


N_FEATURES, N_BACKGROUND, N_ROWS, N_UNITS, N_ACTIONS = 10, 100, 256, 64, 3
LEVELS = (2, 2, 2, 2, 2, 4, 4, 5, 6, 6)
"""Values a complaint state's features take: five flags, severity code and season (four each),
income-blind coverage price in five classes, and two counts cut at five."""
N_REPEATS = 3
FLOOR_ROWS = 60
"""Rows of the product whose speed sets the floor: few enough that one core does it."""
N_TIMED_CONTINUOUS = 32
"""Continuous rows that shap is timed on; it takes rows one by one, so its time grows with them."""


def bench_shapley(n_rows: int = N_ROWS, seed: int = 0) -> dict[str, Any]:
    """Time both and compare their values.

    Returns
    -------
    ``ratio`` for rows without repeats, which is the general case, ``complaint_states_ratio`` for
    rows that repeat, ``max_abs_difference`` over both kinds, and for each kind the seconds of both,
    of the wall clock and of the processor (a busy machine changes the first, not the second), the
    time to compile, and the ratio in single precision.
    """
    try:
        import shap
    except ImportError:
        raise InputError(
            "shap is not installed; the comparison needs it: pip install 'parity311[dev]'."
        ) from None
    rng = np.random.default_rng(seed)
    network = _draw_network(rng)
    results: dict[str, dict[str, float]] = {}
    for kind in ("complaint_states", "continuous"):
        rows, background = (_draw_rows(rng, n, kind) for n in (n_rows, N_BACKGROUND))
        n_timed = n_rows if kind == "complaint_states" else min(n_rows, N_TIMED_CONTINUOUS)
        results[kind] = _compare(shap, network, rows, background, n_timed)
    results["continuous"] |= _floor(n_rows, results["continuous"]["shap_cpu_seconds"])
    headline = results["continuous"]
    return {
        "ratio": headline["ratio"],
        "ratio_is_for": "continuous",
        "complaint_states_ratio": results["complaint_states"]["ratio"],
        "max_abs_difference": max(one["max_abs_difference"] for one in results.values()),
        "compile_seconds": headline["compile_seconds"],
        **results,
        "n_features": N_FEATURES,
        "n_background": N_BACKGROUND,
        "n_rows": n_rows,
        "network": f"{N_FEATURES}-{N_UNITS}-{N_UNITS}-{N_ACTIONS}",
        "precision": "float64",
        "shap_version": shap.__version__,
    }


def _floor(n_rows: int, shap_cpu_seconds: float) -> dict[str, float]:
    """What the middle layer's products alone take, from the speed of one core in such a product.

    shap uses one core, so its processor time is what it takes on a machine with nothing else to do.
    """
    rng = np.random.default_rng(0)
    left = rng.standard_normal((FLOOR_ROWS, N_UNITS))
    right = rng.standard_normal((N_UNITS, N_UNITS))
    out = np.empty_like(left)
    n_products = 2000

    def multiply() -> None:
        for _ in range(n_products):
            np.matmul(left, right, out=out)

    _, _, cpu = _time(multiply)
    per_second = 2.0 * left.size * N_UNITS * n_products / cpu
    wanted = 2.0 * 2**N_FEATURES * n_rows * N_BACKGROUND * N_UNITS**2
    seconds = wanted / (N_THREADS * per_second)
    return {
        "operations_per_second_and_core": per_second,
        "floor_seconds": seconds,
        "floor_ratio": shap_cpu_seconds / seconds,
    }


def _draw_network(rng: np.random.Generator) -> dict[str, np.ndarray]:
    sizes = (N_FEATURES, N_UNITS, N_UNITS, N_ACTIONS)
    network = {}
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        network[f"weight_{layer}"] = rng.standard_normal((n_in, n_out)) * np.sqrt(2 / n_in)
        network[f"bias_{layer}"] = 0.1 * rng.standard_normal(n_out)
    return network


def _draw_rows(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    if kind == "continuous":
        return rng.standard_normal((n, N_FEATURES))
    return np.column_stack([rng.integers(0, level, n) / (level - 1) for level in LEVELS])


def _compare(
    shap: Any,
    network: dict[str, np.ndarray],
    rows: np.ndarray,
    background: np.ndarray,
    n_timed: int,
) -> dict[str, float]:
    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.explainers.Exact(lambda x: score_rows(network, x), masker)
    explainer(rows[:2], silent=True)  # shap compiles its own parts on the first call
    theirs, taken, shap_cpu = _time(lambda: explainer(rows[:n_timed], silent=True), n_repeats=1)
    scale = len(rows) / n_timed
    _, with_compiling, _ = _time(lambda: exact_shapley(network, rows, background), n_repeats=1)
    ours, seconds, cpu = _time(lambda: exact_shapley(network, rows, background))
    single, single_seconds, _ = _time(
        lambda: exact_shapley(network, rows, background, precision="float32")
    )
    return {
        "ratio": scale * taken / seconds,
        "cpu_ratio": scale * shap_cpu / cpu,
        "max_abs_difference": _difference(ours, theirs.values),
        "seconds": seconds,
        "shap_seconds": scale * taken,
        "cpu_seconds": cpu,
        "shap_cpu_seconds": scale * shap_cpu,
        "shap_rows_timed": n_timed,
        "compile_seconds": max(with_compiling - seconds, 0.0),
        "float32_ratio": scale * taken / single_seconds,
        "float32_max_abs_difference": _difference(single, theirs.values),
    }


def _difference(ours: Attribution, theirs: np.ndarray) -> float:
    return float(np.abs(ours.values[: len(theirs)] - theirs).max())


def _time(call: Callable[[], Any], n_repeats: int = N_REPEATS) -> tuple[Any, float, float]:
    """The result, and the shortest of several times: wall clock and processor."""
    shortest, least, result = np.inf, np.inf, None
    for _ in range(n_repeats):
        started, begun = time.perf_counter(), time.process_time()
        result = call()
        shortest = min(shortest, time.perf_counter() - started)
        least = min(least, time.process_time() - begun)
    return result, float(shortest), float(least)


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
