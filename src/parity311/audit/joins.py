"""Who is lost on the way into the audit: cases without a building, a tract, or a published income.

A join that fails more often for one group hides that group's service, so it is audited like one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from parity311.audit.cells import LOST, AuditInputs
from parity311.audit.compare import Comparison, compare_strata
from parity311.audit.resample import RateDraws, draw_rates, sum_by
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import UNKNOWN, Grouping
from parity311.resampling import exponential_weights


@dataclass(frozen=True)
class JoinCoverage:
    """Cases of one group, and the shares that could be placed."""

    group: str
    value: str
    n_cases: float
    share_with_building: float
    share_with_tract: float
    share_with_income: float
    """Cases in a tract whose income is published: the others stand in the stratum `unknown`."""


def join_coverage(inputs: AuditInputs, minimum: int) -> list[JoinCoverage]:
    """Coverage by channel, language and borough; groups below ``minimum`` cases are merged."""
    cells = inputs.cells
    borough = np.append(inputs.places.borough, UNKNOWN)[cells.tract]
    has_income = np.append(inputs.places.income_quintile > 0, False)[cells.tract]
    rows = []
    for group, codes in (
        ("channel", cells.channel),
        ("language", cells.language),
        ("borough", borough),
    ):
        names = np.array([UNKNOWN if code in (None, "") else str(code) for code in codes])
        values, member = np.unique(names, return_inverse=True)
        totals = np.bincount(member, weights=cells.n_cases)
        small = totals < minimum
        for name, use in _merged(values, member, small):
            n = cells.n_cases[use].sum()
            if n >= minimum:
                shares = (
                    cells.n_located[use].sum() / n,
                    cells.n_cases[use & (cells.tract != LOST)].sum() / n,
                    cells.n_cases[use & has_income].sum() / n,
                )
                rows.append(JoinCoverage(group, name, float(n), *map(float, shares)))
    return rows


def _merged(
    values: np.ndarray, member: np.ndarray, small: np.ndarray
) -> list[tuple[str, np.ndarray]]:
    groups = [(str(v), member == k) for k, v in enumerate(values) if not small[k]]
    return [*groups, ("all smaller groups", small[member])] if small.any() else groups


@dataclass(frozen=True)
class OverrideAudit:
    """How often staff set a recommendation aside, by stratum, and whether that differs."""

    rates: RateDraws
    """Overrides per recommendation."""
    comparison: Comparison
    downgraded: RateDraws
    """Recommended visits that were not made, per recommended visit."""
    downgraded_comparison: Comparison


def audit_overrides(
    tract: np.ndarray,
    recommended_escalates: np.ndarray,
    taken_escalates: np.ndarray,
    is_override: np.ndarray,
    grouping: Grouping,
    spec: AuditSpec,
    *,
    n_tracts: int,
) -> OverrideAudit:
    """Audit what staff changed: one row a recommendation, with the index of its tract.

    An override is a burden where it takes a visit away, so the stratum with most of them is the
    one worst off.
    """
    burden = replace(spec, polarity="burden")
    rng = np.random.default_rng(spec.seed)
    weights = exponential_weights(n_tracts, spec.n_draws, rng)
    shape = (n_tracts, grouping.n_strata)
    if grouping.of_tract is None:
        raise ValueError(f"overrides are audited by place, not by {grouping.name}")
    group = grouping.of_tract[tract]
    results = []
    for counted, among in (
        (is_override, np.ones(len(tract), bool)),
        (recommended_escalates & ~taken_escalates, recommended_escalates),
    ):
        top = sum_by(tract, group, (counted & among).astype(float), shape)
        below = sum_by(tract, group, among.astype(float), shape)
        rates = draw_rates(top, below, weights, rng)
        results += [
            rates,
            compare_strata(rates, grouping.labels, burden, compared=grouping.compared),
        ]
    return OverrideAudit(*results)
