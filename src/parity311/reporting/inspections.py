"""Inspections that do not depend on reports: what share of what they find had been reported.

An inspection sample is a set of areas drawn at random in which every incident (or a random share
of them) is found whether anyone reported it or not; for each it is known whether it was ever
reported. It shows P(reported) itself, and so identifies the lifetime law that reports leave open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from parity311.errors import InputError
from parity311.reporting.cells import Cells
from parity311.reporting.hierarchy import Inspected


@dataclass(frozen=True)
class InspectionSample:
    """Incidents found by inspection, by area: how many, and how many of them were reported."""

    area: np.ndarray
    n_found: np.ndarray
    n_reported: np.ndarray

    def __post_init__(self) -> None:
        bad = np.flatnonzero((self.n_reported < 0) | (self.n_reported > self.n_found))
        if len(bad):
            row = int(bad[0])
            raise InputError(
                f"Inspection row {row + 1}: {self.n_reported[row]} reported of "
                f"{self.n_found[row]} found; reported must lie between 0 and found."
            )


def inspected_cells(cells: Cells, sample: InspectionSample) -> tuple[Cells, Inspected]:
    """Append one cell for an average incident of every inspected area."""
    n_cells = len(cells.area)
    extended = replace(
        cells,
        area=np.concatenate([cells.area, sample.area]),
        pattern=np.concatenate([cells.pattern, np.full(len(sample.area), -1)]),
        design=np.concatenate([cells.design, cells.area_design[sample.area]]),
    )
    index = n_cells + np.arange(len(sample.area))
    return extended, Inspected(
        index, sample.n_found.astype(np.float64), sample.n_reported.astype(np.float64)
    )
