"""Where a policy's gap may lie when the incidents it divides by are estimates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parity311.estimation.correction import Correction
from parity311.evaluation.titles import TODAY
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.reporting.incidents import INTERVAL


def gap_ranges(
    policies: Sequence[dict[str, Any]], correction: Correction
) -> dict[str, dict[str, float]]:
    """Where each policy's gap, and its change against today's rule, may lie, by policy.

    Coverage divides by estimated incidents: every joint draw of them gives another gap. What a
    policy finds is held fixed. The range also covers the interval over test episodes.
    """
    calibration = correction.calibration
    draws = calibration.draws[:, :N_KNOWN_STRATA]
    scale = np.divide(
        calibration.denominators[:N_KNOWN_STRATA], draws, out=np.full_like(draws, np.nan),
        where=draws > 0,
    )  # fmt: skip
    gaps = {row["policy"]: _gaps(row, scale) for row in policies}
    found = {}
    for row in policies:
        own, change = gaps[row["policy"]], gaps[row["policy"]] - gaps[TODAY]
        moved = row["against_today"]["coverage_gap"]
        found[row["policy"]] = {
            **_range(own, row["coverage_gap"], ("lower", "upper")),
            **_range(change, moved, ("change_lower", "change_upper")),
        }
    return found


def _gaps(row: dict[str, Any], scale: np.ndarray) -> np.ndarray:
    """Gap of one policy under every draw, (n_draws,)."""
    values = [cell["value"] for cell in row["coverage"][:N_KNOWN_STRATA]]
    coverage = np.array([np.nan if value is None else value for value in values], float)
    usable = np.isfinite(coverage) & np.isfinite(scale).all(axis=0)
    if usable.sum() < 2:
        return np.full(len(scale), np.nan)
    drawn = np.minimum(coverage[usable] * scale[:, usable], 1.0)
    return drawn.max(axis=1) - drawn.min(axis=1)


def _range(drawn: np.ndarray, figure: dict[str, Any], names: tuple[str, str]) -> dict[str, float]:
    """Ends of what the draws say, as wide as the figure's own interval at least."""
    if not np.isfinite(drawn).all():
        return dict.fromkeys(names, float("nan"))
    lower, upper = (float(end) for end in np.percentile(drawn, INTERVAL))
    return {
        names[0]: float(np.nanmin([lower, figure["lower"]])),
        names[1]: float(np.nanmax([upper, figure["upper"]])),
    }
