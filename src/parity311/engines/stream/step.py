"""One step of a stream of complaints: what an order comes to, the round's work, and the account.

The state and the params are in `parity311.engines.stream.process`.
"""

from __future__ import annotations

from typing import NamedTuple

from parity311.arrays import jax, jnp
from parity311.engines.stream.process import (
    CREW,
    MAX_VISITS,
    N_LEVELS,
    N_SEASONS,
    PUT_OFF,
    QUEUE_SLOTS,
    ROUND,
    SEASON_DAYS,
    CaseInHand,
    Queue,
    StreamParams,
    StreamShape,
    StreamState,
    describe_case,
    draw_cell,
    left_open,
    pick,
    severity_score,
    severity_weight,
    split_visits,
    waiting_factors,
)
from parity311.mdp.contract import N_STRATA, Tally, Transition


class Order(NamedTuple):
    """What an action comes to, given queue and crew; () bool each but `action`."""

    action: jax.Array
    to_crew: jax.Array
    to_round: jax.Array
    put_off: jax.Array


def resolve_order(params: StreamParams, state: StreamState, action: jax.Array) -> Order:
    """An order for a busy crew joins the round; one for a full round is put off."""
    wants = pick(params.actions.resource, action)
    to_crew = (wants == CREW) & ~state.is_crew_busy
    to_round = (wants != PUT_OFF) & ~to_crew & (state.n_queued < QUEUE_SLOTS)
    # In the round the visit is an ordinary one, whoever was asked for.
    taken = jnp.where(to_round, jnp.argmax(params.actions.resource == ROUND), action)
    return Order(taken.astype(jnp.int32), to_crew, to_round, ~(to_crew | to_round))


def resolve_price(
    shape: StreamShape, params: StreamParams, state: StreamState, price: jax.Array
) -> jax.Array:
    """What COVERAGE_PRICED dispatch comes to: a crew, if any, for code A, the round, or nobody.

    The severity score, raised by a factor e for one unit of the stratum's coverage price, against
    a bar that rises with the queue by what waiting behind it loses. The score knows only what the
    agency sees, not the chances of the process it is played in.
    """
    level = shape.level(state.kind)
    waiting = waiting_factors(params)[state.season]
    has_crew = (params.actions.resource == CREW).any()
    to_crew = (level == N_LEVELS - 1) & ~state.is_crew_busy & has_crew
    lost = jnp.where(to_crew, 1.0, pick(waiting, state.n_queued) / waiting[1])
    score = severity_score(shape, state.kind) * lost * jnp.exp(price)
    resource = jnp.where(to_crew, CREW, ROUND)
    resource = jnp.where(score >= params.priced_bar, resource, PUT_OFF)
    return jnp.argmax(params.actions.resource == resource).astype(jnp.int32)


class StreamWork(NamedTuple):
    """What the round did in a step."""

    days: jax.Array
    unit_days: jax.Array
    correct: jax.Array
    """(6,)"""
    visits: jax.Array
    """(6,)"""
    hours: jax.Array
    outcomes: jax.Array
    """(4,)"""


def _work_round(
    params: StreamParams,
    state: StreamState,
    case: CaseInHand,
    order: Order,
    saved: jax.Array,
    n_visits: jax.Array,
    days: jax.Array,
) -> tuple[Queue, jax.Array, StreamWork]:
    """Add the order to the queue, visit from its front, let time pass for the rest."""
    is_new = order.to_round & (jnp.arange(QUEUE_SLOTS) == state.n_queued)
    led = jnp.exp(-params.lead_days / params.lifetime_days)
    slack = pick(params.service_days, case.level) - params.lead_days
    fresh = Queue(
        saved * led, saved * led * case.units, case.chance * case.access * led, slack, state.stratum
    )
    queue = jax.tree.map(lambda old, new: jnp.where(is_new, new, old), state.queue, fresh)
    n_queued = state.n_queued + order.to_round
    n_visits = jnp.minimum(n_visits, n_queued)
    work = _visit_front(params, queue, n_visits)
    decay = jnp.exp(-days / params.lifetime_days)

    def move_up(values: jax.Array) -> jax.Array:
        padded = jnp.concatenate([values, jnp.zeros(MAX_VISITS, values.dtype)])
        moved = [padded[n : n + QUEUE_SLOTS] for n in range(MAX_VISITS + 1)]
        return jnp.where(n_visits == 0, moved[0], jnp.where(n_visits == 1, moved[1], moved[2]))

    rest = jax.tree.map(move_up, queue)
    rest = rest._replace(
        days=rest.days * decay,
        unit_days=rest.unit_days * decay,
        chance=rest.chance * decay,
        slack=rest.slack - days,
    )
    return rest, n_queued - n_visits, work


def _visit_front(params: StreamParams, queue: Queue, n_visits: jax.Array) -> StreamWork:
    goes = (jnp.arange(MAX_VISITS) < n_visits).astype(jnp.float32)
    front = jax.tree.map(lambda values: values[:MAX_VISITS], queue)
    groups = (front.stratum[:, None] == jnp.arange(N_STRATA)).astype(jnp.float32)
    found = goes * front.chance
    inside = goes * (groups * params.access).sum(axis=1)
    written = found * params.written_share
    hours = params.actions.hours[jnp.argmax(params.actions.resource == ROUND)]
    closed = jnp.stack([written.sum(), (inside - written).sum(), (goes - inside).sum(), 0.0])
    return StreamWork(
        days=(goes * front.days).sum(),
        unit_days=(goes * front.unit_days).sum(),
        correct=((found * (front.slack >= 0.0))[:, None] * groups).sum(axis=0),
        visits=(goes[:, None] * groups).sum(axis=0),
        hours=goes.sum() * hours,
        outcomes=closed,
    )


def _outcomes_now(params: StreamParams, case: CaseInHand, order: Order) -> jax.Array:
    """How the complaint in hand is closed in this step, (4,); all zero if it joins the queue."""
    now, off = order.to_crew.astype(jnp.float32), order.put_off.astype(jnp.float32)
    written = case.chance * case.access * params.written_share
    return jnp.stack([now * written, now * (case.access - written), now * (1.0 - case.access), off])


def open_at(
    place: jax.Array,
    level: jax.Array,
    stratum: jax.Array,
    stays: jax.Array,
    open_level: jax.Array,
    open_stratum: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """What is open at each place once the case in hand is dealt with; the gravest is kept."""
    back_at = jnp.minimum(level + 1, N_LEVELS - 1)
    is_here = (jnp.arange(open_level.shape[0]) == place) & stays
    is_kept = is_here & (back_at > open_level)
    return jnp.where(is_kept, back_at, open_level), jnp.where(is_kept, stratum, open_stratum)


class Arrived(NamedTuple):
    """The next complaint, and the incident that began in this step, which may not be the same.

    Where a complaint comes back, the call about the new incident at that place is not made: it
    goes unreported. So what begins does not depend on what is done.
    """

    kind: jax.Array
    stratum: jax.Array
    is_back: jax.Array
    begun_kind: jax.Array
    begun_stratum: jax.Array


def arrive(
    shape: StreamShape,
    params: StreamParams,
    season: jax.Array,
    open_level: jax.Array,
    open_stratum: jax.Array,
    draws: jax.Array,
) -> Arrived:
    """The next complaint, given two uniform numbers."""
    cell = draw_cell(params, season, draws[0])
    kind, stratum = cell // N_STRATA, cell % N_STRATA
    place = shape.place(kind)
    level = pick(open_level, place)
    is_back = (level > 0) & (draws[1] < pick(params.comes_back, place))
    returned = shape.kind(place, level, jnp.int32(shape.n_histories - 1))
    return Arrived(
        jnp.where(is_back, returned, kind),
        jnp.where(is_back, pick(open_stratum, place), stratum),
        is_back,
        kind,
        stratum,
    )


def grow(
    shape: StreamShape, params: StreamParams, arrived: Arrived
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """By how much a complaint that comes back has grown: days, unit days, chance; 0 for others.

    Against the same complaint one code milder, which it was when it was put off.
    """
    level = shape.level(arrived.kind)
    milder = jnp.maximum(arrived.kind - shape.n_histories, 0)
    now, before = params.kinds[arrived.kind], params.kinds[milder]
    harm = severity_weight(level) * now[0] - severity_weight(level - 1) * before[0]
    days = jnp.where(arrived.is_back, jnp.maximum(harm, 0.0) * params.lifetime_days, 0.0)
    chance = jnp.where(arrived.is_back, jnp.maximum(now[0] - before[0], 0.0), 0.0)
    return days, days * now[1], chance


def scale(
    params: StreamParams, days: jax.Array, hours: jax.Array, unit_days: jax.Array
) -> jax.Array:
    """Reward vector: speed, -cost, equity (the harness's), retention."""
    none = jnp.zeros((), jnp.float32)
    return jnp.stack(
        [
            days / params.speed_unit,
            -hours / params.cost_unit,
            none,
            unit_days / params.keep_unit,
        ]
    )


def transition(
    key: jax.Array, shape: StreamShape, params: StreamParams, state: StreamState, action: jax.Array
) -> Transition:
    """Carry out one action on the complaint in hand, let the office work, take in the next."""
    draws = jax.random.uniform(key, (6 + shape.n_places,))
    case, order = describe_case(shape, params, state), resolve_order(params, state, action)
    effect = (params.actions.effect * (jnp.arange(N_LEVELS) == case.level)).sum(axis=1)
    saved = case.days * pick(effect, order.action)
    least, rest = split_visits(params)
    n_visits = jnp.minimum((least + (draws[0] < rest)).astype(jnp.int32), MAX_VISITS)
    days = pick(params.days_per_step, state.season)
    queue, n_queued, work = _work_round(params, state, case, order, saved, n_visits, days)
    stays = order.put_off | (draws[5] < left_open(params, case.chance, case.access))
    open_level, open_stratum = open_at(
        case.place, case.level, state.stratum, stays, state.open_level, state.open_stratum
    )
    ends = draws[6:] < 1.0 - jnp.exp(-days / params.lifetime_days)
    open_level = jnp.where(ends, 0, open_level)
    moves_on = draws[1] < days / SEASON_DAYS
    season = jnp.where(moves_on, (state.season + 1) % N_SEASONS, state.season)
    arrived = arrive(shape, params, season, open_level, open_stratum, draws[2:4])
    taken_up = (jnp.arange(shape.n_places) == shape.place(arrived.kind)) & arrived.is_back
    next_state = StreamState(
        kind=arrived.kind,
        stratum=arrived.stratum,
        season=season,
        n_queued=n_queued,
        is_crew_busy=(state.is_crew_busy | order.to_crew) & (draws[4] >= params.crew_per_step),
        open_level=jnp.where(taken_up, 0, open_level),
        open_stratum=open_stratum,
        queue=queue,
    )
    return _account(shape, params, state, next_state, case, order, saved, work, arrived)


def _hours(params: StreamParams, case: CaseInHand, order: Order) -> jax.Array:
    """Inspector hours that an order takes, what is wasted where nothing is wrong included."""
    hours = pick(params.actions.hours, order.action)
    hours += (1.0 - case.chance) * pick(params.actions.wasted_hours, order.action)
    return jnp.where(order.put_off, 0.0, hours)


def _promise(
    params: StreamParams, state: StreamState, case: CaseInHand, order: Order
) -> tuple[jax.Array, jax.Array]:
    """Share of its worth that an order keeps until the visit, and whether that is in time."""
    ahead = pick(waiting_factors(params)[state.season], state.n_queued)
    factor = jnp.where(order.to_round, ahead, order.to_crew.astype(jnp.float32))
    wait = state.n_queued / jnp.maximum(params.visits_per_step, 1e-6)
    wait = wait * pick(params.days_per_step, state.season) + params.lead_days
    return factor, order.to_crew | (wait <= pick(params.service_days, case.level))


def _account(
    shape: StreamShape,
    params: StreamParams,
    state: StreamState,
    next_state: StreamState,
    case: CaseInHand,
    order: Order,
    saved: jax.Array,
    work: StreamWork,
    arrived: Arrived,
) -> Transition:
    """Reward, credit and tally of a step."""
    groups = jnp.arange(N_STRATA)
    here = (groups == state.stratum).astype(jnp.float32)
    there = (groups == arrived.stratum).astype(jnp.float32)
    begun_there = (groups == arrived.begun_stratum).astype(jnp.float32)
    now = order.to_crew.astype(jnp.float32)
    found = case.chance * case.access
    grown_days, grown_unit_days, grown_chance = grow(shape, params, arrived)
    hours = _hours(params, case, order)
    factor, in_time = _promise(params, state, case, order)
    chance, units = params.kinds[arrived.begun_kind]
    # What begins is charged in full, reported or not, and given back by the visit that ends it.
    begun = severity_weight(shape.level(arrived.begun_kind)) * chance
    begun = (
        begun
        * params.lifetime_days
        / jnp.maximum(pick(params.reported_share, arrived.begun_stratum), 1e-6)
    )
    need = begun_there / jnp.maximum(params.reported_share, 1e-6)
    spent = now * hours + work.hours
    published = scale(
        params,
        now * saved + work.days - grown_days - begun,
        spent,
        now * saved * case.units + work.unit_days - grown_unit_days - begun * units,
    )
    tally = Tally(
        published_reward=published,
        correct=here * now * found + work.correct,
        counted=here * now * found + work.correct,
        actionable=need * chance + there * grown_chance,
        incidents=need,
        reported_actionable=there * jnp.where(arrived.is_back, grown_chance, chance),
        complaints=there,
        visits=here * now + work.visits,
        hours=spent,
        outcomes=work.outcomes + _outcomes_now(params, case, order),
    )
    return Transition(
        state=next_state,
        reward=scale(
            params,
            saved * factor - grown_days,
            hours,
            saved * case.units * factor - grown_unit_days,
        ),
        terminated=jnp.zeros((), bool),
        credit=here * found * factor * in_time,
        tally=tally,
    )
