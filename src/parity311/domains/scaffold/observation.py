"""What a policy sees of a site."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from parity311.domains.scaffold.state import MAX_STEPS, MOST_TOKENS, Params, State, is_office_hour

OBSERVATION_NAMES = (
    "created_count", "open_count", "recurrent_7d", "zip_freq_24h", "time_since_last_resolution_h",
    "severity", "inspector_time", "is_ordered", "is_office_hour", "time_left",
)  # fmt: skip


def observe(params: Params, state: State) -> jax.Array:
    """The five published features, scaled; then code, inspector, order and clock."""
    usual = 1.0 + 24.0 * params.zip_rate[state.stratum]
    values = [
        state.n_created,
        jnp.minimum(state.n_open, 5.0) / 5.0,
        jnp.minimum(state.recurrent, 5.0) / 5.0,
        jnp.minimum(state.zip_freq / usual, 5.0) / 5.0,
        jnp.minimum(state.since_resolution / 168.0, 3.0) / 3.0,
        jnp.where(state.n_open > 0, 1.0 - state.code / 3.0, 0.0),
        state.tokens / MOST_TOKENS,
        (state.order > 0).astype(jnp.float32),
        is_office_hour(state.hour).astype(jnp.float32),
        1.0 - state.n_steps / MAX_STEPS,
    ]
    return jnp.stack(values).astype(jnp.float32)
