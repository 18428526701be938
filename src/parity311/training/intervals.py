"""Intervals of a mean over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEVEL = 0.95


ANY = (-np.inf, np.inf)
SHARE = (0.0, 1.0)
"""Limits of a share: with few seeds an interval would reach beyond what a share can be."""


def mean_interval(
    values: Sequence[float] | np.ndarray, limits: tuple[float, float] = ANY
) -> list[float] | None:
    """95 % interval of the mean over seeds or cities (Student's t), within what the figure can be.

    None for a single value.
    """
    from scipy.stats import t

    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return None
    half = t.ppf((1 + LEVEL) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    ends = np.clip([known.mean() - half, known.mean() + half], *limits)
    return [float(end) for end in ends]
