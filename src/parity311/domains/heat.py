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

from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.city.process import (
    Category,
    ComplaintProcess,
    Delay,
    Flag,
    Hazard,
    Places,
    Reporting,
    Service,
    Volume,
)
from parity311.city.profiles import (
    HOUR_SHARES,
    HPD_CODES,
    HPD_SOURCES,
    HPD_WEEKDAY_SLOTS,
    WEEKDAY_SHARES,
    by_year,
)
from parity311.mdp import heuristics, scores
from parity311.mdp import office as desk
from parity311.mdp.arrivals import draw
from parity311.mdp.canvass import CANVASS
from parity311.mdp.contract import (
    Action,
    Domain,
    Dynamics,
    Policy,
    Protocol,
    SeenComplaints,
    Transition,
)
from parity311.mdp.harness import Harness
from parity311.mdp.office_example import example_office
from parity311.mdp.office_records import (
    ComplaintKinds,
    OfficeFigures,
    estimate_figures,
    scale_to_office,
    true_figures,
)
from parity311.mdp.office_rules import fit_capacity, rank_candidates
from parity311.mdp.office_step import (
    OfficeProcess,
    OfficeRules,
    Promise,
    most_visits,
    need_per_slot,
    no_promise,
    pass_slot,
    stratum_in_hand,
)
from parity311.mdp.on_record import read_reports
from parity311.records.store import Records, open_records

# fmt: off
PROCESS = ComplaintProcess(
    slug="heat",
    agency="HPD",
    categories=(
        Category("NO HEAT", "no heat", 0.50, 0.1, 0.155, 0.35, 0.0, 0.115, needs_heating=True),
        Category("NO HOT WATER", "no hot water", 0.20, -0.4, 0.125, 0.35, 0.0, 0.115),
        Category("NO HEAT AND NO HOT WATER", "neither", 0.30, 0.3, 0.185, 0.35, 0.0, 0.115,
                 needs_heating=True),
    ),
    volume=Volume(
        complaints=by_year(
            2017, 210_757, 223_109, 209_225, 164_990, 199_547,
            264_380, 288_000, 312_000, 335_000, 359_000
        ),
        complaints_per_incident=0.845,
        month_shares=(
            0.200, 0.150, 0.095, 0.055, 0.031, 0.024,
            0.012, 0.016, 0.021, 0.081, 0.150, 0.165,
        ),
        temperature_slope=0.03,
    ),
    places=Places(
        exposure_power=0.72,
        exposure_offset=2.0,
        borough_shares=(0.368, 0.286, 0.196, 0.138, 0.012),
        quintile_rates=(365, 368, 288, 212, 118),
        slopes={
            "share_black": 0.30,
            "share_hispanic": 0.12,
            "share_asian": -0.02,
            "share_limited_english": 0.08,
        },
        tract_sd=0.4,
        building_sd=1.45,
        year_sd=0.5,
        month_sd=1.0,
    ),
    hazard=Hazard(
        lifetime_days=3.7,
        code_shares=(0.13, 0.33, 0.38, 0.16),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.55,
    ),
    reporting=Reporting(
        rate_per_day=0.25,
        units_power=0.10,
        hazard_slope=0.32,
        zero_inflation=0.1,
        hour_shares=HOUR_SHARES,
        weekday_shares=WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=0.58,
        weekday_slots=HPD_WEEKDAY_SLOTS,
        leads=(Delay(0.4, 0.5), Delay(1.5, 0.25), Delay(1.95, 0.25), Delay(2.05, 0.25)),
        closing=Delay(0.35, 0.6),
        intake=Delay(1.0, 0.6),
        retry=Delay(1.0, 0.3),
        max_attempts=1,
        expiry_days=14.0,
        scarce_expiry_days=5.0,
        ended_no_access=1.7,
        callback_days=1.5,
        eased=0.68,
        codes=HPD_CODES,
    ),
    flags=(Flag("is_building_wide", 0.666, 1.0),),
    category_flags={"is_no_heat": ("NO HEAT", "NO HEAT AND NO HOT WATER")},
    sources=HPD_SOURCES | {
        "categories": "HPD problem codes; shares and hazard assumed, outcomes fitted so that, of "
        "655 closed heat complaints (computed), duplicates are 30.4, restored or none found 33.6, "
        "no access 24.5, violation 3.4, other 8.1 %",
        "volume": "2017-19 dariusmehri/311-HPD-and-DOB-Complaint-Comparison; 2020-22 "
        "poojachaudhuri/project-4; 2026 359 thousand in the twelve months to October; between "
        "them a straight line",
        "volume.month_shares": "311 heat complaints by month, computed",
        "volume.temperature_slope": "assumed: 3 % more incidents per °F below normal",
        "places": "fitted so that complaints per address and year have the published quantiles "
        "(median 2, p75 5, p90 12, p95 21, p99 60) and Gini .673 (poojachaudhuri/project-4)",
        "places.borough_shares": "fitted so that complaints by borough come out at 35.9, 27.6, "
        "22.0, 13.4, 1.1 % (2020-22)",
        "places.quintile_rates": "fitted so that complaints per 1,000 renter households and three "
        "years come out at 359, 364, 295, 219, 128 by income quintile",
        "places.slopes": "fitted so that tract rates correlate with the shares as computed",
        "places.tract_sd": "fitted likewise",
        "hazard": "assumed, so that code, flags and recurrence together predict what is "
        "actionable with an AUC near 0.76",
        "hazard.lifetime_days": "fitted so that a third of the cases is found restored",
        "reporting.rate_per_day": "fitted so that duplicates come out; half of the incidents are "
        "then reported",
        "service.visits_per_complaint": "fitted so that nearly every case is visited or found "
        "restored within days",
        "service.leads": "fitted so that closing days come out at .98, 1.87, 2.60, 3.23 (quartiles "
        "and p90, Steveelorm80/analytics, 698 rows)",
        "service.callback_days": "fitted so that restored comes out",
        "service.eased": "fitted so that restored and none found come out apart",
        "flags": "ENTIRE BUILDING 66.6 % of heat complaints; how telling it is, assumed",
    },
)
# fmt: on

SLOTS_PER_DAY = 4
"""Complaints the office can classify in a day (the paper); a step is one slot."""

N_DAYS = 365
START_DAY = 181
"""The office's year starts on 1 July, when hardly anybody waits: an empty office is right then."""

BUSIEST_MONTH = 0.75
"""Cases per slot in the busiest month: the office is the share of the city that this makes."""

PUT_OFF_DAYS = 7.0
"""A deferred complaint comes back after a week, or as soon as somebody reports it again."""

POOL_DAYS = 4.0
"""Days after which a pool is visited though it is not full (assumed)."""

UNITS_BY_LEVEL = (3.0, 12.0, 32.0, 80.0)
"""Dwelling units that stand for 1-5, 6-19, 20-49 and 50 or more."""
UNITS_EDGES = (6, 20, 50)

SEVERITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What one day unresolved weighs by severity code A to D: a norm, stated, not estimated."""

SPEED_UNIT = 5.0
"""Severity-weighted days a typical correct escalation avoids: weight 1.5 over 3.5 days."""
COST_UNIT = 10.0
"""Visits a typical correct escalation takes."""
RETENTION_UNIT = 150.0
"""Severity-weighted dwelling-unit days a typical correct escalation keeps habitable."""

MONTH_OF_DAY = np.repeat(np.arange(12), (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))
NORMAL_TEMPERATURE = (34, 36, 43, 54, 63, 72, 78, 76, 69, 58, 48, 39)
"""Mean °F by month in Central Park (National Weather Service normals 1991-2020, rounded)."""
TEMPERATURE_SD = 8.0
"""Sd of a day's temperature around its normal, °F (assumed)."""
TEMPERATURE_MEMORY = 0.93
"""Correlation from slot to slot: 0.75 from day to day (assumed)."""
TEMPERATURE_SLOPE = 0.03
"""Log arrivals per °F below normal (assumed; the records carry no weather)."""

COMPLAINT_KINDS = ComplaintKinds(
    slug="heat",
    flags=("is_building_wide", "is_no_heat"),
    units_edges=UNITS_EDGES,
    # Where the calibration gives none: closing times of 2025, half within 1.9 days.
    lifetime_days=3.7,
    silent_share=0.1,
)
N_KINDS = COMPLAINT_KINDS.n_kinds
KINDS = COMPLAINT_KINDS.parts
"""(64, 4): building-wide, no heat, level of units, severity code of every kind."""


UNITS_BY_KIND = np.array(UNITS_BY_LEVEL)[KINDS[:, 2]]


ACTIONS = (
    Action("inspect", escalates=True, cost_hours=1.0),
    Action("batch", escalates=True, cost_hours=desk.SHARED_TIME),
    Action("defer", escalates=False, cost_hours=0.0),
)

RULES = OfficeRules(
    slots_per_day=SLOTS_PER_DAY,
    put_off_days=PUT_OFF_DAYS,
    pool_days=POOL_DAYS,
    severity_weights=SEVERITY_WEIGHTS,
    units_by_kind=UNITS_BY_KIND,
    canvass_action=len(ACTIONS),
)

Params = OfficeProcess


class State(NamedTuple):
    """The office, the weather, and what is in hand."""

    office: desk.Office
    warmth: jax.Array
    """() °F above normal"""
    promise: Promise


def initial_state(key: jax.Array, params: Params) -> State:
    """An empty office on 1 July."""
    del params
    return State(desk.empty_office(), TEMPERATURE_SD * jax.random.normal(key), no_promise())


def month_of(office: desk.Office) -> jax.Array:
    """Month, 0 = January."""
    day = jnp.floor(office.now + 1e-3).astype(jnp.int32) + START_DAY
    return jnp.asarray(MONTH_OF_DAY, jnp.int32)[day % N_DAYS]


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Classify the complaint in hand, let the inspectors work, let a quarter of a day pass."""
    draws = draw(key)
    slot = pass_slot(
        RULES,
        params,
        state.office,
        state.promise,
        action,
        prices,
        draws,
        month_of(state.office),
        -TEMPERATURE_SLOPE * state.warmth,
    )
    fresh = np.sqrt(1 - TEMPERATURE_MEMORY**2) * TEMPERATURE_SD * draws.weather
    published = _scale(-slot.burden, slot.tally.hours)
    return Transition(
        state=State(slot.office, TEMPERATURE_MEMORY * state.warmth + fresh, slot.promise),
        reward=_scale(slot.days, slot.hours),
        terminated=jnp.zeros((), bool),
        credit=slot.credit,
        tally=slot.tally._replace(published_reward=published),
    )


def _scale(days: jax.Array, hours: jax.Array) -> jax.Array:
    """Reward vector from weighted days (2,) and visits: speed, -cost, equity, retention."""
    none = jnp.zeros((), jnp.float32)
    return jnp.stack([days[0] / SPEED_UNIT, -hours / COST_UNIT, none, days[1] / RETENTION_UNIT])


OBSERVATION_NAMES = (
    "is_building_wide", "is_no_heat", "unit_count", "queue", "season", "temperature",
    "severity", "recurrence",
)  # fmt: skip


def observe(params: Params, state: State) -> jax.Array:
    """The complaint in hand (zeros in an empty slot), the queue, the season and the weather."""
    office = state.office
    row, there_is_one = desk.next_to_classify(office)
    kind = jnp.asarray(KINDS, jnp.float32)[office.kind[row]]
    units = jnp.asarray(UNITS_BY_KIND, jnp.float32)[office.kind[row]]
    month = month_of(office)
    capacity = jnp.maximum(params.office.capacity[month], 1e-3)
    queued = (office.status == desk.QUEUED).sum() + office.n_extra.sum()
    day = office.now + START_DAY
    complaint = jnp.stack(
        [
            kind[0],
            kind[1],
            jnp.log(units) / np.log(UNITS_BY_LEVEL[-1]),
            1.0 - kind[3] / 3.0,
            jnp.minimum(office.n_reports[row] - 1, 4) / 4.0,
        ]
    )
    complaint = jnp.where(there_is_one, complaint, 0.0)
    office_now = jnp.stack(
        [
            jnp.minimum(queued / capacity / 7.0, 3.0),
            jnp.cos(2 * np.pi * (day - 15.0) / N_DAYS),
            (jnp.asarray(NORMAL_TEMPERATURE, jnp.float32)[month] + state.warmth - 55.0) / 20.0,
        ]
    )
    return jnp.concatenate([complaint[:3], office_now, complaint[3:]])


def scale_capacity(params: Params, factor: float) -> Params:
    """The same office with so many times the visits."""
    return params._replace(office=params.office._replace(capacity=params.office.capacity * factor))


def kind_observations(harness: Harness) -> np.ndarray:
    """What the policy sees of each kind in an empty office at zero price, (64, n_features)."""
    values = np.zeros((N_KINDS, len(OBSERVATION_NAMES)))
    values[:, :2] = KINDS[:, :2]
    values[:, 2] = np.log(np.asarray(UNITS_BY_LEVEL)[KINDS[:, 2]]) / np.log(UNITS_BY_LEVEL[-1])
    values[:, 6] = 1.0 - KINDS[:, 3] / 3.0
    return np.column_stack([values[:, harness.columns], np.zeros(N_KINDS)])


def rank_kinds(params: Params, by: str) -> np.ndarray:
    """What a rule ranks the kinds of complaint by, (64,).

    score: log odds of being actionable. index: the same in expected severity-weighted days, the
    value of a visit now. expert: an inspector's rule of thumb, the whole building before the flat,
    no heat before no hot water, the graver code first.
    """
    chance = np.asarray(params.actionable, np.float64)
    if by == "score":
        return scores.log_odds(chance)
    if by == "index":
        return np.log(chance * np.asarray(SEVERITY_WEIGHTS)[KINDS[:, 3]])
    return KINDS @ np.array([1.0, 0.5, 0.0, -1.0])


def candidates(
    params: Params, harness: Harness, price_gain: float = 0.0, by: str = "score"
) -> list[heuristics.QueueRule]:
    """Rules on one of the rankings, with every bar."""
    return rank_candidates(
        params, harness, kind_observations(harness), rank_kinds(params, by), price_gain
    )


def make_score_rule(
    params: Params, harness: Harness, price_gain: float = 0.0, by: str = "score"
) -> Policy:
    """Inspect the first of a ranking; the bar that fits the capacity, raised by the queue."""
    return fit_capacity(params, candidates(params, harness, price_gain, by))


CALL_BACK_DAYS = 1.5
"""Mean days until a call finds out that an incident has ended (assumed; HPD calls tenants)."""
REPAIR_DAYS = 1.0
"""Days from a violation to the repair (assumed; class C violations are due within 24 hours)."""
LINKED_SHARE = 0.9
"""Share of further reports recognised as duplicates when they arrive (assumed)."""


def example() -> Params:
    """A small office by hand: five equal strata that report 35 to 73 % of their incidents.

    22 % of incidents are actionable, what the office sees tells them apart with an AUC of 0.76,
    and inspectors can visit 30 % of the complaints.
    """
    month = np.array(PROCESS.volume.month_shares)
    return example_office(
        KINDS,
        # By building-wide, no heat, level of units and severity code.
        part_shares=((0.4, 0.6), (0.3, 0.7), (0.3, 0.3, 0.25, 0.15), (0.1, 0.3, 0.4, 0.2)),
        part_log_odds=(1.0, 0.6, 0.25, -0.75),
        actionable=0.22,
        complaints_per_day=BUSIEST_MONTH * SLOTS_PER_DAY * month / month.max(),
        visits_per_complaint=0.3,
        lifetime_days=3.7,
        call_back_days=CALL_BACK_DAYS,
        repair_days=REPAIR_DAYS,
    )


def make_params(figures: OfficeFigures) -> Params:
    """Scale a city down to one office whose busiest month nearly fills its slots."""
    return scale_to_office(
        figures,
        BUSIEST_MONTH * SLOTS_PER_DAY,
        linked_share=LINKED_SHARE,
        repair_days=REPAIR_DAYS,
        call_back_days=CALL_BACK_DAYS,
    )


def estimate(records: Records, calibration: Any, date_to: date) -> Params:
    """The office as the agency could know it before `date_to`."""
    return make_params(estimate_figures(records, calibration, COMPLAINT_KINDS, date_to))


def truth(city: str | Path, date_from: date) -> Params:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    silent = PROCESS.reporting.zero_inflation
    return make_params(true_figures(records, happened, COMPLAINT_KINDS, date_from, silent))


def seen_complaints(
    records: Records, params: Params, date_from: date, date_to: date
) -> SeenComplaints:
    """The complaints on record as the policy would have seen them; weather as it normally is."""
    del params
    reports = read_reports(records, "heat", date_from, date_to, COMPLAINT_KINDS.flags)
    level = np.searchsorted(UNITS_EDGES, reports.units, side="right")
    normal = np.asarray(NORMAL_TEMPERATURE, np.float64)[reports.month]
    features = {
        "is_building_wide": reports.flags["is_building_wide"],
        "is_no_heat": reports.flags["is_no_heat"],
        "unit_count": np.log(np.asarray(UNITS_BY_LEVEL)[level]) / np.log(UNITS_BY_LEVEL[-1]),
        "queue": np.minimum(reports.n_waiting / reports.visits_per_day / 7.0, 3.0),
        "season": np.cos(2 * np.pi * (reports.day_of_year - 15.0) / N_DAYS),
        "temperature": (normal - 55.0) / 20.0,
        "severity": 1.0 - reports.code / 3.0,
        "recurrence": np.minimum(reports.n_earlier, 4) / 4.0,
    }
    return SeenComplaints(
        complaint_id=reports.complaint_id,
        tract=reports.tract,
        severity=reports.severity,
        stratum=reports.stratum,
        features=np.column_stack([features[name] for name in OBSERVATION_NAMES]),
    )


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
    outcome_names=desk.OUTCOME_NAMES,
    # Today's rule reads the severity code; a policy that may not competes blind.
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
    # Steps are quarters of a day and cases are over within days: 1 / (1 - 0.95) is five of them,
    # looking further adds noise.
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
        "score": make_score_rule,
        "index": partial(make_score_rule, by="index"),
        "expert": partial(make_score_rule, by="expert"),
        "dual_threshold": partial(make_score_rule, price_gain=heuristics.PRICE_GAIN),
    },
    dynamics=Dynamics(
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        current_stratum=lambda params, state: stratum_in_hand(state.office),
        need_per_step=lambda params: need_per_slot(RULES, params),
        steps_per_day=lambda params: jnp.float32(SLOTS_PER_DAY),
        n_waiting=lambda state: state.office.n_open.sum(),
        capacity_per_step=most_visits,
        scale_capacity=scale_capacity,
        example=example,
        estimate=estimate,
        truth=truth,
        complaints=seen_complaints,
        candidates=candidates,
    ),
)
