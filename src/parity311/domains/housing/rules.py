"""Rules of thumb that choose a category."""

from __future__ import annotations

import numpy as np

from parity311.domains.housing.state import CATEGORIES, N_CATEGORIES, SEVERITY_WEIGHTS, Params
from parity311.engines.backlog import rules as backlog_rules
from parity311.engines.backlog.rules import linear_choice, play_action
from parity311.mdp.contract import N_STRATA, Policy
from parity311.mdp.harness import Harness


def make_choice(prefix: str, params: Params, harness: Harness) -> Policy:
    """The category in which a feature is largest; the backlog by usual severity if not seen."""
    if f"{prefix}_{CATEGORIES[0]}" in harness.observation_names:
        return linear_choice(harness, {(f"{prefix}_{name}", name): 1.0 for name in CATEGORIES})
    per_day = np.asarray(params.backlog.cases_per_day).reshape(N_CATEGORIES, N_STRATA, -1).sum(1)
    severity = per_day @ np.array(SEVERITY_WEIGHTS) / np.maximum(per_day.sum(axis=1), 1e-9)
    return linear_choice(
        harness, {(f"backlog_{name}", name): severity[i] for i, name in enumerate(CATEGORIES)}
    )


def make_balanced(params: Params, harness: Harness) -> Policy:
    """Today's rule, all categories by code and age; where one must be chosen, the most urgent."""
    if "BALANCED" in backlog_rules.action_names(harness):
        return play_action("BALANCED", "BALANCED")(params, harness)
    return make_choice("urgent", params, harness)


def make_expert(params: Params, harness: Harness) -> Policy:
    """The category whose line is longest for its usual intake: who waits longest."""
    per_day = np.asarray(params.backlog.cases_per_day).reshape(N_CATEGORIES, -1).sum(axis=1)
    share = np.maximum(per_day / per_day.sum(), 1e-3)
    return linear_choice(
        harness, {(f"backlog_{name}", name): 1.0 / share[i] for i, name in enumerate(CATEGORIES)}
    )


def make_actionable(params: Params, harness: Harness) -> Policy:
    """The category with the most violations to be found in its line."""
    chance = np.asarray(params.backlog.chance).reshape(N_CATEGORIES, -1).mean(axis=1)
    return linear_choice(
        harness, {(f"backlog_{name}", name): chance[i] for i, name in enumerate(CATEGORIES)}
    )


def make_dual(params: Params, harness: Harness) -> Policy:
    """Priced dispatch where there is one, else as today."""
    if "COVERAGE_PRICED" in backlog_rules.action_names(harness):
        return play_action("COVERAGE_PRICED", "COVERAGE_PRICED")(params, harness)
    return make_balanced(params, harness)


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Every rule, and switching rules around the index."""
    index = make_choice("saving", params, harness)
    assert isinstance(index, backlog_rules.LinearChoice)
    rng = np.random.default_rng(0)
    rules = (make_balanced, make_expert, make_actionable, make_dual)
    found = [make(params, harness) for make in rules]
    return found + backlog_rules.perturbed_choices(index, 27, 0.1, rng)
