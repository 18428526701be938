"""Housing conditions: which category of complaints is served in the next hour.

What is decided: the category that the next inspectors take. Who waits: tenants with pests, leaks,
broken plumbing or doors. Source: HPD complaints in NYC 311 other than heat, 2017-2026. Not for:
choosing which tenants deserve an answer.
"""

from __future__ import annotations

from datetime import date
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
    HPD_SOURCES,
    HPD_WEEKDAY_SLOTS,
    WEEKDAY_SHARES,
    by_year,
)
from parity311.mdp import backlog as line
from parity311.mdp import backlog_estimate, backlog_rules
from parity311.mdp.backlog_dynamics import backlog_dynamics, true_params
from parity311.mdp.backlog_params import example_backlog
from parity311.mdp.backlog_records import addresses_by_place
from parity311.mdp.backlog_rules import linear_choice, play_action
from parity311.mdp.backlog_step import Stepped, count_step, draw_step, pass_step, weigh_cases
from parity311.mdp.backlog_trail import TRAIL_NAMES, Trail, average_trail, follow, look_back
from parity311.mdp.contract import (
    N_STRATA,
    Action,
    Domain,
    Policy,
    Protocol,
    Transition,
)
from parity311.mdp.harness import Harness
from parity311.records.store import Records, open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("UNSANITARY CONDITION", "pests or mould", 0.2477, 0.1, 0.553, 0.3948, 0.006, 0.006,
             lead=Delay(8, 1.35)),
    Category("PLUMBING", "plumbing", 0.1459, 0.2, 0.597, 0.4055, 0.004, 0.004,
             lifetime_factor=0.833, rate_factor=1.2, lead=Delay(7.5, 1.6)),
    Category("PAINT/PLASTER", "paint or plaster", 0.1368, -0.3, 0.54, 0.3706, 0.014, 0.014,
             lifetime_factor=2.0, rate_factor=0.5, lead=Delay(5.8, 1.45)),
    Category("DOOR/WINDOW", "door or window", 0.1, -0.2, 0.545, 0.4008, 0.007, 0.007,
             lifetime_factor=1.667, rate_factor=0.6, lead=Delay(11.5, 1.35)),
    Category("WATER LEAK", "leak", 0.0836, 0.5, 0.622, 0.396, 0.002, 0.002,
             lifetime_factor=0.5, rate_factor=2.0, lead=Delay(6.5, 1.4)),
    Category("GENERAL", "general", 0.0741, -0.3, 0.475, 0.4032, 0.007, 0.007,
             lifetime_factor=1.333, rate_factor=0.75, lead=Delay(10, 1.5)),
    Category("ELECTRIC", "electricity", 0.0679, 0.4, 0.583, 0.4001, 0.004, 0.004,
             lifetime_factor=0.833, rate_factor=1.2, lead=Delay(7.8, 1.4)),
    Category("FLOORING/STAIRS", "floors or stairs", 0.058, 0.0, 0.517, 0.3885, 0.01, 0.01,
             lifetime_factor=1.667, rate_factor=0.6, lead=Delay(7.3, 1.3)),
    Category("APPLIANCE", "appliance", 0.0562, -0.3, 0.477, 0.4005, 0.004, 0.004,
             lead=Delay(13, 1.1)),
    Category("SAFETY", "safety", 0.0229, 0.6, 0.576, 0.3807, 0.007, 0.007, lead=Delay(6.5, 1.0)),
    Category("ELEVATOR", "elevator", 0.00482, 0.4, 0.562, 0.3878, 0.003, 0.003,
             lifetime_factor=0.667, rate_factor=1.5, lead=Delay(9, 1.0)),
    Category("OUTSIDE BUILDING", "outside", 0.00206, -0.3, 0.472, 0.3811, 0.01, 0.01,
             lifetime_factor=1.667, rate_factor=0.6, lead=Delay(9, 1.0)),
)
_COMPLAINTS = (
    2017, 351_581, 381_814, 238_527, 249_512, 252_700,
    275_000, 295_000, 310_000, 325_000, 335_000,
)  # from the first year on
_MONTH_SHARES = (
    0.088, 0.080, 0.085, 0.079, 0.082, 0.082, 0.086, 0.088, 0.084, 0.086, 0.080, 0.080,
)
# fmt: on

PROCESS = ComplaintProcess(
    slug="housing",
    agency="HPD",
    categories=_CATEGORIES,
    volume=Volume(
        complaints=by_year(*_COMPLAINTS),
        complaints_per_incident=0.50,
        month_shares=_MONTH_SHARES,
    ),
    places=Places(
        exposure_power=0.75,
        exposure_offset=2.0,
        borough_shares=(0.350, 0.310, 0.190, 0.140, 0.012),
        quintile_rates=(365, 368, 285, 205, 112),
        slopes={"share_black": 0.25, "share_hispanic": 0.12},
        tract_sd=0.4,
        building_sd=1.3,
        year_sd=0.4,
        month_sd=0.6,
        neglect_share=0.5,
    ),
    hazard=Hazard(
        lifetime_days=60.0,
        code_shares=(0.08, 0.37, 0.40, 0.15),
        code_noise_sd=0.5,
        hazard_slope=1.2,
        neglect_slope=0.55,
    ),
    reporting=Reporting(
        rate_per_day=0.0155,
        units_power=0.05,
        reference_units=20.0,
        zero_inflation=0.92,
        hour_shares=HOUR_SHARES,
        weekday_shares=WEEKDAY_SHARES,
    ),
    service=Service(
        visits_per_complaint=1.05,
        weekday_slots=HPD_WEEKDAY_SLOTS,
        leads=(Delay(1.0, 0.8), Delay(6.0, 1.2), Delay(8.0, 1.2), Delay(10.0, 1.2)),
        closing=Delay(0.6, 0.8),
        intake=Delay(3.0, 0.8),
        retry=Delay(5.0, 0.6),
        max_attempts=1,
        lead_factor_2020=1.75,
        ended_no_access=0.5,
        callback_days=40.0,
        n_inspectors=300,
        codes=HPD_CODES,
    ),
    flags=(
        Flag("is_emergency", 0.35, 0.9),
        Flag("is_public_area", 0.20, 0.5),
    ),
    sources=HPD_SOURCES
    | {
        "volume": "HPD types other than heat, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, "
        "311 counts of 2017 to November 2021 (2021 scaled to a full year); later years assumed "
        "to follow heat at half its growth",
        "service.leads": "fitted so that closing days come out as in Steveelorm80/analytics "
        "(UNSANITARY 4.7, 8.6, 18.8, 53.8; PLUMBING 2.8, 7.7, 21, 44)",
        "reporting.zero_inflation": "fitted so that duplicates are 2.3 % of closed complaints "
        "(computed from 1,071 rows)",
        "volume.month_shares": "assumed: nearly flat",
        "places": "assumed: heavy-tailed over buildings as heat complaints are",
        "hazard": "assumed, so that intake predicts what is actionable with an AUC near 0.76",
        "hazard.lifetime_days": "assumed: no record says how long an incident lasts",
        "reporting.rate_per_day": "assumed, so that nearly half of the incidents are reported",
        "service.visits_per_complaint": "fitted so that nearly every case is visited in the end",
        "categories": "shares: HPD types of 2020, "
        "dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to November 2021; "
        "outcomes fitted to no access 36.6, violation 21.1, none or corrected 39.2 % of closed "
        "complaints (computed, 1,071 rows)",
        "places.borough_shares": "assumed: as heat",
        "places.quintile_rates": "assumed: as heat",
        "service.lead_factor_2020": "mean closing days of HPD types rose by a third to a half "
        "from 2019 to 2020, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 "
        "to November 2021",
        "service.borough_no_access": "none applied",
        "service.no_access_2020": "none applied",
        "flags": "assumed: HPD records the type of emergency and the space",
    },
)


CODES = tuple(category.code for category in PROCESS.categories)
CATEGORIES = tuple(code.lower().replace("/", "_").replace(" ", "_") for code in CODES)
N_CATEGORIES = len(CATEGORIES)
N_PLACES = N_CATEGORIES * N_STRATA
"""A place is a category in a stratum: category first."""

SHAPE = line.Shape(steps_per_day=24, bin_steps=24, n_ages=16, max_steps=336, most_arrivals=9)
"""Two weeks of hours; ages in days, the last open from the fifteenth on; the busiest place of the
whole city expects two cases of one code in an hour."""
N_AGES = SHAPE.n_ages

SEVERITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What one day unresolved weighs by severity code A to D: a norm, stated, not estimated."""
SPEED_UNIT = 30.0
"""Severity-weighted days a typical correct escalation saves: three visits of weight 1.5, each a
week before the end of the episode."""
COST_UNIT = 3.0
"""Inspector hours, one a visit, that a typical correct escalation takes."""
RETENTION_UNIT = 10.0
"""Severity-weighted dwelling days that it keeps habitable: weight 1.5 for a week, one dwelling."""

ACTION_NAMES = (*CATEGORIES, "BALANCED", "COVERAGE_PRICED", "CANVASS", "NO_DISPATCH")
"""The paper's: which category is served. Ours: all categories by code and age; the same with the
strata weighted by their coverage price; a quarter of the visits where nobody called; none."""
_OF = {name: number for number, name in enumerate(ACTION_NAMES)}
PRICE_GAIN = 1.0
"""Severity codes that one unit of coverage price is worth to priced dispatch."""
CANVASS_SHARE = 0.25
"""Share of the hour's visits that a canvass takes."""

_HOURS = (np.arange(24) >= 8) & (np.arange(24) < 18)
_WEEK = np.outer(PROCESS.service.weekday_slots, _HOURS).reshape(-1)
CAPACITY_WEEK = (_WEEK / _WEEK.mean()).astype(np.float32)
"""Visits by hour of the week, mean 1: HPD's weekdays, from 8 to 18 h (assumed)."""


class Params(NamedTuple):
    """The backlog of categories and strata, and the inspectors."""

    backlog: line.BacklogParams
    visits_per_hour: jax.Array
    """() mean over the week"""
    typical: jax.Array
    """() cases waiting at a typical start: the unit of what is observed"""
    start_seen: jax.Array
    """(S, n_names) what is seen of each start"""


class State(NamedTuple):
    """The backlog, the trail of the last hours, and what a policy sees of them."""

    backlog: line.Backlog
    trail: Trail
    seen: jax.Array
    """(n_names,) kept, because a step's observation is read more often than it changes"""


def initial_state(key: jax.Array, params: Params) -> State:
    """A recorded backlog after average hours."""
    backlog, row = line.start(params.backlog, jax.random.uniform(key))
    return settle(State(backlog, average_trail(params.backlog), params.start_seen[row]))


def carry_on(params: Params, state: State) -> State:
    """The next episode where the line and the trail stay as they are."""
    backlog = line.carry_on(state.backlog)
    return settle(State(backlog, state.trail, look_at(params, backlog, state.trail)))


def choose_visits(
    params: Params, backlog: line.Backlog, action: jax.Array, prices: jax.Array, n_visits: jax.Array
) -> jax.Array:
    """Cases visited this hour, (72, 64): by code and age in the chosen category, or in all.

    Cases that are alike in all the order looks at are served in proportion to their number.
    """
    is_served = (np.arange(N_CATEGORIES) == action) | (action >= N_CATEGORIES)
    cells = backlog.waiting.reshape(N_CATEGORIES, N_STRATA, -1)
    cells = jnp.where(is_served[:, None, None], cells, 0.0)
    by_stratum = settle(cells.sum(axis=0))
    everybody = by_stratum.sum(axis=0)
    today = line.take_in_order(everybody, jnp.asarray(SHAPE.code_then_age), n_visits)
    share = jnp.broadcast_to(today / jnp.maximum(everybody, 1e-6), by_stratum.shape)
    groups = by_stratum.reshape(N_STRATA * line.N_CODES, N_AGES)
    score = 3.0 - jnp.arange(line.N_CODES) + PRICE_GAIN * prices[:, None]
    priced = line.take_by_group(groups, score.reshape(-1), n_visits).reshape(by_stratum.shape)
    is_priced = (action == _OF["COVERAGE_PRICED"]) | (action == _OF["CANVASS"])
    share = jnp.where(is_priced, priced / jnp.maximum(by_stratum, 1e-6), share)
    return (cells * jnp.minimum(share, 1.0)).reshape(N_PLACES, -1)


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Serve a category for an hour, let it pass, take in what is reported."""
    before = state.backlog
    draws = draw_step(key, N_PLACES, 1)
    capacity = params.visits_per_hour * jnp.asarray(CAPACITY_WEEK)[before.slot]
    capacity = line.rounded(capacity * (action != _OF["NO_DISPATCH"]), draws.own[0])
    looked = capacity * CANVASS_SHARE * (action == _OF["CANVASS"])
    visited = choose_visits(params, before, action, prices, capacity - looked)
    here = jnp.arange(N_PLACES) % N_STRATA == jnp.argmax(prices[: N_STRATA - 1])
    stepped = pass_step(params.backlog, before, visited, draws, SHAPE, (here, looked))
    hours = stepped.visits.sum()
    published = _scale(-burden_of(params, stepped.backlog), hours)
    trail = follow(state.trail, stepped)
    return Transition(
        state=State(stepped.backlog, trail, look_at(params, stepped.backlog, trail)),
        reward=_scale(saved_by(params, before, stepped), hours),
        terminated=jnp.zeros((), bool),
        credit=stepped.correct,
        tally=count_step(stepped, published, hours),
    )


def burden_of(params: Params, backlog: line.Backlog) -> jax.Array:
    """Severity-weighted days of one hour: cases in line, and dwellings with a violation, (2,)."""
    weights = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)
    cells = backlog.waiting.reshape(N_PLACES, line.N_CODES, N_AGES)
    lasting = cells @ params.backlog.there * params.backlog.chance + backlog.hidden
    return jnp.stack([cells.sum(axis=(0, 2)) @ weights, lasting.sum(axis=0) @ weights]) / 24.0


def saved_by(params: Params, before: line.Backlog, stepped: Stepped) -> jax.Array:
    """Severity-weighted days that these visits save to the end of the episode, (2,)."""
    own, service = params.backlog, stepped.service
    ahead, _ = line.steps_ahead(own, before.n_steps, SHAPE)
    lasting = line.lasting_steps(own, before.n_steps, SHAPE) / 24.0
    life = line.life_ahead(own, before.n_steps, SHAPE)
    # A case closed without access leaves its incident to itself; it then ends at its own rate.
    missed = (1.0 - own.access) * (1.0 - own.returns) / jnp.maximum(own.access, 1e-6)
    kept = weigh_cases(service.found, SEVERITY_WEIGHTS, lasting)
    kept += weigh_cases(service.found * missed[:, None], SEVERITY_WEIGHTS, lasting - life)
    kept += weigh_cases(stepped.discovered, SEVERITY_WEIGHTS, life[None])
    return jnp.stack([weigh_cases(service.closed, SEVERITY_WEIGHTS, ahead / 24.0), kept])


def _scale(days: jax.Array, hours: jax.Array) -> jax.Array:
    """Reward vector: speed, -cost, equity, retention (one dwelling behind each incident)."""
    none = jnp.zeros((), jnp.float32)
    return jnp.stack([days[0] / SPEED_UNIT, -hours / COST_UNIT, none, days[1] / RETENTION_UNIT])


BACKLOG_NAMES = tuple(f"backlog_{name}" for name in CATEGORIES)
URGENT_NAMES = tuple(f"urgent_{name}" for name in CATEGORIES)
SAVING_NAMES = tuple(f"saving_{name}" for name in CATEGORIES)
OBSERVATION_NAMES = BACKLOG_NAMES + TRAIL_NAMES + URGENT_NAMES + SAVING_NAMES + ("time_left",)


def observe(params: Params, state: State) -> jax.Array:
    """What is seen of the backlog and the trail."""
    del params
    return state.seen


def look_at(params: Params, backlog: line.Backlog, trail: Trail) -> jax.Array:
    """Backlog by category, the trail and the calendar; then codes A and B, and savings."""
    cells = backlog.waiting.reshape(N_CATEGORIES, N_STRATA, -1).sum(axis=1)
    cells = settle(cells)
    parts = [
        cells.sum(axis=1) / params.typical * N_CATEGORIES,
        look_back(params.backlog, backlog, trail, N_AGES),
        cells[:, : 2 * N_AGES].sum(axis=1) / params.typical * N_CATEGORIES,
        forecast_savings(params, backlog, cells),
        1.0 - backlog.n_steps[None] / SHAPE.max_steps,
    ]
    return jnp.concatenate(parts).astype(jnp.float32)


def forecast_savings(params: Params, backlog: line.Backlog, cells: jax.Array) -> jax.Array:
    """What an average hour's visits to each category would save, the best has 1, (12,).

    `cells` (12, 64) are the cases of all strata; speed and retention count as the agency weighs
    them today.
    """
    ahead, _ = line.steps_ahead(params.backlog, backlog.n_steps, SHAPE)
    life = line.life_ahead(params.backlog, backlog.n_steps, SHAPE)
    weights = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)
    speed = (weights[:, None] * ahead).reshape(-1) / 24.0 / SPEED_UNIT * DOMAIN.preference[0]
    chance = params.backlog.chance.reshape(N_CATEGORIES, N_STRATA, line.N_CODES).mean(axis=1)
    access = params.backlog.access.reshape(N_CATEGORIES, N_STRATA).mean(axis=1)
    likely = (chance * weights * access[:, None])[:, :, None] * params.backlog.there
    likely = likely.reshape(N_CATEGORIES, -1)
    n_visits = params.visits_per_hour * CAPACITY_WEEK.max()
    taken = jnp.clip(
        n_visits - cells @ line.comes_first(jnp.asarray(SHAPE.code_then_age)), 0.0, cells
    )
    # Products row by row, as one operation: as a sum it would compute `likely` for every office.
    kept = (
        jax.lax.dot_general(taken, likely, (((1,), (1,)), ((0,), (0,))))
        * life
        / RETENTION_UNIT
        * DOMAIN.preference[3]
    )
    saved = taken @ speed + kept
    return saved / jnp.maximum(saved.max(), 1e-6)


def make_choice(prefix: str, params: Params, harness: Harness) -> Policy:
    """The category in which a feature is largest; the backlog by usual severity if not seen."""
    if f"{prefix}_{CATEGORIES[0]}" in harness.observation_names:
        return linear_choice(harness, {(f"{prefix}_{name}", name): 1.0 for name in CATEGORIES})
    per_day = np.asarray(params.backlog.cases_per_day).reshape(N_CATEGORIES, N_STRATA, -1).sum(1)
    severity = per_day @ np.array(SEVERITY_WEIGHTS) / np.maximum(per_day.sum(axis=1), 1e-9)
    return linear_choice(
        harness, {(f"backlog_{name}", name): severity[i] for i, name in enumerate(CATEGORIES)}
    )


def make_balanced(params: Params, harness: Harness) -> Policy:
    """Today's rule, all categories by code and age; where one must be chosen, the most urgent."""
    if "BALANCED" in backlog_rules.action_names(harness):
        return play_action("BALANCED", "BALANCED")(params, harness)
    return make_choice("urgent", params, harness)


def make_expert(params: Params, harness: Harness) -> Policy:
    """The category whose line is longest for its usual intake: who waits longest."""
    per_day = np.asarray(params.backlog.cases_per_day).reshape(N_CATEGORIES, -1).sum(axis=1)
    share = np.maximum(per_day / per_day.sum(), 1e-3)
    return linear_choice(
        harness, {(f"backlog_{name}", name): 1.0 / share[i] for i, name in enumerate(CATEGORIES)}
    )


def make_actionable(params: Params, harness: Harness) -> Policy:
    """The category with the most violations to be found in its line."""
    chance = np.asarray(params.backlog.chance).reshape(N_CATEGORIES, -1).mean(axis=1)
    return linear_choice(
        harness, {(f"backlog_{name}", name): chance[i] for i, name in enumerate(CATEGORIES)}
    )


def make_dual(params: Params, harness: Harness) -> Policy:
    """Priced dispatch where there is one, else as today."""
    if "COVERAGE_PRICED" in backlog_rules.action_names(harness):
        return play_action("COVERAGE_PRICED", "COVERAGE_PRICED")(params, harness)
    return make_balanced(params, harness)


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Every rule, and switching rules around the index."""
    index = make_choice("saving", params, harness)
    assert isinstance(index, backlog_rules.LinearChoice)
    rng = np.random.default_rng(0)
    rules = (make_balanced, make_expert, make_actionable, make_dual)
    found = [make(params, harness) for make in rules]
    return found + backlog_rules.perturbed_choices(index, 27, 0.1, rng)


def make_params(backlog: line.BacklogParams, visits_per_day: float) -> Params:
    """Params with so many visits a day."""
    waiting = np.asarray(backlog.start_waiting).sum(axis=(1, 2)).mean()
    typical = jnp.float32(max(waiting, 1.0))
    params = Params(backlog, jnp.float32(visits_per_day / 24.0), typical, jnp.zeros(0))
    return params._replace(start_seen=look_at_starts(params))


def scale_capacity(params: Params, factor: float) -> Params:
    """The same office with so many times the visits."""
    scaled = params._replace(visits_per_hour=params.visits_per_hour * factor)
    return scaled._replace(start_seen=look_at_starts(scaled))


@jax.jit
def look_at_starts(params: Params) -> jax.Array:
    """What is seen of each start, (S, n_names)."""
    trail = average_trail(params.backlog)
    return jax.vmap(lambda start: look_at(params, start, trail))(line.all_starts(params.backlog))


def example() -> Params:
    """An office by hand: sixty cases a day in the paper's categories, visits for 70 % of them.

    Five strata with equal incidents report 35 to 73 % of them.
    """
    share = np.repeat([category.share for category in PROCESS.categories], N_STRATA)
    found = np.repeat([category.actionable for category in PROCESS.categories], N_STRATA)
    backlog = example_backlog(
        PROCESS,
        SHAPE,
        np.tile(np.arange(N_STRATA), N_CATEGORIES),
        share,
        cases_per_day=60.0,
        chance=np.minimum(found[:, None] * np.array([0.78, 0.66, 0.54, 0.42]), 0.9),
        days_waiting=np.append(np.full(N_AGES - 1, 0.6), 4.0),
        access=0.6,
        returns=0.0,
        repeats_per_day=0.01,
        n_addresses=2_000.0,
    )
    return make_params(backlog, 0.7 * 60.0)


def place_of(located: Any) -> np.ndarray:
    """Number of each one's category and stratum; a code not listed counts as general."""
    number = {code: i for i, code in enumerate(CODES)}
    general = number["GENERAL"]
    category = np.array([number.get(code, general) for code in located.category], np.int64)
    return category * N_STRATA + located.stratum.astype(np.int64)


def layout_of(records: Records) -> backlog_estimate.Layout:
    """How the backlog is laid out; a canvass of a stratum looks at its dwellings' buildings."""
    n_addresses = np.ones(N_STRATA)
    for (_, _, stratum), n in addresses_by_place(records, "b.units > 0").items():
        n_addresses[stratum] += n
    life = PROCESS.hazard.lifetime_days
    n_addresses = np.tile(n_addresses, N_CATEGORIES)
    return backlog_estimate.Layout("housing", N_PLACES, place_of, SHAPE, n_addresses, life)


def truth(city: str | Path, date_from: date) -> Params:
    """The office as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    return true_params(records, happened, date_from, layout_of, make_params)


DOMAIN = Domain(
    slug="housing",
    title="Housing conditions",
    version=2,
    decision="For each hour: which category is served.",
    who_waits="Tenants with pests, leaks, broken plumbing or doors.",
    not_for="Choosing which tenants deserve an answer.",
    source="HPD complaints in NYC 311 other than heat and hot water, 2017-2026.",
    process=PROCESS,
    actions=tuple(Action(name, escalates=True, cost_hours=1.0) for name in CATEGORIES),
    extended_actions=tuple(
        Action(name, name != "NO_DISPATCH", float(name != "NO_DISPATCH"))
        for name in ACTION_NAMES[N_CATEGORIES:]
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={
        "published": BACKLOG_NAMES + TRAIL_NAMES,
        "extended": OBSERVATION_NAMES,
    },
    default_observation_set="extended",
    outcome_names=line.OUTCOME_NAMES,
    max_steps=SHAPE.max_steps,
    protocol=Protocol(
        split="train 2020-2024, test 2025",
        episode="hours; its length is not given, ours is two weeks",
        claims="RL policies dominate the current heuristic intake in all residential domains",
    ),
    ceiling="best known: the best of all rules and of 28 around the index",
    agents=("dqn", "reinforce", "hdqn"),
    # What a visit saves is in its own reward, so looking far ahead only adds noise.
    agent_settings={"dqn": {"discount": 0.8, "hidden": (128, 128)}},
    # Tenants' days and homes first; inspectors are paid whichever category they serve.
    preference=(0.5, 0.2, 0.0, 0.3),
    price_step=0.005,
    explainer="tree",
    heuristics={
        "balanced": make_balanced,
        "emerg": lambda params, harness: make_choice("urgent", params, harness),
        "actionable": make_actionable,
        "never": play_action("NO_DISPATCH", "outside_building"),
        "no_dispatch": play_action("NO_DISPATCH", "outside_building"),
        "uniform": backlog_rules.play_at_random(*ACTION_NAMES[N_CATEGORIES:]),
        "random": backlog_rules.play_at_random("NO_DISPATCH"),
        "score": make_balanced,
        "index": lambda params, harness: make_choice("saving", params, harness),
        "expert": make_expert,
        "dual_threshold": make_dual,
        "canvass": play_action("CANVASS", "unsanitary_condition"),
    },
    dynamics=backlog_dynamics(
        SHAPE,
        layout_of=layout_of,
        make_params=make_params,
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        example=example,
        truth=truth,
        capacity_per_step=lambda params: jnp.ceil(params.visits_per_hour * CAPACITY_WEEK.max()),
        carry_on=carry_on,
        scale_capacity=scale_capacity,
        candidates=candidates,
    ),
)
