"""Drainage: who is sent where water runs off a lot.

What is decided: monitor, inspector or heavy crew. Who waits: the neighbour whose cellar floods.
Source: DOB complaints of codes 85 and 06; their counts are not published. Not for: settling who
pays.
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
from parity311.records.schema import BOROUGHS
from parity311.records.store import open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("85", "fails to retain water", 0.7381, -0.5, 0.44, 0.1061, 0.042, 0.042),
    Category("06", "change of grade or watercourse", 0.2619, 0.4, 0.379, 0.1061, 0.046, 0.046,
             lifetime_factor=0.75, rate_factor=1.333),
)
# fmt: on

PROCESS = dob_process(
    slug="drainage",
    categories=_CATEGORIES,
    complaints=by_year(2017, 950, 980, 1_000, 850, 950, 900, 950, 900, 880, 880),
    complaints_per_incident=0.431,
    places=Places(
        exposure_power=0.2,
        exposure_offset=-1.0,
        borough_shares=(0.08, 0.30, 0.05, 0.42, 0.15),
        tract_sd=0.4,
        building_sd=1.0,
    ),
    hazard=dob_hazard(200.0, (0.05, 0.35, 0.50, 0.10)),
    reporting=dob_reporting(0.0038, 0.8),
    service=dob_service(
        1.2,
        (Delay(0.5, 0.8), Delay(5.0, 1.2), Delay(12.0, 1.2), Delay(20.0, 1.2)),
        closing=Delay(1.0, 1.0),
        intake=Delay(1.0, 1.0),
    ),
    flags=(Flag("is_raining", 0.30, 0.6), Flag("has_cellar_flooded", 0.25, 1.0)),
    sources={
        "volume": "assumed: no count of the two codes is published",
        "service.leads": "assumed",
    },
)

SHAPE = StreamShape(n_places=len(BOROUGHS), n_histories=3)
"""Places are boroughs; histories are a first complaint, a second after more than two months, and
one sooner."""

SOON_DAYS = 60
"""Days within which a further complaint about an address counts as the same water (assumed: two
months hold a few storms)."""

OFFICE = StreamOffice(
    slug="drainage",
    shape=SHAPE,
    # What lies in no borough counts with the first.
    place_of=lambda facts: np.maximum(facts.borough, 0),
    history_of=partial(recent_or_earlier, recent_days=SOON_DAYS),
    # 880 complaints a year in New York: the office is a fifth of it.
    days_per_complaint=2.0,
    actions=action_table(
        [
            (PUT_OFF, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0)),
            # An inspector orders repairs, which leaves a flooded cellar wet for a while.
            (ROUND, 1.0, 0.0, (1.0, 0.9, 0.7, 0.5)),
            # A crew with pumps ends it, and is three people for two hours.
            (CREW, 6.0, 0.0, (1.0, 1.0, 1.0, 1.0)),
        ]
    ),
    # Codes B and C weigh 1.5 a day together, over an incident's 190 days.
    speed_unit=285.0,
    # Two visits in five find something.
    cost_unit=2.5,
    # Ten dwelling units beside it.
    keep_unit=2850.0,
    has_dwellings=True,
    example_lifetime_days=190.0,
)

PUBLISHED = ("recurrence", "borough", "address_gap")
OPEN_NAMES = tuple(f"open_{name.lower().replace(' ', '_')}" for name in BOROUGHS)
OBSERVATION_NAMES = (*PUBLISHED, "severity", "season", "backlog", "crew_free", *OPEN_NAMES)
"""The paper's three; then the severity code, which today's rule reads, and the rest of the state:
season, queue, whether the heavy crew is free, and what was put off in each borough."""

LAYOUT = StreamLayout(
    shape=SHAPE,
    readings=(
        Reading({"borough": float(len(BOROUGHS) - 1)}),
        Reading({"severity": 3.0}),
        Reading({"address_gap": 2.0}),
    ),
    strong_shares=lambda crew: (crew,),
    opens=OPEN_NAMES,
)


def observe(params: StreamParams, state: StreamState) -> jax.Array:
    """The address, the borough, and what the office has before it."""
    del params
    seen = describe_scene(SHAPE, state)
    parts = (seen.history > 0.25, seen.place, seen.history, seen.level, seen.season, seen.backlog)
    return side_by_side(*parts, seen.crew_free, beside=seen.open_levels)


def example() -> StreamParams:
    """A small office by hand; two in five of its incidents are actionable."""
    return example_params(
        OFFICE,
        place_shares=(0.08, 0.30, 0.05, 0.42, 0.15),
        place_log_odds=(0.2, 0.1, 0.0, 0.0, -0.2),
        level_shares=(0.10, 0.50, 0.35, 0.05),
        history_shares=(0.7, 0.2, 0.1),
        history_log_odds=(0.0, 0.4, 0.9),
        actionable=0.4,
    )


def truth(city: str | Path, date_from: date, *, date_to: date | None = None) -> StreamParams:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    return true_params(OFFICE, open_records(city), open_truth(city), date_from, date_to=date_to)


def make_expert(params: StreamParams, harness: Harness) -> Policy:
    """The unit's rule of thumb: an address heard of twice within two months floods.

    It gets the heavy crew if the code is grave, an inspector otherwise; the rest is monitored while
    the queue is long.
    """
    rank = 1.2 * SHAPE.kinds[:, 2] + SHAPE.kinds[:, 1]
    shares = capacity_shares(params)
    wanted = (min(2 * shares.anybody, 1.0), shares.crew)
    return make_rule(LAYOUT, params, harness, rank, wanted, queue_slope=3.0)


DOMAIN = Domain(
    slug="drainage",
    title="Drainage",
    version=3,
    decision="For each complaint: Monitor, Inspector or HeavyCrew.",
    who_waits="The neighbour whose cellar floods.",
    not_for="Settling who pays.",
    source="DOB complaints of codes 85 and 06, 2017-2026 (volumes assumed).",
    process=PROCESS,
    actions=(
        Action("monitor", escalates=False, cost_hours=0.0),
        Action("inspector", escalates=True, cost_hours=1.0),
        Action("heavy_crew", escalates=True, cost_hours=6.0),
    ),
    extended_actions=(COVERAGE_PRICED,),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": PUBLISHED, "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    geographic_features=("borough", *OPEN_NAMES),
    outcome_names=OUTCOME_NAMES,
    max_steps=365,
    protocol=Protocol(
        split="chronological", episode="365 complaints", claims="REINFORCE ahead of DQN"
    ),
    ceiling="exact with the whole state in view (set extended); best known for the published three",
    agents=("dqn", "reinforce"),
    differs={
        "features": "today's rule reads the severity code: a policy that may not competes blind",
        "discount": "cases are settled within weeks: looking further adds noise",
    },
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64)}},
    preference=(0.5, 0.2, 0.0, 0.3),
    price_step=0.03,
    heuristics={**stream_rules(LAYOUT), "expert": make_expert},
    baselines=stream_baselines(
        expert="an address heard of twice in two months: the crew if grave, else an inspector",
        grave="the heavy crew for the gravest code",
        recurrent="addresses heard of shortly before",
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
