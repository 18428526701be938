"""Heat and hot water: which of today's complaints get an inspector.

What is decided: an office classifies up to four complaints a day over a year of 365 days: send an
inspector (inspect), put it into a pool that is visited together, cheaper but later (batch), or put
it off for a week (defer). A step is one slot; four slots make a day. Inspectors are few, cases wait
by severity code and age, incidents end by themselves, and many are never reported; they count in
the denominator all the same. Who waits: tenants without heat or hot water.
Who is affected: renters in old housing above all. Source of the process: HPD's heat complaints in
NYC 311, 2017-2026. Not for: deciding whether a landlord broke the law, or ranking tenants.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from parity311.domains.heat import office as engine
from parity311.domains.heat.canvass import CANVASS
from parity311.domains.heat.decision import (
    ACTIONS,
    COMPLAINT_KINDS,
    MONTH_OF_DAY,
    N_DAYS,
    OBSERVATION_NAMES,
    RULES,
    SLOTS_PER_DAY,
    START_DAY,
    Params,
    initial_state,
    observe,
    show,
    transition,
)
from parity311.domains.heat.params import (
    BUSIEST_MONTH,
    estimate,
    example,
    scale_capacity,
    truth,
)
from parity311.domains.heat.process import PROCESS
from parity311.domains.heat.rules import candidates, make_score_rule, make_uniform
from parity311.domains.heat.sight import lasts, room, see
from parity311.domains.heat.step import most_visits, need_per_slot, stratum_in_hand
from parity311.engines import heuristics
from parity311.mdp.contract import Baseline, Domain, Dynamics, Protocol, Sight

__all__ = [
    "BUSIEST_MONTH",
    "COMPLAINT_KINDS",
    "DOMAIN",
    "MONTH_OF_DAY",
    "N_DAYS",
    "PROCESS",
    "SLOTS_PER_DAY",
    "START_DAY",
    "estimate",
    "example",
    "truth",
]

DOMAIN = Domain(
    slug="heat",
    title="Heat and hot water",
    version=2,
    decision="Which of today's complaints get an inspector: inspect, batch or defer.",
    who_waits="Tenants without heat or hot water.",
    not_for="Deciding whether a landlord broke the law, or ranking tenants.",
    source="HPD heat and hot water complaints in NYC 311, 2017-2026.",
    process=PROCESS,
    actions=ACTIONS,
    extended_actions=(CANVASS,),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": OBSERVATION_NAMES[:6], "extended": OBSERVATION_NAMES},
    outcome_names=engine.OUTCOME_NAMES,
    default_observation_set="extended",
    max_steps=N_DAYS * SLOTS_PER_DAY,
    protocol=Protocol(
        split="trained on 20 episodes, tested on a year of 365 days",
        episode="365 days of up to four slots",
        claims="REINFORCE about 8,800 against 2,100 for HDQN and random; 101 violations closed "
        "against 84 and 80",
    ),
    ceiling="best known: a search over queue rules under the true process, learned policies "
    "included",
    agents=("reinforce", "hdqn", "dqn"),
    differs={
        "features": "today's rule reads the severity code and an earlier case: a policy that may "
        "not competes blind",
        "discount": "steps are quarters of a day and cases are over within days: 1 / (1 - 0.95) is "
        "five of them",
    },
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64)}},
    # Inspectors are paid whether they drive or not: time counts, but less than tenants' days.
    preference=(0.8, 0.2, 0.0, 0.0),
    price_step=0.03,
    explainer="tree",
    heuristics={
        # Today's rule: everything goes to the inspectors, who work by severity code, then by age.
        "balanced": lambda params, harness: heuristics.always(0),
        "batch_all": lambda params, harness: heuristics.always(1),
        "never": lambda params, harness: heuristics.always(2),
        "random": lambda params, harness: heuristics.at_random(np.ones(3)),
        "uniform": make_uniform,
        "emerg": partial(make_score_rule, by="emerg"),
        "score": make_score_rule,
        "index": partial(make_score_rule, by="index"),
        "expert": partial(make_score_rule, by="expert"),
        "dual_threshold": partial(make_score_rule, price_gain=heuristics.PRICE_GAIN),
    },
    baselines={
        "balanced": Baseline("balanced", "everything is inspected, by severity code, then age"),
        "tail": Baseline("", "a complaint is decided when it comes in: none has waited longer"),
        "emerg": Baseline("emerg", "the graver code first, as many as there are visits"),
        "actionable": Baseline("score", "the likeliest violation first, as many as can be seen"),
        "uniform": Baseline("uniform", "as many inspections as there are visits, by lot"),
        "no_dispatch": Baseline("never", "nobody goes, the same as Always Defer"),
        "random": Baseline("random", "Inspect, Batch and Defer with the same chance"),
        "always": Baseline("balanced", "Inspect every time, which is what BALANCED does"),
        "never": Baseline("never", "Defer every time"),
        "expert": Baseline("expert", "the whole building, no heat and the graver code first"),
    },
    sight=Sight(see=see, show=show, lasts=lasts, room=room, unserved=(CANVASS.name,)),
    dynamics=Dynamics(
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        current_stratum=lambda params, state: stratum_in_hand(state.office),
        need_per_step=lambda params: need_per_slot(RULES, params),
        incidents_per_step=lambda params: params.incidents_per_day.mean(axis=1) / SLOTS_PER_DAY,
        steps_per_day=lambda params: np.float32(SLOTS_PER_DAY),
        n_waiting=lambda state: state.office.n_open.sum(),
        capacity_per_step=most_visits,
        scale_capacity=scale_capacity,
        example=example,
        estimate=estimate,
        truth=truth,
        candidates=candidates,
    ),
)
