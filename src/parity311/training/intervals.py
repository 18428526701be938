"""Intervals of a mean over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEVEL = 0.95


def mean_interval(values: Sequence[float] | np.ndarray) -> list[float] | None:
    """95 % interval of the mean over seeds (Student's t); none for a single seed."""
    from scipy.stats import t

    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return None
    half = t.ppf((1 + LEVEL) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    return [float(known.mean() - half), float(known.mean() + half)]
