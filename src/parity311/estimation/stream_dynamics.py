"""The functions of a domain that is a stream of complaints, from its office and its observation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from parity311.arrays import jax, jnp, namespace_of
from parity311.engines.stream import process as stream
from parity311.engines.stream import step as stream_step
from parity311.engines.stream.process import StreamParams, StreamShape, StreamState
from parity311.engines.stream.rules import StreamLayout, stream_candidates
from parity311.estimation.stream import draw_ends, estimate_params
from parity311.estimation.stream_book import StreamOffice
from parity311.mdp.contract import Action, Dynamics, Transition

COVERAGE_PRICED = Action("coverage_priced", escalates=True, cost_hours=1.0)
"""The action beyond the paper's: order a visit where days at stake and coverage price are worth
it."""


def stream_dynamics(
    office: StreamOffice,
    layout: StreamLayout,
    *,
    observe: Callable[[StreamParams, StreamState], jax.Array],
    example: Callable[[], StreamParams],
    truth: Callable[..., StreamParams],
    solve: Callable[..., Any] | None = None,
) -> Dynamics:
    """Put a stream domain's functions together; actions beyond the published one are priced."""
    shape = office.shape
    return Dynamics(
        params_type=StreamParams,
        initial_state=partial(_start, shape),
        transition=partial(_step, shape),
        observe=observe,
        current_stratum=stream.current_stratum,
        need_per_step=stream.need_per_step,
        incidents_per_step=incidents_per_step,
        steps_per_day=stream.steps_per_day,
        example=example,
        estimate=partial(estimate_params, office),
        unknowns=partial(draw_ends, office),
        truth=truth,
        n_waiting=stream.n_waiting,
        capacity_per_step=stream.capacity_per_step,
        solve=solve,
        candidates=partial(stream_candidates, layout),
    )


def incidents_per_step(params: StreamParams) -> jax.Array:
    """All incidents that begin per step, reported or not, by stratum (6,)."""
    certain = namespace_of(params.kinds).ones_like(params.kinds)
    return stream.need_per_step(params._replace(kinds=certain))


def _start(shape: StreamShape, key: jax.Array, params: StreamParams) -> StreamState:
    return stream.initial_state(key, shape, params)


def _step(
    shape: StreamShape,
    key: jax.Array,
    params: StreamParams,
    state: StreamState,
    action: jax.Array,
    prices: jax.Array,
) -> Transition:
    n_published = params.actions.resource.shape[0]
    priced = stream_step.resolve_price(shape, params, state, stream.pick(prices, state.stratum))
    taken = jnp.where(action >= n_published, priced, action)
    return stream_step.transition(key, shape, params, state, taken)
