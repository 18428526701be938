"""`parity311 bench shapley`: exact Shapley values beside shap's exact explainer.

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
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.explain.exact import N_THREADS, Attribution, exact_shapley
from parity311.explain.games import score_rows

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
