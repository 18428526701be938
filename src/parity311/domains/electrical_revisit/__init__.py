"""Electrical revisits: when to come back after nobody opened.

What is decided: close the case, or come back in 1, 3, 7, 14 or 30 days. Who waits: residents next
to defective wiring. Source: DOB electrical complaints, codes 59 and 3A. Not for: forcing entry.
"""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from parity311.arrays import jax, jnp, side_by_side
from parity311.city.process import Category, Delay, Flag, Places
from parity311.city.profiles import (
    by_year,
    dob_hazard,
    dob_process,
    dob_reporting,
    dob_service,
)
from parity311.domains.electrical_revisit import revisits
from parity311.domains.electrical_revisit.estimate import (
    N_AGES,
    N_DENIALS,
    N_PASTS,
    estimate_revisits,
    true_revisits,
)
from parity311.domains.electrical_revisit.revisits import DELAYS_DAYS, RevisitParams, State
from parity311.domains.electrical_revisit.rules import (
    make_revisit_rule,
    revisit_candidates,
    revisit_rules,
    revisit_share,
)
from parity311.domains.electrical_revisit.sight import see
from parity311.engines.stream.process import (
    PUT_OFF,
    QUEUE_SLOTS,
    ROUND,
    StreamShape,
    action_table,
    need_per_step,
    pick,
    steps_per_day,
)
from parity311.engines.stream.rules import Reading, StreamLayout
from parity311.estimation.stream import draw_ends, example_params
from parity311.estimation.stream_book import StreamOffice
from parity311.estimation.stream_dynamics import COVERAGE_PRICED, incidents_per_step
from parity311.estimation.stream_view import room_for, still_there
from parity311.mdp.contract import (
    Action,
    Baseline,
    Domain,
    Dynamics,
    Policy,
    Protocol,
    Sight,
    Transition,
)
from parity311.mdp.harness import Harness
from parity311.records.store import open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("59", "defective or exposed wiring", 0.7549, 0.4, 0.552, 0.198, 0.035, 0.035),
    Category("3A", "unlicensed or improper work", 0.2451, 0.4, 0.487, 0.2231, 0.015, 0.015,
             lifetime_factor=0.333, rate_factor=3.0),
)
# fmt: on

PROCESS = dob_process(
    slug="electrical_revisit",
    categories=_CATEGORIES,
    complaints=by_year(2017, 3_856, 3_785, 2_269, 1_734, 1_640, 1_650, 1_700, 1_650, 1_600, 1_600),
    complaints_per_incident=0.477,
    places=Places(
        exposure_power=0.35,
        exposure_offset=-1.0,
        borough_shares=(0.15, 0.34, 0.18, 0.29, 0.04),
        tract_sd=0.35,
        building_sd=1.0,
    ),
    hazard=dob_hazard(60.0, (0.08, 0.60, 0.25, 0.07)),
    reporting=dob_reporting(0.0125, 0.7),
    service=dob_service(
        1.35,
        (Delay(0.3, 0.8), Delay(0.5, 1.2), Delay(0.7, 1.3), Delay(1.0, 1.3)),
        closing=Delay(0.4, 1.0),
        intake=Delay(0.6, 1.2),
        retry=Delay(4.0, 0.7),
    ),
    flags=(Flag("is_sparking", 0.12, 1.3), Flag("is_in_apartment", 0.55, 0.3)),
    sources={
        "volume": "Electrical, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of "
        "2017 to November 2021; later years assumed",
        "service.leads": "fitted so that closing days come out at p50 1.8 and p90 16, computed "
        "from 22 rows",
    },
)

SHAPE = StreamShape(n_places=N_DENIALS, n_histories=N_PASTS * N_AGES)
"""Places are levels of the denial rate of the community board; histories are the property's past
(no case, a case, nobody opened) × the complaint's age."""

_ALL_OF_IT = (1.0, 1.0, 1.0, 1.0)

OFFICE = StreamOffice(
    slug="electrical_revisit",
    shape=SHAPE,
    # Kinds are read off visits, not complaints: see parity311.domains.electrical_revisit.estimate.
    place_of=lambda facts: np.zeros(len(facts.board), np.int64),
    history_of=lambda facts: np.zeros(len(facts.board), np.int64),
    # Some 640 first visits without access a year in New York: the office is a fifth of it.
    days_per_complaint=3.0,
    actions=action_table([(PUT_OFF, 0.0, 0.0, _ALL_OF_IT), *[(ROUND, 1.0, 0.0, _ALL_OF_IT)] * 5]),
    # Code B weighs 2 a day, over an incident's 52 days.
    speed_unit=104.0,
    # One revisit in three gets in and finds something.
    cost_unit=3.0,
    # Ten dwelling units beside it.
    keep_unit=1040.0,
    has_dwellings=True,
    example_lifetime_days=PROCESS.hazard.lifetime_days,
)

PUBLISHED = ("complaint_age", "denial_rate", "property_history")
OBSERVATION_NAMES = (*PUBLISHED, "severity", "season", "calendar", "due_soon", "open_here")
"""The paper's three; then the severity code, the season, how full the calendar is, how much of it
falls due before the next such visit, and how grave what was closed here would come back."""

LAYOUT = StreamLayout(
    shape=SHAPE,
    readings=(
        Reading({"denial_rate": float(N_DENIALS - 1)}),
        Reading({"severity": 3.0}),
        Reading({"property_history": float(N_AGES * (N_PASTS - 1)), "complaint_age": N_AGES - 1.0}),
    ),
    strong_shares=lambda crew: (),
    opens=(),
    backlog="calendar",
)


def observe(params: RevisitParams, state: State) -> jax.Array:
    """The case, the board, the property, and the calendar."""
    del params
    history = state.kind % SHAPE.n_histories
    place = SHAPE.place(state.kind)
    booked = np.float32(QUEUE_SLOTS)
    is_soon = state.calendar.due_days <= OFFICE.days_per_complaint
    parts = (
        history % N_AGES / np.float32(N_AGES - 1),
        place / np.float32(N_DENIALS - 1),
        history // N_AGES / np.float32(N_PASTS - 1),
        SHAPE.level(state.kind) / np.float32(3),
        state.season / np.float32(3),
        state.n_booked / booked,
        is_soon.sum(axis=-1) / booked,
        pick(state.open_level, place) / np.float32(3),
    )
    return side_by_side(*parts)


def example() -> RevisitParams:
    """A small office by hand; half of the cases are actionable, half of the revisits possible."""
    stream = example_params(
        OFFICE,
        place_shares=(0.3, 0.3, 0.25, 0.15),
        place_log_odds=(0.0, 0.1, 0.1, 0.2),
        level_shares=(0.10, 0.25, 0.55, 0.10),
        history_shares=(0.25, 0.2, 0.1, 0.1, 0.1, 0.05, 0.1, 0.05, 0.05),
        history_log_odds=(0.0, -0.1, -0.6, 0.2, 0.1, -0.4, 0.4, 0.3, -0.2),
        actionable=0.5,
        visits_per_case=0.5,
    )
    past = SHAPE.kinds[:, 2] // N_AGES
    # Who was out is likelier out again the next day; some never open.
    score = 0.2 - 0.5 * SHAPE.kinds[:, 0] - 0.6 * (past == N_PASTS - 1)
    score = score[:, None] + 0.35 * np.log(np.array(DELAYS_DAYS))
    capacity = stream._replace(visits_per_step=jnp.float32(0.5), crew_per_step=jnp.float32(0.0))
    return RevisitParams(capacity, jnp.asarray(1.0 / (1.0 + np.exp(-score)), jnp.float32))


def truth(city: str | Path, date_from: date, *, date_to: date | None = None) -> RevisitParams:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    return true_revisits(OFFICE, open_records(city), open_truth(city), date_from, date_to=date_to)


def make_expert(params: RevisitParams, harness: Harness) -> Policy:
    """The unit's rule of thumb: tomorrow for grave wiring, later where nobody ever opens.

    Old complaints at properties with a past of closed doors are given a week or two.
    """
    rank = SHAPE.kinds[:, 1] - 0.3 * (SHAPE.kinds[:, 2] // N_AGES)
    slopes = {"property_history": 1.0, "denial_rate": 1.0}
    return make_revisit_rule(
        LAYOUT,
        params,
        harness,
        rank.astype(np.float64),
        revisit_share(params),
        load_step=0.7,
        delay_slopes=slopes,
    )


def start(key: jax.Array, params: RevisitParams) -> State:
    """An empty calendar."""
    return revisits.initial_state(key, SHAPE, params)


def transition(
    key: jax.Array, params: RevisitParams, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Close or book the case in hand; the action beyond the paper's is priced."""
    priced = revisits.resolve_price(SHAPE, params, state, pick(prices, state.stratum))
    taken = jnp.where(action > len(DELAYS_DAYS), priced, action)
    return revisits.transition(key, SHAPE, params, state, taken)


DOMAIN = Domain(
    slug="electrical_revisit",
    title="Electrical revisits",
    version=3,
    decision="For each visit without access: Close, or revisit in 1, 3, 7, 14 or 30 days.",
    who_waits="Residents next to defective wiring.",
    not_for="Forcing entry.",
    source="DOB electrical complaints, codes 59 and 3A, 2017-2026.",
    process=PROCESS,
    actions=(
        Action("close", escalates=False, cost_hours=0.0),
        *(Action(f"revisit_{days:.0f}d", escalates=True, cost_hours=1.0) for days in DELAYS_DAYS),
    ),
    extended_actions=(COVERAGE_PRICED,),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": PUBLISHED, "extended": OBSERVATION_NAMES},
    # Today's rule reads the severity code; a policy that may not competes blind.
    default_observation_set="extended",
    geographic_features=("denial_rate", "open_here"),
    outcome_names=revisits.OUTCOME_NAMES,
    max_steps=200,
    protocol=Protocol(split="chronological", episode="200 visits without access"),
    ceiling="best known: search over whom to see again, how soon, and how patiently",
    agents=("dqn", "reinforce"),
    differs={
        "features": "the severity code, the season, the calendar and what is due soon are known "
        "at the desk",
        "discount": "a case is settled within a few visits",
    },
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64)}},
    preference=(0.5, 0.3, 0.0, 0.2),
    price_step=0.03,
    explainer="permutation",
    # DOB comes back after 4 days in the median: the nearest delay is 3.
    heuristics={**revisit_rules(LAYOUT, typical_delay=1), "expert": make_expert},
    baselines={
        "balanced": Baseline("balanced", "everybody is seen again after three days"),
        "tail": Baseline("tail", "the oldest complaints again tomorrow, half of the visits"),
        "emerg": Baseline("emerg", "the gravest code again tomorrow, half of the visits"),
        "actionable": Baseline("actionable", "the likeliest violation again tomorrow, all visits"),
        "uniform": Baseline("uniform", "as many as there are visits, by lot, any delay alike"),
        "no_dispatch": Baseline("no_dispatch", "everything is closed, the same as Always Defer"),
        "random": Baseline("random", "closing and every delay with the same chance"),
        "always": Baseline("always", "everybody is seen again tomorrow"),
        "never": Baseline("never", "everything is closed"),
        "expert": Baseline("expert", "tomorrow for grave wiring, later where nobody ever opens"),
    },
    sight=Sight(
        see=partial(see, OFFICE),
        show=observe,
        lasts=lambda params, journal, cases: still_there(
            params.stream.lifetime_days, journal, cases
        ),
        concerns=lambda cases: cases.n_attempts > 0,
        room=partial(room_for, OFFICE),
        unserved=(COVERAGE_PRICED.name,),
        comes_back=lambda action: (np.inf, *DELAYS_DAYS)[action],
    ),
    dynamics=Dynamics(
        params_type=RevisitParams,
        initial_state=start,
        transition=transition,
        observe=observe,
        current_stratum=lambda params, state: state.stratum,
        need_per_step=lambda params: need_per_step(params.stream),
        incidents_per_step=lambda params: incidents_per_step(params.stream),
        steps_per_day=lambda params: steps_per_day(params.stream),
        example=example,
        estimate=partial(estimate_revisits, OFFICE),
        unknowns=partial(draw_ends, OFFICE),
        truth=truth,
        n_waiting=revisits.n_waiting,
        capacity_per_step=revisits.capacity_per_step,
        candidates=partial(revisit_candidates, LAYOUT),
    ),
)
