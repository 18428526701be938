"""Scaffolds and sidewalk sheds: what is done about a site in the next hour.

What is decided: inspect now, delay, batch, escalate or ignore. Who waits: whoever walks or lives
under it. Source: DOB complaints of codes 23, 24, 1E and 70. Not for: releasing a scaffold for use.
"""

from __future__ import annotations

import numpy as np

from parity311.arrays import jnp
from parity311.domains.scaffold.decision import (
    ESCALATION_COST,
    initial_state,
    transition,
    visit_site,
)
from parity311.domains.scaffold.observation import OBSERVATION_NAMES, observe
from parity311.domains.scaffold.params import estimate, example, truth
from parity311.domains.scaffold.process import PROCESS
from parity311.domains.scaffold.rules import candidates, make_expert, make_rule, make_tail
from parity311.domains.scaffold.sight import see
from parity311.domains.scaffold.sites import HOURS, incidents_per_site, need_per_site
from parity311.domains.scaffold.state import (
    BATCH,
    DELAY,
    ESCALATE,
    HAZARD,
    IGNORE,
    INSPECT_NOW,
    MAX_STEPS,
    MOST_TOKENS,
    OUTCOME_NAMES,
    Params,
    State,
)
from parity311.engines.backlog import rules as backlog_rules
from parity311.engines.backlog.rules import play_action
from parity311.engines.trips import SHARED_TIME
from parity311.mdp.contract import Action, Baseline, Domain, Dynamics, Protocol, Sight

__all__ = [
    "BATCH",
    "DELAY",
    "DOMAIN",
    "ESCALATE",
    "HAZARD",
    "IGNORE",
    "INSPECT_NOW",
    "MAX_STEPS",
    "MOST_TOKENS",
    "PROCESS",
    "State",
    "example",
    "initial_state",
    "transition",
    "truth",
    "visit_site",
]

DOMAIN = Domain(
    slug="scaffold",
    title="Scaffolds and sidewalk sheds",
    version=3,
    decision="For each site and hour: inspect_now, delay, batch, escalate or ignore.",
    who_waits="Whoever walks or lives under it.",
    not_for="Releasing a scaffold for use.",
    source="DOB complaints of codes 23, 24, 1E and 70, 2017-2026.",
    process=PROCESS,
    actions=(
        Action("inspect_now", escalates=True, cost_hours=1.0),
        Action("delay", escalates=False, cost_hours=0.0),
        Action("batch", escalates=True, cost_hours=SHARED_TIME),
        Action("escalate", escalates=True, cost_hours=ESCALATION_COST),
        Action("ignore", escalates=False, cost_hours=0.0),
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": OBSERVATION_NAMES[:5], "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    geographic_features=("zip_freq_24h",),
    outcome_names=OUTCOME_NAMES,
    max_steps=MAX_STEPS,
    protocol=Protocol(
        split="train January 2020-2024, validation 2024-2025, backtest 2025-March 2026; "
        "support-constrained (support_min_count = 1)",
        episode="hours of one site; their number is not given, ours is a week",
    ),
    ceiling="best known: the best of constant actions and of 33 rules on severity and recurrence",
    agents=("dqn", "reinforce", "bc"),
    differs={
        "features": "today's rule reads the severity code; inspectors' time, orders in force and "
        "office hours are known at the desk",
        "discount": "cases are settled within days: looking further adds noise",
        "step size": "returns are rare and large: the smaller step learns more evenly",
    },
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64), "learning_rate": 3e-4}},
    preference=(0.6, 0.4, 0.0, 0.0),
    price_step=0.01,
    heuristics={
        # Today's rule: everything goes to the inspectors, who come when they have time.
        "balanced": play_action("inspect_now", "inspect_now"),
        "always": play_action("inspect_now", "inspect_now"),
        "batch_all": play_action("batch", "batch"),
        "emerg": play_action("escalate", "escalate"),
        "tail": make_tail,
        "never": play_action("ignore", "ignore"),
        "no_dispatch": play_action("delay", "delay"),
        "random": backlog_rules.play_at_random(),
        "score": make_rule(0.6),
        "index": make_rule(0.6, batch_bar=0.3),
        "expert": make_expert,
        "dual_threshold": make_rule(0.6, price_gain=1.0),
    },
    baselines={
        "balanced": Baseline("balanced", "Inspect Now every hour: inspectors come when they can"),
        "tail": Baseline("tail", "inspect where nothing was resolved for a week, or two are open"),
        "emerg": Baseline("emerg", "Escalate every hour: ahead of the line"),
        "actionable": Baseline(
            "score", "inspect what is grave and keeps coming back, batch others"
        ),
        "uniform": Baseline("balanced", "a site has one line: all alike is what BALANCED does"),
        "no_dispatch": Baseline("no_dispatch", "Delay every hour: nobody goes, nothing is closed"),
        "random": Baseline("random", "the five actions with the same chance, hour by hour"),
        "always": Baseline("always", "Inspect Now every hour, the same as BALANCED"),
        "never": Baseline("never", "Ignore every hour: closed without a visit"),
        "expert": Baseline("expert", "escalate what is graver than code B, batch the rest"),
    },
    sight=Sight(see=see, show=observe, is_repeated=True, shows_in_visits=True),
    dynamics=Dynamics(
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        current_stratum=lambda params, state: state.stratum,
        need_per_step=lambda params: need_per_site(params, MAX_STEPS),
        incidents_per_step=lambda params: incidents_per_site(params, MAX_STEPS),
        steps_per_day=lambda params: np.float32(HOURS),
        example=example,
        estimate=estimate,
        truth=truth,
        # The first complaint is taken in with the first hour.
        n_waiting=lambda state: state.n_open - state.is_new,
        capacity_per_step=lambda params: jnp.float32(1.0),
        candidates=candidates,
    ),
)
