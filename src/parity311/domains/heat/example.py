"""An office by hand, for tests, benchmarks and documentation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parity311.arrays import jnp
from parity311.domains.heat.office import OfficeParams
from parity311.domains.heat.step import OfficeProcess
from parity311.engines.backlog.params import EXAMPLE_REPORTED
from parity311.estimation.casebook import SERVICE_LEVELS
from parity311.mdp.contract import N_STRATA


def example_office(
    kinds: np.ndarray,
    *,
    part_shares: Sequence[Sequence[float]],
    part_log_odds: Sequence[float],
    actionable: float,
    complaints_per_day: np.ndarray,
    visits_per_complaint: float,
    lifetime_days: float,
    call_back_days: float,
    repair_days: float,
) -> OfficeProcess:
    """Five strata with equal incidents, of which 35 to 73 % are reported.

    Parameters
    ----------
    kinds
        (n_kinds, n_parts) parts of every kind as level numbers.
    part_shares, part_log_odds
        Share of each level of every part, and log odds of being actionable that a level adds.
    actionable
        Share of incidents that are.
    complaints_per_day
        (12,) by month.
    """
    rate = EXAMPLE_REPORTED / (1 - EXAMPLE_REPORTED) / lifetime_days
    per_incident = (rate * lifetime_days).mean()
    incidents = np.zeros((N_STRATA, 12))
    incidents[:5] = complaints_per_day / per_incident / 5
    shares = np.ones(len(kinds))
    for column, weights in enumerate(part_shares):
        shares *= np.array(weights)[kinds[:, column]]
    score = kinds @ np.array(part_log_odds)
    chance = 1 / (1 + np.exp(-(score + np.linspace(-6.0, 3.0, 901)[:, None])))
    found = chance[np.argmin(np.abs(chance @ shares - actionable))]
    number = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return OfficeProcess(
        incidents_per_day=number(incidents),
        kind_shares=number(np.tile(shares, (N_STRATA, 1))),
        actionable=number(found),
        report_rate=number(np.append(rate, rate.mean())),
        buildings=jnp.full(N_STRATA, 200.0, jnp.float32),
        office=OfficeParams(
            silence=number(0.1),
            linked=number(0.7),
            lifetime=number([lifetime_days, lifetime_days]),
            repair=number(repair_days),
            access=jnp.full(N_STRATA, 0.9, jnp.float32),
            capacity=number(visits_per_complaint * complaints_per_day),
            lead=number([0.25, 0.5, 0.75, 1.0]),
            service_level=number(SERVICE_LEVELS),
            max_attempts=jnp.int32(1),
            call_back=number(call_back_days),
            expiry=number(5.0),
        ),
    )
