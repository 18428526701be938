"""One slot of an intake office: a complaint classified, visits made, time passed, reports in.

What a decision is worth is credited at its own time: as the change of what the visits already
ordered are expected to bring (`Promise`), plus what today's visits bring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from parity311.arrays import jax, jnp, settle
from parity311.domains.heat import office as engine
from parity311.domains.heat.arrivals import HeatDraws, choose, count_by_stratum, poisson
from parity311.domains.heat.canvass import canvass
from parity311.engines.trips import POOL_SIZE
from parity311.mdp.contract import N_REWARDS, N_STRATA, Tally


class OfficeProcess(NamedTuple):
    """The process an office of a few slots a day sees."""

    incidents_per_day: jax.Array
    """(6, 12) incidents that begin per day, by stratum and month, reported or not"""
    kind_shares: jax.Array
    """(6, n_kinds) share of each kind among a stratum's incidents"""
    actionable: jax.Array
    """(n_kinds,) chance that an incident of this kind warrants a violation"""
    report_rate: jax.Array
    """(6,) reports per day while an incident is open, by stratum"""
    buildings: jax.Array
    """(6,) buildings in the office's share of the city, by stratum"""
    office: engine.OfficeParams


@dataclass(frozen=True)
class OfficeRules:
    """How a domain's office works."""

    slots_per_day: int
    put_off_days: float
    """days after which a deferred complaint comes back"""
    pool_days: float
    """days after which a pool is visited though it is not full"""
    severity_weights: tuple[float, ...]
    """what one day unresolved weighs by severity code A to D"""
    units_by_kind: np.ndarray
    """(n_kinds,) dwelling units that stand for a kind; severity code is the kind's last part"""
    canvass_action: int
    """number of the action that looks where nobody called"""


class Promise(NamedTuple):
    """What the visits already ordered are expected to bring."""

    days: jax.Array
    """(2,) days avoided, weighted by severity, and by severity and units"""
    hours: jax.Array
    """() visits"""
    correct: jax.Array
    """(6,) correct escalations by stratum"""


class Slot(NamedTuple):
    """What one slot led to."""

    office: engine.Office
    promise: Promise
    days: jax.Array
    """(2,) weighted days that the decision and today's visits save"""
    hours: jax.Array
    """() visits they take"""
    burden: jax.Array
    """(2,) weighted days that actionable incidents stay open in this slot"""
    credit: jax.Array
    """(6,) correct escalations to be expected of them"""
    tally: Tally
    """without its published reward, which is the domain's to scale"""


def no_promise() -> Promise:
    """Nothing is ordered."""
    return Promise(jnp.zeros(2), jnp.float32(0.0), jnp.zeros(N_STRATA))


def pass_slot(
    rules: OfficeRules,
    params: OfficeProcess,
    office: engine.Office,
    promised: Promise,
    action: jax.Array,
    prices: jax.Array,
    draws: HeatDraws,
    month: jax.Array,
    log_rate: jax.Array,
) -> Slot:
    """Classify the complaint in hand, let the inspectors work, let the slot pass.

    `log_rate` () is added to the log of the rate at which incidents begin.
    """
    capacity = params.office.capacity[month]
    burden = weigh_days(rules, office, open_days(rules, office))
    # The barriers between stages keep the compiler from computing a stage again for every array
    # of the next.
    office, work = settle(engine.classify(params.office, office, action, rules.put_off_days))
    office = engine.release_pool(office, POOL_SIZE, rules.pool_days)
    allowance = office.allowance + capacity / rules.slots_per_day
    # Time not used is lost after a day: visits cannot be saved up.
    office = office._replace(allowance=jnp.minimum(allowance, jnp.maximum(capacity, 1.0)))
    office, work = canvass(
        params.office,
        office,
        work,
        prices=prices,
        buildings=params.buildings,
        is_chosen=action == rules.canvass_action,
        chance=draws.canvass,
    )
    for chance in draws.access:
        office, work = settle(engine.visit_next(params.office, office, work, chance))
    brought = weigh_days(rules, office, work.expected_days)
    days = 1.0 / rules.slots_per_day
    office, closed = settle(engine.pass_time(params.office, office, days, draws.rows))
    arrivals = draw_arrivals(rules, params, draws, month, log_rate)
    office, n_placed = engine.add_arrivals(office, arrivals)
    office, recognised, received, is_first = settle(
        engine.receive_reports(params.office, office, draws.rows, draws.pauses)
    )
    promise = promise_of(rules, params, office, month)
    gain = jax.tree.map(lambda new, old: new - old, promise, promised)
    is_new = jnp.arange(engine.MAX_ARRIVALS) < n_placed
    tally = Tally(
        published_reward=jnp.zeros(N_REWARDS, jnp.float32),
        correct=work.correct,
        counted=work.expected_correct,
        actionable=count_by_stratum(arrivals.stratum, is_new & arrivals.actionable),
        incidents=count_by_stratum(arrivals.stratum, is_new),
        reported_actionable=engine.by_stratum(office, is_first & office.actionable),
        complaints=received,
        visits=work.visits,
        hours=work.hours,
        outcomes=work.outcomes + closed + recognised,
    )
    return Slot(
        office=office,
        promise=promise,
        days=brought + gain.days,
        hours=work.hours + gain.hours,
        burden=burden,
        credit=work.expected_correct + gain.correct,
        tally=tally,
    )


def draw_arrivals(
    rules: OfficeRules,
    params: OfficeProcess,
    draws: HeatDraws,
    month: jax.Array,
    log_rate: jax.Array,
) -> engine.Arrivals:
    """Incidents that begin in this slot."""
    rates = params.incidents_per_day[:, month] / rules.slots_per_day
    expected = rates.sum() * jnp.exp(log_rate)
    stratum = choose(draws.new[0], jnp.cumsum(rates)[None])
    kind = choose(draws.new[1], jnp.cumsum(params.kind_shares, axis=1)[stratum])
    code = kind % len(rules.severity_weights)
    is_actionable = draws.new[2] < params.actionable[kind]
    rate = params.report_rate[stratum]
    return engine.Arrivals(
        n=poisson(draws.number, expected),
        stratum=stratum,
        kind=kind,
        urgency=code,
        hazard=jnp.asarray(rules.severity_weights, jnp.float32)[code],
        chance=params.actionable[kind],
        actionable=is_actionable,
        report_rate=rate,
        lifetime=-jnp.log(draws.new[3]) * params.office.lifetime[is_actionable.astype(jnp.int32)],
        report_delay=-jnp.log(draws.new[4]) / jnp.maximum(rate, 1e-9),
    )


def promise_of(
    rules: OfficeRules, params: OfficeProcess, office: engine.Office, month: jax.Array
) -> Promise:
    """What is in hand, given where every case stands in line."""
    # A pool fills with what comes in: on a guess, two cases of three.
    cases_per_day = jnp.dot(params.incidents_per_day[:, month], reported_share(params))
    missing = POOL_SIZE - (office.status == engine.BATCHED).sum()
    pool_wait = jnp.clip(1.5 * missing / jnp.maximum(cases_per_day, 1e-3), 0.0, rules.pool_days)
    work = engine.work_in_hand(params.office, office, params.office.capacity[month], pool_wait)
    return Promise(weigh_days(rules, office, work.expected_days), work.hours, work.expected_correct)


def reported_share(params: OfficeProcess) -> jax.Array:
    """Share of incidents somebody reports, by stratum (6,): reports and endings compete."""
    rate = params.report_rate * params.office.lifetime[1]
    return rate / (1.0 + rate)


def weigh_days(rules: OfficeRules, office: engine.Office, days: jax.Array) -> jax.Array:
    """Add up days by row, weighted by severity, and by severity and units: (2,)."""
    weighted = office.hazard * days
    units = jnp.asarray(rules.units_by_kind, jnp.float32)[office.kind]
    return jnp.stack([weighted.sum(), (weighted * units).sum()])


def open_days(rules: OfficeRules, office: engine.Office) -> jax.Array:
    """Days each actionable incident stays open in this slot, whether or not anybody called."""
    is_open = (office.status != engine.FREE) & office.actionable
    left = jnp.clip(office.ends - office.now, 0.0, 1.0 / rules.slots_per_day)
    return jnp.where(is_open, left, 0.0)


def stratum_in_hand(office: engine.Office) -> jax.Array:
    """Stratum of the complaint in hand; unknown in an empty slot."""
    row, there_is_one = engine.next_to_classify(office)
    return jnp.where(there_is_one, office.stratum[row], N_STRATA - 1)


def need_per_slot(rules: OfficeRules, params: OfficeProcess) -> jax.Array:
    """Actionable incidents that begin per slot, by stratum (6,)."""
    share = params.kind_shares @ params.actionable
    return params.incidents_per_day.mean(axis=1) * share / rules.slots_per_day


def most_visits(params: OfficeProcess) -> jax.Array:
    """Most visits of one slot: two turns of the queue and a canvass, or a day's time saved up."""
    return jnp.minimum(jnp.maximum(params.office.capacity.max(), 1.0) / engine.SHARED_TIME, 3.0)
