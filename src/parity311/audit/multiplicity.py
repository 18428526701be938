"""Many tests at once: Holm for the primary contrasts, Benjamini and Hochberg for the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p-values that control the chance of any false alarm (Holm 1979); NaN stays NaN."""
    values = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(values[known])]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p-values that control the share of false alarms (1995); NaN stays NaN."""
    values = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(values), np.nan)
    known = np.isfinite(values)
    if known.any():
        adjusted[known] = stats.false_discovery_control(values[known])
    return adjusted
