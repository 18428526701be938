"""Rules of thumb that choose a depot."""

from __future__ import annotations

import numpy as np

from parity311.domains.drone.decision import DEPOTS, Params
from parity311.engines.backlog import rules as backlog_rules
from parity311.engines.backlog.rules import linear_choice, play_action
from parity311.mdp.contract import Policy
from parity311.mdp.harness import Harness


def make_choice(
    prefix: str, sign: float, otherwise: str = "new_address_rate"
) -> backlog_rules.Maker:
    """Maker of the rule that flies where a feature is largest (or smallest, with sign -1)."""

    def make(params: Params, harness: Harness) -> Policy:
        del params
        seen = f"{prefix}_{DEPOTS[0]}" in harness.observation_names
        name, factor = (prefix, sign) if seen else ("new_address_rate", 1.0)
        return linear_choice(harness, {(f"{name}_{depot}", depot): factor for depot in DEPOTS})

    return make


make_dual = play_action("COVERAGE_PRICED", make_choice("saving", 1.0))
"""Priced dispatch; where there is none the index stands in, and it follows no price."""


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Each depot for ever, every rule, and rules around the index."""
    found = [play_action(name, name)(params, harness) for name in DEPOTS]
    rules = (
        ("backlog", 1.0),
        ("open_a", 1.0),
        ("new_address_rate", 1.0),
        ("trailing_flights", -1.0),
    )
    found += [make_choice(name, sign)(params, harness) for name, sign in rules]
    index = make_choice("saving", 1.0)(params, harness)
    assert isinstance(index, backlog_rules.LinearChoice)
    return found + backlog_rules.perturbed_choices(index, 30, 0.1, np.random.default_rng(0))
