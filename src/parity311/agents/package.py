"""A policy on disk: arrays in one file, all that must be known of them in another.

A package holds what serves it and nothing that trained it: the policy's own arrays, today's rule
as arrays, the estimated process that scales what is seen, what training saw, and the policies that
other draws or seeds gave. Reading it takes NumPy alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from parity311.agents.forward import part_of
from parity311.errors import RunError
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import SEAL, hash_file, is_seal_broken, seal
from parity311.storage.tensors import read_tensors, write_tensors

FORMAT_VERSION = 2
"""Rises whenever a package of an older version can no longer be served."""
OLDEST_READABLE = 1
"""Packages from here on can be decided with; what serving needs came with format 2."""
WEIGHTS = "policy.safetensors"
MANIFEST = "policy.json"

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Package:
    """What a policy's folder holds."""

    weights: Arrays
    """the policy, as `parity311.agents.forward` scores it"""
    manifest: dict[str, Any]
    rule: Arrays = field(default_factory=dict)
    """today's rule, likewise"""
    params: Any = None
    """the estimated process, its arrays as attributes; None in a package of format 1"""
    seen: Arrays = field(default_factory=dict)
    """`low`, `high` and `typical` (n_features,): what training saw of each feature"""
    voters: tuple[Arrays, ...] = ()
    """the same policy from other draws of the estimated process, or other seeds"""


def write_package(folder: Path, package: Package) -> Path:
    """Write a package; the manifest is written last, and only a whole one counts."""
    parts: dict[str, Any] = {"policy": package.weights}
    if package.params is not None:
        parts |= {"rule": package.rule, "params": package.params, "seen": package.seen}
        parts |= {f"voter_{i:02d}": voter for i, voter in enumerate(package.voters)}
    with telling_disk_errors(folder):
        path = write_tensors(folder / WEIGHTS, flatten(parts))
        manifest = {**package.manifest, "format_version": FORMAT_VERSION}
        sealed = seal({**manifest, "weights_sha256": hash_file(path)})
        write_text_aside(folder / MANIFEST, json.dumps(sealed, indent=1) + "\n")
    return folder


def read_package(folder: Path) -> Package:
    """Read a package and check that it is whole and of a format that can be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        version = manifest["format_version"]
        arrays, _ = read_tensors(folder / WEIGHTS)
        # Packages of the oldest format have no seal; from all others it cannot go missing.
        is_bare = version != OLDEST_READABLE and SEAL not in manifest
        is_changed = is_bare or is_seal_broken(manifest) or _is_other(folder / WEIGHTS, manifest)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise RunError(
            f"There is no whole policy in {folder} ({why}); train and save it again."
        ) from error
    if not isinstance(version, int) or not OLDEST_READABLE <= version <= FORMAT_VERSION:
        raise RunError(
            f"The policy in {folder} has format {version}; this version reads {OLDEST_READABLE} to "
            f"{FORMAT_VERSION}. Train and save it again, or use the version of parity311 that "
            f"wrote it ({manifest.get('software_version', 'not named')})."
        )
    if is_changed:
        raise RunError(
            f"The policy in {folder} was changed since it was saved; train and save it again."
        )
    if version == OLDEST_READABLE:
        return Package(arrays, manifest)
    params = part_of(arrays, "params")
    voters = sorted({name.split("/")[0] for name in arrays if name.startswith("voter_")})
    return Package(
        weights=part_of(arrays, "policy"),
        manifest=manifest,
        rule=part_of(arrays, "rule"),
        params=nest(params) if params else None,
        seen=part_of(arrays, "seen"),
        voters=tuple(part_of(arrays, name) for name in voters),
    )


def _is_other(weights: Path, manifest: dict[str, Any]) -> bool:
    """Whether these are not the weights the manifest was written with; older ones name none."""
    named = manifest.get("weights_sha256")
    return named is not None and named != hash_file(weights)


def flatten(nested: Any, prefix: str = "") -> Arrays:
    """Nested mappings and named tuples of arrays by name, parts joined by a slash."""
    if hasattr(nested, "_asdict"):
        nested = nested._asdict()
    if isinstance(nested, SimpleNamespace):
        nested = vars(nested)
    if not isinstance(nested, Mapping):
        return {prefix: np.asarray(nested, order="C")}
    found: Arrays = {}
    for name, part in nested.items():
        found |= flatten(part, f"{prefix}/{name}" if prefix else name)
    return found


def nest(arrays: Arrays) -> SimpleNamespace:
    """Arrays by name as attributes, a slash in a name being a level."""
    found = SimpleNamespace()
    for name, values in arrays.items():
        *levels, last = name.split("/")
        place = found
        for level in levels:
            if not hasattr(place, level):
                setattr(place, level, SimpleNamespace())
            place = getattr(place, level)
        setattr(place, last, values)
    return found
