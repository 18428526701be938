"""Where the largest or smallest of a few values stands.

Two plain reductions each, because one that carries the position along is slow on a CPU.
"""

from __future__ import annotations

from parity311.arrays import jax, jnp


def first_where(is_it: jax.Array) -> jax.Array:
    """Position of the first true entry of (n,); the last position where there is none."""
    n = is_it.shape[0]
    return jnp.where(is_it, jnp.arange(n), n - 1).min()


def first_of_largest(values: jax.Array) -> jax.Array:
    """Position of the largest of (n,) values, the first where several are."""
    return first_where(values == values.max())


def first_of_smallest(values: jax.Array) -> jax.Array:
    """Position of the smallest of (n,) values, the first where several are."""
    return first_where(values == values.min())
