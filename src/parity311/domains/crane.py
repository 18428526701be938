"""Cranes and derricks: how fast a complaint about a crane is answered.

What is decided: do nothing, routine inspection, immediate inspection, or stop-work order. Who
waits: workers and passers-by under the load. Source: 311 complaints to the Cranes and Derricks
unit. Not for: approving a lift. Nobody lives under a crane: retention is zero.
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
from parity311.estimation.stream_book import StreamOffice, recent_or_earlier
from parity311.estimation.stream_dynamics import COVERAGE_PRICED, stream_dynamics
from parity311.estimation.stream_truth import true_params
from parity311.estimation.stream_view import stream_sight
from parity311.mdp.contract import Action, Domain, Policy, Protocol
from parity311.mdp.harness import Harness
from parity311.records.store import open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("67", "no permit or licence, unsafe", 0.7922, 1.6, 0.339, 0.0302, 0.018, 0.018),
    Category("89", "accident", 0.1102, 1.6, 0.813, 0.01, 0.006, 0.006,
             lifetime_factor=0.333, rate_factor=3.0),
    Category("1F", "annual inspection not done", 0.0977, -0.5, 0.494, 0.018, 0.03, 0.03,
             lifetime_factor=8.0, rate_factor=0.125),
)
# fmt: on

PROCESS = dob_process(
    slug="crane",
    categories=_CATEGORIES,
    complaints=by_year(2017, 319, 284, 179, 107, 70, 90, 100, 100, 100, 100),
    complaints_per_incident=0.543,
    places=Places(
        exposure_power=0.6,
        exposure_offset=-1.0,
        borough_shares=(0.12, 0.30, 0.38, 0.17, 0.03),
        tract_sd=0.5,
        building_sd=1.2,
        year_sd=1.0,
    ),
    hazard=dob_hazard(15.0, (0.55, 0.30, 0.10, 0.05)),
    reporting=dob_reporting(0.05, 0.7),
    service=dob_service(
        1.1,
        (Delay(0.3, 0.9), Delay(0.8, 1.2), Delay(2.0, 1.4), Delay(5.0, 1.4)),
        intake=Delay(0.6, 1.0),
    ),
    flags=(Flag("is_over_street", 0.45, 0.7), Flag("is_lifting_now", 0.35, 0.9)),
    sources={
        "volume": "Cranes and Derricks, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 "
        "counts of 2017 to November 2021; later years assumed",
        "service.leads": "fitted so that the mean closing days of 2020 (4.1) come out, "
        "dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to November 2021",
    },
)

RECENT_DAYS = 90
"""Days after which an earlier complaint about a site no longer makes it recurrent (assumed: a
tower crane stands for several months)."""

SHAPE = StreamShape(n_places=4, n_histories=3)
"""Places are levels of the neighbourhood's frequency; histories are new, seen before, recurrent."""

OFFICE = StreamOffice(
    slug="crane",
    shape=SHAPE,
    # Complaints of the tract in the half year before, against the mean tract.
    place_of=lambda facts: np.searchsorted((0.5, 1.5, 4.0), facts.near_ratio, side="right"),
    history_of=partial(recent_or_earlier, recent_days=RECENT_DAYS),
    # 319 complaints in 2017, the busiest year on record: the office is all of New York.
    days_per_complaint=1.15,
    actions=action_table(
        [
            (PUT_OFF, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0)),
            # A routine visit orders repairs; under a grave hazard the crane lifts on meanwhile.
            (ROUND, 1.0, 0.0, (1.0, 1.0, 0.9, 0.7)),
            (CREW, 2.0, 0.0, (1.0, 1.0, 0.95, 0.85)),
            # Nothing is lifted until it is lifted again; a site stopped for nothing costs a day's
            # work, counted as eight hours.
            (CREW, 3.0, 8.0, (1.0, 1.0, 1.0, 1.0)),
        ]
    ),
    # Code A weighs 4 a day, over an incident's 24 days (15, 5 or 120 by category).
    speed_unit=96.0,
    # Two visits in five find something.
    cost_unit=2.5,
    example_lifetime_days=24.0,
)

PUBLISHED = ("is_new", "is_recurrent", "neighborhood_frequency", "backlog", "hazard_level")
OPEN_NAMES = tuple(f"open_{name}" for name in ("rare", "usual", "frequent", "hot"))
OBSERVATION_NAMES = (*PUBLISHED, "season", "crew_free", *OPEN_NAMES)
"""The paper's five; the rest of the state is the season, whether the quick crew is free, and what
was put off in neighbourhoods of each frequency (0: nothing; else how grave it would return)."""

LAYOUT = StreamLayout(
    shape=SHAPE,
    readings=(
        Reading({"neighborhood_frequency": 3.0}),
        Reading({"hazard_level": 3.0}),
        Reading({"is_new": -1.0, "is_recurrent": 1.0}, offset=1.0),
    ),
    # Most of what the crew can do goes to immediate visits, a quarter to stop-work orders.
    strong_shares=lambda crew: (crew, 0.25 * crew),
    opens=OPEN_NAMES,
)


def observe(params: StreamParams, state: StreamState) -> jax.Array:
    """The complaint, the queue, the season, and what the office has before it."""
    del params
    seen = describe_scene(SHAPE, state)
    is_new, is_recurrent = seen.history < 0.25, seen.history > 0.75
    parts = (is_new, is_recurrent, seen.place, seen.backlog, seen.level, seen.season)
    return side_by_side(*parts, seen.crew_free, beside=seen.open_levels)


def example() -> StreamParams:
    """A small office by hand; two in five of its incidents are actionable."""
    return example_params(
        OFFICE,
        place_shares=(0.3, 0.35, 0.25, 0.1),
        place_log_odds=(0.0, 0.2, 0.4, 0.6),
        level_shares=(0.05, 0.10, 0.30, 0.55),
        history_shares=(0.6, 0.25, 0.15),
        history_log_odds=(0.0, 0.3, 0.8),
        actionable=0.4,
    )


def truth(city: str | Path, date_from: date, *, date_to: date | None = None) -> StreamParams:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    return true_params(OFFICE, open_records(city), open_truth(city), date_from, date_to=date_to)


def make_expert(params: StreamParams, harness: Harness) -> Policy:
    """The unit's rule of thumb: stop what is gravest and keeps coming back, see the grave at once.

    Routine visits go to whatever is not mild, the fewer the longer the queue.
    """
    level, history = SHAPE.kinds[:, 1], SHAPE.kinds[:, 2]
    rank = level + 0.4 * history
    shares = capacity_shares(params)
    wanted = (min(2 * shares.anybody, 1.0), shares.crew, 0.3 * shares.crew)
    return make_rule(LAYOUT, params, harness, rank, wanted, queue_slope=3.0)


DOMAIN = Domain(
    slug="crane",
    title="Cranes and derricks",
    version=3,
    decision="For each complaint: Do Nothing, Routine, Immediate or Stop-Work.",
    who_waits="Workers and passers-by under the load.",
    not_for="Approving a lift.",
    source="311 complaints to DOB Cranes and Derricks, 2017-2026.",
    process=PROCESS,
    actions=(
        Action("do_nothing", escalates=False, cost_hours=0.0),
        Action("routine", escalates=True, cost_hours=1.0),
        Action("immediate", escalates=True, cost_hours=2.0),
        Action("stop_work", escalates=True, cost_hours=3.0),
    ),
    extended_actions=(COVERAGE_PRICED,),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": PUBLISHED, "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    geographic_features=("neighborhood_frequency", *OPEN_NAMES),
    outcome_names=OUTCOME_NAMES,
    max_steps=200,
    protocol=Protocol(split="chronological, 80 % train, 20 % test", episode="200 complaints"),
    ceiling="exact with the whole state in view (set extended); best known for the published five",
    agents=("dqn", "reinforce"),
    differs={
        "features": "whether the crew is free, and what is open, is known at the desk: the optimum "
        "needs it",
        "discount": "cases are settled within weeks: looking further adds noise",
    },
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64)}},
    preference=(0.8, 0.2, 0.0, 0.0),
    price_step=0.03,
    explainer="gradient",
    heuristics={**stream_rules(LAYOUT), "expert": make_expert},
    baselines=stream_baselines(
        expert="stop what is gravest and keeps coming back, see the grave at once",
        grave="an immediate visit for the gravest code",
        recurrent="sites that complained within the last weeks",
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
