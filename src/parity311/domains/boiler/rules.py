"""Rules of thumb, and the plan, held to the visits there are."""

from __future__ import annotations

import numpy as np

from parity311.arrays import jnp
from parity311.domains.boiler.decision import Params, cases
from parity311.engines import heuristics
from parity311.engines.table import scores
from parity311.engines.table.policy import TablePolicy
from parity311.engines.table.rules import hold_to_capacity
from parity311.estimation.kind_chances import pooled_chances
from parity311.mdp.contract import REWARD_NAMES, Policy
from parity311.mdp.harness import Harness


def make_balanced(params: Params, harness: Harness) -> Policy:
    """Today's rule: boilers with an earlier defect first, then first come, first served."""
    margin = heuristics.feature_margin(harness.observation_names.index("is_recurrent"))
    return hold_to_capacity(margin, cases(params), harness)


def make_emerg(params: Params, harness: Harness) -> Policy:
    """High pressure first: what would do most harm."""
    margin = heuristics.feature_margin(harness.observation_names.index("is_high_pressure"))
    return hold_to_capacity(margin, cases(params), harness)


def make_expert(params: Params, harness: Harness) -> Policy:
    """A boiler inspector's rule of thumb: earlier defects, then high pressure, then the area."""
    order = {"is_recurrent": 4.0, "is_high_pressure": 2.0, "neighborhood_risk": 1.0}
    weights = [order.get(name, 0.0) for name in harness.observation_names]
    return hold_to_capacity(heuristics.linear_margin(weights), cases(params), harness)


def solve(
    params: Params, harness: Harness, preference: np.ndarray, *, keep_values: bool = False
) -> TablePolicy:
    """The best policy as far as the filings on record tell.

    Filings are independent of each other, so it is a threshold: the likeliest to be defective, as
    many as there are visits for, and none that is not worth one. Chances of filings that look alike
    are drawn towards a fit by their features, because few of a kind were found defective. What a
    visit is worth is kept in any case.
    """
    del keep_values
    table = cases(params)
    levels = tuple(table.levels[i] for i in harness.columns)
    factors, strides = np.ones(harness.n_features), np.zeros(harness.n_features)
    factors[: len(levels)] = np.asarray(levels) - 1
    strides[: len(levels)] = heuristics.cell_strides(levels)
    cell = heuristics.cell_index(levels, table.features[:, harness.columns])
    chance = pooled_chances(cell, table.is_actionable, levels)
    least, _ = heuristics.hold_to_share(chance[cell], table.capacity_share)
    # What looks alike is decided alike; the last kind that visits reach stays among those deferred.
    cut = max(least, _break_even(params, preference))
    return TablePolicy(
        jnp.asarray(factors, jnp.float32),
        jnp.asarray(strides, jnp.int32),
        jnp.int32(0),
        jnp.asarray(chance > cut, jnp.int8),
        jnp.asarray(scores.log_odds(chance) - scores.log_odds(np.asarray(cut)), jnp.float32),
    )


def _break_even(params: Params, preference: np.ndarray) -> float:
    """Chance of a defect from which on a visit is worth its cost; units are 1 in the mean."""
    unit = float(params.catch_dollars + params.miss_dollars)
    weight = dict(zip(REWARD_NAMES, preference, strict=True))
    waste = weight["cost"] * float(params.waste_dollars) / unit
    return waste / max(weight["speed"] + weight["retention"] + waste, 1e-12)
