"""Positions by plain reductions agree with the library's own."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from parity311.engines.positions import first_of_largest, first_of_smallest, first_where


def test_the_first_of_several_equal_values_is_taken() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = jnp.asarray(rng.integers(0, 4, 9), jnp.float32)
        assert int(first_of_largest(values)) == int(jnp.argmax(values))
        assert int(first_of_smallest(values)) == int(jnp.argmin(values))


def test_infinities_count_and_nothing_true_is_the_last() -> None:
    assert int(first_of_smallest(jnp.full(4, jnp.inf))) == 0
    assert int(first_where(jnp.array([False, True, True]))) == 1
    assert int(first_where(jnp.zeros(5, bool))) == 4
