"""Rules of thumb on severity and recurrence."""

from __future__ import annotations

import numpy as np

from parity311.domains.scaffold.state import ACTION_NAMES, Params
from parity311.engines.backlog import rules as backlog_rules
from parity311.engines.backlog.rules import linear_choice, play_action
from parity311.mdp.contract import Policy
from parity311.mdp.harness import Harness


def make_rule(bar: float, price_gain: float = 0.0, batch_bar: float = -9.0) -> backlog_rules.Maker:
    """Maker: inspect an open site whose severity and recurrence exceed a bar, batch the others.

    The coverage price of the site's stratum counts like severity, `price_gain` for a unit.
    """

    def make(params: Params, harness: Harness) -> Policy:
        del params
        score = {"severity": 1.0, "recurrent_7d": 0.5, "open_count": 1.0}
        score["coverage_price"] = price_gain / 2.0
        weights = {(name, "inspect_now"): 2.0 * weight for name, weight in score.items()}
        weights |= {(name, "batch"): weight for name, weight in score.items()}
        bars = {"inspect_now": -bar - max(batch_bar, 0.0), "batch": -batch_bar, "delay": 0.0}
        return linear_choice(harness, weights, bars)

    return make


def make_tail(params: Params, harness: Harness) -> Policy:
    """Inspect an open complaint where nothing was resolved for a week, or a second one."""
    del params
    # The features are in fifths of a complaint and thirds of a week: a week is 1/3, a complaint 1.
    weights = {
        ("time_since_last_resolution_h", "inspect_now"): 1.0,
        ("open_count", "inspect_now"): 5.0,
    }
    return linear_choice(harness, weights, {"inspect_now": -4.0 / 3.0, "delay": 0.0})


def make_expert(params: Params, harness: Harness) -> Policy:
    """Escalate what is graver than code B, put the rest on the next joint trip."""
    del params
    weights = {("severity", "escalate"): 2.0, ("open_count", "batch"): 1.0}
    return linear_choice(harness, weights, {"escalate": -1.5, "batch": 0.0, "delay": 0.05})


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Each action for ever, bars on severity and recurrence, and rules around them."""
    found = [play_action(name, name)(params, harness) for name in ACTION_NAMES]
    rng = np.random.default_rng(0)
    for bar in (0.3, 0.6, 0.9, 1.2):
        for batch_bar in (0.1, 0.5):
            rule = make_rule(bar, 0.0, batch_bar)(params, harness)
            assert isinstance(rule, backlog_rules.LinearChoice)
            found += backlog_rules.perturbed_choices(rule, 3, 0.2, rng)
    return [*found, make_expert(params, harness)]
