"""The paper's boiler table: what an agent that may inspect as much as pays does with every filing.

Features are discretised, so a policy decides once for every kind of filing, and counts follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.domains import boiler
from parity311.evaluation.comparison_statistics import Resamples, make_resamples, ratio_samples
from parity311.evaluation.metrics import divide
from parity311.mdp.contract import EQUITY, N_STRATA
from parity311.mdp.equity import FEATURE_SCALE
from parity311.resampling import Figure
from parity311.training.loop import Trained

N_BLOCKS = 64
"""Parts into which the tested filings fall at random; intervals resample them."""


@dataclass(frozen=True)
class Confusion:
    """Counts of agents on tested filings, (agents, blocks) each; expected, from true chances."""

    caught: np.ndarray
    wasted: np.ndarray
    passed: np.ndarray
    missed: np.ndarray

    @property
    def n_filings(self) -> np.ndarray:
        """Filings tested, (agents, blocks)."""
        return self.caught + self.wasted + self.passed + self.missed

    @property
    def dollars(self) -> np.ndarray:
        """Reward in dollars, (agents, blocks)."""
        return (
            boiler.CATCH_DOLLARS * self.caught
            - boiler.WASTE_DOLLARS * self.wasted
            - boiler.MISS_DOLLARS * self.missed
        )

    def take(self, rows: np.ndarray) -> Confusion:
        """Some of the agents."""
        return Confusion(self.caught[rows], self.wasted[rows], self.passed[rows], self.missed[rows])


def count_confusion(trained: Trained, true: Any) -> Confusion:
    """Let every agent decide about every filing of the true table."""
    table = boiler.cases(true)
    keys = np.column_stack([table.features, table.stratum])
    kinds, kind = np.unique(keys, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    block = np.random.default_rng(0).integers(0, N_BLOCKS, len(kind))
    size = (N_BLOCKS, len(kinds))
    place = block * len(kinds) + kind
    filings = np.bincount(place, minlength=N_BLOCKS * len(kinds)).reshape(size)
    defects = np.bincount(place, table.is_actionable, N_BLOCKS * len(kinds)).reshape(size)
    columns = trained.harness.columns
    visit = np.stack(
        [
            _visits(trained, index, kinds[:, columns], kinds[:, -1].astype(np.int64))
            for index in range(trained.n_agents)
        ]
    )
    caught = visit @ defects.T
    wasted = visit @ (filings - defects).T
    missed = (1.0 - visit) @ defects.T
    passed = (1.0 - visit) @ (filings - defects).T
    return Confusion(caught, wasted, passed, missed)


def _visits(trained: Trained, index: int, features: np.ndarray, stratum: np.ndarray) -> np.ndarray:
    """Whether one agent visits each kind of filing, (kinds,)."""
    is_priced = trained.preferences[index, EQUITY] > 0
    prices = np.asarray(trained.prices[index]) if is_priced else np.zeros(N_STRATA)
    seen = np.column_stack([features, FEATURE_SCALE * prices[stratum]])
    margin = jax.vmap(trained.agent.margin, in_axes=(None, 0))
    found = margin(trained.weights(index), jnp.asarray(seen, jnp.float32))
    return (np.asarray(found) > 0).astype(np.float64)


def figures(found: Confusion) -> dict[str, Figure]:
    """The paper's columns with intervals; counts as shares of the filings tested."""
    resamples = make_resamples(len(found.caught), N_BLOCKS)
    ratio = lambda top, bottom: ratio_samples(top, bottom, resamples)  # noqa: E731
    visits, defects = found.caught + found.wasted, found.caught + found.missed
    precision, recall = ratio(found.caught, visits), ratio(found.caught, defects)
    samples = {
        "reward_per_step": ratio(found.dollars, found.n_filings),
        "escalations": ratio(visits, found.n_filings),
        "true_positives": ratio(found.caught, found.n_filings),
        "false_positives": ratio(found.wasted, found.n_filings),
        "true_negatives": ratio(found.passed, found.n_filings),
        "false_negatives": ratio(found.missed, found.n_filings),
        "precision": precision,
        "recall": recall,
        "f1": divide(2 * precision * recall, precision + recall),
    }
    return {name: resamples.figure(values) for name, values in samples.items()}


def detection_by_ratio(
    found: Confusion, n_seeds: int, ratios: np.ndarray
) -> tuple[np.ndarray, Resamples]:
    """Detection in every resample (1 + B, ratios), averaged over the other settings of the grid.

    ``ratios`` (preferences,) is the miss ratio of each setting; agents are preferences × seeds.
    """
    resamples = make_resamples(n_seeds, N_BLOCKS)
    levels = np.unique(ratios)
    columns = []
    for level in levels:
        samples = []
        for setting in np.flatnonzero(ratios == level):
            rows = np.arange(setting * n_seeds, (setting + 1) * n_seeds)
            part = found.take(rows)
            samples.append(ratio_samples(part.caught, part.caught + part.missed, resamples))
        columns.append(np.mean(samples, axis=0))
    return np.column_stack(columns), resamples
