"""Look where nobody called: the only way up where incidents go unreported.

A canvass spends one visit on going from door to door in the stratum that is furthest behind, and
finds what is open there unreported at the stratum's true rate.
"""

from __future__ import annotations

from parity311.arrays import jax, jnp
from parity311.domains.heat.office import (
    FREE,
    N_ROWS,
    SERVED,
    UNREPORTED,
    Office,
    OfficeParams,
    OfficeWork,
)
from parity311.engines.positions import first_of_largest, first_where
from parity311.mdp.contract import N_KNOWN_STRATA, N_STRATA, Action

BUILDINGS_PER_VISIT = 8.0
"""Buildings of one block face that fit into the time of one visit (assumed: no source found)."""

CANVASS = Action("canvass", escalates=True, cost_hours=1.0)
"""The action, for a domain's extended set."""


def canvass(
    params: OfficeParams,
    office: Office,
    work: OfficeWork,
    *,
    prices: jax.Array,
    buildings: jax.Array,
    is_chosen: jax.Array,
    chance: jax.Array,
) -> tuple[Office, OfficeWork]:
    """Go from door to door where the coverage price is highest, if the allowance covers it.

    `buildings` (6,) are those of the office's area by stratum, `is_chosen` () says whether the
    action was taken, `chance` () is uniform and decides whether something is found.
    """
    target = first_of_largest(prices[:N_KNOWN_STRATA])
    goes = is_chosen & (office.allowance >= 1.0)
    hidden = (office.status == UNREPORTED) & (office.stratum == target) & (office.ends > office.now)
    share = jnp.clip(BUILDINGS_PER_VISIT / jnp.maximum(buildings[target], 1.0), 0.0, 1.0)
    finds = goes & (chance < 1.0 - (1.0 - share) ** hidden.sum())
    row = first_where(hidden)
    here = (jnp.arange(N_ROWS) == row) & finds & hidden
    served = here & office.actionable
    group = jnp.arange(N_STRATA) == target
    repaired = jnp.minimum(office.ends, office.now + params.repair)
    n_found = served.sum()
    avoided = jnp.where(served, office.ends - repaired, 0.0)
    work = work._replace(
        correct=work.correct + group * n_found,
        visits=work.visits + (group & goes),
        hours=work.hours + goes,
        days_avoided=work.days_avoided + avoided,
        expected_days=work.expected_days + avoided,
        expected_correct=work.expected_correct + group * n_found,
    )
    status = jnp.where(served, SERVED, jnp.where(here, FREE, office.status))
    return office._replace(
        status=status,
        ends=jnp.where(served, repaired, office.ends),
        allowance=office.allowance - goes,
    ), work
