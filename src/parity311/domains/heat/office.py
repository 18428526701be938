"""An intake office with finite inspectors: the bounded table of open incidents behind a queue.

One row is one incident, from the moment it begins until nobody deals with it any more, whether
anybody reported it or not. Queue domains share this bookkeeping; what a complaint looks like and
what an action means stays in the domain. Complaints are conserved: those that arrived are either
closed with one of five outcomes or still open in a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp
from parity311.engines.positions import first_of_smallest
from parity311.engines.trips import SHARED_TIME
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


_UP_TO_HERE = np.triu(np.ones((N_ROWS, N_ROWS), np.float32))


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
    chance: jax.Array
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
    chance: jax.Array
    """chance of being actionable, as far as the office can tell"""
    actionable: jax.Array
    """whether it is, which only a visit finds out"""
    report_rate: jax.Array
    """reports per day while it is open"""
    ends: jax.Array
    """when it ends by itself, or when the repair is finished"""
    next_report: jax.Array
    first_report: jax.Array
    last_known: jax.Array
    """when it was last known to be open: its latest report, or a call"""
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
    is_shared: jax.Array
    """whether its visit shares a trip"""
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


class OfficeWork(NamedTuple):
    """What the office did in a step."""

    outcomes: jax.Array
    """(5,) complaints closed"""
    correct: jax.Array
    """(6,) first visits that found something actionable within the service level"""
    visits: jax.Array
    """(6,) visits made"""
    hours: jax.Array
    """() visits' worth of inspector time: less on a shared trip"""
    days_avoided: jax.Array
    """(N_ROWS,) days by which a row's incident will end earlier"""
    expected_days: jax.Array
    """(N_ROWS,) the same as the office could expect it, without knowing what it would find"""
    expected_correct: jax.Array
    """(6,) correct escalations as the office could expect them"""


def empty_office() -> Office:
    """An office with nobody waiting."""
    zero = jnp.zeros(N_ROWS, jnp.int32)
    number = jnp.zeros(N_ROWS, jnp.float32)
    no = jnp.zeros(N_ROWS, bool)
    return Office(
        status=zero, stratum=zero, kind=zero, urgency=zero, hazard=number, chance=number,
        actionable=no, report_rate=number, ends=number, next_report=number + NEVER,
        first_report=number, last_known=number, since=number, came_in=number, wake=number,
        n_open=zero, n_reports=zero, attempts=zero, is_shared=no, is_waiting=no, n_extra=zero,
        now=jnp.float32(0.0), allowance=jnp.float32(0.0), n_turned_away=jnp.int32(0),
    )  # fmt: skip


def by_stratum(office: Office, values: jax.Array) -> jax.Array:
    """Add up a value per row by stratum, (6,); a product, for the reason of `time_ahead`."""
    groups = (office.stratum[:, None] == jnp.arange(N_STRATA)).astype(jnp.float32)
    return values.astype(jnp.float32) @ groups


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
        is_shared=office.is_shared & ~rows,
        is_waiting=office.is_waiting & ~rows,
        n_extra=jnp.where(rows & (jnp.asarray(status) != SERVED), 0, office.n_extra),
    )


def waiting_rows(office: Office) -> jax.Array:
    """Rows with something to classify, (N_ROWS,) bool."""
    return (office.status == INTAKE) | office.is_waiting


def next_to_classify(office: Office) -> tuple[jax.Array, jax.Array]:
    """Row of the complaint to classify next, and whether there is one.

    The graver code first, then who has waited longest.
    """
    is_waiting = waiting_rows(office)
    order = office.urgency.astype(jnp.float32) * 1e4 + office.came_in
    return first_of_smallest(jnp.where(is_waiting, order, NEVER)), is_waiting.any()


def add_arrivals(office: Office, arrivals: Arrivals) -> tuple[Office, jax.Array]:
    """Put new incidents into free rows; returns the office and how many found room."""
    is_free = office.status == FREE
    # A running count as a product: cumsum on a CPU compares every row with every other.
    place = (is_free.astype(jnp.float32) @ _UP_TO_HERE).astype(jnp.int32) - 1
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
        chance=fill(office.chance, arrivals.chance),
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
        last_known=jnp.where(is_report, office.now, office.last_known),
        next_report=jnp.where(
            is_report, jnp.where(falls_silent, NEVER, next_report), office.next_report
        ),
        n_open=office.n_open + (is_report & ~closed_at_once),
        n_reports=office.n_reports + is_report,
        is_waiting=office.is_waiting | is_missed,
    )
    return office, closed_as(DUPLICATE, closed_at_once), received, is_first


def no_work() -> OfficeWork:
    """Nothing was done."""
    none = jnp.zeros(N_STRATA, jnp.float32)
    return OfficeWork(
        jnp.zeros(len(OUTCOME_NAMES), jnp.float32),
        none,
        none,
        jnp.float32(0.0),
        jnp.zeros(N_ROWS, jnp.float32),
        jnp.zeros(N_ROWS, jnp.float32),
        none,
    )


def classify(
    params: OfficeParams, office: Office, action: jax.Array, put_off_days: float
) -> tuple[Office, OfficeWork]:
    """Apply one classification (0 inspect, 1 batch, 2 defer) to the complaint whose turn it is.

    An unrecognised duplicate of a case in hand is closed unless an inspection is ordered, which
    then only costs a visit. Any other action leaves the complaint where it is. Everything is
    worked out for the one row, then written into it.
    """
    row, there_is_one = next_to_classify(office)
    there_is_one &= action <= 2
    here = _at(row, there_is_one)
    is_new = office.status[row] == INTAKE
    new_case = _at(row, there_is_one & is_new)
    closes = there_is_one & ~is_new & (action != 0)
    n_closed = jnp.where(closes, jnp.minimum(office.n_open[row], 1), 0)
    pause = jnp.where(action == 2, put_off_days, params.lead[office.urgency[row]])
    orders_visit = _at(row, there_is_one & ~is_new & (action == 0))
    office = office._replace(
        status=jnp.where(new_case, jnp.array([QUEUED, BATCHED, DEFERRED])[action], office.status),
        since=jnp.where(new_case, office.now, office.since),
        wake=jnp.where(new_case, office.now + pause, office.wake),
        n_open=office.n_open - jnp.where(here, n_closed, 0),
        is_waiting=office.is_waiting & ~here,
        n_extra=office.n_extra + orders_visit,
    )
    return office, no_work()._replace(outcomes=closed_as(DUPLICATE, n_closed))


def _at(row: jax.Array, condition: jax.Array) -> jax.Array:
    """Mask (N_ROWS,) of one row, or of none where the condition fails."""
    return jnp.arange(N_ROWS) == jnp.where(condition, row, -1)


def visitable_rows(office: Office) -> jax.Array:
    """Rows an inspector could be sent to now, (N_ROWS,) bool."""
    is_case = (office.status == QUEUED) & (office.wake <= office.now)
    return is_case | ((office.status == SERVED) & (office.n_extra > 0))


def queue_order(office: Office) -> jax.Array:
    """Place in the queue: severity code first, then who has waited longest; smaller is earlier."""
    return office.urgency.astype(jnp.float32) * 1e4 + office.since


def visit_next(
    params: OfficeParams, office: Office, work: OfficeWork, chance: jax.Array
) -> tuple[Office, OfficeWork]:
    """Send an inspector to the first case in the queue, if the allowance covers the visit.

    `chance` () is uniform and decides about access.
    """
    can_visit = visitable_rows(office)
    row = first_of_smallest(jnp.where(can_visit, queue_order(office), jnp.inf))
    status, stratum = office.status[row], office.stratum[row]
    cost = jnp.where(office.is_shared[row] & (status == QUEUED), SHARED_TIME, 1.0)
    goes = can_visit[row] & (office.allowance >= cost)
    is_case = goes & (status == QUEUED)
    is_wasted = goes & (status == SERVED)
    gets_in = chance < params.access[stratum]
    ends = office.ends[row]
    is_open = ends > office.now
    found = is_case & gets_in & office.actionable[row] & is_open
    closes = is_case & (gets_in | (office.attempts[row] + 1 >= params.max_attempts))
    # A case closed without access leaves the incident open: somebody may report it anew.
    left = jnp.where(found, SERVED, jnp.where(gets_in | ~is_open, FREE, UNREPORTED))
    repaired = jnp.minimum(ends, office.now + params.repair)
    days, correct = expect_visit(params, office, row, jnp.float32(0.0))
    # The office has no finer clock than its slots: 24 hours means by the next day.
    waited = jnp.floor(office.now) - jnp.floor(office.first_report[row])
    in_time = waited <= params.service_level[office.urgency[row]]
    n_open = office.n_open[row]
    outcome = jnp.where(found, VIOLATION, jnp.where(gets_in, NO_VIOLATION, NO_ACCESS))
    n_closed = jnp.where(closes, n_open, jnp.where(is_wasted, jnp.minimum(n_open, 1), 0))
    outcome = jnp.where(is_wasted, DUPLICATE, outcome)
    here, group = _at(row, goes), jnp.arange(N_STRATA) == stratum
    case_here, closed_here = _at(row, is_case), _at(row, closes)
    work = OfficeWork(
        outcomes=work.outcomes + jnp.where(jnp.arange(5) == outcome, n_closed, 0),
        correct=work.correct + (group & found & in_time),
        visits=work.visits + (group & goes),
        hours=work.hours + jnp.where(goes, cost, 0.0),
        days_avoided=work.days_avoided + jnp.where(_at(row, found), ends - repaired, 0.0),
        expected_days=work.expected_days + jnp.where(case_here, days, 0.0),
        expected_correct=work.expected_correct + jnp.where(group & is_case, correct, 0.0),
    )
    office = office._replace(
        status=jnp.where(closed_here, left, office.status),
        allowance=office.allowance - jnp.where(goes, cost, 0.0),
        ends=jnp.where(_at(row, found), repaired, office.ends),
        attempts=jnp.where(closed_here, 0, office.attempts + case_here),
        wake=jnp.where(case_here, office.now + 1.0, office.wake),
        n_open=office.n_open - jnp.where(here, n_closed, 0),
        is_shared=office.is_shared & ~closed_here,
        is_waiting=office.is_waiting & ~closed_here,
        n_extra=jnp.where(closed_here & ~found, 0, office.n_extra - _at(row, is_wasted)),
    )
    return office, work


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
        last_known=jnp.where(comes_back, office.now, office.last_known),
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
        status=jnp.where(moves, QUEUED, office.status), is_shared=office.is_shared | moves
    )


def time_ahead(order: jax.Array, time: jax.Array) -> jax.Array:
    """Inspector time due up to and including each row's own visit, (N_ROWS,).

    Every row against every other, as a matrix product: a sum would be recomputed by everything
    that reads it, which costs fifty times as much on a CPU.
    """
    return time @ (order[:, None] <= order[None, :]).astype(jnp.float32)


def chance_open(params: OfficeParams, days: jax.Array) -> jax.Array:
    """Chance that the incident of a case in line is open, so many days after it last was.

    Lifetimes are memoryless, and so are the calls that take cases off the line whose incident has
    ended: that no call has done so is itself a sign.
    """
    ending = 1.0 / params.lifetime[1]
    # The formula has no value where both rates agree; a hair's breadth beside it does as well.
    calling = 1.0 / params.call_back + 1e-3
    still_open = jnp.exp(-ending * days)
    over_unnoticed = ending * (still_open - jnp.exp(-calling * days)) / (calling - ending)
    return still_open / (still_open + jnp.maximum(over_unnoticed, 0.0))


def expect_visit(
    params: OfficeParams, office: Office, rows: jax.Array, wait: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Days that visits to these rows after a wait would avoid, and the chance that each counts."""
    life = params.lifetime[1]
    known_for = jnp.maximum(office.now - office.last_known[rows], 0.0)
    is_open = chance_open(params, known_for) * jnp.exp(-wait / life)
    chance = office.chance[rows] * params.access[office.stratum[rows]] * is_open
    days = jnp.floor(office.now + wait) - jnp.floor(office.first_report[rows])
    in_time = days <= params.service_level[office.urgency[rows]]
    return chance * life * jnp.exp(-params.repair / life), jnp.where(in_time, chance, 0.0)


def work_in_hand(
    params: OfficeParams, office: Office, capacity: jax.Array, pool_wait: jax.Array
) -> OfficeWork:
    """What the visits already ordered are expected to bring, given where each stands in line.

    Training credits a decision with the change of this, at the time of the decision. What a visit
    brings is expected, not found out, at the visit too, so that chance outcomes do not drown what
    the decision did; over many episodes both add up to the same.
    """
    in_queue = (office.status == QUEUED) | ((office.status == SERVED) & (office.n_extra > 0))
    in_pool = office.status == BATCHED
    time = jnp.where(in_queue, jnp.where(office.is_shared, SHARED_TIME, 1.0), 0.0)
    ahead = time_ahead(queue_order(office), time) - office.allowance
    wait = jnp.maximum(ahead, 0.0) / jnp.maximum(capacity, 1e-6)
    pooled = time.sum() / jnp.maximum(capacity, 1e-6)
    wait = jnp.where(in_pool, pool_wait + pooled, wait)
    wait = jnp.maximum(wait, jnp.where(in_queue, office.wake - office.now, 0.0))
    is_case = (office.status == QUEUED) | in_pool
    # A case that will not be reached before it is put away brings nothing.
    is_reached = is_case & (office.now + wait - office.since <= params.expiry)
    days, correct = expect_visit(params, office, jnp.arange(N_ROWS), wait)
    ordered = is_case | in_queue
    hours = jnp.where(in_pool | (office.is_shared & is_case), SHARED_TIME, 1.0)
    return no_work()._replace(
        hours=jnp.where(ordered, hours, 0.0).sum(),
        expected_days=jnp.where(is_reached, days, 0.0),
        expected_correct=by_stratum(office, jnp.where(is_reached, correct, 0.0)),
    )
