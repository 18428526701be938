"""Small settings whose every request can be followed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity311.service_levels.designs import Setting


def make_setting(seed: int = 0, n_days: int = 60, **changes: Any) -> Setting:
    """Three districts, two categories, some forty requests a day and visits for two thirds."""
    rng = np.random.default_rng(seed)
    mean = np.array([[8.0, 4.0], [6.0, 9.0], [3.0, 10.0]])
    given: dict[str, Any] = {
        "districts": ("North", "South", "West"),
        "categories": ("hazard", "prune"),
        "arrivals": rng.poisson(mean, (n_days, 3, 2)),
        "capacity": rng.poisson(26.0, n_days),
        "weights": np.array([10.0, 4.0]),
        "review_every": (7, 10, 6),
        "n_ages": 16,
    }
    return Setting(**(given | changes))


def one_cell(arrivals: list[int], capacity: list[int], **changes: Any) -> Setting:
    """One district and one category, strictly first come, with reviews only if asked for."""
    given: dict[str, Any] = {
        "districts": ("North",),
        "categories": ("hazard",),
        "arrivals": np.array(arrivals)[:, None, None],
        "capacity": np.array(capacity),
        "weights": np.array([10.0]),
        "review_every": (1000,),
        "look_back": 0.0,
        "n_ages": 8,
    }
    return Setting(**(given | changes))
