"""Searches find a front that is known, keep the constraint, and give the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.service_levels.search import (
    dominated_area,
    find_unbeaten,
    rank_designs,
    search_by_weights,
    search_front,
)

CORNER = np.array([2.0, 2.0])


def known_front(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses x and 1 − √x, plus what the other numbers are away from a half; x at least 0.1."""
    away = np.abs(points[:, 1:] - 0.5).mean(axis=1)
    x = points[:, 0]
    losses = np.stack([x + away, 1 - np.sqrt(x) + away], axis=1)
    return losses, np.maximum(0.1 - x, 0.0)


@pytest.mark.parametrize("search", [search_front, search_by_weights])
def test_a_known_front_is_found(search) -> None:
    start = np.random.default_rng(1).random((6, 5))
    found = search(known_front, start, n_generations=80, n_population=40, seed=0, reference=CORNER)
    x = np.linspace(0.1, 1, 400)
    best = dominated_area(np.stack([x, 1 - np.sqrt(x)], axis=1), CORNER)
    assert found.history[-1] > 0.9 * best
    assert found.history[-1] > found.history[0] - 1e-12
    assert (found.numbers[:, 0] >= 0.1).all()
    again = search(known_front, start, n_generations=80, n_population=40, seed=0, reference=CORNER)
    np.testing.assert_array_equal(found.losses, again.losses)


def test_unbeaten_points_by_hand() -> None:
    losses = np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 2.0], [3.0, 1.0], [3.0, 3.0]])
    assert find_unbeaten(losses).tolist() == [True, True, False, True, False]
    # 1·1 + 1·2 + 1·3 of a box of 16.
    assert dominated_area(losses, np.array([4.0, 4.0])) == pytest.approx(6 / 16)


def test_what_breaks_the_constraint_comes_last() -> None:
    losses = np.array([[9.0, 9.0], [0.0, 0.0], [1.0, 1.0]])
    rank, _ = rank_designs(losses, np.array([0.0, 0.3, 0.1]))
    assert rank.tolist() == [0, 2, 1]
