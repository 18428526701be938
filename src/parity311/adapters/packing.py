"""Trees of arrays as one vector of 32-bit words, because a compiled call pays for every array.

A single environment's step computes for some ten microseconds and spends the rest on handing
arrays over: some fifty of params and as many of state, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LARGEST_PACKED = 4096
"""Numbers up to which an array is packed: larger ones are handed over as they are, since taking a
table out of a vector at every step would cost more than handing it over."""


@dataclass(frozen=True)
class Form:
    """What a packed tree looks like; hashable, so that equal ones share a compiled program."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], str], ...]
    """shape and type of every array"""

    @property
    def is_packed(self) -> tuple[bool, ...]:
        """Whether an array lies in the vector, or beside it."""
        return tuple(int(np.prod(shape)) <= LARGEST_PACKED for shape, _ in self.leaves)


def form_of(tree: Any) -> Form:
    """Form of a tree of 32-bit numbers and booleans."""
    leaves, structure = jax.tree.flatten(tree)
    return Form(structure, tuple((tuple(x.shape), str(jnp.dtype(x.dtype))) for x in leaves))


def pack(tree: Any) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """The small arrays of a tree as one vector of words, and the large ones."""
    leaves, is_packed = jax.tree.leaves(tree), form_of(tree).is_packed
    small = [_to_words(x) for x, packed in zip(leaves, is_packed, strict=True) if packed]
    large = tuple(x for x, packed in zip(leaves, is_packed, strict=True) if not packed)
    words = jnp.concatenate(small) if small else jnp.zeros(0, jnp.uint32)
    return words, large


def unpack(form: Form, words: jax.Array, large: Sequence[jax.Array]) -> Any:
    """The tree that was packed."""
    leaves, beside, start = [], iter(large), 0
    for (shape, kind), packed in zip(form.leaves, form.is_packed, strict=True):
        if not packed:
            leaves.append(next(beside))
            continue
        size = int(np.prod(shape))
        leaves.append(_from_words(words[start : start + size], kind).reshape(shape))
        start += size
    return jax.tree.unflatten(form.structure, leaves)


def _to_words(values: jax.Array) -> jax.Array:
    flat = jnp.ravel(values)
    if flat.dtype == jnp.bool_:
        return flat.astype(jnp.uint32)
    return jax.lax.bitcast_convert_type(flat, jnp.uint32)


def _from_words(words: jax.Array, kind: str) -> jax.Array:
    if kind == "bool":
        return words != 0
    return jax.lax.bitcast_convert_type(words, jnp.dtype(kind))
