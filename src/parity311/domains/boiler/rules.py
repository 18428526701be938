"""Rules of thumb, held to the visits there are."""

from __future__ import annotations

from parity311.domains.boiler.decision import Params, cases
from parity311.mdp import heuristics
from parity311.mdp.contract import Policy
from parity311.mdp.harness import Harness
from parity311.mdp.rules import hold_to_capacity


def make_balanced(params: Params, harness: Harness) -> Policy:
    """Today's rule: boilers with an earlier defect first, then first come, first served."""
    margin = heuristics.feature_margin(harness.observation_names.index("is_recurrent"))
    return hold_to_capacity(margin, cases(params), harness)


def make_expert(params: Params, harness: Harness) -> Policy:
    """A boiler inspector's rule of thumb: earlier defects, then high pressure, then the area."""
    order = {"is_recurrent": 4.0, "is_high_pressure": 2.0, "neighborhood_risk": 1.0}
    weights = [order.get(name, 0.0) for name in harness.observation_names]
    return hold_to_capacity(heuristics.linear_margin(weights), cases(params), harness)
