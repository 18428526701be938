"""What a policy sees of a site."""

from __future__ import annotations

from parity311.arrays import jax, namespace_of, side_by_side
from parity311.domains.scaffold.state import MAX_STEPS, MOST_TOKENS, Params, State, is_office_hour

OBSERVATION_NAMES = (
    "created_count", "open_count", "recurrent_7d", "zip_freq_24h", "time_since_last_resolution_h",
    "severity", "inspector_time", "is_ordered", "is_office_hour", "time_left",
)  # fmt: skip


def observe(params: Params, state: State) -> jax.Array:
    """The five published features, scaled; then code, inspector, order and clock.

    NumPy or JAX, with any leading axes; what is latent is not read and may be None.
    """
    xp = namespace_of(params.zip_rate, state.stratum, state.n_open)
    usual = 1.0 + 24.0 * params.zip_rate[state.stratum]
    return side_by_side(
        state.n_created,
        xp.minimum(state.n_open, 5.0) / 5.0,
        xp.minimum(state.recurrent, 5.0) / 5.0,
        xp.minimum(state.zip_freq / usual, 5.0) / 5.0,
        xp.minimum(state.since_resolution / 168.0, 3.0) / 3.0,
        xp.where(state.n_open > 0, 1.0 - state.code / 3.0, 0.0),
        state.tokens / MOST_TOKENS,
        state.order > 0,
        is_office_hour(state.hour),
        1.0 - state.n_steps / MAX_STEPS,
    )
