"""A stream of visits without access: close each case, or come back after so many days.

What a stream (`parity311.engines.stream`) is to intake, this is to the calendar: every
step brings one visit at which nobody opened. A revisit is booked some days ahead and made then if
the inspectors have time, later if too many fall due together. After a second visit without access
the case is closed. What is closed stays open at its place and may come back, graver and older. The
service level is counted from the first visit, at which the agency was there and left its notice:
counted from the complaint, no revisit to a code A could ever be in time.

A booking is credited when it is made, as if it were kept on its day; what delay takes from it is
charged when it happens. So the sum is what the visits bring.
"""

from __future__ import annotations

from typing import NamedTuple

from parity311.arrays import jax, jnp
from parity311.engines.stream.process import (
    N_SEASONS,
    QUEUE_SLOTS,
    SEASON_DAYS,
    StreamParams,
    StreamShape,
    draw_cell,
    left_open,
    pick,
    severity_score,
    severity_weight,
    split_visits,
)
from parity311.engines.stream.step import Arrived, arrive, grow, open_at, scale
from parity311.mdp.contract import N_STRATA, Tally, Transition

DELAYS_DAYS = (1.0, 3.0, 7.0, 14.0, 30.0)
"""Days after which a revisit can be booked (the paper); action 0 closes."""

MAX_REVISITS = 1
"""Most revisits between two visits without access: there are no more second visits than first."""

NEVER = 1e6
"""Days until a visit that is not booked."""

OUTCOME_NAMES = ("violation", "no_violation", "no_access", "closed")


class RevisitParams(NamedTuple):
    """The process one office sees."""

    stream: StreamParams
    """What comes in, as for any stream; `visits_per_step` are the revisits that can be made"""
    again: jax.Array
    """(n_kinds, 5) chance that a revisit gets in, by kind and delay"""


class Calendar(NamedTuple):
    """Booked revisits, (QUEUE_SLOTS,) each, in the order they were booked."""

    due_days: jax.Array
    """days until it is due; NEVER where nothing is booked"""
    days: jax.Array
    """severity-weighted days that it is expected to avoid"""
    unit_days: jax.Array
    chance: jax.Array
    """chance that it finds something actionable"""
    access: jax.Array
    slack: jax.Array
    """days between its due day and the last that counts as service"""
    stratum: jax.Array


class State(NamedTuple):
    """The visit in hand and the calendar."""

    kind: jax.Array
    stratum: jax.Array
    season: jax.Array
    n_booked: jax.Array
    open_level: jax.Array
    """(n_places,) as in a stream of complaints"""
    open_stratum: jax.Array
    calendar: Calendar


class Booking(NamedTuple):
    """What an action books for the visit in hand."""

    is_booked: jax.Array
    delay_days: jax.Array
    access: jax.Array
    chance: jax.Array
    days: jax.Array
    unit_days: jax.Array
    slack: jax.Array


def initial_state(key: jax.Array, shape: StreamShape, params: RevisitParams) -> State:
    """An empty calendar, in a season and with a visit drawn at random."""
    draws = jax.random.uniform(key, (2,))
    season = jnp.minimum((draws[0] * N_SEASONS).astype(jnp.int32), N_SEASONS - 1)
    cell = draw_cell(params.stream, season, draws[1])
    none = jnp.zeros(QUEUE_SLOTS, jnp.float32)
    empty = jnp.zeros(shape.n_places, jnp.int32)
    return State(
        kind=cell // N_STRATA,
        stratum=cell % N_STRATA,
        season=season,
        n_booked=jnp.int32(0),
        open_level=empty,
        open_stratum=empty,
        calendar=Calendar(none + NEVER, none, none, none, none, none, none.astype(jnp.int32)),
    )


def book(shape: StreamShape, params: RevisitParams, state: State, action: jax.Array) -> Booking:
    """What the action comes to; a full calendar cannot take another revisit."""
    stream = params.stream
    delay = pick(jnp.asarray(DELAYS_DAYS, jnp.float32), action - 1)
    access = pick(params.again[state.kind], action - 1)
    chance, units = stream.kinds[state.kind]
    level = shape.level(state.kind)
    still_open = jnp.exp(-delay / stream.lifetime_days)
    found = chance * access * still_open
    days = severity_weight(level) * found * stream.written_share * stream.lifetime_days
    # The first visit was the agency's answer; the notice it left starts the clock again.
    slack = pick(stream.service_days, level) - delay
    is_booked = (action > 0) & (state.n_booked < QUEUE_SLOTS)
    return Booking(is_booked, delay, access, found, days, days * units, slack)


def _keep_calendar(
    params: RevisitParams, state: State, booking: Booking, n_visits: jax.Array, step_days: jax.Array
) -> tuple[Calendar, jax.Array, Calendar, jax.Array]:
    """Enter the booking, let a step pass, make due visits; what is overdue loses worth.

    Returns the calendar, how many are booked, the visits made as a calendar of MAX_REVISITS, and
    the days and unit days lost to delay (2,).
    """
    is_new = booking.is_booked & (jnp.arange(QUEUE_SLOTS) == state.n_booked)
    fresh = Calendar(
        booking.delay_days,
        booking.days,
        booking.unit_days,
        booking.chance,
        booking.access,
        booking.slack,
        state.stratum,
    )
    calendar = jax.tree.map(lambda old, new: jnp.where(is_new, new, old), state.calendar, fresh)
    calendar = calendar._replace(due_days=calendar.due_days - step_days)
    n_booked = state.n_booked + booking.is_booked
    made = []
    for number in range(MAX_REVISITS):
        row = jnp.argmin(calendar.due_days)
        goes = (calendar.due_days.min() <= 0.0) & (number < n_visits)
        is_row = jnp.arange(QUEUE_SLOTS) == row
        made.append(jax.tree.map(lambda x, m=is_row & goes: jnp.where(m, x, 0).sum(), calendar))
        calendar = _remove(calendar, row, goes)
        n_booked -= goes
    visits = jax.tree.map(lambda *x: jnp.stack(x), *made)
    is_late = calendar.due_days <= 0.0
    kept = jnp.where(is_late, jnp.exp(-step_days / params.stream.lifetime_days), 1.0)
    lost = jnp.stack(
        [(calendar.days * (1.0 - kept)).sum(), (calendar.unit_days * (1.0 - kept)).sum()]
    )
    calendar = calendar._replace(
        days=calendar.days * kept,
        unit_days=calendar.unit_days * kept,
        chance=calendar.chance * kept,
        slack=calendar.slack - jnp.where(is_late, step_days, 0.0),
    )
    return calendar, n_booked, visits, lost


def _remove(calendar: Calendar, row: jax.Array, goes: jax.Array) -> Calendar:
    """Take one row out and close the gap."""
    moves = goes & (jnp.arange(QUEUE_SLOTS) >= row)
    zero = jnp.float32(0.0)
    last = Calendar(jnp.float32(NEVER), zero, zero, zero, zero, zero, jnp.int32(0))

    def close_gap(values: jax.Array, end: jax.Array) -> jax.Array:
        return jnp.where(moves, jnp.append(values[1:], end), values)

    return jax.tree.map(close_gap, calendar, last)


def transition(
    key: jax.Array, shape: StreamShape, params: RevisitParams, state: State, action: jax.Array
) -> Transition:
    """Close or book the case in hand, keep the calendar, take in the next visit without access."""
    stream = params.stream
    draws = jax.random.uniform(key, (5 + shape.n_places,))
    booking = book(shape, params, state, action)
    least, rest = split_visits(stream)
    n_visits = jnp.minimum((least + (draws[0] < rest)).astype(jnp.int32), MAX_REVISITS)
    step_days = pick(stream.days_per_step, state.season)
    calendar, n_booked, visits, lost = _keep_calendar(params, state, booking, n_visits, step_days)
    seen = booking.chance / jnp.maximum(booking.access, 1e-6)
    stays = ~booking.is_booked | (draws[4] < left_open(stream, seen, booking.access))
    open_level, open_stratum = open_at(
        shape.place(state.kind),
        shape.level(state.kind),
        state.stratum,
        stays,
        state.open_level,
        state.open_stratum,
    )
    ends = draws[5:] < 1.0 - jnp.exp(-step_days / stream.lifetime_days)
    open_level = jnp.where(ends, 0, open_level)
    moves_on = draws[1] < step_days / SEASON_DAYS
    season = jnp.where(moves_on, (state.season + 1) % N_SEASONS, state.season)
    arrived = arrive(shape, stream, season, open_level, open_stratum, draws[2:4])
    taken_up = (jnp.arange(shape.n_places) == shape.place(arrived.kind)) & arrived.is_back
    next_state = State(
        kind=arrived.kind,
        stratum=arrived.stratum,
        season=season,
        n_booked=n_booked,
        open_level=jnp.where(taken_up, 0, open_level),
        open_stratum=open_stratum,
        calendar=calendar,
    )
    return _account(shape, params, state, next_state, booking, visits, lost, arrived)


def _account(
    shape: StreamShape,
    params: RevisitParams,
    state: State,
    next_state: State,
    booking: Booking,
    visits: Calendar,
    lost: jax.Array,
    arrived: Arrived,
) -> Transition:
    """Reward, credit and tally of a step."""
    stream, groups = params.stream, jnp.arange(N_STRATA)
    here = (groups == state.stratum).astype(jnp.float32)
    there = (groups == arrived.stratum).astype(jnp.float32)
    reported = jnp.maximum(stream.reported_share, 1e-6)
    need = (groups == arrived.begun_stratum) / reported
    grown_days, grown_unit_days, grown_chance = grow(shape, stream, arrived)
    chance, units = stream.kinds[arrived.begun_kind]
    begun = severity_weight(shape.level(arrived.begun_kind)) * chance * stream.lifetime_days
    begun = begun / jnp.maximum(pick(stream.reported_share, arrived.begun_stratum), 1e-6)
    booked = booking.is_booked.astype(jnp.float32)
    is_made = (visits.access > 0.0).astype(jnp.float32)
    at = (visits.stratum[:, None] == groups) * is_made[:, None]
    correct = (visits.chance * (visits.slack >= 0.0)) @ at
    hours = stream.actions.hours[1]
    inside, written = visits.access.sum(), visits.chance.sum() * stream.written_share
    outcomes = jnp.stack([written, inside - written, is_made.sum() - inside, 1.0 - booked])
    tally = Tally(
        published_reward=scale(
            stream,
            visits.days.sum() - grown_days - begun,
            is_made.sum() * hours,
            visits.unit_days.sum() - grown_unit_days - begun * units,
        ),
        correct=correct,
        counted=correct,
        actionable=need * chance + there * grown_chance,
        incidents=need,
        reported_actionable=there * jnp.where(arrived.is_back, grown_chance, chance),
        complaints=there,
        visits=at.sum(axis=0),
        hours=is_made.sum() * hours,
        outcomes=outcomes,
    )
    return Transition(
        state=next_state,
        reward=scale(
            stream,
            booked * booking.days - lost[0] - grown_days,
            booked * hours,
            booked * booking.unit_days - lost[1] - grown_unit_days,
        ),
        terminated=jnp.zeros((), bool),
        credit=here * booked * booking.chance * (booking.slack >= 0.0),
        tally=tally,
    )


def resolve_price(
    shape: StreamShape, params: RevisitParams, state: State, price: jax.Array
) -> jax.Array:
    """What COVERAGE_PRICED dispatch comes to: a revisit the next day, in a week, or closing.

    The severity score, raised by a factor e for one unit of the stratum's coverage price, against
    a bar; in a week where the calendar is half full. It knows only what the agency sees.
    """
    is_worth_it = severity_score(shape, state.kind) * jnp.exp(price) >= params.stream.priced_bar
    is_full = state.n_booked >= QUEUE_SLOTS // 2
    return jnp.where(is_worth_it, jnp.where(is_full, 3, 1), 0).astype(jnp.int32)


def n_waiting(state: State) -> jax.Array:
    """Cases not yet closed: the one in hand and those booked."""
    return (1 + state.n_booked).astype(jnp.float32)


def capacity_per_step(params: RevisitParams) -> jax.Array:
    """Most revisits in one step."""
    return jnp.minimum(jnp.ceil(params.stream.visits_per_step), MAX_REVISITS)
