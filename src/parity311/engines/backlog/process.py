"""A backlog as counts: cases waiting by place, severity code and age.

Cases arrive, grow older, are visited in an order and closed; nothing is lost on the way. A place is
whatever a crew can be sent to (a community board, a borough, a category of a stratum). Counts
instead of rows make a step cheap, and what a visit finds is taken as its chance, as in any count:
the noise of single outcomes would only hide what a decision did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, namespace_of, settle
from parity311.mdp.contract import N_STRATA
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES

N_CODES = len(SEVERITIES)

OUTCOME_NAMES = ("violation", "no_violation", "no_access", "not_visited", "duplicate")
"""How complaints are closed; not visited means put away after too long a wait."""
VIOLATION, NO_VIOLATION, NO_ACCESS, NOT_VISITED, DUPLICATE = range(len(OUTCOME_NAMES))


@dataclass(frozen=True)
class BacklogShape:
    """How a domain counts time and ages."""

    steps_per_day: int
    bin_steps: int
    """steps between two ticks, at which all ages move on"""
    n_ages: int
    max_steps: int
    """steps of an episode"""
    most_arrivals: int
    """cases of one place and code that one step can bring: beyond it the law is cut off"""

    @property
    def bin_days(self) -> float:
        """Width of an age."""
        return self.bin_steps / self.steps_per_day

    @property
    def timely(self) -> np.ndarray:
        """Whether a visit at the start of an age keeps the service level, (4, A)."""
        ages = np.arange(self.n_ages) * self.bin_days
        levels = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])
        return (ages[None, :] < levels[:, None]).astype(np.float32)

    @property
    def code_then_age(self) -> np.ndarray:
        """Today's order of the cells, (4 A,): the graver code first, then who waited longest."""
        code, age = np.divmod(np.arange(N_CODES * self.n_ages), self.n_ages)
        return (1000.0 * (N_CODES - 1 - code) + age).astype(np.float32)


class BacklogParams(NamedTuple):
    """The process behind a backlog: P places, 4 codes, A ages, S starts; rates per day."""

    cases_per_day: jax.Array
    """(P, 4) first reports"""
    week: jax.Array
    """(steps of a week,) arrivals by step of the week, mean 1, from Monday 0 h"""
    season: jax.Array
    """(12,) arrivals by month, mean 1"""
    repeats_per_day: jax.Array
    """() further reports of a waiting case"""
    mix: jax.Array
    """(P, 6) share of each stratum among a place's cases"""
    unreported_per_day: jax.Array
    """(P, 4) actionable incidents that nobody reports"""
    unreported_mix: jax.Array
    """(P, 6) share of each stratum among them"""
    unreported_incidents: jax.Array
    """(6,) all incidents that nobody reports, by stratum"""
    chance: jax.Array
    """(P, 4) chance that a case warrants a violation while its incident lasts"""
    there: jax.Array
    """(A,) chance that the incident still lasts at that age"""
    access: jax.Array
    """(P,) chance that a visit gets in"""
    returns: jax.Array
    """() share of the cases without access that stay in line"""
    put_away_per_day: jax.Array
    """() rate at which cases of the last age are closed unvisited"""
    lifetime_days: jax.Array
    """() mean life of an actionable incident"""
    n_addresses: jax.Array
    """(P,) addresses among which a canvass looks"""
    start_waiting: jax.Array
    """(S, P, 4 A) backlogs an episode can start from"""
    start_slot: jax.Array
    """(S,) int32 step of the week at each start"""
    start_month: jax.Array
    """(S,) int32 month at each start, 0 = January"""
    start_actionable: jax.Array
    """(S, 6) actionable incidents in each start that can still be served in time, by stratum"""


class Backlog(NamedTuple):
    """Who waits, and the clock."""

    waiting: jax.Array
    """(P, 4 A) cases, by code then age, youngest first"""
    hidden: jax.Array
    """(P, 4) expected number of actionable incidents that are open and in nobody's line"""
    n_steps: jax.Array
    """() int32 steps since the start"""
    slot: jax.Array
    """() int32 step of the week"""
    month: jax.Array
    """() int32, the month of the start: episodes are no longer than one"""
    stock: jax.Array
    """(2, 6) actionable incidents in line at the start, and as many unreported ones as belong to
    them by their stratum's rate of reporting; zero after the first step"""


class BacklogService(NamedTuple):
    """What visits did: cases by place and cell are (P, 4 A)."""

    visited: jax.Array
    """cases visited"""
    closed: jax.Array
    """those that left the line, (P, 4 A)"""
    outcomes: jax.Array
    """(5,) complaints closed"""
    correct: jax.Array
    """(6,) visits that found something actionable within the service level, as a chance"""
    found: jax.Array
    """(P, 4 A) the same without regard to the service level"""


def start(params: BacklogParams, chance: jax.Array) -> tuple[Backlog, jax.Array]:
    """One of the recorded backlogs, chosen by a uniform number (), and which one."""
    n_starts = params.start_slot.shape[0]
    row = jnp.minimum((chance * n_starts).astype(jnp.int32), n_starts - 1)
    reported, unreported = needs_by_stratum(params)
    in_line = params.start_actionable[row]
    return Backlog(
        waiting=params.start_waiting[row],
        hidden=params.unreported_per_day * params.lifetime_days,
        n_steps=jnp.int32(0),
        slot=params.start_slot[row],
        month=params.start_month[row],
        stock=jnp.stack([in_line, in_line * unreported / jnp.maximum(reported, 1e-9)]),
    ), row


def carry_on(backlog: Backlog) -> Backlog:
    """The line at the end of an episode as the start of the next, a month on."""
    return backlog._replace(n_steps=jnp.int32(0), month=(backlog.month + 1) % 12)


def all_starts(params: BacklogParams) -> Backlog:
    """Every recorded backlog, with a leading axis (S,)."""
    n_starts = params.start_slot.shape[0]
    middles = (jnp.arange(n_starts) + 0.5) / n_starts
    return jax.vmap(lambda chance: start(params, chance)[0])(middles)


def poisson(chance: jax.Array, mean: jax.Array, largest: int) -> jax.Array:
    """Poisson numbers from uniform ones of any shape, cut off at `largest`."""
    term = jnp.exp(-mean)
    cumulative, count = term, jnp.zeros_like(chance)
    for number in range(1, largest + 1):
        count = count + (chance > cumulative)
        term = term * mean / number
        cumulative = cumulative + term
    return count


def arrival_rates(params: BacklogParams, backlog: Backlog, shape: BacklogShape) -> jax.Array:
    """Expected new cases of this step, (P, 4)."""
    level = params.week[backlog.slot] * params.season[backlog.month] / shape.steps_per_day
    return params.cases_per_day * level


def rounded(values: jax.Array, chance: jax.Array) -> jax.Array:
    """Whole numbers whose mean is `values`, decided by uniform numbers."""
    return jnp.floor(values + chance)


def take_in_order(counts: jax.Array, score: jax.Array, n_visits: jax.Array) -> jax.Array:
    """Cases visited among (n,) counts when the highest score (n,) is served first.

    A running count in any order, as one product: there is no sorting in a step. Equal scores are
    served in the order of the cells.
    """
    xp = namespace_of(counts, score, n_visits)
    return xp.clip(n_visits - counts @ comes_first(score), 0.0, counts)


def take_by_group(cells: jax.Array, score: jax.Array, n_visits: jax.Array) -> jax.Array:
    """Cases visited among (G, A) counts: groups by score (G,), in a group the oldest first."""
    xp = namespace_of(cells, score, n_visits)
    total = cells.sum(axis=1)
    allotted = xp.clip(n_visits - total @ comes_first(score), 0.0, total)
    n_ages = cells.shape[1]
    older = cells @ np.tril(np.ones((n_ages, n_ages), np.float32), -1)
    return xp.clip(allotted[:, None] - older, 0.0, cells)


def comes_first(score: jax.Array) -> jax.Array:
    """Matrix (n, n) that is 1 where the row is served before the column."""
    n = score.shape[0]
    earlier = np.arange(n)[:, None] < np.arange(n)[None, :]
    ahead = (score[:, None] > score[None, :]) | ((score[:, None] == score[None, :]) & earlier)
    return ahead.astype(np.float32)


def serve(
    params: BacklogParams,
    backlog: Backlog,
    visited: jax.Array,
    chance: jax.Array,
    shape: BacklogShape,
) -> tuple[Backlog, BacklogService]:
    """Close the visited cases (P, 4 A); some without access stay in line.

    `chance` () is uniform and decides how many of those there are.
    """
    n_places, n_cells = visited.shape
    share_staying = (1.0 - params.access) * params.returns
    stay = jnp.minimum(rounded(visited * share_staying[:, None], chance), visited)
    closed = settle(visited - stay)
    # Among the visits that closed their case, this share got in.
    inside = params.access / (1.0 - share_staying)
    # Sums over ages by code, all at once: incidents that last, those in time, and cases.
    of_code = np.repeat(np.eye(N_CODES, dtype=np.float32), shape.n_ages, axis=0)
    there = jnp.tile(params.there, N_CODES)[:, None]
    timely = shape.timely.reshape(n_cells)[:, None]
    sums = closed @ jnp.concatenate([of_code * there, of_code * there * timely, of_code], axis=1)
    lasting, in_time, counts = sums[:, :4], sums[:, 4:8], sums[:, 8:]
    correct = ((in_time * params.chance).sum(axis=1) * inside) @ params.mix
    # Who did not get in leaves the incident open, and nobody on the case.
    actionable = lasting * params.chance
    left_open = actionable * (1.0 - inside)[:, None]
    n_found, n_closed = (actionable.sum(axis=1) * inside).sum(), counts.sum()
    n_shut = (counts.sum(axis=1) * (1.0 - inside)).sum()
    none = jnp.zeros((), jnp.float32)
    outcomes = jnp.stack([n_found, n_closed - n_found - n_shut, n_shut, none, none])
    likely = (params.chance[:, :, None] * params.there).reshape(n_places, n_cells)
    found = closed * likely * inside[:, None]
    moved = backlog._replace(waiting=backlog.waiting - closed, hidden=backlog.hidden + left_open)
    return moved, BacklogService(visited, closed, outcomes, correct, found)


def grow_older(
    params: BacklogParams,
    backlog: Backlog,
    chance: jax.Array,
    shape: BacklogShape,
) -> tuple[Backlog, jax.Array]:
    """Let a step pass: ages move on together, the oldest may be put away; closed (P, 4).

    `chance` (P, 4) is uniform. Ages are cohorts: all that came in between two ticks.
    """
    n_places = backlog.waiting.shape[0]
    cells = backlog.waiting.reshape(n_places, N_CODES, -1)
    oldest = cells[:, :, -1]
    leaving = rounded(oldest * (params.put_away_per_day / shape.steps_per_day), chance)
    leaving = jnp.minimum(leaving, oldest)
    n_steps = backlog.n_steps + 1
    is_tick = n_steps % shape.bin_steps == 0
    given_up = leaving * params.chance * params.there[-1]
    last = oldest - leaving + jnp.where(is_tick, cells[:, :, -2], 0.0)
    moved = jnp.concatenate([jnp.zeros_like(cells[:, :, :1]), cells[:, :, :-2]], axis=2)
    younger = jnp.where(is_tick, moved, cells[:, :, :-1])
    aged = jnp.concatenate([younger, last[:, :, None]], axis=2)
    days = 1.0 / shape.steps_per_day
    hidden = backlog.hidden + params.unreported_per_day * days + given_up
    return Backlog(
        waiting=aged.reshape(n_places, -1),
        hidden=hidden - backlog.hidden * days / params.lifetime_days,
        n_steps=n_steps,
        slot=(backlog.slot + 1) % params.week.shape[0],
        month=backlog.month,
        stock=jnp.zeros_like(backlog.stock),
    ), leaving


def take_in(backlog: Backlog, arrived: jax.Array) -> Backlog:
    """Add new cases (P, 4) at the youngest age."""
    n_places = backlog.waiting.shape[0]
    cells = backlog.waiting.reshape(n_places, N_CODES, -1)
    rest = jnp.zeros((n_places, N_CODES, cells.shape[2] - 1), jnp.float32)
    added = jnp.concatenate([arrived[:, :, None], rest], axis=2)
    return backlog._replace(waiting=(cells + added).reshape(n_places, -1))


def steps_ahead(
    params: BacklogParams, n_steps: jax.Array, shape: BacklogShape
) -> tuple[jax.Array, jax.Array]:
    """Steps to the end of the episode that a case of each age would still wait unvisited.

    Returns all of them and those spent in the last age, (A,) each: what closing it now saves.
    """
    xp = namespace_of(params.put_away_per_day, n_steps)
    n_ages = shape.n_ages
    left = xp.maximum(shape.max_steps - n_steps, 0).astype(np.float32)
    ticks = (n_ages - 1 - np.arange(n_ages)) * shape.bin_steps
    # A case that reaches the last age at this step's tick is counted there at this step's end.
    until = xp.maximum(ticks - (n_steps % shape.bin_steps) - 1, 0).astype(np.float32)
    until = xp.where(np.arange(n_ages) == n_ages - 1, np.float32(0.0), until)
    late = xp.maximum(left - until, 0.0)
    leaving = xp.maximum(params.put_away_per_day / shape.steps_per_day, 1e-7)
    # It is put away with this chance a step: the wait is that of a geometric law, cut off.
    stays = 1.0 - leaving
    expected = (1.0 - xp.exp(late * xp.log(stays))) / leaving
    is_oldest = np.arange(n_ages) == n_ages - 1
    expected = xp.where(is_oldest, expected * stays, expected)
    late = xp.where(params.put_away_per_day > 0, expected, late)
    return settle((xp.minimum(until, left) + late, late))


def lasting_steps(params: BacklogParams, n_steps: jax.Array, shape: BacklogShape) -> jax.Array:
    """Steps to the end of the episode in which the incident of a waiting case lasts, (A,).

    Counted as the line counts it: by the chance `there` of every age the case passes through.
    """
    n_ages, bin_steps = shape.n_ages, shape.bin_steps
    left = jnp.maximum(shape.max_steps - n_steps, 0).astype(jnp.float32)
    here = (bin_steps - 1 - n_steps % bin_steps).astype(jnp.float32)
    ahead = np.arange(n_ages)[None, :] - np.arange(n_ages)[:, None]
    begins = jnp.where(ahead == 0, 0.0, here + (ahead - 1) * bin_steps)
    length = jnp.where(ahead == 0, here, float(bin_steps))
    length = jnp.where(np.arange(n_ages)[None, :] == n_ages - 1, 1e9, length)
    spent = jnp.where(ahead >= 0, jnp.clip(left - begins, 0.0, length), 0.0)
    return spent @ params.there / params.there


def canvass(
    params: BacklogParams, backlog: Backlog, here: jax.Array, n_visits: jax.Array
) -> tuple[Backlog, jax.Array, jax.Array]:
    """Look where nobody called: visits () to addresses shared by the places `here` (P,) bool.

    Returns the backlog, the actionable incidents found (P, 4) and the visits by stratum (6,).
    """
    there = jnp.where(here[:, None], backlog.hidden, 0.0)
    rate = there / jnp.maximum(params.n_addresses, 1.0)[:, None]
    rate = rate * params.access[:, None] / jnp.maximum(rate.sum(), 1.0)
    found = jnp.minimum(n_visits * rate, backlog.hidden)
    strata = here.astype(jnp.float32) @ params.unreported_mix / jnp.maximum(here.sum(), 1)
    moved = backlog._replace(hidden=backlog.hidden - found)
    return moved, found, n_visits * strata


class Beginning(NamedTuple):
    """What began and was reported in a step, by stratum (6,)."""

    complaints: jax.Array
    incidents: jax.Array
    actionable: jax.Array
    reported_actionable: jax.Array


def count_beginning(
    params: BacklogParams,
    before: Backlog,
    arrived: jax.Array,
    n_repeats: jax.Array,
    shape: BacklogShape,
) -> Beginning:
    """Counts of new cases (P, 4) and further reports (P,); what nobody reports is expected.

    The first step also counts what was in line at the start: it can be served in the episode, so
    it belongs to what coverage divides by, with its share of what nobody reported.
    """
    cases = arrived.sum(axis=1) @ params.mix
    actionable = (arrived * params.chance).sum(axis=1) @ params.mix
    hidden = params.unreported_per_day.sum(axis=1) @ params.unreported_mix / shape.steps_per_day
    stock = before.stock.sum(axis=0)
    return Beginning(
        complaints=cases + n_repeats @ params.mix,
        incidents=cases + params.unreported_incidents / shape.steps_per_day + stock,
        actionable=actionable + hidden + stock,
        reported_actionable=actionable + before.stock[0],
    )


def needs_by_stratum(params: BacklogParams) -> tuple[jax.Array, jax.Array]:
    """Actionable incidents that begin per day, reported and not, by stratum (6,) each."""
    reported = (params.cases_per_day * params.chance).sum(axis=1) @ params.mix
    return reported, params.unreported_per_day.sum(axis=1) @ params.unreported_mix


def need_by_stratum(params: BacklogParams) -> jax.Array:
    """Actionable incidents that begin per day, by stratum (6,)."""
    reported, unreported = needs_by_stratum(params)
    return reported + unreported


def incidents_by_stratum(params: BacklogParams) -> jax.Array:
    """All incidents that begin per day, reported or not, by stratum (6,)."""
    return params.cases_per_day.sum(axis=1) @ params.mix + params.unreported_incidents


def life_ahead(params: BacklogParams, n_steps: jax.Array, shape: BacklogShape) -> jax.Array:
    """Days to the end of the episode that an incident in nobody's line is expected to last, ()."""
    xp = namespace_of(params.lifetime_days, n_steps)
    left = xp.maximum(shape.max_steps - n_steps, 0) / shape.steps_per_day
    return params.lifetime_days * (1.0 - xp.exp(-left / params.lifetime_days))


def place_prices(params: BacklogParams, prices: jax.Array | np.ndarray) -> jax.Array:
    """Coverage price of each place (P,): that of the strata its cases come from."""
    return params.mix @ prices[:N_STRATA]
