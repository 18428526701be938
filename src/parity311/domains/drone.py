"""Drones over roofs and facades: from which depot the next drone starts.

What is decided: one of five depots, a borough each. Who waits: residents and passers-by under a
loose wall or roof. Source: no public data set exists for it; the process is that of DOB complaints
a drone could see from above (codes 30, 10, 54). Not for: watching people, or entering by air what
needs consent on the ground.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier as settle

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
from parity311.mdp.backlog_dynamics import backlog_dynamics, true_params
from parity311.mdp.backlog_params import example_backlog
from parity311.mdp.backlog_records import addresses_by_place
from parity311.mdp.backlog_rules import linear_choice, play_action
from parity311.mdp.backlog_step import count_step, draw_step, pass_step, scale_reward, weigh_cases
from parity311.mdp.contract import (
    Action,
    Domain,
    Policy,
    Protocol,
    Transition,
)
from parity311.mdp.harness import Harness
from parity311.records.schema import BOROUGHS
from parity311.records.store import Records, open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("30", "shaking or structural stability", 0.7295, 1.6, 0.623, 0.0898, 0.021, 0.021),
    Category("10", "falling or in danger of falling", 0.1736, 1.6, 0.517, 0.0516, 0.035, 0.035,
             lifetime_factor=0.667, rate_factor=1.5),
    Category("54", "bulging or cracked wall", 0.0969, 0.4, 0.672, 0.0864, 0.036, 0.036,
             lifetime_factor=3.333, rate_factor=0.3),
)
# fmt: on

PROCESS = dob_process(
    slug="drone",
    categories=_CATEGORIES,
    complaints=by_year(2017, 5_500, 5_600, 5_800, 4_900, 5_200, 5_300, 5_700, 5_500, 5_200, 5_400),
    complaints_per_incident=0.504,
    places=Places(
        exposure_power=0.35,
        exposure_offset=-1.0,
        borough_shares=(0.14, 0.39, 0.21, 0.22, 0.04),
        tract_sd=0.35,
        building_sd=1.0,
        year_sd=0.4,
    ),
    hazard=dob_hazard(60.0, (0.55, 0.30, 0.10, 0.05)),
    reporting=dob_reporting(0.0125, 0.85),
    service=dob_service(
        1.25,
        (Delay(0.4, 1.0), Delay(2.0, 1.5), Delay(5.0, 1.5), Delay(8.0, 1.5)),
    ),
    flags=(Flag("is_over_sidewalk", 0.35, 0.8), Flag("has_fallen_debris", 0.12, 1.2)),
    sources={
        "volume": "code 30: 25,127 in 77 months (michaelzoorob/dob-complaints-analysis, 783,289 "
        "complaints of 2020-01 to 2026-05); codes 10 and 54 assumed",
        "service.leads": "assumed: emergencies within a day",
    },
)


DEPOTS = tuple(name.lower().replace(" ", "_") for name in BOROUGHS)
N_DEPOTS = len(DEPOTS)

SHAPE = line.Shape(steps_per_day=4, bin_steps=4, n_ages=8, max_steps=112, most_arrivals=6)
"""Four deployments a day for four weeks (assumed); ages in days, the last open from a week on; the
busiest borough expects one case of one code between two deployments."""

SEVERITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What one day unresolved weighs by severity code A to D: a norm, stated, not estimated."""
UNITS = (60.0, 1.0)
"""Severity-weighted days that a typical correct escalation saves (two visits of weight 2.5, each
two weeks before the end of the episode), and deployments it takes."""

CHANGEOVER_LOST = 0.25
"""Share of a deployment that is lost by moving the drone to another depot (assumed)."""
SWEEP = 20.0
"""Addresses a drone passes over on the way, for each address it is sent to (assumed: a block)."""
FRESH_DAYS = 28.0
"""Days after which a roof that was flown over may have changed (assumed: a month)."""
TRAIL_FLIGHTS = 12.0
"""Deployments over which trailing statistics forget: three days."""
PRICE_GAIN = 1.0
"""Log worth that one unit of coverage price adds to a deployment."""

ACTION_NAMES = (*DEPOTS, "COVERAGE_PRICED", "NO_FLIGHT")
_PRICED, _NONE = N_DEPOTS, N_DEPOTS + 1


class Params(NamedTuple):
    """The boroughs' backlog and the drone."""

    backlog: line.BacklogParams
    addresses_per_flight: jax.Array
    """() complaints a deployment can look at where the drone stays"""
    typical: jax.Array
    """() cases waiting at a typical start: the unit of what is observed"""


class State(NamedTuple):
    """The backlog, the drone, and what the last deployments were like."""

    backlog: line.Backlog
    depot: jax.Array
    """() int32 where the drone is"""
    fresh: jax.Array
    """(5,) share of a borough's addresses not flown over lately: its rate of new addresses"""
    trail: jax.Array
    """(2, 5) flights and finds by borough, forgetting with three days"""


def initial_state(key: jax.Array, params: Params) -> State:
    """A recorded backlog, the drone at any depot, part of each borough flown over."""
    chance = jax.random.uniform(key, (2 + N_DEPOTS,))
    backlog, _ = line.start(params.backlog, chance[0])
    depot = (chance[1] * N_DEPOTS).astype(jnp.int32)
    trail = jnp.full((2, N_DEPOTS), 1.0 / N_DEPOTS, jnp.float32)
    return settle(State(backlog, depot, 0.5 + 0.5 * chance[2:], trail))


def flight_size(params: Params, state: State) -> jax.Array:
    """Addresses a deployment reaches from each depot, (5,): fewer after moving."""
    stays = jnp.arange(N_DEPOTS) == state.depot
    return params.addresses_per_flight * jnp.where(stays, 1.0, 1.0 - CHANGEOVER_LOST)


def discovery_rate(params: Params, state: State) -> jax.Array:
    """Hazards nobody reported that a deployment finds per address it is sent to, (5,)."""
    density = state.backlog.hidden.sum(axis=1) / jnp.maximum(params.backlog.n_addresses, 1.0)
    return jnp.minimum(SWEEP * density * state.fresh, 1.0)


def _weights() -> jax.Array:
    return jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)


def forecast_savings(params: Params, state: State) -> jax.Array:
    """Severity-weighted days that a deployment from each depot would save, (5,)."""
    ahead, _ = line.steps_ahead(params.backlog, state.backlog.n_steps, SHAPE)
    life = line.life_ahead(params.backlog, state.backlog.n_steps, SHAPE)
    worth = _weights()[:, None] * ahead / SHAPE.steps_per_day
    size = flight_size(params, state)
    cells = state.backlog.waiting
    taken = jnp.clip(
        size[:, None] - cells @ line.comes_first(jnp.asarray(SHAPE.code_then_age)), 0.0, cells
    )
    hidden = state.backlog.hidden
    weight = hidden @ _weights() / jnp.maximum(hidden.sum(axis=1), 1e-6)
    return taken @ worth.reshape(-1) + size * discovery_rate(params, state) * weight * life


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Fly from one depot, let six hours pass, take in what is reported."""
    own, before = params.backlog, state.backlog
    draws = draw_step(key, N_DEPOTS, 1)
    price = jnp.exp(PRICE_GAIN * line.place_prices(own, prices))
    priced = jnp.argmax(forecast_savings(params, state) * price)
    depot = jnp.where(action == _PRICED, priced, jnp.minimum(action, N_DEPOTS - 1))
    depot = jnp.where(action == _NONE, state.depot, depot).astype(jnp.int32)
    flies = (action != _NONE).astype(jnp.float32)
    here = (jnp.arange(N_DEPOTS) == depot).astype(jnp.float32) * flies
    size = line.rounded(here @ flight_size(params, state), draws.own[0])
    order = jnp.asarray(SHAPE.code_then_age)
    visited = here[:, None] * line.take_in_order(here @ before.waiting, order, size)
    stepped = pass_step(own, before, visited, draws, SHAPE)
    share = here * size * discovery_rate(params, state)
    share = share / jnp.maximum(before.hidden.sum(axis=1), 1e-6)
    found = jnp.minimum(before.hidden * share[:, None], stepped.backlog.hidden)
    discovered = found.sum(axis=1) @ own.unreported_mix
    # A find that nobody reported is a visit of its own: the drone turns and looks.
    stepped = stepped._replace(
        backlog=stepped.backlog._replace(hidden=stepped.backlog.hidden - found),
        correct=stepped.correct + discovered,
        visits=stepped.visits + discovered,
    )
    flown = jnp.minimum(here * size * SWEEP / jnp.maximum(own.n_addresses, 1.0), 1.0)
    fresh = state.fresh * (1.0 - flown)
    fresh = fresh + (1.0 - fresh) / (FRESH_DAYS * SHAPE.steps_per_day)
    finds = here * (stepped.service.found.sum() + found.sum()) / jnp.maximum(size, 1.0)
    trail = state.trail + (jnp.stack([here, finds]) - state.trail) / TRAIL_FLIGHTS
    ahead, _ = line.steps_ahead(own, before.n_steps, SHAPE)
    saved = weigh_cases(stepped.service.closed, SEVERITY_WEIGHTS, ahead / SHAPE.steps_per_day)
    life = line.life_ahead(own, before.n_steps, SHAPE)
    saved += weigh_cases(found, SEVERITY_WEIGHTS, life[None])
    published = scale_reward(-burden_of(stepped.backlog), flies, UNITS)
    return Transition(
        state=State(stepped.backlog, depot, fresh, trail),
        # Retention is zero: a loose facade is over the street, not in a dwelling.
        reward=scale_reward(saved, flies, UNITS),
        terminated=jnp.zeros((), bool),
        credit=stepped.correct,
        tally=count_step(stepped, published, flies),
    )


def burden_of(backlog: line.Backlog) -> jax.Array:
    """Severity-weighted days of one step: cases in line, and hazards nobody reported."""
    step = jnp.full(1, 1.0 / SHAPE.steps_per_day)
    in_line = weigh_cases(backlog.waiting, SEVERITY_WEIGHTS, jnp.tile(step, SHAPE.n_ages))
    return in_line + weigh_cases(backlog.hidden, SEVERITY_WEIGHTS, step)


def _by_depot(name: str) -> tuple[str, ...]:
    return tuple(f"{name}_{depot}" for depot in DEPOTS)


PUBLISHED_NAMES = (
    *_by_depot("at"),
    *_by_depot("new_address_rate"),
    *_by_depot("trailing_flights"),
    *_by_depot("trailing_finds"),
)
OBSERVATION_NAMES = (
    *PUBLISHED_NAMES,
    *_by_depot("backlog"),
    *_by_depot("open_a"),
    *_by_depot("saving"),
    "time_left",
)


def observe(params: Params, state: State) -> jax.Array:
    """Where the drone is, new addresses and trails; then backlog and forecast by borough."""
    cells = state.backlog.waiting
    scale = N_DEPOTS / params.typical
    saving = forecast_savings(params, state)
    parts = [
        (jnp.arange(N_DEPOTS) == state.depot).astype(jnp.float32),
        state.fresh,
        state.trail[0],
        state.trail[1],
        cells.sum(axis=1) * scale,
        cells[:, : SHAPE.n_ages].sum(axis=1) * scale,
        saving / jnp.maximum(saving.max(), 1e-6),
        1.0 - state.backlog.n_steps[None] / SHAPE.max_steps,
    ]
    return jnp.concatenate(parts).astype(jnp.float32)


def make_choice(
    prefix: str, sign: float, otherwise: str = "new_address_rate"
) -> backlog_rules.Maker:
    """Maker of the rule that flies where a feature is largest (or smallest, with sign -1)."""

    def make(params: Params, harness: Harness) -> Policy:
        del params
        seen = f"{prefix}_{DEPOTS[0]}" in harness.observation_names
        name, factor = (prefix, sign) if seen else ("new_address_rate", 1.0)
        return linear_choice(harness, {(f"{name}_{depot}", depot): factor for depot in DEPOTS})

    return make


def make_dual(params: Params, harness: Harness) -> Policy:
    """Priced dispatch where there is one, else the index."""
    if "COVERAGE_PRICED" in backlog_rules.action_names(harness):
        return play_action("COVERAGE_PRICED", "COVERAGE_PRICED")(params, harness)
    return make_choice("saving", 1.0)(params, harness)


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Each depot for ever, every rule, and rules around the index."""
    found = [play_action(name, name)(params, harness) for name in DEPOTS]
    rules = (
        ("backlog", 1.0),
        ("open_a", 1.0),
        ("new_address_rate", 1.0),
        ("trailing_flights", -1.0),
    )
    found += [make_choice(name, sign)(params, harness) for name, sign in rules]
    index = make_choice("saving", 1.0)(params, harness)
    assert isinstance(index, backlog_rules.LinearChoice)
    return found + backlog_rules.perturbed_choices(index, 30, 0.1, np.random.default_rng(0))


def make_params(backlog: line.BacklogParams, visits_per_day: float) -> Params:
    """Params with so many visits a day; a drone needs nobody to open the door."""
    waiting = float(np.asarray(backlog.start_waiting).sum(axis=(1, 2)).mean())
    return Params(
        backlog._replace(access=jnp.ones(N_DEPOTS), returns=jnp.float32(0.0)),
        jnp.float32(visits_per_day / SHAPE.steps_per_day),
        jnp.float32(max(waiting, 1.0)),
    )


def example() -> Params:
    """Five boroughs by hand, a stratum each, that report 35 to 73 % of equal hazards.

    Fifteen cases a day, a third of them actionable, flights for four fifths of them.
    """
    backlog = example_backlog(
        PROCESS,
        SHAPE,
        np.arange(N_DEPOTS),
        np.ones(N_DEPOTS),
        cases_per_day=15.0,
        chance=np.array([0.42, 0.34, 0.26, 0.18]),
        days_waiting=np.append(np.full(SHAPE.n_ages - 1, 0.3), 1.5),
        access=1.0,
        returns=0.0,
        repeats_per_day=0.02,
        n_addresses=20_000.0,
    )
    return make_params(backlog, 12.0)


def layout_of(records: Records) -> backlog_estimate.Layout:
    """A place is a borough; a drone looks at all its buildings."""
    n_addresses = np.ones(N_DEPOTS)
    for (_, borough, _), n in addresses_by_place(records).items():
        n_addresses[borough] += n
    return backlog_estimate.Layout(
        "drone",
        N_DEPOTS,
        lambda located: located.borough.astype(np.int64),
        SHAPE,
        n_addresses,
        PROCESS.hazard.lifetime_days,
    )


def truth(city: str | Path, date_from: date) -> Params:
    """The boroughs as they really were from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    return true_params(records, happened, date_from, layout_of, make_params)


DOMAIN = Domain(
    slug="drone",
    title="Drones over roofs and facades",
    version=2,
    decision="For each deployment: one of five depots.",
    who_waits="Residents and passers-by under a loose wall or roof.",
    not_for="Watching people, or replacing consent to enter.",
    source="No public source: DOB complaints of hazards visible from above stand in.",
    process=PROCESS,
    actions=tuple(Action(name, escalates=True, cost_hours=1.0) for name in DEPOTS),
    extended_actions=(
        Action("COVERAGE_PRICED", escalates=True, cost_hours=1.0),
        Action("NO_FLIGHT", escalates=False, cost_hours=0.0),
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": PUBLISHED_NAMES, "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    geographic_features=OBSERVATION_NAMES[:-1],
    outcome_names=line.OUTCOME_NAMES,
    max_steps=SHAPE.max_steps,
    protocol=Protocol(
        split="train 2020-2024, test 2025",
        episode="deployments; their number is not given, ours is 112 in four weeks",
        claims="DQN and REINFORCE settle on the same policy: Brooklyn",
    ),
    ceiling="best known: the best of all depots and rules and of 31 around the index",
    agents=("dqn", "reinforce"),
    agent_settings={"dqn": {"discount": 0.8, "hidden": (64, 64)}},
    # A deployment costs the same from every depot: where it goes is the question.
    preference=(0.9, 0.1, 0.0, 0.0),
    price_step=0.01,
    explainer="permutation",
    heuristics={
        "balanced": make_choice("open_a", 1.0),
        "brooklyn": play_action("brooklyn", "brooklyn"),
        "tail": make_choice("backlog", 1.0),
        "never": play_action("NO_FLIGHT", "staten_island"),
        "no_dispatch": play_action("NO_FLIGHT", "staten_island"),
        "random": backlog_rules.play_at_random("NO_FLIGHT"),
        "uniform": make_choice("trailing_flights", -1.0),
        "score": make_choice("saving", 1.0),
        "index": make_choice("saving", 1.0),
        "expert": make_choice("new_address_rate", 1.0),
        "dual_threshold": make_dual,
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
        # Each address it is sent to can bring at most one find beside it.
        capacity_per_step=lambda params: 2.0 * jnp.ceil(params.addresses_per_flight),
        candidates=candidates,
    ),
)
