"""Packed trees come back as they were; what is too large stays beside them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity311.adapters.environment import LARGEST_PACKED, form_of, pack, unpack
from parity311.bench.environments import CACHED_BYTES, MOST_SIDE_BY_SIDE, fitting_episodes

TREE = {
    "number": jnp.float32(-0.1),
    "row": jnp.int32([3, -7]),
    "flags": jnp.array([[True, False], [False, True]]),
    "key": jax.random.key_data(jax.random.key(5)),
    "table": jnp.arange(LARGEST_PACKED + 1, dtype=jnp.float32),
}


def test_a_packed_tree_comes_back_as_it_was() -> None:
    words, large = pack(TREE)
    assert words.dtype == jnp.uint32
    assert words.shape == (1 + 2 + 4 + 2,)
    assert [x.shape for x in large] == [(LARGEST_PACKED + 1,)]
    back = unpack(form_of(TREE), words, large)
    for before, after in zip(jax.tree.leaves(TREE), jax.tree.leaves(back), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)


def test_trees_of_another_shape_do_not_share_a_program() -> None:
    other = {**TREE, "row": jnp.int32([3, -7, 1])}
    assert form_of(TREE) == form_of(jax.tree.map(jnp.array, TREE))
    assert form_of(TREE) != form_of(other)


@pytest.mark.parametrize(("n_bytes", "expected"), [(80, MOST_SIDE_BY_SIDE), (16_740, 64)])
def test_states_side_by_side_fit_into_the_cache(n_bytes: int, expected: int) -> None:
    assert fitting_episodes(n_bytes) == expected
    assert fitting_episodes(n_bytes) * n_bytes <= CACHED_BYTES
    assert fitting_episodes(10 * CACHED_BYTES) == 1
