"""Designs simulated a second, beside a plain Python simulation of the same rules, in one run.

The city is made up, of the size in the literature: five districts, six categories, 75,000 requests
and 48,000 visits a year, one year replayed three times.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from parity311.service_levels import reference, simulate
from parity311.service_levels.designs import Setting, design_from_numbers
from parity311.service_levels.losses import literature_losses, median_of_visited, visited_shares

REQUESTS_A_YEAR, VISITS_A_YEAR, YEAR_DAYS, N_YEARS = 75_000, 48_000, 365, 3
DISTRICT_SHARES = (0.12, 0.31, 0.08, 0.38, 0.11)
CATEGORY_SHARES = (0.22, 0.12, 0.20, 0.10, 0.26, 0.10)
"""Made up: uneven, as requests are."""
WEIGHTS = (10.0, 8.0, 8.0, 6.0, 4.0, 4.0)
REVIEW_EVERY = (28, 80, 26, 27, 36)
"""Days, by district (Liu and Garg)."""
N_ROUNDS = 3
"""The median of so many counts."""
N_PLAIN = 3
"""Designs the plain simulation serves; what one of them takes hangs on how many wait."""


def made_up_setting(n_days: int = YEAR_DAYS * N_YEARS, size: float = 1.0, seed: int = 0) -> Setting:
    """A city of the literature's size, or `size` times as large."""
    rng = np.random.default_rng(seed)
    season = 1.0 + 0.4 * np.sin(2 * np.pi * np.arange(YEAR_DAYS) / YEAR_DAYS)
    cells = np.outer(DISTRICT_SHARES, CATEGORY_SHARES)
    cells = cells / cells.sum()
    mean = size * REQUESTS_A_YEAR / YEAR_DAYS * season[:, None, None] * cells
    year = rng.poisson(mean)
    weekday = np.where(np.arange(YEAR_DAYS) % 7 < 5, 1.4, 0.0)
    visits = rng.poisson(size * VISITS_A_YEAR / YEAR_DAYS * weekday)
    days = np.arange(n_days) % YEAR_DAYS
    return Setting(
        districts=tuple(f"district {b + 1}" for b in range(len(DISTRICT_SHARES))),
        categories=tuple(f"category {k + 1}" for k in range(len(CATEGORY_SHARES))),
        arrivals=year[days],
        capacity=visits[days],
        weights=np.array(WEIGHTS),
        review_every=REVIEW_EVERY,
    )


def bench_service_levels(n_designs: int = 256, n_threads: int = 2) -> dict[str, Any]:
    """Designs a second on so many threads, the plain simulation, and how both grow."""
    setting = made_up_setting()
    rng = np.random.default_rng(0)
    numbers = rng.random((n_designs, setting.n_numbers))
    seconds, cpu_seconds, served = _time(setting, numbers, n_threads)
    designs = design_from_numbers(setting, numbers[:N_PLAIN])
    draws = simulate.draw_uniforms(setting, 0)
    begun = time.process_time()
    walked = [reference.walk(setting, designs, place, draws) for place in range(designs.n)]
    plain = (time.process_time() - begun) / designs.n
    same = all(
        np.array_equal(reference.visits_by_age(setting, one), served.at_least[..., place])
        for place, one in enumerate(walked)
    )
    losses = literature_losses(
        setting.n_received,
        visited_shares(served.at_least, setting.n_received),
        median_of_visited(served.at_least),
        setting.weights,
    )
    few = numbers[: max(n_designs // 4, 1)]
    by_days = {n: _time(made_up_setting(n), few, n_threads)[1] / len(few) for n in (365, 730, 1095)}
    by_size = {
        size: _time(made_up_setting(size=size), few, n_threads)[1] / len(few)
        for size in (0.5, 1.0, 2.0)
    }
    return {
        "designs": n_designs,
        "threads": n_threads,
        "days": setting.n_days,
        "requests": int(setting.arrivals.sum()),
        "designs_per_second": n_designs / seconds,
        "plain_designs": designs.n,
        "plain_seconds_a_design": plain,
        "times_as_many": n_designs / seconds * plain,
        "designs_per_core_second": n_designs / cpu_seconds,
        "times_as_many_per_core": n_designs / cpu_seconds * plain,
        "same_counts": same,
        "least_cost": float(losses.cost.min()),
        "core_seconds_a_design_by_days": by_days,
        "core_seconds_a_design_by_size": by_size,
    }


def _time(
    setting: Setting, numbers: np.ndarray, n_threads: int
) -> tuple[float, float, simulate.Served]:
    """Seconds on the clock and of all cores for these designs, compiled before.

    Medians of a few rounds; a machine that others use shows in the first, hardly in the second.
    """
    designs = design_from_numbers(setting, numbers)
    draws = simulate.draw_uniforms(setting, 0)
    served = simulate.simulate(setting, designs, draws, n_threads=n_threads)
    taken, worked = [], []
    for _ in range(N_ROUNDS):
        begun, spent = time.perf_counter(), time.process_time()
        served = simulate.simulate(setting, designs, draws, n_threads=n_threads)
        taken.append(time.perf_counter() - begun)
        worked.append(time.process_time() - spent)
    return float(np.median(taken)), float(np.median(worked)), served
