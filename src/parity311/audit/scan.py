"""Subgroups nobody listed: every intersection of groups, with one corrected p-value each.

Offline parity for the groups one thought of does not keep a gap from moving to others. Each
intersection's served cases are compared with what its severity codes lead to expect; the spread is
measured over tracts; and the p-value is that of the largest standardised difference among all
intersections, from random signs put to whole tracts (multiplier bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from parity311.audit.cells import AuditCells
from parity311.audit.rates import stratum_of_cells
from parity311.audit.resample import sum_by
from parity311.audit.strata import Grouping
from parity311.records.schema import SEVERITIES

MIN_CASES = 50
"""Smaller intersections are not tested: their standardised difference is not near normal."""
MIN_EXPECTED = 10.0
"""Expected events, and expected non-events, an intersection needs."""
MIN_TRACTS = 10


@dataclass(frozen=True)
class Subgroup:
    """One intersection and how far it is from what its severity codes lead to expect."""

    name: str
    n_cases: float
    n_tracts: int
    rate: float
    expected_rate: float
    difference: float
    z: float
    p_value: float
    """Corrected for all intersections that were looked at."""


@dataclass(frozen=True)
class Scan:
    """All intersections that are large enough, most deviant first."""

    subgroups: tuple[Subgroup, ...]
    n_tested: int
    n_too_small: int


def scan_subgroups(
    cells: AuditCells,
    groupings: Sequence[Grouping],
    *,
    n_tracts: int,
    depth: int = 2,
    n_draws: int = 1000,
    rng: np.random.Generator,
) -> Scan:
    """Look at all intersections of up to ``depth`` groupings.

    ``cells`` are counts of cases; those of unknown tract are left out.
    """
    cells = cells.take((cells.tract >= 0) & (cells.n_cases > 0))
    residual, expected = _residuals(cells)
    layers = sum_by(cells.tract, cells.severity, residual, (n_tracts, len(SEVERITIES)))
    in_layer = np.bincount(cells.severity, weights=cells.n_cases, minlength=len(SEVERITIES))
    found: list[_Candidates] = []
    n_too_small = 0
    index = [stratum_of_cells(cells, grouping) for grouping in groupings]
    for size in range(1, depth + 1):
        for chosen in combinations(range(len(groupings)), size):
            candidates, small = _candidates(
                cells,
                [groupings[i] for i in chosen],
                [index[i] for i in chosen],
                residual,
                expected,
                layers,
                in_layer,
                n_tracts,
            )
            n_too_small += small
            if candidates is not None:
                found.append(candidates)
    if not found:
        return Scan((), 0, n_too_small)
    return _judge(found, n_too_small, n_draws, rng)


@dataclass(frozen=True)
class _Candidates:
    names: list[str]
    contribution: np.ndarray
    """(n_tracts, G) tract sums of residuals, centred within severity."""
    n_cases: np.ndarray
    n_tracts: np.ndarray
    events: np.ndarray
    expected: np.ndarray


def _residuals(cells: AuditCells) -> tuple[np.ndarray, np.ndarray]:
    """Served less expected given severity, and expected, of every cell."""
    served = np.bincount(cells.severity, weights=cells.n_served, minlength=len(SEVERITIES))
    cases = np.bincount(cells.severity, weights=cells.n_cases, minlength=len(SEVERITIES))
    rate = served / np.maximum(cases, 1.0)
    expected = cells.n_cases * rate[cells.severity]
    return cells.n_served - expected, expected


def _candidates(
    cells: AuditCells,
    groupings: list[Grouping],
    index: list[np.ndarray],
    residual: np.ndarray,
    expected: np.ndarray,
    layers: np.ndarray,
    in_layer: np.ndarray,
    n_tracts: int,
) -> tuple[_Candidates | None, int]:
    """Intersections of these groupings that are large enough, and how many are not."""
    shape = tuple(grouping.n_strata for grouping in groupings)
    member = np.ravel_multi_index(tuple(index), shape)
    n = int(np.prod(shape))
    total = np.bincount(member, weights=cells.n_cases, minlength=n)
    hoped = np.bincount(member, weights=expected, minlength=n)
    tracts = (sum_by(cells.tract, member, cells.n_cases, (n_tracts, n)) > 0).sum(axis=0)
    large = (total >= MIN_CASES) & (tracts >= MIN_TRACTS) & (total < cells.n_cases.sum())
    large &= np.minimum(hoped, total - hoped) >= MIN_EXPECTED
    n_small = int(((total > 0) & ~large).sum())
    keep = np.flatnonzero(large)
    if not len(keep):
        return None, n_small
    own = sum_by(cells.tract, member, residual, (n_tracts, n))[:, keep]
    share = sum_by(member, cells.severity, cells.n_cases, (n, len(in_layer)))[keep]
    centred = own - layers @ (share / np.maximum(in_layer, 1.0)).T
    events = np.bincount(member, weights=cells.n_served, minlength=n)
    places = np.array(np.unravel_index(keep, shape)).T
    names = [
        " · ".join(g.labels[i] for g, i in zip(groupings, place, strict=True)) for place in places
    ]
    return (
        _Candidates(names, centred, total[keep], tracts[keep], events[keep], hoped[keep]),
        n_small,
    )


def _judge(
    found: list[_Candidates], n_too_small: int, n_draws: int, rng: np.random.Generator
) -> Scan:
    contribution = np.hstack([part.contribution for part in found])
    error = np.sqrt((contribution**2).sum(axis=0))
    varies = error > 0
    signs = rng.integers(0, 2, (n_draws, len(contribution))) * 2.0 - 1.0
    drawn = np.abs(signs @ contribution[:, varies]) / error[varies]
    largest = np.sort(drawn.max(axis=1)) if varies.any() else np.zeros(n_draws)
    z = np.divide(contribution.sum(axis=0), error, out=np.zeros_like(error), where=varies)
    above = n_draws - np.searchsorted(largest, np.abs(z), side="left")
    p_value = (1 + above) / (1 + n_draws)
    names = [name for part in found for name in part.names]
    columns = [
        np.concatenate([getattr(part, field) for part in found])
        for field in ("n_cases", "n_tracts", "events", "expected")
    ]
    rows = []
    for k in np.argsort(-np.abs(z), kind="stable"):
        n_cases, n_tracts, events, expected = (column[k] for column in columns)
        rate, hoped = float(events / n_cases), float(expected / n_cases)
        rows.append(
            Subgroup(
                names[k], float(n_cases), int(n_tracts), rate, hoped, rate - hoped,
                float(z[k]), float(p_value[k]),
            )
        )  # fmt: skip
    return Scan(tuple(rows), len(rows), n_too_small)
