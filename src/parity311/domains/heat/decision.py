"""The office: what it classifies, how a year starts, and what a slot leads to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, namespace_of, side_by_side
from parity311.domains.heat import office as engine
from parity311.domains.heat.arrivals import draw
from parity311.domains.heat.estimate import ComplaintKinds
from parity311.domains.heat.step import OfficeProcess, OfficeRules, Promise, no_promise, pass_slot
from parity311.mdp.contract import Action, Transition

SLOTS_PER_DAY = 4
"""Complaints the office can classify in a day (the paper); a step is one slot."""

N_DAYS = 365
START_DAY = 181
"""The office's year starts on 1 July, when hardly anybody waits: an empty office is right then."""

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
)
N_KINDS = COMPLAINT_KINDS.n_kinds
KINDS = COMPLAINT_KINDS.parts
"""(64, 4): building-wide, no heat, level of units, severity code of every kind."""

UNITS_BY_KIND = np.array(UNITS_BY_LEVEL)[KINDS[:, 2]]

ACTIONS = (
    Action("inspect", escalates=True, cost_hours=1.0),
    Action("batch", escalates=True, cost_hours=engine.SHARED_TIME),
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

    office: engine.Office
    warmth: jax.Array
    """() °F above normal"""
    promise: Promise


def initial_state(key: jax.Array, params: Params) -> State:
    """An empty office on 1 July."""
    del params
    return State(engine.empty_office(), TEMPERATURE_SD * jax.random.normal(key), no_promise())


def month_of(office: engine.Office) -> jax.Array:
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


class HeatView(NamedTuple):
    """What is seen of a complaint and of the office that classifies it; (...) each."""

    kind: jax.Array
    """int32, row of `KINDS`"""
    n_reports: jax.Array
    """complaints the incident has had"""
    queued: jax.Array
    """cases and further complaints that wait for an inspector"""
    day_of_year: jax.Array
    """days since 1 January; whole years more do not matter"""
    month: jax.Array
    """int32, 0 = January"""
    warmth: jax.Array
    """°F above normal"""
    is_there: jax.Array
    """bool: whether there is a complaint in hand at all"""


def view_office(state: State) -> HeatView:
    """The complaint in hand and the office around it."""
    office = state.office
    row, there_is_one = engine.next_to_classify(office)
    return HeatView(
        kind=office.kind[row],
        n_reports=office.n_reports[row],
        queued=(office.status == engine.QUEUED).sum() + office.n_extra.sum(),
        day_of_year=office.now + START_DAY,
        month=month_of(office),
        warmth=state.warmth,
        is_there=there_is_one,
    )


def show(params: Params, view: HeatView) -> jax.Array:
    """The complaint in hand (zeros in an empty slot), the queue, the season and the weather.

    NumPy or JAX, (..., 8) for a view with the leading axes (...).
    """
    xp = namespace_of(params.office.capacity, *view)
    kind = xp.asarray(KINDS, np.float32)[view.kind]
    units = xp.asarray(UNITS_BY_KIND, np.float32)[view.kind]
    capacity = xp.maximum(params.office.capacity[view.month], 1e-3)
    complaint = side_by_side(
        kind[..., 0],
        kind[..., 1],
        xp.log(units) / np.log(UNITS_BY_LEVEL[-1]),
        1.0 - kind[..., 3] / 3.0,
        xp.minimum(view.n_reports - 1, 4) / 4.0,
    )
    complaint = xp.where(xp.asarray(view.is_there)[..., None], complaint, np.float32(0.0))
    office_now = side_by_side(
        xp.minimum(view.queued / capacity / 7.0, 3.0),
        xp.cos(2 * np.pi * (view.day_of_year - 15.0) / N_DAYS),
        (xp.asarray(NORMAL_TEMPERATURE, np.float32)[view.month] + view.warmth - 55.0) / 20.0,
    )
    return xp.concatenate([complaint[..., :3], office_now, complaint[..., 3:]], axis=-1)


def observe(params: Params, state: State) -> jax.Array:
    """What is shown of the complaint in hand and of the office."""
    return show(params, view_office(state))
