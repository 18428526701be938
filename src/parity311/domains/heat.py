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
from jax.lax import optimization_barrier as settle

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
    HPD_WEEKDAY_SLOTS,
    WEEKDAY_SHARES,
    by_year,
)
from parity311.mdp import casebook, heuristics, scores
from parity311.mdp import office as desk
from parity311.mdp.arrivals import Draws, choose, count_by_stratum, draw, poisson
from parity311.mdp.canvass import CANVASS, canvass
from parity311.mdp.contract import (
    N_STRATA,
    Action,
    Domain,
    Dynamics,
    Policy,
    Protocol,
    SeenComplaints,
    Tally,
    Transition,
)
from parity311.mdp.equity import FEATURE_SCALE
from parity311.mdp.harness import Harness
from parity311.mdp.office_records import (
    ComplaintKinds,
    OfficeFigures,
    estimate_figures,
    true_figures,
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
    sources={
        "categories": "HPD problem codes; shares and hazard assumed, outcomes fitted so that, of "
        "655 closed heat complaints (computed), duplicates are 30.4, restored or none found 33.6, "
        "no access 24.5, violation 3.4, other 8.1 %",
        "volume": "2017-19 dariusmehri/311-HPD-and-DOB-Complaint-Comparison; 2020-22 "
        "poojachaudhuri/project-4; 2026 359 thousand in the twelve months to October; between "
        "them a straight line",
        "volume.complaints_per_incident": "fitted so that the yearly complaints come out",
        "volume.month_shares": "311 heat complaints by month, computed",
        "volume.month_factors_2020": "none applied",
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
        "reporting": "assumed",
        "reporting.rate_per_day": "fitted so that duplicates come out; half of the incidents are "
        "then reported",
        "reporting.hour_shares": "311 heat complaints by hour, computed from 6,419 rows",
        "reporting.weekday_shares": "311 heat complaints by weekday, computed from 6,419 rows",
        "service": "assumed",
        "service.visits_per_complaint": "fitted so that nearly every case is visited or found "
        "restored within days",
        "service.leads": "fitted so that closing days come out at .98, 1.87, 2.60, 3.23 (quartiles "
        "and p90, Steveelorm80/analytics, 698 rows)",
        "service.callback_days": "fitted so that restored comes out",
        "service.eased": "fitted so that restored and none found come out apart",
        "service.codes": "classes of HPD resolution texts",
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


def units_of(kind: jax.Array) -> jax.Array:
    """Dwelling units that stand for a kind."""
    return jnp.asarray(UNITS_BY_LEVEL, jnp.float32)[(kind // 4) % len(UNITS_BY_LEVEL)]


class Params(NamedTuple):
    """The process an office of four slots a day sees."""

    incidents_per_day: jax.Array
    """(6, 12) incidents that begin per day, by stratum and month, reported or not"""
    kind_shares: jax.Array
    """(6, 64) share of each kind among a stratum's incidents"""
    actionable: jax.Array
    """(64,) chance that an incident of this kind warrants a violation"""
    report_rate: jax.Array
    """(6,) reports per day while an incident is open, by stratum"""
    buildings: jax.Array
    """(6,) buildings in the office's share of the city, by stratum"""
    office: desk.OfficeParams


class Promise(NamedTuple):
    """What the visits already ordered are expected to bring."""

    days: jax.Array
    """(2,) days avoided, weighted by severity, and by severity and units"""
    hours: jax.Array
    """() visits"""
    correct: jax.Array
    """(6,) correct escalations by stratum"""


class State(NamedTuple):
    """The office, the weather, and what is in hand."""

    office: desk.Office
    warmth: jax.Array
    """() °F above normal"""
    promise: Promise


def initial_state(key: jax.Array, params: Params) -> State:
    """An empty office on 1 July."""
    del params
    nothing = Promise(jnp.zeros(2), jnp.float32(0.0), jnp.zeros(N_STRATA))
    return State(desk.empty_office(), TEMPERATURE_SD * jax.random.normal(key), nothing)


def month_of(office: desk.Office) -> jax.Array:
    """Month, 0 = January."""
    day = jnp.floor(office.now + 1e-3).astype(jnp.int32) + START_DAY
    return jnp.asarray(MONTH_OF_DAY, jnp.int32)[day % N_DAYS]


def draw_arrivals(draws: Draws, params: Params, state: State, month: jax.Array) -> desk.Arrivals:
    """Incidents that begin in this slot."""
    rates = params.incidents_per_day[:, month] / SLOTS_PER_DAY
    expected = rates.sum() * jnp.exp(-TEMPERATURE_SLOPE * state.warmth)
    stratum = choose(draws.new[0], jnp.cumsum(rates)[None])
    kind = choose(draws.new[1], jnp.cumsum(params.kind_shares, axis=1)[stratum])
    code = kind % 4
    is_actionable = draws.new[2] < params.actionable[kind]
    rate = params.report_rate[stratum]
    return desk.Arrivals(
        n=poisson(draws.number, expected),
        stratum=stratum,
        kind=kind,
        urgency=code,
        hazard=jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)[code],
        chance=params.actionable[kind],
        actionable=is_actionable,
        report_rate=rate,
        lifetime=-jnp.log(draws.new[3]) * params.office.lifetime[is_actionable.astype(jnp.int32)],
        report_delay=-jnp.log(draws.new[4]) / jnp.maximum(rate, 1e-9),
    )


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Classify the complaint in hand, let the inspectors work, let a quarter of a day pass."""
    draws = draw(key)
    month = month_of(state.office)
    capacity = params.office.capacity[month]
    burden = weigh_days(state.office, _open_days(state.office))
    # The barriers between stages keep the compiler from computing a stage again for every array
    # of the next.
    office, work = settle(desk.classify(params.office, state.office, action, PUT_OFF_DAYS))
    office = desk.release_pool(office, desk.POOL_SIZE, POOL_DAYS)
    allowance = office.allowance + capacity / SLOTS_PER_DAY
    # Time not used is lost after a day: visits cannot be saved up.
    office = office._replace(allowance=jnp.minimum(allowance, jnp.maximum(capacity, 1.0)))
    office, work = canvass(
        params.office,
        office,
        work,
        prices=prices,
        buildings=params.buildings,
        is_chosen=action == len(ACTIONS),
        chance=draws.canvass,
    )
    office, work = settle(desk.visit_next(params.office, office, work, draws.access[0]))
    office, work = settle(desk.visit_next(params.office, office, work, draws.access[1]))
    brought = weigh_days(office, work.expected_days)
    office, closed = settle(desk.pass_time(params.office, office, 1.0 / SLOTS_PER_DAY, draws.rows))
    arrivals = draw_arrivals(draws, params, state, month)
    office, n_placed = desk.add_arrivals(office, arrivals)
    office, recognised, received, is_first = settle(
        desk.receive_reports(params.office, office, draws.rows, draws.pauses)
    )
    promise = promise_of(params, office, month)
    gain = jax.tree.map(lambda new, old: new - old, promise, state.promise)
    is_new = jnp.arange(desk.MAX_ARRIVALS) < n_placed
    tally = Tally(
        published_reward=_scale(-burden, work.hours),
        correct=work.correct,
        counted=work.expected_correct,
        actionable=count_by_stratum(arrivals.stratum, is_new & arrivals.actionable),
        incidents=count_by_stratum(arrivals.stratum, is_new),
        reported_actionable=desk.by_stratum(office, is_first & office.actionable),
        complaints=received,
        visits=work.visits,
        hours=work.hours,
        outcomes=work.outcomes + closed + recognised,
    )
    fresh = np.sqrt(1 - TEMPERATURE_MEMORY**2) * TEMPERATURE_SD * draws.weather
    return Transition(
        state=State(office, TEMPERATURE_MEMORY * state.warmth + fresh, promise),
        reward=_scale(brought + gain.days, work.hours + gain.hours),
        terminated=jnp.zeros((), bool),
        credit=work.expected_correct + gain.correct,
        tally=tally,
    )


def promise_of(params: Params, office: desk.Office, month: jax.Array) -> Promise:
    """What is in hand, given where every case stands in line."""
    # A pool fills with what comes in: on a guess, two cases of three.
    rate = params.report_rate * params.office.lifetime[1]
    cases_per_day = jnp.dot(params.incidents_per_day[:, month], rate / (1.0 + rate))
    missing = desk.POOL_SIZE - (office.status == desk.BATCHED).sum()
    pool_wait = jnp.clip(1.5 * missing / jnp.maximum(cases_per_day, 1e-3), 0.0, POOL_DAYS)
    work = desk.work_in_hand(params.office, office, params.office.capacity[month], pool_wait)
    return Promise(weigh_days(office, work.expected_days), work.hours, work.expected_correct)


def weigh_days(office: desk.Office, days: jax.Array) -> jax.Array:
    """Add up days by row, weighted by severity, and by severity and units: (2,)."""
    weighted = office.hazard * days
    return jnp.stack([weighted.sum(), (weighted * units_of(office.kind)).sum()])


def _open_days(office: desk.Office) -> jax.Array:
    """Days each actionable incident stays open in this slot, whether or not anybody called."""
    is_open = (office.status != desk.FREE) & office.actionable
    left = jnp.clip(office.ends - office.now, 0.0, 1.0 / SLOTS_PER_DAY)
    return jnp.where(is_open, left, 0.0)


def _scale(days: jax.Array, hours: jax.Array) -> jax.Array:
    """Reward vector from weighted days (2,) and visits: speed, -cost, equity, retention."""
    none = jnp.zeros((), jnp.float32)
    return jnp.stack([days[0] / SPEED_UNIT, -hours / COST_UNIT, none, days[1] / RETENTION_UNIT])


ACTIONS = (
    Action("inspect", escalates=True, cost_hours=1.0),
    Action("batch", escalates=True, cost_hours=desk.SHARED_TIME),
    Action("defer", escalates=False, cost_hours=0.0),
)

OBSERVATION_NAMES = (
    "is_building_wide", "is_no_heat", "unit_count", "queue", "season", "temperature",
    "severity", "recurrence",
)  # fmt: skip


def observe(params: Params, state: State) -> jax.Array:
    """The complaint in hand (zeros in an empty slot), the queue, the season and the weather."""
    office = state.office
    row, there_is_one = desk.next_to_classify(office)
    kind = jnp.asarray(KINDS, jnp.float32)[office.kind[row]]
    month = month_of(office)
    capacity = jnp.maximum(params.office.capacity[month], 1e-3)
    queued = (office.status == desk.QUEUED).sum() + office.n_extra.sum()
    day = office.now + START_DAY
    complaint = jnp.stack(
        [
            kind[0],
            kind[1],
            jnp.log(units_of(office.kind[row])) / np.log(UNITS_BY_LEVEL[-1]),
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


def current_stratum(params: Params, state: State) -> jax.Array:
    """Stratum of the complaint in hand; unknown in an empty slot."""
    del params
    row, there_is_one = desk.next_to_classify(state.office)
    return jnp.where(there_is_one, state.office.stratum[row], N_STRATA - 1)


def need_per_step(params: Params) -> jax.Array:
    """Actionable incidents that begin per slot, by stratum (6,)."""
    share = params.kind_shares @ params.actionable
    return params.incidents_per_day.mean(axis=1) * share / SLOTS_PER_DAY


def n_waiting(state: State) -> jax.Array:
    """Complaints taken in and not yet closed."""
    return state.office.n_open.sum()


def capacity_per_step(params: Params) -> jax.Array:
    """Most visits of one slot: two turns of the queue and a canvass, or a day's time saved up."""
    return jnp.minimum(jnp.maximum(params.office.capacity.max(), 1.0) / desk.SHARED_TIME, 3.0)


def steps_per_day(params: Params) -> jax.Array:
    """Slots in a day."""
    del params
    return jnp.float32(SLOTS_PER_DAY)


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


def score_candidates(
    params: Params, harness: Harness, price_gain: float = 0.0, by: str = "score"
) -> list[heuristics.QueueRule]:
    """Rules on a ranking of the kinds, as far as the policy can tell them apart."""
    seen = kind_observations(harness)
    reported = np.asarray(params.incidents_per_day.sum(axis=1) * params.report_rate)
    shares = reported @ np.asarray(params.kind_shares)
    root = np.sqrt(shares)[:, None]
    design = np.column_stack([np.ones(N_KINDS), seen])
    goal = rank_kinds(params, by)[:, None]
    beta = np.linalg.lstsq(design * root, goal * root, rcond=None)[0][:, 0]
    weights = beta[1:]
    weights[-1] = price_gain / FEATURE_SCALE
    column = harness.observation_names.index("queue")
    return heuristics.queue_rules(weights, column, seen @ weights, shares)


def make_score_rule(
    params: Params, harness: Harness, price_gain: float = 0.0, by: str = "score"
) -> Policy:
    """Inspect the first of a ranking; the bar that fits the capacity, raised by the queue."""
    rate = params.report_rate * params.office.lifetime[1]
    cases = float((params.incidents_per_day * (rate / (1.0 + rate))[:, None]).sum())
    wanted = float(params.office.capacity.sum()) / max(cases, 1e-9)
    place = int(np.argmin(np.abs(np.array(heuristics.BAR_SHARES) - wanted)))
    candidates = score_candidates(params, harness, price_gain, by)
    per_bar = len(candidates) // len(heuristics.BAR_SHARES)
    return candidates[place * per_bar + per_bar // 2]


def example() -> Params:
    """A small office by hand: five equal strata that report 35 to 73 % of their incidents.

    22 % of incidents are actionable, what the office sees tells them apart with an AUC of 0.76,
    and inspectors can visit 30 % of the complaints.
    """
    reported = np.array([0.354, 0.42, 0.50, 0.60, 0.729])
    lifetime_days = 3.7
    rate = reported / (1 - reported) / lifetime_days
    month = np.array(PROCESS.volume.month_shares)
    complaints_per_day = BUSIEST_MONTH * SLOTS_PER_DAY * month / month.max()
    per_incident = (rate * lifetime_days).mean()
    incidents = np.zeros((N_STRATA, 12))
    incidents[:5] = complaints_per_day / per_incident / 5
    shares = np.ones(N_KINDS)
    for column, weights in enumerate(
        ((0.4, 0.6), (0.3, 0.7), (0.3, 0.3, 0.25, 0.15), (0.1, 0.3, 0.4, 0.2))
    ):
        shares *= np.array(weights)[KINDS[:, column]]
    score = KINDS @ np.array([1.0, 0.6, 0.25, -0.75])
    level = np.linspace(-6.0, 3.0, 901)
    chance = 1 / (1 + np.exp(-(score + level[:, None])))
    actionable = chance[np.argmin(np.abs(chance @ shares - 0.22))]
    return Params(
        incidents_per_day=jnp.asarray(incidents, jnp.float32),
        kind_shares=jnp.asarray(np.tile(shares, (N_STRATA, 1)), jnp.float32),
        actionable=jnp.asarray(actionable, jnp.float32),
        report_rate=jnp.asarray(np.append(rate, rate.mean()), jnp.float32),
        buildings=jnp.full(N_STRATA, 200.0, jnp.float32),
        office=desk.OfficeParams(
            silence=jnp.float32(0.1),
            linked=jnp.float32(0.7),
            lifetime=jnp.float32([lifetime_days, lifetime_days]),
            repair=jnp.float32(1.0),
            access=jnp.full(N_STRATA, 0.9, jnp.float32),
            capacity=jnp.asarray(0.3 * complaints_per_day, jnp.float32),
            lead=jnp.float32([0.25, 0.5, 0.75, 1.0]),
            service_level=jnp.float32([1.0, 40.0, 60.0, 90.0]),
            max_attempts=jnp.int32(1),
            call_back=jnp.float32(1.5),
            expiry=jnp.float32(5.0),
        ),
    )


CALL_BACK_DAYS = 1.5
"""Mean days until a call finds out that an incident has ended (assumed; HPD calls tenants)."""
REPAIR_DAYS = 1.0
"""Days from a violation to the repair (assumed; class C violations are due within 24 hours)."""
LINKED_SHARE = 0.9
"""Share of further reports recognised as duplicates when they arrive (assumed)."""


def make_params(figures: OfficeFigures) -> Params:
    """Scale a city down to one office whose busiest month nearly fills its slots."""
    scale = BUSIEST_MONTH * SLOTS_PER_DAY / figures.cases_per_day.max()
    share = np.clip(figures.reported_share, 0.02, 0.98)
    number = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return Params(
        incidents_per_day=number(figures.incidents_per_day * scale),
        kind_shares=number(figures.kind_shares),
        actionable=number(figures.actionable),
        # Reports and endings compete at constant rates: reported first with this chance.
        report_rate=number(share / (1.0 - share) / figures.lifetime_days),
        buildings=number(np.maximum(figures.buildings * scale, 1.0)),
        office=desk.OfficeParams(
            silence=number(figures.silent_share),
            linked=number(LINKED_SHARE),
            lifetime=number([figures.lifetime_days, figures.lifetime_days]),
            repair=number(REPAIR_DAYS),
            access=number(figures.access),
            capacity=number(figures.visits_per_day * scale),
            lead=number(figures.leads_days),
            service_level=number(casebook.SERVICE_LEVELS),
            max_attempts=jnp.int32(1),
            call_back=number(CALL_BACK_DAYS),
            expiry=number(figures.expiry_days),
        ),
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
        current_stratum=current_stratum,
        need_per_step=need_per_step,
        steps_per_day=steps_per_day,
        n_waiting=n_waiting,
        capacity_per_step=capacity_per_step,
        example=example,
        estimate=estimate,
        truth=truth,
        complaints=seen_complaints,
        candidates=score_candidates,
    ),
)
