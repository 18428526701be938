"""A training that can be interrupted: everything the next block needs, in one file.

A checkpoint is written aside and then renamed, so a process that is killed leaves the last whole
one. It carries who it belongs to; one of another version, domain, setting or process is refused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.errors import TrainingError
from parity311.storage.disk import telling_disk_errors
from parity311.storage.tensors import read_tensors, write_tensors
from parity311.version import __version__

FORMAT_VERSION = 1
FILE = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoints:
    """Where a training keeps what it needs to go on, and how often."""

    folder: Path
    every_s: float = 60.0
    """seconds between two; the last block is always kept"""
    resume: bool = False
    """go on from what is there; without it a folder that holds a checkpoint is refused"""

    @property
    def path(self) -> Path:
        """The file of the last checkpoint."""
        return self.folder / FILE


@dataclass(frozen=True)
class Restored:
    """What a checkpoint held."""

    carry: Any
    curve: list[dict[str, Any]]
    n_blocks: int


def digest_arrays(tree: Any) -> str:
    """Fingerprint of the arrays of a pytree (params, logged decisions)."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        values = np.asarray(leaf)
        found.update(f"{values.dtype}{values.shape}".encode())
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()[:16]


def write_checkpoint(
    kept: Checkpoints, identity: dict[str, Any], carry: Any, curve: list[dict[str, Any]]
) -> None:
    """Write the state after the last block of the curve, aside and then in place of the old."""
    tensors = {f"carry{name}": values for name, values in named_arrays(carry).items()}
    for name in curve[-1] if curve else ():
        if name != "steps":
            tensors[f"curve/{name}"] = np.stack([entry[name] for entry in curve])
    about = {
        "format_version": FORMAT_VERSION,
        "identity": {"software_version": __version__, **identity},
        "steps": [entry["steps"] for entry in curve],
    }
    with telling_disk_errors(kept.path):
        write_tensors(kept.path, tensors, about)


def read_checkpoint(kept: Checkpoints, identity: dict[str, Any], like: Any) -> Restored | None:
    """Restore the last checkpoint into the form of `like`; None where there is none yet."""
    if not kept.path.exists():
        return None
    if not kept.resume:
        raise TrainingError(
            f"{kept.folder} already holds a checkpoint; go on from it (--resume), or choose "
            "another folder."
        )
    try:
        tensors, about = read_tensors(kept.path)
        steps = about["steps"]
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise TrainingError(
            f"{kept.path} is no whole checkpoint ({error}); train again into a new folder."
        ) from error
    _check_identity(kept, about, identity)
    names = [name for name in tensors if name.startswith("curve/")]
    curve = [
        {"steps": taken, **{name[len("curve/") :]: tensors[name][i] for name in names}}
        for i, taken in enumerate(steps)
    ]
    return Restored(_fill(like, tensors), curve, len(steps))


def _check_identity(kept: Checkpoints, about: dict[str, Any], identity: dict[str, Any]) -> None:
    wanted = json.loads(json.dumps({"software_version": __version__, **identity}))
    found = about.get("identity", {})
    other = [name for name in wanted if found.get(name) != wanted[name]]
    if about.get("format_version") != FORMAT_VERSION:
        other = ["format_version", *other]
    if other:
        what = "; ".join(f"{name} {found.get(name)!r}, not {wanted.get(name)!r}" for name in other)
        raise TrainingError(
            f"The checkpoint in {kept.folder} belongs to another training ({what}); resume it with "
            "what it was started with, or choose another folder."
        )


def _is_key(values: Any) -> bool:
    return jnp.issubdtype(values.dtype, jax.dtypes.prng_key)


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Every array of a pytree by its path; random keys as their numbers."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        values = jax.random.key_data(leaf) if _is_key(leaf) else leaf
        found[jax.tree_util.keystr(path)] = np.asarray(values, order="C")
    return found


def _fill(like: Any, tensors: dict[str, np.ndarray]) -> Any:
    def one(path: Any, leaf: Any) -> Any:
        values = tensors[f"carry{jax.tree_util.keystr(path)}"]
        if _is_key(leaf):
            return jax.random.wrap_key_data(jnp.asarray(values))
        return jnp.asarray(values.reshape(leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(one, like)
