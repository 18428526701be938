"""Emergency response team: how many crews stand ready in the next hour.

What is decided: one, two or three crews. Who waits: whoever is under a building that moves.
Source: 311 complaints to DOB's Emergency Response Team. Not for: replacing a call to 911.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity311.arrays import in_numpy, jax, jnp, namespace_of, settle, side_by_side
from parity311.city.process import Category, Delay, Flag, Places
from parity311.city.profiles import (
    by_year,
    dob_hazard,
    dob_process,
    dob_reporting,
    dob_service,
)
from parity311.engines.backlog import process as engine
from parity311.engines.backlog import rules as backlog_rules
from parity311.engines.backlog.params import example_backlog
from parity311.engines.backlog.rules import linear_choice, play_action
from parity311.engines.backlog.step import (
    count_step,
    draw_step,
    pass_step,
    scale_reward,
    weigh_cases,
)
from parity311.estimation import backlog as backlog_estimate
from parity311.estimation.backlog_dynamics import backlog_dynamics, true_params
from parity311.estimation.backlog_view import (
    cells_of,
    keep_backlog,
    n_recent,
    oldest_first,
    see_backlog,
)
from parity311.mdp.contract import (
    N_STRATA,
    Action,
    Baseline,
    Domain,
    Policy,
    Protocol,
    Sight,
    Transition,
)
from parity311.mdp.harness import Harness
from parity311.records.journal import Cases, Journal
from parity311.records.store import open_records

# fmt: off
# code, title, share, hazard, actionable, no access, referral, other; the fields of Category
_CATEGORIES = (
    Category("14", "excavation undermining a neighbour", 0.172, 1.6, 0.394, 0.0884, 0.017, 0.017),
    Category("16", "inadequate shoring", 0.1488, 1.6, 0.38, 0.0865, 0.018, 0.018),
    Category("03", "adjacent building not protected", 0.2352, 0.4, 0.355, 0.0891, 0.021, 0.021,
             lifetime_factor=1.5, rate_factor=0.667),
    Category("12", "unsafe demolition", 0.1779, 1.6, 0.326, 0.0883, 0.012, 0.012,
             lifetime_factor=0.75, rate_factor=1.333),
    Category("18", "unsafe storage of material", 0.1279, 0.4, 0.298, 0.1013, 0.013, 0.013),
    Category("50", "sign in danger of falling", 0.1382, 1.6, 0.347, 0.0872, 0.025, 0.025,
             lifetime_factor=1.5, rate_factor=0.667),
)
# fmt: on

PROCESS = dob_process(
    slug="ert",
    categories=_CATEGORIES,
    complaints=by_year(2017, 4_876, 4_768, 3_988, 3_665, 2_750, 2_800, 2_900, 2_800, 2_700, 2_700),
    complaints_per_incident=0.528,
    places=Places(
        exposure_power=0.4,
        exposure_offset=-1.0,
        borough_shares=(0.13, 0.36, 0.25, 0.22, 0.04),
        tract_sd=0.4,
        building_sd=1.0,
        year_sd=0.5,
    ),
    hazard=dob_hazard(20.0, (0.60, 0.28, 0.09, 0.03)),
    reporting=dob_reporting(0.0375, 0.7),
    service=dob_service(
        1.2,
        (Delay(0.4, 1.0), Delay(1.4, 1.0), Delay(2.2, 1.0), Delay(3.0, 1.0)),
        closing=Delay(0.5, 0.8),
        intake=Delay(1.0, 1.0),
        retry=Delay(4.0, 0.7),
    ),
    flags=(Flag("is_worker_at_risk", 0.30, 0.7), Flag("is_neighbour_at_risk", 0.35, 0.8)),
    sources={
        "volume": "Emergency Response Team, dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 "
        "counts of 2017 to November 2021; later years assumed",
        "service.leads": "fitted so that the mean closing days of 2020 (5.1) come out, "
        "dariusmehri/311-HPD-and-DOB-Complaint-Comparison, 311 counts of 2017 to November 2021",
    },
)


SHAPE = engine.BacklogShape(
    steps_per_day=24, bin_steps=12, n_ages=8, max_steps=168, most_arrivals=4
)
"""A week of hours; ages in eight bins of half a day, the last open from three and a half days on;
the busiest stratum expects a twentieth of a case of one code in an hour."""

SEVERITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What one day unresolved weighs by severity code A to D: a norm, stated, not estimated."""
UNITS = (10.0, 12.0)
"""Severity-weighted days that a typical correct escalation avoids (weight 3 over three days), and
crew hours it takes (one visit in four hours, one in three correct)."""

MEAN_CREWS = 2.0
"""Crews the payroll covers around the clock: three now means one later."""
MOST_SAVED_HOURS = 24.0
"""Crew hours that can be saved up (assumed: a crew's day)."""
PRICE_GAIN = 1.0
"""Severity codes that one unit of coverage price is worth to priced dispatch."""

ACTION_NAMES = ("crews_1", "crews_2", "crews_3", "no_crews", "COVERAGE_PRICED")
"""The paper's three, then none, and two crews that serve by code plus coverage price."""
N_CREWS_OF = np.array([1.0, 2.0, 3.0, 0.0, 2.0], np.float32)
PRICED = ACTION_NAMES.index("COVERAGE_PRICED")

OBSERVATION_NAMES = (
    "backlog", "new_complaints", "recurrent_complaints", "hour_sin", "hour_cos",
    "open_a", "oldest", "saved_hours", "is_weekend", "time_left",
)  # fmt: skip


class Params(NamedTuple):
    """The strata's backlog (a place is a stratum) and the crews."""

    backlog: engine.BacklogParams
    visits_per_crew_hour: jax.Array


class State(NamedTuple):
    """The backlog, the crew hours saved up, and the last hour's complaints."""

    backlog: engine.Backlog
    saved_hours: jax.Array
    n_new: jax.Array
    n_recurrent: jax.Array


def initial_state(key: jax.Array, params: Params) -> State:
    """A recorded backlog, half of the hours saved up."""
    chance = jax.random.uniform(key, (2,))
    backlog, _ = engine.start(params.backlog, chance[0])
    none = jnp.float32(0.0)
    return settle(State(backlog, chance[1] * MOST_SAVED_HOURS, none, none))


def choose_visits(
    params: Params, state: State, action: jax.Array, prices: jax.Array, n_visits: jax.Array
) -> jax.Array:
    """Cases visited this hour, (6, 32): today's order, or code plus coverage price.

    NumPy or JAX.
    """
    cells = state.backlog.waiting
    xp = namespace_of(cells, action, prices, n_visits)
    order = np.tile(SHAPE.code_then_age, N_STRATA)
    today = engine.take_in_order(cells.reshape(-1), xp.asarray(order), n_visits)
    groups = cells.reshape(N_STRATA * engine.N_CODES, SHAPE.n_ages)
    code = 3.0 - xp.arange(engine.N_CODES)
    price = engine.place_prices(params.backlog, prices)
    score = code + PRICE_GAIN * price[:, None]
    priced = engine.take_by_group(groups, score.reshape(-1), n_visits)
    return xp.where(action == PRICED, priced.reshape(cells.shape), today.reshape(cells.shape))


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Send the crews there are hours for, let an hour pass, take in what is reported."""
    before = state.backlog
    draws = draw_step(key, N_STRATA, 1)
    # The first crew is always paid for; further ones need hours saved up.
    wanted = jnp.asarray(N_CREWS_OF)[action]
    crews = jnp.minimum(wanted, jnp.maximum(1.0, jnp.floor(state.saved_hours + MEAN_CREWS)))
    saved_hours = jnp.clip(state.saved_hours + MEAN_CREWS - crews, 0.0, MOST_SAVED_HOURS)
    n_visits = engine.rounded(crews * params.visits_per_crew_hour, draws.own[0])
    visited = choose_visits(params, state, action, prices, n_visits)
    stepped = pass_step(params.backlog, before, visited, draws, SHAPE)
    hour = jnp.full(SHAPE.n_ages, 1.0 / SHAPE.steps_per_day)
    burden = weigh_cases(stepped.backlog.waiting, SEVERITY_WEIGHTS, hour)
    ahead, _ = engine.steps_ahead(params.backlog, before.n_steps, SHAPE)
    saved = weigh_cases(stepped.service.closed, SEVERITY_WEIGHTS, ahead * hour)
    return Transition(
        state=State(stepped.backlog, saved_hours, stepped.n_new, stepped.n_repeats),
        # Retention is zero: complaints do not say who would have to move out.
        reward=scale_reward(saved, crews, UNITS),
        terminated=jnp.zeros((), bool),
        credit=stepped.correct,
        tally=count_step(stepped, scale_reward(-burden, crews, UNITS), crews),
    )


def observe(params: Params, state: State) -> jax.Array:
    """The backlog in hours of two crews, the last hour's complaints, the clock, the payroll.

    NumPy or JAX; of the backlog only who waits and the clock are read.
    """
    xp = namespace_of(state.backlog.waiting, params.visits_per_crew_hour)
    by_cell = state.backlog.waiting.sum(axis=0).reshape(engine.N_CODES, SHAPE.n_ages)
    scale = xp.maximum(MEAN_CREWS * params.visits_per_crew_hour * 24.0, 1e-3)
    angle = 2.0 * np.pi * (state.backlog.slot % 24) / 24.0
    return side_by_side(
        by_cell.sum() / scale,
        state.n_new,
        state.n_recurrent,
        xp.sin(angle),
        xp.cos(angle),
        by_cell[0].sum() / scale,
        by_cell[:, -1].sum() / scale,
        state.saved_hours / MOST_SAVED_HOURS,
        state.backlog.slot >= 120,
        1.0 - state.backlog.n_steps / SHAPE.max_steps,
    )


def make_score(params: Params, harness: Harness, low: float = 0.4, high: float = 1.0) -> Policy:
    """One crew below `low` days of work in line, three above `high`, two between."""
    del params
    weights = {("backlog", "crews_2"): 1.0, ("backlog", "crews_3"): 2.0}
    bars = {"crews_1": 0.0, "crews_2": -low, "crews_3": -low - high}
    return linear_choice(harness, weights, bars)


def make_index(params: Params, harness: Harness) -> Policy:
    """Three crews while an emergency waits, two while anything does, else one."""
    del params
    weights = {("open_a", "crews_3"): 100.0, ("backlog", "crews_2"): 10.0}
    return linear_choice(harness, weights, {"crews_1": 0.0, "crews_2": -0.05, "crews_3": -0.5})


def make_expert(params: Params, harness: Harness) -> Policy:
    """Shifts by the clock: three crews from 6 to 18 h, one at night."""
    del params
    return linear_choice(harness, {("hour_cos", "crews_1"): 1.0, ("hour_cos", "crews_3"): -1.0})


def candidates(params: Params, harness: Harness) -> list[Policy]:
    """Constant numbers of crews, rules on the backlog, and rules around them."""
    names = backlog_rules.action_names(harness)
    found = [play_action(name, name)(params, harness) for name in names]
    rng = np.random.default_rng(0)
    for low in (0.1, 0.3, 0.6, 1.0, 2.0):
        for high in (0.2, 0.6, 1.5, 4.0):
            rule = make_score(params, harness, low, high)
            assert isinstance(rule, backlog_rules.LinearChoice)
            found += backlog_rules.perturbed_choices(rule, 1, 0.1, rng)
    return [*found, make_index(params, harness)]


def example() -> Params:
    """A team by hand: eight cases a day, a third of them actionable; two crews make nine visits.

    Five strata with equal incidents report 35 to 73 % of them.
    """
    backlog = example_backlog(
        PROCESS,
        SHAPE,
        np.arange(N_STRATA),
        np.ones(N_STRATA),
        cases_per_day=8.0,
        chance=np.array([0.42, 0.30, 0.22, 0.15]),
        days_waiting=np.append(np.full(SHAPE.n_ages - 1, 0.1), 0.3),
        access=0.91,
        returns=0.5,
        repeats_per_day=0.05,
        n_addresses=5_000.0,
    )
    return make_params(backlog, 9.0)


def make_params(backlog: engine.BacklogParams, visits_per_day: float) -> Params:
    """Params in which two crews make so many visits."""
    return Params(backlog, jnp.float32(visits_per_day / SHAPE.steps_per_day / MEAN_CREWS))


LAYOUT = backlog_estimate.BacklogLayout(
    "ert",
    N_STRATA,
    # Crews go anywhere in the city within the hour: a place is a stratum.
    lambda located: located.stratum.astype(np.int64),
    SHAPE,
    np.full(N_STRATA, 5_000.0),
)


def truth(city: str | Path, date_from: date) -> Params:
    """The team as it really was from `date_from` on; only a synthetic city knows."""
    from parity311.records.truth import open_truth

    records, happened = open_records(city), open_truth(city)
    return true_params(records, happened, date_from, lambda records: LAYOUT, make_params)


def see(params: Params, journal: Journal, cases: Cases, ahead: np.ndarray) -> State:
    """The line by stratum and the last hour; of the hours saved up, which no record tells, half."""
    del ahead
    n_new = n_recent(journal.began, journal, 1.0 / 24.0)
    return in_numpy(
        State,
        backlog=see_backlog(SHAPE, params.backlog, journal, cases, cases.stratum),
        saved_hours=np.float32(MOST_SAVED_HOURS / 2.0),
        n_new=np.float32(n_new),
        n_recurrent=np.float32(n_recent(journal.report_at, journal, 1.0 / 24.0) - n_new),
    )


def rank(
    params: Params, view: State, action: int, prices: np.ndarray, journal: Journal, cases: Cases
) -> np.ndarray:
    """Today's order, or code plus coverage price, the oldest first."""
    del view
    if ACTION_NAMES[action] == "no_crews":
        return np.full(cases.n, -np.inf)
    score = SHAPE.code_then_age[cells_of(SHAPE, journal, cases)].astype(np.float64)
    if action == PRICED:
        price = engine.place_prices(params.backlog, prices)[cases.stratum]
        score = 3.0 - cases.code + PRICE_GAIN * price
    return oldest_first(score, cases)


SIGHT = Sight(
    see=see,
    keep=keep_backlog,
    show=observe,
    rank=rank,
    day_shares=(1.0 / 24.0,) * 24,
    effort=lambda action: float(N_CREWS_OF[action]) / MEAN_CREWS,
)


DOMAIN = Domain(
    slug="ert",
    title="Emergency response team",
    version=2,
    decision="For each hour: 1, 2 or 3 crews.",
    who_waits="Whoever is under a building that moves.",
    not_for="Replacing a call to 911.",
    source="311 complaints to DOB Emergency Response Team, 2017-2026.",
    process=PROCESS,
    actions=tuple(Action(f"crews_{n}", escalates=True, cost_hours=float(n)) for n in (1, 2, 3)),
    extended_actions=(
        Action("no_crews", escalates=False, cost_hours=0.0),
        Action("COVERAGE_PRICED", escalates=True, cost_hours=2.0),
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": OBSERVATION_NAMES[:5], "extended": OBSERVATION_NAMES},
    default_observation_set="extended",
    outcome_names=engine.OUTCOME_NAMES,
    max_steps=SHAPE.max_steps,
    protocol=Protocol(
        split="train 2020-2024, test 2025",
        episode="hours; its length is not given, ours is a week",
        claims="DQN gives the more stable policy",
    ),
    ceiling="best known: the best of constant crews and of 41 rules on the backlog",
    agents=("dqn", "reinforce"),
    differs={
        "features": "what is open and how grave, the oldest case and the crew-hours saved are "
        "known at the desk",
        "discount": "an hour's crews matter for some hours",
    },
    agent_settings={"dqn": {"discount": 0.95, "hidden": (64, 64)}},
    # Emergencies: a day in danger outweighs the hours it takes to end it.
    preference=(0.7, 0.3, 0.0, 0.0),
    price_step=0.01,
    heuristics={
        "balanced": play_action("crews_2", "crews_2"),
        "always": play_action("crews_3", "crews_3"),
        "never": play_action("no_crews", "crews_1"),
        "uniform": play_action("crews_1", "crews_1"),
        "random": backlog_rules.play_at_random("no_crews"),
        "score": make_score,
        "index": make_index,
        "expert": make_expert,
        "dual_threshold": play_action("COVERAGE_PRICED", "crews_2"),
    },
    baselines={
        "balanced": Baseline("balanced", "two crews every hour"),
        **dict.fromkeys(
            ("tail", "emerg", "actionable"),
            Baseline("", "what is decided is how many crews go, not whom they see first"),
        ),
        "uniform": Baseline("uniform", "one crew every hour: the least, whatever is open"),
        "no_dispatch": Baseline("never", "no crew goes (no action of the paper's)"),
        "random": Baseline("random", "one, two or three crews with the same chance"),
        "always": Baseline("always", "three crews every hour"),
        "never": Baseline("never", "no crew goes, the same as NO_DISPATCH"),
        "expert": Baseline("expert", "shifts by the clock: three crews by day, one at night"),
    },
    sight=SIGHT,
    dynamics=backlog_dynamics(
        SHAPE,
        layout_of=lambda records: LAYOUT,
        make_params=make_params,
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        example=example,
        truth=truth,
        capacity_per_step=lambda params: jnp.ceil(3.0 * params.visits_per_crew_hour),
        candidates=candidates,
    ),
)
