"""Rules of thumb that switch between the modes."""

from __future__ import annotations

import numpy as np

from parity311.domains.elevator.modes import FORECAST_MODES
from parity311.domains.elevator.observation import SAVING_NAMES
from parity311.domains.elevator.state import Params
from parity311.engines.backlog.rules import (
    LinearChoice,
    action_names,
    linear_choice,
    perturbed_choices,
    play_action,
)
from parity311.mdp.contract import Policy
from parity311.mdp.harness import Harness

EXPERT_BAR = 0.08
"""Open cases of code A, in usual numbers, below which the expert turns to the oldest."""


def make_greedy(params: Params, harness: Harness) -> Policy:
    """The index where there is one; else the mode whose first crew is forecast to save most."""
    names = action_names(harness)
    if "INDEX_NEAR" in names or not set(SAVING_NAMES) & set(harness.observation_names):
        return play_action("INDEX_NEAR", "BALANCED")(params, harness)
    return greedy_choice(harness)


def greedy_choice(harness: Harness) -> LinearChoice:
    """Switch to the mode with the highest forecast; today's rule where they are equal."""
    weights = {(f"saving_{name.lower()}", name): 1.0 for name in FORECAST_MODES}
    return linear_choice(harness, weights, {"BALANCED": 1e-3})


def switch_at(harness: Harness, feature: str, bar: float) -> LinearChoice:
    """BALANCED while a feature exceeds a bar, TAIL below it."""
    weights = {(feature, "BALANCED"): 1.0, (feature, "TAIL"): 0.0}
    return linear_choice(harness, weights, {"BALANCED": -bar, "TAIL": 0.0})


def make_expert(params: Params, harness: Harness) -> Policy:
    """Emergencies first, and the oldest once few are left; with the way in mind where possible."""
    if "BALANCED_NEAR" in action_names(harness) or "open_a" not in harness.observation_names:
        return play_action("BALANCED_NEAR", "BALANCED")(params, harness)
    return switch_at(harness, "open_a", EXPERT_BAR)


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Every mode, and switching rules around the greedy one."""
    modes = action_names(harness)
    found = [play_action(name, name)(params, harness) for name in modes]
    switches = [switch_at(harness, "open_a", bar) for bar in (0.02, 0.04, 0.08, 0.16, 0.32)]
    switches.append(switch_at(harness, "severity", 0.4))
    rng = np.random.default_rng(0)
    return [*found, *switches, *perturbed_choices(greedy_choice(harness), 47, 0.3, rng)]
