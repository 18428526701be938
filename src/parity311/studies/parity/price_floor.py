"""The floor of the price of parity in a queue, as a frontier over the gap.

Score and capacity are fixed and the process is known: what is sought are prices by stratum that
reach a gap at the least loss of correct escalations. Candidates are prices that settle within
bands of several widths under the truth, random ones around them, and online rules with true
denominators. Whoever alternates between two of them reaches every gap and price between: the
floor is the lower convex hull. The least of many noisy prices is too low, so the corners of the
hull are chosen on one half of the years and measured on the other, both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from parity311.mdp.contract import N_KNOWN_STRATA
from parity311.studies.parity.band_prices import Entry, with_prices
from parity311.studies.parity.long_run import (
    Years,
    gap_of,
    interval,
    pooled_coverage,
    price_samples,
)

GAPS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08)
"""Widths of the bands in which candidates settle."""
N_AROUND = 4
SPREAD = 0.1
"""Candidates around each settled one, and the sd of their prices, in log odds of the score."""


def candidates_around(
    entry: Entry, settled: Sequence[np.ndarray], n_around: int = N_AROUND, seed: int = 0
) -> list[Entry]:
    """Entries at the settled prices (6,) each, around them, and online.

    Online from the first of them and from none; where others are sought around, also from none
    towards each of the gaps, and from both at four times the pace and with prices posted once in
    a window or in one and a half.
    """
    rng = np.random.default_rng(seed)
    moving = replace(entry.contender, prices=None, is_priced=True, price_step=None)
    found = [replace(entry, contender=one) for one in (replace(moving, prices=settled[0]), moving)]
    if n_around:
        for gap in GAPS[1:]:
            equity = entry.equity._replace(target_gap=jnp.float32(gap))
            found.append(replace(entry, contender=moving, equity=equity))
        quick = 4.0 * float(entry.equity.step_size)
        for one in found[:2]:
            found.append(replace(one, contender=replace(one.contender, price_step=quick)))
            for factor in (1.0, 1.5):
                steps = factor * entry.equity.window_steps
                found.append(replace(one, equity=entry.equity._replace(posting_steps=steps)))
    for prices in settled:
        own = prices[:N_KNOWN_STRATA]
        noise = SPREAD * rng.standard_normal((n_around, N_KNOWN_STRATA))
        shifted = [own, *(own + shift - shift.mean() for shift in noise)]
        found += [replace(entry, contender=with_prices(entry.contender, one)) for one in shifted]
    return [replace(one, contender=replace(one.contender, name="floor")) for one in found]


def hull_corners(gaps: np.ndarray, prices: np.ndarray) -> list[int]:
    """Which candidates are corners of the least price at each gap: falling, convex."""
    corners: list[int] = []
    for place in np.lexsort((prices, gaps)):
        if corners and prices[place] >= prices[corners[-1]]:
            continue
        while len(corners) > 1 and _is_above(gaps, prices, corners[-2], corners[-1], place):
            corners.pop()
        corners.append(int(place))
    return corners


def _is_above(gaps: np.ndarray, prices: np.ndarray, first: int, middle: int, last: int) -> bool:
    """Whether the middle corner lies on or above the line from the first to the last."""
    run = gaps[last] - gaps[first]
    line = prices[first] + (prices[last] - prices[first]) * (gaps[middle] - gaps[first]) / run
    return bool(prices[middle] >= line)


def floor_at(gap: float, gaps: np.ndarray, prices: np.ndarray) -> float:
    """Least price of a gap; at gaps smaller than any that was reached, that of the smallest."""
    corners = hull_corners(gaps, prices)
    return float(np.interp(gap, gaps[corners], prices[corners]))


def measure_candidates(
    candidates: Sequence[Years], reference: Years, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gap and price of every candidate in every resample, (candidates, samples) each."""
    gaps = np.stack([gap_of(pooled_coverage(one, weights)) for one in candidates])
    return gaps, np.stack([price_samples(one, reference, weights) for one in candidates])


def cross_floors(
    own_gaps: np.ndarray, candidates: Sequence[Years], reference: Years, weights: np.ndarray
) -> np.ndarray:
    """Least price of a gap (samples,) in every resample; corners chosen and measured apart."""
    is_even = np.arange(weights.shape[1]) % 2 == 0
    halves = [
        measure_candidates(candidates, reference, weights * side) for side in (is_even, ~is_even)
    ]
    found = np.zeros(len(weights))
    for chosen, measured in (halves, halves[::-1]):
        for i, gap in enumerate(own_gaps):
            corners = hull_corners(chosen[0][:, i], chosen[1][:, i])
            found[i] += floor_at(gap, measured[0][corners, i], measured[1][corners, i]) / 2.0
    return found


def compare_with_floor(
    years: Years,
    reference: Years,
    candidates: Sequence[Years],
    candidate_reference: Years,
    weights: np.ndarray,
) -> dict[str, dict[str, float]]:
    """A policy's price less the floor at its gap, in every resample of the same years."""
    own_gap = gap_of(pooled_coverage(years, weights))
    own_price = price_samples(years, reference, weights)
    floors = cross_floors(own_gap, candidates, candidate_reference, weights)
    return {"floor": interval(floors), "above_floor": interval(own_price - floors)}


SHOWN_GAPS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08)


def show_floor(candidates: Sequence[Years], reference: Years) -> dict[str, object]:
    """The frontier at round gaps, from the smallest that any candidate reached."""
    smallest = float(min(gap_of(one.coverage) for one in candidates))
    shown = np.array([gap for gap in SHOWN_GAPS if gap >= smallest])
    once = np.ones((len(shown), len(reference.correct)))
    prices = cross_floors(shown, candidates, reference, once)
    corners = [{"gap": float(g), "price": float(p)} for g, p in zip(shown, prices, strict=True)]
    return {"smallest_gap": smallest, "corners": corners}
