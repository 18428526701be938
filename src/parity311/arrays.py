"""JAX when it is first used, and functions that work on NumPy and on JAX arrays alike.

Training compiles everything with JAX; a policy is served with NumPy alone. So that both read the
same functions, `jax` and `jnp` are taken from here, where they are imported at the first use of a
name, and a function that both need asks `namespace_of` its arguments which of the two it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
else:

    class _ImportedWhenUsed(ModuleType):
        def __getattr__(self, name):
            value = getattr(import_module(self.__name__), name)
            setattr(self, name, value)
            return value

    jax = _ImportedWhenUsed("jax")
    jnp = _ImportedWhenUsed("jax.numpy")

__all__ = [
    "BRIEFLY",
    "compile_lightly",
    "in_numpy",
    "jax",
    "jitted",
    "jnp",
    "namespace_of",
    "settle",
    "side_by_side",
]

EFFORT = "xla_backend_optimization_level"
"""Flag of the compiler: 3 unless told otherwise."""
BRIEFLY = {"xla_cpu_use_fusion_emitters": False}
"""Compiler options of programs that run once or for a moment: half the time to compile, and half as
long again to run."""
PLAIN = (np.ndarray, np.generic, int, float, type(None))
"""What is no array of JAX: NumPy's arrays and numbers, Python's own, and nothing at all."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Tree = TypeVar("_Tree")


def namespace_of(*arrays: Any) -> Any:
    """NumPy where all of these are NumPy arrays or plain numbers, else `jax.numpy`."""
    return np if all(isinstance(array, PLAIN) for array in arrays) else jnp


def in_numpy(kind: Callable[..., _Tree], /, *parts: Any, **named: Any) -> _Tree:
    """A state of this kind with NumPy's arrays in it, for the functions that take either.

    States are declared with JAX's, which is what training fills them with.
    """
    return kind(*parts, **named)


def side_by_side(*parts: Any, beside: Any = None) -> Any:
    """Features (..., n) from n arrays with the same leading axes (...), as float32.

    `beside` (..., k) are further features that come after them.
    """
    xp = namespace_of(*parts, beside)
    columns = xp.broadcast_arrays(*(xp.asarray(part, np.float32) for part in parts))
    features = xp.stack(columns, axis=-1)
    if beside is None:
        return features
    return xp.concatenate([features, xp.asarray(beside, np.float32)], axis=-1)


def _is_plain(tree: Any) -> bool:
    """Whether nothing in these nested tuples is an array of JAX."""
    if isinstance(tree, tuple):
        return all(_is_plain(branch) for branch in tree)
    return isinstance(tree, PLAIN)


def settle(tree: _Tree) -> _Tree:
    """Keep the compiler from computing these again for all that reads them; NumPy stays as it is.

    What comes out is what went in: an array, or arrays in nested tuples.
    """
    return tree if _is_plain(tree) else jax.lax.optimization_barrier(tree)


def compile_lightly() -> None:
    """Let this process compile with less effort: two thirds of the time, programs as fast here.

    Sums round a little otherwise. Where JAX has been imported, or XLA_FLAGS says how much effort,
    nothing changes.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "jaxlib" not in sys.modules and EFFORT not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{EFFORT}=1".strip()


def jitted(*static: str) -> Callable[[_Function], _Function]:
    """Decorator: a function that JAX compiles when it is first called, for each value of `static`.

    `jax.jit` itself at the top of a module would import JAX with the module.
    """

    def decorate(function: _Function) -> _Function:
        @cache
        def compiled() -> Callable[..., Any]:
            return jax.jit(function, static_argnames=static)

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            return compiled()(*args, **named)

        return call  # type: ignore[return-value]

    return decorate
