"""Rates of one domain by stratum under a denominator, plain and given severity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity311.audit.cells import AuditCells, AuditInputs
from parity311.audit.resample import (
    RateDraws,
    combine_draws,
    draw_rates,
    draw_rates_per_estimate,
    sum_by,
)
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import Grouping, index_of_codes
from parity311.records.schema import SEVERITIES
from parity311.resampling import exponential_weights

N_LAYERS = len(SEVERITIES)


@dataclass(frozen=True)
class StratumRate:
    """One stratum's rate under one denominator, with its interval."""

    denominator: str
    strata: str
    stratum: str
    served: float | None
    """Counted events; None where the cell is too small to publish."""
    out_of: float | None
    rate: float
    lower: float
    upper: float
    n_tracts: int
    design_effect: float
    note: str
    """Why the stratum is insufficient; empty where it is not."""


@dataclass(frozen=True)
class Resample:
    """One set of resampled tracts and reporting draws, shared by all rates of a domain."""

    weights: np.ndarray
    """(B, n_tracts)"""
    incidents: np.ndarray | None
    """(B, n_tracts) one draw of estimated incidents for each resample."""


def make_resample(inputs: AuditInputs, n_draws: int, rng: np.random.Generator) -> Resample:
    """Draw tract weights and pair each with a draw of the estimated incidents."""
    weights = exponential_weights(inputs.places.n_tracts, n_draws, rng)
    if inputs.incident_draws is None:
        return Resample(weights, None)
    picked = rng.integers(0, len(inputs.incident_draws), n_draws)
    return Resample(weights, inputs.incident_draws[picked])


def stratum_of_cells(cells: AuditCells, grouping: Grouping) -> np.ndarray:
    """(n_cells,) index of each cell's stratum."""
    if grouping.of_tract is not None:
        return grouping.of_tract[cells.tract]
    return index_of_codes(grouping, getattr(cells, grouping.name))


def rates_under(
    inputs: AuditInputs,
    grouping: Grouping,
    denominator: str,
    resample: Resample,
    rng: np.random.Generator,
) -> RateDraws | str:
    """Rates by stratum under a denominator, or the reason why it cannot be used."""
    cells = inputs.cells.take(inputs.cells.tract >= 0)
    group = stratum_of_cells(cells, grouping)
    shape = (inputs.places.n_tracts, grouping.n_strata)
    served = sum_by(cells.tract, group, cells.n_served, shape)
    if denominator in ("complaints", "cases"):
        out_of = sum_by(cells.tract, group, getattr(cells, f"n_{denominator}"), shape)
        return draw_rates(served, out_of, resample.weights, rng)
    if grouping.of_tract is None:
        return f"{denominator} are known by tract, not by {grouping.name}"
    if denominator == "dwellings":
        out_of = grouping.membership * inputs.places.dwellings[:, None]
        return draw_rates(served, out_of, resample.weights, rng)
    if resample.incidents is None:
        return "no estimate of incidents was given"
    if denominator == "incidents":
        return draw_rates_per_estimate(
            served, resample.incidents, grouping.membership, resample.weights, rng
        )
    return _per_actionable(cells, served, group, grouping, resample, rng)


def _per_actionable(
    cells: AuditCells,
    served: np.ndarray,
    group: np.ndarray,
    grouping: Grouping,
    resample: Resample,
    rng: np.random.Generator,
) -> RateDraws:
    """Rates per estimated actionable incident.

    Whether a case is actionable is seen only where somebody got in. Today's rule looks at severity
    code and age, so cases of the same code stand in for those not visited: the share found is
    taken within codes and averaged over the stratum's mix of codes.
    """
    assert resample.incidents is not None
    weights, membership = resample.weights, grouping.membership
    n = (weights.shape[1], grouping.n_strata * N_LAYERS)
    layer = group * N_LAYERS + cells.severity
    parts = [
        sum_by(cells.tract, layer, values, n)
        for values in (cells.n_found, cells.n_accessed, cells.n_cases)
    ]
    share = _actionable_share(*(part.sum(axis=0, keepdims=True) for part in parts))[0]
    share_draws = _actionable_share(*(weights @ part for part in parts))
    middle = resample.incidents.mean(axis=0)
    return combine_draws(
        served.sum(axis=0),
        (middle @ membership) * share,
        weights @ served,
        ((weights * resample.incidents) @ membership) * share_draws,
        ((membership > 0) & (middle > 0)[:, None]).sum(axis=0),
        rng,
        estimated_only=(resample.incidents @ membership) * share_draws,
    )


def _actionable_share(found: np.ndarray, accessed: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """(B, K) share actionable from sums by stratum and code (B, K·S)."""
    shape = (len(found), -1, N_LAYERS)
    found, accessed, cases = (part.reshape(shape) for part in (found, accessed, cases))
    seen = accessed > 0
    mix = np.where(seen, cases, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(seen, found / np.where(seen, accessed, 1.0), 0.0)
        return (mix * share).sum(axis=2) / mix.sum(axis=2)


def rates_given_severity(
    inputs: AuditInputs, grouping: Grouping, resample: Resample, rng: np.random.Generator
) -> RateDraws | str:
    """Rates per case, standardised to the mix of severity codes of all compared strata.

    Codes that some compared stratum does not have are left out for all. Intake assigns the code,
    so a gap that vanishes here may be a gap in how complaints are coded: look at both.
    """
    cells = inputs.cells.take(inputs.cells.tract >= 0)
    layer = stratum_of_cells(cells, grouping) * N_LAYERS + cells.severity
    n = (inputs.places.n_tracts, grouping.n_strata * N_LAYERS)
    served, cases = (
        sum_by(cells.tract, layer, values, n) for values in (cells.n_served, cells.n_cases)
    )
    totals = cases.sum(axis=0).reshape(-1, N_LAYERS)
    present = grouping.compared & (totals.sum(axis=1) > 0)
    common = (totals[present] > 0).all(axis=0) & present.any()
    if not common.any():
        return "no severity code occurs in every stratum"
    mix = totals[present].sum(axis=0) * common
    mix = mix / mix.sum()

    def standardise(top: np.ndarray, below: np.ndarray) -> np.ndarray:
        shape = (len(top), -1, N_LAYERS)
        top, below = top.reshape(shape)[..., common], below.reshape(shape)[..., common]
        with np.errstate(divide="ignore", invalid="ignore"):
            return (top / below) @ mix[common]

    out_of = (totals * common).sum(axis=1)
    rates = standardise(served.sum(axis=0, keepdims=True), cases.sum(axis=0, keepdims=True))[0]
    draws = standardise(resample.weights @ served, resample.weights @ cases)
    use = np.isfinite(rates)
    ones = np.where(use, out_of, 0.0)
    by_stratum = cases.reshape(-1, grouping.n_strata, N_LAYERS)[..., common].sum(axis=2)
    return combine_draws(
        np.where(use, rates * out_of, 0.0),
        ones,
        np.where(use, draws, 0.0),
        np.ones_like(draws),
        (by_stratum > 0).sum(axis=0),
        rng,
    )


def rate_rows(
    rates: RateDraws, grouping: Grouping, denominator: str, spec: AuditSpec
) -> list[StratumRate]:
    """Rows for tables and pictures; cells too small to publish keep their reason only."""
    lower, upper = rates.interval(spec.level)
    effect = rates.design_effect()
    rows = []
    for k, label in enumerate(grouping.labels):
        note = _small(rates, k, spec)
        hidden = rates.out_of[k] < spec.minimum_events
        ends = (rates.rates[k], lower[k], upper[k], effect[k])
        rate, low, high, design = (float("nan") if hidden else float(end) for end in ends)
        rows.append(
            StratumRate(
                denominator=denominator,
                strata=grouping.name,
                stratum=label,
                served=None if hidden else float(rates.events[k]),
                out_of=None if hidden else float(rates.out_of[k]),
                rate=rate,
                lower=low,
                upper=high,
                n_tracts=int(rates.n_tracts[k]),
                design_effect=design,
                note=note,
            )
        )
    return rows


def _small(rates: RateDraws, k: int, spec: AuditSpec) -> str:
    if rates.out_of[k] <= 0:
        return "insufficient: nothing to count"
    if rates.out_of[k] < spec.minimum_events:
        return f"insufficient: fewer than {spec.minimum_events} to count"
    if rates.n_tracts[k] < spec.minimum_tracts:
        return f"insufficient: fewer than {spec.minimum_tracts} tracts"
    return ""
