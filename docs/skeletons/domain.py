"""Graffiti: which complaints get the cleaning crew.

What is decided: monitor or clean. Who waits: the people of the street. Not for: finding out who
did it.
"""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from parity311.arrays import jax, side_by_side
from parity311.city.process import (
    Category,
    ComplaintProcess,
    Delay,
    Hazard,
    Places,
    Reporting,
    Service,
    Volume,
)
from parity311.city.profiles import (
    DOB_CODES,
    DOB_MONTH_SHARES,
    DOB_SOURCES,
    DOB_WEEKDAY_SHARES,
    DOB_WEEKDAY_SLOTS,
    HOUR_SHARES,
)
from parity311.engines.stream.optimum import solve_stream
from parity311.engines.stream.process import (
    OUTCOME_NAMES,
    PUT_OFF,
    ROUND,
    StreamParams,
    StreamShape,
    StreamState,
    action_table,
    describe_scene,
)
from parity311.engines.stream.rules import Reading, StreamLayout, stream_rules
from parity311.estimation.stream import example_params
from parity311.estimation.stream_book import HISTORY_DAYS, StreamOffice
from parity311.estimation.stream_dynamics import stream_dynamics
from parity311.estimation.stream_truth import true_params
from parity311.estimation.stream_view import stream_sight
from parity311.mdp.contract import Action, Domain, Protocol
from parity311.records.store import open_records

PROCESS = ComplaintProcess(
    slug="graffiti",
    agency="DSNY",
    categories=(Category("GRAFFITI", "paint on a wall", 1.0, 0.0, 0.6, 0.05, 0.02, 0.02),),
    volume=Volume(
        complaints={year: 3_000 for year in range(2017, 2027)},
        complaints_per_incident=0.5,
        month_shares=DOB_MONTH_SHARES,
    ),
    places=Places(exposure_power=0.5, tract_sd=0.5, building_sd=0.8),
    hazard=Hazard(
        lifetime_days=60.0,
        code_shares=(0.05, 0.15, 0.40, 0.40),
        code_noise_sd=0.5,
        hazard_slope=1.0,
        neglect_slope=0.3,
    ),
    reporting=Reporting(
        rate_per_day=0.01,
        units_power=0.05,
        zero_inflation=0.5,
        hour_shares=HOUR_SHARES,
        weekday_shares=DOB_WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=0.9,
        weekday_slots=DOB_WEEKDAY_SLOTS,
        leads=(Delay(1.0, 0.5), Delay(5.0, 0.8), Delay(10.0, 0.8), Delay(20.0, 0.8)),
        closing=Delay(1.0, 0.5),
        intake=Delay(1.0, 0.5),
        retry=Delay(10.0, 0.5),
        codes=DOB_CODES,
    ),
    sources=DOB_SOURCES | {"volume": "assumed", "service.leads": "assumed"},
)

SHAPE = StreamShape(n_places=1, n_histories=2)
OFFICE = StreamOffice(
    slug="graffiti",
    shape=SHAPE,
    place_of=lambda facts: np.zeros(len(facts.gap_days), np.int64),
    history_of=lambda facts: (facts.gap_days <= HISTORY_DAYS).astype(np.int64),
    days_per_complaint=1.0,
    actions=action_table(
        [(PUT_OFF, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0)), (ROUND, 1.0, 0.0, (1.0, 1.0, 1.0, 1.0))]
    ),
    # Code C weighs 1 a day, over an incident's 60 days; every second visit finds paint.
    speed_unit=60.0,
    cost_unit=2.0,
    example_lifetime_days=PROCESS.hazard.lifetime_days,
)
NAMES = ("complaint_level", "recurrence", "season", "backlog", "crew_free", "open_here")
LAYOUT = StreamLayout(
    shape=SHAPE,
    readings=(Reading({}), Reading({"complaint_level": 3.0}), Reading({"recurrence": 1.0})),
    strong_shares=lambda crew: (),
    opens=("open_here",),
)


def observe(params: StreamParams, state: StreamState) -> jax.Array:
    """The complaint, the season and the queue."""
    del params
    seen = describe_scene(SHAPE, state)
    parts = (seen.level, seen.history, seen.season, seen.backlog, seen.crew_free, seen.open_here)
    return side_by_side(*parts)


def example() -> StreamParams:
    """A small office by hand."""
    return example_params(
        OFFICE,
        place_shares=(1.0,),
        place_log_odds=(0.0,),
        level_shares=(0.4, 0.4, 0.15, 0.05),
        history_shares=(0.8, 0.2),
        history_log_odds=(0.0, 0.5),
        actionable=0.6,
    )


def truth(city: str | Path, date_from: date) -> StreamParams:
    """The office as it really was from `date_from` on."""
    from parity311.records.truth import open_truth

    return true_params(OFFICE, open_records(city), open_truth(city), date_from)


DOMAIN = Domain(
    slug="graffiti",
    title="Graffiti",
    version=1,
    decision="For each complaint: monitor or clean.",
    who_waits="The people of the street.",
    not_for="Finding out who did it.",
    source="made up for this page",
    process=PROCESS,
    actions=(
        Action("monitor", escalates=False, cost_hours=0.0),
        Action("clean", escalates=True, cost_hours=1.0),
    ),
    observation_names=NAMES,
    observation_sets={"published": NAMES},
    outcome_names=OUTCOME_NAMES,
    max_steps=100,
    protocol=Protocol(split="none: not in the paper", episode="100 complaints"),
    ceiling="exact: value iteration over complaint, season, queue and what is open",
    agents=("dqn",),
    heuristics=stream_rules(LAYOUT),
    dynamics=stream_dynamics(
        OFFICE,
        LAYOUT,
        observe=observe,
        example=example,
        truth=truth,
        solve=partial(solve_stream, LAYOUT),
    ),
    sight=stream_sight(OFFICE, observe),
)
