"""Random streams by name, so that one part of a city can change without moving the others."""

from __future__ import annotations

import hashlib

import numpy as np


def named_seed(seed: int, *names: object) -> np.random.SeedSequence:
    """Seed of the stream with these names, e.g. ``named_seed(7, "heat", "reports", 2024, 1)``."""
    digest = hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=16).digest()
    return np.random.SeedSequence([seed, *np.frombuffer(digest, dtype="<u4").tolist()])


def named_generator(seed: int, *names: object) -> np.random.Generator:
    """Generator of the stream with these names."""
    return np.random.default_rng(named_seed(seed, *names))
