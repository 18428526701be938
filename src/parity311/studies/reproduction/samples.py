"""Statistics of played policies on every resample: what claims compare."""

from __future__ import annotations

import numpy as np

from parity311.evaluation.comparison_statistics import Resamples, mean_samples, ratio_samples
from parity311.evaluation.metrics import divide, gap_samples
from parity311.mdp.contract import N_STRATA
from parity311.resampling import Figure
from parity311.studies.reproduction.scoring import Scored

TODAY = "balanced"


def throughput(scored: Scored, name: str, resamples: Resamples) -> np.ndarray:
    """Correct escalations of an episode, (1 + B,)."""
    return mean_samples(scored.total("correct", name), resamples)


def mistake_rate(scored: Scored, name: str, resamples: Resamples) -> np.ndarray:
    """Misclassifications per complaint, (1 + B,)."""
    return ratio_samples(scored.mistakes(name), scored.total("complaints", name), resamples)


def reward(scored: Scored, name: str, resamples: Resamples) -> np.ndarray:
    """Published reward of an episode, (1 + B,)."""
    return mean_samples(scored.arrays["reward"][scored.rows(name)], resamples)


def coverage(
    scored: Scored, name: str, resamples: Resamples, out_of: str = "actionable"
) -> np.ndarray:
    """Correct escalations per actionable incident by stratum, (1 + B, 6)."""
    top, bottom = (scored.by_stratum(what, name) for what in ("correct", out_of))
    return np.column_stack(
        [ratio_samples(top[..., g], bottom[..., g], resamples) for g in range(N_STRATA)]
    )


def gap(scored: Scored, name: str, resamples: Resamples, out_of: str = "actionable") -> np.ndarray:
    """Coverage gap between the best and the worst served quintile of the data, (1 + B,)."""
    return gap_samples(coverage(scored, name, resamples, out_of))


def gap_figure(
    scored: Scored, name: str, resamples: Resamples, out_of: str = "actionable"
) -> Figure:
    """The same with an interval that covers the choice of the pair, within [0, 1]."""
    return resamples.gap_figure(coverage(scored, name, resamples, out_of))


def relative(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By which share the first exceeds the second, whatever their sign, (1 + B,)."""
    return divide(first - second, np.abs(second))


def relative_figure(first: np.ndarray, second: np.ndarray, resamples: Resamples) -> Figure:
    """The same as a figure with its interval."""
    return resamples.figure(relative(first, second))
