"""Drones over roofs and facades: from which depot the next drone starts.

What is decided: one of five depots, a borough each. Who waits: residents and passers-by under a
loose wall or roof. Source: no public data set exists for it; the process is that of DOB complaints
a drone could see from above (codes 30, 10, 54). Not for: watching people, or entering by air what
needs consent on the ground.
"""

from __future__ import annotations

from parity311.arrays import jnp
from parity311.domains.drone.decision import (
    ACTION_NAMES,
    DEPOTS,
    OBSERVATION_NAMES,
    PUBLISHED_NAMES,
    SHAPE,
    Params,
    flight_size,
    initial_state,
    observe,
    transition,
)
from parity311.domains.drone.params import example, layout_of, make_params, truth
from parity311.domains.drone.process import PROCESS
from parity311.domains.drone.rules import candidates, make_choice, make_dual
from parity311.domains.drone.sight import SIGHT
from parity311.engines.backlog import process as engine
from parity311.engines.backlog import rules as backlog_rules
from parity311.engines.backlog.rules import play_action
from parity311.estimation.backlog_dynamics import backlog_dynamics
from parity311.mdp.contract import Action, Baseline, Domain, Protocol

__all__ = [
    "ACTION_NAMES",
    "DOMAIN",
    "PROCESS",
    "example",
    "flight_size",
    "initial_state",
    "transition",
    "truth",
]

DOMAIN = Domain(
    slug="drone",
    title="Drones over roofs and facades",
    version=2,
    decision="For each deployment: one of five depots.",
    who_waits="Residents and passers-by under a loose wall or roof.",
    not_for="Watching people, or replacing consent to enter.",
    source="No public source: DOB complaints of hazards visible from above stand in.",
    process=PROCESS,
    actions=tuple(Action(name, escalates=True, cost_hours=1.0) for name in DEPOTS),
    extended_actions=(
        Action("COVERAGE_PRICED", escalates=True, cost_hours=1.0),
        Action("NO_FLIGHT", escalates=False, cost_hours=0.0),
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": PUBLISHED_NAMES, "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    geographic_features=OBSERVATION_NAMES[:-1],
    outcome_names=engine.OUTCOME_NAMES,
    max_steps=SHAPE.max_steps,
    protocol=Protocol(
        split="train 2020-2024, test 2025",
        episode="deployments; their number is not given, ours is 112 in four weeks",
        claims="DQN and REINFORCE settle on the same policy: Brooklyn",
    ),
    ceiling="best known: the best of all depots and rules and of 31 around the index",
    agents=("dqn", "reinforce"),
    differs={
        "features": "what waits in each borough, how much of it is grave and what a flight would "
        "save there are on record; today's rule reads the lines",
        "discount": "a deployment's effect is over within days",
    },
    agent_settings={"dqn": {"discount": 0.8, "hidden": (64, 64)}},
    # A deployment costs the same from every depot: where it goes is the question.
    preference=(0.9, 0.1, 0.0, 0.0),
    price_step=0.01,
    explainer="permutation",
    heuristics={
        "balanced": make_choice("open_a", 1.0),
        "brooklyn": play_action("brooklyn", "brooklyn"),
        "tail": make_choice("backlog", 1.0),
        "actionable": make_choice("trailing_finds", 1.0),
        "never": play_action("NO_FLIGHT", "staten_island"),
        "no_dispatch": play_action("NO_FLIGHT", "staten_island"),
        "random": backlog_rules.play_at_random("NO_FLIGHT"),
        "uniform": make_choice("trailing_flights", -1.0),
        "score": make_choice("saving", 1.0),
        "index": make_choice("saving", 1.0),
        "expert": make_choice("new_address_rate", 1.0),
        "dual_threshold": make_dual,
    },
    baselines={
        "balanced": Baseline("balanced", "fly where most complaints of code A are open"),
        "tail": Baseline("tail", "fly where the line is longest"),
        "emerg": Baseline("balanced", "code A first is what BALANCED does already"),
        "actionable": Baseline("actionable", "fly where flights have found most"),
        "uniform": Baseline("uniform", "fly where flights were fewest: all depots alike"),
        "no_dispatch": Baseline("no_dispatch", "nobody flies (no action of the paper's)"),
        "random": Baseline("random", "a depot by lot"),
        "always": Baseline("", "every action of the paper's is a flight: there is nothing to add"),
        "never": Baseline("never", "nobody flies, the same as NO_DISPATCH"),
        "expert": Baseline("expert", "fly where most addresses are new"),
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
        # Each address it is sent to can bring at most one find beside it.
        capacity_per_step=lambda params: 2.0 * jnp.ceil(params.addresses_per_flight),
        candidates=candidates,
    ),
)
