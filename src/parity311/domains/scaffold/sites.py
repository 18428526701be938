"""Sites that complaints bring up, one by one, followed by the hour: what is known of them.

A site is an address with its first complaint. The figures come from the same records as a backlog
by stratum; what a domain does about a site stays in the domain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, namespace_of
from parity311.engines.backlog import process as engine
from parity311.errors import InputError
from parity311.estimation.backlog import BacklogLayout
from parity311.estimation.backlog_cases import QueueCases
from parity311.mdp.contract import N_STRATA
from parity311.records.store import Records

HOURS = 24.0
"""Steps of a day."""


class SiteParams(NamedTuple):
    """Sites as complaints bring them up; rates per hour."""

    cases: jax.Array
    """(24,) cumulative shares of stratum (first) and code among first complaints"""
    chance: jax.Array
    """(6, 4) chance that a complaint is about a hazard"""
    report_rate: jax.Array
    """(6,) reports per hour while something is wrong, by stratum"""
    incident_rate: jax.Array
    """() new incidents per hour at a site that had one"""
    zip_rate: jax.Array
    """(6,) complaints per hour in a site's postal code"""
    worsening: jax.Array
    """() chance per hour that an open hazard rises by one code"""
    lifetime_hours: jax.Array
    access: jax.Array
    """(6,) chance that a visit gets in"""
    visits_per_hour: jax.Array
    """() visits the site's inspector can make"""
    unreported: jax.Array
    """(6,) hazards nobody reports for each one that somebody does"""
    hidden_incidents: jax.Array
    """(6,) incidents nobody reports for each reported one"""
    sites_per_day: jax.Array


def make_site_params(
    first: np.ndarray,
    chance: np.ndarray,
    reported: np.ndarray,
    *,
    lifetime_days: float,
    report_rate: np.ndarray,
    incidents_per_site_day: float,
    zip_per_day: np.ndarray,
    access: np.ndarray,
    visits_per_case: float,
    hidden_incidents: np.ndarray,
    sites_per_day: float,
    max_steps: int,
    worsening_per_day: float = 0.0,
) -> SiteParams:
    """Params from first complaints (6, 4) a day and what follows them; checked."""
    total = float(first.sum())
    if first.shape != (N_STRATA, engine.N_CODES) or chance.shape != first.shape or total <= 0:
        raise InputError(
            f"First complaints have shape {first.shape} and sum {total}, chances {chance.shape}; "
            f"both need {(N_STRATA, engine.N_CODES)} and at least one complaint."
        )
    if ((chance < 0) | (chance > 1)).any() or ((reported <= 0) | (reported > 1)).any():
        raise InputError("Chances lie between 0 and 1, reported shares above 0 and up to 1.")
    number = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return SiteParams(
        cases=number(np.cumsum(first.reshape(-1)) / total),
        chance=number(chance),
        report_rate=number(np.minimum(report_rate / HOURS, 0.5)),
        incident_rate=number(min(incidents_per_site_day / HOURS, 0.1)),
        zip_rate=number(zip_per_day / HOURS),
        worsening=number(worsening_per_day / HOURS),
        lifetime_hours=number(lifetime_days * HOURS),
        access=number(access),
        visits_per_hour=number(visits_per_case / max_steps),
        unreported=number(1.0 / reported - 1.0),
        hidden_incidents=number(hidden_incidents),
        sites_per_day=number(sites_per_day),
    )


def site_layout(domain: str, max_steps: int) -> BacklogLayout:
    """What the records of a domain are read by: a place is a stratum."""
    shape = engine.BacklogShape(
        steps_per_day=24, bin_steps=24, n_ages=15, max_steps=max_steps, most_arrivals=4
    )
    return BacklogLayout(
        domain,
        N_STRATA,
        lambda located: located.stratum.astype(np.int64),
        shape,
        np.ones(N_STRATA),
    )


def site_params_from(
    records: Records,
    found: tuple[engine.BacklogParams, float],
    cases: QueueCases,
    max_steps: int,
) -> SiteParams:
    """Sites from a backlog by stratum and the cases behind it."""
    backlog, visits_per_day = found
    first = np.asarray(backlog.cases_per_day, np.float64)
    chance = np.asarray(backlog.chance, np.float64)
    hazards = (first * chance).sum(axis=1)
    hidden = np.asarray(backlog.unreported_per_day, np.float64).sum(axis=1)
    incidents = np.asarray(backlog.unreported_incidents, np.float64)
    inside = cases.is_inside
    n_sites = max(len(np.unique(cases.building[inside])), 1)
    n_again = int(inside.sum()) - n_sites
    zips = records.sql("SELECT count(DISTINCT zip) AS n FROM tracts")["n"][0].as_py()
    a_day = max(float(first.sum()), 1e-9)
    return make_site_params(
        np.maximum(first, 1e-9),
        chance,
        np.clip(hazards / np.maximum(hazards + hidden, 1e-9), 0.02, 1.0),
        lifetime_days=float(backlog.lifetime_days),
        report_rate=np.full(N_STRATA, float(backlog.repeats_per_day)),
        incidents_per_site_day=max(n_again, 0) / n_sites / max(cases.n_days, 1),
        zip_per_day=np.full(N_STRATA, a_day / max(zips, 1)),
        access=np.asarray(backlog.access, np.float64),
        visits_per_case=visits_per_day / a_day,
        hidden_incidents=incidents / np.maximum(first.sum(axis=1), 1e-9),
        sites_per_day=a_day,
        max_steps=max_steps,
    )


def _shares(params: SiteParams) -> jax.Array:
    """(6, 4) shares of stratum and code among first complaints."""
    steps = namespace_of(params.cases).diff(params.cases, prepend=np.float32(0.0))
    return steps.reshape(N_STRATA, engine.N_CODES)


def incidents_per_site(params: SiteParams, max_steps: int) -> jax.Array:
    """Incidents per site and hour, hazard or not, reported or not, by stratum (6,)."""
    a_site = _shares(params).sum(axis=1)
    return a_site * (1.0 / max_steps + params.incident_rate) * (1.0 + params.hidden_incidents)


def need_per_site(params: SiteParams, max_steps: int) -> jax.Array:
    """Hazards per site and hour, reported or not, by stratum (6,)."""
    shares = _shares(params)
    first = (shares * params.chance).sum(axis=1) / max_steps
    later = shares.sum(axis=1) * params.incident_rate * params.chance.mean(axis=1)
    return (first + later) * (1.0 + params.unreported)
