"""A stream of complaints, one a step: a round with a queue, a quick crew, and what was put off.

Every step brings one complaint of some kind (place × severity code × history of the address). It
can be put off, ordered into the inspectors' round, which works first come, first served, at a
finite number of visits a step, or given to the quick crew, which goes at once but is then busy for
a while. What is put off stays open at its place until it ends by itself, or comes back as a
recurrent complaint, one code graver. So a decision changes the queue, the crew and what comes in.

A visit ends only what it writes up. What it lets pass, and what is behind a door that stays shut,
goes on, and if people go on reporting it stays open at its place like what was put off. Which it
will be is settled at the order: it may come back a little before the visit that will let it pass.

The process is Markov in (complaint, season, queue length, crew, what is open): the queue's content
only waits, it decides nothing. That is what makes exact optima possible
(`parity311.engines.stream.optimum`). Where a chance decides what an inspector finds, rewards and
tallies carry the chance, not a coin toss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, namespace_of
from parity311.mdp.contract import N_STRATA

N_SEASONS = 4
SEASON_DAYS = 365.25 / N_SEASONS
N_LEVELS = 4
"""Severity codes, level 0 = D … 3 = A: a higher level is graver."""

QUEUE_SLOTS = 12
"""Longest queue of the round; an order beyond it is put off (assumed: at visits for 30 % of
complaints the last in line waits for forty complaints)."""

MAX_VISITS = 2
"""Most visits the round can make between two complaints."""

N_DRAWABLE = 4096
"""Complaints in a season's list, from which one is drawn: shares are exact to 1 in 4096."""

SEVERITY_WEIGHTS = (0.5, 1.0, 2.0, 4.0)
"""What one day unresolved weighs by level, code D to A: a norm, stated, not estimated; the same as
in the heat domain."""

PUT_OFF, ROUND, CREW = range(3)
"""What an action uses: nobody, the inspectors' round, or the quick crew."""

VIOLATION, NO_VIOLATION, NO_ACCESS, WAS_PUT_OFF = range(4)
OUTCOME_NAMES = ("violation", "no_violation", "no_access", "put_off")
"""How a complaint is closed. An incident that was put off may come back as another complaint."""


class ActionTable(NamedTuple):
    """What each action of a domain does, (n_actions, ...); a priced action resolves to one."""

    resource: jax.Array
    """(n,) PUT_OFF, ROUND or CREW"""
    hours: jax.Array
    """(n,) inspector hours of the visit it leads to"""
    wasted_hours: jax.Array
    """(n,) further hours' worth lost where nothing was wrong: a site stopped for nothing"""
    effect: jax.Array
    """(n, 4) share of the harm that ends with the visit, by level"""


def action_table(
    rows: Sequence[tuple[int, float, float, tuple[float, float, float, float]]],
) -> ActionTable:
    """Table from one row an action, mildest first: resource, hours, wasted hours, effect."""
    resource, hours, wasted, effect = zip(*rows, strict=True)
    # NumPy arrays: a module must not start the device when it is imported.
    columns: list[Any] = [np.array(resource, np.int32)]
    columns += [np.array(x, np.float32) for x in (hours, wasted, effect)]
    return ActionTable(*columns)


class StreamParams(NamedTuple):
    """The process one office sees; days and hours."""

    cells: jax.Array
    """(4, N_DRAWABLE) int32: kind × 6 + stratum of the complaints of each season"""
    kinds: jax.Array
    """(n_kinds, 2): chance that a complaint of this kind warrants a violation, and the dwelling
    units behind it (0 where none is involved)"""
    days_per_step: jax.Array
    """(4,) days between two complaints of the office, by season"""
    lifetime_days: jax.Array
    """() mean days until an incident ends by itself"""
    written_share: jax.Array
    """() share of what is actionable that a visit with access writes up, and thereby ends"""
    goes_on: jax.Array
    """() chance that people report on after a visit with access that wrote nothing up"""
    lead_days: jax.Array
    """() days before a visit of the round can be made, however short the queue"""
    access: jax.Array
    """(6,) chance that a case gets visited with access, by stratum"""
    visits_per_step: jax.Array
    """() visits the round can make per complaint"""
    crew_per_step: jax.Array
    """() chance that a busy crew is free again at the next complaint"""
    comes_back: jax.Array
    """(n_places,) chance that a complaint from a place where something is open is about that"""
    reported_share: jax.Array
    """(6,) share of incidents anybody reports"""
    service_days: jax.Array
    """(4,) days within which a visit counts as service, by level"""
    priced_bar: jax.Array
    """() severity score above which the priced action orders a visit at price 0"""
    speed_unit: jax.Array
    """() severity-weighted days that a typical correct escalation avoids"""
    cost_unit: jax.Array
    """() hours that a typical correct escalation takes"""
    keep_unit: jax.Array
    """() severity-weighted dwelling-unit days it keeps habitable"""
    actions: ActionTable


class Queue(NamedTuple):
    """Cases in the round, first come first, (QUEUE_SLOTS,) each; empty slots hold zeros."""

    days: jax.Array
    """severity-weighted days a visit would avoid now: shrinks as incidents end"""
    unit_days: jax.Array
    """the same times dwelling units"""
    chance: jax.Array
    """chance that a visit now finds something actionable"""
    slack: jax.Array
    """days left until a visit no longer counts as service"""
    stratum: jax.Array


class StreamState(NamedTuple):
    """The complaint in hand and what the office has before it."""

    kind: jax.Array
    stratum: jax.Array
    season: jax.Array
    n_queued: jax.Array
    is_crew_busy: jax.Array
    open_level: jax.Array
    """(n_places,) int32: level at which the gravest incident put off there would come back; 0:
    nothing is open there (nothing comes back at the lowest level)"""
    open_stratum: jax.Array
    """(n_places,)"""
    queue: Queue


class StreamShape(NamedTuple):
    """How kinds are numbered: ((place × levels) + level) × histories + history."""

    n_places: int
    n_histories: int

    @property
    def n_kinds(self) -> int:
        """Kinds of complaint."""
        return self.n_places * N_LEVELS * self.n_histories

    @property
    def kinds(self) -> np.ndarray:
        """(n_kinds, 3): place, level, history of every kind."""
        sizes = (self.n_places, N_LEVELS, self.n_histories)
        return np.stack(np.unravel_index(np.arange(self.n_kinds), sizes), axis=1)

    def kind(self, place: jax.Array, level: jax.Array, history: jax.Array) -> jax.Array:
        """Number of a kind."""
        return (place * N_LEVELS + level) * self.n_histories + history

    def place(self, kind: jax.Array) -> jax.Array:
        """Place of a kind."""
        return kind // (N_LEVELS * self.n_histories)

    def level(self, kind: jax.Array) -> jax.Array:
        """Level of a kind."""
        return (kind // self.n_histories) % N_LEVELS


def pick(values: jax.Array, index: jax.Array) -> jax.Array:
    """values[..., index] of a short list (..., n): a sum over a mask, as a gather is slow on a CPU.

    NumPy or JAX; the leading axes are those of the index.
    """
    xp = namespace_of(values, index)
    is_it = xp.arange(values.shape[-1]) == xp.asarray(index)[..., None]
    return xp.where(is_it, values, 0).sum(axis=-1, dtype=values.dtype)


def severity_weight(level: jax.Array) -> jax.Array:
    """What one day unresolved weighs at this level."""
    return pick(namespace_of(level).asarray(SEVERITY_WEIGHTS, np.float32), level)


HISTORY_SCORE = 0.5
"""By how much the most recurrent address raises the severity score (assumed)."""


def severity_score(shape: StreamShape, kind: jax.Array) -> jax.Array:
    """Severity weight of a kind, more where the address has complained before."""
    history = (kind % shape.n_histories) / max(shape.n_histories - 1, 1)
    return severity_weight(shape.level(kind)) * (1.0 + HISTORY_SCORE * history)


def waiting_factors(params: StreamParams) -> jax.Array:
    """E[share of incidents still open at the visit], (4 seasons, QUEUE_SLOTS): n are ahead.

    A case with n ahead is visited at once if the round makes more than n visits now, else the
    same holds a step later with those visits off the queue. Exact while the season lasts.
    """
    xp = namespace_of(params.days_per_step, params.lifetime_days, params.visits_per_step)
    keep = xp.exp(-params.days_per_step / params.lifetime_days)
    least, rest = split_visits(params)
    found: list[jax.Array] = []
    for n_ahead in range(QUEUE_SLOTS):
        # With n ahead and m visits: now if m > n, else one step later with n - m ahead. Where
        # m = 0 the same factor stands on both sides of the equation.
        value, stays = xp.zeros(N_SEASONS), xp.zeros(N_SEASONS)
        for extra, share in ((0, 1.0 - rest), (1, rest)):
            for m in range(MAX_VISITS + 1):
                weight = share * (xp.minimum(least + extra, MAX_VISITS) == m)
                if m > n_ahead:
                    value += weight
                elif m == 0:
                    stays += weight * keep
                else:
                    value += weight * keep * found[n_ahead - m]
        found.append(value / xp.maximum(1.0 - stays, 1e-9))
    return xp.stack(found, axis=1) * xp.exp(-params.lead_days / params.lifetime_days)


def split_visits(params: StreamParams) -> tuple[jax.Array, jax.Array]:
    """Visits made in every step, and the chance of one more."""
    least = namespace_of(params.visits_per_step).floor(params.visits_per_step)
    return least, params.visits_per_step - least


def initial_state(key: jax.Array, shape: StreamShape, params: StreamParams) -> StreamState:
    """An office with nobody waiting, in a season and with a complaint drawn at random."""
    draws = jax.random.uniform(key, (2,))
    season = jnp.minimum((draws[0] * N_SEASONS).astype(jnp.int32), N_SEASONS - 1)
    cell = draw_cell(params, season, draws[1])
    none = jnp.zeros(QUEUE_SLOTS, jnp.float32)
    return StreamState(
        kind=cell // N_STRATA,
        stratum=cell % N_STRATA,
        season=season,
        n_queued=jnp.int32(0),
        is_crew_busy=jnp.zeros((), bool),
        open_level=jnp.zeros(shape.n_places, jnp.int32),
        open_stratum=jnp.zeros(shape.n_places, jnp.int32),
        queue=Queue(none, none, none, none, jnp.zeros(QUEUE_SLOTS, jnp.int32)),
    )


def draw_cell(params: StreamParams, season: jax.Array, chance: jax.Array) -> jax.Array:
    """Kind × 6 + stratum of a complaint of this season, from a uniform number."""
    place = jnp.minimum((chance * N_DRAWABLE).astype(jnp.int32), N_DRAWABLE - 1)
    return params.cells[season, place]


class CaseInHand(NamedTuple):
    """What is known and at stake in the complaint in hand; everything is ()."""

    place: jax.Array
    level: jax.Array
    chance: jax.Array
    access: jax.Array
    days: jax.Array
    """severity-weighted days that a visit now can be expected to avoid if it ends all harm that it
    writes up"""
    units: jax.Array


def describe_case(shape: StreamShape, params: StreamParams, state: StreamState) -> CaseInHand:
    """The complaint in hand."""
    level = shape.level(state.kind)
    chance, units = params.kinds[state.kind]
    access = pick(params.access, state.stratum)
    days = (
        pick(jnp.asarray(SEVERITY_WEIGHTS, jnp.float32), level)
        * chance
        * access
        * params.written_share
        * params.lifetime_days
    )
    return CaseInHand(shape.place(state.kind), level, chance, access, days, units)


def left_open(params: StreamParams, chance: jax.Array, access: jax.Array) -> jax.Array:
    """Chance that what was visited is open afterwards and may come back; NumPy or JAX.

    `access` is that of the visit, `chance` that it finds something actionable.
    """
    passed = 1.0 - chance * params.written_share
    return 1.0 - access + access * passed * params.goes_on


def n_waiting(state: StreamState) -> jax.Array:
    """Complaints taken in and not yet closed: the one in hand and the queue."""
    return (1 + state.n_queued).astype(jnp.float32)


def capacity_per_step(params: StreamParams) -> jax.Array:
    """Most visits in one step: the round's and the crew's."""
    return jnp.minimum(jnp.ceil(params.visits_per_step), MAX_VISITS) + 1.0


def current_stratum(params: StreamParams, state: StreamState) -> jax.Array:
    """Stratum of the complaint in hand."""
    del params
    return state.stratum


def need_per_step(params: StreamParams) -> jax.Array:
    """Actionable incidents that begin per step, reported or not, by stratum (6,)."""
    xp = namespace_of(params.kinds, params.cells, params.days_per_step)
    chance = params.kinds[params.cells // N_STRATA, 0]
    groups = (params.cells % N_STRATA)[..., None] == xp.arange(N_STRATA)
    need = (groups * chance[..., None]).mean(axis=1)
    # Seasons last equally long, so the one with more complaints has more steps.
    steps = (1.0 / params.days_per_step) / (1.0 / params.days_per_step).sum()
    return (steps @ need) / xp.maximum(params.reported_share, 1e-6)


def steps_per_day(params: StreamParams) -> jax.Array:
    """Complaints per day, over the year."""
    return (1.0 / params.days_per_step).mean()


class Scene(NamedTuple):
    """What can be seen of a state, each scaled to 0 … 1."""

    place: jax.Array
    level: jax.Array
    history: jax.Array
    season: jax.Array
    backlog: jax.Array
    crew_free: jax.Array
    open_here: jax.Array
    """level at which what is open at the place would come back"""
    open_levels: jax.Array
    """(n_places,) the same of every place"""


def describe_scene(shape: StreamShape, state: StreamState) -> Scene:
    """What domains build their observations from: NumPy or JAX, with any leading axes.

    Of the state only the complaint, the season, the queue's length, the crew and what is open are
    read; the rest may be None.
    """
    place = shape.place(state.kind)
    history = state.kind % shape.n_histories
    top = np.float32(N_LEVELS - 1)
    return Scene(
        place=place / np.float32(max(shape.n_places - 1, 1)),
        level=shape.level(state.kind) / top,
        history=history / np.float32(max(shape.n_histories - 1, 1)),
        season=state.season / np.float32(N_SEASONS - 1),
        backlog=state.n_queued / np.float32(QUEUE_SLOTS),
        crew_free=1.0 - state.is_crew_busy.astype(np.float32),
        open_here=pick(state.open_level, place) / top,
        open_levels=state.open_level / top,
    )
