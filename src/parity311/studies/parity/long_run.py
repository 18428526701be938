"""The long-run gap over simulated years, and what parity costs: each with its interval.

Coverage is pooled over years: correct escalations over actionable incidents, reported or not. The
gap is the largest difference between two known strata. The largest of noisy differences is too
large on average, and so are its resamples: the upper bound is therefore careful, and what noise
alone would show stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from parity311.evaluation.metrics import divide
from parity311.evaluation.rollout import Episodes
from parity311.limits import LARGEST_GAP, SMALL_RATE, ratio_of_gap
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.resampling import ANY, SHARE, bootstrap_weights, figure_of

N_RESAMPLES = 1000


@dataclass(frozen=True)
class Years:
    """Totals of one policy by simulated year."""

    correct: np.ndarray
    """(years, 6)"""
    actionable: np.ndarray
    """(years, 6) incidents that began, reported or not"""
    reported: np.ndarray
    """(years, 6) those of them that somebody reported"""
    visits: np.ndarray
    """(years, 6)"""
    complaints: np.ndarray
    """(years, 6)"""

    @cached_property
    def coverage(self) -> np.ndarray:
        """Correct escalations per actionable incident of each known stratum, (5,)."""
        return pooled_coverage(self, np.ones((1, len(self.correct))))[0]

    @property
    def throughput(self) -> float:
        """Correct escalations a year."""
        return float(self.correct.sum(axis=1).mean())


def years_of(episodes: Episodes, place: int, per_year: int = 1) -> Years:
    """Totals of the policy at one place of an evaluation; so many episodes make a year."""
    tally = episodes.tally

    def total(values: Any) -> np.ndarray:
        own = np.asarray(values, np.float64)[place]
        return own.reshape(-1, per_year, own.shape[-1]).sum(axis=1)

    return Years(
        correct=total(tally.correct),
        actionable=total(tally.actionable),
        reported=total(tally.reported_actionable),
        visits=total(tally.visits),
        complaints=total(tally.complaints),
    )


def resample_years(n_years: int, seed: int = 0, n: int = N_RESAMPLES) -> np.ndarray:
    """Weights of the years: the first row is the data itself, (1 + n, years)."""
    return bootstrap_weights(n_years, n, np.random.default_rng(seed))


def pooled_coverage(years: Years, weights: np.ndarray) -> np.ndarray:
    """Coverage of the known strata in every resample, (1 + n, 5)."""
    known = slice(None, N_KNOWN_STRATA)
    return divide(weights @ years.correct[:, known], weights @ years.actionable[:, known])


def gap_of(coverage: np.ndarray) -> np.ndarray:
    """Largest difference between two strata, over the last axis."""
    return np.nanmax(coverage, axis=-1) - np.nanmin(coverage, axis=-1)


def price_samples(years: Years, reference: Years, weights: np.ndarray) -> np.ndarray:
    """Share of correct escalations given up against the reference, in every resample."""
    own, other = weights @ years.correct.sum(axis=1), weights @ reference.correct.sum(axis=1)
    return 1.0 - divide(own, other)


def interval(samples: np.ndarray, within: tuple[float, float] = ANY) -> dict[str, float]:
    """Value on the data and the bounds of the resamples, which hold it."""
    return figure_of(samples, 1.0, within).as_record()


def limit_used(coverage: np.ndarray) -> np.ndarray:
    """How much of the audit's limit the disparity of (..., 5) uses up: above 1 it fails.

    The limit is the audit's: of the gap, or, where the mean is small, of the ratio, in logarithms.
    """
    least, most = np.nanmin(coverage, axis=-1), np.nanmax(coverage, axis=-1)
    with np.errstate(divide="ignore"):
        by_ratio = np.log(np.maximum(most, 1e-12) / np.maximum(least, 1e-12))
    by_ratio /= -np.log(ratio_of_gap(LARGEST_GAP, SMALL_RATE))
    is_rare = np.nanmean(coverage, axis=-1) < SMALL_RATE
    return np.where(is_rare, by_ratio, (most - least) / LARGEST_GAP)


def measure_ratio(years: Years, weights: np.ndarray) -> dict[str, float]:
    """Least coverage of a stratum over the largest, with its interval."""
    samples = pooled_coverage(years, weights)
    return interval(divide(np.nanmin(samples, axis=1), np.nanmax(samples, axis=1)), SHARE)


def measure_gap(years: Years, weights: np.ndarray) -> dict[str, float]:
    """The gap with its interval, what noise alone would show, and the gap less its bias.

    At exact parity every stratum would have the mean coverage; scaled to it, the years still
    differ, and the mean gap of their resamples is the noise floor.
    """
    samples = pooled_coverage(years, weights)
    gaps = gap_of(samples)
    mean = np.nanmean(samples[0])
    level = np.zeros(1)
    if mean > 0.0:  # Where nobody is served there is nothing to differ by.
        level = gap_of(samples[1:] * divide(np.full_like(samples[0], mean), samples[0]))
    return {
        **interval(gaps, SHARE),
        "corrected": float(max(2.0 * gaps[0] - gaps[1:].mean(), 0.0)),
        "noise_floor": float(level.mean()),
    }
