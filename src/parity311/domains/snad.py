"""Special natural area districts: trees felled and ground moved without leave.

What is decided: defer, inspect or prioritise. Who waits: the neighbours of a slope or a wood.
Source: DOB complaints of code 1B, a few dozen a year. Not for: granting permits. Nobody lives
behind such a complaint: retention is zero.
"""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from parity311.arrays import jax, side_by_side
from parity311.city.process import Category, Delay, Flag, Places
from parity311.city.profiles import (
    by_year,
    dob_hazard,
    dob_process,
    dob_reporting,
    dob_service,
)
from parity311.engines.stream.optimum import solve_stream
from parity311.engines.stream.process import (
    CREW,
    OUTCOME_NAMES,
    PUT_OFF,
    ROUND,
    StreamParams,
    StreamShape,
    StreamState,
    action_table,
    describe_scene,
)
from parity311.engines.stream.rules import (
    Reading,
    StreamLayout,
    make_rule,
    stream_baselines,
    stream_rules,
)
from parity311.engines.stream.worth import capacity_shares
from parity311.estimation.stream import example_params
from parity311.estimation.stream_book import HISTORY_DAYS, CaseFacts, StreamOffice
from parity311.estimation.stream_dynamics import COVERAGE_PRICED, stream_dynamics
from parity311.estimation.stream_truth import true_params
from parity311.estimation.stream_view import stream_sight
from parity311.mdp.contract import Action, Domain, Policy, Protocol
from parity311.mdp.harness import Harness
from parity311.records.schema import BOROUGHS
from parity311.records.store import open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("1B", "tree removal or change of ground", 1.0, 0.4, 0.243, 0.0718, 0.023, 0.023),
)
# fmt: on

PROCESS = dob_process(
    slug="snad",
    categories=_CATEGORIES,
    complaints=by_year(2017, 105, 106, 97, 42, 35, 36, 38, 39, 39, 36),
    complaints_per_incident=0.478,
    places=Places(
        exposure_power=0.3,
        exposure_offset=-1.0,
        borough_shares=(0.17, 0.0, 0.0, 0.08, 0.75),
        tract_sd=0.5,
        building_sd=0.8,
        tract_share=0.35,
    ),
    hazard=dob_hazard(120.0, (0.05, 0.60, 0.25, 0.10)),
    reporting=dob_reporting(0.0065, 0.8),
    service=dob_service(
        1.2,
        (Delay(0.5, 0.8), Delay(4.0, 1.5), Delay(8.0, 1.5), Delay(12.0, 1.5)),
        closing=Delay(1.0, 1.0),
        intake=Delay(1.0, 1.0),
    ),
    flags=(Flag("is_tree_removal", 0.65, 0.5), Flag("is_in_progress", 0.40, 0.9)),
    sources={
        "volume": "SNAD, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to "
        "November 2021; 87 complaints in 2024-01 to 2026-03 (the paper); years between assumed",
        "service.leads": "fitted so that the mean closing days of 2020-21 (36, 19) come out, "
        "dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to November 2021",
        "places.borough_shares": "where the special natural area districts lie: Staten Island, "
        "Riverdale, Fort Totten; shares assumed",
    },
)

NEIGHBOURHOODS = ("Emerson and Todt Hill", "Riverdale", "Shore Acres", "Fort Totten")
"""The special natural area districts NA-1 to NA-4, in the order of their numbers."""

SHAPE = StreamShape(n_places=len(NEIGHBOURHOODS), n_histories=2)


def district_of(facts: CaseFacts) -> np.ndarray:
    """District of each case: Shore Acres is Staten Island's first board, NA-1 the others."""
    in_bronx = facts.borough == BOROUGHS.index("Bronx")
    in_queens = facts.borough == BOROUGHS.index("Queens")
    return np.select([in_bronx, in_queens, facts.board % 100 == 1], [1, 3, 2], 0)


OFFICE = StreamOffice(
    slug="snad",
    shape=SHAPE,
    place_of=district_of,
    history_of=lambda facts: (facts.gap_days <= HISTORY_DAYS).astype(np.int64),
    # 87 complaints in 2024-01 to 2026-03 (the paper): the office is all of New York.
    days_per_complaint=9.3,
    actions=action_table(
        [
            (PUT_OFF, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0)),
            (ROUND, 1.0, 0.0, (1.0, 1.0, 1.0, 1.0)),
            # A way of its own instead of a stop on the round (assumed: twice the time).
            (CREW, 2.0, 0.0, (1.0, 1.0, 1.0, 1.0)),
        ]
    ),
    # Code B weighs 2 a day, over an incident's 120 days.
    speed_unit=240.0,
    # One visit in four finds something.
    cost_unit=4.0,
    # How long an incident lasts is declared with the process and assumed there.
    example_lifetime_days=PROCESS.hazard.lifetime_days,
)

PUBLISHED = ("neighbourhood", "complaint_level", "recurrence", "season")
OPEN_NAMES = tuple(f"open_na_{number}" for number in range(1, 5))
OBSERVATION_NAMES = (*PUBLISHED, "backlog", "crew_free", *OPEN_NAMES)
"""The paper's 128 states are the first four; the rest of the state is the queue, whether the quick
crew is free, and what was put off in each district (0: nothing; else how grave it would return)."""

LAYOUT = StreamLayout(
    shape=SHAPE,
    readings=(
        Reading({"neighbourhood": 3.0}),
        Reading({"complaint_level": 3.0}),
        Reading({"recurrence": 1.0}),
    ),
    strong_shares=lambda crew: (crew,),
    opens=OPEN_NAMES,
)


def observe(params: StreamParams, state: StreamState) -> jax.Array:
    """The complaint, the season, and what the office has before it."""
    del params
    seen = describe_scene(SHAPE, state)
    parts = (seen.place, seen.level, seen.history, seen.season, seen.backlog, seen.crew_free)
    return side_by_side(*parts, beside=seen.open_levels)


def example() -> StreamParams:
    """A small office by hand; a quarter of its incidents are actionable."""
    return example_params(
        OFFICE,
        place_shares=(0.55, 0.17, 0.20, 0.08),
        place_log_odds=(0.0, 0.3, -0.2, 0.5),
        level_shares=(0.10, 0.25, 0.60, 0.05),
        history_shares=(0.8, 0.2),
        history_log_odds=(0.0, 0.8),
        actionable=0.25,
    )


def truth(city: str | Path, date_from: date, *, date_to: date | None = None) -> StreamParams:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    return true_params(OFFICE, open_records(city), open_truth(city), date_from, date_to=date_to)


def make_expert(params: StreamParams, harness: Harness) -> Policy:
    """The district's rule of thumb: work going on now is seen at once, the rest on the round.

    Grave codes and addresses that complained before come first, the fewer the longer the queue.
    """
    grave = SHAPE.kinds[:, 1] + 1.5 * SHAPE.kinds[:, 2]
    shares = capacity_shares(params)
    return make_rule(
        LAYOUT, params, harness, grave, (min(2 * shares.anybody, 1.0), shares.crew), queue_slope=3.0
    )


DOMAIN = Domain(
    slug="snad",
    title="Special natural area districts",
    version=3,
    decision="For each complaint: Defer, Inspect or Prioritise.",
    who_waits="The neighbours of a slope or a wood.",
    not_for="Granting permits.",
    source="DOB complaints of code 1B, 2017-2026.",
    process=PROCESS,
    actions=(
        Action("defer", escalates=False, cost_hours=0.0),
        Action("inspect", escalates=True, cost_hours=1.0),
        Action("prioritise", escalates=True, cost_hours=2.0),
    ),
    extended_actions=(COVERAGE_PRICED,),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": PUBLISHED, "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    geographic_features=("neighbourhood", *OPEN_NAMES),
    outcome_names=OUTCOME_NAMES,
    max_steps=87,
    protocol=Protocol(
        split="train on earlier complaints, test on the 87 of 2024-2026",
        episode="87 complaints",
        claims="mean reward: DQN +1.046, REINFORCE +1.011; 85 of 87 classified actionably, 7 "
        "enforcements, ahead of all heuristics",
    ),
    ceiling="exact: value iteration over complaint, season, queue, crew and what is open",
    agents=("dqn", "reinforce"),
    differs={
        "features": "who does not see the queue cannot know when the round is full: the optimum "
        "needs it",
        "discount": "cases are settled within weeks: looking further adds noise",
    },
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64)}},
    preference=(0.7, 0.3, 0.0, 0.0),
    price_step=0.03,
    explainer="exact",
    heuristics={**stream_rules(LAYOUT), "expert": make_expert},
    baselines=stream_baselines(
        expert="work going on now is seen at once, the rest on the round",
        grave="a way of its own for the gravest code",
        recurrent="addresses that complained in the last half year",
    ),
    sight=stream_sight(OFFICE, observe),
    dynamics=stream_dynamics(
        OFFICE,
        LAYOUT,
        observe=observe,
        example=example,
        truth=truth,
        solve=partial(solve_stream, LAYOUT),
    ),
)
