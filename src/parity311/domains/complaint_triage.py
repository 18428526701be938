"""Complaint triage: what becomes of a complaint about construction or use.

What is decided: ignore, refer to another unit, or take to court. Who waits: neighbours of illegal
work, tenants of illegal conversions. Source: all DOB complaints of 2017-2026 that no other domain
here holds, a third of them raised by the agency itself. Not for: deciding guilt, or screening
tenants of illegal conversions.
"""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from parity311.arrays import jax, side_by_side
from parity311.city.process import Category, Delay, Flag, Places
from parity311.city.profiles import (
    DOB_COMPLAINTS,
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
from parity311.estimation.stream_book import CaseFacts, StreamOffice
from parity311.estimation.stream_dynamics import COVERAGE_PRICED, stream_dynamics
from parity311.estimation.stream_truth import true_params
from parity311.estimation.stream_view import stream_sight
from parity311.mdp.contract import Action, Domain, Policy, Protocol
from parity311.mdp.harness import Harness
from parity311.records.store import open_records

# Days until a visit is scheduled, by type of 311 complaint; see sources of service.leads.
_BUILDING_USE = Delay(28.0, 1.45)
_CONSTRUCTION = Delay(0.1, 3.8)
_PLUMBING = Delay(9.0, 1.6)
_AGENCY = Delay(0.6, 1.0)
_BOILER = Delay(6.0, 1.5)

# Sum of the yearly complaints that the eight other domains of the agency declare.
_OTHER_DOMAINS = by_year(
    2017, 32_718, 34_490, 31_824, 28_798, 29_245, 30_776, 33_288, 34_289, 35_317, 39_516
)

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("45", "illegal conversion", 0.1551, 0.4, 0.599, 0.7131, 0.024, 0.024,
             lifetime_factor=4.0, rate_factor=0.25, lead=_BUILDING_USE, factor_2020=0.75),
    Category("05", "work without permit", 0.1138, 0.4, 0.303, 0.2824, 0.03, 0.03,
             lifetime_factor=0.75, rate_factor=1.333, lead=_CONSTRUCTION),
    Category("7J", "the same, occupied dwelling", 0.066, 0.4, 0.208, 0.2056, 0.016, 0.016,
             lifetime_factor=0.75, rate_factor=1.333, lead=_CONSTRUCTION),
    Category("8A", "construction safety action", 0.0243, 1.6, 0.78, 0.0013, 0.006, 0.006,
             lifetime_factor=0.333, rate_factor=3.0, lead=_AGENCY, is_proactive=True),
    Category("7G", "construction safety sweep", 0.0245, -0.5, 0.116, 0.0002, 0.005, 0.005,
             lifetime_factor=0.333, rate_factor=3.0, lead=_AGENCY, is_proactive=True),
    Category("58", "boiler defective or without permit", 0.0477, 0.4, 0.857, 0.16, 0.057, 0.057,
             lifetime_factor=1.5, rate_factor=0.667, lead=_BOILER),
    Category("04", "after-hours work", 0.0628, 0.4, 0.042, 0.0267, 0.012, 0.012,
             lifetime_factor=0.067, rate_factor=6.75, lead=_CONSTRUCTION),
    Category("73", "failure to maintain", 0.0549, -0.5, 0.675, 0.2472, 0.023, 0.023,
             lifetime_factor=3.333, rate_factor=0.3, lead=_BUILDING_USE),
    Category("31", "certificate of occupancy", 0.0368, -0.5, 0.57, 0.3715, 0.03, 0.03,
             lifetime_factor=4.0, rate_factor=0.25, lead=_BUILDING_USE),
    Category("83", "contrary to approved plans", 0.0409, 0.4, 0.556, 0.2567, 0.031, 0.031,
             lead=_CONSTRUCTION),
    Category("66", "plumbing work without permit", 0.0277, 0.4, 0.62, 0.2993, 0.019, 0.019,
             lead=_PLUMBING),
    Category("65", "gas hook-up or piping", 0.0143, 1.6, 0.596, 0.2141, 0.021, 0.021,
             lifetime_factor=0.5, rate_factor=2.0, lead=_CONSTRUCTION),
    Category("86", "work contrary to a stop-work order", 0.0147, 1.6, 0.334, 0.0549, 0.03, 0.03,
             lifetime_factor=0.417, rate_factor=2.4, lead=_CONSTRUCTION),
    Category("91", "site conditions endangering workers", 0.0221, 1.6, 0.354, 0.0124, 0.026, 0.026,
             lifetime_factor=0.2, rate_factor=5.0, lead=_CONSTRUCTION),
    Category("37", "blocked egress", 0.0146, 1.6, 0.413, 0.1935, 0.032, 0.032,
             lifetime_factor=1.5, rate_factor=0.667, lead=_CONSTRUCTION),
    Category("09", "excessive debris", 0.0159, 0.4, 0.271, 0.1189, 0.036, 0.036,
             lifetime_factor=0.417, rate_factor=2.4, lead=_CONSTRUCTION),
    Category("35", "curb cut or driveway", 0.0217, -1.3, 0.536, 0.2895, 0.034, 0.034,
             lifetime_factor=5.0, rate_factor=0.2, lead=_BUILDING_USE),
    Category("49", "sign or awning", 0.0202, -0.5, 0.54, 0.1053, 0.038, 0.038,
             lifetime_factor=5.0, rate_factor=0.2, lead=_BUILDING_USE),
    Category("55", "zoning", 0.0167, -1.3, 0.238, 0.1858, 0.045, 0.045,
             lifetime_factor=5.0, rate_factor=0.2, lead=_BUILDING_USE),
    Category("2N", "COVID-19 order", 0.00386, 0.4, 0.073, 0.0056, 0.005, 0.005,
             lifetime_factor=0.167, rate_factor=6.0, lead=_CONSTRUCTION, factor_2020=28.0),
    Category("5F", "compliance inspection", 0.0727, -0.5, 0.257, 0.0813, 0.03, 0.03,
             lead=_AGENCY, is_proactive=True),
    Category("1Z", "enforcement work order", 0.0419, 0.4, 0.435, 0.0769, 0.035, 0.035,
             lead=_AGENCY, is_proactive=True),
    Category("3B", "routine inspection", 0.0562, -1.3, 0.167, 0.0426, 0.025, 0.025,
             lead=_AGENCY, is_proactive=True),
    Category("6X", "watch list", 0.0313, 0.4, 0.373, 0.1296, 0.04, 0.04,
             lead=_AGENCY, is_proactive=True),
)
# fmt: on

PROCESS = dob_process(
    slug="complaint_triage",
    categories=_CATEGORIES,
    complaints={year: total - _OTHER_DOMAINS[year] for year, total in DOB_COMPLAINTS.items()},
    complaints_per_incident=0.595,
    places=Places(
        exposure_power=0.45,
        exposure_offset=-1.0,
        borough_shares=(0.144, 0.370, 0.136, 0.300, 0.050),
        tract_sd=0.5,
        building_sd=2.0,
        year_sd=0.6,
        month_sd=0.6,
    ),
    hazard=dob_hazard(60.0, (0.10, 0.50, 0.28, 0.12)),
    reporting=dob_reporting(0.0125, 0.80),
    service=dob_service(
        1.40,
        (Delay(0.3, 1.0), Delay(3.0, 1.5), Delay(10.0, 1.5), Delay(20.0, 1.5)),
        closing=Delay(0.07, 1.2),
        intake=Delay(0.6, 2.0),
        retry=Delay(5.0, 1.2),
        lead_factor_2020=1.3,
        expiry_days=540.0,
        n_inspectors=300,
    ),
    flags=(Flag("has_photo", 0.15, 0.8), Flag("names_contractor", 0.25, 0.6)),
    sources={
        "volume": "DOB complaints a year (AliHasan-786/nyc-housing-inspection-rl) less the "
        "volumes the other DOB domains declare",
        "service.leads": "fitted so that closing days come out as for Building/Use (2.6, 36.4, "
        "88, 223) and General Construction (0.25, 1.3, 8.6, 44.5), Steveelorm80/analytics",
        "places.borough_shares": "fitted so that DOB complaints by borough come out, "
        "michaelzoorob/dob-complaints-analysis, 783,289 complaints of 2020-01 to 2026-05",
    },
)

DETAILS = ("paper", "worksite", "occupancy", "structure")
"""What a complaint is about: papers and appearance (certificates, signs, curb cuts, zoning, routine
and compliance inspections), how a site is run (hours, debris, orders, safety), who lives or works
where (illegal conversions, work without permit), and what the building itself does (boilers, gas,
maintenance, plans)."""

_DETAIL_CODES = {
    "paper": ("31", "35", "49", "55", "3B", "5F", "6X"),
    "worksite": ("04", "09", "7G", "8A", "86", "91", "2N", "37"),
    "occupancy": ("45", "05", "7J"),
    "structure": ("58", "73", "83", "66", "65", "1Z"),
}

SHAPE = StreamShape(n_places=len(DETAILS), n_histories=4)
"""Places are problem details; histories are days since the last complaint about the address: none
before, more than 180, 30 to 180, fewer."""


_DETAIL_OF = {code: DETAILS.index(detail) for detail in DETAILS for code in _DETAIL_CODES[detail]}


def detail_of(facts: CaseFacts) -> np.ndarray:
    """Problem detail of each case; a code nobody listed counts as paper."""
    return np.array([_DETAIL_OF.get(code, 0) for code in facts.category], np.int64)


def time_since_last(facts: CaseFacts) -> np.ndarray:
    """History of each case: none before, more than 180 days ago, 30 to 180, fewer."""
    days = facts.gap_days
    return np.select([np.isnan(days), days > 180, days > 30], [0, 1, 2], 3)


OFFICE = StreamOffice(
    slug="complaint_triage",
    shape=SHAPE,
    place_of=detail_of,
    history_of=time_since_last,
    # Some 90,000 complaints a year in New York: the office is one of 250 inspectors' desks.
    days_per_complaint=1.0,
    actions=action_table(
        [
            (PUT_OFF, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0)),
            (ROUND, 1.0, 0.0, (1.0, 1.0, 0.8, 0.6)),
            # A summons takes a prepared case and a day in court, and is dismissed where nothing
            # was wrong, which costs as much again; what it settles stays settled.
            (CREW, 4.0, 4.0, (1.0, 1.0, 1.0, 1.0)),
        ]
    ),
    # Codes B and C weigh 1.5 a day together, over an incident's 115 days.
    speed_unit=170.0,
    # Two visits in five find something.
    cost_unit=2.5,
    # Ten dwelling units beside it.
    keep_unit=1700.0,
    has_dwellings=True,
    example_lifetime_days=60.0,
)

PUBLISHED = ("days_since_last", "problem_detail", "queue")
OPEN_NAMES = tuple(f"open_{name}" for name in DETAILS)
OBSERVATION_NAMES = (*PUBLISHED, "severity", "season", "court_free", *OPEN_NAMES)
"""The paper's three; then the severity code, which today's rule reads, and the rest of the state:
season, whether the court desk is free, and what was ignored of each detail. Nothing in the set is
tied to a year: what shifts in 2020 are arrivals, access and the mix, which the queue shows."""

LAYOUT = StreamLayout(
    shape=SHAPE,
    readings=(
        Reading({"problem_detail": float(len(DETAILS) - 1)}),
        Reading({"severity": 3.0}),
        Reading({"days_since_last": 3.0}),
    ),
    strong_shares=lambda crew: (crew,),
    opens=OPEN_NAMES,
    backlog="queue",
    crew="court_free",
)


def observe(params: StreamParams, state: StreamState) -> jax.Array:
    """The address, the problem, the queue, and what else the office has before it."""
    del params
    seen = describe_scene(SHAPE, state)
    parts = (seen.history, seen.place, seen.backlog, seen.level, seen.season, seen.crew_free)
    return side_by_side(*parts, beside=seen.open_levels)


def example() -> StreamParams:
    """A small office by hand; two in five of its incidents are actionable."""
    return example_params(
        OFFICE,
        place_shares=(0.25, 0.2, 0.35, 0.2),
        place_log_odds=(-0.4, -0.2, 0.2, 0.7),
        level_shares=(0.12, 0.28, 0.50, 0.10),
        history_shares=(0.5, 0.2, 0.2, 0.1),
        history_log_odds=(0.0, 0.1, 0.3, 0.6),
        actionable=0.4,
    )


def truth(city: str | Path, date_from: date, *, date_to: date | None = None) -> StreamParams:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    return true_params(OFFICE, open_records(city), open_truth(city), date_from, date_to=date_to)


def make_expert(params: StreamParams, harness: Harness) -> Policy:
    """The desk's rule of thumb: court for what is grave and keeps coming back, refer what is grave.

    What is about papers is ignored unless the queue is short.
    """
    place, level, history = SHAPE.kinds.T
    rank = level + 0.5 * history + 0.8 * (place > 0)
    shares = capacity_shares(params)
    wanted = (min(2 * shares.anybody, 1.0), shares.crew)
    return make_rule(LAYOUT, params, harness, rank, wanted, queue_slope=3.0)


DOMAIN = Domain(
    slug="complaint_triage",
    title="Complaint triage",
    version=3,
    decision="For each complaint: Ignore, Refer or Court.",
    who_waits="Neighbours of illegal work, tenants of illegal conversions.",
    not_for="Deciding guilt, or screening tenants of illegal conversions.",
    source="DOB complaints 2017-2026 less those of the other domains.",
    process=PROCESS,
    actions=(
        Action("ignore", escalates=False, cost_hours=0.0),
        Action("refer", escalates=True, cost_hours=1.0),
        Action("court", escalates=True, cost_hours=4.0),
    ),
    extended_actions=(COVERAGE_PRICED,),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": PUBLISHED, "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    outcome_names=OUTCOME_NAMES,
    max_steps=365,
    protocol=Protocol(
        split="chronological, 2020 held out",
        episode="365 complaints",
        claims="DQN the steadier; learned classifiers fail on held-out 2020 data",
    ),
    ceiling="exact with the whole state in view (set extended); best known for the published three",
    agents=("dqn", "reinforce"),
    differs={
        "features": "today's rule reads the severity code and the office sees its queue: who may "
        "not competes blind",
        "discount": "cases are settled within weeks: looking further adds noise",
    },
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64)}},
    preference=(0.6, 0.2, 0.0, 0.2),
    price_step=0.03,
    heuristics={**stream_rules(LAYOUT), "expert": make_expert},
    baselines=stream_baselines(
        expert="court for what is grave and keeps coming back, papers if the queue is short",
        grave="court for the gravest code",
        recurrent="whoever was heard of last",
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
