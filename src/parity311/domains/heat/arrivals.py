"""Random numbers of one step of a queue, drawn in one block, and what begins with them.

One draw of a hundred numbers is much faster than ten draws of ten, and one key is used once.
"""

from __future__ import annotations

from typing import NamedTuple

from parity311.arrays import jax, jnp
from parity311.domains.heat.office import MAX_ARRIVALS, N_ROWS
from parity311.mdp.contract import N_STRATA


class HeatDraws(NamedTuple):
    """Every random number of one step."""

    rows: jax.Array
    """(N_ROWS,) uniform"""
    pauses: jax.Array
    """(N_ROWS,) exponential"""
    access: jax.Array
    """(2,) uniform"""
    number: jax.Array
    """() uniform: how many incidents begin"""
    new: jax.Array
    """(5, MAX_ARRIVALS) uniform: stratum, kind, actionable, lifetime, delay of the first report"""
    weather: jax.Array
    """() standard normal"""
    canvass: jax.Array
    """() uniform: whether going from door to door finds something"""


def draw(key: jax.Array) -> HeatDraws:
    """Draw a step's random numbers."""
    n, m = N_ROWS, MAX_ARRIVALS
    block = jax.random.uniform(key, (2 * n + 5 * m + 5,), minval=1e-7)
    return HeatDraws(
        rows=block[:n],
        pauses=-jnp.log(block[n : 2 * n]),
        new=block[2 * n : 2 * n + 5 * m].reshape(5, m),
        access=block[-5:-3],
        number=block[-3],
        weather=jax.scipy.special.ndtri(block[-2]),
        canvass=block[-1],
    )


def poisson(chance: jax.Array, mean: jax.Array) -> jax.Array:
    """Poisson number from a uniform one, cut off at MAX_ARRIVALS."""
    terms = jnp.cumprod(mean / jnp.arange(1, MAX_ARRIVALS))
    cumulative = jnp.exp(-mean) * (1.0 + jnp.append(jnp.float32(0.0), jnp.cumsum(terms)))
    return (chance > cumulative).sum().astype(jnp.int32)


def choose(chance: jax.Array, cumulative: jax.Array) -> jax.Array:
    """One index for each uniform number (n,), given cumulative weights (n or 1, m)."""
    level = chance[:, None] * cumulative[:, -1:]
    return jnp.minimum((cumulative < level).sum(axis=1), cumulative.shape[1] - 1).astype(jnp.int32)


def count_by_stratum(stratum: jax.Array, is_counted: jax.Array) -> jax.Array:
    """How many of these are in each stratum, (6,)."""
    groups = jnp.arange(N_STRATA)[:, None] == stratum
    return (groups & is_counted).sum(axis=1).astype(jnp.float32)
