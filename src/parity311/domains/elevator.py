"""Elevators: where the crews go in the next four hours.

What is decided: for each community board, which queue is worked first (oldest, gravest, likeliest
to be actionable, or a balance). Who waits: residents without an elevator, above all those who
cannot take the stairs. Source: DOB elevator complaints, 103,598 in 2020-2025. Not for: certifying
that a device is safe.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

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
from parity311.mdp import backlog_estimate
from parity311.mdp.backlog_crews import Orders, send_crews
from parity311.mdp.backlog_dynamics import backlog_dynamics, true_params
from parity311.mdp.backlog_params import example_backlog
from parity311.mdp.backlog_records import addresses_by_place
from parity311.mdp.backlog_rules import (
    LinearChoice,
    action_names,
    linear_choice,
    perturbed_choices,
    play_action,
    play_at_random,
)
from parity311.mdp.backlog_step import count_step, draw_step, pass_step, scale_reward
from parity311.mdp.contract import Action, Domain, Policy, Protocol, Transition
from parity311.mdp.harness import Harness
from parity311.records.store import Records, open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("6S", "single device, no alternate service", 0.4155, 0.4, 0.615, 0.0065, 0.139, 0.06),
    Category("6M", "multiple devices", 0.252, -0.5, 0.562, 0.006, 0.187, 0.08),
    Category("63", "defective or inoperative", 0.1895, 0.4, 0.601, 0.0089, 0.156, 0.067),
    Category("62", "dangerous condition or open shaft", 0.0494, 1.6, 0.682, 0.0069, 0.041, 0.018,
             lifetime_factor=0.375, rate_factor=2.667),
    Category("80", "not inspected or without permit", 0.0745, -1.3, 0.567, 0.0157, 0.119, 0.051,
             lifetime_factor=2.0, rate_factor=0.5),
    Category("81", "accident", 0.00951, 1.6, 0.523, 0.0095, 0.004, 0.002,
             lifetime_factor=0.167, rate_factor=6.0),
    Category("13", "not ready for the fire department", 0.0096, 1.6, 0.437, 0.0039, 0.092, 0.039),
)
# fmt: on

PROCESS = dob_process(
    slug="elevator",
    categories=_CATEGORIES,
    complaints=by_year(
        2017, 13_212, 15_067, 14_491, 14_000, 14_900, 16_200, 17_900, 19_500, 21_098, 25_000
    ),
    complaints_per_incident=0.716,
    places=Places(
        exposure="elevators",
        exposure_power=0.8,
        tract_sd=0.3,
        building_sd=1.1,
        year_sd=0.4,
        slopes={"median_income": -0.15},
    ),
    hazard=dob_hazard(120.0, (0.06, 0.30, 0.49, 0.15), hazard_slope=1.1),
    reporting=dob_reporting(0.0110, 0.1, units_power=0.10, reference_units=80.0),
    service=dob_service(
        0.80,
        (Delay(0.3, 0.8), Delay(2.4, 1.65), Delay(5.5, 1.75), Delay(8.0, 1.75)),
        intake=Delay(1.0, 1.5),
        retry=Delay(10.0, 0.6),
        doors={},
        writing=0.95,
    ),
    flags=(Flag("is_entrapment", 0.06, 1.2), Flag("has_no_other_device", 0.50, 0.5)),
    sources={
        "volume": "DOB elevator complaints: 103,598 in 2020-2025 (the paper); years apportioned "
        "on 311 counts of 2017-2021 and 25.6 thousand in the twelve months to October 2026",
        "service.leads": "fitted so that closing days come out at 0.7, 5.3, 19.1, 105 (quartiles "
        "and p90, Steveelorm80/analytics, 67 rows)",
        "reporting.zero_inflation": "fitted so that what is neither violation, none nor no access "
        "of 6S and 6M comes out",
        "hazard.code_shares": "prototype of the elevator domain: 6, 30, 49 and 15 % by code",
    },
)


BOARDS = tuple(
    100 * borough + board
    for borough, n_boards in enumerate((12, 12, 18, 14, 3), start=1)
    for board in range(1, n_boards + 1)
)
"""The 59 community boards: borough digit × 100 + board, Manhattan first."""

SHAPE = line.Shape(steps_per_day=6, bin_steps=12, n_ages=16, max_steps=168, most_arrivals=5)
"""Four weeks of four-hour steps (the paper); ages in sixteen bins of two days, the last open over
thirty days; the busiest board expects a quarter of a case of one code in a step."""
N_AGES = SHAPE.n_ages

SEVERITY_WEIGHTS = (2.0, 0.6, 0.25, 0.05)
"""Weight of an open case of code A to D in S, the severity-weighted backlog (prototype)."""
UNITS = (1000.0, 4.0)
"""Points of A30 + 2 S in one unit of speed (a visit then saves about 0.1), and crew hours in one
of cost: what a typical correct escalation takes, at six visits in four hours, one in six correct.
"""

N_CREWS = 6
NIGHT_CREWS = 2
"""Inspectors on weekdays from 8 to 16 h, and at all other times (prototype)."""
MOST_AT_BOARD = 4
VISITS_PER_STEP = 6.0
CHANGEOVER_LOST = 1.0 / 6.0
"""Share of the visits a crew loses by changing its board: an assumption that decides much of the
result, so results are shown at 0, 1/6 and 1/3."""
DAY_BONUS = 0.05
"""What INDEX_TAIL adds for a case in its last days before the thirtieth, in units of the largest
saving (the prototype's bonus near day 30)."""
PRICE_GAIN = 1.0
"""Log worth that one unit of coverage price adds to a load."""

MODES = (
    "TAIL", "EMERG", "ACTIONABLE", "BALANCED",
    "INDEX", "INDEX_NEAR", "INDEX_TAIL", "BALANCED_NEAR", "COVERAGE_PRICED", "CANVASS",
    "UNIFORM", "RANDOM_BOARDS", "NO_DISPATCH",
)  # fmt: skip
"""The paper's four, then ours. NEAR minds the way: a place is judged by the visits that are left
after going there. CANVASS sends the first crew where the coverage price is highest."""
N_PUBLISHED = 4
_OF = {name: number for number, name in enumerate(MODES)}
_NEAR = np.array([name in MODES[5:10] for name in MODES])
_FORECAST = MODES[:5]
"""Modes whose saving is forecast: one for each order in which cases are served."""


def _worth_tables() -> np.ndarray:
    """Worth of a visit by mode and cell, (13, 64); the index modes replace theirs at each step."""
    code = np.repeat(np.arange(line.N_CODES), N_AGES)
    age = np.tile(np.arange(N_AGES), line.N_CODES) / (N_AGES - 1)
    balanced = (3 - code + age) / 4.0
    tail = 0.9 * age + 0.1 * (3 - code) / 3.0
    tables = {
        "TAIL": np.where(age == 1.0, tail, 0.4 * tail),
        "EMERG": np.array(SEVERITY_WEIGHTS)[code] / SEVERITY_WEIGHTS[0] * (0.99 + 0.01 * age),
        "BALANCED": balanced,
        "BALANCED_NEAR": balanced,
        "UNIFORM": age,
        "RANDOM_BOARDS": balanced,
    }
    none = np.zeros(line.N_CODES * N_AGES)
    return np.stack([tables.get(name, none) for name in MODES]).astype(np.float32)


WORTH = _worth_tables()


class Params(NamedTuple):
    """The boards' backlog and the crews."""

    backlog: line.BacklogParams
    visits: jax.Array
    """(2,) visits of a crew in four hours where it stays, and after moving"""
    typical: jax.Array
    """() cases waiting at a typical start: the unit of what is observed"""
    start_seen: jax.Array
    """(S, n_names) what is seen of each start"""
    saving: jax.Array
    """(1 + steps, 64) points of A30 + 2 S to the end of the episode that closing a case saves, by
    steps taken: kept, because an order compares every cell with every other"""


class State(NamedTuple):
    """The backlog, where the crews are, and what a policy sees of it."""

    backlog: line.Backlog
    crews: jax.Array
    """(6,) int32 number of the board each crew is in"""
    seen: jax.Array
    """(n_names,) kept, because a step's observation is read more often than it changes"""


def initial_state(key: jax.Array, params: Params) -> State:
    """A recorded backlog, the crews spread over the boards."""
    chance = jax.random.uniform(key, (1 + N_CREWS,))
    crews = (chance[1:] * len(BOARDS)).astype(jnp.int32)
    backlog, row = line.start(params.backlog, chance[0])
    return settle(State(backlog, crews, params.start_seen[row]))


def carry_on(params: Params, state: State) -> State:
    """The next episode where the line and the crews stay as they are."""
    backlog = line.carry_on(state.backlog)
    return settle(State(backlog, state.crews, look_at(params, backlog)))


def n_on_duty(slot: jax.Array) -> jax.Array:
    """Crews at work in a step of the week: all from 8 to 16 h on weekdays."""
    is_day = (slot < 30) & ((slot % 6 == 2) | (slot % 6 == 3))
    return jnp.where(is_day, N_CREWS, NIGHT_CREWS)


def canvasses(state: State, action: jax.Array) -> jax.Array:
    """Whether the first crew looks where nobody called: only while all crews are there."""
    return (action == _OF["CANVASS"]) & (n_on_duty(state.backlog.slot) == N_CREWS)


def saving_of_visits(params: Params, n_steps: jax.Array) -> jax.Array:
    """Points of A30 + 2 S to the end of the episode that closing a case saves, (64,)."""
    return params.saving[n_steps]


def savings_by_step(backlog: line.BacklogParams) -> jax.Array:
    """The same for every number of steps taken, (1 + steps, 64)."""
    ahead, late = jax.vmap(lambda n_steps: line.steps_ahead(backlog, n_steps, SHAPE))(
        jnp.arange(SHAPE.max_steps + 1)
    )
    weights = jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)[:, None]
    saved = 2.0 * weights * ahead[:, None] + late[:, None]
    return saved.reshape(SHAPE.max_steps + 1, -1)


def worth_by_mode(params: Params, saving: jax.Array) -> dict[str, jax.Array]:
    """Worth of a visit by cell between 0 and 1, (64,) for each mode."""
    index = saving / jnp.maximum(saving.max(), 1e-6)
    nearly = (np.tile(np.arange(N_AGES), line.N_CODES) == N_AGES - 2).astype(np.float32)
    code = params.backlog.chance.mean(axis=0)[:, None] * params.backlog.there
    rows = {name: jnp.asarray(WORTH[number]) for number, name in enumerate(MODES)}
    rows["ACTIONABLE"] = code.reshape(-1) / jnp.maximum(code.max(), 1e-6)
    rows["INDEX_TAIL"] = (index + DAY_BONUS * nearly) / (1 + DAY_BONUS)
    return rows | dict.fromkeys(("INDEX", "INDEX_NEAR", "COVERAGE_PRICED", "CANVASS"), index)


def make_orders(
    params: Params, state: State, action: jax.Array, prices: jax.Array, chance: jax.Array
) -> Orders:
    """Orders of one mode; `chance` (13,) is uniform: random boards, and whole visits."""
    saving = saving_of_visits(params, state.backlog.n_steps)
    worth = jnp.stack(list(worth_by_mode(params, saving).values()))[action]
    price = line.place_prices(params.backlog, prices)
    enforcement = params.backlog.chance.mean(axis=1)
    factor = jnp.where(action == _OF["ACTIONABLE"], enforcement, 1.0)
    is_priced = (action == _OF["COVERAGE_PRICED"]) | (action == _OF["CANVASS"])
    factor = jnp.where(is_priced, jnp.exp(PRICE_GAIN * price), factor)
    crew = jnp.arange(N_CREWS)
    works = (crew < n_on_duty(state.backlog.slot)) & (action != _OF["NO_DISPATCH"])
    works &= ~canvasses(state, action) | (crew > 0)
    visits = line.rounded(params.visits, chance[:N_CREWS, None]) * works[:, None]
    # A mode that does not mind the way judges every board by a crew that is already there.
    load = jnp.where(jnp.asarray(_NEAR)[action], params.visits, params.visits[0])
    in_turn = (state.backlog.n_steps * N_CREWS + crew) % len(BOARDS)
    at_random = (chance[N_CREWS : 2 * N_CREWS] * len(BOARDS)).astype(jnp.int32)
    fixed = jnp.where(action == _OF["UNIFORM"], in_turn, -1)
    fixed = jnp.where(action == _OF["RANDOM_BOARDS"], at_random, fixed)
    return Orders(worth, factor, visits, load, fixed, MOST_AT_BOARD)


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Send the crews by one mode, let four hours pass, take in what is reported."""
    before = state.backlog
    draws = draw_step(key, len(BOARDS), 2 * N_CREWS)
    orders = make_orders(params, state, action, prices, draws.own)
    saving = saving_of_visits(params, before.n_steps)
    sent = send_crews(before.waiting, state.crews, orders)
    dearest = jnp.argmax(line.place_prices(params.backlog, prices))
    looked = jnp.where(canvasses(state, action), params.visits[1], 0.0)
    canvassed = (jnp.arange(len(BOARDS)) == dearest, looked)
    stepped = pass_step(params.backlog, before, sent.visited, draws, SHAPE, canvassed)
    hours = jnp.float32(4.0) * n_on_duty(before.slot) * (action != _OF["NO_DISPATCH"])
    late, severe = measure(stepped.backlog)
    published = scale_reward(-(late + 2.0 * severe), hours, UNITS)
    seen = look_at(params, stepped.backlog)
    return Transition(
        state=State(stepped.backlog, sent.places, seen),
        # Retention is zero: a home without its elevator stays habitable.
        reward=scale_reward(stepped.service.closed.sum(axis=0) @ saving, hours, UNITS),
        terminated=jnp.zeros((), bool),
        credit=stepped.correct,
        tally=count_step(stepped, published, hours)._replace(measures=jnp.stack([late, severe])),
    )


def measure(backlog: line.Backlog) -> tuple[jax.Array, jax.Array]:
    """A30 (open over thirty days) and S (severity-weighted backlog), () each."""
    by_cell = backlog.waiting.sum(axis=0).reshape(line.N_CODES, N_AGES)
    severe = by_cell.sum(axis=1) @ jnp.asarray(SEVERITY_WEIGHTS, jnp.float32)
    return by_cell[:, -1].sum(), severe


SUMMARY_NAMES = (
    "backlog", "tail_pressure", "near_30_days", "open_a", "severity", "mean_age",
    "time_left", "crews_on_duty", "is_daytime", "is_weekend",
)  # fmt: skip
SAVING_NAMES = tuple(f"saving_{name.lower()}" for name in _FORECAST)
TAIL_NAMES = tuple(f"tail_pressure_{board}" for board in BOARDS)
RATE_NAMES = tuple(f"enforcement_rate_{board}" for board in BOARDS)


def observe(params: Params, state: State) -> jax.Array:
    """What is seen of the backlog."""
    del params
    return state.seen


CODE_SHARES = PROCESS.hazard.code_shares
MEAN_WEIGHT = float(np.dot(CODE_SHARES, SEVERITY_WEIGHTS))
NEAR_SHARE = 0.1
"""Usual share of code A, usual weight of a case, and share of the cases a few days from the
thirtieth: they bring what is observed to the order of 1."""
EXPERT_BAR = 0.08
"""Open cases of code A, in usual numbers, below which the expert turns to the oldest."""


def look_at(params: Params, backlog: line.Backlog) -> jax.Array:
    """The backlog in sum, the clock, each order's forecast, then the boards one by one."""
    cells = backlog.waiting.reshape(len(BOARDS), line.N_CODES, N_AGES)
    by_cell = settle(cells.sum(axis=0))
    by_age = by_cell.sum(axis=0)
    total = by_age.sum()
    late, severe = measure(backlog)
    part = backlog.slot % 6
    summary = [
        total / params.typical,
        late / params.typical,
        by_age[N_AGES - 4 : N_AGES - 1].sum() / params.typical / NEAR_SHARE,
        by_cell[0].sum() / params.typical / CODE_SHARES[0],
        severe / params.typical / MEAN_WEIGHT,
        (by_age @ np.arange(N_AGES, dtype=np.float32)) / jnp.maximum(total, 1.0) / N_AGES,
        1.0 - backlog.n_steps / SHAPE.max_steps,
        n_on_duty(backlog.slot) / N_CREWS,
        ((part == 2) | (part == 3)).astype(jnp.float32),
        (backlog.slot >= 30).astype(jnp.float32),
    ]
    savings = forecast_savings(params, backlog, by_cell.reshape(-1))
    tail = cells[:, :, -1].sum(axis=1) / params.typical * len(BOARDS)
    rates = params.backlog.chance.mean(axis=1)
    return jnp.concatenate([jnp.stack(summary), savings, tail, rates]).astype(jnp.float32)


def forecast_savings(params: Params, backlog: line.Backlog, cells: jax.Array) -> jax.Array:
    """What the crews on duty would save if boards did not matter, by order of service, (5,).

    `cells` (64,) are the cases of all boards; the order that saves most has 1.
    """
    saving = saving_of_visits(params, backlog.n_steps)
    n_visits = n_on_duty(backlog.slot) * params.visits[1]
    worth = worth_by_mode(params, saving)
    saved = [line.take_in_order(cells, worth[name], n_visits) @ saving for name in _FORECAST]
    return jnp.stack(saved) / jnp.maximum(jnp.stack(saved).max(), 1e-6)


def make_greedy(params: Params, harness: Harness) -> Policy:
    """The index where there is one; else the mode whose first crew is forecast to save most."""
    names = action_names(harness)
    if "INDEX_NEAR" in names or not set(SAVING_NAMES) & set(harness.observation_names):
        return play_action("INDEX_NEAR", "BALANCED")(params, harness)
    return greedy_choice(harness)


def greedy_choice(harness: Harness) -> LinearChoice:
    """Switch to the mode with the highest forecast; today's rule where they are equal."""
    weights = {(f"saving_{name.lower()}", name): 1.0 for name in _FORECAST}
    return linear_choice(harness, weights, {"BALANCED": 1e-3})


def switch_at(harness: Harness, feature: str, bar: float) -> LinearChoice:
    """BALANCED while a feature exceeds a bar, TAIL below it."""
    weights = {(feature, "BALANCED"): 1.0, (feature, "TAIL"): 0.0}
    return linear_choice(harness, weights, {"BALANCED": -bar, "TAIL": 0.0})


def make_expert(params: Params, harness: Harness) -> Policy:
    """Emergencies first, and the oldest once few are left; with the way in mind where possible."""
    if "BALANCED_NEAR" in action_names(harness) or "open_a" not in harness.observation_names:
        return play_action("BALANCED_NEAR", "BALANCED")(params, harness)
    return switch_at(harness, "open_a", EXPERT_BAR)


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Every mode, and switching rules around the greedy one."""
    modes = action_names(harness)
    found = [play_action(name, name)(params, harness) for name in modes]
    switches = [switch_at(harness, "open_a", bar) for bar in (0.02, 0.04, 0.08, 0.16, 0.32)]
    switches.append(switch_at(harness, "severity", 0.4))
    rng = np.random.default_rng(0)
    return [*found, *switches, *perturbed_choices(greedy_choice(harness), 47, 0.3, rng)]


CREW_STEPS_A_WEEK = 5 * 2 * N_CREWS + (42 - 10) * NIGHT_CREWS


@jax.jit
def look_at_starts(params: Params) -> jax.Array:
    """What is seen of each start, (S, n_names)."""
    return jax.vmap(lambda start: look_at(params, start))(line.all_starts(params.backlog))


def make_params(
    backlog: line.BacklogParams, visits_a_week: float, changeover_lost: float = CHANGEOVER_LOST
) -> Params:
    """Params with so many visits a week, shared out among the crews on duty."""
    staying = visits_a_week / CREW_STEPS_A_WEEK
    waiting = np.asarray(backlog.start_waiting).sum(axis=(1, 2)).mean()
    params = Params(
        backlog=backlog,
        visits=jnp.asarray([staying, staying * (1.0 - changeover_lost)], jnp.float32),
        typical=jnp.float32(max(waiting, 1.0)),
        start_seen=jnp.zeros(0),
        saving=savings_by_step(backlog),
    )
    return params._replace(start_seen=look_at_starts(params))


def scale_capacity(params: Params, factor: float) -> Params:
    """The same boards with so many times the visits of every crew."""
    scaled = params._replace(visits=params.visits * factor)
    return scaled._replace(start_seen=look_at_starts(scaled))


def params_from(backlog: line.BacklogParams, visits_per_day: float) -> Params:
    """Params with so many visits a day."""
    return make_params(backlog, 7.0 * visits_per_day)


def example(changeover_lost: float = CHANGEOVER_LOST) -> Params:
    """The prototype's office: 17,266 cases a year, 2,080 open over thirty days at the start.

    The boards belong to five strata with equal incidents, of which 35 to 73 % are reported.
    """
    rng = np.random.default_rng(311)
    per_day = 17_266 / 365
    backlog = example_backlog(
        PROCESS,
        SHAPE,
        np.arange(len(BOARDS)) % 5,
        np.exp(0.6 * rng.standard_normal(len(BOARDS))),
        cases_per_day=per_day,
        chance=np.array([0.36, 0.27, 0.19, 0.14]),
        days_waiting=np.append(np.full(N_AGES - 1, 850 / (N_AGES - 1)), 2_080) / per_day,
        access=0.994,
        returns=0.0,
        repeats_per_day=0.0,
        n_addresses=400.0,
    )
    return make_params(backlog, VISITS_PER_STEP * CREW_STEPS_A_WEEK, changeover_lost)


def place_of(located: Any) -> np.ndarray:
    """Number of each one's board; what lies outside them (parks, airports) goes to the first."""
    order = np.argsort(BOARDS)
    place = np.searchsorted(np.array(BOARDS)[order], located.board)
    place = order[np.minimum(place, len(BOARDS) - 1)]
    return np.where(np.array(BOARDS)[place] == located.board, place, 0)


def layout_of(records: Records) -> backlog_estimate.Layout:
    """How the boards' backlog is laid out in these records."""
    n_addresses = np.ones(len(BOARDS))
    for (board, _, _), n in addresses_by_place(records, "b.elevators > 0").items():
        if board in BOARDS:
            n_addresses[BOARDS.index(board)] += n
    life = PROCESS.hazard.lifetime_days
    return backlog_estimate.Layout("elevator", len(BOARDS), place_of, SHAPE, n_addresses, life)


def truth(city: str | Path, date_from: date) -> Params:
    """The boards as they really were from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    return true_params(records, happened, date_from, layout_of, params_from)


DOMAIN = Domain(
    slug="elevator",
    title="Elevators",
    version=2,
    decision="Every four hours, per community board: TAIL, EMERG, ACTIONABLE or BALANCED.",
    who_waits="Residents without an elevator, above all those who cannot take the stairs.",
    not_for="Certifying that a device is safe.",
    source="DOB elevator complaints, 2017-2026.",
    process=PROCESS,
    actions=tuple(Action(name, escalates=True, cost_hours=4.0) for name in MODES[:N_PUBLISHED]),
    extended_actions=tuple(
        Action(name, name != "NO_DISPATCH", 4.0 * (name != "NO_DISPATCH"))
        for name in MODES[N_PUBLISHED:]
    ),
    observation_names=SUMMARY_NAMES + SAVING_NAMES + TAIL_NAMES + RATE_NAMES,
    observation_sets={
        "published": ("severity", "mean_age", *TAIL_NAMES, *RATE_NAMES),
        "extended": SUMMARY_NAMES + SAVING_NAMES,
    },
    default_observation_set="extended",
    geographic_features=TAIL_NAMES + RATE_NAMES,
    outcome_names=line.OUTCOME_NAMES,
    measure_names=("open_over_30_days", "severity_weighted_backlog"),
    max_steps=SHAPE.max_steps,
    protocol=Protocol(
        split="train 2020-2024, test 2025; support-constrained backtest (support_min_count = 1)",
        episode="168 steps of four hours",
        claims="reward, A30, S, Act.: NO_DISPATCH -835,120, 2371.8, 1305.0, 0.00; UNIFORM "
        "-552,092, 1743.2, 781.0, .16; RANDOM -490,276, 1642.3, 649.7, .15; TD -463,449, 1578.4, "
        "602.5, .13; ACTIONABLE -462,878, 1422.6, 678.0, .22; REINFORCE -463,117; DQN -431,596, "
        "1429.1, 582.4, .17; EMERG -438,688, 1583.6, 525.7, .15; TAIL -420,387, 1403.5, 562.1, "
        ".14; BALANCED -413,777, 1423.2, 532.7, .15",
    ),
    ceiling="best known: the best of all modes and of 54 rules that switch between them",
    agents=("dqn", "reinforce", "td", "bc"),
    # A visit's whole effect is in its saving, so looking far ahead only adds noise.
    agent_settings={
        "dqn": {"discount": 0.5, "hidden": (128, 128), "learning_rate": 3e-4},
        "reinforce": {"discount": 0.9, "entropy": 0.03},
    },
    # The published reward is the backlog alone: crews are paid whichever way they go.
    preference=(1.0, 0.0, 0.0, 0.0),
    price_step=0.005,
    explainer="permutation",
    heuristics={
        "balanced": play_action("BALANCED", "BALANCED"),
        "tail": play_action("TAIL", "TAIL"),
        "emerg": play_action("EMERG", "EMERG"),
        "actionable": play_action("ACTIONABLE", "ACTIONABLE"),
        "uniform": play_action("UNIFORM", "TAIL"),
        "random": play_at_random("NO_DISPATCH"),
        "random_boards": play_action("RANDOM_BOARDS", "TAIL"),
        "never": play_action("NO_DISPATCH", "ACTIONABLE"),
        "no_dispatch": play_action("NO_DISPATCH", "ACTIONABLE"),
        "score": play_action("INDEX_NEAR", "BALANCED"),
        "index": make_greedy,
        "expert": make_expert,
        "dual_threshold": play_action("COVERAGE_PRICED", "BALANCED"),
        "canvass": play_action("CANVASS", "BALANCED"),
    },
    dynamics=backlog_dynamics(
        SHAPE,
        layout_of=layout_of,
        make_params=params_from,
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        example=example,
        truth=truth,
        capacity_per_step=lambda params: N_CREWS * jnp.ceil(params.visits[0]),
        carry_on=carry_on,
        scale_capacity=scale_capacity,
        candidates=candidates,
    ),
)
