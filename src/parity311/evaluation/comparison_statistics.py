"""Comparing agents that were trained with several seeds: no "better" without an interval.

After Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice":
interquartile means instead of means or medians, bootstrap intervals stratified by task, and the
probability of improvement. Within one domain the runs are training seeds and the tasks are test
episodes, which every policy plays with the same random numbers; both are resampled.

Where a policy's gap may lie when the incidents it divides by are estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.estimation.correction import Correction
from parity311.evaluation.metrics import Widened, divide
from parity311.evaluation.titles import TODAY
from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.reporting.incidents import INTERVAL
from parity311.resampling import Figure, bootstrap_weights


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


N_RESAMPLES = 1000
TRIM_SHARE = 0.25
"""Share of runs left out at each end."""


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Mean of the middle half along the last axis.

    Whole values are left out, as in rliable (`trim_mean`): of five runs the best and the worst, of
    three none.
    """
    n = values.shape[-1]
    n_cut = int(TRIM_SHARE * n)
    ordered = np.sort(values, axis=-1)
    return ordered[..., n_cut : n - n_cut].mean(axis=-1)


@dataclass(frozen=True)
class Resamples(Widened):
    """The same resamples of seeds and episodes for every policy, so that differences are paired."""

    seeds: np.ndarray
    """(1 + B, n_seeds) positions; the first row is the data itself"""
    episodes: np.ndarray
    """(1 + B, n_episodes) weights; the first row is the data itself"""
    widening: float = 1.0
    """factor on the spread, for few seeds and for episodes that are drawn from a finite table"""

    @property
    def n_seeds(self) -> int:
        """Seeds of a trained agent; a rule has one."""
        return self.seeds.shape[1]

    def sum_episodes(self, values: np.ndarray) -> np.ndarray:
        """Sums over episodes of (runs, episodes) in every resample, (1 + B, runs)."""
        return self.episodes @ np.asarray(values, np.float64).T

    def over_seeds(self, samples: np.ndarray) -> np.ndarray:
        """Interquartile mean over resampled seeds of (1 + B, runs), (1 + B,)."""
        if samples.shape[1] == 1:
            return samples[:, 0]
        if samples.shape[1] != self.n_seeds:
            raise InputError(
                f"{samples.shape[1]} runs were given, the resamples are for {self.n_seeds}; pair "
                "agents by their seeds, or give a rule one run."
            )
        return interquartile_mean(np.take_along_axis(samples, self.seeds, axis=1))


def make_resamples(
    n_seeds: int,
    n_episodes: int,
    *,
    table_factor: float = 1.0,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
) -> Resamples:
    """Resamples of seeds and episodes, crossed.

    A bootstrap of n runs understates their spread by √((n − 1) / n), so intervals are widened by
    the inverse; ``table_factor`` widens them further where episodes repeat the same cases.
    """
    if n_seeds < 1 or n_episodes < 2:
        raise InputError(
            f"{n_seeds} seeds and {n_episodes} episodes were given; an interval needs at least 1 "
            "and 2."
        )
    rng = np.random.default_rng(seed)
    seeds = rng.integers(0, n_seeds, (n_resamples, n_seeds))
    few = np.sqrt(n_seeds / (n_seeds - 1)) if n_seeds > 1 else 1.0
    return Resamples(
        np.vstack([np.arange(n_seeds), seeds]),
        bootstrap_weights(n_episodes, n_resamples, rng),
        float(few) * table_factor,
    )


def mean_samples(values: np.ndarray, resamples: Resamples) -> np.ndarray:
    """Interquartile mean over seeds of the mean episode, in every resample, (1 + B,)."""
    return resamples.over_seeds(resamples.sum_episodes(values) / values.shape[1])


def ratio_samples(top: np.ndarray, bottom: np.ndarray, resamples: Resamples) -> np.ndarray:
    """Interquartile mean over seeds of a ratio of sums over episodes, (1 + B,)."""
    parts = divide(resamples.sum_episodes(top), resamples.sum_episodes(bottom))
    return resamples.over_seeds(parts)


@dataclass(frozen=True)
class Improvement:
    """One policy against another on the same episodes."""

    difference: Figure
    """interquartile mean over seeds of the mean difference of an episode"""
    probability: Figure
    """that a run of the first does better than one of the second on an episode, ties half"""


def compare_runs(first: np.ndarray, second: np.ndarray, resamples: Resamples) -> Improvement:
    """Compare scores (runs, episodes) of two policies, more being better; one run for a rule.

    Seeds are paired where both have several.
    """
    samples = mean_samples(first, resamples) - mean_samples(second, resamples)
    if first.shape[0] == second.shape[0] > 1:
        samples = mean_samples(first - second, resamples)
    return Improvement(resamples.figure(samples), resamples.figure(_wins(first, second, resamples)))


def _wins(first: np.ndarray, second: np.ndarray, resamples: Resamples) -> np.ndarray:
    """Probability of improvement in every resample: mean over episodes of Mann-Whitney's U."""
    better = first[:, None, :] > second[None, :, :]
    equal = first[:, None, :] == second[None, :, :]
    wins = better + 0.5 * equal
    n_first, n_second, n_episodes = wins.shape
    by_pair = resamples.sum_episodes(wins.reshape(-1, n_episodes)) / n_episodes
    by_pair = by_pair.reshape(-1, n_first, n_second)
    if n_first > 1:
        by_pair = np.take_along_axis(by_pair, resamples.seeds[:, :, None], axis=1)
    if n_second > 1:
        # The second policy's runs are drawn apart from the first's: runs of two kinds are not one.
        by_pair = np.take_along_axis(by_pair, resamples.seeds[::-1][:, None, :], axis=2)
        by_pair[0] = wins.mean(axis=2)
    return by_pair.mean(axis=(1, 2))
