"""Params as arrays in a file: how a domain's estimate travels to a machine that only trains.

Such a machine needs jax, numpy and safetensors, and no package that reads records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from parity311.arrays import jax, jnp
from parity311.errors import TrainingError
from parity311.storage.disk import telling_disk_errors
from parity311.storage.tensors import read_tensors, write_tensors


def write_params(path: Path, params: Any) -> Path:
    """Write a domain's params as arrays, aside and then in place."""
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in _leaves(params)}
    with telling_disk_errors(path, TrainingError):
        return write_tensors(path, arrays)


def read_params(path: Path, like: Any) -> Any:
    """Read params in the form of others of the same domain (its example)."""
    try:
        found, _ = read_tensors(path)
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{path} holds no params ({error}); write them with write_params."
        ) from error
    names = [name for name, _ in _leaves(like)]
    if set(names) != set(found):
        other = sorted(set(names) ^ set(found))
        raise TrainingError(
            f"{path} belongs to another domain or version: {', '.join(other)} differ; write the "
            "params again."
        )
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(found[n]) for n in names])


def _leaves(params: Any) -> list[tuple[str, Any]]:
    """Every array by its path."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]
