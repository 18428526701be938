"""An intake office with finite inspectors: the bounded table of open incidents behind a queue.

One row is one incident, from the moment it begins until nobody deals with it any more, whether
anybody reported it or not. Queue domains share this bookkeeping; what a complaint looks like and
what an action means stays in the domain. Complaints are conserved: those that arrived are either
closed with one of five outcomes or still open in a row.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from parity311.mdp.contract import N_STRATA

FREE, UNREPORTED, INTAKE, QUEUED, BATCHED, DEFERRED, SERVED = range(7)
"""Status of a row: empty; nobody called; waiting to be classified; waiting for an inspector; in
the pool of joint visits; put off; violation issued and not yet repaired."""

OUTCOME_NAMES = ("violation", "no_violation", "no_access", "not_visited", "duplicate")
"""How complaints are closed: the paper's five classes are not named; these are the ones its data
show. Not visited: it ended by itself and a call found out, or it waited too long and was put away.
"""
VIOLATION, NO_VIOLATION, NO_ACCESS, NOT_VISITED, DUPLICATE = range(5)

N_ROWS = 64
"""Incidents the table can hold; arrivals beyond it are turned away and counted."""

MAX_ARRIVALS = 6
"""New incidents one step can take in; at 1.5 expected, one step in 10,000 has more."""

NEVER = 1e9
"""A time, in days, that never comes."""


class OfficeParams(NamedTuple):
    """How incidents end, are reported and are visited; times in days."""

    silence: jax.Array
    """() chance that nobody reports an incident again after its first report"""
    linked: jax.Array
    """() chance that a further report is recognised as a duplicate when it arrives"""
    lifetime: jax.Array
    """(2,) mean days until an incident ends by itself: not actionable, actionable"""
    repair: jax.Array
    """() days from a violation to the repair"""
    access: jax.Array
    """(6,) chance that a visit gets in, by stratum"""
    capacity: jax.Array
    """(12,) visits the inspectors can make per day, by month"""
    lead: jax.Array
    """(4,) days before a visit can be made, by severity code A to D"""
    service_level: jax.Array
    """(4,) days within which a visit counts as service, by severity code A to D"""
    max_attempts: jax.Array
    """() visits without access after which a case is closed"""
    call_back: jax.Array
    """() mean days until a call finds out that an incident in line has ended"""
    expiry: jax.Array
    """() days in line after which a case is put away unvisited"""


class Arrivals(NamedTuple):
    """Candidates for new rows, (MAX_ARRIVALS,) each; the first `n` are real."""

    n: jax.Array
    stratum: jax.Array
    kind: jax.Array
    urgency: jax.Array
    hazard: jax.Array
    actionable: jax.Array
    report_rate: jax.Array
    lifetime: jax.Array
    report_delay: jax.Array


class Office(NamedTuple):
    """The table, (N_ROWS,) each, then the clock and the inspectors; times in days."""

    status: jax.Array
    stratum: jax.Array
    kind: jax.Array
    urgency: jax.Array
    """severity code, 0 = A … 3 = D: the queue is served in this order, then by waiting time"""
    hazard: jax.Array
    """severity weight of one day unresolved"""
    actionable: jax.Array
    report_rate: jax.Array
    """reports per day while it is open"""
    ends: jax.Array
    """when it ends by itself, or when the repair is finished"""
    next_report: jax.Array
    first_report: jax.Array
    since: jax.Array
    """when it entered the queue or the pool"""
    came_in: jax.Array
    """when the complaint to classify came in"""
    wake: jax.Array
    """when a deferred case comes back, or a case without access may be visited again"""
    n_open: jax.Array
    """complaints of this row that are not closed"""
    n_reports: jax.Array
    """complaints this incident has had"""
    attempts: jax.Array
    is_half: jax.Array
    """whether its visit shares a trip and takes half the time"""
    is_waiting: jax.Array
    """whether an unrecognised duplicate waits to be classified"""
    n_extra: jax.Array
    """visits ordered by mistake, for duplicates"""
    now: jax.Array
    """() days since the start of the episode"""
    allowance: jax.Array
    """() visits the inspectors could make now"""
    n_turned_away: jax.Array
    """() incidents the table had no room for"""


class Work(NamedTuple):
    """What the office did in a step."""

    outcomes: jax.Array
    """(5,) complaints closed"""
    correct: jax.Array
    """(6,) first visits that found something actionable within the service level"""
    visits: jax.Array
    """(6,) visits made"""
    hours: jax.Array
    """() visits' worth of inspector time: a shared trip counts half"""
    days_avoided: jax.Array
    """(N_ROWS,) days by which a row's incident will end earlier"""


def empty_office() -> Office:
    """An office with nobody waiting."""
    zero = jnp.zeros(N_ROWS, jnp.int32)
    number = jnp.zeros(N_ROWS, jnp.float32)
    no = jnp.zeros(N_ROWS, bool)
    return Office(
        status=zero, stratum=zero, kind=zero, urgency=zero, hazard=number, actionable=no,
        report_rate=number, ends=number, next_report=number + NEVER, first_report=number,
        since=number, came_in=number, wake=number,
        n_open=zero, n_reports=zero, attempts=zero, is_half=no, is_waiting=no, n_extra=zero,
        now=jnp.float32(0.0), allowance=jnp.float32(0.0), n_turned_away=jnp.int32(0),
    )  # fmt: skip


def by_stratum(office: Office, values: jax.Array) -> jax.Array:
    """Add up a value per row by stratum, (6,)."""
    groups = jnp.arange(N_STRATA)[:, None] == office.stratum
    return jnp.where(groups, values, 0).sum(axis=1).astype(jnp.float32)


def closed_as(outcome: int, complaints: jax.Array) -> jax.Array:
    """Complaints per row, all closed with one outcome: (5,). No scatter: it is slow on a CPU."""
    return jnp.where(jnp.arange(len(OUTCOME_NAMES)) == outcome, complaints.sum(), 0).astype(
        jnp.float32
    )


def close_rows(office: Office, rows: jax.Array, status: jax.Array | int) -> Office:
    """Close the open complaints of these rows (bool mask) and give them another status."""
    return office._replace(
        status=jnp.where(rows, status, office.status),
        n_open=jnp.where(rows, 0, office.n_open),
        attempts=jnp.where(rows, 0, office.attempts),
        is_half=office.is_half & ~rows,
        is_waiting=office.is_waiting & ~rows,
        n_extra=jnp.where(rows & (jnp.asarray(status) != SERVED), 0, office.n_extra),
    )


def waiting_rows(office: Office) -> jax.Array:
    """Rows with something to classify, (N_ROWS,) bool."""
    return (office.status == INTAKE) | office.is_waiting


def oldest_waiting(office: Office) -> tuple[jax.Array, jax.Array]:
    """Row of the complaint that has waited longest, and whether there is one."""
    is_waiting = waiting_rows(office)
    return jnp.argmin(jnp.where(is_waiting, office.came_in, NEVER)), is_waiting.any()


def add_arrivals(office: Office, arrivals: Arrivals) -> tuple[Office, jax.Array]:
    """Put new incidents into free rows; returns the office and how many found room."""
    is_free = office.status == FREE
    place = jnp.cumsum(is_free) - 1
    n_placed = jnp.minimum(arrivals.n, is_free.sum())
    is_new = is_free & (place < n_placed)
    source = jnp.clip(place, 0, MAX_ARRIVALS - 1)

    def fill(old: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.where(is_new, new[source], old)

    return office._replace(
        status=jnp.where(is_new, UNREPORTED, office.status),
        stratum=fill(office.stratum, arrivals.stratum),
        kind=fill(office.kind, arrivals.kind),
        urgency=fill(office.urgency, arrivals.urgency),
        hazard=fill(office.hazard, arrivals.hazard),
        actionable=fill(office.actionable, arrivals.actionable),
        report_rate=fill(office.report_rate, arrivals.report_rate),
        ends=fill(office.ends, office.now + arrivals.lifetime),
        next_report=fill(office.next_report, office.now + arrivals.report_delay),
        n_reports=jnp.where(is_new, 0, office.n_reports),
        n_turned_away=office.n_turned_away + arrivals.n - n_placed,
    ), n_placed


def receive_reports(
    params: OfficeParams, office: Office, chance: jax.Array, pause: jax.Array
) -> tuple[Office, jax.Array, jax.Array, jax.Array]:
    """Take in the reports that are due.

    `chance` (N_ROWS,) is uniform: a first report may be the last, a further one may go
    unrecognised, never both, so one number serves; `pause` (N_ROWS,) is exponential with mean 1.
    Returns the office, complaints closed at once by outcome (5,), complaints received by stratum
    (6,), and first reports by row (N_ROWS,) bool.
    """
    is_report = (office.status != FREE) & (office.next_report <= office.now)
    is_report &= office.next_report < office.ends
    next_report = office.now + pause / jnp.maximum(office.report_rate, 1e-9)
    is_first = is_report & (office.n_reports == 0)
    falls_silent = is_first & (chance < params.silence)
    comes_in = is_report & ((office.status == UNREPORTED) | (office.status == DEFERRED))
    in_hand = is_report & ((office.status == QUEUED) | (office.status == SERVED))
    is_missed = in_hand & (chance >= params.linked)
    starts_waiting = is_missed & ~office.is_waiting
    closed_at_once = is_report & (office.status == SERVED) & ~is_missed
    received = by_stratum(office, is_report)
    office = office._replace(
        status=jnp.where(comes_in, INTAKE, office.status),
        came_in=jnp.where(comes_in | starts_waiting, office.now, office.came_in),
        first_report=jnp.where(is_first, office.now, office.first_report),
        next_report=jnp.where(
            is_report, jnp.where(falls_silent, NEVER, next_report), office.next_report
        ),
        n_open=office.n_open + (is_report & ~closed_at_once),
        n_reports=office.n_reports + is_report,
        is_waiting=office.is_waiting | is_missed,
    )
    return office, closed_as(DUPLICATE, closed_at_once), received, is_first


def no_work() -> Work:
    """Nothing was done."""
    none = jnp.zeros(N_STRATA, jnp.float32)
    return Work(
        jnp.zeros(len(OUTCOME_NAMES), jnp.float32),
        none,
        none,
        jnp.float32(0.0),
        jnp.zeros(N_ROWS, jnp.float32),
    )


def classify(
    params: OfficeParams, office: Office, action: jax.Array, put_off_days: float
) -> tuple[Office, Work]:
    """Apply one classification (0 inspect, 1 batch, 2 defer) to the oldest waiting complaint.

    An unrecognised duplicate of a case in hand is closed unless an inspection is ordered, which
    then only costs a visit.
    """
    row, there_is_one = oldest_waiting(office)
    here = (jnp.arange(N_ROWS) == row) & there_is_one
    is_new = here & (office.status == INTAKE)
    is_duplicate = here & ~is_new
    orders_visit = is_duplicate & (action == 0)
    closes = is_duplicate & (action != 0)
    chosen = jnp.array([QUEUED, BATCHED, DEFERRED])[action]
    n_closed = jnp.where(closes, jnp.minimum(office.n_open, 1), 0)
    pause = jnp.where(action == 2, put_off_days, params.lead[office.urgency])
    office = office._replace(
        status=jnp.where(is_new, chosen, office.status),
        since=jnp.where(is_new, office.now, office.since),
        wake=jnp.where(is_new, office.now + pause, office.wake),
        n_open=office.n_open - n_closed,
        is_waiting=office.is_waiting & ~here,
        n_extra=office.n_extra + orders_visit,
    )
    work = no_work()
    return office, work._replace(outcomes=closed_as(DUPLICATE, n_closed))


def visitable_rows(office: Office) -> jax.Array:
    """Rows an inspector could be sent to now, (N_ROWS,) bool."""
    is_case = (office.status == QUEUED) & (office.wake <= office.now)
    return is_case | ((office.status == SERVED) & (office.n_extra > 0))


def queue_order(office: Office) -> jax.Array:
    """Place in the queue: severity code first, then who has waited longest; smaller is earlier."""
    return office.urgency.astype(jnp.float32) * 1e4 + office.since


def visit_next(
    params: OfficeParams, office: Office, work: Work, chance: jax.Array
) -> tuple[Office, Work]:
    """Send an inspector to the first case in the queue, if the allowance covers the visit.

    `chance` () is uniform and decides about access.
    """
    can_visit = visitable_rows(office)
    row = jnp.argmin(jnp.where(can_visit, queue_order(office), jnp.inf))
    cost = jnp.where(office.is_half[row] & (office.status[row] == QUEUED), 0.5, 1.0)
    goes = can_visit.any() & (office.allowance >= cost)
    here = (jnp.arange(N_ROWS) == row) & goes
    is_wasted = here & (office.status == SERVED)
    is_case = here & ~is_wasted
    gets_in = chance < params.access[office.stratum[row]]
    is_open = office.ends > office.now
    found = is_case & gets_in & office.actionable & is_open
    nothing = is_case & gets_in & ~found
    closes_unseen = is_case & ~gets_in & (office.attempts + 1 >= params.max_attempts)
    in_time = office.now - office.first_report <= params.service_level[office.urgency]
    repaired = jnp.minimum(office.ends, office.now + params.repair)
    n_open = office.n_open
    closed = jnp.stack(
        [
            jnp.where(found, n_open, 0).sum(),
            jnp.where(nothing, n_open, 0).sum(),
            jnp.where(closes_unseen, n_open, 0).sum(),
            jnp.int32(0),
            jnp.where(is_wasted, jnp.minimum(n_open, 1), 0).sum(),
        ]
    )
    work = Work(
        outcomes=work.outcomes + closed,
        correct=work.correct + by_stratum(office, found & in_time),
        visits=work.visits + by_stratum(office, here),
        hours=work.hours + jnp.where(goes, cost, 0.0),
        days_avoided=work.days_avoided + jnp.where(found, office.ends - repaired, 0.0),
    )
    office = office._replace(
        allowance=office.allowance - jnp.where(goes, cost, 0.0),
        ends=jnp.where(found, repaired, office.ends),
        attempts=office.attempts + is_case,
        wake=jnp.where(is_case, office.now + 1.0, office.wake),
        n_extra=office.n_extra - is_wasted,
        n_open=n_open - jnp.where(is_wasted, jnp.minimum(n_open, 1), 0),
    )
    office = close_rows(office, found, SERVED)
    # A case closed without access leaves the incident open: somebody may report it anew.
    office = close_rows(office, closes_unseen & is_open, UNREPORTED)
    return close_rows(office, nothing | (closes_unseen & ~is_open), FREE), work


def pass_time(
    params: OfficeParams, office: Office, days: float, chance: jax.Array
) -> tuple[Office, jax.Array]:
    """Let time pass: incidents end, deferred cases come back, tenants are called.

    `chance` (N_ROWS,) is uniform and decides who is called; it may be the one that decides about
    reports, because an incident that has ended has none.
    Returns the office and complaints closed by outcome (5,).
    """
    office = office._replace(now=office.now + days)
    is_over = office.ends <= office.now
    calls = chance < days / params.call_back
    in_line = (office.status == QUEUED) | (office.status == BATCHED)
    is_awake = (office.status == DEFERRED) & (office.wake <= office.now)
    expired = in_line & (office.now - office.since >= params.expiry)
    put_away = expired | (is_over & ((in_line & calls) | is_awake))
    comes_back = is_awake & ~is_over
    forgotten = is_over & ((office.status == UNREPORTED) | (office.status == SERVED))
    outcomes = closed_as(NOT_VISITED, jnp.where(put_away, office.n_open, 0))
    outcomes += closed_as(DUPLICATE, jnp.where(forgotten, office.n_open, 0))
    office = office._replace(
        status=jnp.where(comes_back, INTAKE, office.status),
        came_in=jnp.where(comes_back, office.now, office.came_in),
    )
    office = close_rows(office, put_away & ~is_over, UNREPORTED)
    return close_rows(office, (put_away & is_over) | forgotten, FREE), outcomes


def release_pool(office: Office, pool_size: int, longest_days: float) -> Office:
    """Move the pool into the queue as shared trips once it is full or somebody waits too long."""
    in_pool = office.status == BATCHED
    oldest = jnp.where(in_pool, office.since, NEVER).min()
    is_ready = (in_pool.sum() >= pool_size) | (office.now - oldest >= longest_days)
    moves = in_pool & is_ready
    return office._replace(
        status=jnp.where(moves, QUEUED, office.status), is_half=office.is_half | moves
    )


def time_ahead(order: jax.Array, time: jax.Array) -> jax.Array:
    """Inspector time due up to and including each row's own visit, (N_ROWS,).

    Every row against every other. The barriers keep the compiler from recomputing inputs or sums
    for each pair: on a CPU that costs fifty times as much.
    """
    order, time = jax.lax.optimization_barrier((order, time))
    ahead = jnp.where(order[:, None] <= order[None, :], time[:, None], 0.0).sum(axis=0)
    return jax.lax.optimization_barrier(ahead)


def work_in_hand(
    params: OfficeParams, office: Office, capacity: jax.Array, pool_wait_days: float
) -> Work:
    """What the visits already ordered are expected to bring, given where each stands in line.

    Training credits a decision with the change of this, at the time of the decision; the sum over
    an episode is what the visits really brought (up to what is still in hand at the end).
    """
    in_queue = (office.status == QUEUED) | ((office.status == SERVED) & (office.n_extra > 0))
    in_pool = office.status == BATCHED
    time = jnp.where(in_queue, jnp.where(office.is_half, 0.5, 1.0), 0.0)
    ahead = time_ahead(queue_order(office), time) - office.allowance
    wait = jnp.maximum(ahead, 0.0) / jnp.maximum(capacity, 1e-6)
    pooled = time.sum() / jnp.maximum(capacity, 1e-6)
    wait = jnp.where(in_pool, pool_wait_days + pooled, wait)
    visit_at = jnp.maximum(office.now + wait, jnp.where(in_queue, office.wake, 0.0))
    is_case = (office.status == QUEUED) | in_pool
    is_found = is_case & office.actionable & (office.ends > visit_at)
    chance = jnp.where(is_found, params.access[office.stratum], 0.0)
    in_time = visit_at - office.first_report <= params.service_level[office.urgency]
    hours = jnp.where(in_pool | (office.is_half & is_case), 0.5, 1.0)
    ordered = is_case | in_queue
    days = jnp.maximum(office.ends - visit_at - params.repair, 0.0)
    return Work(
        outcomes=jnp.zeros(len(OUTCOME_NAMES), jnp.float32),
        correct=by_stratum(office, chance * in_time),
        visits=by_stratum(office, ordered),
        hours=jnp.where(ordered, hours, 0.0).sum(),
        days_avoided=chance * days,
    )
