"""Whether a sampler has converged: R-hat and effective sample size, and a refusal above a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.errors import InputError

R_HAT_LIMIT = 1.05
ESS_LIMIT = 400.0


def import_sampler() -> tuple[Any, Any, Any]:
    """Import jax, numpyro and its inference; a clear line where the extra is not installed."""
    try:
        import jax
        import numpyro
        import numpyro.infer
    except ImportError as error:
        raise InputError(
            "The Bayesian models need numpyro, which is not installed; install the extra with "
            "`pip install parity311[bayes]`."
        ) from error
    return jax, numpyro, numpyro.infer


@dataclass(frozen=True)
class Convergence:
    """Worst R-hat and smallest effective sample size over all parameters."""

    r_hat: float
    effective_sample_size: float
    worst: str
    """Parameter with the largest R-hat."""

    @property
    def has_converged(self) -> bool:
        """Never true above an R-hat of 1.05 or below 400 effective draws."""
        return self.r_hat < R_HAT_LIMIT and self.effective_sample_size >= ESS_LIMIT

    def describe(self) -> str:
        """One line to print beside every result."""
        verdict = "converged" if self.has_converged else "NOT converged: do not use these numbers"
        return (
            f"R-hat at most {self.r_hat:.3f} (at {self.worst}), at least "
            f"{self.effective_sample_size:.0f} effective draws: {verdict}."
        )


def assess_convergence(draws: dict[str, np.ndarray]) -> Convergence:
    """Split R-hat and effective sample size of draws shaped (n_chains, n_draws, …)."""
    worst_r, worst_name, least = 0.0, "", np.inf
    for name, values in draws.items():
        flat = values.reshape(*values.shape[:2], -1).astype(np.float64)
        for place in range(flat.shape[2]):
            r_hat = split_r_hat(flat[:, :, place])
            if r_hat > worst_r:
                worst_r, worst_name = r_hat, name if flat.shape[2] == 1 else f"{name}[{place}]"
            least = min(least, effective_sample_size(flat[:, :, place]))
    return Convergence(float(worst_r), float(least), worst_name)


def split_r_hat(chains: np.ndarray) -> float:
    """Split R-hat of (n_chains, n_draws): potential scale reduction over half chains."""
    half = chains.shape[1] // 2
    parts = np.concatenate([chains[:, :half], chains[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean()
    if within == 0:
        return 1.0 if np.ptp(parts.mean(axis=1)) == 0 else np.inf
    between = half * parts.mean(axis=1).var(ddof=1)
    return float(np.sqrt(((half - 1) / half * within + between / half) / within))


def effective_sample_size(chains: np.ndarray) -> float:
    """Effective draws of (n_chains, n_draws), by Geyer's initial monotone sequence."""
    n_chains, n = chains.shape
    centred = chains - chains.mean(axis=1, keepdims=True)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, size, axis=1)[:, :n] / n
    within = covariance[:, 0].mean() * n / (n - 1)
    if within == 0:
        return float(n_chains * n)
    total = within * (n - 1) / n
    if n_chains > 1:
        total += chains.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance.mean(axis=0) * n / (n - 1)) / total
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: positive[0] if len(positive) else len(pairs)])
    length = max(-1.0 + 2.0 * pairs.sum(), 1.0 / np.log10(max(n_chains * n, 10)))
    return float(n_chains * n / length)
