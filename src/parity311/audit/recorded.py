"""Who was served, by income quintile, as the records tell it, under three denominators.

Served means: a visit found a violation within the service level of the case's severity code. The
denominators are complaints, estimated incidents (rate-corrected) and dwellings; a gap that shows
under one of them and not under another is itself a finding. Tracts are resampled whole, because
the stratum is a property of the tract, and the draws of the estimated incidents go along.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity311.audit.gap import TAU, measure_gap
from parity311.records.schema import SERVICE_LEVEL_DAYS
from parity311.records.store import Records

STRATA = ("Q1", "Q2", "Q3", "Q4", "Q5", "unknown")
"""Income quintiles of tracts, and those whose income is not published (never dropped)."""
MINIMUM_CELL = 10
"""Fewer served or denominator events than this are marked insufficient, never as passing."""


@dataclass(frozen=True)
class StratumRate:
    """One stratum's rate under one denominator, with its interval."""

    denominator: str
    stratum: str
    served: int
    out_of: float
    rate: float
    lower: float
    upper: float
    note: str


def resample_rates(
    served: NDArray[np.floating],
    out_of: NDArray[np.floating],
    stratum: NDArray[np.integer],
    *,
    n_strata: int,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rates per stratum and their tract-clustered bootstrap draws.

    Parameters
    ----------
    served
        (n,) served events of each tract.
    out_of
        (n,) denominators, or (n_draws, n) joint draws of estimated ones.
    stratum
        (n,) index of each tract's stratum.

    Returns
    -------
    rates (n_strata,) and draws (n_draws, n_strata); NaN where a stratum has no denominator.
    """
    centre = out_of if out_of.ndim == 1 else out_of.mean(axis=0)
    rates = np.full(n_strata, np.nan)
    draws = np.full((n_draws, n_strata), np.nan)
    for k in range(n_strata):
        rows = np.flatnonzero(stratum == k)
        if len(rows) == 0 or centre[rows].sum() <= 0:
            continue
        weights = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=n_draws)
        below = out_of[:, rows] if out_of.ndim == 2 else out_of[rows][None, :]
        rates[k] = served[rows].sum() / centre[rows].sum()
        total = (weights * below).sum(axis=1)
        draws[:, k] = (weights @ served[rows]) / np.where(total > 0, total, np.nan)
    return rates, draws


def audit_recorded(
    records: Records,
    domain: str,
    *,
    date_from: date,
    date_to: date,
    incident_draws: NDArray[np.floating],
    tau: float = TAU,
    n_draws: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Audit what the records say of one domain between two days.

    Parameters
    ----------
    incident_draws
        (any, n tracts) joint draws of estimated incidents per tract over the same days, in the
        order of the tracts table.

    Returns
    -------
    ``rates`` (rows of `StratumRate`) and ``gaps`` (one a denominator, over known quintiles).
    """
    tracts = served_by_tract(records, domain, date_from, date_to)
    rng = np.random.default_rng(seed)
    picked = incident_draws[rng.integers(0, len(incident_draws), n_draws)]
    denominators = {
        "complaints": tracts["complaints"],
        "estimated incidents": picked,
        "dwellings": tracts["dwellings"],
    }
    rates: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for name, out_of in denominators.items():
        estimate, draws = resample_rates(
            tracts["served"],
            out_of,
            tracts["stratum"],
            n_strata=len(STRATA),
            n_draws=n_draws,
            rng=rng,
        )
        rates += [
            asdict(_stratum_rate(name, k, tracts, out_of, estimate, draws))
            for k in range(len(STRATA))
        ]
        gap = measure_gap(estimate[:5], draws[:, :5], tau=tau)
        gaps.append({"denominator": name, "tau": tau, **asdict(gap)})
    return {"domain": domain, "rates": rates, "gaps": gaps}


def _stratum_rate(
    denominator: str,
    k: int,
    tracts: dict[str, NDArray[Any]],
    out_of: NDArray[np.floating],
    rates: NDArray[np.float64],
    draws: NDArray[np.float64],
) -> StratumRate:
    rows = tracts["stratum"] == k
    served = int(tracts["served"][rows].sum())
    total = float(out_of[..., rows].sum(axis=-1).mean())
    has_data = bool(np.isfinite(rates[k]))
    lower, upper = np.nanquantile(draws[:, k], [0.025, 0.975]) if has_data else (np.nan, np.nan)
    note = "" if min(served, total) >= MINIMUM_CELL else "insufficient: fewer than 10 events"
    return StratumRate(
        denominator, STRATA[k], served, total, float(rates[k]), float(lower), float(upper), note
    )


def served_by_tract(
    records: Records, domain: str, date_from: date, date_to: date
) -> dict[str, NDArray[Any]]:
    """Complaints, dwellings and served cases of each tract, in the order of the tracts table."""
    levels = " ".join(f"WHEN '{code}' THEN {days}" for code, days in SERVICE_LEVEL_DAYS.items())
    table = records.sql(f"""
WITH cases AS (
  SELECT c.tract, c.severity, c.complaint_id, c.received_at FROM complaints c
  WHERE c.domain = '{domain}' AND c.received_at >= TIMESTAMP '{date_from}'
    AND c.received_at < TIMESTAMP '{date_to}'
), served AS (
  SELECT DISTINCT k.complaint_id FROM cases k JOIN visits v USING (complaint_id)
  WHERE v.result = 'violation'
    AND date_diff('second', k.received_at, v.visited_at) / 86400.0
        <= CASE k.severity {levels} END
)
SELECT t.geoid, t.income_quintile,
  (SELECT count(*) FROM cases k WHERE k.tract = t.geoid) AS complaints,
  (SELECT count(*) FROM cases k JOIN served s USING (complaint_id) WHERE k.tract = t.geoid)
    AS served,
  (SELECT COALESCE(sum(b.units), 0) FROM buildings b WHERE b.tract = t.geoid) AS dwellings
FROM tracts t""")
    order = {geoid: i for i, geoid in enumerate(records.table("tracts")["geoid"].to_pylist())}
    rows = np.argsort([order[geoid] for geoid in table["geoid"].to_pylist()])
    quintile = table["income_quintile"].to_numpy()[rows].astype(int)
    return {
        "stratum": np.where(quintile > 0, quintile - 1, len(STRATA) - 1),
        "complaints": table["complaints"].to_numpy()[rows].astype(float),
        "served": table["served"].to_numpy()[rows].astype(float),
        "dwellings": table["dwellings"].to_numpy()[rows].astype(float),
    }
