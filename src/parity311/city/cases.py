"""Cases an agency opened and the visits it made, as arrays that grow day by day."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from parity311.records.schema import DISPOSITION_CLASSES

VIOLATION, NO_VIOLATION, NO_ACCESS, REFERRAL, DUPLICATE, PENDING, OTHER = range(7)
RESTORED = 7
"""A no_violation where the condition was found to have ended; its own disposition code."""
assert DISPOSITION_CLASSES[VIOLATION] == "violation"
assert DISPOSITION_CLASSES[OTHER] == "other"


@dataclass
class OpenedCases:
    """Cases as arrays, filled as they are opened; only the first ``n`` rows are in use."""

    report: NDArray[np.int64]
    incident: NDArray[np.int64]
    building: NDArray[np.int32]
    received: NDArray[np.float64]
    closed: NDArray[np.float64]
    first_visit: NDArray[np.float64]
    callback: NDArray[np.float64]
    outcome: NDArray[np.int8]
    n_attempts: NDArray[np.int16]
    n_prior_cases: NDArray[np.int32]
    n_prior_violations: NDArray[np.int32]
    n: int = 0

    @classmethod
    def allocate(cls, size: int) -> OpenedCases:
        """Room for as many cases as there are reports."""
        missing = np.full(size, np.inf)
        return cls(
            report=np.zeros(size, np.int64),
            incident=np.zeros(size, np.int64),
            building=np.zeros(size, np.int32),
            received=missing.copy(),
            closed=missing.copy(),
            first_visit=missing.copy(),
            callback=missing.copy(),
            outcome=np.full(size, PENDING, np.int8),
            n_attempts=np.zeros(size, np.int16),
            n_prior_cases=np.zeros(size, np.int32),
            n_prior_violations=np.zeros(size, np.int32),
        )

    def copy(self, size: int) -> OpenedCases:
        """The cases so far, with room for others than these have."""
        fresh = OpenedCases.allocate(size)
        for item in fields(self):
            if item.name != "n":
                getattr(fresh, item.name)[: self.n] = getattr(self, item.name)[: self.n]
        fresh.n = self.n
        return fresh


@dataclass
class VisitLog:
    """Visits in lists of daily arrays."""

    columns: dict[str, list[NDArray]] = field(default_factory=lambda: defaultdict(list))

    def add(self, **arrays: NDArray) -> None:
        """Append one day."""
        for name, values in arrays.items():
            self.columns[name].append(values)

    def collect(self, name: str, kind: type) -> NDArray:
        """One column over all days."""
        parts = self.columns.get(name)
        return np.concatenate(parts).astype(kind) if parts else np.zeros(0, kind)

    def copy(self) -> VisitLog:
        """The visits so far; days added to the one are not added to the other."""
        fresh = VisitLog()
        fresh.columns.update({name: list(parts) for name, parts in self.columns.items()})
        return fresh
