"""The published form of the spatial model: each area has an incident or none, as its neighbours.

Agostini, Pierson and Garg: A ∈ {−1, 1}, P(A) ∝ exp(θ₀ ΣAᵢ + θ₁ Σ_{neighbours} AᵢAⱼ); no report
where A = −1, and ψᵢ = logistic(α₀ + xᵢ·α) where A = 1. Gibbs sweeps for A, random walks for α, and
for θ, whose norm nobody can compute, exchanges with an auxiliary field. Level and prevalence lie on
a ridge, along which the chains wander slowly: what is used is the chance of a report, not θ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PRIORS = np.array([(0.0, 0.5), (0.1, 0.03)])
"""Mean and sd of θ₀ and θ₁, as published."""
REPORTING_PRIOR, SLOPE_SD = (-1.5, 0.5), 0.5
"""Of α₀, as in the continuous field, so that the two differ in the field alone; of α."""
AUXILIARY_SWEEPS = 10
WALKS = 3
"""Random walks of α an iteration."""
WANTED_ACCEPTANCE = 0.3


@dataclass(frozen=True)
class BinaryFit:
    """What the binary field says of every area."""

    score: np.ndarray
    """(n,) E[P(incident | report, neighbours)·ψ], the chance of a later report."""
    report_chance: np.ndarray
    """(n,) E[P(incident | neighbours)·ψ], without the area's own report: for areas held out."""
    incident_probability: np.ndarray
    coupling: tuple[float, float, float]
    """θ₁: mean, 5 % and 95 %."""


class _Field:
    """Areas in groups of which no two touch, so that a group is drawn at once."""

    def __init__(self, n: int, edges: np.ndarray) -> None:
        self.n, self.edges = n, edges
        beside: list[list[int]] = [[] for _ in range(n)]
        for a, b in edges.tolist():
            beside[a].append(b)
            beside[b].append(a)
        widest = max(map(len, beside), default=0)
        # The last place holds a spin of nothing, for areas with fewer neighbours.
        self.beside = np.full((n, max(widest, 1)), n)
        for area, found in enumerate(beside):
            self.beside[area, : len(found)] = found
        colour = np.full(n, -1)
        for area in np.argsort([-len(found) for found in beside], kind="stable"):
            taken = {int(colour[other]) for other in beside[area]}
            colour[area] = next(c for c in range(n + 1) if c not in taken)
        self.groups = [np.flatnonzero(colour == c) for c in range(int(colour.max()) + 1)]

    def pull(self, spins: np.ndarray, areas: np.ndarray) -> np.ndarray:
        """Sum of the neighbours' spins; ``spins`` is (chains, n + 1) with a zero at the end."""
        return spins[:, self.beside[areas]].sum(axis=2)

    def sweep(
        self, rng: np.random.Generator, spins: np.ndarray, theta: np.ndarray, own: np.ndarray | None
    ) -> None:
        """Draw every spin given the others, in place; ``own`` is the log odds of its report."""
        for areas in self.groups:
            odds = 2.0 * (theta[:, :1] + theta[:, 1:] * self.pull(spins, areas))
            if own is not None:
                odds = odds + own[:, areas]
            draw = rng.random(odds.shape)
            spins[:, areas] = np.where(draw * (1.0 + np.exp(-odds)) < 1.0, 1.0, -1.0)

    def sums(self, spins: np.ndarray) -> np.ndarray:
        """(chains, 2) ΣA and ΣAA over neighbours."""
        pairs = spins[:, self.edges[:, 0]] * spins[:, self.edges[:, 1]]
        return np.column_stack([spins[:, : self.n].sum(axis=1), pairs.sum(axis=1)])


def _exchange(
    field: _Field,
    rng: np.random.Generator,
    spins: np.ndarray,
    theta: np.ndarray,
    moved: np.ndarray,
) -> np.ndarray:
    """Log odds of moving from θ to ``moved``; a field drawn there stands for the norms."""
    auxiliary = spins.copy()
    for _ in range(AUXILIARY_SWEEPS):
        field.sweep(rng, auxiliary, moved, None)
    told = ((moved - theta) * (field.sums(spins) - field.sums(auxiliary))).sum(axis=1)
    drawn = [(((one - PRIORS[:, 0]) / PRIORS[:, 1]) ** 2).sum(axis=1) for one in (moved, theta)]
    return told - 0.5 * (drawn[0] - drawn[1])


def fit_binary(
    early: np.ndarray,
    covariates: np.ndarray,
    edges: np.ndarray,
    *,
    seen: np.ndarray | None = None,
    seed: int = 0,
    n_chains: int = 4,
    n_warm: int = 1_000,
    n_draws: int = 2_000,
) -> BinaryFit:
    """Sample the binary field; areas that are not ``seen`` count as if nobody knew of a report."""
    rng = np.random.default_rng(seed)
    n = len(early)
    seen = np.ones(n, dtype=bool) if seen is None else seen
    field = _Field(n, edges)
    design = np.column_stack([np.ones(n), covariates])
    means = np.array([REPORTING_PRIOR[0], *[0.0] * covariates.shape[1]])
    spreads = np.array([REPORTING_PRIOR[1], *[SLOPE_SD] * covariates.shape[1]])
    alpha = means + 0.5 * spreads * rng.standard_normal((n_chains, len(means)))
    theta = PRIORS[:, 0] + PRIORS[:, 1] * rng.standard_normal((n_chains, 2))
    spins = np.where(rng.random((n_chains, n + 1)) < 0.5, 1.0, -1.0)
    spins[:, n] = 0.0
    spins[:, :n][:, early & seen] = 1.0
    steps = {"alpha": np.full(n_chains, 0.15), "theta": np.tile([0.1, 0.03], (n_chains, 1))}
    score, chance, incident = np.zeros(n), np.zeros(n), np.zeros(n)
    couplings = np.empty((n_draws, n_chains))

    def fits(slopes: np.ndarray) -> np.ndarray:
        """Log posterior of α given the field."""
        eta = slopes @ design.T
        # log ψ where there was a report, log(1 − ψ) where there was none.
        each = np.where(early, -np.logaddexp(0.0, -eta), -np.logaddexp(0.0, eta))
        counted = (spins[:, :n] > 0) & seen
        drawn = -0.5 * (((slopes - means) / spreads) ** 2).sum(axis=1)
        return np.where(counted, each, 0.0).sum(axis=1) + drawn

    def adapt(step: np.ndarray, accepted: np.ndarray, iteration: int) -> None:
        """Longer steps where most are taken, shorter where few are, in place; then no more."""
        if iteration < n_warm:
            step *= np.exp((accepted - WANTED_ACCEPTANCE) / np.sqrt(1.0 + iteration / 10))

    for iteration in range(n_warm + n_draws):
        eta = alpha @ design.T
        no_report = -np.logaddexp(0.0, eta)
        own = np.where(seen, np.where(early, np.inf, no_report), 0.0)
        field.sweep(rng, spins, theta, own)
        for _ in range(WALKS):
            there = fits(alpha)
            step = steps["alpha"][:, None] * rng.standard_normal(alpha.shape)
            moved = alpha + step * spreads
            takes = np.log(rng.random(n_chains)) < fits(moved) - there
            alpha = np.where(takes[:, None], moved, alpha)
            adapt(steps["alpha"], takes, iteration)
        part = iteration % 2  # θ₀ and θ₁ in turn: their scales differ by far.
        moved = theta.copy()
        moved[:, part] += steps["theta"][:, part] * rng.standard_normal(n_chains)
        takes = np.log(rng.random(n_chains)) < _exchange(field, rng, spins, theta, moved)
        theta = np.where(takes[:, None], moved, theta)
        adapt(steps["theta"][:, part], takes, iteration)
        if iteration >= n_warm:
            psi = 1.0 / (1.0 + np.exp(-(alpha @ design.T)))
            pull = field.pull(spins, np.arange(n))
            prior_odds = 2.0 * (theta[:, :1] + theta[:, 1:] * pull)
            q = 1.0 / (1.0 + np.exp(-prior_odds))
            given = np.where(seen & early, 1.0, q * (1.0 - psi) / (1.0 - q * psi))
            given = np.where(seen, given, q)
            score += (given * psi).mean(axis=0)
            chance += (q * psi).mean(axis=0)
            incident += given.mean(axis=0)
            couplings[iteration - n_warm] = theta[:, 1]
    ends = np.percentile(couplings, (5, 95))
    coupling = float(couplings.mean()), float(ends[0]), float(ends[1])
    return BinaryFit(score / n_draws, chance / n_draws, incident / n_draws, coupling)
