"""Small networks and rows for tests of explanations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def make_network(seed: int, sizes: tuple[int, ...] = (6, 16, 16, 3)) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    network = {}
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        network[f"weight_{layer}"] = rng.standard_normal((n_in, n_out)) * np.sqrt(2 / n_in)
        network[f"bias_{layer}"] = 0.1 * rng.standard_normal(n_out)
    return network


def make_priced(seed: int, sizes: tuple[int, ...] = (5, 16, 16, 3)) -> dict[str, np.ndarray]:
    """Two networks, the second of which counts times a price that follows the other features."""
    parts = {"saves": make_network(seed, sizes), "covers": make_network(seed + 1, sizes)}
    return {f"{part}/{name}": own[name] for part, own in parts.items() for name in own}


def make_rows(seed: int, n: int, d: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))
