"""Random streams by name, so that one part of a city can change without moving the others."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri


def named_seed(seed: int, *names: object) -> np.random.SeedSequence:
    """Seed of the stream with these names, e.g. ``named_seed(7, "heat", "reports", 2024, 1)``."""
    digest = hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=16).digest()
    return np.random.SeedSequence([seed, *np.frombuffer(digest, dtype="<u4").tolist()])


def named_generator(seed: int, *names: object) -> np.random.Generator:
    """Generator of the stream with these names."""
    return np.random.default_rng(named_seed(seed, *names))


def again_names(replicate: int) -> tuple[object, ...]:
    """Names to add to a stream that is drawn anew; none for 0, the city's own."""
    return ("replicate", replicate) if replicate else ()


@dataclass(frozen=True)
class ServiceDraws:
    """Draws of what happens to cases on one day: from the day's stream, or by case.

    The city on disk uses a day's stream in the order of its cases, so that one visit more moves
    every draw after it. By case, a door that is locked to one rule is locked to every rule that
    comes for the same time of knocking: rules are paired closely.
    """

    generator: np.random.Generator
    case_seed: int | None = None
    """Seed of draws by case; None: the stream."""

    def uniform(self, what: str, case: NDArray[np.int64], nth: NDArray) -> NDArray[np.float64]:
        """Uniform draws (n,), each for the nth time something happens to a case."""
        if self.case_seed is None:
            return self.generator.random(len(case))
        return case_uniform(self.case_seed, what, case, nth)

    def normal(self, what: str, case: NDArray[np.int64], nth: NDArray) -> NDArray[np.float64]:
        """Standard normal draws (n,)."""
        if self.case_seed is None:
            return self.generator.standard_normal(len(case))
        return ndtri(case_uniform(self.case_seed, what, case, nth))

    def exponential(self, what: str, case: NDArray[np.int64], nth: NDArray) -> NDArray[np.float64]:
        """Exponential draws (n,) of mean one."""
        if self.case_seed is None:
            return self.generator.standard_exponential(len(case))
        return -np.log(case_uniform(self.case_seed, what, case, nth))

    def number(
        self, what: str, below: int, case: NDArray[np.int64], nth: NDArray
    ) -> NDArray[np.int64]:
        """Whole numbers (n,) from 0 to below (exclusive)."""
        if self.case_seed is None:
            return self.generator.integers(0, below, len(case))
        return (below * case_uniform(self.case_seed, what, case, nth)).astype(np.int64)


def case_uniform(
    seed: int, what: str, case: NDArray[np.int64], nth: NDArray
) -> NDArray[np.float64]:
    """Uniform draws (n,) in (0, 1) that depend on these numbers alone (SplitMix64, twice)."""
    start = named_seed(seed, what).generate_state(1, np.uint64)
    mixed = _mix(_mix(case.astype(np.uint64) + start) + nth.astype(np.uint64))
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def service_draws(
    generator: np.random.Generator, seed: int, domain: str, replicate: int
) -> ServiceDraws:
    """A day's draws: from its stream in the city's own draw, by case in a replicate."""
    if replicate == 0:
        return ServiceDraws(generator)
    names = (domain, "service", *again_names(replicate))
    return ServiceDraws(generator, int(named_seed(seed, *names).generate_state(1)[0]))
