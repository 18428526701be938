"""Fields on a graph, and when a sampler may call itself converged."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.reporting.convergence import (
    assess_convergence,
    effective_sample_size,
    split_r_hat,
)
from parity311.reporting.graph import (
    area_under_curve,
    find_components,
    smooth_basis,
    spread_labels,
)

EDGES = np.array([[0, 1], [1, 2], [2, 3], [4, 5]])
N_AREAS = 7
"""A path of four, a pair, and an island."""


def test_components_and_islands() -> None:
    n_components, label = find_components(N_AREAS, EDGES)
    assert n_components == 3
    assert label[0] == label[3] != label[4]


def test_the_field_is_smooth_and_silent_about_islands() -> None:
    basis = smooth_basis(N_AREAS, EDGES, 200)
    assert basis.shape == (7, 4)
    np.testing.assert_allclose(basis[6], 0.0)
    covariance = basis @ basis.T
    assert covariance[0, 1] > covariance[0, 3]
    assert covariance[0, 4] == pytest.approx(0.0, abs=1e-12)
    variance = np.diag(covariance)[:6]
    assert np.exp(np.log(variance).mean()) == pytest.approx(1.0)
    # The precision on the path is the graph Laplacian, up to the scale.
    precision = np.linalg.pinv(covariance[:4, :4])
    assert precision[0, 1] / precision[0, 0] == pytest.approx(-1.0)
    assert precision[0, 2] == pytest.approx(0.0, abs=1e-9)


def test_no_edges_no_field() -> None:
    assert smooth_basis(3, np.zeros((0, 2), dtype=int), 10).shape == (3, 0)


def test_labels_spread_to_neighbours() -> None:
    score = spread_labels(np.array([1, 0, 0, 0, 0, 0, 0]), EDGES, 0.9)
    assert score[0] > score[1] > score[2] > score[3] > 0
    assert score[4] == score[6] == 0


def test_area_under_curve_by_hand() -> None:
    score, outcome = np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1])
    assert area_under_curve(score, outcome) == pytest.approx(3.5 / 4)
    assert np.isnan(area_under_curve(score, np.zeros(4)))


def test_mixed_chains_pass_and_stuck_ones_are_refused() -> None:
    rng = np.random.default_rng(0)
    good = rng.standard_normal((4, 500))
    stuck = good + np.array([0.0, 0.0, 0.0, 1.0])[:, None]
    assert split_r_hat(good) < 1.01
    assert effective_sample_size(good) > 1500
    assert assess_convergence({"a": good}).has_converged
    refused = assess_convergence({"a": good, "b": stuck})
    assert not refused.has_converged
    assert refused.worst == "b"
    assert "NOT converged" in refused.describe()


def test_correlated_draws_count_for_less() -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((4, 4000))
    walk = np.empty_like(noise)
    walk[:, 0] = noise[:, 0]
    for place in range(1, 4000):
        walk[:, place] = 0.9 * walk[:, place - 1] + noise[:, place]
    # An autoregression of 0.9 is worth (1 − 0.9)/(1 + 0.9) of independent draws.
    assert effective_sample_size(walk) == pytest.approx(16_000 / 19, rel=0.25)
