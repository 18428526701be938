"""How an episode starts, and what four hours under a mode lead to."""

from __future__ import annotations

from parity311.arrays import jax, jnp, settle
from parity311.domains.elevator.crews import send_crews
from parity311.domains.elevator.modes import MODE_NUMBER, canvasses, make_orders, saving_of_visits
from parity311.domains.elevator.observation import look_at
from parity311.domains.elevator.state import (
    BOARDS,
    N_CREWS,
    SHAPE,
    Params,
    State,
    measure,
    n_on_duty,
)
from parity311.engines.backlog import process as engine
from parity311.engines.backlog.step import count_step, draw_step, pass_step, scale_reward
from parity311.mdp.contract import Transition

UNITS = (1000.0, 4.0)
"""Points of A30 + 2 S in one unit of speed (a visit then saves about 0.1), and crew hours in one
of cost: what a typical correct escalation takes, at six visits in four hours, one in six correct.
"""


def initial_state(key: jax.Array, params: Params) -> State:
    """A recorded backlog, the crews spread over the boards."""
    chance = jax.random.uniform(key, (1 + N_CREWS,))
    crews = (chance[1:] * len(BOARDS)).astype(jnp.int32)
    backlog, row = engine.start(params.backlog, chance[0])
    return settle(State(backlog, crews, params.start_seen[row]))


def carry_on(params: Params, state: State) -> State:
    """The next episode where the line and the crews stay as they are."""
    backlog = engine.carry_on(state.backlog)
    return settle(State(backlog, state.crews, look_at(params, backlog)))


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Send the crews by one mode, let four hours pass, take in what is reported."""
    before = state.backlog
    draws = draw_step(key, len(BOARDS), 2 * N_CREWS)
    orders = make_orders(params, state, action, prices, draws.own)
    saving = saving_of_visits(params, before.n_steps)
    sent = send_crews(before.waiting, state.crews, orders)
    dearest = jnp.argmax(engine.place_prices(params.backlog, prices))
    looked = jnp.where(canvasses(state, action), params.visits[1], 0.0)
    canvassed = (jnp.arange(len(BOARDS)) == dearest, looked)
    stepped = pass_step(params.backlog, before, sent.visited, draws, SHAPE, canvassed)
    hours = jnp.float32(4.0) * n_on_duty(before.slot) * (action != MODE_NUMBER["NO_DISPATCH"])
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
