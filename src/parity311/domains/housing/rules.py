"""Rules of thumb that choose a category."""

from __future__ import annotations

import numpy as np

from parity311.domains.housing.state import CATEGORIES, N_CATEGORIES, SEVERITY_WEIGHTS, Params
from parity311.engines.backlog import rules as backlog_rules
from parity311.engines.backlog.rules import linear_choice, play_action
from parity311.mdp.contract import N_STRATA, Policy
from parity311.mdp.harness import Harness


def _per_day(params: Params) -> np.ndarray:
    """New cases a day by category and severity code, (12, 4)."""
    return np.asarray(params.backlog.cases_per_day).reshape(N_CATEGORIES, N_STRATA, -1).sum(axis=1)


def _by_line(harness: Harness, weights: np.ndarray) -> Policy:
    """The category whose line, times its weight (12,), is largest."""
    lines = {(f"backlog_{name}", name): weights[i] for i, name in enumerate(CATEGORIES)}
    return linear_choice(harness, lines)


def make_choice(prefix: str, params: Params, harness: Harness) -> Policy:
    """The category in which a feature is largest; by usual code and wait where it is not seen."""
    if f"{prefix}_{CATEGORIES[0]}" in harness.observation_names:
        return linear_choice(harness, {(f"{prefix}_{name}", name): 1.0 for name in CATEGORIES})
    severity = _per_day(params) @ np.array(SEVERITY_WEIGHTS)
    return _by_line(harness, severity / _intake(params) ** 2)


def _intake(params: Params) -> np.ndarray:
    """Share of new cases by category, (12,): a line over it is as long as its wait."""
    per_day = _per_day(params).sum(axis=1)
    return np.maximum(per_day / per_day.sum(), 1e-3)


def make_emerg(params: Params, harness: Harness) -> Policy:
    """The category with the most emergencies (code A) in its line, however long they wait."""
    return _by_line(harness, _per_day(params)[:, 0] / _intake(params))


def make_balanced(params: Params, harness: Harness) -> Policy:
    """Today's rule, all categories by code and age; where one must be chosen, the most urgent."""
    if "BALANCED" in backlog_rules.action_names(harness):
        return play_action("BALANCED", "BALANCED")(params, harness)
    return make_choice("urgent", params, harness)


def make_expert(params: Params, harness: Harness) -> Policy:
    """The category whose line is longest for its usual intake: who waits longest."""
    return _by_line(harness, 1.0 / _intake(params))


def make_actionable(params: Params, harness: Harness) -> Policy:
    """The category with the most violations to be found in its line."""
    chance = np.asarray(params.backlog.chance).reshape(N_CATEGORIES, -1).mean(axis=1)
    return _by_line(harness, chance)


make_dual = play_action("COVERAGE_PRICED", make_balanced)
"""Priced dispatch; where there is none today's rule stands in."""


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Every rule, and switching rules around the index."""
    index = make_choice("saving", params, harness)
    assert isinstance(index, backlog_rules.LinearChoice)
    rng = np.random.default_rng(0)
    rules = (make_balanced, make_expert, make_actionable, make_dual)
    found = [make(params, harness) for make in rules]
    return found + backlog_rules.perturbed_choices(index, 27, 0.1, rng)
