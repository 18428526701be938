"""Inspections that do not depend on reports: what share of what they find had been reported.

An inspection sample is a set of areas drawn at random in which every incident (or a random share
of them) is found whether anyone reported it or not; for each it is known whether it was ever
reported. It shows P(reported) itself, and so identifies the lifetime law that reports leave open.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parity311.reporting.cells import Cells, Design
from parity311.reporting.model import Inspected
from parity311.reporting.settings import InspectionSample


def inspected_cells(cells: Cells, sample: InspectionSample) -> tuple[Cells, Inspected]:
    """Append one cell for an average incident of every inspected area."""
    n_cells, n_new = len(cells.area), len(sample.area)

    def extended(design: Design) -> Design:
        rows = np.concatenate([design.cells, design.areas[sample.area]])
        return replace(design, cells=rows)

    joined = replace(
        cells,
        area=np.concatenate([cells.area, sample.area]),
        is_certain=np.concatenate([cells.is_certain, np.zeros(n_new, dtype=bool)]),
        rate=extended(cells.rate),
        closing=extended(cells.closing),
        closing_offset=np.concatenate([cells.closing_offset, np.zeros(n_new)]),
    )
    found, reported = (part.astype(np.float64) for part in (sample.n_found, sample.n_reported))
    return joined, Inspected(n_cells + np.arange(n_new), found, reported)
