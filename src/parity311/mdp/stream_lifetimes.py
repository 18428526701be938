"""How long incidents last, from two signs that err in opposite directions.

Further reports tell when an incident was still there (the calibration's estimate), but where rates
of reporting differ they stop early and lifetimes come out short. What visits find falls with the
wait, but cases that wait long are scheduled late because they keep, and lifetimes come out long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.mdp.stream_book import Book

GRID_DAYS = np.geomspace(2.0, 2000.0, 60)
"""Mean lifetimes that are tried; a factor of 1.12 apart."""

KIND_PRIOR = 10.0
"""Visits at the mean share found that are lent to every kind (assumed)."""

MODEL_SD = 0.8
"""Sd of the logarithm by which either sign may be off beyond sampling: a factor of two (assumed,
for want of anything that would tell them apart)."""

WITHIN = 1.92
"""Log likelihood below its maximum that bounds a 95 % interval."""


class Decay(NamedTuple):
    """Mean lifetime from how what is found falls with the wait."""

    lifetime_days: float
    log_sd: float
    """sampling error of its logarithm"""


def fit_decay(kind: np.ndarray, is_found: np.ndarray, wait_days: np.ndarray) -> Decay:
    """Likelihood of a lifetime, every kind with a chance of its own; (n,) each.

    A case is found with its kind's chance times the share of incidents that outlast the wait.
    """
    n_kinds = int(kind.max()) + 1
    scores = np.array([_score(kind, is_found, wait_days, n_kinds, days) for days in GRID_DAYS])
    likely = np.log(GRID_DAYS[scores >= scores.max() - WITHIN])
    best = float(GRID_DAYS[int(np.argmax(scores))])
    return Decay(best, float(likely.max() - likely.min()) / (2 * 1.96))


def _score(
    kind: np.ndarray, is_found: np.ndarray, wait_days: np.ndarray, n_kinds: int, days: float
) -> float:
    there = np.exp(-wait_days / days)
    mean = is_found.sum() / max(there.sum(), 1e-9)
    hits = np.bincount(kind, is_found, minlength=n_kinds)
    exposed = np.bincount(kind, there, minlength=n_kinds)
    chance = (hits + KIND_PRIOR * mean) / (exposed + KIND_PRIOR)
    expected = np.clip(chance[kind] * there, 1e-6, 1 - 1e-6)
    return float((is_found * np.log(expected) + (1 - is_found) * np.log(1 - expected)).sum())


def blend_lifetime(book: Book, calibrated_days: float) -> float:
    """Mean lifetime in days: both signs, each with the weight its errors leave it."""
    looked = book.is_looked
    wait = np.maximum(book.looked_days[looked], 0.0)
    decay = fit_decay(book.kind[looked], book.is_found[looked], wait)
    weight = MODEL_SD**2 / (2 * MODEL_SD**2 + decay.log_sd**2)
    logs = np.log([calibrated_days, decay.lifetime_days])
    return float(np.exp((1.0 - weight) * logs[0] + weight * logs[1]))
