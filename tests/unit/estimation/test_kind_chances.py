"""Chances of kinds from looks: drawn together as far as the records call for, waits corrected."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.estimation.kind_chances import (
    PRIORS,
    chance_from_looks,
    likeliest_prior,
    pooled_chances,
)

WRITTEN = 0.8
LEVELS = (4, 4, 3)
KINDS = np.stack(np.unravel_index(np.arange(48), LEVELS), axis=1)


def by_parts(rng: np.random.Generator, own_sd: float) -> np.ndarray:
    """Chances of 48 kinds: their parts add up, and each has something of its own."""
    log_odds = KINDS @ np.array([0.3, 0.5, 0.4]) - 2.2 + own_sd * rng.standard_normal(48)
    return 1.0 / (1.0 + np.exp(-log_odds))


def look(
    rng: np.random.Generator,
    chance: np.ndarray,
    n: int,
    waits: np.ndarray | None = None,
    written_share: float = WRITTEN,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kind, finding, and chance to be still there of n looks."""
    kind = rng.integers(0, len(chance), n)
    there = np.ones(n) if waits is None else np.exp(-waits[kind])
    return kind, (rng.random(n) < written_share * there * chance[kind]).astype(float), there


def test_what_parts_explain_is_left_to_them() -> None:
    rng = np.random.default_rng(1)
    chance = by_parts(rng, 0.0)
    kind, found, there = look(rng, chance, 2_000)
    error = np.abs(chance_from_looks(kind, found, there, KINDS, LEVELS, WRITTEN) - chance).mean()
    alone = np.bincount(kind, found, 48) / np.bincount(kind, minlength=48) / WRITTEN
    assert error < 0.6 * np.abs(alone - chance).mean()


def test_kinds_that_differ_beyond_their_parts_keep_their_own() -> None:
    rng = np.random.default_rng(2)
    chance = by_parts(rng, 1.5)
    kind, found, there = look(rng, chance, 20_000)
    error = np.abs(chance_from_looks(kind, found, there, KINDS, LEVELS, WRITTEN) - chance).mean()
    # What a fit by parts alone would leave: the mean of 48 kinds' own part.
    assert error < 0.3 * np.abs(chance - by_parts(rng, 0.0)).mean()


def test_the_prior_follows_the_spread_between_kinds() -> None:
    rng = np.random.default_rng(3)
    n = np.full(48, 200)
    alike = rng.binomial(n, 0.4).astype(float)
    apart = rng.binomial(n, rng.beta(4.0, 6.0, 48)).astype(float)
    expected = np.full(48, 0.4)
    assert likeliest_prior(alike, n, expected) == PRIORS[-1]
    assert likeliest_prior(apart, n, expected) == PRIORS[0]


def test_late_looks_are_corrected_kind_by_kind() -> None:
    """Codes that wait longest find least; the mean wait would not explain it."""
    rng = np.random.default_rng(4)
    chance, waits = np.full(48, 0.4), 0.2 + 0.3 * (3 - KINDS[:, 1])
    kind, found, there = look(rng, chance, 6_000, waits)
    known = chance_from_looks(kind, found, there, KINDS, LEVELS, WRITTEN)
    assert np.abs(known - 0.4).mean() < 0.05
    same = np.full(len(kind), there.mean())
    by_mean = chance_from_looks(kind, found, same, KINDS, LEVELS, WRITTEN)
    assert np.abs(by_mean - 0.4).mean() > 0.08


@pytest.mark.parametrize("written_share", [0.55, 0.9])
def test_what_is_let_pass_is_put_back(written_share: float) -> None:
    """Another share than the inspectors' own would put back too much, or too little."""
    rng = np.random.default_rng(6)
    chance = by_parts(rng, 0.0)
    looks = look(rng, chance, 8_000, written_share=written_share)
    known = [
        chance_from_looks(*looks, KINDS, LEVELS, share).mean() for share in (written_share, 0.75)
    ]
    assert known[0] == pytest.approx(chance.mean(), rel=0.05)
    assert abs(known[1] / chance.mean() - 1.0) > 0.1


def test_ordered_levels_share_a_line() -> None:
    """Few labels a cell: a line through the levels is nearer than the cells' own shares."""
    rng = np.random.default_rng(5)
    chance = by_parts(rng, 0.0)
    cell = rng.integers(0, 48, 2_000)
    label = (rng.random(2_000) < chance[cell]).astype(float)
    alone = np.bincount(cell, label, 48) / np.bincount(cell, minlength=48)
    error = np.abs(pooled_chances(cell, label, LEVELS) - chance).mean()
    assert error < 0.4 * np.abs(alone - chance).mean()
