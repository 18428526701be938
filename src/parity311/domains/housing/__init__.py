"""Housing conditions: which category of complaints is served in the next hour.

What is decided: the category that the next inspectors take. Who waits: tenants with pests, leaks,
broken plumbing or doors. Source: HPD complaints in NYC 311 other than heat, 2017-2026. Not for:
choosing which tenants deserve an answer.
"""

from __future__ import annotations

from parity311.arrays import jnp
from parity311.domains.housing.decision import carry_on, choose_visits, initial_state, transition
from parity311.domains.housing.observation import BACKLOG_NAMES, OBSERVATION_NAMES, observe
from parity311.domains.housing.params import (
    example,
    layout_of,
    make_params,
    place_of,
    scale_capacity,
    truth,
)
from parity311.domains.housing.process import PROCESS
from parity311.domains.housing.rules import (
    candidates,
    make_actionable,
    make_balanced,
    make_choice,
    make_dual,
    make_emerg,
    make_expert,
)
from parity311.domains.housing.sight import SIGHT
from parity311.domains.housing.state import (
    ACTION_NAMES,
    CAPACITY_WEEK,
    CATEGORIES,
    CODES,
    N_CATEGORIES,
    PREFERENCE,
    SHAPE,
    Params,
)
from parity311.domains.housing.trail import TRAIL_NAMES
from parity311.engines.backlog import process as engine
from parity311.engines.backlog import rules as backlog_rules
from parity311.engines.backlog.rules import play_action
from parity311.estimation.backlog_dynamics import backlog_dynamics
from parity311.mdp.contract import Action, Baseline, Domain, Protocol

__all__ = [
    "ACTION_NAMES",
    "CODES",
    "DOMAIN",
    "PROCESS",
    "choose_visits",
    "example",
    "place_of",
    "truth",
]

FAMILIES = {
    "water": ("plumbing", "water_leak"),
    "health": ("unsanitary_condition", "general", "safety"),
    "fabric": ("paint_plaster", "door_window", "flooring_stairs", "outside_building"),
    "machines": ("electric", "appliance", "elevator"),
    "orders": tuple(ACTION_NAMES[N_CATEGORIES:]),
}
"""What a hierarchical agent chooses first: the trade that is called. Ours: the paper names none."""
_FAMILY = {name: family for family, names in FAMILIES.items() for name in names}

DOMAIN = Domain(
    slug="housing",
    title="Housing conditions",
    version=3,
    decision="For each hour: which category is served.",
    who_waits="Tenants with pests, leaks, broken plumbing or doors.",
    not_for="Choosing which tenants deserve an answer.",
    source="HPD complaints in NYC 311 other than heat and hot water, 2017-2026.",
    process=PROCESS,
    actions=tuple(Action(name, True, 1.0, _FAMILY[name]) for name in CATEGORIES),
    extended_actions=tuple(
        Action(name, name != "NO_DISPATCH", float(name != "NO_DISPATCH"), _FAMILY[name])
        for name in ACTION_NAMES[N_CATEGORIES:]
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={
        "published": BACKLOG_NAMES + TRAIL_NAMES,
        "extended": OBSERVATION_NAMES,
    },
    default_observation_set="extended",
    outcome_names=engine.OUTCOME_NAMES,
    max_steps=SHAPE.max_steps,
    protocol=Protocol(
        split="train 2020-2024, test 2025",
        episode="hours; its length is not given, ours is two weeks",
        claims="RL policies dominate the current heuristic intake in all residential domains",
    ),
    ceiling="best known: the best of all rules and of 28 around the index",
    agents=("dqn", "reinforce", "hdqn"),
    differs={
        "features": "how urgent each line is and what a visit to it would save are on record; "
        "today's rule reads the codes",
        "discount": "what a visit saves is in its own reward: looking far ahead only adds noise",
    },
    agent_settings={"dqn": {"discount": 0.8, "hidden": (128, 128)}},
    preference=PREFERENCE,
    price_step=0.005,
    explainer="tree",
    heuristics={
        "balanced": make_balanced,
        "emerg": make_emerg,
        "actionable": make_actionable,
        "never": play_action("NO_DISPATCH", "outside_building"),
        "no_dispatch": play_action("NO_DISPATCH", "outside_building"),
        "uniform": backlog_rules.play_at_random(*ACTION_NAMES[N_CATEGORIES:]),
        "random": backlog_rules.play_at_random("NO_DISPATCH"),
        "score": make_balanced,
        "index": lambda params, harness: make_choice("saving", params, harness),
        "expert": make_expert,
        "dual_threshold": make_dual,
        "canvass": play_action("CANVASS", "unsanitary_condition"),
    },
    baselines={
        "balanced": Baseline("balanced", "all categories by code and age"),
        "tail": Baseline("expert", "the category that waits longest: its line over its intake"),
        "emerg": Baseline("emerg", "the category with most emergencies in its line"),
        "actionable": Baseline("actionable", "the category with most violations in its line"),
        "uniform": Baseline("uniform", "a category by lot, hour by hour"),
        "no_dispatch": Baseline("no_dispatch", "nobody goes (no action of the paper's)"),
        "random": Baseline("random", "any action by lot; of the paper's twelve it is UNIFORM"),
        "always": Baseline("", "every category sends out all the visits there are"),
        "never": Baseline("never", "nobody goes, the same as NO_DISPATCH"),
        "expert": Baseline("expert", "the category that waits longest, the same as TAIL"),
    },
    sight=SIGHT,
    dynamics=backlog_dynamics(
        SHAPE,
        layout_of=layout_of,
        make_params=make_params,
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        example=example,
        truth=truth,
        capacity_per_step=lambda params: jnp.ceil(params.visits_per_hour * CAPACITY_WEEK.max()),
        carry_on=carry_on,
        scale_capacity=scale_capacity,
        candidates=candidates,
    ),
)
