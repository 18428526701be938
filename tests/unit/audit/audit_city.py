"""A small city of cells with known rates, for tests of the audit."""

from __future__ import annotations

from datetime import date

import numpy as np

from parity311.audit.cells import AuditCells, AuditInputs
from parity311.audit.strata import AuditPlaces
from parity311.records.strata import RACE_GROUPS

CELLS_PER_TRACT = 12
BASE_RATE = 0.25


def make_places(n_tracts: int, rng: np.random.Generator) -> AuditPlaces:
    """Tracts in three boroughs; about one in six has no published income."""
    shares = rng.dirichlet(np.ones(len(RACE_GROUPS)), n_tracts)
    return AuditPlaces(
        geoid=np.array([f"36005{i:06d}" for i in range(n_tracts)], dtype=object),
        borough=rng.choice(["Bronx", "Queens", "Brooklyn"], n_tracts).astype(object),
        community_board=np.full(n_tracts, 201),
        households=np.full(n_tracts, 1000.0),
        dwellings=np.full(n_tracts, 1100.0),
        income_quintile=rng.integers(0, 6, n_tracts),
        shares={race: shares[:, i] for i, race in enumerate(RACE_GROUPS)},
    )


def make_inputs(
    seed: int,
    *,
    n_tracts: int = 200,
    tract_sd: float = 0.2,
    slope: float = 0.0,
    subgroup_factor: float = 1.0,
    n_months: int = 1,
    reported_share: float = 0.5,
    n_incident_draws: int = 50,
) -> AuditInputs:
    """Cases served at `BASE_RATE`, with tract effects, a slope in log odds per income quintile.

    ``subgroup_factor`` multiplies the rate of cases reported in Spanish from the first quintile.
    """
    rng = np.random.default_rng(seed)
    places = make_places(n_tracts, rng)
    n_cells = n_tracts * CELLS_PER_TRACT
    tract = np.repeat(np.arange(n_tracts), CELLS_PER_TRACT)
    severity = rng.integers(0, 4, n_cells)
    language = rng.choice(["en", "es", "zh"], n_cells).astype(object)
    quintile = places.income_quintile[tract]
    log_odds = np.log(BASE_RATE / (1 - BASE_RATE)) + 0.3 * (severity - 1.5)
    log_odds += tract_sd * rng.standard_normal(n_tracts)[tract]
    log_odds += np.where(quintile > 0, slope * (quintile - 3), 0.0)
    rate = 1 / (1 + np.exp(-log_odds))
    rate = np.where((quintile == 1) & (language == "es"), rate * subgroup_factor, rate)
    n_cases = rng.poisson(6, n_cells)
    served = rng.binomial(n_cases, rate)
    accessed = rng.binomial(n_cases, 0.8)
    cells = AuditCells(
        tract=tract,
        month=rng.integers(0, n_months, n_cells),
        severity=severity,
        channel=rng.choice(["PHONE", "ONLINE"], n_cells).astype(object),
        language=language,
        n_complaints=n_cases * 1.5,
        n_cases=n_cases.astype(float),
        n_served=served.astype(float),
        n_accessed=accessed.astype(float),
        n_found=rng.binomial(accessed, 0.4).astype(float),
        n_located=rng.binomial(n_cases, 0.9).astype(float),
    )
    per_tract = np.bincount(tract, weights=cells.n_cases) / reported_share
    draws = per_tract * np.exp(0.05 * rng.standard_normal((n_incident_draws, n_tracts)))
    return AuditInputs("heat", "recorded", places, cells, draws, date(2024, 1, 1), date(2025, 1, 1))
