"""Inspections that do not depend on reports: what share of what they find had been reported.

An inspection sample is a set of areas drawn at random in which every incident (or a random share
of them) is found whether anyone reported it or not; for each it is known whether it was ever
reported. It shows P(reported) itself, and so identifies the lifetime law that reports leave open;
and where no such law fits the reports, the level follows the inspections, not the law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from parity311.reporting.cells import Cells, Design
from parity311.reporting.model import Inspected
from parity311.reporting.settings import InspectionSample


def inspected_cells(cells: Cells, sample: InspectionSample) -> tuple[Cells, Inspected]:
    """Append one cell for an average incident of every inspected area."""
    n_cells, n_new = len(cells.area), len(sample.area)

    def extended(design: Design) -> Design:
        rows = np.concatenate([design.cells, design.areas[sample.area]])
        return replace(design, cells=rows)

    joined = replace(
        cells,
        area=np.concatenate([cells.area, sample.area]),
        is_certain=np.concatenate([cells.is_certain, np.zeros(n_new, dtype=bool)]),
        rate=extended(cells.rate),
        closing=extended(cells.closing),
        closing_offset=np.concatenate([cells.closing_offset, np.zeros(n_new)]),
    )
    found, reported = (part.astype(np.float64) for part in (sample.n_found, sample.n_reported))
    return joined, Inspected(n_cells + np.arange(n_new), found, reported)


LEVEL_SD, STRETCH_SD, SLOPE_SD = 0.5, 0.15, 0.05
"""Belief about how far a law that does not fit misses the logarithm of incidents per reported one:
its level (half as many to twice as many are well possible), its own slope, and slopes per standard
deviation of a covariate. Laws that missed the level by a half in the reviewed cities had the ratio
of outer quintiles, nearly three deviations apart, within 12 %."""
DOUBT = 0.8
"""Chance from which on it is said that the law does not hold."""
LAW_SD, CLOSING_SD = 0.05, 0.2
"""What a law that fits may miss by: its level, and slopes, because reports alone leave open along
which covariates incidents end sooner. The fit with inspections joined tells those."""
N_ROUNDS = 5
"""Rounds in which what areas share and what they have of their own settle."""
FEWEST_AREAS = 4
"""Inspected areas below which the law is believed: fewer do not show how areas differ."""


@dataclass(frozen=True)
class Factors:
    """Incidents per reported incident."""

    mean: np.ndarray
    """(n_areas,)"""
    draws: np.ndarray
    """(n_draws, n_areas)"""

    def mix(self, other: Factors, chance: float, rng: np.random.Generator) -> Factors:
        """Where it is not known which of two holds: the other with this chance."""
        takes_other = rng.random(len(self.draws)) < chance
        mean = (1.0 - chance) * np.log(self.mean) + chance * np.log(other.mean)
        return Factors(np.exp(mean), np.where(takes_other[:, None], other.draws, self.draws))


@dataclass(frozen=True)
class Anchor:
    """Factors moved to what inspections found."""

    factors: Factors
    chance_off: float
    """posterior chance that the law misses what inspections found, even ones to come"""
    shift: float
    """by how much the logarithm of the factors moves in the average inspected area"""


def anchor_factors(
    found: Factors,
    reported: np.ndarray,
    covariates: np.ndarray,
    sample: InspectionSample,
    rng: np.random.Generator,
) -> Anchor | None:
    """Move factors that reports alone gave to what inspections found; None: too few to tell.

    In an inspected area the factor is seen. If the law behind the factors holds, what is seen
    differs from them by the law's own uncertainty, along covariates, by chance and by what areas
    have of their own; if it does not, also by a level and a stretch that all areas share.

    Parameters
    ----------
    reported
        (n_areas,) reported incidents on record; more than happened where duplicates are not marked.
    covariates
        (n_areas, n) standardised, along which the law may miss.
    """
    use = sample.n_found > 0
    area = sample.area[use]
    if len(area) < FEWEST_AREAS:
        return None
    share = (sample.n_reported[use] + 0.5) / (sample.n_found[use] + 1.0)
    noise = (1.0 - share) / (sample.n_reported[use] + 0.5)
    seen = -np.log(share)
    if sample.is_complete:
        seen = np.log((sample.n_found[use] + 0.5) / (reported[area] + 0.5))
    log_mean, log_draws = np.log(found.mean), np.log(found.draws)
    miss = seen - log_mean[area]
    weight = 1.0 / (noise + 1e-3)
    centre = lambda values: values - np.average(values[area], weights=weight, axis=0)  # noqa: E731
    shape = np.column_stack([np.ones(len(log_mean)), centre(log_mean), centre(covariates)])
    levels = log_draws[:, area] @ weight / weight.sum()
    n_slopes = covariates.shape[1]
    law = np.array([LAW_SD, 0.0, *[CLOSING_SD] * n_slopes]) ** 2
    prior = np.array([LEVEL_SD, STRETCH_SD, *[SLOPE_SD] * n_slopes]) ** 2
    law[0] += levels.var()
    prior[0] += levels.var()
    rows, own = shape[area], 0.0
    for _ in range(N_ROUNDS):
        mean, covariance = _regress(rows, miss, noise + own, prior)
        n_fitted = float(np.sum(covariance * (rows.T @ (rows / (noise + own)[:, None]))))
        own = _own_variance(miss - rows @ mean, noise, n_fitted)
    mean, covariance = _regress(rows, miss, noise + own, prior)
    spread = np.diag(noise + own)
    likelihoods = [_log_density(miss, spread + (rows * one) @ rows.T) for one in (prior, law)]
    odds = float(np.clip(likelihoods[0] - likelihoods[1], -50.0, 50.0))
    # Few areas: a level is known as well as Student's law says.
    drawn = student.rvs(len(area) - 1, size=(len(log_draws), len(mean)), random_state=rng)
    shifts = mean + drawn @ np.linalg.cholesky(covariance).T
    # The law's own level is no longer uncertain by itself: inspections show it.
    around = log_draws - (levels - levels.mean())[:, None]
    unexplained = max(own - float(around[:, area].var(axis=0).mean()), 0.0)
    # The mean over areas that differ by their own is above the factor of the middle one.
    moved = log_mean + shape @ mean + 0.5 * unexplained
    draws = around + shifts @ shape.T + np.sqrt(unexplained) * rng.standard_normal(around.shape)
    # What an inspected area has of its own is known there, wholly if all of it was found.
    known = np.ones(len(area)) if sample.is_complete else own / (own + noise)
    moved[area] += known * (seen - moved[area])
    draws[:, area] += known * (seen - draws[:, area])
    least = np.log1p(1e-3)
    return Anchor(
        Factors(np.exp(np.maximum(moved, least)), np.exp(np.maximum(draws, least))),
        chance_off=float(1.0 / (1.0 + np.exp(-odds))),
        shift=float(mean[0]),
    )


def say_anchor(anchor: Anchor) -> str:
    """What inspections did to the estimate, in words; empty where they agree with the law."""
    if anchor.chance_off < DOUBT:
        return ""
    return (
        " They contradict the law of lifetimes and reports assumed here (chance "
        f"{anchor.chance_off:.0%}): the level follows the inspections."
    )


def _regress(
    rows: np.ndarray, miss: np.ndarray, variance: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean (k,) and covariance (k, k) of what all areas share; prior variances (k,)."""
    weighted = rows / variance[:, None]
    covariance = np.linalg.inv(rows.T @ weighted + np.diag(1.0 / prior))
    return covariance @ weighted.T @ miss, covariance


def _own_variance(left: np.ndarray, noise: np.ndarray, n_fitted: float) -> float:
    """Variance of what is left between areas beyond chance, by moments (DerSimonian and Laird).

    `n_fitted` is how many parameters it was left by, as far as their priors let them move.
    """
    weight = 1.0 / noise
    excess = float(weight @ left**2) - (len(left) - n_fitted)
    scale = float(weight.sum() - (weight**2).sum() / weight.sum())
    return max(excess / max(scale, 1e-12), 0.0)


def _log_density(values: np.ndarray, covariance: np.ndarray) -> float:
    """Logarithm of the normal density of mean zero."""
    sign, size = np.linalg.slogdet(covariance)
    assert sign > 0
    inside = values @ np.linalg.solve(covariance, values)
    return float(-0.5 * (size + inside + len(values) * np.log(2.0 * np.pi)))
