"""Elevators: where the crews go in the next four hours.

What is decided: for each community board, which queue is worked first (oldest, gravest, likeliest
to be actionable, or a balance). Who waits: residents without an elevator, above all those who
cannot take the stairs. Source: DOB elevator complaints, 103,598 in 2020-2025. Not for: certifying
that a device is safe.
"""

from __future__ import annotations

from parity311.arrays import jnp
from parity311.domains.elevator.decision import UNITS, carry_on, initial_state, transition
from parity311.domains.elevator.modes import MODES, N_PUBLISHED
from parity311.domains.elevator.observation import (
    MEAN_WEIGHT,
    RATE_NAMES,
    SAVING_NAMES,
    SUMMARY_NAMES,
    TAIL_NAMES,
    observe,
)
from parity311.domains.elevator.params import (
    CREW_STEPS_A_WEEK,
    example,
    layout_of,
    make_params,
    params_from,
    place_of,
    scale_capacity,
    truth,
)
from parity311.domains.elevator.process import PROCESS
from parity311.domains.elevator.rules import candidates, make_expert, make_greedy
from parity311.domains.elevator.sight import SIGHT
from parity311.domains.elevator.state import BOARDS, N_CREWS, SHAPE, Params, measure
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.rules import play_action, play_at_random
from parity311.estimation.backlog_dynamics import backlog_dynamics
from parity311.mdp.contract import Action, Baseline, Domain, Protocol

__all__ = [
    "BOARDS",
    "CREW_STEPS_A_WEEK",
    "DOMAIN",
    "MEAN_WEIGHT",
    "PROCESS",
    "UNITS",
    "example",
    "make_params",
    "measure",
    "place_of",
    "truth",
]

DOMAIN = Domain(
    slug="elevator",
    title="Elevators",
    version=3,
    decision="Every four hours, per community board: TAIL, EMERG, ACTIONABLE or BALANCED.",
    who_waits="Residents without an elevator, above all those who cannot take the stairs.",
    not_for="Certifying that a device is safe.",
    source="DOB elevator complaints, 2017-2026.",
    process=PROCESS,
    actions=tuple(Action(name, escalates=True, cost_hours=4.0) for name in MODES[:N_PUBLISHED]),
    extended_actions=tuple(
        Action(name, name != "NO_DISPATCH", 4.0 * (name != "NO_DISPATCH"))
        for name in MODES[N_PUBLISHED:]
    ),
    observation_names=SUMMARY_NAMES + SAVING_NAMES + TAIL_NAMES + RATE_NAMES,
    observation_sets={
        "published": ("severity", "mean_age", *TAIL_NAMES, *RATE_NAMES),
        "extended": SUMMARY_NAMES + SAVING_NAMES,
    },
    default_observation_set="extended",
    geographic_features=TAIL_NAMES + RATE_NAMES,
    outcome_names=engine.OUTCOME_NAMES,
    measure_names=("open_over_30_days", "severity_weighted_backlog"),
    max_steps=SHAPE.max_steps,
    protocol=Protocol(
        split="train 2020-2024, test 2025; support-constrained backtest (support_min_count = 1)",
        episode="168 steps of four hours",
        claims="reward, A30, S, Act.: NO_DISPATCH -835,120, 2371.8, 1305.0, 0.00; UNIFORM "
        "-552,092, 1743.2, 781.0, .16; RANDOM -490,276, 1642.3, 649.7, .15; TD -463,449, 1578.4, "
        "602.5, .13; ACTIONABLE -462,878, 1422.6, 678.0, .22; REINFORCE -463,117; DQN -431,596, "
        "1429.1, 582.4, .17; EMERG -438,688, 1583.6, 525.7, .15; TAIL -420,387, 1403.5, 562.1, "
        ".14; BALANCED -413,777, 1423.2, 532.7, .15",
    ),
    ceiling="best known: the best of all modes and of 54 rules that switch between them",
    agents=("dqn", "reinforce", "td", "bc"),
    differs={
        "features": "two numbers for each of 59 boards tell an office less than 15 about the "
        "whole line: what is open, how near to 30 days, who is on duty, what each "
        "order would save",
        "discount": "a visit's whole effect is in its saving: looking far ahead only adds noise",
        "step size": "the smaller step learns more evenly with the larger network",
    },
    agent_settings={
        "dqn": {"discount": 0.5, "hidden": (128, 128), "learning_rate": 3e-4},
        "reinforce": {"discount": 0.9, "entropy": 0.03},
    },
    # The published reward is the backlog alone: crews are paid whichever way they go.
    preference=(1.0, 0.0, 0.0, 0.0),
    price_step=0.005,
    heuristics={
        "balanced": play_action("BALANCED", "BALANCED"),
        "tail": play_action("TAIL", "TAIL"),
        "emerg": play_action("EMERG", "EMERG"),
        "actionable": play_action("ACTIONABLE", "ACTIONABLE"),
        "uniform": play_action("UNIFORM", "TAIL"),
        "random": play_at_random("NO_DISPATCH"),
        "random_boards": play_action("RANDOM_BOARDS", "TAIL"),
        "never": play_action("NO_DISPATCH", "ACTIONABLE"),
        "no_dispatch": play_action("NO_DISPATCH", "ACTIONABLE"),
        "score": play_action("INDEX_NEAR", "BALANCED"),
        "index": make_greedy,
        "expert": make_expert,
        "dual_threshold": play_action("COVERAGE_PRICED", "BALANCED"),
        "canvass": play_action("CANVASS", "BALANCED"),
    },
    baselines={
        "balanced": Baseline("balanced", "crews by code and age"),
        "tail": Baseline("tail", "crews to the oldest"),
        "emerg": Baseline("emerg", "crews to code A"),
        "actionable": Baseline("actionable", "crews to the likeliest violation"),
        "uniform": Baseline("uniform", "crews to the boards in turn"),
        "no_dispatch": Baseline("no_dispatch", "nobody goes (no action of the paper's)"),
        "random": Baseline("random_boards", "crews to boards by lot, as the table's RANDOM row"),
        "always": Baseline("", "every mode sends out all the visits there are"),
        "never": Baseline("never", "nobody goes, the same as NO_DISPATCH"),
        "expert": Baseline("expert", "emergencies first, the oldest once few are left"),
    },
    sight=SIGHT,
    dynamics=backlog_dynamics(
        SHAPE,
        layout_of=layout_of,
        make_params=params_from,
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        example=example,
        truth=truth,
        capacity_per_step=lambda params: N_CREWS * jnp.ceil(params.visits[0]),
        carry_on=carry_on,
        scale_capacity=scale_capacity,
        candidates=candidates,
    ),
)
