"""Scaffolds and sidewalk sheds: what is done about a site in the next hour.

What is decided: inspect now, delay, batch, escalate or ignore. Who waits: whoever walks or lives
under it. Source: DOB complaints of codes 23, 24, 1E and 70. Not for: releasing a scaffold for use.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.city.process import Category, Delay, Flag, Places
from parity311.city.profiles import (
    by_year,
    dob_hazard,
    dob_process,
    dob_reporting,
    dob_service,
)
from parity311.mdp import backlog as line
from parity311.mdp import backlog_estimate, backlog_rules
from parity311.mdp.backlog_records import read_cases
from parity311.mdp.backlog_rules import linear_choice, play_action
from parity311.mdp.contract import (
    N_STRATA,
    Action,
    Domain,
    Dynamics,
    Policy,
    Protocol,
    Tally,
    Transition,
)
from parity311.mdp.harness import Harness
from parity311.mdp.office import SHARED_TIME
from parity311.mdp.sites import (
    HOURS,
    SiteParams,
    make_site_params,
    need_per_site,
    site_layout,
    site_params_from,
)
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.records.store import Records, open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("23", "sidewalk shed or supported scaffold", 0.9201, 0.4, 0.372, 0.0023, 0.019, 0.019),
    Category("1E", "suspended scaffold", 0.0449, 1.6, 0.445, 0.0113, 0.021, 0.021,
             lifetime_factor=0.333, rate_factor=3.0),
    Category("24", "sidewalk shed missing", 0.0214, 0.4, 0.398, 0.0023, 0.025, 0.025),
    Category("70", "suspended scaffold left hanging", 0.0136, -0.5, 0.329, 0.0052, 0.021, 0.021),
)
# fmt: on

PROCESS = dob_process(
    slug="scaffold",
    categories=_CATEGORIES,
    complaints=by_year(2017, 3_900, 3_900, 4_000, 3_500, 3_700, 3_800, 4_000, 3_800, 3_700, 3_800),
    complaints_per_incident=0.477,
    places=Places(
        exposure_power=0.55,
        exposure_offset=-1.0,
        borough_shares=(0.17, 0.27, 0.43, 0.11, 0.02),
        tract_sd=0.4,
        building_sd=1.2,
        year_sd=0.7,
    ),
    hazard=dob_hazard(60.0, (0.12, 0.55, 0.25, 0.08)),
    reporting=dob_reporting(0.0125, 0.8),
    service=dob_service(
        1.05,
        (Delay(0.3, 0.8), Delay(1.2, 1.3), Delay(2.4, 1.3), Delay(4.0, 1.3)),
    ),
    flags=(Flag("is_over_sidewalk", 0.70, 0.7), Flag("has_fallen_debris", 0.10, 1.2)),
    sources={
        "volume": "code 23: 22,308 in 77 months (michaelzoorob/dob-complaints-analysis, 783,289 "
        "complaints of 2020-01 to 2026-05); the three other codes assumed at a tenth of it; "
        "years in proportion to DOB totals",
        "service.leads": "fitted so that the mean closing days of Scaffold Safety in 2020 (5.3) "
        "come out, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to "
        "November 2021",
    },
)


MAX_STEPS = 168
"""A site is followed for a week of hours from the complaint that brought it up."""
BATCH_HOUR = 8
"""Joint trips leave at 8 h, on weekdays."""
ESCALATION_COST = 3.0
"""Time an escalation takes: two officers, off schedule (assumed)."""
MOST_TOKENS = 2.0
"""Visits a site's inspector can save up (assumed)."""
ESCALATED_ACCESS = 0.98
"""Chance that an escalation gets in: a stop-work order needs no appointment (assumed)."""

SEVERITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What one day of a hazard weighs by severity code A to D: a norm, stated, not estimated."""
SPEED_UNIT = 9.0
"""Severity-weighted days a typical correct escalation avoids: weight 1.8 for five days."""
COST_UNIT = 3.0
"""Visits that a typical correct escalation takes."""
LEVELS_HOURS = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES], np.float32) * HOURS

INSPECT_NOW, DELAY, BATCH, ESCALATE, IGNORE = range(5)
ACTION_NAMES = ("inspect_now", "delay", "batch", "escalate", "ignore")
OUTCOME_NAMES = ("violation", "no_violation", "no_access", "not_visited")
VIOLATION, NO_VIOLATION, NO_ACCESS, NOT_VISITED = range(4)
NONE, HARMLESS, HAZARD = range(3)
"""What is wrong at the site: nothing, something not actionable, a hazard."""

OBSERVATION_NAMES = (
    "created_count", "open_count", "recurrent_7d", "zip_freq_24h", "time_since_last_resolution_h",
    "severity", "inspector_time", "is_ordered", "is_office_hour", "time_left",
)  # fmt: skip


Params = SiteParams


class State(NamedTuple):
    """One site; times in hours, () each."""

    problem: jax.Array
    """NONE, HARMLESS or HAZARD: latent, only a visit finds out"""
    code: jax.Array
    stratum: jax.Array
    n_created: jax.Array
    n_open: jax.Array
    recurrent: jax.Array
    """complaints of the last week, forgetting with it"""
    zip_freq: jax.Array
    """complaints in the postal code of the last day, forgetting with it"""
    since_resolution: jax.Array
    since_report: jax.Array
    """hours since the first report of what is wrong now"""
    is_counted: jax.Array
    """whether a visit has already found this incident"""
    order: jax.Array
    """0 none, 1 a visit of its own, 2 a place on the next joint trip"""
    tokens: jax.Array
    """visits the inspector has time for"""
    hour: jax.Array
    """int32 hour of the week"""
    n_steps: jax.Array
    is_new: jax.Array
    """whether the first complaint has yet to be counted"""


def initial_state(key: jax.Array, params: Params) -> State:
    """A site with its first complaint, which came in within the hour."""
    draws = jax.random.uniform(key, (5,))
    cell = jnp.minimum((params.cases < draws[0]).sum(), N_STRATA * line.N_CODES - 1)
    stratum, code = cell // line.N_CODES, cell % line.N_CODES
    is_hazard = draws[1] < params.chance[stratum, code]
    zero, one = jnp.float32(0.0), jnp.float32(1.0)
    return State(
        problem=jnp.where(is_hazard, HAZARD, HARMLESS).astype(jnp.int32),
        code=code.astype(jnp.int32),
        stratum=stratum.astype(jnp.int32),
        n_created=one,
        n_open=one,
        recurrent=one,
        zip_freq=1.0 + 24.0 * params.zip_rate[stratum] * -jnp.log(jnp.maximum(draws[2], 1e-6)),
        since_resolution=-7 * 24 * jnp.log(jnp.maximum(draws[3], 1e-6)),
        since_report=zero,
        is_counted=jnp.zeros((), bool),
        order=jnp.int32(0),
        tokens=one,
        hour=(draws[4] * 168).astype(jnp.int32),
        n_steps=jnp.int32(0),
        is_new=jnp.ones((), bool),
    )


def is_office_hour(hour: jax.Array) -> jax.Array:
    """Whether inspectors are out: weekdays from 8 to 17 h."""
    return (hour < 5 * 24) & (hour % 24 >= 8) & (hour % 24 < 17)


class Visit(NamedTuple):
    """What one hour's visit did, () each."""

    happens: jax.Array
    cost: jax.Array
    found: jax.Array
    """a hazard, for the first time or not"""
    is_correct: jax.Array
    """for the first time, within its service level"""
    closes: jax.Array
    outcome: jax.Array


def visit_site(params: Params, state: State, action: jax.Array, chance: jax.Array) -> Visit:
    """Send whoever was ordered and has time; an escalation goes at once."""
    order = jnp.where(action == INSPECT_NOW, 1, jnp.where(action == BATCH, 2, state.order))
    escalates = (action == ESCALATE) & (state.n_open > 0)
    works = is_office_hour(state.hour) & (state.n_open > 0)
    goes = works & (order == 1) & (state.tokens >= 1.0)
    joins = works & (order == 2) & (state.hour % 24 == BATCH_HOUR) & (state.tokens >= SHARED_TIME)
    happens = escalates | goes | joins
    cost = jnp.where(escalates, ESCALATION_COST, jnp.where(goes, 1.0, SHARED_TIME))
    access = jnp.where(escalates, ESCALATED_ACCESS, params.access[state.stratum])
    gets_in = chance < access
    found = happens & gets_in & (state.problem == HAZARD)
    in_time = state.since_report <= jnp.asarray(LEVELS_HOURS)[state.code]
    outcome = jnp.where(found, VIOLATION, jnp.where(gets_in, NO_VIOLATION, NO_ACCESS))
    return Visit(
        happens=happens,
        cost=jnp.where(happens, cost, 0.0),
        found=found,
        is_correct=found & in_time & ~state.is_counted,
        closes=happens & gets_in,
        outcome=outcome,
    )


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Do one thing about the site, let an hour pass, take in what is reported."""
    del prices
    draws = jax.random.uniform(key, (8,))
    stratum = state.stratum
    visit = visit_site(params, state, action, draws[0])
    ignores = (action == IGNORE) & ~visit.happens
    closes = visit.closes | ignores
    n_closed = jnp.where(closes, state.n_open, 0.0)
    problem = jnp.where(visit.found, NONE, state.problem)
    # What is left to itself ends some day; a site that had one incident has another some day.
    ends = (problem != NONE) & (draws[1] < 1.0 / params.lifetime_hours)
    begins = (problem == NONE) & (draws[1] < params.incident_rate)
    worsens = (problem == HAZARD) & (draws[2] < params.worsening)
    code = jnp.where(worsens, jnp.maximum(state.code - 1, 0), state.code)
    likely = params.chance[stratum, state.code]
    fresh = jnp.where(draws[3] < likely, HAZARD, HARMLESS)
    problem = jnp.where(ends, NONE, jnp.where(begins, fresh, problem)).astype(jnp.int32)
    created = ((problem != NONE) & (draws[4] < params.report_rate[stratum])).astype(jnp.float32)
    n_open = state.n_open - n_closed + created
    near = line.poisson(draws[5], params.zip_rate[stratum], 3)
    # A delay, an answer or a joint trip ends the order; a visit without access keeps it.
    order = jnp.where(action == INSPECT_NOW, 1, jnp.where(action == BATCH, 2, state.order))
    order = jnp.where(closes | (action == DELAY), 0, order).astype(jnp.int32)
    used = jnp.where(action == ESCALATE, 0.0, visit.cost)
    refill = params.visits_per_hour * jnp.where(is_office_hour(state.hour), 168.0 / 45.0, 0.0)
    moved = State(
        problem=problem,
        code=code.astype(jnp.int32),
        stratum=stratum,
        n_created=created,
        n_open=n_open,
        recurrent=state.recurrent * np.float32(np.exp(-1 / 168)) + created,
        zip_freq=state.zip_freq * np.float32(np.exp(-1 / 24)) + near + created,
        since_resolution=jnp.where(closes, 0.0, state.since_resolution + 1.0),
        since_report=jnp.where(begins | (n_open == 0), 0.0, state.since_report + 1.0),
        is_counted=jnp.where(begins, False, state.is_counted | visit.found),
        order=order,
        tokens=jnp.minimum(state.tokens - used + refill, MOST_TOKENS),
        hour=(state.hour + 1) % 168,
        n_steps=state.n_steps + 1,
        is_new=jnp.zeros((), bool),
    )
    return Transition(
        state=moved,
        reward=_reward_of(params, state, visit),
        terminated=jnp.zeros((), bool),
        credit=_here(stratum, visit.is_correct),
        tally=_count(params, state, moved, visit, n_closed, begins, created),
    )


def _here(stratum: jax.Array, value: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(N_STRATA) == stratum, value, 0).astype(jnp.float32)


def _reward_of(params: Params, state: State, visit: Visit) -> jax.Array:
    """What the visit saved: severity-weighted days to the end of the week, less its time."""
    left = jnp.maximum(MAX_STEPS - state.n_steps, 0).astype(jnp.float32)
    life = params.lifetime_hours
    hours = life * (1.0 - jnp.exp(-left / life))
    weight = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)[state.code]
    return _scale(jnp.where(visit.found, weight * hours / HOURS, 0.0), visit.cost)


def _count(
    params: Params,
    before: State,
    after: State,
    visit: Visit,
    n_closed: jax.Array,
    begins: jax.Array,
    created: jax.Array,
) -> Tally:
    """The hour's counts; the site's first complaint counts with its first hour."""
    stratum = before.stratum
    burden = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)[after.code] / HOURS
    burden = jnp.where(after.problem == HAZARD, burden, 0.0)
    was_there = before.is_new & (before.problem == HAZARD)
    hazards = was_there.astype(jnp.float32) + (begins & (after.problem == HAZARD))
    incidents = before.is_new.astype(jnp.float32) + begins
    correct = _here(stratum, visit.is_correct)
    outcome = jnp.where(visit.closes, visit.outcome, NOT_VISITED)
    return Tally(
        published_reward=_scale(-burden, visit.cost),
        correct=correct,
        counted=correct,
        actionable=_here(stratum, hazards * (1.0 + params.unreported[stratum])),
        incidents=_here(stratum, incidents * (1.0 + params.hidden_incidents[stratum])),
        reported_actionable=_here(stratum, hazards),
        complaints=_here(stratum, created + before.is_new),
        visits=_here(stratum, visit.happens),
        hours=visit.cost,
        outcomes=jnp.where(jnp.arange(len(OUTCOME_NAMES)) == outcome, n_closed, 0.0),
    )


def _scale(days: jax.Array, hours: jax.Array) -> jax.Array:
    """Reward vector; retention is zero: a scaffold stands on the street, not in a dwelling."""
    none = jnp.zeros((), jnp.float32)
    return jnp.stack([days / SPEED_UNIT, -hours / COST_UNIT, none, none])


def observe(params: Params, state: State) -> jax.Array:
    """The five published features, scaled; then code, inspector, order and clock."""
    usual = 1.0 + 24.0 * params.zip_rate[state.stratum]
    values = [
        state.n_created,
        jnp.minimum(state.n_open, 5.0) / 5.0,
        jnp.minimum(state.recurrent, 5.0) / 5.0,
        jnp.minimum(state.zip_freq / usual, 5.0) / 5.0,
        jnp.minimum(state.since_resolution / 168.0, 3.0) / 3.0,
        jnp.where(state.n_open > 0, 1.0 - state.code / 3.0, 0.0),
        state.tokens / MOST_TOKENS,
        (state.order > 0).astype(jnp.float32),
        is_office_hour(state.hour).astype(jnp.float32),
        1.0 - state.n_steps / MAX_STEPS,
    ]
    return jnp.stack(values).astype(jnp.float32)


def make_rule(bar: float, price_gain: float = 0.0, batch_bar: float = -9.0) -> backlog_rules.Maker:
    """Maker: inspect an open site whose severity and recurrence exceed a bar, batch the others.

    The coverage price of the site's stratum counts like severity, `price_gain` for a unit.
    """

    def make(params: Params, harness: Harness) -> Policy:
        del params
        score = {"severity": 1.0, "recurrent_7d": 0.5, "open_count": 1.0}
        score["coverage_price"] = price_gain / 2.0
        weights = {(name, "inspect_now"): 2.0 * weight for name, weight in score.items()}
        weights |= {(name, "batch"): weight for name, weight in score.items()}
        bars = {"inspect_now": -bar - max(batch_bar, 0.0), "batch": -batch_bar, "delay": 0.0}
        return linear_choice(harness, weights, bars)

    return make


def make_expert(params: Params, harness: Harness) -> Policy:
    """Escalate what is graver than code B, put the rest on the next joint trip."""
    del params
    weights = {("severity", "escalate"): 2.0, ("open_count", "batch"): 1.0}
    return linear_choice(harness, weights, {"escalate": -1.5, "batch": 0.0, "delay": 0.05})


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Each action for ever, bars on severity and recurrence, and rules around them."""
    found = [play_action(name, name)(params, harness) for name in ACTION_NAMES]
    rng = np.random.default_rng(0)
    for bar in (0.3, 0.6, 0.9, 1.2):
        for batch_bar in (0.1, 0.5):
            rule = make_rule(bar, 0.0, batch_bar)(params, harness)
            assert isinstance(rule, backlog_rules.LinearChoice)
            found += backlog_rules.perturbed_choices(rule, 3, 0.2, rng)
    return [*found, make_expert(params, harness)]


def example() -> Params:
    """Sites by hand: five strata that report 35 to 73 % of equal hazards; visits for half.

    A third of the complaints are about a hazard, and a hazard rises by a code in twenty days.
    """
    reported = np.array([0.354, 0.42, 0.50, 0.60, 0.729, 0.5])
    share = np.append(reported[:5], 0.0)
    first = np.outer(share, PROCESS.hazard.code_shares)
    return make_site_params(
        first,
        np.tile([0.55, 0.38, 0.24, 0.15], (N_STRATA, 1)),
        reported,
        lifetime_days=20.0,
        report_rate=0.1 * reported / 0.5,
        incidents_per_site_day=0.02,
        zip_per_day=np.full(N_STRATA, 0.2),
        access=np.full(N_STRATA, 0.9),
        visits_per_case=0.5,
        hidden_incidents=1.0 / reported - 1.0,
        sites_per_day=10.0,
        max_steps=MAX_STEPS,
        worsening_per_day=0.05,
    )


LAYOUT = site_layout("scaffold", MAX_STEPS, PROCESS.hazard.lifetime_days)


def estimate(records: Records, calibration: Any, date_to: date) -> Params:
    """Sites as the agency could know them before `date_to`.

    Worsening is left out: the records give a case one code and never another.
    """
    found = backlog_estimate.estimate_backlog(records, calibration, date_to, LAYOUT)
    cases = read_cases(records, "scaffold", records.window[0], date_to)
    return site_params_from(records, found, cases, MAX_STEPS)


def truth(city: str | Path, date_from: date) -> Params:
    """Sites as they really were from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    found = backlog_estimate.true_backlog(records, happened, date_from, LAYOUT)
    cases = read_cases(records, "scaffold", date_from, records.window[1])
    return site_params_from(records, found, cases, MAX_STEPS)


DOMAIN = Domain(
    slug="scaffold",
    title="Scaffolds and sidewalk sheds",
    version=3,
    decision="For each site and hour: inspect_now, delay, batch, escalate or ignore.",
    who_waits="Whoever walks or lives under it.",
    not_for="Releasing a scaffold for use.",
    source="DOB complaints of codes 23, 24, 1E and 70, 2017-2026.",
    process=PROCESS,
    actions=(
        Action("inspect_now", escalates=True, cost_hours=1.0),
        Action("delay", escalates=False, cost_hours=0.0),
        Action("batch", escalates=True, cost_hours=SHARED_TIME),
        Action("escalate", escalates=True, cost_hours=ESCALATION_COST),
        Action("ignore", escalates=False, cost_hours=0.0),
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": OBSERVATION_NAMES[:5], "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    geographic_features=("zip_freq_24h",),
    outcome_names=OUTCOME_NAMES,
    max_steps=MAX_STEPS,
    protocol=Protocol(
        split="train January 2020-2024, validation 2024-2025, backtest 2025-March 2026; "
        "support-constrained (support_min_count = 1)",
        episode="hours of one site; their number is not given, ours is a week",
    ),
    ceiling="best known: the best of constant actions and of 33 rules on severity and recurrence",
    agents=("dqn", "reinforce", "bc"),
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64), "learning_rate": 3e-4}},
    preference=(0.6, 0.4, 0.0, 0.0),
    price_step=0.01,
    explainer="exact",
    heuristics={
        # Today's rule: everything goes to the inspectors, who come when they have time.
        "balanced": play_action("inspect_now", "inspect_now"),
        "always": play_action("inspect_now", "inspect_now"),
        "batch_all": play_action("batch", "batch"),
        "emerg": play_action("escalate", "escalate"),
        "never": play_action("ignore", "ignore"),
        "no_dispatch": play_action("delay", "delay"),
        "random": backlog_rules.play_at_random(),
        "score": make_rule(0.6),
        "index": make_rule(0.6, batch_bar=0.3),
        "expert": make_expert,
        "dual_threshold": make_rule(0.6, price_gain=1.0),
    },
    dynamics=Dynamics(
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        current_stratum=lambda params, state: state.stratum,
        need_per_step=lambda params: need_per_site(params, MAX_STEPS),
        steps_per_day=lambda params: jnp.float32(HOURS),
        example=example,
        estimate=estimate,
        truth=truth,
        # The first complaint is taken in with the first hour.
        n_waiting=lambda state: state.n_open - state.is_new,
        capacity_per_step=lambda params: jnp.float32(1.0),
        candidates=candidates,
    ),
)
