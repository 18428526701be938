"""Boiler safety: which annual filings get an inspector.

What is decided: for each filing, inspect or defer. Who waits: the residents behind a defective
boiler. Who is affected: old multifamily housing above all. Source: DOB NOW Safety Boiler filings,
2017-2026. Not for: replacing the mandatory inspection, or judging an owner. The rows are mandatory
filings, not complaints: the need behind them is a defective boiler-year, filed or not.
"""

from __future__ import annotations

from parity311.domains.boiler.decision import (
    CATCH_DOLLARS,
    LEAK_FREE_NAMES,
    MAX_STEPS,
    MISS_DOLLARS,
    OBSERVATION_NAMES,
    WASTE_DOLLARS,
    Params,
    cases,
    current_stratum,
    incidents_per_step,
    initial_state,
    n_waiting,
    need_per_step,
    observe,
    show,
    steps_per_day,
    transition,
)
from parity311.domains.boiler.params import estimate, example, truth
from parity311.domains.boiler.process import PROCESS
from parity311.domains.boiler.rules import make_balanced, make_emerg, make_expert, solve
from parity311.domains.boiler.sight import keep, see
from parity311.engines.table.rules import table_rules
from parity311.mdp.contract import Action, Baseline, Domain, Dynamics, Protocol, Sight

__all__ = [
    "CATCH_DOLLARS",
    "DOMAIN",
    "MISS_DOLLARS",
    "PROCESS",
    "WASTE_DOLLARS",
    "Params",
    "cases",
    "estimate",
    "example",
    "truth",
]

DOMAIN = Domain(
    slug="boiler",
    title="Boiler safety",
    version=2,
    decision="For each annual filing: inspect or defer.",
    who_waits="Residents behind a defective boiler.",
    not_for="Replacing the mandatory inspection, or judging an owner.",
    source="DOB NOW Safety Boiler filings, 2017-2026.",
    process=PROCESS,
    actions=(
        Action("defer", escalates=False, cost_hours=0.0),
        Action("inspect", escalates=True, cost_hours=1.0),
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": OBSERVATION_NAMES, "leak_free": LEAK_FREE_NAMES},
    default_observation_set="leak_free",
    geographic_features=("neighborhood_risk",),
    outcome_names=("caught", "wasted", "missed", "passed"),
    max_steps=MAX_STEPS,
    protocol=Protocol(
        split="834,338 records, random 80/20; chronological as well here",
        episode="filings one by one",
        claims="8 % defects, miss to waste 26 : 1; DQN recall 0.987, precision 0.219, REINFORCE "
        "0.945 and 0.231; detection 0.71 at ratio 5 to 0.94 at 50 over 128 settings",
    ),
    ceiling="exact: Bayes rule on the policy's own observation at the same visits",
    agents=("dqn", "reinforce"),
    differs={
        "features": "two of the seven, the late-filing flags, are known only after the decision",
        "discount": "today's decision does not change tomorrow's filing: looking ahead only adds "
        "noise",
    },
    agent_settings={"dqn": {"discount": 0.0, "hidden": (64, 64)}},
    price_step=0.01,
    explainer="kernel",
    heuristics={
        "balanced": make_balanced,
        "emerg": make_emerg,
        "expert": make_expert,
        **table_rules(cases),
    },
    baselines={
        "balanced": Baseline("balanced", "an earlier defect first, then first come, first served"),
        "tail": Baseline("", "a filing is decided when it comes in: none has waited longer"),
        "emerg": Baseline("emerg", "high pressure first, then first come, first served"),
        "actionable": Baseline("score", "the likeliest defect first"),
        "uniform": Baseline("random", "as many filings as there are visits, by lot"),
        "no_dispatch": Baseline("never", "nobody goes, the same as Always Defer"),
        "random": Baseline("random", "by lot, held to the visits there are: the same as UNIFORM"),
        "always": Baseline("always", "every filing is inspected, whatever it takes"),
        "never": Baseline("never", "every filing is deferred"),
        "expert": Baseline("expert", "earlier defects, then high pressure, then the area"),
    },
    sight=Sight(see=see, show=show, keep=keep, known_later=("has_lff_45", "has_lff_180")),
    dynamics=Dynamics(
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        current_stratum=current_stratum,
        need_per_step=need_per_step,
        incidents_per_step=incidents_per_step,
        steps_per_day=steps_per_day,
        n_waiting=n_waiting,
        example=example,
        estimate=estimate,
        truth=truth,
        cases=cases,
        solve=solve,
    ),
)
