"""Fit tracts by moments: where the constants of `city/tract_model.py` come from."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from parity311.city.places import BOROUGHS, Tracts
from parity311.city.plan import NYC_TRACTS, to_km
from parity311.city.tracts import TractModel, spatial_kernel, to_latent

_MINIMUM_POPULATION = 200
_MINIMUM_HOUSEHOLDS = 50
"""Smaller tracts are institutions and margins of parks; their shares are mostly sampling noise."""
_LARGEST_SPATIAL_SHARE = 0.98
"""Of any direction's variance; keeps the tract's own part positive definite."""
_CENTRING_CORRECTION = 1.42
"""Taking out each borough's mean makes the length look shorter: cities drawn with 2.8 km are
fitted with 1.95 without this factor (mean of six seeds, standard deviation 0.17)."""
_CORRELOGRAM_KM = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0])
"""Limits of the distance classes, in km of a city of 2,325 tracts."""


def fit_tracts(tracts: Tracts) -> TractModel:
    """Fit a `TractModel` to the tracts that have an income and enough residents."""
    chosen = _is_usable(tracts)
    latent = _latent(tracts)[chosen]
    borough = tracts.borough[chosen]
    inside = [borough == index for index in range(len(BOROUGHS))]
    mean = np.stack([latent[own].mean(axis=0) for own in inside])
    deviation = np.stack([latent[own].std(axis=0) for own in inside])
    # Pooled as they are, so that a borough counts as much as it varies.
    residual = latent - mean[borough]
    standard = residual / np.sqrt(np.square(residual).mean(axis=0))
    correlation = standard.T @ standard / len(standard)
    km = scaled_km(tracts)[chosen]
    length_km = _fit_length(standard, km)
    position = np.cumsum(chosen) - 1
    edges = position[tracts.edges[chosen[tracts.edges].all(axis=1)]]
    spatial = _fit_spatial(standard, km, edges, length_km, correlation)
    return TractModel(mean, deviation, correlation, spatial, _CENTRING_CORRECTION * length_km)


def scaled_km(tracts: Tracts) -> NDArray[np.float64]:
    """Centres (n, 2) in km, shrunk as if tracts were as dense as New York's.

    A small city is drawn over the same outlines; without this its neighbours would be farther
    apart, and less alike, than neighbouring tracts are.
    """
    return to_km(tracts.longitude, tracts.latitude) * np.sqrt(tracts.n / NYC_TRACTS)


def morans_i(values: NDArray[np.float64], edges: NDArray[np.int32]) -> float:
    """Moran's I of a variable on the neighbour graph; tracts with NaN are left out."""
    known = ~np.isnan(values)
    centred = np.where(known, values - values[known].mean(), 0.0)
    pairs = edges[known[edges].all(axis=1)]
    products = centred[pairs[:, 0]] * centred[pairs[:, 1]]
    return float(products.mean() / np.square(centred[known]).mean())


def _is_usable(tracts: Tracts) -> NDArray[np.bool_]:
    return (
        ~np.isnan(tracts.median_income)
        & (tracts.population > _MINIMUM_POPULATION)
        & (tracts.households > _MINIMUM_HOUSEHOLDS)
        & ~np.isnan(tracts.share_white + tracts.share_renter + tracts.share_bachelors)
    )


def _latent(tracts: Tracts) -> NDArray[np.float64]:
    race_shares = np.column_stack(
        [tracts.share_white, tracts.share_black, tracts.share_hispanic, tracts.share_asian]
    )
    return to_latent(
        tracts.median_income,
        race_shares,
        tracts.share_renter,
        tracts.share_bachelors,
        np.maximum(tracts.population, 1).astype(np.float64),
        np.maximum(tracts.households, 1).astype(np.float64),
    )


def _fit_length(standard: NDArray[np.float64], km: NDArray[np.float64]) -> float:
    """Kernel length in km that fits the correlograms of all variables best, by least squares."""
    observed, distance = [], []
    gap = cdist(km, km)
    np.fill_diagonal(gap, np.inf)
    for low, high in pairwise(_CORRELOGRAM_KM):
        first, second = np.nonzero((gap >= low) & (gap < high))
        if len(first):
            observed.append((standard[first] * standard[second]).mean(axis=0))
            distance.append(gap[first, second].mean())
    correlogram, distances = np.stack(observed), np.asarray(distance)

    def misfit(length_km: float) -> float:
        kernel = spatial_kernel(distances, length_km)
        share = kernel @ correlogram / (kernel @ kernel)
        return float(np.square(correlogram - kernel[:, None] * share).sum())

    lengths_km = np.linspace(0.3, 8.0, 771)
    return float(lengths_km[np.argmin([misfit(length) for length in lengths_km])])


def _fit_spatial(
    standard: NDArray[np.float64],
    km: NDArray[np.float64],
    edges: NDArray[np.int64],
    length_km: float,
    correlation: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Spatial part of the correlation: that between neighbours, carried back to distance 0."""
    first, second = standard[edges[:, 0]], standard[edges[:, 1]]
    between = (first.T @ second + second.T @ first) / (2 * len(edges))
    distance = np.linalg.norm(km[edges[:, 0]] - km[edges[:, 1]], axis=1)
    spatial = between / spatial_kernel(distance, length_km).mean()
    root = np.linalg.cholesky(correlation)
    whitened = np.linalg.solve(root, np.linalg.solve(root, spatial).T)
    values, vectors = np.linalg.eigh((whitened + whitened.T) / 2)
    bounded = vectors * np.clip(values, 0.0, _LARGEST_SPATIAL_SHARE) @ vectors.T
    return root @ bounded @ root.T
